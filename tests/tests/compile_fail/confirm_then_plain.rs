//! A publish on the plain channel after confirm.select would be numbered by the broker and not by the client.

use amqp_client::error::Error;
use amqp_client::{Channel, Message};

pub async fn mixed(channel: Channel) -> Result<(), Error> {
    let _confirms = channel.confirm_select().await?;
    channel.publish("", "q", Message::new("unnumbered")).await?; //~ E0382
    Ok(())
}
