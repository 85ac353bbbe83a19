//! From the bytes of the transport to frames, before the state machine sees them.

use std::fmt;

use amqp_codec::content::Whole;
use amqp_codec::{DecodeError, Method, ProtocolHeader, RawFrame, basic, frame};
use bytes::{Buf, Bytes, BytesMut};

use crate::config::Limits;

/// Above this size, a frame's payload may be shared with what is made of it instead of being copied.
const SHARE_ABOVE: usize = 8 * 1024;
/// It is shared if it is more than this part of the memory it lies in: a message must not keep much more than its own.
const SHARE_ABOVE_PART: usize = 2;

/// Where a frame's payload begins in it.
const PAYLOAD_OFFSET: usize = 7;

/// Bytes from the peer that were not handled yet.
///
/// Kept apart from [`Connection`](super::Connection), so that receiving needs no lock on its state.
pub struct Input {
    buffer: BytesMut,
    /// The size of the memory that `buffer` is a part of.
    block: usize,
    limits: amqp_codec::Limits,
    /// The bound of methods and headers once the frame size is agreed on.
    method_frame_max: u32,
    /// Nothing was decoded yet: instead of a frame, the peer's protocol header may come.
    first: bool,
    /// Bytes before the buffer, for the offsets in errors.
    consumed: u64,
    failed: bool,
}

/// A frame, taken apart as far as it can be without knowing its channel: the properties in a header are
/// not, which keeps it small.
#[derive(Debug, Clone, Copy)]
pub enum InputFrame<'a> {
    /// A method, unless it is an [`Ack`](Self::Ack).
    Method {
        /// The channel; 0 for the connection.
        channel: u16,
        /// The method; it stays where it was decoded, as it is large.
        method: &'a Method<'a>,
    },
    /// basic.ack on a channel, which is most of what comes while publishing.
    Ack {
        /// The channel.
        channel: u16,
        /// The delivery tag.
        tag: u64,
        /// Whether it is for all up to this tag.
        multiple: bool,
    },
    /// basic.deliver on a channel with all of a small message, which is most of what comes while consuming: its three
    /// frames at once.
    Delivery {
        /// The channel.
        channel: u16,
        /// The method.
        deliver: &'a basic::Deliver<'a>,
        /// Header and body.
        content: &'a Whole<'a>,
    },
    /// A content header.
    Header {
        /// The channel.
        channel: u16,
        /// Class, weight, body size and properties.
        payload: &'a [u8],
        /// Where the payload is, counted from the first byte of the connection.
        offset: u64,
    },
    /// A piece of a body.
    Body {
        /// The channel.
        channel: u16,
        /// The piece.
        payload: &'a [u8],
    },
    /// A sign of life.
    Heartbeat,
}

impl InputFrame<'_> {
    /// The channel, 0 for a heartbeat.
    pub fn channel(&self) -> u16 {
        match self {
            InputFrame::Method { channel, .. }
            | InputFrame::Ack { channel, .. }
            | InputFrame::Delivery { channel, .. }
            | InputFrame::Header { channel, .. }
            | InputFrame::Body { channel, .. } => *channel,
            InputFrame::Heartbeat => 0,
        }
    }
}

/// Why the bytes from the peer are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The peer speaks another protocol, and says which.
    #[error("the peer answered with the header of another protocol")]
    Protocol(ProtocolHeader),
    /// The peer speaks TLS: its first bytes are those of an alert.
    #[error("the peer answered in TLS")]
    Tls,
    /// They are not AMQP. The offset counts from the first byte of the connection.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Without the bytes: they are messages.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("buffered", &self.buffer.len())
            .field("consumed", &self.consumed)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Nothing received yet. Frames are bound by what the handshake may have until
    /// [`set_frame_max`](Self::set_frame_max).
    pub fn new(limits: &Limits) -> Self {
        Input {
            buffer: BytesMut::new(),
            block: 0,
            limits: limits.before_tune(),
            method_frame_max: limits.method_frame_bytes,
            first: true,
            consumed: 0,
            failed: false,
        }
    }

    /// The size of frames that was agreed on.
    pub fn set_frame_max(&mut self, frame_max: u32) {
        self.limits.frame_max = frame_max;
        self.limits.method_frame_max = self.method_frame_max;
    }

    /// How many bytes were received in all.
    pub(super) fn received(&self) -> u64 {
        self.consumed.saturating_add(self.buffer.len() as u64)
    }

    /// Makes room for at least so many bytes more.
    pub fn reserve(&mut self, bytes: usize) {
        if self.buffer.spare_capacity_mut().len() < bytes {
            self.buffer.reserve(bytes);
            self.block = self.buffer.capacity();
        }
    }

    /// Where the transport adds what it receives.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Decodes whole frames, or whole deliveries, at most `most`, and hands them over one by one, each with the memory
    /// it lies in if that may be shared with the message it carries. Whether there may be more.
    ///
    /// # Errors
    /// The first fault; the frames before it have been handled. After it, nothing that the peer sends is
    /// decoded any more.
    pub fn decode(
        &mut self,
        most: usize,
        mut handle: impl FnMut(InputFrame<'_>, Option<&Bytes>),
    ) -> Result<bool, InputError> {
        if self.failed {
            self.buffer.clear();
            return Ok(false);
        }
        let result = match self.first {
            true => self.check_first_bytes(),
            false => Ok(true),
        };
        let result = result.and_then(|go_on| match go_on {
            true => self.decode_frames(most, &mut handle),
            false => Ok(false),
        });
        self.failed = result.is_err();
        result
    }

    /// Whether the connection begins with a frame; `false` as long as that cannot be told.
    fn check_first_bytes(&mut self) -> Result<bool, InputError> {
        if ProtocolHeader::is_prefix(&self.buffer) {
            return match ProtocolHeader::parse(&self.buffer) {
                Some(header) => Err(InputError::Protocol(header)),
                None => Ok(false),
            };
        }
        // What a server that expects TLS says to a protocol header: an alert of TLS 1.x.
        match &self.buffer[..] {
            [21, 3, ..] => Err(InputError::Tls),
            [21] => Ok(false),
            _ => {
                self.first = false;
                Ok(true)
            }
        }
    }

    #[expect(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "`at` and `len` are positions in the buffer: a frame is only parsed when all of it is there"
    )]
    fn decode_frames(
        &mut self,
        most: usize,
        handle: &mut impl FnMut(InputFrame<'_>, Option<&Bytes>),
    ) -> Result<bool, InputError> {
        // How much of the buffer was handled.
        let mut at = 0;
        let block = self.block.max(self.buffer.capacity());
        let share_from = SHARE_ABOVE.max(block / SHARE_ABOVE_PART);
        let mut result = Ok(true);
        for _ in 0..most {
            let offset = self.consumed + at as u64;
            match RawFrame::parse(&self.buffer[at..], &self.limits) {
                Ok(Some((raw, len))) if raw.payload.len() > share_from => {
                    let RawFrame { kind, channel, .. } = raw;
                    self.consume(std::mem::take(&mut at));
                    let whole = self.buffer.split_to(len).freeze();
                    self.consumed += len as u64;
                    let payload = &whole[PAYLOAD_OFFSET..len - 1];
                    let raw = RawFrame {
                        kind,
                        channel,
                        payload,
                    };
                    decode_frame(raw, &[], offset, &self.limits, |frame| {
                        handle(frame, Some(&whole));
                    })?;
                }
                Ok(Some((raw, len))) => {
                    let behind = &self.buffer[at + len..];
                    let decoded = decode_frame(raw, behind, offset, &self.limits, |frame| {
                        handle(frame, None);
                    });
                    match decoded {
                        Ok(taken_with_it) => at += len + taken_with_it,
                        Err(fault) => {
                            result = Err(fault.into());
                            break;
                        }
                    }
                }
                Ok(None) => {
                    result = Ok(false);
                    break;
                }
                Err(fault) => {
                    result = Err(fault.shifted(offset).into());
                    break;
                }
            }
        }
        self.consume(at);
        result
    }

    fn consume(&mut self, len: usize) {
        self.buffer.advance(len);
        self.consumed = self.consumed.saturating_add(len as u64);
    }
}

/// Decodes a frame, and if it is the method of a delivery takes the whole content with it: so many of the bytes behind.
#[inline]
fn decode_frame(
    raw: RawFrame<'_>,
    behind: &[u8],
    offset: u64,
    limits: &amqp_codec::Limits,
    handle: impl FnOnce(InputFrame<'_>),
) -> Result<usize, DecodeError> {
    let RawFrame {
        kind,
        channel,
        payload,
    } = raw;
    let payload_offset = offset.saturating_add(PAYLOAD_OFFSET as u64);
    if let Some((tag, multiple)) = fast_ack(kind, payload)
        && channel != 0
    {
        handle(InputFrame::Ack {
            channel,
            tag,
            multiple,
        });
        return Ok(0);
    }
    match kind {
        frame::METHOD => match &Method::decode(payload, limits) {
            Ok(method) => {
                if let Method::BasicDeliver(deliver) = method
                    && channel != 0
                    && let Some((content, len)) = whole_content(channel, behind, limits)
                {
                    handle(InputFrame::Delivery {
                        channel,
                        deliver,
                        content: &content,
                    });
                    return Ok(len);
                }
                handle(InputFrame::Method { channel, method });
            }
            Err(fault) => return Err(fault.shifted(payload_offset)),
        },
        frame::HEADER => handle(InputFrame::Header {
            channel,
            payload,
            offset: payload_offset,
        }),
        frame::BODY => handle(InputFrame::Body { channel, payload }),
        // What is left is a heartbeat, or an error.
        _ => match raw.decode(limits) {
            Ok(_) => handle(InputFrame::Heartbeat),
            Err(fault) => return Err(fault.shifted(offset)),
        },
    }
    Ok(0)
}

/// Header and body of a delivery, if the frames behind its method are that, and how many bytes they are: to take all
/// three at once costs a third less than taking one after the other. Whatever else they are, a fault included, is for
/// those who take them so.
#[inline]
fn whole_content<'a>(
    channel: u16,
    behind: &'a [u8],
    limits: &amqp_codec::Limits,
) -> Option<(Whole<'a>, usize)> {
    let (header, header_len) = RawFrame::parse(behind, limits).ok()??;
    let (body, body_len) = RawFrame::parse(behind.get(header_len..)?, limits).ok()??;
    let in_order = (header.kind, body.kind) == (frame::HEADER, frame::BODY);
    let of_channel = (header.channel, body.channel) == (channel, channel);
    if !in_order || !of_channel {
        return None;
    }
    let content = Whole::new(header.payload, body.payload, limits)?;
    Some((content, header_len.saturating_add(body_len)))
}

/// Delivery tag and `multiple` if it is basic.ack: to look for its bytes costs a third of making it a [`Method`] first,
/// and acks one by one are half of what a publisher's connection has to do.
#[inline]
fn fast_ack(kind: u8, payload: &[u8]) -> Option<(u64, bool)> {
    const ACK: [u8; 4] = [0, 60, 0, 80];
    let (id, fields) = payload.split_first_chunk()?;
    let &[t0, t1, t2, t3, t4, t5, t6, t7, bits] = <&[u8; 9]>::try_from(fields).ok()?;
    let tag = u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
    (kind == frame::METHOD && *id == ACK).then_some((tag, bits & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the memory of each frame's payload may be shared, in frames of so many bytes.
    fn shared(reserved: usize, payloads: &[usize]) -> Vec<bool> {
        let each: Vec<_> = payloads.iter().map(|len| (reserved, *len)).collect();
        shared_each(&each)
    }

    /// The same, with so much room asked for before each.
    fn shared_each(frames: &[(usize, usize)]) -> Vec<bool> {
        let mut input = Input::new(&Limits::default());
        input.set_frame_max(131_072);
        let mut shared = Vec::new();
        for (reserved, len) in frames {
            input.reserve(*reserved);
            let body = vec![7; *len];
            let frame = frame::encode_body(1, &body, input.buffer());
            frame.expect("a buffer has room");
            let more = input.decode(usize::MAX, |_, source| shared.push(source.is_some()));
            assert_eq!(more, Ok(false));
        }
        shared
    }

    #[test]
    fn a_message_does_not_keep_much_more_memory_than_its_own() {
        // Alone in a block of its size, or in one that is not much larger.
        assert_eq!(shared(20_008, &[20_000]), [true]);
        assert_eq!(shared(39_000, &[20_000]), [true]);
        assert_eq!(shared(128 * 1024, &[100_000; 3]), [true; 3]);
        // A small part of what it lies in.
        assert_eq!(shared(128 * 1024, &[20_000; 3]), [false; 3]);
        // Small enough to be copied anyway, or just not.
        assert_eq!(shared(8_008, &[8_000]), [false]);
        assert_eq!(shared(8_200, &[8_192]), [false]);
        assert_eq!(shared(8_201, &[8_193]), [true]);
        // Asking for the very room that is left does not make the memory smaller than it is.
        assert_eq!(
            shared_each(&[(100_008, 20_000), (80_000, 45_000)]),
            [false; 2]
        );
    }

    /// What one method frame with this payload is handed over as.
    fn decode(
        channel: u16,
        payload: &[u8],
        see: impl FnMut(InputFrame<'_>),
    ) -> Result<bool, InputError> {
        let mut see = see;
        let mut input = Input::new(&Limits::default());
        let frame = RawFrame {
            kind: frame::METHOD,
            channel,
            payload,
        };
        frame.encode(input.buffer()).expect("a vector has room");
        input.decode(usize::MAX, |frame, _| see(frame))
    }

    #[test]
    fn the_fast_way_to_an_ack_says_what_the_long_way_says() {
        for bits in 0..=u8::MAX {
            let payload = [0, 60, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, bits];
            let Ok(Method::BasicAck(ack)) =
                Method::decode(&payload, &amqp_codec::Limits::default())
            else {
                panic!("an ack");
            };
            let mut seen = 0;
            let decoded = decode(9, &payload, |frame| match frame {
                InputFrame::Ack {
                    channel: 9,
                    tag,
                    multiple,
                } => {
                    assert_eq!((tag, multiple), (ack.delivery_tag, ack.multiple));
                    seen += 1;
                }
                other => panic!("{other:?}"),
            });
            assert_eq!((decoded, seen), (Ok(false), 1));
        }
    }

    #[test]
    fn a_delivery_that_is_there_is_handed_over_at_once() {
        let mut input = Input::new(&Limits::default());
        let properties = basic::Properties::EMPTY;
        for body in [&b"one"[..], b"two", b"cut off"] {
            let deliver = basic::Deliver::default();
            amqp_codec::content::encode(9, &deliver, &properties, body, 4096, input.buffer())
                .expect("a buffer has room");
        }
        let len = input.buffer.len();
        input.buffer().truncate(len - 1);
        let mut seen = Vec::new();
        let mut see = |most| {
            input.decode(most, |frame, _| {
                seen.push(match frame {
                    InputFrame::Delivery { content, .. } => content.body().to_vec(),
                    InputFrame::Method { .. } => b"method".to_vec(),
                    InputFrame::Header { .. } => b"header".to_vec(),
                    other => panic!("{other:?}"),
                });
            })
        };
        assert_eq!((see(1), see(9)), (Ok(true), Ok(false)));
        assert_eq!(seen, [&b"one"[..], b"two", b"method", b"header"]);
    }

    #[test]
    fn what_is_nearly_an_ack_goes_the_long_way() {
        let ack = [0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        for (channel, len, method) in [(0, 13, true), (9, 12, false), (9, 14, false)] {
            let mut methods = 0;
            let decoded = decode(channel, &ack[..len], |frame| {
                assert!(matches!(frame, InputFrame::Method { .. }), "{frame:?}");
                methods += 1;
            });
            assert_eq!((decoded.is_ok(), methods == 1), (method, method), "{len}");
        }
        // basic.reject is as long.
        let reject = [0, 60, 0, 90, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        let decoded = decode(9, &reject, |frame| {
            assert!(matches!(frame, InputFrame::Method { .. }), "{frame:?}");
        });
        assert_eq!(decoded, Ok(false));
    }
}
