//! Frames: the envelope of everything on the wire.
//!
//! Reading is incremental at this level alone: [`RawFrame::parse`] says whether a whole frame is there, and refuses a
//! bad one as soon as its seven header bytes are. Everything within a frame is parsed from the complete payload.

use bytes::BufMut;

use crate::content::ContentHeader;
use crate::{DecodeError, DecodeErrorKind, EncodeError, Limits, Method, MethodFields};

/// The frame type of methods.
pub const METHOD: u8 = 1;
/// The frame type of content headers.
pub const HEADER: u8 = 2;
/// The frame type of pieces of content bodies.
pub const BODY: u8 = 3;
/// The frame type of heartbeats.
pub const HEARTBEAT: u8 = 8;

/// The octet after every payload.
pub const FRAME_END: u8 = 0xCE;
/// The bytes around a payload: type, channel and size before it, the frame-end after it. `frame_max` counts them.
pub const FRAME_OVERHEAD: usize = 8;
/// The smallest `frame_max` that a peer may ask for, and what holds until it is negotiated, in bytes.
pub const FRAME_MIN_SIZE: u32 = 4096;

/// The bytes before a payload.
pub(crate) const PREFIX: usize = 7;

/// A frame of whatever type, channel and payload: what is on the wire, or what a test wants to put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct RawFrame<'a> {
    /// The frame type.
    pub kind: u8,
    /// The channel.
    pub channel: u16,
    /// What is between the header and the frame-end octet.
    pub payload: &'a [u8],
}

impl<'a> RawFrame<'a> {
    /// Takes the frame that `input` begins with, and says how many bytes it has. `None` if it is not complete yet; see
    /// [`needed`]. Type and size are checked before anything is waited for.
    ///
    /// # Errors
    /// An unknown type, a size above its limit, a heartbeat with a payload, a bad frame-end. The offset counts from
    /// the start of `input`.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the sums are lengths of parts of the input"
    )]
    pub fn parse(
        input: &'a [u8],
        limits: &Limits,
    ) -> Result<Option<(RawFrame<'a>, usize)>, DecodeError> {
        let Some((prefix, rest)) = input.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let [kind, channel @ .., s0, s1, s2, s3] = *prefix;
        let size = u32::from_be_bytes([s0, s1, s2, s3]);
        check_prefix(kind, size, limits)?;
        // On a machine of 16 bits a size can be beyond what is addressable; the input then never gets that long.
        let Ok(size) = usize::try_from(size) else {
            return Ok(None);
        };
        let Some((payload, rest)) = rest.split_at_checked(size) else {
            return Ok(None);
        };
        match rest.first() {
            None => Ok(None),
            Some(&FRAME_END) => {
                let frame = RawFrame {
                    kind,
                    channel: u16::from_be_bytes(channel),
                    payload,
                };
                Ok(Some((frame, size + FRAME_OVERHEAD)))
            }
            Some(&other) => Err(DecodeError {
                kind: DecodeErrorKind::BadFrameEnd(other),
                offset: (PREFIX + size) as u64,
            }),
        }
    }

    /// Takes the payload apart.
    ///
    /// # Errors
    /// The payload is not what the type calls for. The offset counts from the first byte of the frame.
    pub fn decode(&self, limits: &Limits) -> Result<Frame<'a>, DecodeError> {
        let channel = self.channel;
        match self.kind {
            METHOD => Method::decode(self.payload, limits)
                .map(|method| Frame::Method { channel, method })
                .map_err(|error| error.shifted(PREFIX as u64)),
            HEADER => match ContentHeader::decode(self.payload) {
                Ok(header) => Ok(Frame::Header { channel, header }),
                Err(error) => Err(error.shifted(PREFIX as u64)),
            },
            BODY => Ok(Frame::Body {
                channel,
                payload: self.payload,
            }),
            HEARTBEAT if !self.payload.is_empty() => Err(DecodeError {
                kind: DecodeErrorKind::HeartbeatPayload,
                offset: PREFIX as u64,
            }),
            HEARTBEAT if channel != 0 => Err(DecodeError {
                kind: DecodeErrorKind::HeartbeatChannel(channel),
                offset: 1,
            }),
            HEARTBEAT => Ok(Frame::Heartbeat),
            kind => Err(DecodeError {
                kind: DecodeErrorKind::UnknownFrameType(kind),
                offset: 0,
            }),
        }
    }

    /// How many bytes the frame has on the wire.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a slice has isize::MAX bytes at most"
    )]
    pub fn encoded_len(&self) -> usize {
        self.payload.len() + FRAME_OVERHEAD
    }

    /// Writes the frame as it is, sense or nonsense.
    ///
    /// # Errors
    /// The payload has more than `u32::MAX` bytes, or `buf` has no room for the frame. Nothing is written then.
    pub fn encode(&self, buf: &mut impl BufMut) -> Result<(), EncodeError> {
        let prefix = prefix(self.kind, self.channel, self.payload.len(), buf)?;
        buf.put_slice(&prefix);
        buf.put_slice(self.payload);
        buf.put_u8(FRAME_END);
        Ok(())
    }
}

/// At least how many bytes must be added to `input` before [`RawFrame::parse`] can say more than `None`; 0 if nothing
/// is missing. The size in `input` is taken as it is: let `parse` check it first, and do not reserve what was merely
/// announced.
pub fn needed(input: &[u8]) -> usize {
    let Some([_, _, _, size @ ..]) = input.first_chunk::<PREFIX>() else {
        return PREFIX.saturating_sub(input.len());
    };
    (u32::from_be_bytes(*size) as usize)
        .saturating_add(FRAME_OVERHEAD)
        .saturating_sub(input.len())
}

fn check_prefix(kind: u8, size: u32, limits: &Limits) -> Result<(), DecodeError> {
    let max = match kind {
        BODY => limits.frame_max,
        // RabbitMQ sends content headers above the negotiated frame_max.
        METHOD | HEADER => limits.frame_max.max(limits.method_frame_max),
        HEARTBEAT if size == 0 => return Ok(()),
        HEARTBEAT => {
            return Err(DecodeError {
                kind: DecodeErrorKind::HeartbeatPayload,
                offset: 3,
            });
        }
        _ => {
            return Err(DecodeError {
                kind: DecodeErrorKind::UnknownFrameType(kind),
                offset: 0,
            });
        }
    };
    let size = u64::from(size).saturating_add(FRAME_OVERHEAD as u64);
    match size <= u64::from(max) {
        true => Ok(()),
        false => Err(DecodeError {
            kind: DecodeErrorKind::FrameTooLarge { size, max },
            offset: 3,
        }),
    }
}

/// A valid frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Frame<'a> {
    /// A method.
    Method {
        /// The channel; 0 for the connection.
        channel: u16,
        /// The method.
        method: Method<'a>,
    },
    /// The header of a content.
    Header {
        /// The channel.
        channel: u16,
        /// The header.
        header: ContentHeader<'a>,
    },
    /// A piece of a content's body.
    Body {
        /// The channel.
        channel: u16,
        /// The piece.
        payload: &'a [u8],
    },
    /// A sign of life, on channel 0.
    Heartbeat,
}

impl Frame<'_> {
    /// The channel, 0 for a heartbeat.
    pub fn channel(&self) -> u16 {
        match self {
            Self::Method { channel, .. }
            | Self::Header { channel, .. }
            | Self::Body { channel, .. } => *channel,
            Self::Heartbeat => 0,
        }
    }

    /// How many bytes the frame has on the wire.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a length of what is in memory, and a few bytes"
    )]
    pub fn encoded_len(&self) -> usize {
        FRAME_OVERHEAD
            + match self {
                Self::Method { method, .. } => method.payload_len(),
                Self::Header { header, .. } => header.encoded_len(),
                Self::Body { payload, .. } => payload.len(),
                Self::Heartbeat => 0,
            }
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// Something in it does not fit 32 bits, or `buf` has no room for the frame. In the latter case nothing is written,
    /// in the former a part may be.
    pub fn encode(&self, buf: &mut impl BufMut) -> Result<(), EncodeError> {
        match self {
            Self::Method { channel, method } => {
                let prefix = prefix(METHOD, *channel, method.payload_len(), buf)?;
                buf.put_slice(&prefix);
                method.encode(buf)?;
                buf.put_u8(FRAME_END);
                Ok(())
            }
            Self::Header { channel, header } => encode_header(*channel, header, buf),
            Self::Body { channel, payload } => encode_body(*channel, payload, buf),
            Self::Heartbeat => encode_heartbeat(buf),
        }
    }
}

/// How many bytes a frame with this method has on the wire.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "a length of what is in memory, and a few bytes"
)]
pub fn method_frame_len(method: &impl MethodFields) -> usize {
    4 + method.fields_len() + FRAME_OVERHEAD
}

/// Writes a method frame.
///
/// # Errors
/// As [`Frame::encode`].
#[inline]
pub fn encode_method<M: MethodFields>(
    channel: u16,
    method: &M,
    buf: &mut impl BufMut,
) -> Result<(), EncodeError> {
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a length of what is in memory, and four bytes"
    )]
    let len = 4 + method.fields_len();
    prefix(METHOD, channel, len, buf)?;
    put_method(channel, method, len, buf)?;
    buf.put_u8(FRAME_END);
    Ok(())
}

/// A method frame with a payload of `len` bytes, without the frame-end.
#[inline]
pub(crate) fn put_method<M: MethodFields>(
    channel: u16,
    method: &M,
    len: usize,
    buf: &mut impl BufMut,
) -> Result<(), EncodeError> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the frame's size is the caller's to check"
    )]
    let [kind, c0, c1, s0, s1, s2, s3] = prefix_bytes(METHOD, channel, len as u32);
    let [class, id] = [M::ID.class.to_be_bytes(), M::ID.method.to_be_bytes()];
    // One write: a growing buffer checks its capacity at each.
    buf.put_slice(&[
        kind, c0, c1, s0, s1, s2, s3, class[0], class[1], id[0], id[1],
    ]);
    method.encode_fields(buf)
}

/// Writes a content header frame.
///
/// # Errors
/// As [`Frame::encode`].
pub fn encode_header(
    channel: u16,
    header: &ContentHeader<'_>,
    buf: &mut impl BufMut,
) -> Result<(), EncodeError> {
    let prefix = prefix(HEADER, channel, header.encoded_len(), buf)?;
    buf.put_slice(&prefix);
    header.encode(buf)?;
    buf.put_u8(FRAME_END);
    Ok(())
}

/// Writes a body frame.
///
/// # Errors
/// As [`Frame::encode`].
pub fn encode_body(channel: u16, payload: &[u8], buf: &mut impl BufMut) -> Result<(), EncodeError> {
    RawFrame {
        kind: BODY,
        channel,
        payload,
    }
    .encode(buf)
}

/// Writes a heartbeat.
///
/// # Errors
/// `buf` has no room for its eight bytes; nothing is written.
pub fn encode_heartbeat(buf: &mut impl BufMut) -> Result<(), EncodeError> {
    RawFrame {
        kind: HEARTBEAT,
        channel: 0,
        payload: &[],
    }
    .encode(buf)
}

/// The seven bytes that go before a body frame's payload of `len` bytes. The payload and [`FRAME_END`] follow; a large
/// body can so be written without being copied.
pub const fn body_frame_prefix(channel: u16, len: u32) -> [u8; 7] {
    prefix_bytes(BODY, channel, len)
}

pub(crate) const fn prefix_bytes(kind: u8, channel: u16, len: u32) -> [u8; PREFIX] {
    let [c0, c1] = channel.to_be_bytes();
    let [s0, s1, s2, s3] = len.to_be_bytes();
    [kind, c0, c1, s0, s1, s2, s3]
}

/// The frame header for a payload of `len` bytes, if that fits the wire and the buffer.
pub(crate) fn prefix(
    kind: u8,
    channel: u16,
    len: usize,
    buf: &impl BufMut,
) -> Result<[u8; PREFIX], EncodeError> {
    let size = u32::try_from(len).map_err(|_| EncodeError::TooLong { len: len as u64 })?;
    let (needed, room) = (len.saturating_add(FRAME_OVERHEAD), buf.remaining_mut());
    if needed > room {
        return Err(EncodeError::NoRoom { needed, room });
    }
    Ok(prefix_bytes(kind, channel, size))
}

/// The eight bytes with which a client opens a connection, and with which a server answers one that it does not speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct ProtocolHeader {
    /// The protocol id: 0 for AMQP itself, 2 for TLS and 3 for SASL in AMQP 1.0, 1 in historical headers.
    pub id: u8,
    /// The major version.
    pub major: u8,
    /// The minor version.
    pub minor: u8,
    /// The revision.
    pub revision: u8,
}

impl ProtocolHeader {
    /// AMQP 0-9-1.
    pub const AMQP_0_9_1: Self = Self {
        id: 0,
        major: 0,
        minor: 9,
        revision: 1,
    };

    /// The header that `input` begins with; `None` if it does not begin with `AMQP` or is shorter than eight bytes.
    pub fn parse(input: &[u8]) -> Option<Self> {
        match *input.first_chunk::<8>()? {
            [b'A', b'M', b'Q', b'P', id, major, minor, revision] => Some(Self {
                id,
                major,
                minor,
                revision,
            }),
            _ => None,
        }
    }

    /// Whether `input` may be, or begin with, a protocol header: its first bytes, as far as they are there, are `AMQP`.
    /// No frame begins like that. True for an empty input.
    pub fn is_prefix(input: &[u8]) -> bool {
        input
            .iter()
            .zip(b"AMQP")
            .all(|(byte, expected)| byte == expected)
    }

    /// The header's eight bytes.
    pub const fn to_bytes(self) -> [u8; 8] {
        [
            b'A',
            b'M',
            b'Q',
            b'P',
            self.id,
            self.major,
            self.minor,
            self.revision,
        ]
    }

    /// Writes the header. Like all of [`BufMut`], panics when a fixed buffer is too small.
    pub fn encode(self, buf: &mut impl BufMut) {
        buf.put_slice(&self.to_bytes());
    }
}
