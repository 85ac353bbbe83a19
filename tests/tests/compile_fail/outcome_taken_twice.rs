//! A publish has one outcome.

use amqp_client::Confirm;

pub async fn twice(confirm: Confirm) {
    let _first = confirm.await;
    let _second = confirm.await; //~ E0382
}
