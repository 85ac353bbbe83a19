//! By amq-protocol.

use std::hint::black_box;

use amq_protocol::frame::{AMQPFrame, GenError, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::{AMQPClass, basic};
use amq_protocol::types::ShortString;

use super::frames::{CHANNEL, CONSUMER_TAG, DELIVERY_TAG, EXCHANGE};
use super::{Frames, Pass, Work, keys};

pub(super) fn prepare(work: Work) -> Box<dyn Pass> {
    let parts = keys()
        .iter()
        .map(|key| ShortString::from(&*key.to_string_lossy()))
        .collect();
    let out = vec![0; 4096];
    match work {
        Work::EncodePublish => Box::new(Encode {
            parts,
            make: publish,
            out,
        }),
        Work::EncodeDeliver => Box::new(Encode {
            parts,
            make: deliver,
            out,
        }),
        Work::EncodeRichHeader => Box::new(EncodeMade {
            frames: decoded(&Frames::of(work).wire),
            out,
        }),
        _ => Box::new(Decode {
            wire: Frames::of(work).wire,
        }),
    }
}

/// Decoding leaves nothing to be looked into later: it is the same work whether that is wanted or not.
struct Decode {
    wire: Vec<u8>,
}

impl Pass for Decode {
    fn pass(&mut self) -> usize {
        let mut rest = &self.wire[..];
        let mut good = 0;
        while let Ok((left, frame)) = parse_frame(rest) {
            rest = left;
            black_box(&frame);
            good += 1;
        }
        good
    }
}

fn decoded(mut wire: &[u8]) -> Vec<AMQPFrame> {
    let mut frames = Vec::new();
    while let Ok((rest, frame)) = parse_frame(wire) {
        wire = rest;
        frames.push(frame);
    }
    frames
}

/// Makes each frame of a key, which is copied as its type wants it.
struct Encode {
    parts: Vec<ShortString>,
    make: fn(ShortString) -> basic::AMQPMethod,
    out: Vec<u8>,
}

impl Pass for Encode {
    fn pass(&mut self) -> usize {
        let mut good = 0;
        for key in &self.parts {
            let method = AMQPClass::Basic((self.make)(key.clone()));
            good += usize::from(encode(&AMQPFrame::Method(CHANNEL, method), &mut self.out).is_ok());
        }
        good
    }
}

/// Encodes what has been made before.
struct EncodeMade {
    frames: Vec<AMQPFrame>,
    out: Vec<u8>,
}

impl Pass for EncodeMade {
    fn pass(&mut self) -> usize {
        let mut good = 0;
        for frame in &self.frames {
            good += usize::from(encode(frame, &mut self.out).is_ok());
        }
        good
    }
}

/// Says how many bytes the frame has.
fn encode(frame: &AMQPFrame, out: &mut [u8]) -> Result<u64, GenError> {
    let written = gen_frame(frame)(WriteContext::from(&mut *out))?.position;
    black_box(out);
    Ok(written)
}

fn publish(routing_key: ShortString) -> basic::AMQPMethod {
    basic::AMQPMethod::Publish(basic::Publish {
        exchange: EXCHANGE.into(),
        routing_key,
        mandatory: true,
        immediate: false,
    })
}

fn deliver(routing_key: ShortString) -> basic::AMQPMethod {
    basic::AMQPMethod::Deliver(basic::Deliver {
        consumer_tag: CONSUMER_TAG.into(),
        delivery_tag: DELIVERY_TAG,
        redelivered: false,
        exchange: EXCHANGE.into(),
        routing_key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_codecs_make_the_same_bytes() {
        for work in [
            Work::EncodePublish,
            Work::EncodeDeliver,
            Work::EncodeRichHeader,
        ] {
            let expected = Frames::of(work).wire;
            let mut encoded = Vec::<u8>::new();
            for frame in decoded(&expected) {
                let mut out = [0; 4096];
                let len = encode(&frame, &mut out).unwrap();
                encoded.extend(&out[..len as usize]);
            }
            assert_eq!(encoded, expected, "{work:?}");
        }
    }
}
