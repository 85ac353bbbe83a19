use core::fmt;

use thiserror::Error;

use crate::MethodId;

/// A reply code as `connection.close`, `channel.close` and `basic.return` carry it.
///
/// Constants such as `ReplyCode::NO_ROUTE` come with the generated code; any other number can be held too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct ReplyCode(pub u16);

/// By number and name, `312 NO_ROUTE`, or by the number alone.
impl fmt::Display for ReplyCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} {name}", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for ReplyCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyCode({self})")
    }
}

/// Bytes that are not AMQP 0-9-1, or more than the [`Limits`](crate::Limits) allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{kind} at offset {offset}")]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// Where it is, in bytes from the start of what was given to the function that failed.
    pub offset: u64,
}

impl DecodeError {
    /// The same error seen from `base` bytes further out: for a part that begins at `base` of its whole.
    #[must_use]
    pub fn shifted(self, base: u64) -> Self {
        Self {
            offset: self.offset.saturating_add(base),
            ..self
        }
    }

    /// The code to close the connection with.
    pub fn reply_code(&self) -> ReplyCode {
        self.kind.reply_code()
    }
}

/// What is wrong with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// A frame type other than method, header, body and heartbeat.
    #[error("unknown frame type {0}")]
    UnknownFrameType(u8),
    /// A frame above its bound, known from its header alone.
    #[error("frame of {size} bytes is above the limit of {max}")]
    FrameTooLarge {
        /// The whole frame as announced, in bytes.
        size: u64,
        /// The bound that applies to this type of frame, in bytes.
        max: u32,
    },
    /// A frame that does not end with the frame-end octet.
    #[error("frame ends with {0:#04x} instead of 0xce")]
    BadFrameEnd(u8),
    /// A heartbeat with a payload.
    #[error("heartbeat with a payload")]
    HeartbeatPayload,
    /// A heartbeat on a channel other than 0.
    #[error("heartbeat on channel {0}")]
    HeartbeatChannel(u16),
    /// The bytes end, or a length reaches, beyond what there is.
    #[error("data ends within a field")]
    Truncated,
    /// Bytes are left after the last field.
    #[error("data after the last field")]
    TrailingBytes,
    /// A class or method that neither the specification nor RabbitMQ's extensions know.
    #[error("unknown method {0}")]
    UnknownMethod(MethodId),
    /// A content header with a weight other than 0.
    #[error("content header with weight {0}")]
    Weight(u16),
    /// Property flags that stand for no property, the continuation bit included.
    #[error("undefined property flags {0:#06x}")]
    PropertyFlags(u16),
    /// A field value with a tag that RabbitMQ does not read either.
    #[error("unknown field type {0:#04x}")]
    UnknownFieldType(u8),
    /// Tables and arrays inside each other beyond [`Limits::table_depth`](crate::Limits::table_depth).
    #[error("table nested more than {0} deep")]
    TableTooDeep(u16),
    /// A table with more entries than [`Limits::table_entries`](crate::Limits::table_entries).
    #[error("table with more than {0} entries")]
    TableTooLong(u32),
}

impl DecodeErrorKind {
    /// The code to close the connection with.
    pub fn reply_code(&self) -> ReplyCode {
        match self {
            Self::UnknownFrameType(_)
            | Self::FrameTooLarge { .. }
            | Self::BadFrameEnd(_)
            | Self::HeartbeatPayload => ReplyCode::FRAME_ERROR,
            Self::Truncated
            | Self::TrailingBytes
            | Self::PropertyFlags(_)
            | Self::UnknownFieldType(_) => ReplyCode::SYNTAX_ERROR,
            Self::UnknownMethod(_) => ReplyCode::COMMAND_INVALID,
            // RabbitMQ answers both with 505; the specification has 503 for a heartbeat's channel, 501 for the weight.
            Self::HeartbeatChannel(_) | Self::Weight(_) => ReplyCode::UNEXPECTED_FRAME,
            Self::TableTooDeep(_) | Self::TableTooLong(_) => ReplyCode::RESOURCE_ERROR,
        }
    }
}

/// A value that cannot be put on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A long string, table, array or frame whose length does not fit 32 bits.
    #[error("{len} bytes do not fit a 32-bit length")]
    TooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// A method or header frame above `frame_max`: only bodies can be split.
    #[error("frame of {size} bytes is above the frame_max of {frame_max}")]
    FrameTooLarge {
        /// The whole frame in bytes.
        size: u64,
        /// The bound it breaks, in bytes.
        frame_max: u32,
    },
    /// A buffer of fixed size that is too small. Nothing was written.
    #[error("{needed} bytes do not fit a buffer with room for {room}")]
    NoRoom {
        /// The bytes to be written.
        needed: usize,
        /// The bytes the buffer takes.
        room: usize,
    },
}
