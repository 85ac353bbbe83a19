//! Two tasks with one transaction would commit each other's halves.

fn cloneable<T: Clone>() {}

pub fn check() {
    cloneable::<amqp_client::TxChannel>(); //~ E0277
}
