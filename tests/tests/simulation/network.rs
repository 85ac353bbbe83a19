//! Streams between a client and a broker that delay, split, coalesce, stall and break what goes through.
//!
//! Each direction is a window of a bounded number of bytes: a writer waits when it is full, as for a socket. What was
//! written arrives some time later, in order. Each connection has its own delays, so that what happens on one overtakes
//! what happens on another.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::random::Random;
use super::world::World;

/// What the ways between the two ends are like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roads {
    /// Up to how many milliseconds each write takes to arrive.
    pub(crate) latency: u64,
    /// How many bytes are under way at most.
    pub(crate) window: usize,
    /// How often, in a thousand, only a part is written or read, or nothing at first.
    pub(crate) chop: u32,
    /// How often, in a thousand, a write makes its direction stand still for up to ten seconds.
    pub(crate) stall: u32,
    pub(crate) cut: Option<Cut>,
}

/// Where a connection breaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// In which direction the bytes are counted.
    pub(crate) to_server: bool,
    /// The first byte that does not get through.
    pub(crate) at: u64,
    pub(crate) how: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Both ends see an error; what is under way is lost.
    Reset,
    /// Both ends see the end of the stream, behind what is under way.
    Closed,
    /// Nothing arrives any more, and nobody is told.
    Silence,
}

/// How often one end may ask for bytes or for room while no time passes.
const POLLS_AT_ONCE: u32 = 200_000;

/// The two ends of a new connection: the client's and the server's.
pub(crate) fn connect(world: &Arc<World>, number: usize, random: &mut Random) -> (End, End) {
    let link = Arc::new(Mutex::new(Link {
        roads: world.plan.roads,
        random: random.fork(),
        ways: [Way::default(), Way::default()],
        broken: false,
        silent: false,
        polls: 0,
        polled_at: Instant::now(),
    }));
    let mut end = |writes| End {
        world: world.clone(),
        link: link.clone(),
        number,
        writes,
        random: random.fork(),
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    (end(0), end(1))
}

/// One end of a connection.
pub(crate) struct End {
    world: Arc<World>,
    link: Arc<Mutex<Link>>,
    number: usize,
    /// The way this end writes to: 0 leads to the server, 1 to the client.
    writes: usize,
    random: Random,
    timer: Pin<Box<Sleep>>,
}

struct Link {
    roads: Roads,
    random: Random,
    ways: [Way; 2],
    /// Reset: both ends get errors.
    broken: bool,
    /// Nothing arrives any more.
    silent: bool,
    polls: u32,
    polled_at: Instant,
}

#[derive(Default)]
struct Way {
    /// What is under way, and when it arrives.
    queue: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// How many bytes were written so far.
    total: u64,
    last_arrival: Option<Instant>,
    /// The writer has ended the stream.
    ended: bool,
    /// The reader is gone: there is nobody to write to.
    unread: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Way {
    fn wake(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Moves what has arrived into the buffer, up to so many bytes.
    fn take(&mut self, now: Instant, mut wanted: usize, buffer: &mut ReadBuf<'_>) -> usize {
        let mut taken = 0;
        while wanted > 0
            && let Some((at, bytes)) = self.queue.front_mut()
            && *at <= now
        {
            let count = wanted.min(bytes.len());
            buffer.put_slice(&bytes[..count]);
            bytes.advance(count);
            if bytes.is_empty() {
                self.queue.pop_front();
            }
            (taken, wanted) = (taken + count, wanted - count);
        }
        self.bytes -= taken;
        if taken > 0 {
            self.writer.take().into_iter().for_each(Waker::wake);
        }
        taken
    }
}

impl Link {
    /// When what is written now arrives.
    fn arrival(&mut self, way: usize, now: Instant) -> Instant {
        let mut after = self.random.millis(self.roads.latency);
        if self.random.chance(self.roads.stall) {
            after += self.random.millis(10_000);
        }
        let at = (now + after).max(self.ways[way].last_arrival.unwrap_or(now));
        self.ways[way].last_arrival = Some(at);
        at
    }

    fn break_off(&mut self, how: Ending) {
        match how {
            Ending::Reset => {
                self.broken = true;
                for way in &mut self.ways {
                    way.queue.clear();
                }
            }
            Ending::Closed => {
                for way in &mut self.ways {
                    way.ended = true;
                    way.unread = true;
                }
            }
            Ending::Silence => self.silent = true,
        }
        for way in &mut self.ways {
            way.wake();
        }
    }
}

impl End {
    /// Whether the peer has ended the stream, or there is an error, with nothing left to read.
    fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap()
    }

    fn name(&self) -> &'static str {
        ["client", "broker"][self.writes]
    }

    fn is_client(&self) -> bool {
        self.writes == 0
    }

    /// Breaks the connection off from this end.
    pub(crate) fn break_off(&self, how: Ending) {
        self.lock().break_off(how);
    }

    /// Whether this poll may go on; one that may not is woken at once, unless somebody goes round in circles.
    fn may_go_on(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let now = Instant::now();
        let mut link = self.link.lock().unwrap();
        if link.polled_at != now {
            (link.polled_at, link.polls) = (now, 0);
        }
        link.polls += 1;
        if link.polls == POLLS_AT_ONCE {
            let (number, name) = (self.number, self.name());
            self.world.fault(format_args!(
                "connection {number}: the {name} polls its stream without end"
            ));
        }
        if link.polls >= POLLS_AT_ONCE {
            return Err(io::ErrorKind::Other.into());
        }
        if self.random.chance(link.roads.chop / 3) {
            cx.waker().wake_by_ref();
            return Ok(false);
        }
        Ok(true)
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = this.poll_read_now(cx, buffer);
        if polled.is_pending() && this.is_client() {
            this.world.finds_nothing(this.number, cx.waker());
        }
        polled
    }
}

impl End {
    fn poll_read_now(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self;
        if !this.may_go_on(cx)? {
            return Poll::Pending;
        }
        loop {
            let now = Instant::now();
            let mut guard = this.link.lock().unwrap();
            let link = &mut *guard;
            let mut wanted = buffer.remaining();
            if this.random.chance(link.roads.chop) {
                wanted = wanted.min(this.random.between(1, 40) as usize);
            }
            let (silent, broken) = (link.silent, link.broken);
            let way = &mut link.ways[1 - this.writes];
            way.reader = Some(cx.waker().clone());
            if silent {
                // The broker's end is told, so that it ends.
                return match this.writes {
                    0 => Poll::Pending,
                    _ => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                };
            }
            let taken = way.take(now, wanted, buffer);
            if taken > 0 {
                drop(guard);
                this.world.note(format_args!(
                    "{}: {} bytes reach the {}",
                    this.number,
                    taken,
                    this.name()
                ));
                return Poll::Ready(Ok(()));
            }
            if broken {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let arrival = match (way.queue.front(), way.last_arrival) {
                (Some((at, _)), _) => *at,
                (None, _) if !way.ended => return Poll::Pending,
                (None, Some(at)) if at > now => at,
                (None, _) => return Poll::Ready(Ok(())),
            };
            drop(guard);
            this.timer.as_mut().reset(arrival);
            if this.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if !this.may_go_on(cx)? {
            return Poll::Pending;
        }
        let now = Instant::now();
        let mut guard = this.link.lock().unwrap();
        let link = &mut *guard;
        let cut = link
            .roads
            .cut
            .filter(|cut| cut.to_server == (this.writes == 0));
        let way = &mut link.ways[this.writes];
        let silenced = link.silent && this.writes == 1;
        if link.broken || way.unread || way.ended || silenced {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut room = link.roads.window.saturating_sub(way.bytes);
        if room == 0 {
            way.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if this.random.chance(link.roads.chop) {
            room = room.min(this.random.between(1, 200) as usize);
        }
        let before_cut = cut.map(|cut| (cut.at.saturating_sub(way.total)) as usize);
        let mut taken = Vec::new();
        for slice in slices {
            let count = slice.len().min(room - taken.len());
            taken.extend_from_slice(&slice[..count]);
        }
        let count = taken.len();
        if let Some(left) = before_cut {
            // What is behind the cut was taken by the socket, and is lost.
            taken.truncate(left);
        }
        let lost = taken.len() < count;
        way.total += count as u64;
        if !link.silent && !taken.is_empty() {
            way.bytes += taken.len();
            let at = link.arrival(this.writes, now);
            let way = &mut link.ways[this.writes];
            way.queue.push_back((at, taken.into()));
            way.reader.take().into_iter().for_each(Waker::wake);
        } else if link.silent {
            way.bytes += taken.len();
        }
        if let Some(cut) = cut.filter(|_| lost) {
            link.roads.cut = None;
            link.break_off(cut.how);
            drop(guard);
            this.world.cut(this.number, cut);
        } else {
            drop(guard);
        }
        this.world.note(format_args!(
            "{}: {} writes {} bytes",
            this.number,
            this.name(),
            count
        ));
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut link = self.lock();
        let way = &mut link.ways[self.writes];
        if !std::mem::replace(&mut way.ended, true) {
            way.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.is_client() {
            self.world.task_is_gone(self.number);
        }
        let mut link = self.link.lock().unwrap();
        if link.silent {
            return;
        }
        let incoming = &mut link.ways[1 - self.writes];
        incoming.unread = true;
        let unread = !incoming.queue.is_empty();
        link.ways[self.writes].ended = true;
        // As with sockets: who closes with something unread resets the connection.
        if unread {
            link.break_off(Ending::Reset);
        }
        for way in &mut link.ways {
            way.wake();
        }
    }
}
