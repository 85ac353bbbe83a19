use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use amqp_codec::{Limits, ProtocolHeader, RawFrame};
use bytes::Bytes;

use super::event::{Event, OwnedFrame};

/// What went over a connection, both ways: the last thousand things of it.
#[derive(Debug)]
pub struct Transcript {
    began: Instant,
    entries: VecDeque<Entry>,
    dropped: usize,
    kept: usize,
}

const KEPT: usize = 1000;
/// How many lines a failure shows.
const SHOWN: usize = 40;

#[derive(Debug)]
struct Entry {
    at: Duration,
    what: What,
}

#[derive(Debug)]
enum What {
    Sent(Bytes),
    Received(Event),
    Note(String),
}

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Sent by this side.
    Sent,
    /// Received by this side.
    Received,
}

impl Transcript {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            entries: VecDeque::new(),
            dropped: 0,
            kept: KEPT,
        }
    }

    /// One that keeps nothing.
    pub(super) fn none() -> Self {
        Self {
            kept: 0,
            ..Self::new()
        }
    }

    pub(super) fn sent(&mut self, bytes: Bytes) {
        self.push(What::Sent(bytes));
    }

    pub(super) fn received(&mut self, event: Event) {
        self.push(What::Received(event));
    }

    pub(super) fn note(&mut self, note: String) {
        self.push(What::Note(note));
    }

    fn push(&mut self, what: What) {
        if self.entries.len() >= self.kept {
            self.entries.pop_front();
            self.dropped += 1;
        }
        if self.kept == 0 {
            return;
        }
        self.entries.push_back(Entry {
            at: self.began.elapsed(),
            what,
        });
    }

    /// The frames in their order, as far as they are kept.
    pub fn frames(&self) -> impl Iterator<Item = (Direction, OwnedFrame)> + '_ {
        self.entries.iter().flat_map(|entry| match &entry.what {
            What::Sent(bytes) => frames(bytes)
                .0
                .into_iter()
                .map(|frame| (Direction::Sent, frame))
                .collect::<Vec<_>>(),
            What::Received(Event::Frame(frame)) => vec![(Direction::Received, frame.clone())],
            What::Received(_) | What::Note(_) => Vec::new(),
        })
    }
}

/// The last lines; times are the machine's, not a test's virtual ones.
impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        for Entry { at, what } in &self.entries {
            let at = at.as_secs_f64();
            match what {
                What::Received(event) => lines.push(format!("{at:9.4} < {event}")),
                What::Note(note) => lines.push(format!("{at:9.4}   {note}")),
                What::Sent(bytes) => {
                    let (frames, rest) = frames(bytes);
                    lines.extend(frames.iter().map(|frame| format!("{at:9.4} > {frame}")));
                    if let Some(header) = ProtocolHeader::parse(rest).filter(|_| rest.len() == 8) {
                        lines.push(format!("{at:9.4} > {}", Event::Protocol(header)));
                    } else if !rest.is_empty() {
                        let shown = &rest[..rest.len().min(64)];
                        lines.push(format!("{at:9.4} > {} bytes {shown:02x?}", rest.len()));
                    }
                }
            }
        }
        let skip = lines.len().saturating_sub(SHOWN);
        writeln!(
            f,
            "transcript (> sent, < received, {} before):",
            skip + self.dropped
        )?;
        lines[skip..]
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The frames that `bytes` begin with, and the rest.
fn frames(bytes: &Bytes) -> (Vec<OwnedFrame>, &[u8]) {
    let limits = Limits {
        frame_max: u32::MAX,
        method_frame_max: u32::MAX,
        ..Limits::default()
    };
    let mut frames = Vec::new();
    let mut rest = &bytes[..];
    while let Ok(Some((raw, len))) = RawFrame::parse(rest, &limits) {
        frames.push(OwnedFrame {
            kind: raw.kind,
            channel: raw.channel,
            payload: bytes.slice_ref(raw.payload),
        });
        rest = &rest[len..];
    }
    (frames, rest)
}
