use std::io;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use amqp_codec::{Limits, MethodId, ProtocolHeader, RawFrame, frame};
use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::link::Ending;
use super::lock;
use crate::wire::DEADLINE;

/// What happens to one direction of a connection. Offsets count the bytes of that direction, from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    cut: Option<(u64, Ending)>,
    hold: Option<u64>,
    delay: Duration,
    rate: Option<u64>,
}

impl Faults {
    /// After exactly this many bytes the whole connection ends, both directions of it.
    #[must_use]
    pub fn cut_at(self, offset: u64, how: Ending) -> Self {
        Self {
            cut: Some((offset, how)),
            ..self
        }
    }

    /// After exactly this many bytes nothing is forwarded, nor taken from the sender, until the hold is released.
    #[must_use]
    pub fn hold_at(self, offset: u64) -> Self {
        Self {
            hold: Some(offset),
            ..self
        }
    }

    /// Each piece that is read waits for this long. Pieces wait one after the other.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// At most about this many bytes a second.
    ///
    /// # Panics
    /// For zero, which is what [`hold_at`](Self::hold_at) is for.
    #[must_use]
    pub fn throttle(self, bytes_per_second: u64) -> Self {
        assert!(bytes_per_second > 0, "nothing at all is a hold");
        Self {
            rate: Some(bytes_per_second),
            ..self
        }
    }

    /// How many bytes may go before something happens.
    fn room(&self, sent: u64) -> u64 {
        let stop = [self.hold, self.cut.map(|(offset, _)| offset)]
            .into_iter()
            .flatten()
            .min();
        stop.map_or(u64::MAX, |stop| stop.saturating_sub(sent))
    }
}

/// One direction of a connection: what passed, and what is to happen. What is changed holds for bytes that have not
/// passed yet; an offset that has is reached at once.
#[derive(Debug)]
pub struct Flow {
    faults: watch::Sender<Faults>,
    count: watch::Sender<u64>,
    passed: Mutex<Vec<u8>>,
}

/// How many bytes are kept of each direction.
const RECORDED: usize = 16 << 20;

/// Where a frame is among the bytes that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// From its first byte to behind its frame-end.
    pub range: Range<u64>,
    /// The frame type; `b'A'` for a protocol header.
    pub kind: u8,
    /// The channel.
    pub channel: u16,
    /// The method, if it is a method frame.
    pub method: Option<MethodId>,
}

impl Flow {
    pub(super) fn new(faults: Faults) -> Self {
        Self {
            faults: watch::Sender::new(faults),
            count: watch::Sender::new(0),
            passed: Mutex::default(),
        }
    }

    /// Changes what is to happen.
    pub fn change(&self, change: impl FnOnce(Faults) -> Faults) {
        self.faults.send_modify(|faults| *faults = change(*faults));
    }

    /// Holds what has not passed yet.
    pub fn hold(&self) {
        let sent = self.count();
        self.change(|faults| faults.hold_at(sent));
    }

    /// Ends a hold.
    pub fn release(&self) {
        self.change(|faults| Faults {
            hold: None,
            ..faults
        });
    }

    /// How many bytes have passed.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// The bytes that have passed, the first 16 MiB of them.
    pub fn bytes(&self) -> Vec<u8> {
        lock(&self.passed).clone()
    }

    /// The whole frames, and the protocol header, among [`bytes`](Self::bytes).
    pub fn frames(&self) -> Vec<Span> {
        spans(&self.bytes())
    }

    /// Waits until this many bytes have passed.
    ///
    /// # Panics
    /// They do not within the deadline.
    pub async fn wait_for(&self, count: u64) {
        let mut passed = self.count.subscribe();
        if timeout(DEADLINE, passed.wait_for(|passed| *passed >= count))
            .await
            .is_err()
        {
            panic!(
                "only {} of {count} bytes passed within {DEADLINE:?}",
                self.count()
            );
        }
    }

    fn record(&self, bytes: &[u8]) {
        let mut passed = lock(&self.passed);
        let kept = bytes.len().min(RECORDED.saturating_sub(passed.len()));
        passed.extend_from_slice(&bytes[..kept]);
        drop(passed);
        self.count.send_modify(|count| *count += bytes.len() as u64);
    }

    /// Forwards until the sender's end of the stream, which is passed on, or until something happens.
    pub(super) async fn run(
        &self,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
    ) -> Result<(), Ending> {
        let failed = |_: io::Error| Ending::Reset;
        let mut faults = self.faults.subscribe();
        let mut buffer = BytesMut::with_capacity(16 * 1024);
        loop {
            let now = *faults.borrow_and_update();
            if let Some((offset, how)) = now.cut
                && self.count() >= offset
            {
                return Err(how);
            }
            let room = usize::try_from(now.room(self.count())).unwrap_or(usize::MAX);
            if room == 0 {
                // The sender is kept in the flow, and so in this function's caller.
                let _ = faults.changed().await;
                continue;
            }
            if buffer.is_empty() {
                buffer.resize(room.min(16 * 1024), 0);
                let read = tokio::select! {
                    biased;
                    _ = faults.changed() => Ok(None),
                    read = from.read(&mut buffer) => read.map(Some),
                };
                let read = read.map_err(failed)?;
                buffer.truncate(read.unwrap_or(0));
                match read {
                    None => continue,
                    Some(0) => return to.shutdown().await.map_err(failed),
                    Some(_) => {}
                }
                if !now.delay.is_zero() {
                    sleep(now.delay).await;
                    continue;
                }
            }
            // Throttled, twenty pieces a second.
            let piece = now
                .rate
                .map_or(usize::MAX, |rate| (rate / 20).max(1) as usize);
            let piece = piece.min(room).min(buffer.len());
            let began = Instant::now();
            let written = tokio::select! {
                biased;
                _ = faults.changed() => continue,
                written = to.write(&buffer[..piece]) => written.map_err(failed)?,
            };
            self.record(&buffer[..written]);
            buffer.advance(written);
            if let Some(rate) = now.rate {
                let due = Duration::from_secs_f64(written as f64 / rate as f64);
                sleep(due.saturating_sub(began.elapsed())).await;
            }
        }
    }
}

fn spans(bytes: &[u8]) -> Vec<Span> {
    let limits = Limits {
        frame_max: u32::MAX,
        method_frame_max: u32::MAX,
        ..Limits::default()
    };
    let mut spans = Vec::new();
    let mut at = 0;
    if ProtocolHeader::parse(bytes).is_some() {
        spans.push(Span {
            range: 0..8,
            kind: b'A',
            channel: 0,
            method: None,
        });
        at = 8;
    }
    while let Ok(Some((raw, len))) = RawFrame::parse(&bytes[at..], &limits) {
        let method = match *raw.payload {
            [c0, c1, m0, m1, ..] if raw.kind == frame::METHOD => Some(MethodId {
                class: u16::from_be_bytes([c0, c1]),
                method: u16::from_be_bytes([m0, m1]),
            }),
            _ => None,
        };
        let range = at as u64..(at + len) as u64;
        spans.push(Span {
            range,
            kind: raw.kind,
            channel: raw.channel,
            method,
        });
        at += len;
    }
    spans
}
