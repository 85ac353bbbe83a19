//! A confirm that nobody awaits, and an outcome that nobody looks at, are warned about.

#![deny(unused_must_use)]

use amqp_client::error::Error;
use amqp_client::{ConfirmChannel, Message};

pub async fn ignored(channel: ConfirmChannel) -> Result<(), Error> {
    channel.publish("", "q", Message::new("1")).await?; //~ must be used
    channel.publish("", "q", Message::new("2")).await?.await; //~ must be used
    Ok(())
}
