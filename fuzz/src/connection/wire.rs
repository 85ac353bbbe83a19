//! What the client sends: frames in an order that every server takes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use amqp_client::proto;
use amqp_codec::frame::FRAME_MIN_SIZE;
use amqp_codec::{
    Assembler, Direction, Frame, Limits, Method, MethodId, ProtocolHeader, RawFrame, basic,
};
use bytes::Bytes;

/// The client's bytes as a server reads them.
#[derive(Default)]
pub(super) struct ClientStream {
    /// Half a frame.
    rest: Vec<u8>,
    header_seen: bool,
    /// connection.close, and connection.close-ok.
    closing: bool,
    closed: bool,
    channels: BTreeMap<u16, WireChannel>,
    /// What the server has to answer, in order.
    pub(super) requests: VecDeque<Request>,
    /// Messages that came whole.
    pub(super) received: Vec<Received>,
}

/// What a server owes an answer to.
#[derive(Debug)]
pub(super) enum Request {
    Header,
    Method(u16, Method<'static>),
}

/// A message that came whole.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) channel: u16,
    /// How often the channel's number had been opened.
    pub(super) opening: usize,
    pub(super) publish: basic::Publish<'static>,
    pub(super) properties: basic::Properties<'static>,
    pub(super) body: Bytes,
}

#[derive(Default)]
struct WireChannel {
    state: State,
    openings: usize,
    content: Assembler<basic::Publish<'static>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open,
    /// The client has closed it.
    Closing,
}

impl ClientStream {
    pub(super) fn take(&mut self, bytes: &[u8], frame_max: Option<u32>) {
        let mut input = std::mem::take(&mut self.rest);
        input.extend_from_slice(bytes);
        let mut rest = &input[..];
        if !self.header_seen {
            let Some(header) = ProtocolHeader::parse(rest) else {
                assert!(ProtocolHeader::is_prefix(rest));
                self.rest = input;
                return;
            };
            assert_eq!(header, ProtocolHeader::AMQP_0_9_1);
            self.header_seen = true;
            self.requests.push_back(Request::Header);
            rest = &rest[8..];
        }
        // Whatever is sent fits what was negotiated, headers and methods included.
        let limits = Limits {
            frame_max: frame_max.unwrap_or(FRAME_MIN_SIZE),
            method_frame_max: 0,
            ..Limits::default()
        };
        while let Some((raw, len)) =
            RawFrame::parse(rest, &limits).expect("the client sends frames")
        {
            let frame = raw.decode(&limits).expect("that are valid");
            self.take_frame(&frame, raw.payload, &limits);
            rest = &rest[len..];
        }
        self.rest = rest.to_vec();
    }

    /// RabbitMQ may answer what comes on one channel in another order: one request at a time waits for its answer, and
    /// a close.
    pub(super) fn check_turns(&self) {
        let mut waiting = BTreeSet::new();
        for request in &self.requests {
            if let Request::Method(number @ 1.., method) = request
                && method.id() != MethodId::CHANNEL_CLOSE
            {
                assert!(waiting.insert(number), "{method:?} out of turn");
            }
        }
    }

    fn take_frame(&mut self, frame: &Frame<'_>, payload: &[u8], limits: &Limits) {
        assert!(!self.closed, "{frame:?} after connection.close-ok");
        match frame {
            Frame::Heartbeat => {}
            Frame::Method { channel: 0, method } => self.take_method(method),
            frame => {
                assert!(!self.closing, "{frame:?} after connection.close");
                let number = frame.channel();
                let channel = self.channels.entry(number).or_default();
                if let Some(message) = channel.take(number, frame, payload, limits) {
                    self.received.push(message);
                }
                if let Frame::Method { method, .. } = frame
                    && !method.id().replies().is_empty()
                    && !is_no_wait(method)
                {
                    let request = Request::Method(number, method.clone().into_owned());
                    self.requests.push_back(request);
                }
            }
        }
    }

    fn take_method(&mut self, method: &Method<'_>) {
        match method {
            Method::ConnectionCloseOk(_) => self.closed = true,
            Method::ConnectionClose(_) => {
                assert!(!self.closing, "a second close");
                self.closing = true;
            }
            method => assert!(!self.closing, "{method:?} after connection.close"),
        }
        assert!(!method.id().carries_content());
        self.requests
            .push_back(Request::Method(0, method.clone().into_owned()));
    }
}

impl WireChannel {
    /// What every server wants of a channel: it is opened before it is used, closed once, and contents are whole.
    fn take(
        &mut self,
        number: u16,
        frame: &Frame<'_>,
        payload: &[u8],
        limits: &Limits,
    ) -> Option<Received> {
        let Frame::Method { method, .. } = frame else {
            assert_eq!(self.state, State::Open, "{frame:?}");
            return self.take_content(number, frame, payload, limits);
        };
        if let Method::ChannelCloseOk(_) = method {
            // The server has closed the channel: what was still to come of a content is not sent any more.
            self.content = Assembler::new();
        }
        let whole = self.content.expect_method();
        assert_eq!(whole, Ok(()), "{method:?} within a content");
        self.state = match (self.state, method) {
            (State::Closed | State::Closing, Method::ChannelOpen(_)) => {
                self.openings += 1;
                State::Open
            }
            (State::Open, Method::ChannelClose(_)) => State::Closing,
            (State::Open, Method::ChannelCloseOk(_)) => State::Closed,
            (State::Closing, Method::ChannelCloseOk(_)) => State::Closing,
            (State::Open, method) => {
                let id = method.id();
                assert_ne!(id.direction(), Some(Direction::ToClient), "{id}");
                assert_ne!(id.class, 10, "{id} on a channel");
                assert_ne!(id, MethodId::CHANNEL_OPEN, "a second one");
                State::Open
            }
            (state, method) => panic!("{method:?} on a channel that is {state:?}"),
        };
        if let Method::BasicPublish(publish) = method {
            let publish = publish.clone().into_owned();
            self.content
                .start(publish, &[])
                .expect("contents are whole");
        }
        None
    }

    fn take_content(
        &mut self,
        number: u16,
        frame: &Frame<'_>,
        payload: &[u8],
        limits: &Limits,
    ) -> Option<Received> {
        let content = match frame {
            Frame::Header { header, .. } => self.content.header(header, payload, limits),
            Frame::Body { payload, .. } => {
                assert!(!payload.is_empty());
                self.content.body(payload, None)
            }
            Frame::Method { .. } | Frame::Heartbeat => return None,
        };
        let (publish, properties, body) = content.expect("in order")?.into_parts();
        Some(Received {
            channel: number,
            opening: self.openings,
            publish,
            properties,
            body,
        })
    }
}

fn is_no_wait(method: &Method<'_>) -> bool {
    match method {
        Method::QueueDeclare(declare) => declare.no_wait,
        Method::BasicConsume(consume) => consume.no_wait,
        Method::BasicCancel(cancel) => cancel.no_wait,
        _ => false,
    }
}

/// Takes a batch apart, in the pieces that it has.
pub(super) fn drain(batch: &mut proto::Batch, taken: &mut Vec<u8>) {
    use bytes::Buf as _;
    while batch.has_remaining() {
        let chunk = batch.chunk();
        assert!(!chunk.is_empty(), "bytes remain");
        taken.extend_from_slice(chunk);
        let len = chunk.len();
        batch.advance(len);
    }
}
