//! What a session consists of, as the fuzzer makes it up. Numbers are small, so that they meet.

use amqp_client::Limits;
use amqp_codec::{Frame, Method, RawFrame};
use arbitrary::{Arbitrary, Result, Unstructured};

/// How a session begins.
#[derive(Debug, Arbitrary)]
pub(super) struct Setup {
    pub(super) begin: Begin,
    pub(super) channel_max: u8,
    pub(super) frame_max: FrameMax,
    /// In seconds.
    pub(super) heartbeat: u8,
    pub(super) message_bytes: Option<u16>,
    pub(super) assembly_bytes: Option<u16>,
    pub(super) outgoing_bytes: Option<u16>,
    pub(super) owed_bytes: Option<u16>,
    pub(super) held_answer_bytes: Option<u16>,
}

/// What is done before the first step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
pub(super) enum Begin {
    Nothing,
    Handshake,
    /// And a channel is opened in each mode: 1 is plain, 2 and 3 are in confirm mode, 4 has a transaction.
    Channels,
}

impl Setup {
    pub(super) fn limits(&self) -> Limits {
        let usual = Limits::default();
        let bytes = |some: Option<u16>, usual| some.map_or(usual, usize::from);
        Limits {
            message_bytes: self.message_bytes.map_or(usual.message_bytes, u64::from),
            assembly_bytes: bytes(self.assembly_bytes, usual.assembly_bytes),
            outgoing_bytes: bytes(self.outgoing_bytes, usual.outgoing_bytes),
            owed_bytes: bytes(self.owed_bytes, usual.owed_bytes),
            held_answer_bytes: bytes(self.held_answer_bytes, usual.held_answer_bytes),
            ..usual
        }
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub(super) enum FrameMax {
    Unlimited,
    Smallest,
    Usual,
    Any(u32),
}

#[derive(Debug, Arbitrary)]
pub(super) enum Step<'a> {
    Ask(Number, Ask),
    AskAgain(Number, Ask),
    /// The server answers the oldest request as it should.
    Answer,
    /// The same for all requests.
    AnswerAll,
    Say(Number, Say<'a>),
    SayAgain(Number, Say<'a>),
    /// So much of what the server says is held back until it says more.
    Cut(u8),
    /// The transport takes what there is.
    Transmit,
    /// So many milliseconds go by.
    Pass(u16),
    EndOfStream {
        /// How much of what was handed out last was not taken.
        unsent: u8,
    },
}

/// One of a few: a channel, a tag, a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(pub(super) u8);

impl<'a> Arbitrary<'a> for Number {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Number(u.arbitrary::<u8>()? % 5))
    }
}

/// What the user does, on the channel whose number goes with it, or if there is none on the connection.
#[derive(Debug, Arbitrary)]
pub(super) enum Ask {
    OpenChannel,
    SelectConfirms {
        max_in_flight: u8,
        timeout: Option<u16>,
        tag_returns: bool,
    },
    SelectTx,
    Publish {
        mandatory: bool,
        size: u16,
        /// The same body as that of other publishes of the size.
        alike: bool,
        headers: bool,
        /// An ack need not be told.
        quiet: bool,
    },
    DeclareQueue,
    DeclareQueueNoWait,
    Consume {
        tag: Option<Number>,
        no_ack: bool,
        no_wait: bool,
    },
    Cancel {
        tag: Number,
    },
    Get {
        no_ack: bool,
    },
    Recover,
    Commit,
    Rollback,
    Settle {
        which: u8,
        multiple: bool,
        how: How,
    },
    GiveBack {
        which: u8,
    },
    ForgetConsumer {
        which: u8,
    },
    Abandon {
        which: u8,
    },
    Close,
    CloseWhenSettled,
    CloseForOverflow,
    UpdateSecret,
    CloseConnection,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub(super) enum How {
    Ack,
    Nack,
    Reject,
}

/// What the server says of itself, right or wrong, on the channel whose number goes with it.
#[derive(Debug, Arbitrary)]
pub(super) enum Say<'a> {
    Ack {
        tag: u8,
        multiple: bool,
    },
    Nack {
        tag: u8,
        multiple: bool,
    },
    /// One of the publishes that it has received on the channel comes back.
    Return {
        which: u8,
    },
    Deliver {
        consumer: Number,
        tag: u8,
        size: u16,
    },
    Cancel {
        consumer: Number,
        no_wait: bool,
    },
    Flow {
        active: bool,
    },
    CloseChannel {
        code: u16,
    },
    ChannelCloseOk,
    CloseConnection {
        code: u16,
    },
    Blocked,
    Unblocked,
    Heartbeat,
    Method(Method<'a>),
    Header {
        size: u16,
    },
    Body {
        len: u16,
    },
    /// On whatever channel.
    Frame(Frame<'a>),
    Raw(RawFrame<'a>),
    /// No frame, most likely.
    Bytes(&'a [u8]),
}
