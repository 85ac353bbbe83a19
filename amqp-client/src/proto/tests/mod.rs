//! Transcripts against raw frames, in virtual time: a test plays the server, and the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp_codec::basic::Properties;
use amqp_codec::content;
use amqp_codec::frame::{self, FRAME_MIN_SIZE};
use amqp_codec::{
    Frame, Limits, LongStr, MethodFields, MethodId, ProtocolHeader, RawFrame, ReplyCode, ShortStr,
    Table, basic, channel, confirm, connection, table,
};
use bytes::{Buf, Bytes};

use super::*;
use crate::config::ConnectOptions;
use crate::error::{CloseCause, Closed, NotSent, UsageError};
use crate::message::{Message, Publication};
use crate::outcome::{Outcome, Returned, UnknownReason};

mod channels;
mod closing;
mod confirms;
mod consumer_tags;
mod consuming;
mod cuts;
mod flow;
mod handshake;
mod hostile;
mod properties;
mod quiet;
mod return_tags;
mod returns;
mod rpcs;
mod transactions;

/// A test names its publishes by numbers, and is told of each.
impl Keep for u64 {}

/// A client connection whose transport, server and clock are the test.
struct Session {
    conn: Connection<u64>,
    input: Input,
    now: Instant,
    /// Bytes the client has sent and the test has not looked at.
    client_bytes: Vec<u8>,
    /// Bytes the client has handed to its transport.
    written: u64,
    /// Events the test has not looked at.
    events: Vec<Event<u64>>,
    published: u64,
}

/// Bytes of the server's.
#[derive(Default)]
struct Wire(Vec<u8>);

fn wire() -> Wire {
    Wire::default()
}

impl Wire {
    fn method(mut self, channel: u16, method: impl MethodFields) -> Self {
        frame::encode_method(channel, &method, &mut self.0).expect("encodable");
        self
    }

    fn content(
        mut self,
        channel: u16,
        method: impl MethodFields,
        properties: &Properties<'_>,
        body: &[u8],
    ) -> Self {
        let (max, buf) = (FRAME_MIN_SIZE, &mut self.0);
        content::encode(channel, &method, properties, body, max, buf).expect("encodable");
        self
    }

    fn raw(mut self, kind: u8, channel: u16, payload: &[u8]) -> Self {
        let frame = RawFrame {
            kind,
            channel,
            payload,
        };
        frame.encode(&mut self.0).expect("encodable");
        self
    }

    fn ack(self, channel: u16, delivery_tag: u64, multiple: bool) -> Self {
        let ack = basic::Ack {
            delivery_tag,
            multiple,
            ..Default::default()
        };
        self.method(channel, ack)
    }

    fn nack(self, channel: u16, delivery_tag: u64, multiple: bool) -> Self {
        let nack = basic::Nack {
            delivery_tag,
            multiple,
            ..Default::default()
        };
        self.method(channel, nack)
    }

    /// The publication comes back as it was sent.
    fn returned(self, channel: u16, publication: &Publication) -> Self {
        let properties = publication.message.properties().clone();
        self.returned_with(channel, publication, &properties)
    }

    fn returned_with(self, channel: u16, of: &Publication, properties: &Properties<'_>) -> Self {
        let returned = basic::Return {
            reply_code: ReplyCode::NO_ROUTE,
            reply_text: ShortStr::from_static("NO_ROUTE"),
            exchange: of.exchange.clone(),
            routing_key: of.routing_key.clone(),
        };
        self.content(channel, returned, properties, of.message.body())
    }

    fn deliver(self, channel: u16, consumer_tag: &'static str, delivery_tag: u64) -> Self {
        let deliver = basic::Deliver {
            consumer_tag: ShortStr::from_static(consumer_tag),
            delivery_tag,
            routing_key: ShortStr::from_static("q"),
            ..Default::default()
        };
        self.content(channel, deliver, &Properties::EMPTY, b"body")
    }

    fn channel_close(self, channel: u16, code: ReplyCode, text: &'static str) -> Self {
        let close = channel::Close {
            reply_code: code,
            reply_text: ShortStr::from_static(text),
            class_id: 60,
            method_id: 40,
        };
        self.method(channel, close)
    }

    fn connection_close(self, code: ReplyCode, text: &'static str) -> Self {
        let close = connection::Close {
            reply_code: code,
            reply_text: ShortStr::from_static(text),
            ..Default::default()
        };
        self.method(0, close)
    }
}

fn start() -> connection::Start<'static> {
    connection::Start {
        version_major: 0,
        version_minor: 9,
        server_properties: table! { "product" => "Double", "capabilities" => table! { "basic.nack" => true } },
        mechanisms: LongStr::from("AMQPLAIN PLAIN"),
        locales: LongStr::from("en_US"),
    }
}

/// What RabbitMQ proposes, without heartbeats, so that time can pass in tests of other things.
fn tune() -> connection::Tune {
    connection::Tune {
        channel_max: 2047,
        frame_max: 131_072,
        heartbeat: 0,
    }
}

fn options() -> ConnectOptions {
    ConnectOptions::new()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn text(text: &str) -> ShortStr<'static> {
    ShortStr::try_from(text.to_owned()).expect("short")
}

/// To an exchange and key that say nothing.
fn publication(message: Message) -> Publication {
    Publication {
        exchange: text("ex"),
        routing_key: text("key"),
        message,
    }
}

fn mandatory(body: impl Into<Bytes>) -> Publication {
    publication(Message::new(body).mandatory())
}

fn plain(body: impl Into<Bytes>) -> Publication {
    publication(Message::new(body))
}

impl Session {
    /// The client has been started; nothing has been read or written.
    fn new(options: ConnectOptions) -> Self {
        let now = Instant::now();
        let input = Input::new(&options.limits);
        Session {
            conn: Connection::new(7, options, now),
            input,
            now,
            client_bytes: Vec::new(),
            written: 0,
            events: Vec::new(),
            published: 0,
        }
    }

    /// The handshake is done.
    fn open() -> Self {
        Session::open_with(options(), tune())
    }

    fn open_with(options: ConnectOptions, tune: connection::Tune) -> Self {
        let mut session = Session::new(options);
        session.feed(wire().method(0, start()));
        session.feed(wire().method(0, tune));
        session.feed(wire().method(0, connection::OpenOk::default()));
        session.transmit();
        session.client_bytes.clear();
        assert!(matches!(session.events()[..], [Event::Opened]));
        session
    }

    /// A channel is open.
    fn channel(&mut self) -> ChannelId {
        let request = self.conn.next_request();
        let id = self.conn.open_channel(request).expect("a channel is free");
        let expected = format!("{} channel.open", id.number);
        assert_eq!(self.sent(), [expected]);
        self.feed(wire().method(id.number, channel::OpenOk::default()));
        match self.events().remove(0) {
            Event::Reply(answered, Ok(Reply::Channel(opened))) if opened == id => {
                assert_eq!(answered, request);
            }
            other => panic!("{other:?}"),
        }
        id
    }

    /// A channel in confirm mode.
    fn confirm_channel(&mut self, options: ConfirmOptions) -> ChannelId {
        let id = self.channel();
        let request = self.conn.next_request();
        self.view(id)
            .select_confirms(request, options)
            .expect("a plain channel");
        assert_eq!(self.sent(), [format!("{} confirm.select", id.number)]);
        self.feed(wire().method(id.number, confirm::SelectOk {}));
        assert!(
            matches!(self.events()[..], [Event::Reply(answered, Ok(_))] if answered == request)
        );
        id
    }

    fn view(&mut self, id: ChannelId) -> ChannelView<'_, u64> {
        self.conn.channel(id).expect("the channel is there")
    }

    /// Publishes, and names the publish: 1 for the first of the session, and so on.
    fn publish(&mut self, id: ChannelId, publication: Publication) -> u64 {
        self.try_publish(id, publication).expect("admitted")
    }

    fn try_publish(&mut self, id: ChannelId, publication: Publication) -> Result<u64, NotSent> {
        let keep = self.published + 1;
        let mut view = self.conn.channel(id)?;
        view.publish(&mut Some(publication), keep)?;
        self.published = keep;
        Ok(keep)
    }

    /// The server's bytes arrive.
    fn feed(&mut self, wire: Wire) {
        self.feed_bytes(&wire.0);
    }

    fn feed_bytes(&mut self, bytes: &[u8]) {
        self.input.buffer().extend_from_slice(bytes);
        self.conn.handle_input(self.now, &mut self.input);
    }

    /// The stream ends after all that was transmitted.
    fn cut(&mut self) {
        self.conn
            .handle_transport_end(self.written, CloseCause::EndOfStream);
    }

    /// Time passes, with a turn of the owner at each deadline on the way.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut turns = 0;
        self.transmit();
        while let Some(at) = self.conn.poll_timeout().filter(|at| *at <= end) {
            turns += 1;
            assert!(turns < 10_000, "nothing comes of the deadline {at:?}");
            self.now = self.now.max(at);
            self.conn.handle_timeout(self.now);
            self.transmit();
        }
        self.now = end;
    }

    /// The transport takes all there is.
    fn transmit(&mut self) {
        let mut batch = Batch::new();
        while self.conn.poll_transmit(self.now, &mut batch) {
            self.written += batch.remaining() as u64;
            while batch.has_remaining() {
                let chunk = batch.chunk();
                self.client_bytes.extend_from_slice(chunk);
                let len = chunk.len();
                batch.advance(len);
            }
        }
    }

    /// What the client has sent since the last look, a line for each frame.
    fn sent(&mut self) -> Vec<String> {
        self.transmit();
        let bytes = std::mem::take(&mut self.client_bytes);
        describe(&bytes)
    }

    /// What has happened since the last look.
    fn events(&mut self) -> Vec<Event<u64>> {
        self.events
            .extend(std::iter::from_fn(|| self.conn.poll_event()));
        std::mem::take(&mut self.events)
    }

    /// What has been settled since the last look, and nothing else has happened.
    fn settled(&mut self) -> Vec<(u64, Outcome)> {
        let settled = |event| match event {
            Event::Settled(_, keep, outcome) => (keep, outcome),
            other => panic!("not settled: {other:?}"),
        };
        self.events().into_iter().map(settled).collect()
    }

    fn outcomes(&mut self) -> Vec<(u64, &'static str)> {
        let settled = self.settled();
        settled
            .iter()
            .map(|(keep, outcome)| (*keep, name(outcome)))
            .collect()
    }

    fn status(&mut self, id: ChannelId) -> ConfirmStatus {
        self.view(id).confirm_status().expect("in confirm mode")
    }

    /// The connection is over, and nothing is left of what it had.
    fn assert_over(&mut self) {
        assert!(self.conn.closed().is_some());
        assert_eq!(self.conn.poll_timeout(), None);
        assert!(self.events().is_empty(), "an event after the last");
        let footprint = self.conn.footprint();
        assert_eq!((footprint.channels, footprint.timers), (0, 0));
        assert_eq!((footprint.waiting, footprint.unstamped), (0, 0));
    }
}

fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Acked => "acked",
        Outcome::Returned(_) => "returned",
        Outcome::Nacked(_) => "nacked",
        Outcome::Unknown { .. } => "unknown",
    }
}

fn returned(outcome: Outcome) -> Returned {
    match outcome {
        Outcome::Returned(returned) => *returned,
        other => panic!("not returned: {other:?}"),
    }
}

/// One line for each frame: channel, method or kind, and of some what matters most.
fn describe(mut bytes: &[u8]) -> Vec<String> {
    let limits = Limits {
        frame_max: 1 << 20,
        ..Limits::default()
    };
    let mut lines = Vec::new();
    if let Some(header) = ProtocolHeader::parse(bytes) {
        assert_eq!(header, ProtocolHeader::AMQP_0_9_1);
        lines.push("AMQP 0 0 9 1".to_owned());
        bytes = &bytes[8..];
    }
    while let Some((raw, len)) = RawFrame::parse(bytes, &limits).expect("the client sends frames") {
        lines.push(describe_frame(&raw.decode(&limits).expect("decodable")));
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty(), "half a frame: {bytes:?}");
    lines
}

fn describe_frame(frame: &Frame<'_>) -> String {
    use amqp_codec::Method::*;
    let channel = frame.channel();
    let settle = |tag: u64, multiple: bool, requeue: bool| {
        let multiple = if multiple { " multiple" } else { "" };
        let requeue = if requeue { " requeue" } else { "" };
        format!(" {tag}{multiple}{requeue}")
    };
    match frame {
        Frame::Heartbeat => "heartbeat".to_owned(),
        Frame::Header { header, .. } => format!("{channel} header {}", header.body_size),
        Frame::Body { payload, .. } => format!("{channel} body {}", payload.len()),
        Frame::Method { method, .. } => {
            let detail = match method {
                BasicAck(ack) => settle(ack.delivery_tag, ack.multiple, false),
                BasicNack(nack) => settle(nack.delivery_tag, nack.multiple, nack.requeue),
                BasicReject(reject) => settle(reject.delivery_tag, false, reject.requeue),
                BasicCancel(cancel) => format!(" {}", cancel.consumer_tag),
                BasicConsume(consume) if consume.no_wait => " no-wait".to_owned(),
                ChannelFlowOk(ok) => format!(" {}", ok.active),
                ChannelClose(close) => format!(" {}", close.reply_code.0),
                ConnectionClose(close) => format!(" {}", close.reply_code.0),
                _ => String::new(),
            };
            format!("{channel} {}{detail}", method.id())
        }
    }
}

/// The last event, which says that the connection is over.
fn closed(events: &[Event<u64>]) -> &Arc<Closed> {
    match events.last() {
        Some(Event::Closed(closed)) => closed,
        other => panic!("not closed: {other:?}"),
    }
}

/// The connection goes through the middle of something: for tests of a violation.
fn assert_closes_with(session: &mut Session, code: ReplyCode) {
    assert_eq!(
        session.sent().last(),
        Some(&format!("0 connection.close {}", code.0))
    );
    session.feed(wire().method(0, connection::CloseOk {}));
    let events = session.events();
    let closed = closed(&events);
    assert_eq!(closed.code, code);
    assert_eq!(closed.initiator, crate::error::Initiator::Library);
    session.assert_over();
}
