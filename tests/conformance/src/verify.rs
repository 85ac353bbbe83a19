//! What is right and what is not, said of events alone: no connection, no clock. The same verdicts hold for what a
//! client sends to a server.

use std::fmt;

use amqp_codec::{ReplyCode, channel, connection};

use crate::event::{Event, OwnedFrame, Typed};
use crate::failure::Failure;

/// Reply codes of which any will do: `ReplyCode::NOT_FOUND.into()`, `[ReplyCode::FRAME_ERROR, ..].into()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codes(Vec<ReplyCode>);

impl Codes {
    /// Whether it is one of them.
    pub fn contains(&self, code: ReplyCode) -> bool {
        self.0.contains(&code)
    }
}

impl From<ReplyCode> for Codes {
    fn from(code: ReplyCode) -> Self {
        Self(vec![code])
    }
}

impl<const N: usize> From<[ReplyCode; N]> for Codes {
    fn from(codes: [ReplyCode; N]) -> Self {
        Self(codes.to_vec())
    }
}

impl fmt::Display for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, code) in self.0.iter().enumerate() {
            write!(f, "{}{code}", if at == 0 { "" } else { " or " })?;
        }
        Ok(())
    }
}

/// The frame, which must be on this channel.
fn frame_on(event: &Event, channel: u16) -> Option<&OwnedFrame> {
    match event {
        Event::Frame(frame) if frame.channel == channel => Some(frame),
        _ => None,
    }
}

/// This method on this channel.
///
/// # Errors
/// Something else.
pub fn method<M: Typed>(event: &Event, channel: u16) -> Result<M, Failure> {
    frame_on(event, channel)
        .and_then(|_| event.typed())
        .ok_or_else(|| Failure::unexpected(format_args!("{} on channel {channel}", M::ID), event))
}

/// The close of this channel with one of these codes.
///
/// # Errors
/// Something else.
pub fn channel_error(
    event: &Event,
    channel: u16,
    codes: &Codes,
) -> Result<channel::Close<'static>, Failure> {
    frame_on(event, channel)
        .and_then(|_| event.typed::<channel::Close<'static>>())
        .filter(|close| codes.contains(close.reply_code))
        .ok_or_else(|| {
            Failure::unexpected(
                format_args!("channel.close {codes} on channel {channel}"),
                event,
            )
        })
}

/// The close of the connection with one of these codes.
///
/// # Errors
/// Something else.
pub fn connection_error(
    event: &Event,
    codes: &Codes,
) -> Result<connection::Close<'static>, Failure> {
    frame_on(event, 0)
        .and_then(|_| event.typed::<connection::Close<'static>>())
        .filter(|close| codes.contains(close.reply_code))
        .ok_or_else(|| Failure::unexpected(format_args!("connection.close {codes}"), event))
}

/// The end of the stream, a reset included.
///
/// # Errors
/// Something else.
pub fn end(event: &Event) -> Result<(), Failure> {
    match event.is_end() {
        true => Ok(()),
        false => Err(Failure::unexpected("the end of the stream", event)),
    }
}
