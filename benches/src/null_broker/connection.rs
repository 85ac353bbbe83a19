//! One connection of the null broker: reads, looks at each frame as briefly as it can, answers with one write a read.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::deliver::{Delivery, Plan};
use super::flow::Flow;
use super::{Config, Counts};
use crate::wire::{self, Args, Frame, Malformed, PROTOCOL_HEADER, kind, method};

/// Room for two frames of the largest size, and small enough for a processor's cache.
const READ_BUFFER_LEN: usize = 2 * wire::FRAME_MAX;
/// How long a client is silent before it gets the acks that [`Config::ack_every`] held back.
const SILENCE: Duration = Duration::from_millis(2);

/// Serves until either side ends the connection.
pub(super) fn serve(stream: TcpStream, config: Config, counts: &Counts) {
    // The client learns of a failure by the end of its socket; there is nobody else to tell.
    let _ = Connection::new(stream, config).and_then(|mut connection| connection.run(counts));
}

struct Connection {
    input: TcpStream,
    /// Shared with the consumers' threads.
    output: Arc<Mutex<TcpStream>>,
    config: Config,
    /// What has to be written.
    replies: Vec<u8>,
    channels: Vec<Channel>,
    published: u64,
    closing: bool,
}

/// A channel; one that was never opened looks like any other.
#[derive(Default)]
struct Channel {
    content: Content,
    confirms: bool,
    published: u64,
    acked: u64,
    flow: Arc<Flow>,
    consumers: HashMap<Vec<u8>, JoinHandle<()>>,
    /// Consumers that were given a name; no name is given twice.
    named: u64,
}

/// What a channel has received of a publish.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Content {
    #[default]
    Nothing,
    Method,
    /// All but this many octets of the body.
    Header(u64),
}

impl Connection {
    fn new(stream: TcpStream, config: Config) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        Ok(Connection {
            input: stream.try_clone()?,
            output: Arc::new(Mutex::new(stream)),
            config,
            replies: Vec::with_capacity(wire::FRAME_MAX),
            channels: Vec::new(),
            published: 0,
            closing: false,
        })
    }

    fn run(&mut self, counts: &Counts) -> io::Result<()> {
        let mut header = [0; PROTOCOL_HEADER.len()];
        self.input.read_exact(&mut header)?;
        if header != PROTOCOL_HEADER {
            self.replies.extend(PROTOCOL_HEADER);
            return self.write_replies();
        }
        self.start();
        self.write_replies()?;

        let mut buffer = vec![0; READ_BUFFER_LEN];
        let mut filled = 0;
        while !self.closing {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => return Ok(()),
                Ok(read) => filled += read,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    self.ack_the_rest();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let taken = self.take_frames(&buffer[..filled]);
            if self.published > 0 {
                counts
                    .published
                    .fetch_add(self.published, Ordering::Release);
                self.published = 0;
            }
            buffer.copy_within(taken..filled, 0);
            filled -= taken;
            self.write_replies()?;
        }
        self.linger()
    }

    /// Reads what still comes: ending the socket on top of unread input would take our last words away.
    fn linger(&mut self) -> io::Result<()> {
        self.input.shutdown(Shutdown::Write)?;
        self.input.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut rest = [0; 4096];
        while self.input.read(&mut rest)? > 0 {}
        Ok(())
    }

    fn write_replies(&mut self) -> io::Result<()> {
        if !self.replies.is_empty() {
            let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
            output.write_all(&self.replies)?;
            self.replies.clear();
        }
        Ok(())
    }

    /// Handles all whole frames; says how many octets they were.
    fn take_frames(&mut self, input: &[u8]) -> usize {
        let mut taken = 0;
        while !self.closing {
            match wire::first_frame(&input[taken..]) {
                Ok(Some(frame)) => {
                    taken += frame.len();
                    if self.frame(frame).is_err() {
                        self.refuse(505, "UNEXPECTED_FRAME");
                    }
                }
                Ok(None) => break,
                Err(Malformed) => self.refuse(501, "FRAME_ERROR"),
            }
        }
        taken
    }

    #[inline]
    fn frame(&mut self, frame: Frame<'_>) -> Result<(), Malformed> {
        let number = frame.channel;
        if self.channels.len() <= number.into() {
            self.channels
                .resize_with(usize::from(number) + 1, Channel::default);
        }
        let channel = &mut self.channels[usize::from(number)];
        match (frame.kind, channel.content) {
            (kind::METHOD, Content::Nothing) => {
                let (id, args) = frame.method().ok_or(Malformed)?;
                if id == method::BASIC_PUBLISH {
                    channel.content = Content::Method;
                    return Ok(());
                }
                self.method(number, id, args)
            }
            (kind::HEADER, Content::Method) => {
                let size = frame
                    .payload
                    .get(4..12)
                    .and_then(|size| size.try_into().ok());
                channel.content = Content::Header(u64::from_be_bytes(size.ok_or(Malformed)?));
                self.complete(number);
                Ok(())
            }
            (kind::BODY, Content::Header(left)) => {
                let left = left
                    .checked_sub(frame.payload.len() as u64)
                    .ok_or(Malformed)?;
                channel.content = Content::Header(left);
                self.complete(number);
                Ok(())
            }
            (kind::HEARTBEAT, _) => {
                self.replies
                    .extend([kind::HEARTBEAT, 0, 0, 0, 0, 0, 0, wire::FRAME_END]);
                Ok(())
            }
            _ => Err(Malformed),
        }
    }

    /// Counts and acks a message whose last octet is here.
    #[inline]
    fn complete(&mut self, number: u16) {
        let channel = &mut self.channels[usize::from(number)];
        if channel.content != Content::Header(0) {
            return;
        }
        channel.content = Content::Nothing;
        self.published += 1;
        if !channel.confirms {
            return;
        }
        channel.published += 1;
        if self.config.hold_first && channel.published == 1 {
            return;
        }
        let multiple = self.config.ack_every > 1;
        if !multiple || channel.published - channel.acked == self.config.ack_every {
            channel.acked = channel.published;
            self.replies
                .extend_from_slice(&wire::ack(number, channel.published, multiple));
        }
    }

    fn ack_the_rest(&mut self) {
        for (number, channel) in (0..).zip(&mut self.channels) {
            if channel.acked < channel.published {
                channel.acked = channel.published;
                self.replies
                    .extend_from_slice(&wire::ack(number, channel.published, true));
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn method(&mut self, number: u16, id: u32, mut args: Args<'_>) -> Result<(), Malformed> {
        let channel = &mut self.channels[usize::from(number)];
        let replies = &mut self.replies;
        let mut reply = |id, args: &[u8]| {
            wire::put_method(replies, number, id, |out| out.extend_from_slice(args));
        };
        match id {
            method::BASIC_ACK | method::BASIC_NACK => {
                let tag = u64::from_be_bytes(args.take()?);
                let [bits] = args.take()?;
                channel.flow.settle(tag, bits & 1 != 0);
            }
            method::BASIC_REJECT => channel.flow.settle(u64::from_be_bytes(args.take()?), false),
            method::CONNECTION_START_OK => {
                // channel-max 2047, frame-max, heartbeat: none of our own.
                let frame_max = (wire::FRAME_MAX as u32).to_be_bytes();
                reply(
                    method::CONNECTION_TUNE,
                    &[&[0x07, 0xFF][..], &frame_max, &[0; 2]].concat(),
                );
            }
            method::CONNECTION_TUNE_OK => {}
            method::CONNECTION_OPEN => reply(method::CONNECTION_OPEN_OK, &[0]),
            method::CONNECTION_CLOSE => {
                reply(method::CONNECTION_CLOSE_OK, &[]);
                self.closing = true;
            }
            method::CONNECTION_CLOSE_OK => self.closing = true,
            method::CHANNEL_OPEN => reply(method::CHANNEL_OPEN_OK, &[0; 4]),
            method::CHANNEL_CLOSE => {
                channel.flow.close();
                *channel = Channel::default();
                reply(method::CHANNEL_CLOSE_OK, &[]);
            }
            method::CHANNEL_CLOSE_OK => {}
            method::CONFIRM_SELECT => {
                channel.confirms = true;
                if args.take()? == [0] {
                    reply(method::CONFIRM_SELECT_OK, &[]);
                }
                if self.config.ack_every > 1 {
                    self.input
                        .set_read_timeout(Some(SILENCE))
                        .map_err(|_| Malformed)?;
                }
            }
            method::BASIC_QOS => {
                let [_, _, _, _, count @ ..] = args.take::<6>()?;
                channel.flow.set_prefetch(u16::from_be_bytes(count));
                reply(method::BASIC_QOS_OK, &[]);
            }
            method::QUEUE_DECLARE => {
                args.take::<2>()?;
                let name = args.short()?;
                let [bits] = args.take()?;
                let messages = self.plan(name).count.min(u32::MAX.into()) as u32;
                if bits & 0x10 == 0 {
                    let name = if name.is_empty() {
                        b"amq.gen-null"
                    } else {
                        name
                    };
                    wire::put_method(&mut self.replies, number, method::QUEUE_DECLARE_OK, |out| {
                        wire::put_short(out, name);
                        out.extend(messages.to_be_bytes());
                        out.extend([0; 4]);
                    });
                }
            }
            method::QUEUE_BIND => reply(id + 1, &[]),
            method::EXCHANGE_DECLARE => reply(id + 1, &[]),
            method::BASIC_CONSUME => self.consume(number, args)?,
            method::BASIC_CANCEL => {
                let consumer_tag = args.short()?;
                if let Some(thread) = channel.consumers.remove(consumer_tag) {
                    channel.flow.stop(consumer_tag);
                    let _ = thread.join();
                    channel.flow.forget(consumer_tag);
                }
                if args.take()? == [0] {
                    wire::put_method(&mut self.replies, number, method::BASIC_CANCEL_OK, |out| {
                        wire::put_short(out, consumer_tag);
                    });
                }
            }
            _ => self.refuse(540, "NOT_IMPLEMENTED"),
        }
        Ok(())
    }

    fn consume(&mut self, number: u16, mut args: Args<'_>) -> Result<(), Malformed> {
        args.take::<2>()?;
        let plan = self.plan(args.short()?);
        let mut consumer_tag = args.short()?.to_vec();
        let [bits] = args.take()?;
        let channel = &mut self.channels[usize::from(number)];
        if consumer_tag.is_empty() {
            consumer_tag = format!("amq.ctag-null-{}", channel.named).into_bytes();
            channel.named += 1;
        }
        if bits & 0x08 == 0 {
            wire::put_method(&mut self.replies, number, method::BASIC_CONSUME_OK, |out| {
                wire::put_short(out, &consumer_tag);
            });
        }
        // Consume-ok goes before the first delivery.
        let _ = self.write_replies();
        let delivery = Delivery {
            channel: number,
            consumer_tag: consumer_tag.clone(),
            no_ack: bits & 0x02 != 0,
            plan,
        };
        let channel = &mut self.channels[usize::from(number)];
        let flow = Arc::clone(&channel.flow);
        let output = Arc::clone(&self.output);
        let thread = thread::spawn(move || delivery.run(&flow, &output));
        channel.consumers.insert(consumer_tag, thread);
        Ok(())
    }

    fn plan(&self, queue: &[u8]) -> Plan {
        Plan::from_queue_name(queue).unwrap_or(self.config.plan)
    }

    fn start(&mut self) {
        // The one capability that a client needs to know of before it confirms.
        let mut capabilities = Vec::new();
        for name in [
            &b"publisher_confirms"[..],
            b"basic.nack",
            b"consumer_cancel_notify",
        ] {
            wire::put_short(&mut capabilities, name);
            capabilities.extend(*b"t\x01");
        }
        let mut properties = Vec::new();
        wire::put_short(&mut properties, b"product");
        properties.push(b'S');
        wire::put_long(&mut properties, b"null broker");
        wire::put_short(&mut properties, b"capabilities");
        properties.push(b'F');
        wire::put_long(&mut properties, &capabilities);
        wire::put_method(&mut self.replies, 0, method::CONNECTION_START, |out| {
            out.extend([0, 9]);
            wire::put_long(out, &properties);
            wire::put_long(out, b"PLAIN AMQPLAIN EXTERNAL ANONYMOUS");
            wire::put_long(out, b"en_US");
        });
    }

    /// Closes the connection from this side.
    #[cold]
    fn refuse(&mut self, code: u16, text: &str) {
        wire::put_method(&mut self.replies, 0, method::CONNECTION_CLOSE, |out| {
            out.extend(code.to_be_bytes());
            wire::put_short(out, text.as_bytes());
            out.extend([0; 4]);
        });
        self.closing = true;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for channel in &self.channels {
            channel.flow.close();
        }
        // The consumers' threads hold the socket as well.
        let _ = self.input.shutdown(Shutdown::Both);
    }
}
