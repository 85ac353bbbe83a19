//! Channels in no particular mode, and what all channels have in common.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use amqp_codec::{MethodId, ReplyCode, ShortStr, TooLong};
use tracing::Span;

use super::confirm::{try_once, wait_for_room};
use super::connection::ConnectionCore;
use super::request::Call;
use super::trace::channel_span;
use super::{ConfirmChannel, Methods, TxChannel};
use crate::config::Deadlines;
use crate::driver::{Interest, Shared, State};
use crate::error::{Closed, Error, Operation, PublishError, UsageError};
use crate::message::{Message, Publication};
use crate::proto::{ChannelId, ChannelView, ConfirmOptions, Reply, RequestId};

/// A channel of a connection of ours.
pub(super) type View<'a> = ChannelView<'a, Interest>;

/// What all handles of a channel hold on to. When the last one goes, the channel closes.
pub(crate) struct ChannelCore {
    connection: Arc<ConnectionCore>,
    pub(super) id: ChannelId,
    /// Where the channel is in the shared state.
    pub(super) slot: usize,
    /// Lasts as long as the handles, within the connection's.
    _span: Span,
}

impl ChannelCore {
    pub(super) fn new(connection: Arc<ConnectionCore>, id: ChannelId, slot: usize) -> Arc<Self> {
        let span = channel_span(&connection.span, id);
        Arc::new(ChannelCore {
            connection,
            id,
            slot,
            _span: span,
        })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.connection.shared
    }

    pub(super) fn deadlines(&self) -> &Deadlines {
        &self.connection.deadlines
    }

    /// Does something with the channel's state.
    pub(super) fn with<R>(
        &self,
        act: impl FnOnce(&mut View<'_>) -> Result<R, UsageError>,
    ) -> Result<R, UsageError> {
        self.shared().with(|state| {
            let result = state
                .conn
                .channel(self.id)
                .and_then(|mut view| act(&mut view));
            result.map_err(|error| state.explain(self.slot, error))
        })
    }

    /// Sends a synchronous method and waits for its answer.
    pub(super) async fn call<R>(
        &self,
        method: MethodId,
        send: impl FnOnce(&mut View<'_>, RequestId) -> Result<(), UsageError>,
        pick: impl FnOnce(Reply) -> Option<R>,
    ) -> Result<R, Error> {
        let call = self.start_call(send, |_, _| {})?;
        call.within(self.deadlines().rpc, Operation::Reply(method), pick)
            .await
    }

    /// Sends a synchronous method. `prepare` does what must be done before the answer can come.
    pub(super) fn start_call(
        &self,
        send: impl FnOnce(&mut View<'_>, RequestId) -> Result<(), UsageError>,
        prepare: impl FnOnce(&mut State, RequestId),
    ) -> Result<Call, UsageError> {
        let request = self.shared().with(|state| {
            let request = state.new_request();
            let sent = state
                .conn
                .channel(self.id)
                .and_then(|mut view| send(&mut view, request));
            match sent {
                Ok(()) => {
                    prepare(state, request);
                    Ok(request)
                }
                Err(error) => {
                    state.forget_request(request);
                    Err(state.explain(self.slot, error))
                }
            }
        })?;
        Ok(Call::new(self.shared().clone(), request, self.id))
    }

    /// Closes the channel once its publishes are settled.
    pub(super) async fn close(&self) -> Result<(), Error> {
        self.close_by(|view, request| view.close_when_settled(Some(request)))
            .await
    }

    /// Closes the channel at once.
    pub(super) async fn close_with(
        &self,
        code: ReplyCode,
        text: ShortStr<'static>,
    ) -> Result<(), Error> {
        self.close_by(|view, request| view.close(Some(request), code, text))
            .await
    }

    async fn close_by(&self, close: impl FnOnce(&mut View<'_>, RequestId)) -> Result<(), Error> {
        let send = |view: &mut View<'_>, request| {
            close(view, request);
            Ok(())
        };
        // The answer comes behind what the server still sends to consumers.
        let call = self.start_call(send, |state, _| state.lift_budgets(self.slot))?;
        let operation = Operation::Reply(MethodId::CHANNEL_CLOSE);
        call.within(self.deadlines().close, operation, |_| Some(()))
            .await
    }

    pub(super) fn closed(&self) -> Option<Arc<Closed>> {
        self.shared().lock().channels[self.slot].closed.clone()
    }
}

impl Drop for ChannelCore {
    fn drop(&mut self) {
        self.shared().with(|state| state.drop_channel(self.slot));
    }
}

/// Picks a reply method of one type.
macro_rules! pick {
    ($variant:ident) => {
        |reply| match reply {
            crate::proto::Reply::Method(amqp_codec::Method::$variant(ok)) => Some(ok),
            _ => None,
        }
    };
}
pub(super) use pick;

/// A channel in no particular mode: what is published on it is neither confirmed nor part of a transaction.
///
/// It derefs to [`Methods`]: declaring, consuming and everything else a channel can do in any mode. It
/// is no `Clone`, so that nobody publishes on it unnumbered after it was turned into a [`ConfirmChannel`];
/// share it by reference or in an `Arc`.
///
/// Dropping it closes the channel in the background.
pub struct Channel {
    methods: Methods,
}

impl Channel {
    pub(super) fn new(core: Arc<ChannelCore>) -> Self {
        Channel {
            methods: Methods::new(core),
        }
    }

    /// Puts the channel in confirm mode (confirm.select): every publish gets an outcome. The confirm
    /// timeout is the connection's confirm deadline; the other bounds are those of [`ConfirmOptions`].
    ///
    /// # Errors
    /// The channel or connection ends; no answer within the RPC deadline. The channel is closed then.
    ///
    /// # Cancel safety
    /// Dropping the future closes the channel.
    pub async fn confirm_select(self) -> Result<ConfirmChannel, Error> {
        let timeout = self.methods.core().deadlines().confirm;
        self.confirm_select_with(ConfirmOptions::default().timeout(timeout))
            .await
    }

    /// [`confirm_select`](Self::confirm_select) with bounds of your own.
    ///
    /// # Errors
    /// As [`confirm_select`](Self::confirm_select).
    ///
    /// # Cancel safety
    /// As [`confirm_select`](Self::confirm_select).
    pub async fn confirm_select_with(
        self,
        options: ConfirmOptions,
    ) -> Result<ConfirmChannel, Error> {
        let core = self.methods.core();
        let wait = options.wait;
        core.call(
            MethodId::CONFIRM_SELECT,
            |view, request| view.select_confirms(request, options),
            pick!(ConfirmSelectOk),
        )
        .await?;
        Ok(ConfirmChannel::new(self.methods, wait))
    }

    /// Puts the channel in transaction mode (tx.select).
    ///
    /// # Errors
    /// As [`confirm_select`](Self::confirm_select).
    ///
    /// # Cancel safety
    /// As [`confirm_select`](Self::confirm_select).
    pub async fn tx_select(self) -> Result<TxChannel, Error> {
        let select = |view: &mut View<'_>, request| view.select_tx(request);
        self.methods
            .core()
            .call(MethodId::TX_SELECT, select, pick!(TxSelectOk))
            .await?;
        Ok(TxChannel::new(self.methods))
    }

    /// Publishes a message and learns nothing of what becomes of it: fire and forget. Should it be mandatory and
    /// come back, it is in [`returns`](Methods::returns).
    ///
    /// When this returns, the message is in the outgoing buffer, not yet on the wire: a program that ends before
    /// [`Connection::close`](super::Connection::close) has, loses what is there.
    ///
    /// Waits, at most 30 seconds, while the outgoing buffer is full or the broker has blocked the connection.
    ///
    /// # Errors
    /// Nothing was sent, and the message is in the error.
    ///
    /// # Cancel safety
    /// Dropped while it waits, nothing is sent.
    pub async fn publish<E, K>(
        &self,
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
        let core = self.methods.core();
        publish_unconfirmed(core, publication, crate::proto::DEFAULT_WAIT).await
    }
}

/// Puts a message that is not confirmed into the outgoing buffer, when there is room.
pub(super) async fn publish_unconfirmed(
    core: &Arc<ChannelCore>,
    publication: Publication,
    wait: Duration,
) -> Result<(), PublishError> {
    let mut unsent = Some(publication);
    match try_once(core, &mut unsent, &State::publish_unconfirmed) {
        Ok(()) => Ok(()),
        Err(reason) => wait_for_room(core, reason, unsent, wait, State::publish_unconfirmed).await,
    }
}

/// A message with its address, or the message back if the address cannot be.
#[inline]
pub(super) fn addressed<E, K>(
    exchange: E,
    routing_key: K,
    message: Message,
) -> Result<Publication, PublishError>
where
    E: TryInto<ShortStr<'static>>,
    K: TryInto<ShortStr<'static>>,
    TooLong: From<E::Error> + From<K::Error>,
{
    match (exchange.try_into(), routing_key.try_into()) {
        (Ok(exchange), Ok(routing_key)) => Ok(Publication {
            exchange,
            routing_key,
            message,
        }),
        (exchange, routing_key) => Err(misaddressed(
            exchange.map_err(TooLong::from),
            routing_key.map_err(TooLong::from),
            message,
        )),
    }
}

#[cold]
fn misaddressed(
    exchange: Result<ShortStr<'static>, TooLong>,
    routing_key: Result<ShortStr<'static>, TooLong>,
    message: Message,
) -> PublishError {
    let too_long = exchange.as_ref().err().or(routing_key.as_ref().err());
    let reason = match too_long {
        Some(error) => UsageError::StringTooLong(*error),
        None => UsageError::NoChannel,
    };
    let publication = Publication {
        exchange: exchange.unwrap_or_default(),
        routing_key: routing_key.unwrap_or_default(),
        message,
    };
    PublishError::new(reason.into(), Some(publication))
}

impl Deref for Channel {
    type Target = Methods;

    fn deref(&self) -> &Methods {
        &self.methods
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Channel")
            .field(&self.methods.core().id.number)
            .finish()
    }
}
