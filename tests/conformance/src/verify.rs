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

#[cfg(test)]
mod tests {
    use amqp_codec::{basic, frame, short};

    use super::*;

    fn event(channel: u16, method: &impl amqp_codec::MethodFields) -> Event {
        let mut bytes = Vec::new();
        frame::encode_method(channel, method, &mut bytes).expect("the method fits a frame");
        Event::Frame(OwnedFrame {
            kind: frame::METHOD,
            channel,
            payload: bytes[7..bytes.len() - 1].to_vec().into(),
        })
    }

    fn close(code: ReplyCode) -> channel::Close<'static> {
        channel::Close {
            reply_code: code,
            reply_text: short!("because"),
            ..Default::default()
        }
    }

    #[test]
    fn a_channel_error_has_the_channel_and_one_of_the_codes() {
        let codes = Codes::from([ReplyCode::NOT_FOUND, ReplyCode::ACCESS_REFUSED]);
        let not_found = event(1, &close(ReplyCode::NOT_FOUND));
        assert!(channel_error(&not_found, 1, &codes).is_ok());
        let failure = channel_error(&not_found, 2, &codes).expect_err("another channel");
        assert_eq!(failure.found, "channel.close 404");
        let failure = channel_error(&event(1, &close(ReplyCode::NOT_ALLOWED)), 1, &codes);
        let failure = failure.expect_err("another code");
        assert_eq!(failure.found, "channel.close 530");
        let expected = "channel.close 404 NOT_FOUND or 403 ACCESS_REFUSED on channel 1";
        assert_eq!(failure.expected, expected);
        assert!(failure.detail.is_some_and(|it| it.contains("because")));
    }

    #[test]
    fn a_connection_error_is_no_channel_error() {
        let codes = Codes::from(ReplyCode::NOT_FOUND);
        let of_channel = event(1, &close(ReplyCode::NOT_FOUND));
        assert!(connection_error(&of_channel, &codes).is_err());
        let of_connection = connection::Close {
            reply_code: ReplyCode::NOT_FOUND,
            ..Default::default()
        };
        assert!(connection_error(&event(0, &of_connection), &codes).is_ok());
        assert!(channel_error(&event(0, &of_connection), 0, &codes).is_err());
    }

    #[test]
    fn what_is_found_is_short_and_stable() {
        let ack = |multiple| basic::Ack {
            delivery_tag: 7,
            multiple,
            ..Default::default()
        };
        for (event, found) in [
            (event(1, &ack(false)), "basic.ack 7"),
            (event(1, &ack(true)), "basic.ack 7 multiple"),
            (event(1, &basic::QosOk {}), "basic.qos-ok"),
            (Event::End, "end of stream"),
            (Event::Reset(std::io::ErrorKind::ConnectionReset), "reset"),
            (Event::Silence(std::time::Duration::from_secs(1)), "silence"),
        ] {
            let failure = method::<channel::OpenOk>(&event, 1).expect_err("something else");
            assert_eq!(failure.found, found);
        }
    }
}
