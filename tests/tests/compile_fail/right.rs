//! What the other files do wrong, done right.

#![deny(unused_must_use)]

use amqp_client::error::Error;
use amqp_client::{Channel, ConfirmChannel, Message, Outcome};

pub async fn confirms(channel: Channel) -> Result<(), Error> {
    channel.publish("", "q", Message::new("plain")).await?;
    let confirms: ConfirmChannel = channel.confirm_select().await?;
    let other = confirms.clone();
    let one = confirms.publish("", "q", Message::new("1"));
    let two = other.publish("", "q", Message::new("2"));
    let two = two.await?;
    match one.await?.await {
        Outcome::Acked => {}
        _ => {}
    }
    let _outcome = two.await;
    Ok(())
}

pub async fn transactions(channel: Channel) -> Result<(), Error> {
    let mut tx = channel.tx_select().await?;
    tx.publish("", "q", Message::new("1")).await?;
    tx.commit().await?;
    tx.publish("", "q", Message::new("2")).await?;
    tx.rollback().await?;
    Ok(())
}
