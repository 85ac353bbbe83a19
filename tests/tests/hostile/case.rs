//! What a case is made of: where the client is, what the server does, and what has to come of it.

use std::time::Duration;

use amqp_client::codec::{DecodeErrorKind, MethodId, ProtocolHeader, ReplyCode};
use amqp_client::error::{Operation, Step, Violation};
use amqp_client::{ConnectOptions, codec::DecodeError};
use bytes::Bytes;

/// The channel that the server misbehaves on.
pub(crate) const ON: u16 = 1;
/// The one that has nothing to do with it: in confirm mode, with a publish that waits for its confirm.
pub(crate) const WITNESS: u16 = 2;
/// One that never was open.
pub(crate) const NEVER: u16 = 30;

/// How long an end takes that does not have to wait for anything.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How much more memory a case may take than was in use before it, unless it says why.
const MEMORY: usize = 1 << 20;

/// One way to misbehave.
pub(crate) struct Case {
    /// `group/what_it_does`.
    pub(crate) name: &'static str,
    /// What the client is doing when it begins.
    pub(crate) scene: Scene,
    /// What the server does.
    pub(crate) acts: Vec<Act>,
    /// What comes of it.
    pub(crate) end: End,
    /// What the server is told on its account, beside the close that belongs to `end`.
    pub(crate) told: Vec<Told>,
    /// The same, after that close.
    pub(crate) told_after: Vec<Told>,
    /// Whether the server hears anything any more.
    pub(crate) hears: bool,
    /// Whether the server answers a close.
    pub(crate) answers_close: bool,
    /// Whether what it does answers what the client waits for.
    pub(crate) answered: bool,
    /// How long it takes at most from the first act on, in virtual time.
    pub(crate) within: Duration,
    /// How many bytes more than before may be in use at any time.
    pub(crate) memory: usize,
    /// How the connection is configured.
    pub(crate) options: fn(ConnectOptions) -> ConnectOptions,
}

/// What the client is doing: a step of the handshake, or what it waits for on the channel [`ON`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// The handshake waits for something in this step.
    Handshake(Step),
    /// The channel is open, and nothing was asked for.
    Idle,
    /// channel.open is not answered yet.
    Opening,
    /// Two publishes wait for their confirms.
    Confirming,
    /// confirm.select is not answered yet.
    Selecting,
    /// queue.declare is not answered yet.
    Declaring,
    /// basic.get is not answered yet.
    Getting,
    /// basic.consume, which names the tag `c`, is not answered yet.
    StartingConsumer,
    /// The consumer `c` waits for its next message, which it acks.
    Consuming,
    /// The consumer `c` is not read; it may keep 64 KiB.
    Unread,
    /// basic.cancel for the consumer `c` is not answered yet.
    Cancelling,
    /// basic.recover is not answered yet.
    Recovering,
    /// tx.commit is not answered yet.
    Committing,
    /// channel.close is not answered yet.
    ClosingChannel,
    /// connection.close is not answered yet.
    ClosingConnection,
    /// connection.update-secret is not answered yet.
    UpdatingSecret,
    /// A message of 4 MiB is being sent, in confirm mode.
    Sending,
}

/// Something that the server does.
#[derive(Clone)]
pub(crate) enum Act {
    /// Sends this.
    Send(Bytes),
    /// Sends this so often, and reads what comes meanwhile.
    Repeat(Bytes, usize),
    /// Sends what this makes of 1, 2, 3 and so on, so often, and reads what comes meanwhile.
    Flood(usize, fn(u64) -> Vec<u8>),
    /// The same without reading anything, for as long as it is taken from it.
    DeafFlood(usize, fn(u64) -> Vec<u8>),
    /// Sends this byte by byte, with a pause after each.
    Drip(Bytes, Duration),
    /// Does nothing for so long, but reads.
    Wait(Duration),
    /// Reads nothing for so long.
    Deaf(Duration),
    /// Ends its half of the stream, and goes on reading.
    HalfClose,
    /// Ends the stream in both directions.
    HangUp,
}

/// Frames that the server gets: a method, how often, on which channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) channel: u16,
    pub(crate) method: MethodId,
    pub(crate) times: usize,
}

/// What comes of it, and whose fault that is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    /// Nothing: what the client waits for comes about when the server gets round to it.
    Nothing,
    /// The two publishes have these outcomes.
    Outcomes([&'static str; 2]),
    /// The call alone fails, as it gets no answer in time; or the channel with it where it cannot go on.
    Call(Operation),
    /// The server's fault, and the channel's alone: it is closed with this code, for this reason.
    Channel(ReplyCode, Reason),
    /// The server's fault: the connection is closed with this code, for this reason.
    Connection(ReplyCode, Reason),
    /// The client gets what it waited for; what the server does then is its fault, and costs the connection.
    AnsweredThen(ReplyCode, Reason),
    /// The server has closed the channel with the first code; what it does then is its fault, and costs the
    /// connection, with the second.
    ClosedThen(ReplyCode, ReplyCode, Reason),
    /// The server has closed the channel with this code.
    ChannelByServer(ReplyCode),
    /// The server has closed the connection with this code.
    ConnectionByServer(ReplyCode),
    /// The connection is lost.
    Lost(Lost),
    /// The connection is not opened.
    NotOpened(Failure),
    /// The client has closed the connection, and says so.
    ClosedByClient,
    /// The client has closed the connection, and says that the server has not answered.
    NotClosed,
    /// Nobody knows whether the transaction is committed, and its channel is closed.
    CommitUnknown,
}

/// Why this side closes a channel or connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reason {
    /// The server did this; where it was is not compared.
    Violation(Violation),
    /// A consumer is not read.
    Overflow,
}

impl From<Violation> for Reason {
    fn from(violation: Violation) -> Self {
        Reason::Violation(violation)
    }
}

impl From<DecodeErrorKind> for Reason {
    fn from(kind: DecodeErrorKind) -> Self {
        Reason::Violation(DecodeError { kind, offset: 0 }.into())
    }
}

impl From<amqp_client::codec::ContentError> for Reason {
    fn from(error: amqp_client::codec::ContentError) -> Self {
        Reason::Violation(error.into())
    }
}

/// How a connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    EndOfStream,
    Heartbeat,
    CloseTimeout,
    HandshakeTimeout,
}

/// Why a connection is not opened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure {
    Protocol(ProtocolHeader),
    Tls,
    NotAmqp,
    Version(u8, u8),
    Authentication,
    CredentialsRefused,
    CredentialsProbablyRefused,
    VirtualHostRefused,
    Tune,
    /// In this step, the server did this, for which this is the code.
    Violation(Step, ReplyCode, Reason),
    /// The server closed the connection in this step.
    ByServer(Step, ReplyCode),
    Lost(Step, Lost),
}

/// A case in which nothing comes of it, to be refined.
pub(crate) fn case(name: &'static str, scene: Scene, acts: impl IntoIterator<Item = Act>) -> Case {
    Case {
        name,
        scene,
        acts: acts.into_iter().collect(),
        end: End::Nothing,
        told: Vec::new(),
        told_after: Vec::new(),
        hears: true,
        answers_close: true,
        answered: false,
        within: AT_ONCE,
        memory: MEMORY,
        options: |options| options,
    }
}

impl Case {
    pub(crate) fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// It costs the channel.
    pub(crate) fn channel(self, code: ReplyCode, reason: impl Into<Reason>) -> Self {
        self.end(End::Channel(code, reason.into()))
    }

    /// It costs the connection.
    pub(crate) fn connection(self, code: ReplyCode, reason: impl Into<Reason>) -> Self {
        self.end(End::Connection(code, reason.into()))
    }

    /// The connection is not opened.
    pub(crate) fn not_opened(self, failure: Failure) -> Self {
        self.end(End::NotOpened(failure))
    }

    pub(crate) fn told(mut self, channel: u16, method: MethodId, times: usize) -> Self {
        self.told.push(Told {
            channel,
            method,
            times,
        });
        self
    }

    /// What it is told after the close.
    pub(crate) fn told_after(mut self, channel: u16, method: MethodId, times: usize) -> Self {
        self.told_after.push(Told {
            channel,
            method,
            times,
        });
        self
    }

    /// The server is gone before it could hear anything.
    pub(crate) fn unheard(mut self) -> Self {
        self.hears = false;
        self
    }

    pub(crate) fn answered(mut self) -> Self {
        self.answered = true;
        self
    }

    pub(crate) fn never_answers_close(mut self) -> Self {
        self.answers_close = false;
        self
    }

    pub(crate) fn within(mut self, seconds: u64) -> Self {
        self.within = Duration::from_secs(seconds);
        self
    }

    pub(crate) fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    pub(crate) fn options(mut self, options: fn(ConnectOptions) -> ConnectOptions) -> Self {
        self.options = options;
        self
    }
}
