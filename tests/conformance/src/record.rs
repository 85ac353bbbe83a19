//! What a check leaves to the runner, however it ends: transcripts, endings, names to delete, open connections.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::time::Instant;

use amqp_codec::{ProtocolHeader, RawFrame, ShortStr};
use bytes::Bytes;

use crate::ending::{Ended, Ending};
use crate::event::{Event, LIMITS, OwnedFrame};
use crate::wire::Wire;

/// What the context and the connections of one check write down while it runs. The runner has it too, so that it
/// survives a check that fails, panics or runs out of time.
#[derive(Debug)]
pub(crate) struct Record {
    began: Instant,
    lines: RefCell<Lines>,
    connections: Cell<usize>,
    endings: RefCell<Vec<Ended>>,
    observed: RefCell<Option<String>>,
    /// What to delete when the check is over.
    pub(crate) leftovers: RefCell<Vec<Leftover>>,
    /// Connections that the check gave up while they were open.
    pub(crate) open: RefCell<Vec<Wire>>,
}

/// Something declared that outlives the connection.
#[derive(Debug, Clone)]
pub(crate) enum Leftover {
    Queue(ShortStr<'static>),
    Exchange(ShortStr<'static>),
}

#[derive(Debug, Default)]
struct Lines {
    text: Vec<String>,
    dropped: usize,
}

/// How many lines of a transcript are kept: the first and the last of them.
const KEPT: usize = 200;
/// How many characters of a line are kept.
const LINE: usize = 1000;

impl Record {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            lines: RefCell::default(),
            connections: Cell::new(0),
            endings: RefCell::default(),
            observed: RefCell::default(),
            leftovers: RefCell::default(),
            open: RefCell::default(),
        }
    }

    /// The number of a new connection.
    pub(crate) fn connection(&self) -> usize {
        self.connections.set(self.connections.get() + 1);
        self.connections.get()
    }

    pub(crate) fn sent(&self, connection: usize, bytes: &Bytes) {
        let (frames, rest) = frames(bytes);
        for frame in frames {
            self.line(connection, '>', &frame);
        }
        match ProtocolHeader::parse(rest).filter(|_| rest.len() == 8) {
            Some(header) => self.line(connection, '>', &Event::Protocol(header)),
            None if rest.is_empty() => {}
            None => {
                let shown = &rest[..rest.len().min(64)];
                let text = format!("{} bytes \"{}\"", rest.len(), shown.escape_ascii());
                self.line(connection, '>', &text);
            }
        }
    }

    pub(crate) fn received(&self, connection: usize, event: &Event) {
        self.line(connection, '<', event);
    }

    pub(crate) fn note(&self, connection: usize, note: &str) {
        self.line(connection, ' ', &note);
    }

    fn line(&self, connection: usize, direction: char, what: &dyn std::fmt::Display) {
        let mut lines = self.lines.borrow_mut();
        if lines.text.len() == KEPT {
            lines.text.remove(KEPT / 2);
            lines.dropped += 1;
        }
        let at = self.began.elapsed().as_secs_f64();
        let mut line = format!("{at:8.4} {connection} {direction} {what}");
        if let Some((end, _)) = line.char_indices().nth(LINE) {
            line.truncate(end);
            line.push_str("...");
        }
        lines.text.push(line);
    }

    /// The frames of all connections in their order: seconds, connection, `>` sent or `<` received, what.
    pub(crate) fn transcript(&self) -> String {
        let lines = self.lines.borrow();
        let mut out = String::new();
        for (at, line) in lines.text.iter().enumerate() {
            if lines.dropped > 0 && at == KEPT / 2 {
                let _ = writeln!(out, "         {} lines left out", lines.dropped);
            }
            let _ = writeln!(out, "{line}");
        }
        out
    }

    /// How a connection, or a channel of it, ended. A channel can end several times, a connection once.
    pub(crate) fn ended(&self, connection: usize, channel: u16, ending: Ending) {
        let mut endings = self.endings.borrow_mut();
        let over = |it: &Ended| it.connection == connection && it.channel == 0;
        if !endings.iter().any(over) {
            endings.push(Ended {
                connection,
                channel,
                ending,
            });
        }
    }

    /// The last ending of a connection or channel was what the check called for.
    pub(crate) fn called_for(&self, connection: usize, channel: u16) {
        let mut endings = self.endings.borrow_mut();
        let last = endings
            .iter_mut()
            .rev()
            .find(|it| it.connection == connection && it.channel == channel);
        if let Some(last) = last {
            last.ending = match last.ending {
                Ending::WrongCode(code) => Ending::RightCode(code),
                Ending::Unclean | Ending::Reset => Ending::AsAsked,
                ending => ending,
            };
        }
    }

    pub(crate) fn endings(&self) -> Vec<Ended> {
        self.endings.borrow().clone()
    }

    pub(crate) fn observe(&self, what: String) {
        *self.observed.borrow_mut() = Some(what);
    }

    pub(crate) fn observed(&self) -> Option<String> {
        self.observed.borrow().clone()
    }
}

/// The frames that `bytes` begin with, and the rest.
fn frames(bytes: &Bytes) -> (Vec<OwnedFrame>, &[u8]) {
    let mut frames = Vec::new();
    let mut rest = &bytes[..];
    while let Ok(Some((raw, len))) = RawFrame::parse(rest, &LIMITS) {
        frames.push(OwnedFrame {
            kind: raw.kind,
            channel: raw.channel,
            payload: bytes.slice_ref(raw.payload),
        });
        rest = &rest[len..];
    }
    (frames, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lines: usize) -> String {
        let record = Record::new();
        for at in 0..lines {
            record.note(1, &format!("line {at}."));
        }
        record.transcript()
    }

    #[test]
    fn a_long_transcript_keeps_both_ends() {
        assert!(!record(KEPT).contains("left out"));
        let transcript = record(KEPT + 50);
        assert_eq!(transcript.lines().count(), KEPT + 1);
        assert!(transcript.contains("50 lines left out"));
        for line in [0, KEPT / 2 - 1, KEPT / 2 + 50, KEPT + 49] {
            assert!(transcript.contains(&format!("line {line}.")), "{line}");
        }
        for line in [KEPT / 2, KEPT / 2 + 49] {
            assert!(!transcript.contains(&format!("line {line}.")), "{line}");
        }
    }

    #[test]
    fn a_long_line_is_cut() {
        let record = Record::new();
        record.note(1, &"ä".repeat(10 * LINE));
        let transcript = record.transcript();
        assert_eq!(transcript.trim_end().chars().count(), LINE + 3);
    }

    #[test]
    fn frames_are_told_apart_and_the_rest_is_shown() {
        let record = Record::new();
        record.sent(1, &Bytes::from_static(b"AMQP\0\0\x09\x01"));
        record.sent(
            1,
            &Bytes::from_static(b"\x08\0\0\0\0\0\0\xce\x08\0\0\0\0\0\0\xcenothing"),
        );
        let transcript = record.transcript();
        let lines: Vec<&str> = transcript
            .lines()
            .filter_map(|line| line.split_once("1 > ").map(|(_, what)| what))
            .collect();
        let expected = [
            "protocol header 0 0 9 1",
            "heartbeat",
            "heartbeat",
            "7 bytes \"nothing\"",
        ];
        assert_eq!(lines, expected);
    }
}
