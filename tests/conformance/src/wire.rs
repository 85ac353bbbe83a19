//! The transport: bytes out, whole or in pieces, and events in. It knows no dialogue.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use amqp_codec::{Limits, ProtocolHeader, RawFrame, frame};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::event::{Event, LIMITS, OwnedFrame};
use crate::failure::Failure;
use crate::record::Record;

/// A framed connection of which every byte is in the check's hands.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    input: BytesMut,
    /// Frames of other channels than the one that was asked for, in their order.
    aside: VecDeque<OwnedFrame>,
    /// The end of the connection; it is told again to whoever asks again.
    end: Option<Event>,
    limits: Limits,
    pub(crate) patience: Duration,
    chop: bool,
    garbled: bool,
    record: Rc<Record>,
    pub(crate) number: usize,
}

/// How many writes a message is at most sent in when it is chopped.
const PIECES: usize = 400;
/// How many frames may wait for their turn.
const ASIDE: usize = 10_000;

impl Wire {
    pub(crate) async fn connect(
        address: SocketAddr,
        patience: Duration,
        chop: bool,
        record: Rc<Record>,
    ) -> Result<Self, Failure> {
        let number = record.connection();
        let failed = |found: &str, detail: String| {
            record.note(number, &format!("cannot connect: {detail}"));
            Err(Failure::new("a TCP connection", found).detail(detail))
        };
        let stream = match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return failed("connection refused", error.to_string()),
            Err(_) => return failed("no connection", format!("within {patience:?}")),
        };
        // Without it the kernel would put the pieces together again.
        if let Err(error) = stream.set_nodelay(true) {
            return failed("no connection", error.to_string());
        }
        Ok(Self {
            stream,
            input: BytesMut::new(),
            aside: VecDeque::new(),
            end: None,
            limits: LIMITS,
            patience,
            chop,
            garbled: false,
            record,
            number,
        })
    }

    /// What holds from now on for body frames that come, in bytes: a larger one is [`Event::Malformed`].
    pub(crate) fn set_frame_max(&mut self, frame_max: u32) {
        self.limits.frame_max = if frame_max == 0 { u32::MAX } else { frame_max };
    }

    /// Sends any bytes. That the other side is gone is no failure here; it is the next event.
    pub(crate) async fn send(&mut self, bytes: impl Into<Bytes>) -> Result<(), Failure> {
        let bytes = bytes.into();
        self.record.sent(self.number, &bytes);
        let piece = match self.chop {
            true => bytes.len().div_ceil(PIECES),
            false => bytes.len(),
        };
        let write = async {
            for piece in bytes.chunks(piece.max(1)) {
                self.stream.write_all(piece).await?;
                if self.chop {
                    tokio::task::yield_now().await;
                }
            }
            self.stream.flush().await
        };
        match timeout(self.patience, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let note = format!("could not send: {error}");
                self.record.note(self.number, &note);
                Ok(())
            }
            Err(_) => Err(
                Failure::new("a broker that reads what is sent", "bytes not read").detail(format!(
                    "{} bytes could not be sent within {:?}",
                    bytes.len(),
                    self.patience
                )),
            ),
        }
    }

    /// Sends no more, but goes on reading: the other side sees the end of the stream.
    pub(crate) async fn half_close(&mut self) {
        self.record.note(self.number, "end of the stream sent");
        // It is no failure that the other side is gone already.
        let _ = self.stream.shutdown().await;
    }

    /// Ends the connection with a TCP reset.
    pub(crate) fn reset(self) {
        self.record.note(self.number, "reset");
        // Where the system refuses, it is an ordinary end.
        let _ = self.stream.set_zero_linger();
    }

    /// The next thing that comes, whatever it is, or [`Event::Silence`] when nothing does for this long.
    pub(crate) async fn next_within(&mut self, patience: Duration) -> Event {
        match self.aside.pop_front() {
            Some(frame) => Event::Frame(frame),
            None => self.read_within(patience).await,
        }
    }

    /// The next thing that `wanted` likes; heartbeats are left out, other frames wait for their turn.
    pub(crate) async fn next_where(&mut self, wanted: impl Fn(&OwnedFrame) -> bool) -> Event {
        if let Some(at) = self.aside.iter().position(&wanted)
            && let Some(frame) = self.aside.remove(at)
        {
            return Event::Frame(frame);
        }
        let deadline = Instant::now() + self.patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.read_within(left).await {
                Event::Frame(frame) if frame.kind == frame::HEARTBEAT => {}
                // Where too many wait already, the next one is told whether it is wanted or not.
                Event::Frame(frame) if !wanted(&frame) && self.aside.len() < ASIDE => {
                    self.aside.push_back(frame);
                }
                Event::Silence(_) => return Event::Silence(self.patience),
                event => return event,
            }
        }
    }

    async fn read_within(&mut self, patience: Duration) -> Event {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let event = match timeout(patience, self.read()).await {
            Ok(event) => event,
            Err(_) => Event::Silence(patience),
        };
        self.record.received(self.number, &event);
        if event.is_end() {
            self.end = Some(event.clone());
        }
        event
    }

    /// Cancel-safe: what was read stays in `input`.
    async fn read(&mut self) -> Event {
        loop {
            if let Some(event) = self.parse() {
                return event;
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return Event::End,
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
                let start = &self.input[..self.input.len().min(64)];
                Some(Event::Malformed(error, Bytes::copy_from_slice(start)))
            }
        }
    }
}
