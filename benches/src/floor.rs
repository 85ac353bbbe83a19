//! The least a publisher with confirms can do: what a client's cost is compared with.
//!
//! Publishes are encoded into one outgoing buffer under a lock; one task swaps the buffer out, writes it whole and reads
//! acks; a confirm is a future that compares its tag with the highest tag acked. It knows no outcome but Acked, holds on
//! to no message, has one channel, and takes acks for in order, which only the null broker promises. It is not a client.

use std::error::Error;
use std::fmt;
use std::future::{self, Future};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{self, Instant, Interval};

use crate::wire::{self, Args, Frame, Malformed, kind, method};
use crate::workload::CONFIRM_TIMEOUT;

const CHANNEL: u16 = 1;
/// Octets read at once.
const READ_BUFFER_LEN: usize = 64 << 10;
/// Most octets that wait to be written; publishes wait for room then.
const OUTGOING_MAX: usize = 1 << 20;

/// A connection with one channel in confirm mode.
#[derive(Debug)]
pub struct Floor {
    shared: Arc<Shared>,
    window: u64,
}

/// Why there is no ack, and will be none for any publish after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was lost, or no ack came in time")
    }
}

impl Error for Lost {}

impl Floor {
    /// Connects and selects confirms, with at most `window` publishes in flight. The connection is a task of the
    /// current runtime, and ends with its last handle.
    ///
    /// # Errors
    /// When the broker is not there or answers otherwise than expected.
    pub async fn connect(address: SocketAddr, window: usize) -> io::Result<Floor> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        handshake(&mut stream).await?;
        let shared = Arc::new(Shared::default());
        let ticks = time::interval_at(Instant::now() + CONFIRM_TIMEOUT / 2, CONFIRM_TIMEOUT / 2);
        let driver = Driver {
            stream,
            shared: Arc::clone(&shared),
            input: vec![0; READ_BUFFER_LEN],
            filled: 0,
            output: Vec::new(),
            written: 0,
            ticks,
            acked_at_tick: 0,
        };
        tokio::spawn(driver.run());
        Ok(Floor {
            shared,
            window: window as u64,
        })
    }

    /// Waits for room, then puts the message into the outgoing buffer.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn publish(&self, exchange: &str, key: &str, body: &[u8]) -> Result<Confirm, Lost> {
        future::poll_fn(|context| {
            let mut state = self.shared.lock();
            if state.lost {
                return Poll::Ready(Err(Lost));
            }
            if state.published - state.acked >= self.window || state.output.len() >= OUTGOING_MAX {
                state.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            wire::put_publish(
                &mut state.output,
                CHANNEL,
                exchange.as_bytes(),
                key.as_bytes(),
                body,
            );
            state.published += 1;
            let tag = state.published;
            let driver = state.driver.take();
            drop(state);
            driver.inspect(Waker::wake_by_ref);
            Poll::Ready(Ok(Confirm {
                shared: Arc::clone(&self.shared),
                tag,
            }))
        })
        .await
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.shared.lose();
    }
}

/// Settles when its publish is acked.
#[derive(Debug)]
#[must_use]
pub struct Confirm {
    shared: Arc<Shared>,
    tag: u64,
}

impl Future for Confirm {
    type Output = Result<(), Lost>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.lock();
        if state.acked >= self.tag {
            Poll::Ready(Ok(()))
        } else if state.lost {
            Poll::Ready(Err(Lost))
        } else {
            state.waiting.push(context.waker().clone());
            Poll::Pending
        }
    }
}

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    output: Vec<u8>,
    published: u64,
    acked: u64,
    lost: bool,
    /// Those who wait for an ack or for room.
    waiting: Vec<Waker>,
    /// Set while the driver has nothing to write.
    driver: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self) {
        let mut state = self.lock();
        state.lost = true;
        let waiting = std::mem::take(&mut state.waiting);
        let driver = state.driver.take();
        drop(state);
        waiting.into_iter().chain(driver).for_each(Waker::wake);
    }
}

struct Driver {
    stream: TcpStream,
    shared: Arc<Shared>,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
    ticks: Interval,
    acked_at_tick: u64,
}

impl Driver {
    async fn run(mut self) {
        // Whatever ended it, those who wait learn that no ack will come.
        let _: io::Result<()> = future::poll_fn(|context| self.turn(context)).await;
        self.shared.lose();
    }

    /// Reads once and writes once, or more often while the socket would take or give more.
    fn turn(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.ticks.poll_tick(context).is_ready() {
            self.check_time()?;
        }
        let read = self.read(context);
        if let Poll::Ready(Err(error)) = read {
            return Poll::Ready(Err(error));
        }
        while self.take_output(context)? {
            let stream = Pin::new(&mut self.stream);
            match stream.poll_write(context, &self.output[self.written..]) {
                Poll::Ready(written) => self.written += written?,
                Poll::Pending => break,
            }
        }
        if read.is_ready() {
            // Others first: they have been woken, and what they publish goes out in one piece.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = ReadBuf::new(&mut self.input[self.filled..]);
        ready!(pin!(&mut self.stream).poll_read(context, &mut buffer))?;
        let read = buffer.filled().len();
        if read == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.filled += read;
        let mut acked = 0;
        let mut taken = 0;
        while let Some(frame) =
            wire::first_frame(&self.input[taken..self.filled]).map_err(invalid)?
        {
            taken += frame.len();
            acked = acked.max(ack(frame).map_err(invalid)?);
        }
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;

        let mut state = self.shared.lock();
        if acked > state.published {
            return Poll::Ready(Err(invalid(Malformed)));
        }
        state.acked = state.acked.max(acked);
        state.waiting.drain(..).for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    /// Whether there is something to write. If not, the driver sleeps until there is.
    fn take_output(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if self.written < self.output.len() {
            return Ok(true);
        }
        self.output.clear();
        self.written = 0;
        let mut state = self.shared.lock();
        if state.lost {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if state.output.is_empty() {
            state.driver = Some(context.waker().clone());
            return Ok(false);
        }
        if state.output.len() >= OUTGOING_MAX {
            state.waiting.drain(..).for_each(Waker::wake);
        }
        std::mem::swap(&mut self.output, &mut state.output);
        Ok(true)
    }

    fn check_time(&mut self) -> io::Result<()> {
        let state = self.shared.lock();
        if state.acked == self.acked_at_tick && state.acked < state.published {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.acked_at_tick = state.acked;
        Ok(())
    }
}

/// The tag that an ack frame settles.
fn ack(frame: Frame<'_>) -> Result<u64, Malformed> {
    match frame.method() {
        Some((method::BASIC_ACK, mut args)) if frame.kind == kind::METHOD => {
            Ok(u64::from_be_bytes(args.take()?))
        }
        _ => Err(Malformed),
    }
}

async fn handshake(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&wire::PROTOCOL_HEADER).await?;
    expect(stream, method::CONNECTION_START).await?;
    let mut out = Vec::new();
    wire::put_method(&mut out, 0, method::CONNECTION_START_OK, |out| {
        wire::put_long(out, b"");
        wire::put_short(out, b"PLAIN");
        wire::put_long(out, b"\0guest\0guest");
        wire::put_short(out, b"en_US");
    });
    stream.write_all(&out).await?;
    expect(stream, method::CONNECTION_TUNE).await?;
    out.clear();
    wire::put_method(&mut out, 0, method::CONNECTION_TUNE_OK, |out| {
        out.extend(2047u16.to_be_bytes());
        out.extend((wire::FRAME_MAX as u32).to_be_bytes());
        out.extend([0; 2]);
    });
    wire::put_method(&mut out, 0, method::CONNECTION_OPEN, |out| {
        wire::put_short(out, b"/");
        out.extend([0; 2]);
    });
    stream.write_all(&out).await?;
    expect(stream, method::CONNECTION_OPEN_OK).await?;
    out.clear();
    wire::put_method(&mut out, CHANNEL, method::CHANNEL_OPEN, |out| out.push(0));
    stream.write_all(&out).await?;
    expect(stream, method::CHANNEL_OPEN_OK).await?;
    out.clear();
    wire::put_method(&mut out, CHANNEL, method::CONFIRM_SELECT, |out| out.push(0));
    stream.write_all(&out).await?;
    expect(stream, method::CONFIRM_SELECT_OK).await
}

/// Reads one frame, which is to be this method's.
async fn expect(stream: &mut TcpStream, id: u32) -> io::Result<()> {
    let receive = async {
        let mut frame = vec![0; wire::FRAME_HEADER_LEN];
        stream.read_exact(&mut frame).await?;
        let size = Args(&frame[3..])
            .take()
            .map(u32::from_be_bytes)
            .map_err(invalid)?;
        let len = frame.len() + (size as usize).min(wire::FRAME_MAX) + 1;
        frame.resize(len, 0);
        stream
            .read_exact(&mut frame[wire::FRAME_HEADER_LEN..])
            .await?;
        let received = wire::first_frame(&frame).map_err(invalid)?;
        match received.and_then(|frame| frame.method()) {
            Some((received, _)) if received == id => Ok(()),
            _ => Err(invalid(Malformed)),
        }
    };
    time::timeout(Duration::from_secs(10), receive).await?
}

fn invalid(error: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
