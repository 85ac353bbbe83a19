#![expect(
    clippy::arithmetic_side_effects,
    reason = "lengths of what the caller holds in memory are added up, and taken apart again"
)]

use alloc::vec::Vec;
use core::slice::Chunks;

use bytes::BufMut;

use super::header::{FIXED, fixed_bytes};
use crate::basic::Properties;
use crate::frame::{self, FRAME_END, FRAME_OVERHEAD, HEADER, METHOD, PREFIX};
use crate::{EncodeError, MethodFields, MethodId, ShortStr};

/// How many bytes [`encode`] writes.
pub fn encoded_len(
    method: &impl MethodFields,
    properties: &Properties<'_>,
    body_len: usize,
    frame_max: u32,
) -> usize {
    Sizes::of(method, properties, body_len, frame_max).total()
}

/// Writes a method, its content header and as many body frames as `frame_max` calls for; none for an empty body. That
/// the method is one with content is checked while compiling.
///
/// # Errors
/// The method or header frame is above `frame_max`, or `buf` has no room: nothing is written. Something in the method
/// or the properties does not fit its length: a part may be written.
pub fn encode<M: MethodFields>(
    channel: u16,
    method: &M,
    properties: &Properties<'_>,
    body: &[u8],
    frame_max: u32,
    buf: &mut impl BufMut,
) -> Result<(), EncodeError> {
    const { assert!(M::ID.carries_content(), "this method carries no content") };
    let sizes = Sizes::of(method, properties, body.len(), frame_max);
    let size = sizes.method.max(sizes.header);
    if size > frame_max as usize {
        return Err(EncodeError::FrameTooLarge {
            size: size as u64,
            frame_max,
        });
    }
    let (needed, room) = (sizes.total(), buf.remaining_mut());
    if needed > room {
        return Err(EncodeError::NoRoom { needed, room });
    }

    frame::put_method(channel, method, sizes.method - FRAME_OVERHEAD, buf)?;
    let header_len = sizes.header - FRAME_OVERHEAD;
    buf.put_slice(&header_start(M::ID, channel, header_len, body.len() as u64));
    properties.encode(buf)?;
    for chunk in body_chunks(body, frame_max) {
        let mut prefix = [FRAME_END; 1 + PREFIX];
        #[expect(clippy::cast_possible_truncation, reason = "a chunk fits frame_max")]
        let len = chunk.len() as u32;
        prefix[1..].copy_from_slice(&frame::body_frame_prefix(channel, len));
        buf.put_slice(&prefix);
        buf.put_slice(chunk);
    }
    buf.put_u8(FRAME_END);
    Ok(())
}

/// Writes the method and the content header alone, for a body that the caller puts on the wire itself, from where it is,
/// in frames that begin with [`frame::body_frame_prefix`]. The frames' sizes are the caller's to check.
///
/// # Errors
/// `buf` has no room: nothing is written. Something in the method or the properties does not fit its length: a part may
/// be written.
pub fn encode_head<M: MethodFields>(
    channel: u16,
    method: &M,
    properties: &Properties<'_>,
    body_len: u64,
    buf: &mut impl BufMut,
) -> Result<(), EncodeError> {
    const { assert!(M::ID.carries_content(), "this method carries no content") };
    let method_len = 4 + method.fields_len();
    let header_len = FIXED + properties.encoded_len();
    let (needed, room) = (
        method_len + header_len + 2 * FRAME_OVERHEAD,
        buf.remaining_mut(),
    );
    if needed > room {
        return Err(EncodeError::NoRoom { needed, room });
    }
    frame::put_method(channel, method, method_len, buf)?;
    buf.put_slice(&header_start(M::ID, channel, header_len, body_len));
    properties.encode(buf)?;
    buf.put_u8(FRAME_END);
    Ok(())
}

/// [`encode`] for what is sent most: a publish without properties, whose body fits one frame. Written out in as few
/// pieces as there are. The frames' sizes are the caller's to check.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "short strings have 255 bytes at most, and the frames' sizes are the caller's to check"
)]
pub fn encode_publish(
    channel: u16,
    exchange: &ShortStr<'_>,
    routing_key: &ShortStr<'_>,
    mandatory: bool,
    body: &[u8],
    buf: &mut Vec<u8>,
) {
    let (exchange, routing_key) = (exchange.as_bytes(), routing_key.as_bytes());
    // Ids, a reserved field, two strings with their lengths, the bits.
    let method_len = 4 + 2 + (1 + exchange.len()) + (1 + routing_key.len()) + 1;
    let mut start = [0; PREFIX + 7];
    start[..PREFIX].copy_from_slice(&frame::prefix_bytes(METHOD, channel, method_len as u32));
    let MethodId { class, method } = MethodId::BASIC_PUBLISH;
    start[PREFIX..PREFIX + 2].copy_from_slice(&class.to_be_bytes());
    start[PREFIX + 2..PREFIX + 4].copy_from_slice(&method.to_be_bytes());
    start[PREFIX + 6] = exchange.len() as u8;
    buf.extend_from_slice(&start);
    buf.extend_from_slice(exchange);
    buf.push(routing_key.len() as u8);
    buf.extend_from_slice(routing_key);

    // From the method's bits to the first byte of the body.
    let mut middle = [FRAME_END; HEADER_END + PREFIX];
    middle[0] = u8::from(mandatory);
    middle[1..1 + HEADER_START].copy_from_slice(&header_start(
        MethodId::BASIC_PUBLISH,
        channel,
        FIXED + NO_PROPERTIES.len(),
        body.len() as u64,
    ));
    middle[1 + HEADER_START..HEADER_END - 1].copy_from_slice(&NO_PROPERTIES);
    if body.is_empty() {
        buf.extend_from_slice(&middle[..HEADER_END]);
        return;
    }
    middle[HEADER_END..].copy_from_slice(&frame::body_frame_prefix(channel, body.len() as u32));
    buf.extend_from_slice(&middle);
    buf.extend_from_slice(body);
    buf.push(FRAME_END);
}

/// A property list without properties: its flags.
const NO_PROPERTIES: [u8; 2] = [0; 2];
/// The method's bits, and all of the header frame behind them.
const HEADER_END: usize = 1 + HEADER_START + NO_PROPERTIES.len() + 1;
const HEADER_START: usize = 1 + PREFIX + FIXED;

/// The end of the method's frame and the start of the header's, up to the properties, for one write: a growing buffer
/// checks its capacity at each.
#[inline]
fn header_start(
    method: MethodId,
    channel: u16,
    header_len: usize,
    body_len: u64,
) -> [u8; HEADER_START] {
    let mut start = [FRAME_END; HEADER_START];
    let (prefix, fixed) = start[1..].split_at_mut(PREFIX);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the frame's size is the caller's to check"
    )]
    let header_len = header_len as u32;
    prefix.copy_from_slice(&frame::prefix_bytes(HEADER, channel, header_len));
    fixed.copy_from_slice(&fixed_bytes(method.class, body_len));
    start
}

/// The frames of a content in bytes.
struct Sizes {
    method: usize,
    header: usize,
    bodies: usize,
}

impl Sizes {
    fn of(
        method: &impl MethodFields,
        properties: &Properties<'_>,
        body_len: usize,
        frame_max: u32,
    ) -> Self {
        let chunk_len = chunk_len(frame_max);
        let bodies = match body_len {
            0 => 0,
            // Spares the usual small body the division.
            _ if body_len <= chunk_len => 1,
            _ => body_len.div_ceil(chunk_len),
        };
        Self {
            method: frame::method_frame_len(method),
            header: FIXED + properties.encoded_len() + FRAME_OVERHEAD,
            bodies: bodies
                .saturating_mul(FRAME_OVERHEAD)
                .saturating_add(body_len),
        }
    }

    fn total(&self) -> usize {
        self.bodies.saturating_add(self.method + self.header)
    }
}

/// The body in pieces that fit a body frame each; none for an empty body. A `frame_max` without room for a single byte,
/// which no peer may ask for, gives pieces of one byte.
pub fn body_chunks(body: &[u8], frame_max: u32) -> Chunks<'_, u8> {
    body.chunks(chunk_len(frame_max))
}

fn chunk_len(frame_max: u32) -> usize {
    (frame_max as usize).saturating_sub(FRAME_OVERHEAD).max(1)
}
