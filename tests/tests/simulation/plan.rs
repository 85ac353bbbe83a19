//! What one seed is about: drawn first, so that a trace begins with it.

use std::time::Duration;

use super::network::{Cut, Ending, Roads};
use super::random::Random;

/// Under which conditions the simulation runs.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Nobody is slower than some seconds and nothing gets lost without a word: whatever takes longer, or ends by a
    /// deadline, is the client's fault, such as a waker that got lost.
    pub(crate) calm: bool,
    /// Network and broker end nothing either: every call has to succeed.
    pub(crate) faultless: bool,
    pub(crate) connections: u64,
    pub(crate) channels: u64,
    pub(crate) steps: u64,
    pub(crate) channel_max: u16,
    pub(crate) frame_max: u32,
    /// In seconds; 0 is none.
    pub(crate) heartbeat: u16,
    /// How much may be in the client's outgoing buffer.
    pub(crate) outgoing: usize,
    pub(crate) deadlines: Deadlines,
    pub(crate) roads: Roads,
    pub(crate) broker: Manners,
    /// How often a future is dropped before it is ready, in a thousand.
    pub(crate) drops: u32,
    /// How often a task lets others run before it goes on, in a thousand.
    pub(crate) yields: u32,
}

/// What the client is told to keep to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    pub(crate) handshake: Duration,
    pub(crate) rpc: Duration,
    pub(crate) close: Duration,
    pub(crate) confirm: Duration,
    /// Of a publish, for room.
    pub(crate) wait: Duration,
}

/// How the broker behaves; the rates are times in a thousand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manners {
    /// How long it takes for a frame, and for a confirm, in milliseconds at most.
    pub(crate) work: u64,
    pub(crate) confirm: u64,
    pub(crate) nack: u32,
    /// A publish is never confirmed, a request never answered.
    pub(crate) forget: u32,
    /// Of each item that is worked on: its channel is closed instead.
    pub(crate) close_channel: u32,
    /// When the broker closes the connection, or is gone, in milliseconds from the start.
    pub(crate) end: Option<(u64, End)>,
    /// How often in the life of a connection it is blocked, and channels are stopped.
    pub(crate) blocks: u64,
    pub(crate) flows: u32,
    /// Of each delivery: the consumer is cancelled behind it.
    pub(crate) cancel: u32,
    /// Of each delivery of a step: it is not followed by others until something else happens.
    pub(crate) deliveries: u64,
    /// The handshake goes only so far.
    pub(crate) handshake: Option<Stop>,
    /// What it does otherwise than it says, to see that this is found.
    pub(crate) lie: Option<Lie>,
}

/// How a broker does not keep to what it says, or to the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Acks what it does not have, nacks what it has.
    Verdict,
    /// Keeps a confirm to itself.
    Confirm,
    /// Returns what it took.
    Return,
    /// Takes a publish twice.
    Arrival,
    /// Answers with what somebody else asked for.
    Reply,
    /// Does not answer a close.
    CloseOk,
    /// Closes for another reason than it has.
    Code,
    /// Leaves a delivery out.
    Delivery,
    /// Delivers something else.
    Body,
    /// Does something else with a delivery than it was told.
    Settling,
    /// Commits nothing.
    Commit,
}

impl Lie {
    pub(crate) const ALL: [Lie; 11] = [
        Lie::Verdict,
        Lie::Confirm,
        Lie::Return,
        Lie::Arrival,
        Lie::Reply,
        Lie::CloseOk,
        Lie::Code,
        Lie::Delivery,
        Lie::Body,
        Lie::Settling,
        Lie::Commit,
    ];
}

/// How a broker ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By connection.close.
    Close,
    /// Without a word: the stream ends.
    Gone,
    /// It sends and reads nothing any more.
    Silence,
}

/// How a handshake fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Refused,
    GoneAtStart,
    GoneAtOpen,
    SilentAtTune,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::of(seed, "plan", 0);
        let random = &mut random;
        let calm = random.chance(650);
        let faultless = calm && random.chance(500);
        let second = Duration::from_secs;
        let deadlines = match calm {
            // Beyond what a calm seed allows for anything.
            true => Deadlines {
                handshake: second(60),
                rpc: second(60),
                close: second(60),
                confirm: second(60),
                wait: second(60),
            },
            false => Deadlines {
                handshake: second(random.between(1, 10)),
                rpc: second(random.between(1, 8)),
                close: second(random.between(2, 8)),
                // Longer than all others, now and then.
                confirm: second(random.pick(&[1, 2, 4, 8, 30])),
                wait: second(random.between(1, 8)),
            },
        };
        // One in eight is large.
        let large = random.chance(125);
        let window = random.pick(&[300, 1500, 9000, 70_000]);
        let roads = Roads {
            // A small window and a long way together would take minutes.
            latency: random.between(0, 20).min(window as u64 / 150),
            window,
            chop: random.pick(&[0, 0, 100, 600]),
            stall: if calm { 0 } else { random.pick(&[0, 2, 10]) },
            cut: (!faultless && random.chance(350)).then(|| Cut {
                to_server: random.chance(500),
                at: match random.chance(300) {
                    true => random.between(0, 700),
                    false => random.between(0, 20_000),
                },
                how: match calm {
                    true => random.pick(&[Ending::Reset, Ending::Closed]),
                    false => random.pick(&[Ending::Reset, Ending::Closed, Ending::Silence]),
                },
            }),
        };
        let end = (!faultless && random.chance(300)).then(|| {
            let how = match calm {
                true => random.pick(&[End::Close, End::Gone]),
                false => random.pick(&[End::Close, End::Gone, End::Silence]),
            };
            (random.between(1, 800), how)
        });
        let handshake = (!faultless && random.chance(60)).then(|| match calm {
            true => random.pick(&[Stop::Refused, Stop::GoneAtStart, Stop::GoneAtOpen]),
            false => random.pick(&[Stop::Refused, Stop::SilentAtTune, Stop::GoneAtOpen]),
        });
        let broker = Manners {
            work: random.pick(&[0, 1, 3]),
            confirm: random.pick(&[0, 2, 30]),
            nack: random.pick(&[0, 100, 400]),
            forget: if calm { 0 } else { random.pick(&[0, 10, 60]) },
            close_channel: if faultless {
                0
            } else {
                random.pick(&[0, 0, 10, 40])
            },
            end,
            blocks: random.pick(&[0, 0, 1, 2]),
            flows: random.pick(&[0, 0, 20]),
            cancel: random.pick(&[0, 0, 30]),
            deliveries: random.between(0, 12),
            handshake,
            lie: None,
        };
        Plan {
            calm,
            faultless,
            connections: if large {
                random.between(1, 4)
            } else {
                random.between(1, 2)
            },
            channels: if large {
                random.between(1, 6)
            } else {
                random.between(1, 3)
            },
            steps: if large {
                random.between(5, 40)
            } else {
                random.between(2, 10)
            },
            channel_max: random.pick(&[16, 64, 2047]),
            frame_max: random.pick(&[4096, 8192, 131_072]),
            heartbeat: match calm {
                // Heartbeats wake the client: they must not come to the help of one that sleeps.
                true => random.pick(&[0, 0, 300]),
                false => random.pick(&[0, 1, 2, 10]),
            },
            outgoing: random.pick(&[500, 20_000, 1 << 20]),
            deadlines,
            roads,
            broker,
            drops: random.pick(&[0, 60, 300]),
            yields: random.pick(&[0, 100, 500]),
        }
    }
}
