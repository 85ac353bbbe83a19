//! The task of a connection.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Sleep;

use super::state::{Shared, State};
use crate::error::{CloseCause, Closed, IoError};
use crate::proto::{Batch, Input};

/// How much is read at once: this much at first, and twice as much each time that was not enough.
const READ_SIZES: (usize, usize) = (4 * 1024, 128 * 1024);
/// How many pieces one write takes.
const SLICES: usize = 64;
/// How many received frames, or whole deliveries, are handled under one lock.
const FRAMES_AT_ONCE: usize = 128;
/// How many reads follow each other before what they gave rise to is written.
const READS: usize = 4;
/// After how many rounds of writing and reading other tasks get their turn.
const ROUNDS: usize = 4;
/// How long the last bytes, such as a close-ok, may take to be written and the stream to be ended.
const GOODBYE: Duration = Duration::from_secs(1);

/// Moves bytes and time between the transport and the state until the connection is over.
pub(super) struct Task<T> {
    shared: Arc<Shared>,
    transport: T,
    input: Input,
    read_size: usize,
    batch: Batch,
    /// Empty, and kept for its memory: whom to wake.
    wakes: Vec<Waker>,
    /// Bytes given to the transport since the connection began.
    written: u64,
    /// Some of them may still be in the transport, such as a record of TLS that is half sent.
    unflushed: bool,
    /// Writing failed. What the peer said before is still read: it may tell why.
    write_error: Option<io::Error>,
    timer: Timer,
    /// The connection is over: until when the last bytes may be written.
    goodbye: Option<Instant>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Task<T> {
    pub(super) fn new(shared: Arc<Shared>, transport: T) -> Self {
        let input = Input::new(shared.lock().conn.limits());
        Task {
            shared,
            transport,
            input,
            read_size: READ_SIZES.0,
            batch: Batch::new(),
            wakes: Vec::new(),
            written: 0,
            unflushed: false,
            write_error: None,
            timer: Timer::new(),
            goodbye: None,
        }
    }

    /// Writes what has gathered, as far as the transport takes it. Whether it took something.
    ///
    /// One batch at a time: while others keep publishing, reading gets its turn.
    fn write(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if self.write_error.is_some() || (self.batch.is_empty() && !self.next_batch(now)) {
            return false;
        }
        let mut progress = false;
        while !self.batch.is_empty() && self.write_error.is_none() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let used = self.batch.chunks_vectored(&mut slices);
            match Pin::new(&mut self.transport).poll_write_vectored(cx, &slices[..used]) {
                Poll::Ready(Ok(0)) => self.write_error = Some(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.batch.advance(count);
                    self.written += count as u64;
                    self.unflushed = true;
                    progress = true;
                }
                Poll::Ready(Err(error)) => self.write_error = Some(error),
                Poll::Pending => break,
            }
        }
        progress
    }

    fn flush(&mut self, cx: &mut Context<'_>) {
        if self.unflushed && self.write_error.is_none() {
            match Pin::new(&mut self.transport).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(error)) => self.write_error = Some(error),
                Poll::Pending => {}
            }
        }
    }

    fn next_batch(&mut self, now: Instant) -> bool {
        let batch = &mut self.batch;
        self.shared.with_task(&mut self.wakes, |state| {
            state.set_awake();
            state.conn.poll_transmit(now, batch)
        })
    }

    /// Reads once and handles what came. Whether something did.
    fn read(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        self.input.reserve(self.read_size);
        let buffer = self.input.buffer();
        let room = buffer.capacity() - buffer.len();
        let count = match pin!(self.transport.read_buf(buffer)).poll(cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(0)) => {
                self.transport_ended(CloseCause::EndOfStream);
                return true;
            }
            Poll::Ready(Ok(count)) => count,
            // TLS that ends without a farewell of its own. Whether something was cut off, AMQP's tells.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.transport_ended(CloseCause::EndOfStream);
                return true;
            }
            Poll::Ready(Err(error)) => {
                self.transport_ended(CloseCause::Io(IoError::from(error)));
                return true;
            }
        };
        if count == room {
            self.read_size = (self.read_size * 2).min(READ_SIZES.1);
        }
        let (shared, input, wakes) = (&self.shared, &mut self.input, &mut self.wakes);
        let mut handle_some =
            |state: &mut State| state.conn.handle_some_input(now, input, FRAMES_AT_ONCE);
        while shared.with_task(wakes, &mut handle_some) {}
        true
    }

    fn transport_ended(&mut self, cause: CloseCause) {
        let written = self.written;
        self.shared.with_task(&mut self.wakes, |state| {
            state.conn.handle_transport_end(written, cause);
        });
        self.write_error
            .get_or_insert_with(|| io::ErrorKind::NotConnected.into());
    }

    /// Writes the last bytes, ends the stream, and reads on until the peer has ended it too: closing a socket with
    /// unread bytes in it may take from the peer what it was sent last.
    fn poll_goodbye(&mut self, cx: &mut Context<'_>, now: Instant, until: Instant) -> Poll<()> {
        while self.write(cx, now) {}
        if self.write_error.is_some() {
            return Poll::Ready(());
        }
        if self.batch.is_empty()
            && let Poll::Ready(result) = Pin::new(&mut self.transport).poll_shutdown(cx)
            && (result.is_err() || self.poll_discard(cx).is_ready())
        {
            return Poll::Ready(());
        }
        self.timer.poll(cx, Some(until), now)
    }

    /// Reads and forgets until the peer has ended the stream.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS {
            let buffer = self.input.buffer();
            buffer.clear();
            buffer.reserve(self.read_size);
            match pin!(self.transport.read_buf(buffer)).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) => {}
            }
        }
        // There may always be more: others get their turn, and the clock is looked at.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One round of writing, reading and looking at the clock. `Ready` if it may be worth another one.
    fn poll_round(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        self.write(cx, now);
        self.flush(cx);
        let reading = self.read_some(cx, now);
        let read_all = !matches!(reading, Reading::GoesOn);
        if read_all && let Some(error) = self.write_error.take() {
            self.transport_ended(CloseCause::Io(IoError::from(error)));
            return Poll::Ready(());
        }
        let (batch, waker) = (&mut self.batch, cx.waker());
        let sleep_until = self.shared.with_task(&mut self.wakes, |state| {
            state.conn.stamp(now);
            // Time goes on while a peer has always more to send. After reading: what has come counts as heard.
            let timeout = state.conn.poll_timeout();
            if timeout.is_some_and(|at| at <= now) {
                state.conn.handle_timeout(now);
                return None;
            }
            let may_go_on = match reading {
                Reading::Waits => false,
                Reading::GoesOn => true,
                // A consumer was read since the last look, or the peer was.
                Reading::MayNot => state.may_read(),
            };
            // Something was put in since the last look, or all is over.
            let is_over = state.conn.closed().is_some();
            if may_go_on || is_over || (batch.is_empty() && state.conn.poll_transmit(now, batch)) {
                return None;
            }
            state.set_asleep(waker);
            Some(timeout)
        });
        match sleep_until {
            None => Poll::Ready(()),
            Some(deadline) => self.timer.poll(cx, deadline, now),
        }
    }

    /// Reads until nothing more comes, but not for ever: a read that may be the last costs no round of its own.
    fn read_some(&mut self, cx: &mut Context<'_>, now: Instant) -> Reading {
        for _ in 0..READS {
            if !self.shared.lock().may_read() {
                return Reading::MayNot;
            }
            if !self.read(cx, now) {
                return Reading::Waits;
            }
        }
        Reading::GoesOn
    }
}

/// How a round of reading ended.
enum Reading {
    /// The transport has no more, and wakes the task when it does.
    Waits,
    /// The transport may have more.
    GoesOn,
    /// Consumers have enough for now, or the peer reads too little of what we owe it.
    MayNot,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Future for Task<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let now = tokio::time::Instant::now().into_std();
        for _ in 0..ROUNDS {
            if this.goodbye.is_none() && this.shared.lock().conn.closed().is_some() {
                this.goodbye = Some(now + GOODBYE);
            }
            let round = match this.goodbye {
                Some(until) => return this.poll_goodbye(cx, now, until),
                None => this.poll_round(cx, now),
            };
            if round.is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// However the task ends, also with its runtime, nobody goes on waiting.
impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        let written = self.written;
        let closed = self.shared.with_task(&mut self.wakes, |state| {
            state
                .conn
                .handle_transport_end(written, CloseCause::Abandoned);
            state.conn.closed().cloned()
        });
        let abandoned = || Arc::new(Closed::by_transport(CloseCause::Abandoned));
        self.shared.end(closed.unwrap_or_else(abandoned));
    }
}

/// A timer that is set anew only when it would ring too late: deadlines mostly move away from now.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    armed: Option<Instant>,
}

impl Timer {
    fn new() -> Self {
        Timer {
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
        }
    }

    /// `Ready` when the deadline has come; it may be so a little early, never late.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>, now: Instant) -> Poll<()> {
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        if deadline <= now {
            return Poll::Ready(());
        }
        if self
            .armed
            .is_none_or(|armed| armed > deadline || armed <= now)
        {
            self.armed = Some(deadline);
            self.sleep.as_mut().reset(deadline.into());
        }
        match self.sleep.as_mut().poll(cx) {
            Poll::Ready(()) => {
                self.armed = None;
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
