//! A client in raw frames that never panics: what a check talks to the broker with.

mod content;
mod handshake;
mod topology;

use std::rc::Rc;
use std::time::Duration;

use amqp_codec::basic::Properties;
use amqp_codec::{
    MethodFields, ProtocolHeader, RawFrame, ReplyCode, channel, connection, content as codec, frame,
};

use crate::ending::Ending;
use crate::event::{Event, OwnedFrame, Typed};
use crate::failure::Failure;
use crate::record::Record;
use crate::verify::{self, Codes};
use crate::wire::Wire;

pub use content::Confirm;
pub use handshake::{Login, Opened};

/// A connection to the broker, as raw as the check wants it.
///
/// What is expected comes within a few seconds or is a [`Failure`] with `silence`. Dropped while it is open, it is closed
/// in good order after the check.
#[derive(Debug)]
pub struct Connection {
    /// There until it is dropped.
    wire: Option<Wire>,
    record: Rc<Record>,
    number: usize,
    frame_max: u32,
    /// Between connection.open-ok and the first sign of its end.
    open: bool,
    opened: Option<Opened>,
}

impl Connection {
    pub(crate) fn new(wire: Wire, record: Rc<Record>) -> Self {
        Self {
            number: wire.number,
            wire: Some(wire),
            record,
            frame_max: frame::FRAME_MIN_SIZE,
            open: false,
            opened: None,
        }
    }

    fn wire(&mut self) -> &mut Wire {
        self.wire
            .as_mut()
            .expect("only drop and reset take the wire away, and both have the connection")
    }

    /// How long a thing that is expected may take.
    pub fn patience(&self) -> Duration {
        self.wire
            .as_ref()
            .map(|wire| wire.patience)
            .unwrap_or_default()
    }

    /// Changes how long things that are expected may take; the check's own deadline stays.
    pub fn set_patience(&mut self, patience: Duration) {
        self.wire().patience = patience;
    }

    /// What bounds a frame in both directions, in bytes, its envelope included: the specification's minimum until
    /// tune-ok is sent.
    pub fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Writes a remark into the transcript.
    pub fn note(&self, note: &str) {
        self.record.note(self.number, note);
    }
}

/// Sending. That the broker is gone is no failure of these; it is the next event.
impl Connection {
    /// Sends any bytes.
    ///
    /// # Errors
    /// The broker does not read them.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.wire().send(bytes.to_vec()).await
    }

    /// Sends a method.
    ///
    /// # Errors
    /// It cannot be encoded, or the broker does not read it.
    pub async fn send(&mut self, channel: u16, method: impl MethodFields) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        frame::encode_method(channel, &method, &mut bytes)?;
        self.wire().send(bytes).await
    }

    /// Sends a method with its content, the body in frames of at most [`frame_max`](Self::frame_max).
    ///
    /// # Errors
    /// It cannot be encoded, or the broker does not read it.
    pub async fn send_content(
        &mut self,
        channel: u16,
        method: impl MethodFields,
        properties: &Properties<'_>,
        body: &[u8],
    ) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        codec::encode(
            channel,
            &method,
            properties,
            body,
            self.frame_max,
            &mut bytes,
        )?;
        self.wire().send(bytes).await
    }

    /// Sends a frame, sense or nonsense.
    ///
    /// # Errors
    /// It cannot be encoded, or the broker does not read it.
    pub async fn send_frame(
        &mut self,
        kind: u8,
        channel: u16,
        payload: &[u8],
    ) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        RawFrame {
            kind,
            channel,
            payload,
        }
        .encode(&mut bytes)?;
        self.wire().send(bytes).await
    }

    /// Sends a heartbeat.
    ///
    /// # Errors
    /// The broker does not read it.
    pub async fn send_heartbeat(&mut self) -> Result<(), Failure> {
        self.send_frame(frame::HEARTBEAT, 0, &[]).await
    }

    /// Sends a protocol header.
    ///
    /// # Errors
    /// The broker does not read it.
    pub async fn send_protocol(&mut self, header: ProtocolHeader) -> Result<(), Failure> {
        self.wire().send(header.to_bytes().to_vec()).await
    }

    /// Sends no more, but goes on reading: the broker sees the end of the stream.
    pub async fn half_close(&mut self) {
        self.open = false;
        self.wire().half_close().await;
    }

    /// Ends the connection with a TCP reset.
    pub fn reset(mut self) {
        if let Some(wire) = self.wire.take() {
            wire.reset();
        }
    }

    /// Drops the TCP connection without a word.
    pub fn abandon(mut self) {
        self.wire = None;
    }
}

/// Receiving.
impl Connection {
    /// The next thing that comes on any channel, heartbeats included; [`Event::Silence`] when nothing does in time.
    pub async fn next(&mut self) -> Event {
        let patience = self.wire().patience;
        self.next_within(patience).await
    }

    /// The next thing that comes on any channel, or [`Event::Silence`] when nothing does for this long.
    pub async fn next_within(&mut self, patience: Duration) -> Event {
        let event = self.wire().next_within(patience).await;
        self.watch(&event);
        event
    }

    /// The next thing on this channel, heartbeats left out; frames of other channels wait for their turn. The close of
    /// the connection, its end, silence and the like concern every channel.
    pub async fn next_on(&mut self, channel: u16) -> Event {
        let event = self
            .wire()
            .next_where(|frame| frame.channel == channel || is_connection_close(frame))
            .await;
        self.watch(&event);
        event
    }

    /// Keeps the books about endings.
    fn watch(&mut self, event: &Event) {
        let wrong = |code: ReplyCode| Ending::WrongCode(code.0);
        match event {
            Event::End | Event::Reset(_) => {
                self.open = false;
                let ending = match event {
                    Event::End => Ending::Unclean,
                    _ => Ending::Reset,
                };
                self.record.ended(self.number, 0, ending);
            }
            Event::Frame(frame) => {
                if let Some(close) = event.typed::<connection::Close>() {
                    self.open = false;
                    self.record.ended(self.number, 0, wrong(close.reply_code));
                } else if let Some(close) = event.typed::<channel::Close>() {
                    let ending = wrong(close.reply_code);
                    self.record.ended(self.number, frame.channel, ending);
                }
            }
            Event::Protocol(_) | Event::Malformed(..) => self.open = false,
            Event::Silence(_) => {}
        }
    }

    /// The next frame on this channel, which must be this method: `expect::<basic::Ack>(1)`.
    ///
    /// # Errors
    /// Something else comes, or nothing.
    pub async fn expect<M: Typed>(&mut self, channel: u16) -> Result<M, Failure> {
        let event = self.next_on(channel).await;
        verify::method(&event, channel)
    }

    /// Sends a method and expects its answer: `call::<queue::DeclareOk>(1, queue::Declare { .. })`.
    ///
    /// # Errors
    /// Something else comes, or nothing.
    pub async fn call<M: Typed>(
        &mut self,
        channel: u16,
        request: impl MethodFields,
    ) -> Result<M, Failure> {
        self.send(channel, request).await?;
        self.expect(channel).await
    }

    /// Leaves out what comes on this channel before this method; a close is not left out.
    ///
    /// # Errors
    /// The channel or the connection ends before it, or nothing comes.
    pub async fn skip_to<M: Typed>(&mut self, channel: u16) -> Result<M, Failure> {
        loop {
            let event = self.next_on(channel).await;
            match &event {
                Event::Frame(frame) if event.typed::<M>().is_none() && !is_close(frame) => {}
                _ => return verify::method(&event, channel),
            }
        }
    }

    /// The broker must close this channel with one of these codes; the close is answered.
    ///
    /// # Errors
    /// Something else comes, or nothing.
    pub async fn expect_channel_error(
        &mut self,
        channel: u16,
        codes: impl Into<Codes>,
    ) -> Result<channel::Close<'static>, Failure> {
        let event = self.next_on(channel).await;
        let close = verify::channel_error(&event, channel, &codes.into())?;
        self.record.called_for(self.number, channel);
        self.send(channel, channel::CloseOk {}).await?;
        Ok(close)
    }

    /// The broker must close the connection with one of these codes; the close is answered, and the stream must end.
    /// What comes on channels before it is left out, their close is not.
    ///
    /// # Errors
    /// Something else comes, or nothing.
    pub async fn expect_connection_error(
        &mut self,
        codes: impl Into<Codes>,
    ) -> Result<connection::Close<'static>, Failure> {
        let event = self.wire().next_where(is_close).await;
        self.connection_error(&event, &codes.into()).await
    }

    /// As [`expect_connection_error`](Self::expect_connection_error), and nothing but heartbeats may come before it.
    ///
    /// # Errors
    /// Something else comes, or nothing.
    pub async fn expect_connection_error_next(
        &mut self,
        codes: impl Into<Codes>,
    ) -> Result<connection::Close<'static>, Failure> {
        let event = self.wire().next_where(|_| true).await;
        self.connection_error(&event, &codes.into()).await
    }

    async fn connection_error(
        &mut self,
        event: &Event,
        codes: &Codes,
    ) -> Result<connection::Close<'static>, Failure> {
        self.watch(event);
        let close = verify::connection_error(event, codes)?;
        self.record.called_for(self.number, 0);
        self.send(0, connection::CloseOk {}).await?;
        self.half_close().await;
        verify::end(&self.wire().next_where(|_| false).await)?;
        Ok(close)
    }

    /// The broker must end the stream, and may reset it; what comes on channels before is left out, a close is not.
    ///
    /// # Errors
    /// It does not, or closes the connection or a channel first.
    pub async fn expect_end(&mut self) -> Result<(), Failure> {
        let event = self.wire().next_where(is_close).await;
        self.watch(&event);
        verify::end(&event)?;
        self.record.called_for(self.number, 0);
        Ok(())
    }

    /// The next thing must be a heartbeat.
    ///
    /// # Errors
    /// Something else comes, or nothing.
    pub async fn expect_heartbeat(&mut self) -> Result<(), Failure> {
        let event = self.next().await;
        match event.is_heartbeat() {
            true => Ok(()),
            false => Err(Failure::unexpected("a heartbeat", &event)),
        }
    }

    /// Nothing but heartbeats must come for this long. Prefer [`barrier`](Self::barrier), which does not wait.
    ///
    /// # Errors
    /// Something comes.
    pub async fn expect_silence(&mut self, duration: Duration) -> Result<(), Failure> {
        let end = tokio::time::Instant::now() + duration;
        loop {
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            match self.next_within(left).await {
                Event::Silence(_) => return Ok(()),
                event if event.is_heartbeat() => {}
                event => {
                    let expected = format_args!("nothing for {duration:?}");
                    return Err(Failure::unexpected(expected, &event));
                }
            }
        }
    }

    /// A round trip on this channel that changes nothing (channel.flow with active set): whatever the broker had to say
    /// about what was sent before must be there by now, so that the next thing is the answer.
    ///
    /// # Errors
    /// Something else comes before the answer.
    pub async fn barrier(&mut self, channel: u16) -> Result<(), Failure> {
        self.call::<channel::FlowOk>(
            channel,
            channel::Flow {
                active: true,
                ..Default::default()
            },
        )
        .await
        .map(drop)
    }
}

/// Opening and closing.
impl Connection {
    /// Opens a channel.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn open_channel(&mut self, channel: u16) -> Result<(), Failure> {
        self.call::<channel::OpenOk>(channel, channel::Open::default())
            .await
            .map(drop)
    }

    /// Closes a channel in good order; what comes before close-ok is left out.
    ///
    /// # Errors
    /// The broker does not play its part.
    pub async fn close_channel(&mut self, channel: u16) -> Result<(), Failure> {
        let close = channel::Close {
            reply_code: ReplyCode::REPLY_SUCCESS,
            ..Default::default()
        };
        self.send(channel, close).await?;
        let answer = self.skip_to::<channel::CloseOk>(channel).await;
        let ending = match answer {
            Ok(_) => Ending::AsAsked,
            Err(_) => Ending::NotEnded,
        };
        self.record.ended(self.number, channel, ending);
        answer.map(drop)
    }

    /// Closes the connection in good order; what comes before close-ok is left out, and the stream must end after it.
    ///
    /// # Errors
    /// The broker does not play its part.
    pub async fn close(mut self) -> Result<(), Failure> {
        self.close_in_order().await
    }

    pub(crate) async fn close_in_order(&mut self) -> Result<(), Failure> {
        self.open = false;
        let close = connection::Close {
            reply_code: ReplyCode::REPLY_SUCCESS,
            ..Default::default()
        };
        self.send(0, close).await?;
        let closed = async {
            self.skip_to::<connection::CloseOk>(0).await?;
            self.record.ended(self.number, 0, Ending::AsAsked);
            // Either side may be first to end the stream.
            self.half_close().await;
            verify::end(&self.wire().next_where(|_| false).await)
        };
        let closed = closed.await;
        if closed.is_err() {
            self.record.ended(self.number, 0, Ending::NotEnded);
        }
        closed
    }
}

/// An open connection is closed in good order after the check.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(wire) = self.wire.take()
            && self.open
        {
            self.record.open.borrow_mut().push(wire);
        }
    }
}

fn is_connection_close(frame: &OwnedFrame) -> bool {
    frame.channel == 0
        && Event::Frame(frame.clone())
            .typed::<connection::Close>()
            .is_some()
}

/// The close of the connection or of any channel.
fn is_close(frame: &OwnedFrame) -> bool {
    is_connection_close(frame)
        || Event::Frame(frame.clone())
            .typed::<channel::Close>()
            .is_some()
}
