//! One channel: what it is waiting for, what it has in flight, and what may be asked of it now.
//!
//! ```text
//!   open_channel      open-ok            close (by us)               close-ok
//!  ------------> Opening ----> Open --------------------> Closing ------------> (number free)
//!                                |  close (by the server), close-ok sent             ^
//!                                +---------------------------------------------------+
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use amqp_codec::content::{self, Assembler, Content};
use amqp_codec::{
    ContentHeader, Limits, Method, MethodFields, MethodId, ReplyCode, ShortStr, basic, channel,
    confirm, frame,
};
use bytes::Bytes;

use super::ConfirmOptions;
use super::confirm::{ConfirmTracker, PublishSeq, ReturnMatch, Verdict};
use super::delivery::{Delivery, DeliveryHead, DeliveryTag, Origin, short};
use super::event::{ChannelId, ConsumerId, Event, Reply, RequestError};
use super::input::InputFrame;
use super::outgoing::{Backlog, Outgoing};
use super::returns::IncomingReturn;
use super::rpc::{RequestId, Rpc, RpcQueue};
use super::tags::TagRing;
use crate::error::{Closed, UsageError, Violation};
use crate::message::{Message, Publication};
use crate::outcome::{Counts, Followed, Match, Returned};

/// What a channel works with that belongs to the whole connection.
pub(super) struct Shared<'a, P> {
    pub(super) outgoing: &'a mut Outgoing,
    pub(super) events: &'a mut VecDeque<Event<P>>,
    pub(super) limits: &'a Limits,
}

pub(super) struct Channel<P> {
    pub(super) id: ChannelId,
    pub(super) state: State,
    pub(super) mode: Mode<P>,
    /// The server takes publishes (channel.flow).
    pub(super) flow: bool,
    rpcs: RpcQueue,
    incoming: Assembler<DeliveryHead>,
    consumers: HashMap<ShortStr<'static>, Consumer>,
    /// The options of a confirm.select on the wire.
    selecting: Option<ConfirmOptions>,
    /// Deliveries that wait for their ack.
    unacked: TagRing<()>,
    pub(super) backlog: Backlog,
    /// While a commit or rollback is unanswered, other methods wait here: RabbitMQ ends the connection for
    /// any of them.
    held: Option<Vec<u8>>,
    /// The close that goes out when every publish has its outcome.
    close_when_settled: Option<Closing>,
    /// When the connection's timers will look at this channel's confirms next.
    pub(super) timer: Option<std::time::Instant>,
    /// Whether the channel is on the connection's list of those that published since the last turn.
    pub(super) unstamped: bool,
}

pub(super) enum State {
    /// channel.open is sent. `close` once nobody wants it any more.
    Opening {
        close: bool,
    },
    Open,
    /// channel.close is sent: everything but close and close-ok is discarded.
    Closing {
        request: Option<RequestId>,
        closed: Arc<Closed>,
    },
}

/// A close by us that is to come.
struct Closing {
    request: Option<RequestId>,
    code: ReplyCode,
    text: ShortStr<'static>,
}

pub(super) enum Mode<P> {
    Plain,
    Confirm(Box<ConfirmTracker<P>>),
    Tx(Transaction),
}

impl<P> Mode<P> {
    fn counts(&self) -> Counts {
        match self {
            Mode::Confirm(tracker) => tracker.counts(),
            Mode::Plain | Mode::Tx(_) => Counts::default(),
        }
    }
}

/// The transaction that is open on a channel.
#[derive(Default)]
pub(super) struct Transaction {
    /// What came back since the last commit or rollback.
    returned: Vec<Returned>,
    /// Tags that were acked in it: a rollback makes them outstanding again.
    acked: Vec<u64>,
}

struct Consumer {
    id: ConsumerId,
    no_ack: bool,
}

/// What remains of a channel after a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stays,
    /// It is closed on both sides: its number may be used again.
    Free,
}

/// How a delivery is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// basic.ack
    Ack,
    /// basic.nack, back into the queue or dropped (dead-lettered).
    Nack {
        /// Whether the message goes back into its queue.
        requeue: bool,
    },
    /// basic.reject: the same as nack for one message, known to every broker.
    Reject {
        /// Whether the message goes back into its queue.
        requeue: bool,
    },
}

impl<P> Channel<P> {
    /// Asks the server for the channel.
    pub(super) fn open(id: ChannelId, request: RequestId, shared: &mut Shared<'_, P>) -> Self {
        let mut channel = Channel {
            id,
            state: State::Opening { close: false },
            mode: Mode::Plain,
            flow: true,
            rpcs: RpcQueue::default(),
            incoming: Assembler::new(),
            consumers: HashMap::new(),
            selecting: None,
            unacked: TagRing::new(),
            backlog: Backlog::default(),
            held: None,
            close_when_settled: None,
            timer: None,
            unstamped: false,
        };
        channel.call(request, &channel::Open::default(), shared);
        channel
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open) && self.close_when_settled.is_none()
    }

    /// Whether publishes on it wait for their outcome.
    pub(super) fn has_unsettled(&self) -> bool {
        matches!(&self.mode, Mode::Confirm(tracker) if !tracker.all_settled())
    }

    // ----- what comes from the server -----

    pub(super) fn recv_frame(
        &mut self,
        input: &InputFrame<'_>,
        source: Option<&Bytes>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        match (&self.state, &input.frame) {
            (State::Closing { .. }, frame::Frame::Method { method, .. }) => {
                Ok(self.recv_method_while_closing(method, shared))
            }
            // spec: channel.close, everything else is discarded until close-ok.
            (State::Closing { .. }, _) => Ok(Next::Stays),
            (State::Opening { .. } | State::Open, frame::Frame::Method { method, .. }) => {
                self.recv_method(method, shared)
            }
            (State::Opening { .. } | State::Open, frame::Frame::Header { header, .. }) => {
                self.recv_header(header, input.payload, shared)
            }
            (State::Opening { .. } | State::Open, frame::Frame::Body { payload, .. }) => {
                let content = self.incoming.body(payload, source)?;
                self.recv_content(content, shared)
            }
            (_, frame::Frame::Heartbeat) => Ok(Next::Stays),
        }
    }

    fn recv_method_while_closing(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Next {
        match method {
            // Both sides closed at once: ours is still to be answered.
            Method::ChannelClose(_) => {
                self.send(&channel::CloseOk {}, shared);
                Next::Stays
            }
            Method::ChannelCloseOk(ok) => {
                if let State::Closing {
                    request: Some(request),
                    ..
                } = self.state
                {
                    shared
                        .events
                        .push_back(Event::Reply(request, Ok(Reply::Method(ok.clone().into()))));
                }
                Next::Free
            }
            _ => Next::Stays,
        }
    }

    fn recv_method(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        self.incoming.expect_method()?;
        match method {
            Method::BasicDeliver(deliver) => self.recv_deliver(deliver).map(|()| Next::Stays),
            Method::BasicAck(ack) => self.recv_confirm(
                ack.delivery_tag,
                ack.multiple,
                Verdict::Ack,
                method.id(),
                shared,
            ),
            Method::BasicNack(nack) => {
                // RabbitMQ sets the octet's second bit at times; multiple is the first one alone.
                self.recv_confirm(
                    nack.delivery_tag,
                    nack.multiple,
                    Verdict::Nack,
                    method.id(),
                    shared,
                )
            }
            Method::BasicReturn(returned) => {
                let origin = Origin::Return {
                    code: returned.reply_code,
                };
                let strings = [
                    &returned.exchange,
                    &returned.routing_key,
                    &returned.reply_text,
                ];
                self.start_content(0, false, origin, &strings.map(ShortStr::as_bytes))
            }
            Method::BasicGetOk(ok) => self.recv_get_ok(ok),
            Method::ChannelClose(close) => {
                self.recv_close(close, shared);
                Ok(Next::Free)
            }
            Method::ChannelFlow(flow) => {
                self.flow = flow.active;
                self.send(
                    &channel::FlowOk {
                        active: flow.active,
                        ..Default::default()
                    },
                    shared,
                );
                Ok(Next::Stays)
            }
            Method::BasicCancel(cancel) => {
                self.recv_cancel(cancel, shared);
                Ok(Next::Stays)
            }
            Method::ChannelOpenOk(_)
            | Method::ChannelFlowOk(_)
            | Method::ExchangeDeclareOk(_)
            | Method::ExchangeDeleteOk(_)
            | Method::ExchangeBindOk(_)
            | Method::ExchangeUnbindOk(_)
            | Method::QueueDeclareOk(_)
            | Method::QueueBindOk(_)
            | Method::QueueUnbindOk(_)
            | Method::QueuePurgeOk(_)
            | Method::QueueDeleteOk(_)
            | Method::BasicQosOk(_)
            | Method::BasicConsumeOk(_)
            | Method::BasicCancelOk(_)
            | Method::BasicGetEmpty(_)
            | Method::BasicRecoverOk(_)
            | Method::ConfirmSelectOk(_)
            | Method::TxSelectOk(_)
            | Method::TxCommitOk(_)
            | Method::TxRollbackOk(_) => self.recv_reply(method, shared),
            // What only clients send, what belongs on channel 0, and a close-ok to no close.
            Method::ChannelOpen(_)
            | Method::ChannelCloseOk(_)
            | Method::ExchangeDeclare(_)
            | Method::ExchangeDelete(_)
            | Method::ExchangeBind(_)
            | Method::ExchangeUnbind(_)
            | Method::QueueDeclare(_)
            | Method::QueueBind(_)
            | Method::QueueUnbind(_)
            | Method::QueuePurge(_)
            | Method::QueueDelete(_)
            | Method::BasicQos(_)
            | Method::BasicConsume(_)
            | Method::BasicPublish(_)
            | Method::BasicGet(_)
            | Method::BasicReject(_)
            | Method::BasicRecoverAsync(_)
            | Method::BasicRecover(_)
            | Method::ConfirmSelect(_)
            | Method::TxSelect(_)
            | Method::TxCommit(_)
            | Method::TxRollback(_)
            | Method::ConnectionStart(_)
            | Method::ConnectionStartOk(_)
            | Method::ConnectionSecure(_)
            | Method::ConnectionSecureOk(_)
            | Method::ConnectionTune(_)
            | Method::ConnectionTuneOk(_)
            | Method::ConnectionOpen(_)
            | Method::ConnectionOpenOk(_)
            | Method::ConnectionClose(_)
            | Method::ConnectionCloseOk(_)
            | Method::ConnectionBlocked(_)
            | Method::ConnectionUnblocked(_)
            | Method::ConnectionUpdateSecret(_)
            | Method::ConnectionUpdateSecretOk(_) => Err(self.unexpected(method.id())),
        }
    }

    fn unexpected(&self, method: MethodId) -> Violation {
        Violation::UnexpectedMethod {
            method,
            channel: self.id.number,
        }
    }

    fn recv_confirm(
        &mut self,
        tag: u64,
        multiple: bool,
        verdict: Verdict,
        method: MethodId,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        let Mode::Confirm(tracker) = &mut self.mode else {
            return Err(self.unexpected(method));
        };
        let events = &mut *shared.events;
        tracker.recv_confirm(tag, multiple, verdict, |keep, outcome| {
            events.push_back(Event::Settled(keep, outcome));
        })?;
        self.close_if_settled(shared);
        Ok(Next::Stays)
    }

    fn recv_deliver(&mut self, deliver: &basic::Deliver<'_>) -> Result<(), Violation> {
        let consumer = self.consumers.get(deliver.consumer_tag.as_bytes());
        let needs_ack = consumer.is_none_or(|consumer| !consumer.no_ack);
        let origin = Origin::Consumer(consumer.map(|consumer| consumer.id));
        if needs_ack && !self.unacked.insert(deliver.delivery_tag, ()) {
            return Err(Violation::DeliveryTag(deliver.delivery_tag));
        }
        let strings = [deliver.exchange.as_bytes(), deliver.routing_key.as_bytes()];
        self.start_content(deliver.delivery_tag, deliver.redelivered, origin, &strings)?;
        Ok(())
    }

    fn recv_get_ok(&mut self, ok: &basic::GetOk<'_>) -> Result<Next, Violation> {
        let no_ack = match self.rpcs.awaited() {
            Some(rpc) if rpc.method == MethodId::BASIC_GET => rpc.no_ack,
            _ => return Err(self.unexpected(MethodId::BASIC_GET_OK)),
        };
        if !no_ack && !self.unacked.insert(ok.delivery_tag, ()) {
            return Err(Violation::DeliveryTag(ok.delivery_tag));
        }
        let origin = Origin::Get {
            message_count: ok.message_count,
        };
        let strings = [ok.exchange.as_bytes(), ok.routing_key.as_bytes()];
        self.start_content(ok.delivery_tag, ok.redelivered, origin, &strings)
    }

    fn start_content<const N: usize>(
        &mut self,
        tag: u64,
        redelivered: bool,
        origin: Origin,
        strings: &[&[u8]; N],
    ) -> Result<Next, Violation> {
        let tag = DeliveryTag {
            channel: self.id,
            tag,
        };
        self.incoming.start(
            DeliveryHead {
                tag,
                redelivered,
                origin,
            },
            strings,
        )?;
        Ok(Next::Stays)
    }

    fn recv_header(
        &mut self,
        header: &ContentHeader<'_>,
        payload: &[u8],
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        let content = self.incoming.header(header, payload, shared.limits)?;
        self.recv_content(content, shared)
    }

    fn recv_content(
        &mut self,
        content: Option<Content<DeliveryHead>>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        let Some(content) = content else {
            return Ok(Next::Stays);
        };
        match content.method.origin {
            Origin::Consumer(Some(consumer)) => {
                shared
                    .events
                    .push_back(Event::Delivered(consumer, Delivery::new(content)));
            }
            // RabbitMQ 4.3 redelivers to a tag it has cancelled; it must not stay unacked with nobody.
            Origin::Consumer(None) => {
                let tag = content.method.tag;
                let _ = self.settle(tag, false, Settle::Nack { requeue: true }, shared);
            }
            Origin::Get { message_count } => {
                let Some(rpc) = self.rpcs.recv_reply(MethodId::BASIC_GET_OK) else {
                    return Err(self.unexpected(MethodId::BASIC_GET_OK));
                };
                if rpc.abandoned {
                    let tag = content.method.tag;
                    let _ = self.settle(tag, false, Settle::Nack { requeue: true }, shared);
                } else {
                    let got = Reply::Got(Some((Delivery::new(content), message_count)));
                    shared.events.push_back(Event::Reply(rpc.request, Ok(got)));
                }
                self.send_next_rpc(shared);
            }
            Origin::Return { code } => self.recv_return(code, content, shared),
        }
        Ok(Next::Stays)
    }

    fn recv_return(
        &mut self,
        code: ReplyCode,
        content: Content<DeliveryHead>,
        shared: &mut Shared<'_, P>,
    ) {
        if let Mode::Confirm(tracker) = &mut self.mode {
            let incoming = IncomingReturn {
                code,
                text: short(content.string(2)),
                exchange: content.string(0),
                routing_key: content.string(1),
                properties: content.properties(),
                body: content.body(),
                tagged: tracker.options().tag_returns,
            };
            if let ReturnMatch::Open = tracker.recv_return(&incoming) {
                return;
            }
        }
        let owned = |index| short(content.string(index)).into_owned();
        let (exchange, routing_key, text) = (owned(0), owned(1), owned(2));
        let properties = content.properties().into_owned();
        let message = Message::with_properties(content.into_body(), properties).mandatory();
        let publication = Publication {
            exchange,
            routing_key,
            message,
        };
        let (followed, matched) = (Followed::Nothing, Match::None);
        let returned = Returned {
            code,
            text,
            publication,
            followed,
            matched,
        };
        match &mut self.mode {
            Mode::Tx(transaction) => transaction.returned.push(returned),
            Mode::Plain | Mode::Confirm(_) => {
                shared
                    .events
                    .push_back(Event::Returned(self.id, Box::new(returned)));
            }
        }
    }

    fn recv_reply(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        let Some(rpc) = self.rpcs.recv_reply(method.id()) else {
            return Err(self.unexpected(method.id()));
        };
        let reply = self.take_effect(&rpc, method, shared);
        if !rpc.abandoned {
            shared
                .events
                .push_back(Event::Reply(rpc.request, Ok(reply)));
        }
        self.send_next_rpc(shared);
        Ok(Next::Stays)
    }

    /// What the reply changes on our side; where nobody waits for it any more, what it brought is undone.
    fn take_effect(&mut self, rpc: &Rpc, method: &Method<'_>, shared: &mut Shared<'_, P>) -> Reply {
        match method {
            Method::ChannelOpenOk(_) => {
                let close = matches!(self.state, State::Opening { close: true });
                self.state = State::Open;
                if rpc.abandoned || close {
                    self.start_close(None, ReplyCode::REPLY_SUCCESS, ShortStr::default(), shared);
                }
                return Reply::Channel(self.id);
            }
            Method::ConfirmSelectOk(_) => {
                let options = self.selecting.take().unwrap_or_default();
                self.mode = Mode::Confirm(Box::new(ConfirmTracker::new(options)));
            }
            Method::TxSelectOk(_) => self.mode = Mode::Tx(Transaction::default()),
            Method::TxCommitOk(_) => return Reply::Committed(self.end_transaction(true, shared)),
            Method::TxRollbackOk(_) => {
                return Reply::RolledBack(self.end_transaction(false, shared));
            }
            Method::BasicConsumeOk(ok) => self.recv_consume_ok(rpc, ok, shared),
            Method::BasicCancelOk(ok) => {
                self.consumers.remove(ok.consumer_tag.as_bytes());
            }
            Method::BasicGetEmpty(_) => return Reply::Got(None),
            _ => {}
        }
        Reply::Method(method.clone().into_owned())
    }

    fn recv_consume_ok(
        &mut self,
        rpc: &Rpc,
        ok: &basic::ConsumeOk<'_>,
        shared: &mut Shared<'_, P>,
    ) {
        let no_ack = rpc.no_ack;
        if rpc.abandoned {
            let consumer_tag = ok.consumer_tag.as_borrowed();
            let cancel = basic::Cancel {
                consumer_tag,
                no_wait: true,
                ..Default::default()
            };
            self.send(&cancel, shared);
        } else {
            let id = ConsumerId(rpc.request);
            self.consumers.insert(
                ok.consumer_tag.clone().into_owned(),
                Consumer { id, no_ack },
            );
        }
    }

    fn end_transaction(&mut self, committed: bool, shared: &mut Shared<'_, P>) -> Vec<Returned> {
        let held = self.held.take().unwrap_or_default();
        shared
            .outgoing
            .frames(&mut self.backlog, |buf| buf.extend_from_slice(&held));
        let Mode::Tx(transaction) = &mut self.mode else {
            return Vec::new();
        };
        let Transaction { returned, acked } = std::mem::take(transaction);
        if !committed {
            for tag in acked {
                self.unacked.restore(tag, ());
            }
        }
        returned
    }

    fn recv_cancel(&mut self, cancel: &basic::Cancel<'_>, shared: &mut Shared<'_, P>) {
        if let Some(consumer) = self.consumers.remove(cancel.consumer_tag.as_bytes()) {
            shared
                .events
                .push_back(Event::ConsumerCancelled(self.id, consumer.id));
        }
        if !cancel.no_wait {
            let consumer_tag = cancel.consumer_tag.as_borrowed();
            self.send(
                &basic::CancelOk {
                    consumer_tag,
                    ..Default::default()
                },
                shared,
            );
        }
    }

    fn recv_close(&mut self, close: &channel::Close<'_>, shared: &mut Shared<'_, P>) {
        shared
            .outgoing
            .drop_backlog(self.id.number, &mut self.backlog);
        shared
            .outgoing
            .write(|buf| encode(self.id.number, &channel::CloseOk {}, buf));
        let method = MethodId {
            class: close.class_id,
            method: close.method_id,
        };
        let closed = Arc::new(Closed::by_server(
            close.reply_code,
            &close.reply_text,
            method,
        ));
        self.fail(&closed, shared);
        // A close of ours that waited for confirms has what it wanted.
        if let Some(Closing {
            request: Some(request),
            ..
        }) = self.close_when_settled.take()
        {
            let ok = Method::from(channel::CloseOk {});
            shared
                .events
                .push_back(Event::Reply(request, Ok(Reply::Method(ok))));
        }
    }

    /// The channel is over: everything that waits on it gets its answer.
    fn fail(&mut self, closed: &Arc<Closed>, shared: &mut Shared<'_, P>) {
        let events = &mut *shared.events;
        if let Mode::Confirm(tracker) = &mut self.mode {
            tracker.channel_closed(closed, |keep, outcome| {
                events.push_back(Event::Settled(keep, outcome))
            });
        }
        for rpc in self.rpcs.take_all() {
            let error = RequestError::ChannelClosed {
                method: rpc.method,
                closed: closed.clone(),
            };
            events.push_back(Event::Reply(rpc.request, Err(error)));
        }
        events.push_back(Event::ChannelClosed(self.id, closed.clone(), self.mode.counts()));
    }

    /// The connection is over, and the channel with it.
    pub(super) fn connection_closed(
        mut self,
        connection: &Arc<Closed>,
        written: u64,
        shared: &mut Shared<'_, P>,
    ) {
        let events = &mut *shared.events;
        if let Mode::Confirm(tracker) = &mut self.mode {
            tracker.connection_closed(connection, written, |keep, outcome| {
                events.push_back(Event::Settled(keep, outcome));
            });
        }
        let error = |method| RequestError::ConnectionClosed {
            method,
            closed: connection.clone(),
        };
        for rpc in self.rpcs.take_all() {
            events.push_back(Event::Reply(rpc.request, Err(error(rpc.method))));
        }
        let close = self.close_when_settled.and_then(|closing| closing.request);
        match self.state {
            State::Closing { request, .. } => {
                let requests = request.into_iter().chain(close);
                events.extend(
                    requests
                        .map(|request| Event::Reply(request, Err(error(MethodId::CHANNEL_CLOSE)))),
                );
            }
            State::Opening { .. } | State::Open => {
                events.extend(
                    close.map(|request| Event::Reply(request, Err(error(MethodId::CHANNEL_CLOSE)))),
                );
                let closed = Arc::new(Closed::with_connection(connection));
                events.push_back(Event::ChannelClosed(self.id, closed, self.mode.counts()));
            }
        }
        shared
            .outgoing
            .drop_backlog(self.id.number, &mut self.backlog);
    }

    // ----- what we send -----

    /// Sends a method that is not answered, or whose answer nobody waits for.
    pub(super) fn send(&mut self, method: &impl MethodFields, shared: &mut Shared<'_, P>) {
        let number = self.id.number;
        match &mut self.held {
            Some(held) => encode(number, method, held),
            None => shared
                .outgoing
                .frames(&mut self.backlog, |buf| encode(number, method, buf)),
        }
    }

    /// Queues a synchronous method, and sends it if none is on the wire.
    pub(super) fn call<M: MethodFields>(
        &mut self,
        request: RequestId,
        method: &M,
        shared: &mut Shared<'_, P>,
    ) {
        self.call_with(request, method, false, shared);
    }

    fn call_with<M: MethodFields>(
        &mut self,
        request: RequestId,
        method: &M,
        no_ack: bool,
        shared: &mut Shared<'_, P>,
    ) {
        let mut frame = Vec::new();
        encode(self.id.number, method, &mut frame);
        self.rpcs.push(request, M::ID, no_ack, frame);
        self.send_next_rpc(shared);
    }

    fn send_next_rpc(&mut self, shared: &mut Shared<'_, P>) {
        if let Some((method, frame)) = self.rpcs.next_frame() {
            shared
                .outgoing
                .frames(&mut self.backlog, |buf| buf.extend_from_slice(&frame));
            if matches!(method, MethodId::TX_COMMIT | MethodId::TX_ROLLBACK) {
                self.held = Some(Vec::new());
            }
        }
    }

    pub(super) fn consume(
        &mut self,
        request: RequestId,
        consume: &basic::Consume<'_>,
        shared: &mut Shared<'_, P>,
    ) {
        self.call_with(request, consume, consume.no_ack, shared);
    }

    pub(super) fn get(
        &mut self,
        request: RequestId,
        get: &basic::Get<'_>,
        shared: &mut Shared<'_, P>,
    ) {
        self.call_with(request, get, get.no_ack, shared);
    }

    pub(super) fn select_confirms(
        &mut self,
        request: RequestId,
        options: ConfirmOptions,
        shared: &mut Shared<'_, P>,
    ) {
        self.selecting = Some(options);
        self.call(request, &confirm::Select::default(), shared);
    }

    /// Cancels a consumer without waiting for the answer. What arrives for it meanwhile goes back to its queue.
    pub(super) fn forget_consumer(&mut self, id: ConsumerId, shared: &mut Shared<'_, P>) {
        let tag = self
            .consumers
            .iter()
            .find(|(_, consumer)| consumer.id == id);
        let Some(tag) = tag.map(|(tag, _)| tag.clone()) else {
            return;
        };
        self.consumers.remove(&tag);
        let cancel = basic::Cancel {
            consumer_tag: tag,
            no_wait: true,
            ..Default::default()
        };
        self.send(&cancel, shared);
    }

    pub(super) fn settle(
        &mut self,
        tag: DeliveryTag,
        multiple: bool,
        how: Settle,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), UsageError> {
        if tag.channel != self.id {
            return Err(UsageError::ForeignDeliveryTag);
        }
        if !self.unacked.contains(tag.tag) {
            return Err(UsageError::UnknownDeliveryTag(tag.tag));
        }
        let mut tx_acked = match &mut self.mode {
            Mode::Tx(transaction) => Some(&mut transaction.acked),
            Mode::Plain | Mode::Confirm(_) => None,
        };
        let mut remember = |tag, ()| {
            if let Some(acked) = &mut tx_acked {
                acked.push(tag);
            }
        };
        if multiple {
            self.unacked.remove_through(tag.tag, remember);
        } else {
            self.unacked.remove(tag.tag);
            remember(tag.tag, ());
        }
        let delivery_tag = tag.tag;
        match how {
            Settle::Ack => self.send(
                &basic::Ack {
                    delivery_tag,
                    multiple,
                    ..Default::default()
                },
                shared,
            ),
            Settle::Nack { requeue } => {
                self.send(
                    &basic::Nack {
                        delivery_tag,
                        multiple,
                        requeue,
                        ..Default::default()
                    },
                    shared,
                );
            }
            Settle::Reject { requeue } => {
                self.send(
                    &basic::Reject {
                        delivery_tag,
                        requeue,
                        ..Default::default()
                    },
                    shared,
                );
            }
        }
        Ok(())
    }

    /// Puts a message in the outgoing buffer, whole. The caller has checked that it may go.
    pub(super) fn publish(
        &mut self,
        publication: Publication,
        keep: P,
        shared: &mut Shared<'_, P>,
    ) -> Option<PublishSeq> {
        let number = self.id.number;
        let seq = match &self.mode {
            Mode::Confirm(tracker) => Some(tracker.next_seq()),
            Mode::Plain | Mode::Tx(_) => None,
        };
        let Publication {
            exchange,
            routing_key,
            message,
        } = &publication;
        let tagged = match (&self.mode, seq) {
            (Mode::Confirm(tracker), Some(seq))
                if tracker.options().tag_returns && message.is_mandatory() =>
            {
                super::confirm::tagged(message, seq)
            }
            _ => None,
        };
        let properties = tagged.as_ref().unwrap_or(message.properties());
        let publish = basic::Publish {
            exchange: exchange.as_borrowed(),
            routing_key: routing_key.as_borrowed(),
            mandatory: message.is_mandatory(),
            ..Default::default()
        };
        let body = message.body();
        let head = |buf: &mut Vec<u8>| {
            content::encode_head(number, &publish, properties, body.len() as u64, buf)
                .expect("headers were checked to fit a frame");
        };
        let mark = seq.map(|seq| seq.0);
        let start = shared
            .outgoing
            .content(number, &mut self.backlog, mark, head, body);
        let Mode::Confirm(tracker) = &mut self.mode else {
            return None;
        };
        Some(tracker.publish(publication, start.unwrap_or(u64::MAX), keep))
    }

    /// Sends channel.close, now. Requests and publishes that are still open fail.
    pub(super) fn start_close(
        &mut self,
        request: Option<RequestId>,
        code: ReplyCode,
        text: ShortStr<'static>,
        shared: &mut Shared<'_, P>,
    ) {
        let closed = Arc::new(Closed::by_client(code, text));
        self.close_with(request, closed, shared);
    }

    /// Closes the channel because the server broke the protocol on it.
    pub(super) fn close_for_violation(&mut self, violation: Violation, shared: &mut Shared<'_, P>) {
        self.close_with(None, Arc::new(Closed::by_violation(violation)), shared);
    }

    fn close_with(
        &mut self,
        request: Option<RequestId>,
        closed: Arc<Closed>,
        shared: &mut Shared<'_, P>,
    ) {
        // RabbitMQ takes a close behind an unanswered commit; what was held back is void.
        self.held = None;
        let reply_text = closed.text.as_borrowed();
        let close = channel::Close {
            reply_code: closed.code,
            reply_text,
            ..Default::default()
        };
        self.send(&close, shared);
        self.fail(&closed, shared);
        let waiting = self
            .close_when_settled
            .take()
            .and_then(|closing| closing.request);
        self.state = State::Closing {
            request: request.or(waiting),
            closed,
        };
    }

    /// Sends channel.close when every publish has its outcome: acks stop at a close, though the messages
    /// are in their queues.
    pub(super) fn close_when_settled(
        &mut self,
        request: Option<RequestId>,
        code: ReplyCode,
        text: ShortStr<'static>,
        shared: &mut Shared<'_, P>,
    ) {
        match &mut self.state {
            State::Opening { close } => *close = true,
            State::Open => {
                self.close_when_settled = Some(Closing {
                    request,
                    code,
                    text,
                });
                self.close_if_settled(shared);
            }
            State::Closing { .. } => {}
        }
    }

    pub(super) fn close_if_settled(&mut self, shared: &mut Shared<'_, P>) {
        if self.close_when_settled.is_some() && !self.has_unsettled() {
            if let Some(Closing {
                request,
                code,
                text,
            }) = self.close_when_settled.take()
            {
                self.start_close(request, code, text, shared);
            }
        }
    }

    /// The caller of a request gave up.
    pub(super) fn abandon(&mut self, request: RequestId, shared: &mut Shared<'_, P>) {
        if let State::Closing {
            request: closing, ..
        } = &mut self.state
            && *closing == Some(request)
        {
            *closing = None;
            return;
        }
        match self.rpcs.abandon(request) {
            // Whether the mode changed, or the transaction went through, would remain unknown to all.
            Some(
                MethodId::CONFIRM_SELECT
                | MethodId::TX_SELECT
                | MethodId::TX_COMMIT
                | MethodId::TX_ROLLBACK,
            ) => self.start_close(None, ReplyCode::REPLY_SUCCESS, ShortStr::default(), shared),
            Some(_) | None => {}
        }
    }
}

/// Encoding into a vector fails only beyond 4 GiB, and every method is checked against frame_max before.
fn encode(channel: u16, method: &impl MethodFields, buf: &mut Vec<u8>) {
    frame::encode_method(channel, method, buf).expect("methods were checked to fit a frame");
}
