use core::slice::Chunks;

use bytes::BufMut;

use super::header::{FIXED, fixed_bytes};
use crate::basic::Properties;
use crate::frame::{self, FRAME_END, FRAME_OVERHEAD};
use crate::{EncodeError, MethodFields};

/// How many bytes [`encode`] writes.
pub fn encoded_len(
    method: &impl MethodFields,
    properties: &Properties<'_>,
    body_len: usize,
    frame_max: u32,
) -> usize {
    let bodies = body_len.div_ceil(chunk_len(frame_max));
    frame::method_frame_len(method)
        + header_frame_len(properties)
        + bodies
            .saturating_mul(FRAME_OVERHEAD)
            .saturating_add(body_len)
}

/// Writes a method, its content header and as many body frames as `frame_max` calls for; none for an empty body.
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
    let header_len = header_frame_len(properties);
    for size in [frame::method_frame_len(method), header_len] {
        if size > frame_max as usize {
            return Err(EncodeError::FrameTooLarge {
                size: size as u64,
                frame_max,
            });
        }
    }
    let needed = encoded_len(method, properties, body.len(), frame_max);
    let room = buf.remaining_mut();
    if needed > room {
        return Err(EncodeError::NoRoom { needed, room });
    }

    encode_head(channel, method, properties, body.len() as u64, buf)?;
    for chunk in body_chunks(body, frame_max) {
        buf.put_slice(&frame::body_frame_prefix(channel, chunk.len() as u32));
        buf.put_slice(chunk);
        buf.put_u8(FRAME_END);
    }
    Ok(())
}

/// Writes the method and the content header alone, for a body that the caller puts on the wire itself, from where it is,
/// in frames that begin with [`frame::body_frame_prefix`]. The frames' sizes are the caller's to check.
///
/// # Errors
/// Something in the method or the properties does not fit its length, or `buf` has no room: a part may be written.
pub fn encode_head<M: MethodFields>(
    channel: u16,
    method: &M,
    properties: &Properties<'_>,
    body_len: u64,
    buf: &mut impl BufMut,
) -> Result<(), EncodeError> {
    frame::encode_method(channel, method, buf)?;
    let prefix = frame::prefix(
        frame::HEADER,
        channel,
        FIXED + properties.encoded_len(),
        buf,
    )?;
    buf.put_slice(&prefix);
    buf.put_slice(&fixed_bytes(M::ID.class, body_len));
    properties.encode(buf)?;
    buf.put_u8(FRAME_END);
    Ok(())
}

/// The body in pieces that fit a body frame each; none for an empty body. A `frame_max` without room for a single byte,
/// which no peer may ask for, gives pieces of one byte.
pub fn body_chunks(body: &[u8], frame_max: u32) -> Chunks<'_, u8> {
    body.chunks(chunk_len(frame_max))
}

fn chunk_len(frame_max: u32) -> usize {
    (frame_max as usize).saturating_sub(FRAME_OVERHEAD).max(1)
}

fn header_frame_len(properties: &Properties<'_>) -> usize {
    FIXED + properties.encoded_len() + FRAME_OVERHEAD
}
