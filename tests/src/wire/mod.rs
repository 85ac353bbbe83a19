//! A framed connection of which every byte is in the test's hands.
//!
//! [`Wire`] is what the scripted server and the raw client have in common: it sends frames or any bytes, tells what
//! comes as an [`Event`], and asserts with `expect_*`: within a deadline, with the transcript in the failure, at the
//! place in the test that expected it.

mod event;
mod expect;
mod transcript;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use amqp_codec::basic::Properties;
use amqp_codec::{Limits, MethodFields, ProtocolHeader, RawFrame, content, frame};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use crate::typed::Typed;
pub use event::{Content, Event, OwnedFrame};
pub use transcript::{Direction, Transcript};

/// How long a wait lasts unless said otherwise.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// A framed connection.
#[derive(Debug)]
pub struct Wire<S> {
    stream: S,
    input: BytesMut,
    /// Frames of other channels than the one that was asked for, in their order.
    aside: VecDeque<OwnedFrame>,
    limits: Limits,
    /// Whether the other side must keep to frame_max in methods and headers too. Clients must; brokers do not.
    strict: bool,
    deadline: Duration,
    /// What came was no frame: nothing after it can be told apart.
    garbled: bool,
    transcript: Transcript,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Speaks on this stream. `frame_max` is the specification's minimum until [`set_frame_max`](Self::set_frame_max);
    /// a `strict` wire holds it against methods and content headers as well as bodies.
    pub fn new(stream: S, strict: bool) -> Self {
        let mut wire = Self {
            stream,
            input: BytesMut::new(),
            aside: VecDeque::new(),
            limits: Limits::default(),
            strict,
            deadline: DEADLINE,
            garbled: false,
            transcript: Transcript::new(),
        };
        wire.set_frame_max(frame::FRAME_MIN_SIZE);
        wire
    }

    /// What holds from now on in both directions, in bytes: a larger frame that comes is [`Event::Malformed`].
    pub fn set_frame_max(&mut self, frame_max: u32) {
        self.limits.frame_max = frame_max;
        if self.strict {
            self.limits.method_frame_max = frame_max;
        }
    }

    /// What bounds frames in both directions, in bytes.
    pub fn frame_max(&self) -> u32 {
        self.limits.frame_max
    }

    /// Changes how long every later wait may last; [`DEADLINE`] at first.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// All that went over the connection so far.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Keeps no transcript from now on: where memory is measured, it is not to be the test's.
    pub fn forget_transcript(&mut self) {
        self.transcript = Transcript::none();
    }

    /// Sends any bytes. That the other side is gone is no failure here; it is the next [`Event`].
    ///
    /// # Panics
    /// The other side does not read them within the deadline.
    pub async fn send_bytes(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.transcript.sent(bytes.clone());
        let write = async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await
        };
        match timeout(self.deadline, write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.transcript.note(format!("could not send: {error}")),
            Err(_) => panic!(
                "{} bytes could not be sent within {:?}\n{}",
                bytes.len(),
                self.deadline,
                self.transcript
            ),
        }
    }

    /// Sends a method.
    ///
    /// # Panics
    /// It cannot be encoded, or is not read within the deadline.
    pub async fn send(&mut self, channel: u16, method: impl MethodFields) {
        let mut bytes = Vec::new();
        frame::encode_method(channel, &method, &mut bytes).expect("the method fits a frame");
        self.send_bytes(bytes).await;
    }

    /// Sends a method with its content, the body in frames of at most [`frame_max`](Self::frame_max).
    ///
    /// # Panics
    /// It cannot be encoded, or is not read within the deadline.
    pub async fn send_content(
        &mut self,
        channel: u16,
        method: impl MethodFields,
        properties: &Properties<'_>,
        body: &[u8],
    ) {
        let mut bytes = Vec::new();
        content::encode(
            channel,
            &method,
            properties,
            body,
            self.frame_max(),
            &mut bytes,
        )
        .expect("the content fits its frames");
        self.send_bytes(bytes).await;
    }

    /// Sends a frame, sense or nonsense.
    ///
    /// # Panics
    /// Its payload has more than `u32::MAX` bytes, or it is not read within the deadline.
    pub async fn send_frame(&mut self, frame: RawFrame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes).expect("the payload fits a frame");
        self.send_bytes(bytes).await;
    }

    /// Sends a heartbeat.
    pub async fn send_heartbeat(&mut self) {
        self.send_frame(RawFrame {
            kind: frame::HEARTBEAT,
            channel: 0,
            payload: &[],
        })
        .await;
    }

    /// Sends a protocol header.
    pub async fn send_protocol(&mut self, header: ProtocolHeader) {
        self.send_bytes(header.to_bytes().to_vec()).await;
    }

    /// The next thing that comes, heartbeats included; [`Event::Silence`] when nothing does within the deadline.
    pub async fn next(&mut self) -> Event {
        self.next_within(self.deadline).await
    }

    /// The next thing that comes, or [`Event::Silence`] when nothing does for this long.
    pub async fn next_within(&mut self, patience: Duration) -> Event {
        if let Some(frame) = self.aside.pop_front() {
            return Event::Frame(frame);
        }
        self.read_within(patience).await
    }

    /// The next thing on this channel, heartbeats left out. Frames of other channels wait for their turn; the end of
    /// the connection, silence and the like concern every channel.
    pub async fn next_on(&mut self, channel: u16) -> Event {
        if let Some(at) = self.aside.iter().position(|frame| frame.channel == channel) {
            return Event::Frame(self.aside.remove(at).expect("the position was just found"));
        }
        let deadline = tokio::time::Instant::now() + self.deadline;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            match self.read_within(left).await {
                Event::Frame(frame) if frame.kind == frame::HEARTBEAT => {}
                Event::Frame(frame) if frame.channel != channel => self.aside.push_back(frame),
                event => return event,
            }
        }
    }

    async fn read_within(&mut self, patience: Duration) -> Event {
        let event = match timeout(patience, self.read()).await {
            Ok(event) => event,
            Err(_) => Event::Silence(patience),
        };
        self.transcript.received(event.clone());
        event
    }

    /// Cancel-safe: what was read stays in `input`.
    async fn read(&mut self) -> Event {
        loop {
            if let Some(event) = self.parse() {
                return event;
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return Event::Eof,
                Ok(_) => {}
                Err(error) => return Event::Reset(error.kind()),
            }
        }
    }

    fn parse(&mut self) -> Option<Event> {
        if self.garbled {
            self.input.clear();
            return None;
        }
        if !self.input.is_empty() && ProtocolHeader::is_prefix(&self.input) {
            let header = ProtocolHeader::parse(&self.input)?;
            let _ = self.input.split_to(8);
            return Some(Event::Protocol(header));
        }
        match RawFrame::parse(&self.input, &self.limits) {
            Ok(None) => None,
            Ok(Some((raw, len))) => {
                let (kind, channel, end) = (raw.kind, raw.channel, 7 + raw.payload.len());
                let payload = self.input.split_to(len).freeze().slice(7..end);
                Some(Event::Frame(OwnedFrame {
                    kind,
                    channel,
                    payload,
                }))
            }
            Err(error) => {
                self.garbled = true;
                Some(Event::Malformed(error))
            }
        }
    }

    /// Sends no more, but goes on reading: the other side sees the end of the stream.
    ///
    /// # Errors
    /// The connection is gone already.
    pub async fn half_close(&mut self) -> io::Result<()> {
        self.transcript.note("end of the stream sent".to_owned());
        self.stream.shutdown().await
    }
}

impl Wire<TcpStream> {
    /// Ends the connection with a TCP reset.
    ///
    /// # Panics
    /// The system refuses the socket option.
    pub fn reset(self) {
        self.stream
            .set_zero_linger()
            .expect("a socket takes the option");
    }

    /// The stream itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}
