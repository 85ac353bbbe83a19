//! By hand over a blocking socket, with hardly any checks: what the kernel and the broker leave to be had.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use bytes::Bytes;

use super::{Client, Failure, Options, Work, not_done};
use crate::wire::{self, Frame, method};
use crate::workload::{CONFIRM_TIMEOUT, Turns};

const CHANNEL: u16 = 1;
/// Octets that are gathered before they are written.
const BUFFER_LEN: usize = 64 << 10;
/// Bodies from this size on are written from where they are.
const LARGE: usize = 8 << 10;

/// A blocking connection with one channel in confirm mode.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    messages: Turns<(String, Bytes)>,
    window: u64,
    published: u64,
    acked: Acked,
    output: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
}

impl Client for Socket {
    async fn connect(options: &Options) -> Result<Self, Failure> {
        if options.futures || options.ca.is_some() || options.work == Work::Consume {
            return not_done("--futures, --ca, consume");
        }
        let stream = TcpStream::connect(options.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CONFIRM_TIMEOUT))?;
        let mut socket = Socket {
            stream,
            messages: Turns::of(options.messages(), |message| message),
            window: options.window as u64,
            published: 0,
            acked: Acked::default(),
            output: Vec::with_capacity(2 * BUFFER_LEN),
            input: vec![0; 2 * wire::FRAME_MAX],
            filled: 0,
        };
        socket.open(options.work != Work::Unconfirmed)?;
        Ok(socket)
    }

    async fn confirmed(&mut self, count: u64) -> Result<(), Failure> {
        let last = self.published + count;
        while self.acked.count < last {
            while self.published < last && self.published - self.acked.count < self.window {
                self.publish()?;
            }
            self.flush()?;
            self.read_acks()?;
        }
        Ok(())
    }

    async fn unconfirmed(&mut self, count: u64) -> Result<(), Failure> {
        for _ in 0..count {
            self.publish()?;
        }
        wire::put_method(&mut self.output, CHANNEL, method::BASIC_QOS, |out| {
            out.extend([0; 7]);
        });
        self.flush()?;
        self.await_method(method::BASIC_QOS_OK)
    }

    async fn consume(&mut self, _: u64) -> Result<(), Failure> {
        not_done("consume")
    }

    async fn close(mut self) -> Result<(), Failure> {
        wire::put_method(&mut self.output, 0, method::CONNECTION_CLOSE, |out| {
            out.extend([0, 200, 0, 0, 0, 0, 0]);
        });
        self.flush()?;
        self.await_method(method::CONNECTION_CLOSE_OK)
    }
}

impl Socket {
    fn open(&mut self, confirms: bool) -> Result<(), Failure> {
        self.output.extend(wire::PROTOCOL_HEADER);
        self.flush()?;
        self.await_method(method::CONNECTION_START)?;
        wire::put_method(&mut self.output, 0, method::CONNECTION_START_OK, |out| {
            out.extend([0; 4]);
            wire::put_short(out, b"PLAIN");
            wire::put_long(out, b"\0guest\0guest");
            wire::put_short(out, b"en_US");
        });
        self.flush()?;
        self.await_method(method::CONNECTION_TUNE)?;
        wire::put_method(&mut self.output, 0, method::CONNECTION_TUNE_OK, |out| {
            out.extend([0x07, 0xFF]);
            out.extend((wire::FRAME_MAX as u32).to_be_bytes());
            out.extend([0, 0]);
        });
        wire::put_method(&mut self.output, 0, method::CONNECTION_OPEN, |out| {
            out.extend([1, b'/', 0, 0]);
        });
        wire::put_method(&mut self.output, CHANNEL, method::CHANNEL_OPEN, |out| {
            out.push(0);
        });
        self.flush()?;
        self.await_method(method::CHANNEL_OPEN_OK)?;
        if confirms {
            wire::put_method(&mut self.output, CHANNEL, method::CONFIRM_SELECT, |out| {
                out.push(0);
            });
            self.flush()?;
            self.await_method(method::CONFIRM_SELECT_OK)?;
        }
        Ok(())
    }

    fn publish(&mut self) -> io::Result<()> {
        let (key, body) = self.messages.next();
        let key = key.as_bytes();
        self.published += 1;
        if body.len() < LARGE {
            wire::put_publish(&mut self.output, CHANNEL, b"", key, body);
            if self.output.len() < BUFFER_LEN {
                return Ok(());
            }
            return self.flush();
        }
        wire::put_publish_front(&mut self.output, CHANNEL, b"", key, body.len());
        let mut parts = Vec::new();
        let fronts: Vec<_> = wire::body_fronts(CHANNEL, body).collect();
        parts.push(IoSlice::new(&self.output));
        for (front, chunk) in &fronts {
            parts.push(IoSlice::new(front));
            parts.push(IoSlice::new(chunk));
            parts.push(IoSlice::new(&[wire::FRAME_END]));
        }
        write_all_vectored(&mut self.stream, &mut parts)?;
        self.output.clear();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Reads once, and takes the acks that came.
    fn read_acks(&mut self) -> Result<(), Failure> {
        let acked = &mut self.acked;
        read_frames(
            &mut self.stream,
            &mut self.input,
            &mut self.filled,
            |frame| match frame.method() {
                Some((method::BASIC_ACK, mut args)) => {
                    let tag = u64::from_be_bytes(args.take()?);
                    acked.settle(tag, args.take()? != [0]);
                    Ok(())
                }
                other => Err(format!("not an ack: {other:?}").into()),
            },
        )
    }

    fn await_method(&mut self, expected: u32) -> Result<(), Failure> {
        let mut found = false;
        while !found {
            read_frames(
                &mut self.stream,
                &mut self.input,
                &mut self.filled,
                |frame| {
                    found |= frame.method().is_some_and(|(id, _)| id == expected);
                    match frame.method() {
                        Some((method::CONNECTION_CLOSE | method::CHANNEL_CLOSE, args)) => {
                            Err(format!("closed: {}", String::from_utf8_lossy(args.0)).into())
                        }
                        _ => Ok(()),
                    }
                },
            )?;
        }
        Ok(())
    }
}

/// Reads once, and hands on each whole frame.
fn read_frames(
    stream: &mut TcpStream,
    input: &mut [u8],
    filled: &mut usize,
    mut take: impl FnMut(Frame<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match stream.read(&mut input[*filled..])? {
        0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        read => *filled += read,
    }
    let mut taken = 0;
    while let Some(frame) = wire::first_frame(&input[taken..*filled])? {
        taken += frame.len();
        take(frame)?;
    }
    input.copy_within(taken..*filled, 0);
    *filled -= taken;
    Ok(())
}

fn write_all_vectored(stream: &mut TcpStream, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !parts.is_empty() {
        match stream.write_vectored(parts)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut parts, written),
        }
    }
    Ok(())
}

/// Counts acks; which of them came out of order does not matter here, as long as all come.
#[derive(Debug, Default)]
struct Acked {
    count: u64,
    /// All up to this tag are settled by an ack for many.
    up_to: u64,
    /// Acks of single tags above that.
    beyond: std::collections::BTreeSet<u64>,
}

impl Acked {
    fn settle(&mut self, tag: u64, multiple: bool) {
        if !multiple && tag != self.up_to + 1 {
            self.beyond.insert(tag);
        } else {
            self.up_to = self.up_to.max(tag);
            if !self.beyond.is_empty() {
                self.beyond = self.beyond.split_off(&(self.up_to + 1));
                while self.beyond.remove(&(self.up_to + 1)) {
                    self.up_to += 1;
                }
            }
        }
        self.count = self.up_to + self.beyond.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::Acked;

    #[test]
    fn acks_count_once_in_whichever_order() {
        let mut acked = Acked::default();
        for (tag, multiple, count) in [
            (1, false, 1),
            (4, false, 2),
            (3, true, 4),
            (4, true, 4),
            (7, false, 5),
            (6, false, 6),
            (5, false, 7),
        ] {
            acked.settle(tag, multiple);
            assert_eq!(acked.count, count, "{tag}");
        }
    }
}
