use amqp_codec::{ShortStr, Table, exchange, queue};

use super::Connection;
use crate::failure::Failure;

/// Queues, exchanges and bindings: the usual ones. For others there is [`call`](Connection::call).
impl Connection {
    /// Declares a queue that goes with this connection.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn declare_queue(
        &mut self,
        channel: u16,
        queue: impl AsRef<[u8]>,
    ) -> Result<queue::DeclareOk<'static>, Failure> {
        self.declare_queue_with(channel, queue, Table::EMPTY).await
    }

    /// Declares a queue that goes with this connection, with these arguments.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn declare_queue_with(
        &mut self,
        channel: u16,
        queue: impl AsRef<[u8]>,
        arguments: Table<'_>,
    ) -> Result<queue::DeclareOk<'static>, Failure> {
        let declare = queue::Declare {
            queue: ShortStr::try_from(queue.as_ref())?,
            exclusive: true,
            arguments,
            ..Default::default()
        };
        self.call(channel, declare).await
    }

    /// Declares an exchange: neither durable nor anything else. Its name is best one of
    /// [`Context::exchange`](crate::Context::exchange).
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn declare_exchange(
        &mut self,
        channel: u16,
        exchange: impl AsRef<[u8]>,
        kind: &str,
    ) -> Result<(), Failure> {
        let declare = exchange::Declare {
            exchange: ShortStr::try_from(exchange.as_ref())?,
            kind: ShortStr::try_from(kind)?,
            ..Default::default()
        };
        self.call::<exchange::DeclareOk>(channel, declare)
            .await
            .map(drop)
    }

    /// Binds a queue to an exchange.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn bind_queue(
        &mut self,
        channel: u16,
        queue: impl AsRef<[u8]>,
        exchange: impl AsRef<[u8]>,
        routing_key: impl AsRef<[u8]>,
    ) -> Result<(), Failure> {
        let bind = queue::Bind {
            queue: ShortStr::try_from(queue.as_ref())?,
            exchange: ShortStr::try_from(exchange.as_ref())?,
            routing_key: ShortStr::try_from(routing_key.as_ref())?,
            ..Default::default()
        };
        self.call::<queue::BindOk>(channel, bind).await.map(drop)
    }

    /// How many messages are ready in a queue.
    ///
    /// # Errors
    /// There is no such queue.
    pub async fn message_count(
        &mut self,
        channel: u16,
        queue: impl AsRef<[u8]>,
    ) -> Result<u32, Failure> {
        let declare = queue::Declare {
            queue: ShortStr::try_from(queue.as_ref())?,
            passive: true,
            ..Default::default()
        };
        self.call::<queue::DeclareOk>(channel, declare)
            .await
            .map(|ok| ok.message_count)
    }
}
