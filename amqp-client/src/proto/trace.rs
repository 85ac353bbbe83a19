//! One trace event for each frame: type, channel and size; never what is in it.

use amqp_codec::{MethodId, ProtocolHeader, frame};
use tracing::{Level, trace};

/// The target of the events.
pub(super) const FRAMES: &str = "amqp_client::frames";

/// Frames that are handed to the transport, with the places of the bodies that are spliced in between.
#[inline]
pub(super) fn sent<'a>(frames: &[u8], spliced: impl Iterator<Item = (usize, &'a [u8])>) {
    if tracing::enabled!(target: FRAMES, Level::TRACE) {
        each_sent(frames, spliced);
    }
}

#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "the frames are our own, and whole"
)]
fn each_sent<'a>(frames: &[u8], spliced: impl Iterator<Item = (usize, &'a [u8])>) {
    let mut spliced = spliced.peekable();
    let mut at = 0;
    if ProtocolHeader::parse(frames).is_some() {
        trace!(target: FRAMES, "sent protocol header");
        at = 8;
    }
    while let Some(&[kind, c0, c1, s0, s1, s2, s3]) = frames[at..].first_chunk() {
        let channel = u16::from_be_bytes([c0, c1]);
        let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
        let payload = at + 7;
        let in_place = match spliced.next_if(|(place, _)| *place == payload) {
            Some(_) => 0,
            None => size,
        };
        match kind {
            frame::METHOD => {
                if let Some(&[c0, c1, m0, m1]) = frames[payload..].first_chunk() {
                    let (class, method) = ([c0, c1], [m0, m1]);
                    let (class, method) = (u16::from_be_bytes(class), u16::from_be_bytes(method));
                    let method = MethodId { class, method };
                    trace!(target: FRAMES, channel, %method, direction = "sent");
                }
            }
            frame::HEADER => trace!(target: FRAMES, channel, len = size, "sent header"),
            frame::BODY => trace!(target: FRAMES, channel, len = size, "sent body"),
            _ => trace!(target: FRAMES, "sent heartbeat"),
        }
        at = payload + in_place + 1;
    }
}
