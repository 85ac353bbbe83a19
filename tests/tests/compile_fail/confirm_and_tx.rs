//! The broker refuses the one mode on a channel that is in the other (406).

use amqp_client::{Channel, ConfirmChannel, TxChannel};

pub async fn confirm_then_tx(channel: ConfirmChannel) {
    let _ = channel.tx_select().await; //~ E0599
}

pub async fn tx_then_confirm(channel: TxChannel) {
    let _ = channel.confirm_select().await; //~ E0599
}

pub async fn both(channel: Channel) {
    let _ = channel.confirm_select().await;
    let _ = channel.tx_select().await; //~ E0382
}
