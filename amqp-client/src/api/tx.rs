//! Channels in transaction mode.

use std::fmt;
use std::ops::Deref;

use amqp_codec::{MethodId, ShortStr, TooLong};
use tracing::Instrument;

use super::Methods;
use super::channel::{View, addressed, publish_unconfirmed};
use super::trace::rpc_span;
use crate::error::{CommitError, Error, Operation, PublishError};
use crate::message::Message;
use crate::outcome::Returned;
use crate::proto::Reply;

/// A channel whose publishes and acks take effect at [`commit`](Self::commit).
///
/// RabbitMQ promises no atomicity across queues, nor when a node fails. The calls that publish, commit and
/// roll back take `&mut self`: nothing may be sent on the channel while a commit is unanswered. What a
/// detached [`Acker`](super::Acker) sends meanwhile waits for the answer.
///
/// It derefs to [`Methods`]. Dropping it closes the channel; what was not committed is not in effect.
pub struct TxChannel {
    methods: Methods,
}

/// A transaction that is in effect.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Committed {
    /// Mandatory messages of the transaction that no queue took.
    pub returned: Vec<Returned>,
}

impl TxChannel {
    pub(super) fn new(methods: Methods) -> Self {
        TxChannel { methods }
    }

    /// Publishes a message as part of the transaction. Waits, at most 30 seconds, while the outgoing buffer is full
    /// or the broker has blocked the connection.
    ///
    /// # Errors
    /// Nothing was sent, and the message is in the error.
    ///
    /// # Cancel safety
    /// Dropped while it waits, nothing is sent.
    pub async fn publish<E, K>(
        &mut self,
        exchange: E,
        routing_key: K,
        message: Message,
    ) -> Result<(), PublishError>
    where
        E: TryInto<ShortStr<'static>>,
        K: TryInto<ShortStr<'static>>,
        TooLong: From<E::Error> + From<K::Error>,
    {
        let publication = addressed(exchange, routing_key, message)?;
        publish_unconfirmed(self.methods.core(), publication, crate::proto::DEFAULT_WAIT).await
    }

    /// Puts everything published and acked since the last commit or rollback into effect (tx.commit).
    ///
    /// # Errors
    /// [`CommitError`]: not committed, refused, or unknown. The channel is closed then.
    ///
    /// # Cancel safety
    /// Dropping the future closes the channel, and nobody knows whether the transaction is in effect.
    pub async fn commit(&mut self) -> Result<Committed, CommitError> {
        let core = self.methods.core();
        let send = |view: &mut View<'_>, request| view.commit(request);
        let call = core
            .start_call(send, |_, _| {})
            .map_err(CommitError::NotCommitted)?;
        let deadline = core.deadlines().rpc;
        let span = rpc_span(core.id, Operation::Reply(MethodId::TX_COMMIT));
        match tokio::time::timeout(deadline, call).instrument(span).await {
            Ok(Ok(Reply::Committed(returned))) => Ok(Committed { returned }),
            Ok(Ok(_)) => Err(CommitError::Unknown("another reply came".to_owned())),
            Ok(Err(error)) => Err(CommitError::from_request(error)),
            Err(_) => Err(CommitError::Unknown(format!(
                "no answer within {deadline:?}"
            ))),
        }
    }

    /// Undoes everything published and acked since the last commit or rollback (tx.rollback). Deliveries that
    /// were acked in the transaction are outstanding again. Returns the mandatory messages of the transaction that
    /// had come back.
    ///
    /// # Errors
    /// The channel or connection ends, or no answer comes within the RPC deadline: nothing of the transaction is in
    /// effect then either.
    ///
    /// # Cancel safety
    /// Dropping the future closes the channel; nothing of the transaction is in effect.
    pub async fn rollback(&mut self) -> Result<Vec<Returned>, Error> {
        let send = |view: &mut View<'_>, request| view.rollback(request);
        let pick = |reply| match reply {
            Reply::RolledBack(returned) => Some(returned),
            _ => None,
        };
        self.methods
            .core()
            .call(MethodId::TX_ROLLBACK, send, pick)
            .await
    }
}

impl Deref for TxChannel {
    type Target = Methods;

    fn deref(&self) -> &Methods {
        &self.methods
    }
}

impl fmt::Debug for TxChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TxChannel")
            .field(&self.methods.core().id.number)
            .finish()
    }
}
