//! A clone kept from before confirm.select would publish unnumbered.

fn cloneable<T: Clone>() {}

pub fn check() {
    cloneable::<amqp_client::ConfirmChannel>();
    cloneable::<amqp_client::Channel>(); //~ E0277
}
