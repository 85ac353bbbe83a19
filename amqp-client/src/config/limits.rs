use amqp_codec::frame::FRAME_MIN_SIZE;

use super::ConfigError;

/// What a peer may make a connection accept, keep or owe. Each bound is checked before memory is taken for what is
/// beyond it, and reaching it is told by a typed error or counted; none of them ends the program.
///
/// The defaults suit a client of a broker that is trusted to deliver and not trusted to behave. For one limit less or
/// more, start from them:
///
/// ```
/// use amqp_client::{ConnectOptions, Limits};
///
/// let limits = Limits { message_bytes: 1 << 20, ..Limits::default() };
/// let options = ConnectOptions::new().limits(limits);
/// # options.validate().unwrap();
/// ```
///
/// What the caller makes a connection keep has bounds of its own: publishes in flight in
/// [`ConfirmOptions`](crate::ConfirmOptions), each consumer's share in `Consume::budget`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// What the server may send before the connection is open, in bytes: 4,096 or more. Default: 64 KiB; RabbitMQ sends
    /// about 600. Beyond it the handshake fails with
    /// [`Violation::HandshakeTooLong`](crate::error::Violation::HandshakeTooLong), and a single frame that says it is
    /// larger with [`FrameTooLarge`](amqp_codec::DecodeErrorKind::FrameTooLarge) (501) at once.
    pub handshake_bytes: u32,
    /// The largest body frame in bytes, the eight of its envelope included, in both directions: what is asked for in
    /// tune-ok, the server's own limit if that is less. At least 4,096; 0 asks for the server's. Default: 0, and 1 MiB if
    /// the server has none either. Before tune it is 4,096. A larger frame costs the connection,
    /// with [`FrameTooLarge`](amqp_codec::DecodeErrorKind::FrameTooLarge) (501), when its first seven bytes have come.
    pub frame_bytes: u32,
    /// The largest method or content header in bytes, envelope included, where that is more than `frame_bytes`: brokers
    /// send headers above what was agreed on. At least 4,096. Default: 1 MiB. The error is the same.
    pub method_frame_bytes: u32,
    /// How many tables and arrays may lie inside each other, the outermost one counted; at least 2, as what servers say of
    /// themselves has two levels. Default: 64. Beyond it, in a method:
    /// [`TableTooDeep`](amqp_codec::DecodeErrorKind::TableTooDeep) (506), and the connection is closed. The headers of a
    /// message are not looked at before somebody asks for them, who gets the error, and nothing else happens;
    /// `Delivery::headers` goes by the default.
    pub table_depth: u16,
    /// How many entries and elements a table may have, those of inner ones counted. Default: 65,536. Beyond it, likewise:
    /// [`TableTooLong`](amqp_codec::DecodeErrorKind::TableTooLong) (506).
    pub table_entries: u32,
    /// The largest body of a message in bytes. Default: 128 MiB. Beyond it the channel is closed, at the header that
    /// announces it, with [`TooLarge`](amqp_codec::ContentError::TooLarge) (311).
    pub message_bytes: u64,
    /// Messages that have come in part, headers of more than 1 KiB included, of all channels of the connection together,
    /// in bytes. What is reserved for them may be twice as much. Default: 256 MiB. The channel whose frame would go beyond it is closed,
    /// with [`Violation::TooMuchInAssembly`](crate::error::Violation::TooMuchInAssembly) (311).
    pub assembly_bytes: usize,
    /// How many channels may be open: what is asked for in tune-ok, the server's own limit if that is less; 0 asks for
    /// the server's. Default: 0, and 65,535 if the server has none either. Opening one more is refused here, with
    /// [`UsageError::TooManyChannels`](crate::error::UsageError::TooManyChannels).
    pub channels: u16,
    /// Messages that wait for one consumer that is not read, in bytes, with what it takes to keep them; a consumer may
    /// have another by `Consume::budget`. What large ones lie in may be twice as much. Default: 64 MiB. Beyond it the
    /// channel is closed, with [`CloseCause::ConsumerOverflow`](crate::error::CloseCause::ConsumerOverflow) (506), or
    /// reading stops until the consumer is read, as the consumer says.
    pub undelivered_bytes: usize,
    /// Returned messages that belong to no confirm and wait for a reader, of all channels of the connection together.
    /// Default: 1,024. For each one more, the oldest of the channel that keeps most is given up, and counted: `Missed`.
    pub returned_messages: usize,
    /// The same in bytes of bodies, properties and addresses. What large ones lie in may be twice as much. Default: 16 MiB.
    pub returned_bytes: usize,
    /// Events that wait for a subscriber that does not read, 1 to 65,536; rounded up to a power of two. Default: 256. For
    /// each one more, the oldest is given up, and counted: `Event::Lagged`.
    pub events: usize,
    /// Bytes that wait to be written before publishing waits too. A message larger than this goes when nothing else
    /// waits. Default: 512 KiB. Beyond it a publish waits as long as its channel says, and then fails with
    /// [`NotSent::Full`](crate::error::NotSent::Full).
    pub outgoing_bytes: usize,
    /// Bytes of other things than messages that wait to be written: answers that the peer has made us owe, acks, calls.
    /// Default: 2 MiB. Beyond it nothing is read from the peer until it has read; that is no error, and the deadlines of
    /// calls and heartbeats go on.
    pub owed_bytes: usize,
    /// Bytes of answers to the server that wait on one channel while a commit or rollback is unanswered, as nothing may
    /// be sent then. Default: 4 MiB. Beyond it the connection is closed, with
    /// [`Violation::TooManyAnswers`](crate::error::Violation::TooManyAnswers) (506).
    pub held_answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let codec = amqp_codec::Limits::default();
        Limits {
            handshake_bytes: 64 << 10,
            frame_bytes: 0,
            method_frame_bytes: codec.method_frame_max,
            table_depth: codec.table_depth,
            table_entries: codec.table_entries,
            message_bytes: codec.body_max,
            assembly_bytes: 256 << 20,
            channels: 0,
            undelivered_bytes: 64 << 20,
            returned_messages: 1024,
            returned_bytes: 16 << 20,
            events: 256,
            outgoing_bytes: 512 << 10,
            owed_bytes: 2 << 20,
            held_answer_bytes: 4 << 20,
        }
    }
}

impl Limits {
    /// Those of decoding, until a frame size is agreed on.
    pub(crate) fn before_tune(&self) -> amqp_codec::Limits {
        amqp_codec::Limits {
            frame_max: FRAME_MIN_SIZE,
            method_frame_max: self.method_frame_bytes.min(self.handshake_bytes),
            ..self.after_tune(FRAME_MIN_SIZE)
        }
    }

    /// Those of decoding from then on.
    pub(crate) fn after_tune(&self, frame_max: u32) -> amqp_codec::Limits {
        amqp_codec::Limits {
            frame_max,
            method_frame_max: self.method_frame_bytes,
            table_depth: self.table_depth,
            table_entries: self.table_entries,
            body_max: self.message_bytes,
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let at_least = |limit, value: u32, minimum| match value < minimum {
            true => Err(ConfigError::LimitTooSmall { limit, minimum }),
            false => Ok(()),
        };
        at_least("handshake_bytes", self.handshake_bytes, FRAME_MIN_SIZE)?;
        at_least(
            "method_frame_bytes",
            self.method_frame_bytes,
            FRAME_MIN_SIZE,
        )?;
        at_least("table_depth", self.table_depth.into(), 2)?;
        if !(1..=65_536).contains(&self.events) {
            return Err(ConfigError::EventsOutOfRange(self.events));
        }
        Ok(())
    }
}
