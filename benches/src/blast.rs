//! Publishes without looking: one block of publishes, encoded once and written over and over. It shows what the null
//! broker can take, as no client that does any work could.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Instant;

use crate::wire::{self, Frame, Malformed, kind, method};

const CHANNEL: u16 = 1;
/// Publishes in a block.
const BLOCK: u64 = 1_000;

/// Publishes about `count` confirmed messages of `size` octets; says how many were acked a second.
///
/// # Errors
/// When the broker ends the connection, or acks anything but what was published, in order.
pub fn publish(address: SocketAddr, count: u64, size: usize) -> io::Result<f64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(&opening())?;
    let blocks = count.div_ceil(BLOCK);
    let acks = stream.try_clone()?;
    let start = Instant::now();
    let reader = thread::spawn(move || {
        let read = await_acks(&acks, blocks * BLOCK);
        // The writer may be waiting for room.
        let _ = acks.shutdown(Shutdown::Both);
        read
    });

    let mut block = Vec::new();
    for number in 0..BLOCK {
        wire::put_publish(
            &mut block,
            CHANNEL,
            b"",
            format!("key.{number}").as_bytes(),
            &vec![b'x'; size],
        );
    }
    let written = (0..blocks).try_for_each(|_| stream.write_all(&block));
    let read = reader
        .join()
        .map_err(|_| io::Error::other("the reader failed"))?;
    read.and(written)?;
    Ok((blocks * BLOCK) as f64 / start.elapsed().as_secs_f64())
}

/// All that comes before the first publish, without waiting for an answer: the null broker does not mind.
fn opening() -> Vec<u8> {
    let mut out = wire::PROTOCOL_HEADER.to_vec();
    wire::put_method(&mut out, 0, method::CONNECTION_OPEN, |out| {
        out.extend([1, b'/', 0, 0])
    });
    wire::put_method(&mut out, CHANNEL, method::CHANNEL_OPEN, |out| out.push(0));
    wire::put_method(&mut out, CHANNEL, method::CONFIRM_SELECT, |out| out.push(0));
    out
}

fn await_acks(mut stream: &TcpStream, last: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut filled = 0;
    let mut acked = 0;
    while acked < last {
        let read = stream.read(&mut buffer[filled..])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        let mut taken = 0;
        while let Some(frame) = wire::first_frame(&buffer[taken..filled]).map_err(invalid)? {
            taken += frame.len();
            if let Some((tag, multiple)) = ack(frame) {
                if tag <= acked || (!multiple && tag != acked + 1) {
                    return Err(invalid(Malformed));
                }
                acked = tag;
            }
        }
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
    }
    Ok(())
}

/// The tag of an ack, and whether it is for all up to it.
fn ack(frame: Frame<'_>) -> Option<(u64, bool)> {
    match frame.method()? {
        (method::BASIC_ACK, mut args) if frame.kind == kind::METHOD => Some((
            u64::from_be_bytes(args.take().ok()?),
            args.take().ok()? != [0],
        )),
        _ => None,
    }
}

fn invalid(error: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
