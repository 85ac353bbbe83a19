use core::slice::Chunks;

use bytes::BufMut;

use super::header::{FIXED, fixed_bytes};
use crate::basic::Properties;
use crate::frame::{self, FRAME_END, FRAME_OVERHEAD, HEADER, PREFIX};
use crate::{EncodeError, MethodFields};

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

    // The end of one frame and the start of the next in one write: a growing buffer checks its capacity at each.
    frame::put_method(channel, method, sizes.method - FRAME_OVERHEAD, buf)?;
    let mut header = [FRAME_END; 1 + PREFIX + FIXED];
    let (prefix, fixed) = header[1..].split_at_mut(PREFIX);
    prefix.copy_from_slice(&frame::prefix_bytes(
        HEADER,
        channel,
        (sizes.header - FRAME_OVERHEAD) as u32,
    ));
    fixed.copy_from_slice(&fixed_bytes(M::ID.class, body.len() as u64));
    buf.put_slice(&header);
    properties.encode(buf)?;
    for chunk in body_chunks(body, frame_max) {
        let mut prefix = [FRAME_END; 1 + PREFIX];
        prefix[1..].copy_from_slice(&frame::body_frame_prefix(channel, chunk.len() as u32));
        buf.put_slice(&prefix);
        buf.put_slice(chunk);
    }
    buf.put_u8(FRAME_END);
    Ok(())
}

/// How many bytes [`encode_head`] writes.
pub fn head_len(method: &impl MethodFields, properties: Option<&Properties<'_>>) -> usize {
    let properties_len = properties.map_or(NO_PROPERTIES, Properties::encoded_len);
    frame::method_frame_len(method) + FIXED + properties_len + FRAME_OVERHEAD
}

/// The bytes of a property list without properties: its flags.
const NO_PROPERTIES: usize = 2;

/// Writes the method and the content header alone, for a body that the caller puts on the wire itself, from where it is,
/// in frames that begin with [`frame::body_frame_prefix`]. The frames' sizes are the caller's to check. Without
/// properties, that none of them is there need not be looked for.
///
/// # Errors
/// Something in the method or the properties does not fit its length, or `buf` has no room: a part may be written.
pub fn encode_head<M: MethodFields>(
    channel: u16,
    method: &M,
    properties: Option<&Properties<'_>>,
    body_len: u64,
    buf: &mut impl BufMut,
) -> Result<(), EncodeError> {
    const { assert!(M::ID.carries_content(), "this method carries no content") };
    frame::encode_method(channel, method, buf)?;
    let Some(properties) = properties else {
        // A frame of fixed size, the property flags 0.
        const PAYLOAD: usize = FIXED + NO_PROPERTIES;
        let mut header = [0; PREFIX + PAYLOAD + 1];
        header[..PREFIX].copy_from_slice(&frame::prefix(HEADER, channel, PAYLOAD, buf)?);
        header[PREFIX..PREFIX + FIXED].copy_from_slice(&fixed_bytes(M::ID.class, body_len));
        header[PREFIX + PAYLOAD] = FRAME_END;
        buf.put_slice(&header);
        return Ok(());
    };
    let prefix = frame::prefix(HEADER, channel, FIXED + properties.encoded_len(), buf)?;
    buf.put_slice(&prefix);
    buf.put_slice(&fixed_bytes(M::ID.class, body_len));
    properties.encode(buf)?;
    buf.put_u8(FRAME_END);
    Ok(())
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
