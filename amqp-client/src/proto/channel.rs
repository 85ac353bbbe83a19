//! One channel: what it is waiting for, what it has in flight, and what may be asked of it now.
//!
//! ```text
//!   open_channel      open-ok            close (by us)               close-ok
//!  ------------> Opening ----> Open --------------------> Closing ------------> (number free)
//!                                |  close (by the server), close-ok sent             ^
//!                                +---------------------------------------------------+
//! ```

use std::sync::Arc;
use std::time::Instant;

use amqp_codec::content::Assembler;
use amqp_codec::{
    Method, MethodFields, MethodId, ReplyCode, ShortStr, basic, channel, confirm, frame, tx,
};

use super::ConfirmOptions;
use super::confirm::{ConfirmTracker, PublishSeq};
use super::consumers::Consumers;
use super::delivery::{DeliveryHead, Settle};
use super::event::{ChannelId, ConsumerId, Event, Events, Keep, Reply, RequestError};
use super::outgoing::{Backlog, Outgoing};
use super::rpc::{Abandoned, RequestId, Rpc, RpcQueue};
use super::transaction::Transaction;
use super::view::ConfirmStatus;
use crate::config::Limits;
use crate::error::{CloseCause, Closed, UsageError, Violation};
use crate::message::Publication;
use crate::outcome::Counts;

mod recv;

/// What a channel works with that belongs to the whole connection.
pub(super) struct Shared<'a, P> {
    pub(super) outgoing: &'a mut Outgoing,
    pub(super) events: &'a mut Events<P>,
    pub(super) bounds: &'a mut Bounds,
}

/// What the peer may make us keep, and how far that has gone.
pub(super) struct Bounds {
    pub(super) limits: Limits,
    /// Those of decoding.
    pub(super) decoding: amqp_codec::Limits,
    /// Bytes of messages that have come in part, on all channels.
    pub(super) assembling: usize,
}

pub(super) struct Channel<P> {
    pub(super) id: ChannelId,
    pub(super) state: State,
    pub(super) mode: Mode<P>,
    /// The server takes publishes (channel.flow).
    pub(super) flow: bool,
    rpcs: RpcQueue,
    incoming: Assembler<DeliveryHead>,
    /// How many bytes of the message in it are still to come.
    missing: u64,
    /// How many bytes of it count as assembling.
    assembling: usize,
    pub(super) consumers: Consumers,
    pub(super) backlog: Backlog,
    /// The close that goes out when every publish has its outcome.
    close_when_settled: Option<(ReplyCode, ShortStr<'static>)>,
    /// Who waits for the channel to be closed.
    close_requests: Vec<RequestId>,
    /// When the connection's timers will look at this channel's confirms next.
    pub(super) timer: Option<Instant>,
    /// Whether the channel is on the connection's list of those that published since the last turn.
    pub(super) unstamped: bool,
}

pub(super) enum State {
    /// channel.open is sent.
    Opening,
    Open,
    /// channel.close is sent: everything but close and close-ok is discarded.
    Closing {
        closed: Arc<Closed>,
        /// The server's close, if it crossed ours, is answered.
        close_ok_sent: bool,
    },
}

pub(super) enum Mode<P> {
    Plain,
    /// confirm.select or tx.select is asked for: whether publishes belong to the new mode is for its answer
    /// to say, so there are none until then.
    Selecting(Select),
    Confirm(Box<ConfirmTracker<P>>),
    Tx(Transaction),
}

#[derive(Debug, Default)]
pub(super) enum Select {
    Confirm(ConfirmOptions),
    #[default]
    Tx,
}

/// What remains of a channel after a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stays,
    /// It is closed on both sides: its number may be used again.
    Free,
}

impl<P: Keep> Mode<P> {
    fn counts(&self) -> Counts {
        match self {
            Mode::Confirm(tracker) => tracker.counts(),
            Mode::Plain | Mode::Selecting(_) | Mode::Tx(_) => Counts::default(),
        }
    }
}

impl<P: Keep> Channel<P> {
    /// Asks the server for the channel.
    pub(super) fn open(id: ChannelId, request: RequestId, shared: &mut Shared<'_, P>) -> Self {
        let mut channel = Channel {
            id,
            state: State::Opening,
            mode: Mode::Plain,
            flow: true,
            rpcs: RpcQueue::default(),
            incoming: Assembler::new(),
            missing: 0,
            assembling: 0,
            consumers: Consumers::new(),
            backlog: Backlog::default(),
            close_when_settled: None,
            close_requests: Vec::new(),
            timer: None,
            unstamped: false,
        };
        channel.call(request, &channel::Open::default(), shared);
        channel
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open) && self.close_when_settled.is_none()
    }

    /// Why nothing can be asked of it.
    #[cold]
    pub(super) fn not_open(&self) -> UsageError {
        match &self.state {
            State::Closing { closed, .. } => UsageError::ChannelClosed(closed.clone()),
            State::Open | State::Opening => UsageError::NoChannel,
        }
    }

    /// Whether its mode takes publishes without confirms now.
    #[inline(never)]
    pub(super) fn takes_unconfirmed(&self) -> bool {
        match &self.mode {
            Mode::Plain => true,
            Mode::Selecting(_) | Mode::Confirm(_) => false,
            Mode::Tx(transaction) => !transaction.is_ending(),
        }
    }

    /// Whether publishes on it wait for their outcome.
    pub(super) fn has_unsettled(&self) -> bool {
        matches!(&self.mode, Mode::Confirm(tracker) if !tracker.all_settled())
    }

    /// Whether every publish up to this one has its outcome.
    pub(super) fn settled_through(&self, seq: PublishSeq) -> bool {
        match &self.mode {
            Mode::Confirm(tracker) => tracker.settled_through(seq),
            Mode::Plain | Mode::Selecting(_) | Mode::Tx(_) => true,
        }
    }

    /// How its publishes stand; `None` where it is not in confirm mode.
    pub(super) fn confirm_status(&self) -> Option<ConfirmStatus> {
        let Mode::Confirm(tracker) = &self.mode else {
            return None;
        };
        Some(ConfirmStatus {
            in_flight: tracker.in_flight(),
            bytes_in_flight: tracker.bytes_in_flight(),
            last: tracker.next_seq().0.saturating_sub(1),
            counts: tracker.counts(),
        })
    }

    // ----- methods -----

    /// Sends a method that is not answered, or whose answer nobody waits for.
    pub(super) fn send(&mut self, method: &impl MethodFields, shared: &mut Shared<'_, P>) {
        let number = self.id.number;
        let held = match &mut self.mode {
            Mode::Tx(transaction) => transaction.held(),
            Mode::Plain | Mode::Selecting(_) | Mode::Confirm(_) => None,
        };
        match held {
            Some(held) => encode(number, method, held),
            None => shared
                .outgoing
                .frames(&mut self.backlog, |buf| encode(number, method, buf)),
        }
    }

    /// Queues a synchronous method, and sends it if none is on the wire.
    pub(super) fn call(
        &mut self,
        request: RequestId,
        method: &impl MethodFields,
        shared: &mut Shared<'_, P>,
    ) {
        let rpc = self.rpc(Some(request), method, false);
        self.rpcs.push(rpc);
        self.send_next_rpc(shared);
    }

    pub(super) fn consume(
        &mut self,
        request: RequestId,
        consume: &basic::Consume<'_>,
        shared: &mut Shared<'_, P>,
    ) {
        let consumer_tag = consume.consumer_tag.clone().into_owned();
        let rpc = Rpc {
            consumer_tag,
            ..self.rpc(Some(request), consume, consume.no_ack)
        };
        self.rpcs.push(rpc);
        self.send_next_rpc(shared);
    }

    /// Starts a consumer without an answer: from now on messages may come for it.
    pub(super) fn consume_no_wait(
        &mut self,
        id: ConsumerId,
        consume: &basic::Consume<'_>,
        shared: &mut Shared<'_, P>,
    ) {
        let tag = consume.consumer_tag.clone().into_owned();
        self.consumers.start(tag, Some(id), consume.no_ack);
        self.send(consume, shared);
    }

    /// Whether a consumer of this tag would be the second one by the time the server hears of it. Methods that wait for
    /// their turn count if it comes behind them.
    pub(super) fn has_consumer(&self, tag: &ShortStr<'_>, behind_waiting: bool) -> bool {
        match self.rpcs.last_about(tag) {
            _ if tag.is_empty() => false,
            Some(_) if !behind_waiting => true,
            // Should nobody want it any more, it is cancelled before what waits is sent.
            Some(last) => last.method == MethodId::BASIC_CONSUME && last.request.is_some(),
            None => self.consumers.has(tag.as_bytes()),
        }
    }

    pub(super) fn cancel(
        &mut self,
        request: RequestId,
        tag: ShortStr<'static>,
        shared: &mut Shared<'_, P>,
    ) {
        let cancel = self.cancel_of(Some(request), tag);
        self.rpcs.push(cancel);
        self.send_next_rpc(shared);
    }

    pub(super) fn get(
        &mut self,
        request: RequestId,
        get: &basic::Get<'_>,
        shared: &mut Shared<'_, P>,
    ) {
        let rpc = self.rpc(Some(request), get, get.no_ack);
        self.rpcs.push(rpc);
        self.send_next_rpc(shared);
    }

    pub(super) fn select(
        &mut self,
        request: RequestId,
        select: Select,
        shared: &mut Shared<'_, P>,
    ) {
        match &select {
            Select::Confirm(_) => self.call(request, &confirm::Select::default(), shared),
            Select::Tx => self.call(request, &tx::Select {}, shared),
        }
        self.mode = Mode::Selecting(select);
    }

    fn rpc<M: MethodFields>(&self, request: Option<RequestId>, method: &M, no_ack: bool) -> Rpc {
        let mut frame = Vec::new();
        encode(self.id.number, method, &mut frame);
        Rpc {
            request,
            method: M::ID,
            no_ack,
            consumer_tag: ShortStr::EMPTY,
            frame,
        }
    }

    fn send_next_rpc(&mut self, shared: &mut Shared<'_, P>) {
        let Some((method, frame)) = self.rpcs.next_frame() else {
            return;
        };
        shared
            .outgoing
            .frames(&mut self.backlog, |buf| buf.extend_from_slice(&frame));
        if let MethodId::TX_COMMIT | MethodId::TX_ROLLBACK = method
            && let Mode::Tx(transaction) = &mut self.mode
        {
            transaction.start_end();
        }
        if method == MethodId::BASIC_RECOVER {
            self.consumers.start_recover();
        }
    }

    /// The caller of a request gave up.
    pub(super) fn abandon(&mut self, request: RequestId, shared: &mut Shared<'_, P>) {
        self.close_requests.retain(|waiting| *waiting != request);
        match self.rpcs.abandon(request) {
            Some(Abandoned::Unsent(MethodId::CONFIRM_SELECT | MethodId::TX_SELECT)) => {
                self.mode = Mode::Plain;
            }
            // Whether the mode changed, or the transaction went through, would remain unknown to all.
            Some(Abandoned::Unanswered(
                MethodId::CONFIRM_SELECT
                | MethodId::TX_SELECT
                | MethodId::TX_COMMIT
                | MethodId::TX_ROLLBACK,
            )) => self.start_close(ReplyCode::REPLY_SUCCESS, ShortStr::default(), shared),
            Some(Abandoned::Unsent(_) | Abandoned::Unanswered(_)) | None => {}
        }
    }

    // ----- publishing -----

    /// Takes a message and puts it in the outgoing buffer, whole. The caller has checked that it may go. In confirm mode
    /// it has a number then.
    #[inline]
    pub(super) fn publish(
        &mut self,
        unsent: &mut Option<Publication>,
        keep: P,
        shared: &mut Shared<'_, P>,
    ) -> Option<PublishSeq> {
        let number = self.id.number;
        let backlog = &mut self.backlog;
        let publication = unsent.as_ref()?;
        let message = &publication.message;
        if let Mode::Confirm(tracker) = &mut self.mode {
            let mark = Some(tracker.next_seq().0);
            let mut send = |properties: Option<&_>| {
                let outgoing = &mut *shared.outgoing;
                outgoing.publish(number, backlog, mark, publication, properties)
            };
            let start = match tracker.tags(message) {
                false => send(message.set_properties()),
                true => send(Some(&tracker.tagged_properties(message))),
            };
            return tracker.publish(unsent, start, keep);
        }
        let properties = message.set_properties();
        shared
            .outgoing
            .publish(number, backlog, None, publication, properties);
        if let Mode::Tx(transaction) = &mut self.mode {
            transaction.published(message);
        }
        *unsent = None;
        None
    }

    // ----- consuming -----

    /// Cancels a consumer that nobody reads from any more. What arrives for it meanwhile goes back to its
    /// queue.
    pub(super) fn forget_consumer(&mut self, id: ConsumerId, shared: &mut Shared<'_, P>) {
        let tag = self.consumers.forget(id);
        if let Some(head) = self.incoming.method_mut() {
            head.forget_consumer(id);
        }
        // One that is cancelled already may have a successor of the same tag that waits for its turn.
        if let Some(tag) = tag.filter(|tag| !self.rpcs.cancels(tag)) {
            let cancel = self.cancel_of(None, tag);
            self.rpcs.push(cancel);
            self.send_next_rpc(shared);
        }
    }

    /// A cancel whose answer is awaited even if nobody waits for it: until then it must be known whether what
    /// comes for the consumer has to be given back.
    fn cancel_of(&self, request: Option<RequestId>, consumer_tag: ShortStr<'static>) -> Rpc {
        let cancel = basic::Cancel {
            consumer_tag: consumer_tag.as_borrowed(),
            ..Default::default()
        };
        Rpc {
            consumer_tag: consumer_tag.clone(),
            ..self.rpc(request, &cancel, false)
        }
    }

    /// Settles a delivery that is unsettled, or with `multiple` all up to it.
    pub(super) fn settle(
        &mut self,
        delivery_tag: u64,
        multiple: bool,
        how: Settle,
        shared: &mut Shared<'_, P>,
    ) {
        let mode = &mut self.mode;
        self.consumers.settle(delivery_tag, multiple, |delivery| {
            if let Mode::Tx(transaction) = mode {
                transaction.settled(delivery);
            }
        });
        self.send_settle(delivery_tag, multiple, how, shared);
    }

    fn send_settle(
        &mut self,
        delivery_tag: u64,
        multiple: bool,
        how: Settle,
        shared: &mut Shared<'_, P>,
    ) {
        match how {
            Settle::Ack => {
                let ack = basic::Ack {
                    delivery_tag,
                    multiple,
                    ..Default::default()
                };
                self.send(&ack, shared);
            }
            Settle::Nack { requeue } => {
                let nack = basic::Nack {
                    delivery_tag,
                    multiple,
                    requeue,
                    ..Default::default()
                };
                self.send(&nack, shared);
            }
            Settle::Reject { requeue } => {
                let reject = basic::Reject {
                    delivery_tag,
                    requeue,
                    ..Default::default()
                };
                self.send(&reject, shared);
            }
        }
    }

    // ----- closing -----

    /// Closes the channel: at once, or when every publish has its outcome. Acks stop at a close, though the
    /// messages are in their queues.
    pub(super) fn close(
        &mut self,
        request: Option<RequestId>,
        at_once: bool,
        code: ReplyCode,
        text: ShortStr<'static>,
        shared: &mut Shared<'_, P>,
    ) {
        self.close_requests.extend(request);
        match self.state {
            State::Open if at_once => self.start_close(code, text, shared),
            State::Opening | State::Open => {
                self.close_when_settled = Some((code, text));
                self.close_if_settled(shared);
            }
            State::Closing { .. } => {}
        }
    }

    #[inline]
    pub(super) fn close_if_settled(&mut self, shared: &mut Shared<'_, P>) {
        if self.close_when_settled.is_some()
            && let State::Open = self.state
            && !self.has_unsettled()
            && let Some((code, text)) = self.close_when_settled.take()
        {
            self.start_close(code, text, shared);
        }
    }

    /// Sends channel.close, now. Requests and publishes that are still open fail.
    fn start_close(
        &mut self,
        code: ReplyCode,
        text: ShortStr<'static>,
        shared: &mut Shared<'_, P>,
    ) {
        self.close_with(Arc::new(Closed::by_client(code, text)), shared);
    }

    /// Closes the channel because the server broke the protocol on it.
    pub(super) fn close_for_violation(&mut self, violation: Violation, shared: &mut Shared<'_, P>) {
        self.close_with(Arc::new(Closed::by_violation(violation)), shared);
    }

    /// Closes the channel because this side cannot go on with it.
    pub(super) fn close_because(
        &mut self,
        code: ReplyCode,
        cause: CloseCause,
        shared: &mut Shared<'_, P>,
    ) {
        if let State::Opening | State::Open = self.state {
            self.close_with(Arc::new(Closed::by_library(code, cause)), shared);
        }
    }

    fn close_with(&mut self, closed: Arc<Closed>, shared: &mut Shared<'_, P>) {
        let number = self.id.number;
        let close = channel::Close {
            reply_code: closed.code,
            reply_text: closed.text.as_borrowed(),
            ..Default::default()
        };
        // RabbitMQ takes a close behind an unanswered commit; what was held back for the answer is void.
        shared
            .outgoing
            .frames(&mut self.backlog, |buf| encode(number, &close, buf));
        self.state = State::Closing {
            closed: closed.clone(),
            close_ok_sent: false,
        };
        self.end(&closed, shared);
    }

    /// The server has closed the channel. Whoever waited to close it has what they wanted.
    fn closed_by_server(&mut self, closed: &Arc<Closed>, shared: &mut Shared<'_, P>) {
        self.reply_to_close(shared);
        self.end(closed, shared);
    }

    fn reply_to_close(&mut self, shared: &mut Shared<'_, P>) {
        for request in self.close_requests.drain(..) {
            let ok = Reply::Method(Method::from(channel::CloseOk {}));
            shared.events.push_back(Event::Reply(request, Ok(ok)));
        }
    }

    /// The channel is over: everything that waits on it, its close apart, gets its answer.
    fn end(&mut self, closed: &Arc<Closed>, shared: &mut Shared<'_, P>) {
        self.incoming.reset();
        self.assembled(shared);
        let events = &mut *shared.events;
        if let Mode::Confirm(tracker) = &mut self.mode {
            tracker.channel_closed(closed, |seq, keep, outcome| {
                events.settled(self.id, seq, keep, outcome);
            });
        }
        for (request, method) in self.rpcs.fail_all() {
            let error = RequestError::ChannelClosed {
                method,
                closed: closed.clone(),
            };
            events.push_back(Event::Reply(request, Err(error)));
        }
        self.report_end(closed.clone(), shared);
    }

    /// The connection is over after `written` bytes of the outgoing stream, and the channel with it.
    pub(super) fn connection_closed(
        mut self,
        connection: &Arc<Closed>,
        written: u64,
        shared: &mut Shared<'_, P>,
    ) {
        let events = &mut *shared.events;
        if let Mode::Confirm(tracker) = &mut self.mode {
            tracker.connection_closed(connection, written, |seq, keep, outcome| {
                events.settled(self.id, seq, keep, outcome);
            });
        }
        let closes = self.close_requests.drain(..);
        let closes = closes.map(|request| (request, MethodId::CHANNEL_CLOSE));
        for (request, method) in self.rpcs.fail_all().chain(closes) {
            let error = RequestError::ConnectionClosed {
                method,
                closed: connection.clone(),
            };
            events.push_back(Event::Reply(request, Err(error)));
        }
        match self.state {
            State::Opening | State::Open => {
                self.report_end(Arc::new(Closed::with_connection(connection)), shared);
            }
            // Reported when it started to close.
            State::Closing { .. } => {}
        }
        shared
            .outgoing
            .drop_backlog(self.id.number, &mut self.backlog);
    }

    fn report_end(&mut self, closed: Arc<Closed>, shared: &mut Shared<'_, P>) {
        let events = &mut *shared.events;
        if let Mode::Tx(transaction) = &mut self.mode {
            let returned = transaction.end().returned.into_iter();
            events.extend(returned.map(|returned| Event::Returned(self.id, Box::new(returned))));
        }
        events.push_back(Event::ChannelClosed(self.id, closed, self.mode.counts()));
    }
}

/// Encoding into a vector fails only beyond 4 GiB, and every method is checked against frame_max before.
#[expect(clippy::expect_used, reason = "no peer has a say in it")]
fn encode(channel: u16, method: &impl MethodFields, buf: &mut Vec<u8>) {
    frame::encode_method(channel, method, buf).expect("methods were checked to fit a frame");
}
