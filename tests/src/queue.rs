//! What is in a queue, asked in raw frames.

use std::net::SocketAddr;

use amqp_codec::basic::Properties;
use amqp_codec::{MethodId, ShortStr, Table, basic, queue};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::raw::RawClient;
use crate::wire::{Content, Typed};

/// A message got from a queue.
pub type Got = Content<basic::GetOk<'static>>;

/// Takes all messages out of a queue, over a connection of its own: what a test believes, whatever the client says.
///
/// # Panics
/// There is no such queue, or the broker does not answer.
pub async fn drain(address: SocketAddr, vhost: &str, queue: &str) -> Vec<Got> {
    let mut client = RawClient::open(address, vhost).await;
    client.open_channel(1).await;
    let messages = client.drain(1, queue).await;
    client.close().await;
    messages
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawClient<S> {
    /// Declares a classic queue, durable and with these arguments.
    ///
    /// # Panics
    /// The server refuses.
    pub async fn declare(&mut self, channel: u16, queue: &str, arguments: Table<'static>) {
        let declare = queue::Declare {
            queue: name(queue),
            durable: true,
            arguments,
            ..Default::default()
        };
        self.call::<queue::DeclareOk>(channel, declare).await;
    }

    /// How many messages are ready in a queue.
    ///
    /// # Panics
    /// There is no such queue.
    pub async fn message_count(&mut self, channel: u16, queue: &str) -> u32 {
        let declare = queue::Declare {
            queue: name(queue),
            passive: true,
            ..Default::default()
        };
        self.call::<queue::DeclareOk>(channel, declare)
            .await
            .message_count
    }

    /// Publishes without further ado.
    pub async fn publish(&mut self, channel: u16, exchange: &str, routing_key: &str, body: &[u8]) {
        let publish = basic::Publish {
            exchange: name(exchange),
            routing_key: name(routing_key),
            ..Default::default()
        };
        self.send_content(channel, publish, &Properties::EMPTY, body)
            .await;
    }

    /// Gets one message, acknowledged by that.
    ///
    /// # Panics
    /// There is no such queue.
    pub async fn get(&mut self, channel: u16, queue: &str) -> Option<Got> {
        let get = basic::Get {
            queue: name(queue),
            no_ack: true,
            ..Default::default()
        };
        self.send(channel, get).await;
        let answer = self
            .expect_where(channel, "basic.get-ok or basic.get-empty", |method| {
                [MethodId::BASIC_GET_OK, MethodId::BASIC_GET_EMPTY].contains(&method.id())
            })
            .await;
        let method = basic::GetOk::from_method(answer)?;
        Some(self.content_of(channel, method).await)
    }

    /// Takes all messages out of a queue, in order.
    ///
    /// # Panics
    /// There is no such queue.
    pub async fn drain(&mut self, channel: u16, queue: &str) -> Vec<Got> {
        let mut messages = Vec::new();
        while let Some(message) = self.get(channel, queue).await {
            messages.push(message);
        }
        messages
    }
}

fn name(text: &str) -> ShortStr<'_> {
    ShortStr::try_from(text).expect("a name of at most 255 bytes")
}
