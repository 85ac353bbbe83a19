//! What comes from the server on one channel.

use std::sync::Arc;

use amqp_codec::content::{Announced, Content, Whole};
use amqp_codec::{
    Method, MethodFields, MethodId, ReplyCode, ShortStr, Table, basic, channel, frame,
};
use bytes::Bytes;

use super::{Channel, Mode, Next, Select, Shared, State, encode};
use crate::error::{Closed, Violation};
use crate::message::{Message, Publication};
use crate::outcome::{Followed, Match, Returned};
use crate::proto::confirm::{ConfirmTracker, ReturnMatch, Verdict};
use crate::proto::delivery::{Delivery, DeliveryHead, DeliveryTag, Origin, Settle, short};
use crate::proto::event::{ConsumerId, Event, Keep, Reply};
use crate::proto::input::InputFrame;
use crate::proto::methods::{of_connection, plain_replies, sent_by_clients};
use crate::proto::returns::IncomingReturn;
use crate::proto::rpc::Rpc;
use crate::proto::transaction::{Ended, Transaction};

/// A header of no more bytes does not count among what is assembled: it is as much as a channel takes anyway.
const SMALL_HEADER: usize = 1024;

impl<P: Keep> Channel<P> {
    pub(in crate::proto) fn recv_frame(
        &mut self,
        input: InputFrame<'_>,
        source: Option<&Bytes>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        match (&self.state, input) {
            (State::Closing { .. }, InputFrame::Method { method, .. }) => {
                self.recv_method_while_closing(method, shared)
            }
            (State::Opening | State::Open, InputFrame::Method { method, .. }) => {
                self.recv_method(method, shared)
            }
            (
                State::Opening | State::Open,
                InputFrame::Header {
                    payload, offset, ..
                },
            ) => self.recv_header(payload, offset, shared),
            (State::Opening | State::Open, InputFrame::Body { payload, .. }) => {
                self.recv_body(payload, source, shared)
            }
            (
                State::Opening | State::Open,
                InputFrame::Delivery {
                    deliver, content, ..
                },
            ) => self.recv_whole_delivery(deliver, content, shared),
            (_, InputFrame::Ack { tag, multiple, .. }) => self.recv_ack(tag, multiple, shared),
            (
                State::Closing { .. },
                InputFrame::Delivery { .. } | InputFrame::Header { .. } | InputFrame::Body { .. },
            )
            | (State::Opening | State::Open | State::Closing { .. }, InputFrame::Heartbeat) => {
                Ok(Next::Stays)
            }
        }
    }

    pub(in crate::proto) fn recv_ack(
        &mut self,
        tag: u64,
        multiple: bool,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        if let State::Closing { .. } = self.state {
            return Ok(Next::Stays);
        }
        self.incoming.expect_method()?;
        self.recv_confirm(tag, multiple, Verdict::Ack, shared)?;
        Ok(Next::Stays)
    }

    /// spec: channel.close, everything else is discarded until close-ok.
    fn recv_method_while_closing(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        if let Method::ChannelClose(_) = method {
            self.recv_crossing_close(shared);
        } else if let Method::ChannelCloseOk(_) = method {
            // Our close still waits behind a body: this cannot be its answer, and without it the number is not free.
            if !self.backlog.is_empty() {
                return Err(self.unexpected(method.id()));
            }
            self.reply_to_close(shared);
            return Ok(Next::Free);
        }
        Ok(Next::Stays)
    }

    /// Both sides closed at once: the server's is still to be answered, but once. RabbitMQ may repeat it
    /// until it is, and takes a second close-ok for a fault.
    fn recv_crossing_close(&mut self, shared: &mut Shared<'_, P>) {
        if let State::Closing {
            close_ok_sent: sent @ false,
            ..
        } = &mut self.state
        {
            *sent = true;
            self.send(&channel::CloseOk {}, shared);
        }
    }

    fn recv_method(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        self.incoming.expect_method()?;
        match method {
            Method::BasicAck(ack) => {
                self.recv_confirm(ack.delivery_tag, ack.multiple, Verdict::Ack, shared)?;
            }
            // RabbitMQ sets the octet's second bit at times; multiple is the first one alone.
            Method::BasicNack(basic::Nack {
                delivery_tag,
                multiple,
                ..
            }) => self.recv_confirm(*delivery_tag, *multiple, Verdict::Nack, shared)?,
            Method::BasicReturn(returned) => self.recv_return_method(returned)?,
            Method::BasicDeliver(deliver) => self.recv_deliver(deliver)?,
            Method::BasicGetOk(ok) => self.recv_get_ok(ok)?,
            Method::BasicCancel(cancel) => self.recv_cancel(cancel, shared)?,
            Method::ChannelFlow(flow) => self.recv_flow(flow, shared)?,
            Method::ChannelClose(close) => {
                self.recv_close(close, shared);
                return Ok(Next::Free);
            }
            Method::ChannelOpenOk(_) => self.recv_open_ok(method, shared)?,
            Method::ConfirmSelectOk(_) | Method::TxSelectOk(_) => {
                self.recv_select_ok(method, shared)?;
            }
            Method::TxCommitOk(_) => self.recv_commit_ok(method, shared)?,
            Method::TxRollbackOk(_) => self.recv_rollback_ok(method, shared)?,
            Method::BasicConsumeOk(ok) => self.recv_consume_ok(ok, method, shared)?,
            Method::BasicCancelOk(ok) => self.recv_cancel_ok(ok, method, shared)?,
            Method::BasicRecoverOk(_) => self.recv_recover_ok(method, shared)?,
            Method::BasicGetEmpty(_) => self.recv_get_empty(method, shared)?,
            plain_replies!() => self.recv_plain_reply(method, shared)?,
            // What only clients send, what belongs on channel 0, and a close-ok to no close.
            sent_by_clients!() | of_connection!() | Method::ChannelCloseOk(_) => {
                return Err(self.unexpected(method.id()));
            }
        }
        Ok(Next::Stays)
    }

    fn unexpected(&self, method: MethodId) -> Violation {
        Violation::UnexpectedMethod {
            method,
            channel: self.id.number,
        }
    }

    // ----- confirms -----

    #[inline]
    fn recv_confirm(
        &mut self,
        tag: u64,
        multiple: bool,
        verdict: Verdict,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let Mode::Confirm(tracker) = &mut self.mode else {
            return Err(Violation::UnknownConfirm { tag, last: 0 });
        };
        let (id, events) = (self.id, &mut *shared.events);
        tracker.recv_confirm(tag, multiple, verdict, |seq, keep, outcome| {
            events.settled(id, seq, keep, outcome);
        })?;
        self.close_if_settled(shared);
        Ok(())
    }

    // ----- contents -----

    fn recv_return_method(&mut self, returned: &basic::Return<'_>) -> Result<(), Violation> {
        let before = match &self.mode {
            Mode::Confirm(tracker) => tracker.next_seq().0,
            Mode::Plain | Mode::Selecting(_) | Mode::Tx(_) => 0,
        };
        let origin = Origin::Return {
            code: returned.reply_code,
            before,
        };
        let strings = [
            &returned.exchange,
            &returned.routing_key,
            &returned.reply_text,
        ];
        let head = DeliveryHead {
            tag: 0,
            redelivered: false,
            origin,
        };
        Ok(self
            .incoming
            .start(head, &strings.map(ShortStr::as_bytes))?)
    }

    /// What [`recv_deliver`](Self::recv_deliver), [`recv_header`](Self::recv_header) and
    /// [`recv_body`](Self::recv_body) do one after the other.
    #[inline]
    fn recv_whole_delivery(
        &mut self,
        deliver: &basic::Deliver<'_>,
        content: &Whole<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        self.incoming.expect_method()?;
        let consumer = self.consumers.recv_deliver(deliver)?;
        let tag = DeliveryTag {
            channel: self.id,
            tag: deliver.delivery_tag,
        };
        let content = Content::from_whole((), &strings_of(deliver), content);
        let delivery = Delivery::new(tag, deliver.redelivered, content);
        self.deliver(consumer, delivery, shared)?;
        Ok(Next::Stays)
    }

    fn recv_deliver(&mut self, deliver: &basic::Deliver<'_>) -> Result<(), Violation> {
        let head = DeliveryHead {
            tag: deliver.delivery_tag,
            redelivered: deliver.redelivered,
            origin: Origin::Consumer(self.consumers.recv_deliver(deliver)?),
        };
        Ok(self.incoming.start(head, &strings_of(deliver))?)
    }

    fn recv_get_ok(&mut self, ok: &basic::GetOk<'_>) -> Result<(), Violation> {
        let get = self.rpcs.awaited();
        let Some(get) = get.filter(|rpc| rpc.method == MethodId::BASIC_GET) else {
            return Err(self.unexpected(MethodId::BASIC_GET_OK));
        };
        self.consumers.recv_delivery(ok.delivery_tag, get.no_ack)?;
        let origin = Origin::Get {
            message_count: ok.message_count,
        };
        let strings = [ok.exchange.as_bytes(), ok.routing_key.as_bytes()];
        let head = DeliveryHead {
            tag: ok.delivery_tag,
            redelivered: ok.redelivered,
            origin,
        };
        Ok(self.incoming.start(head, &strings)?)
    }

    fn recv_header(
        &mut self,
        payload: &[u8],
        offset: u64,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        let announced = Announced::decode(payload).map_err(|fault| fault.shifted(offset))?;
        let content = self
            .incoming
            .header(announced, payload, &shared.bounds.decoding)?;
        match content {
            Some(content) => self.recv_content(content, shared)?,
            None => {
                self.missing = announced.body_size;
                if payload.len() > SMALL_HEADER {
                    self.assemble(payload.len(), shared)?;
                }
            }
        }
        Ok(Next::Stays)
    }

    fn recv_body(
        &mut self,
        payload: &[u8],
        source: Option<&Bytes>,
        shared: &mut Shared<'_, P>,
    ) -> Result<Next, Violation> {
        // The last part is not kept: what it completes is handed out.
        let missing = self.missing.saturating_sub(payload.len() as u64);
        if missing > 0 {
            self.assemble(payload.len(), shared)?;
            self.missing = missing;
        }
        if let Some(content) = self.incoming.body(payload, source)? {
            self.missing = 0;
            if self.assembling > 0 {
                self.assembled(shared);
            }
            self.recv_content(content, shared)?;
        }
        Ok(Next::Stays)
    }

    /// So many bytes more are kept of a message that is not complete.
    #[cold]
    fn assemble(&mut self, bytes: usize, shared: &mut Shared<'_, P>) -> Result<(), Violation> {
        let max = shared.bounds.limits.assembly_bytes;
        let assembling = shared.bounds.assembling.saturating_add(bytes);
        if assembling > max {
            return Err(Violation::TooMuchInAssembly { max });
        }
        shared.bounds.assembling = assembling;
        self.assembling = self.assembling.saturating_add(bytes);
        Ok(())
    }

    /// The message is complete, or given up.
    pub(super) fn assembled(&mut self, shared: &mut Shared<'_, P>) {
        self.missing = 0;
        let given_back = std::mem::take(&mut self.assembling);
        shared.bounds.assembling = shared.bounds.assembling.saturating_sub(given_back);
    }

    /// A message is complete.
    fn recv_content(
        &mut self,
        content: Content<DeliveryHead>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        match content.method.origin {
            Origin::Consumer(consumer) => {
                let delivery = Delivery::of_content(self.id, content);
                self.deliver(consumer, delivery, shared)
            }
            Origin::Get { message_count } => self.recv_got(content, message_count, shared),
            Origin::Return { code, before } => {
                self.recv_return(code, before, content, shared);
                Ok(())
            }
        }
    }

    /// A message for this consumer, or for none any more.
    #[inline]
    fn deliver(
        &mut self,
        consumer: Option<ConsumerId>,
        delivery: Delivery,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        match consumer {
            Some(consumer) => {
                shared.events.delivered(consumer, delivery);
                Ok(())
            }
            None => {
                self.give_back(&delivery, shared);
                self.has_answered(&basic::Nack::default(), shared)
            }
        }
    }

    /// A message that nobody wants any more must not stay unsettled. One that needs no ack is gone; one of a stream is
    /// there all the same, and its tag is forgotten, as nobody is left to settle it.
    pub(in crate::proto) fn give_back(&mut self, delivery: &Delivery, shared: &mut Shared<'_, P>) {
        let DeliveryTag { tag, .. } = delivery.tag();
        if !self.consumers.is_unsettled(tag) {
            return;
        }
        // Nobody would settle it anew after a rollback: the transaction does not keep it.
        self.consumers.settle(tag, false, |_| {});
        // RabbitMQ before 4.0 ends the connection (540) for a nack of a stream's message.
        if !delivery.is_of_stream(&shared.bounds.decoding) {
            self.send_settle(tag, false, Settle::Nack { requeue: true }, shared);
        }
    }

    fn recv_got(
        &mut self,
        content: Content<DeliveryHead>,
        message_count: u32,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let Some(rpc) = self.rpcs.recv_reply(MethodId::BASIC_GET_OK) else {
            return Err(self.unexpected(MethodId::BASIC_GET_OK));
        };
        match rpc.request {
            Some(request) => {
                let delivery = Delivery::of_content(self.id, content);
                let got = Reply::Got(Some((delivery, message_count)));
                shared.events.push_back(Event::Reply(request, Ok(got)));
            }
            None => self.give_back(&Delivery::of_content(self.id, content), shared),
        }
        self.send_next_rpc(shared);
        Ok(())
    }

    fn recv_return(
        &mut self,
        code: ReplyCode,
        before: u64,
        content: Content<DeliveryHead>,
        shared: &mut Shared<'_, P>,
    ) {
        if let Mode::Confirm(tracker) = &mut self.mode {
            let properties = content.properties();
            let headers = properties.headers(&shared.bounds.decoding);
            let headers = headers.map(Option::unwrap_or_default);
            let incoming = IncomingReturn {
                code,
                before,
                text: short(content.string(2)),
                exchange: content.string(0),
                routing_key: content.string(1),
                properties: properties.clone(),
                headers: headers.as_ref().ok().map(Table::to_map),
                body: content.body(),
                tagged: tracker.options().tag_returns,
                limits: &shared.bounds.decoding,
            };
            if let ReturnMatch::Open = tracker.recv_return(&incoming) {
                return;
            }
        }
        let returned = unmatched_return(code, content);
        let unclaimed = match &mut self.mode {
            Mode::Tx(transaction) => transaction.returned(returned),
            Mode::Plain | Mode::Selecting(_) | Mode::Confirm(_) => Some(returned),
        };
        if let Some(returned) = unclaimed {
            let event = Event::Returned(self.id, Box::new(returned));
            shared.events.push_back(event);
        }
    }

    // ----- replies -----

    /// The request that this method answers.
    fn answered(&mut self, reply: &Method<'_>) -> Result<Rpc, Violation> {
        let rpc = self.rpcs.recv_reply(reply.id());
        rpc.ok_or_else(|| self.unexpected(reply.id()))
    }

    /// Gives the reply to whoever still waits for it, and sends what waits behind it.
    fn reply(&mut self, rpc: &Rpc, reply: Reply, shared: &mut Shared<'_, P>) {
        if let Some(request) = rpc.request {
            shared.events.push_back(Event::Reply(request, Ok(reply)));
        }
        self.send_next_rpc(shared);
    }

    fn reply_as_is(&mut self, rpc: &Rpc, method: &Method<'_>, shared: &mut Shared<'_, P>) {
        self.reply(rpc, Reply::Method(method.clone().into_owned()), shared);
    }

    fn recv_plain_reply(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let rpc = self.answered(method)?;
        self.reply_as_is(&rpc, method, shared);
        Ok(())
    }

    fn recv_open_ok(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let rpc = self.answered(method)?;
        self.state = State::Open;
        if rpc.request.is_none() {
            self.start_close(ReplyCode::REPLY_SUCCESS, ShortStr::default(), shared);
        } else {
            self.reply(&rpc, Reply::Channel(self.id), shared);
            self.close_if_settled(shared);
        }
        Ok(())
    }

    fn recv_select_ok(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let rpc = self.answered(method)?;
        if let Mode::Selecting(select) = &mut self.mode {
            self.mode = match std::mem::take(select) {
                Select::Confirm(options) => Mode::Confirm(Box::new(ConfirmTracker::new(options))),
                Select::Tx => Mode::Tx(Transaction::default()),
            };
        }
        self.reply_as_is(&rpc, method, shared);
        Ok(())
    }

    fn recv_commit_ok(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let rpc = self.answered(method)?;
        let Ended { returned, .. } = self.end_transaction(shared);
        self.reply(&rpc, Reply::Committed(returned), shared);
        Ok(())
    }

    fn recv_rollback_ok(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let rpc = self.answered(method)?;
        let Ended {
            returned, settled, ..
        } = self.end_transaction(shared);
        for delivery in settled {
            self.consumers.restore(delivery);
        }
        self.reply(&rpc, Reply::RolledBack(returned), shared);
        Ok(())
    }

    fn end_transaction(&mut self, shared: &mut Shared<'_, P>) -> Ended {
        let Mode::Tx(transaction) = &mut self.mode else {
            return Ended::default();
        };
        let ended = transaction.end();
        shared
            .outgoing
            .frames(&mut self.backlog, |buf| buf.extend_from_slice(&ended.held));
        ended
    }

    fn recv_consume_ok(
        &mut self,
        ok: &basic::ConsumeOk<'_>,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let tag = ok.consumer_tag.clone().into_owned();
        // One whose cancel waits is no longer anybody's.
        let is_taken = self.consumers.has(tag.as_bytes()) && !self.rpcs.cancels(&tag);
        if is_taken || self.names_another(&tag) {
            return Err(self.unexpected(method.id()));
        }
        let rpc = self.answered(method)?;
        let id = rpc.request.map(ConsumerId);
        self.consumers.start(tag.clone(), id, rpc.no_ack);
        if id.is_none() {
            let cancel = self.cancel_of(None, tag);
            self.rpcs.push_first(cancel);
        }
        self.reply_as_is(&rpc, method, shared);
        Ok(())
    }

    /// Whether the reply names another consumer than the request, if that named one.
    fn names_another(&self, tag: &ShortStr<'_>) -> bool {
        let asked = self.rpcs.awaited().map(|rpc| &rpc.consumer_tag);
        asked.is_some_and(|asked| !asked.is_empty() && asked != tag)
    }

    fn recv_cancel_ok(
        &mut self,
        ok: &basic::CancelOk<'_>,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        if self.names_another(&ok.consumer_tag) {
            return Err(self.unexpected(method.id()));
        }
        let rpc = self.answered(method)?;
        self.consumers.end(ok.consumer_tag.as_bytes());
        self.reply_as_is(&rpc, method, shared);
        Ok(())
    }

    fn recv_recover_ok(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let rpc = self.answered(method)?;
        self.consumers.recovered();
        self.reply_as_is(&rpc, method, shared);
        Ok(())
    }

    fn recv_get_empty(
        &mut self,
        method: &Method<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        let rpc = self.answered(method)?;
        self.reply(&rpc, Reply::Got(None), shared);
        Ok(())
    }

    // ----- what the server starts -----

    /// `answer` was sent to what the server said. It waits while a commit or rollback is unanswered, which must not let a
    /// server make it grow without end.
    fn has_answered(
        &mut self,
        answer: &impl MethodFields,
        shared: &Shared<'_, P>,
    ) -> Result<(), Violation> {
        let max = shared.bounds.limits.held_answer_bytes;
        let held = match &mut self.mode {
            Mode::Tx(transaction) => transaction.answered(frame::method_frame_len(answer)),
            Mode::Plain | Mode::Selecting(_) | Mode::Confirm(_) => 0,
        };
        match held > max {
            true => Err(Violation::TooManyAnswers { max }),
            false => Ok(()),
        }
    }

    fn recv_cancel(
        &mut self,
        cancel: &basic::Cancel<'_>,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        if let Some(consumer) = self.consumers.end(cancel.consumer_tag.as_bytes()) {
            let tag = cancel.consumer_tag.clone().into_owned();
            shared
                .events
                .push_back(Event::ConsumerCancelled(self.id, consumer, tag));
        }
        if !cancel.no_wait {
            let consumer_tag = cancel.consumer_tag.as_borrowed();
            let ok = basic::CancelOk { consumer_tag };
            self.send(&ok, shared);
            self.has_answered(&ok, shared)?;
        }
        Ok(())
    }

    fn recv_flow(
        &mut self,
        flow: &channel::Flow,
        shared: &mut Shared<'_, P>,
    ) -> Result<(), Violation> {
        self.flow = flow.active;
        let ok = channel::FlowOk {
            active: flow.active,
            ..Default::default()
        };
        self.send(&ok, shared);
        self.has_answered(&ok, shared)
    }

    fn recv_close(&mut self, close: &channel::Close<'_>, shared: &mut Shared<'_, P>) {
        let number = self.id.number;
        shared.outgoing.drop_backlog(number, &mut self.backlog);
        shared
            .outgoing
            .write(|buf| encode(number, &channel::CloseOk {}, buf));
        let method = MethodId {
            class: close.class_id,
            method: close.method_id,
        };
        let closed = Closed::by_server(close.reply_code, &close.reply_text, method);
        self.closed_by_server(&Arc::new(closed), shared);
    }
}

/// The strings that a delivery keeps of its method.
#[inline]
fn strings_of<'a>(deliver: &'a basic::Deliver<'_>) -> [&'a [u8]; 2] {
    [deliver.exchange.as_bytes(), deliver.routing_key.as_bytes()]
}

/// A return that is tied to no publish, with the message as it came back.
fn unmatched_return(code: ReplyCode, content: Content<DeliveryHead>) -> Returned {
    let owned = |index| short(content.string(index)).into_owned();
    let (exchange, routing_key, text) = (owned(0), owned(1), owned(2));
    let properties = content.properties().into_owned();
    let message = Message::with_properties(content.into_body(), properties).mandatory();
    Returned {
        code,
        text,
        publication: Publication {
            exchange,
            routing_key,
            message,
        },
        followed: Followed::Nothing,
        matched: Match::None,
    }
}
