//! From the bytes of the transport to frames, before the state machine sees them.

use amqp_codec::frame::FRAME_MIN_SIZE;
use amqp_codec::{DecodeError, Limits, Method, ProtocolHeader, RawFrame, frame};
use bytes::{Buf, Bytes, BytesMut};

/// How many frames are decoded before they are handled.
const FRAMES_AT_ONCE: usize = 128;
/// From this size on, a frame's payload is shared with what is made of it instead of being copied.
const SHARE_FROM: usize = 8 * 1024;

/// Where a frame's payload begins in it.
const PAYLOAD_OFFSET: u64 = 7;

/// Bytes from the peer that were not handled yet.
///
/// Decoding is kept apart from [`Connection`](super::Connection), so that it can be done without a lock
/// on the state.
#[derive(Debug)]
pub struct Input {
    buffer: BytesMut,
    limits: Limits,
    /// Nothing was decoded yet: instead of a frame, the peer's protocol header may come.
    first: bool,
    /// Bytes before the buffer, for the offsets in errors.
    consumed: u64,
    failed: bool,
}

/// A frame, taken apart as far as it can be without knowing its channel: the properties in a header are
/// not, which keeps it small.
#[derive(Debug)]
pub enum InputFrame<'a> {
    /// A method.
    Method {
        /// The channel; 0 for the connection.
        channel: u16,
        /// The method.
        method: Method<'a>,
    },
    /// A content header.
    Header {
        /// The channel.
        channel: u16,
        /// Class, weight, body size and properties.
        payload: &'a [u8],
        /// Where the payload is, counted from the first byte of the connection.
        offset: u64,
    },
    /// A piece of a body.
    Body {
        /// The channel.
        channel: u16,
        /// The piece.
        payload: &'a [u8],
    },
    /// A sign of life.
    Heartbeat,
}

impl InputFrame<'_> {
    /// The channel, 0 for a heartbeat.
    pub fn channel(&self) -> u16 {
        match self {
            InputFrame::Method { channel, .. }
            | InputFrame::Header { channel, .. }
            | InputFrame::Body { channel, .. } => *channel,
            InputFrame::Heartbeat => 0,
        }
    }
}

/// Why the bytes from the peer are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The peer speaks another protocol, and says which.
    #[error("the peer answered with the header of another protocol")]
    Protocol(ProtocolHeader),
    /// The peer speaks TLS: its first bytes are those of an alert.
    #[error("the peer answered in TLS")]
    Tls,
    /// They are not AMQP. The offset counts from the first byte of the connection.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl Input {
    /// Nothing received yet. Frame sizes are bound by the protocol's minimum, or what `limits` allow to
    /// methods and headers, until [`set_frame_max`](Self::set_frame_max).
    pub fn new(limits: Limits) -> Self {
        let limits = Limits {
            frame_max: FRAME_MIN_SIZE,
            ..limits
        };
        Input {
            buffer: BytesMut::new(),
            limits,
            first: true,
            consumed: 0,
            failed: false,
        }
    }

    /// The negotiated size of frames.
    pub fn set_frame_max(&mut self, frame_max: u32) {
        self.limits.frame_max = frame_max;
    }

    /// Where the transport adds what it receives.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// How many bytes of a large frame are still missing, as a hint for how much to make room for; at
    /// most `limit`, so that nothing is reserved on the peer's word alone.
    pub fn wants(&self, limit: usize) -> usize {
        amqp_codec::frame::needed(&self.buffer).min(limit)
    }

    /// Decodes what whole frames there are and hands them over, some at a time, with the bytes they share
    /// if they are large. Hands over none where there is no whole one: a part of one is a sign of life too.
    ///
    /// # Errors
    /// The first fault; the frames before it have been handled. After it, nothing that the peer sends is
    /// decoded any more.
    pub fn decode(
        &mut self,
        mut handle: impl FnMut(&mut dyn Iterator<Item = InputFrame<'_>>, Option<&Bytes>),
    ) -> Result<(), InputError> {
        if self.failed {
            self.buffer.clear();
            return Ok(());
        }
        let result = self.decode_frames(&mut handle);
        self.failed = result.is_err();
        result
    }

    fn decode_frames(
        &mut self,
        handle: &mut impl FnMut(&mut dyn Iterator<Item = InputFrame<'_>>, Option<&Bytes>),
    ) -> Result<(), InputError> {
        if self.first && ProtocolHeader::is_prefix(&self.buffer) {
            return match ProtocolHeader::parse(&self.buffer) {
                Some(header) => Err(InputError::Protocol(header)),
                None => Ok(()),
            };
        }
        // What a server that expects TLS says to a protocol header: an alert of TLS 1.x.
        match (self.first, &self.buffer[..]) {
            (true, [21, 3, ..]) => return Err(InputError::Tls),
            (true, [21]) => return Ok(()),
            _ => {}
        }
        self.first = false;
        loop {
            let run = Run::scan(&self.buffer, &self.limits);
            if run.len > 0 {
                let shared = run.large.then(|| self.buffer.split_to(run.len).freeze());
                let bytes = match &shared {
                    Some(shared) => &shared[..],
                    None => &self.buffer[..run.len],
                };
                let result = decode_run(bytes, self.consumed, run.frames, &self.limits, |frames| {
                    handle(frames, shared.as_ref());
                });
                if shared.is_none() {
                    self.buffer.advance(run.len);
                }
                self.consumed += run.len as u64;
                result?;
            } else {
                handle(&mut std::iter::empty(), None);
            }
            if let Some(fault) = run.fault {
                return Err(fault.shifted(self.consumed).into());
            }
            if run.frames < FRAMES_AT_ONCE {
                return Ok(());
            }
        }
    }
}

/// Whole frames at the front of the buffer.
struct Run {
    len: usize,
    frames: usize,
    large: bool,
    /// What is wrong with the frame after them.
    fault: Option<DecodeError>,
}

impl Run {
    fn scan(bytes: &[u8], limits: &Limits) -> Self {
        let mut run = Run {
            len: 0,
            frames: 0,
            large: false,
            fault: None,
        };
        while run.frames < FRAMES_AT_ONCE {
            match RawFrame::parse(&bytes[run.len..], limits) {
                Ok(Some((frame, len))) => {
                    run.len += len;
                    run.frames += 1;
                    run.large |= frame.payload.len() > SHARE_FROM;
                }
                Ok(None) => break,
                Err(fault) => {
                    run.fault = Some(fault);
                    break;
                }
            }
        }
        run
    }
}

/// Decodes a run of whole frames, which begins at offset `base`, and hands over those before the first fault.
fn decode_run(
    bytes: &[u8],
    base: u64,
    count: usize,
    limits: &Limits,
    handle: impl FnOnce(&mut dyn Iterator<Item = InputFrame<'_>>),
) -> Result<(), DecodeError> {
    let mut frames = Vec::with_capacity(count);
    let mut at = 0;
    let mut result = Ok(());
    while let Ok(Some((raw, len))) = RawFrame::parse(&bytes[at..], limits) {
        let offset = base + at as u64;
        match decode_frame(raw, offset, limits) {
            Ok(frame) => frames.push(frame),
            Err(fault) => {
                result = Err(fault);
                break;
            }
        }
        at += len;
    }
    handle(&mut frames.into_iter());
    result
}

fn decode_frame<'a>(
    raw: RawFrame<'a>,
    offset: u64,
    limits: &Limits,
) -> Result<InputFrame<'a>, DecodeError> {
    let RawFrame { kind, channel, payload } = raw;
    let payload_offset = offset + PAYLOAD_OFFSET;
    match kind {
        frame::METHOD => match Method::decode(payload, limits) {
            Ok(method) => Ok(InputFrame::Method { channel, method }),
            Err(fault) => Err(fault.shifted(payload_offset)),
        },
        frame::HEADER => Ok(InputFrame::Header { channel, payload, offset: payload_offset }),
        frame::BODY => Ok(InputFrame::Body { channel, payload }),
        // What is left is a heartbeat, or an error.
        _ => match raw.decode(limits) {
            Ok(_) => Ok(InputFrame::Heartbeat),
            Err(fault) => Err(fault.shifted(offset)),
        },
    }
}
