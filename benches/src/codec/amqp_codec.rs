//! By amqp-codec.

use std::hint::black_box;
use std::str::Utf8Error;

use amqp_codec::{EncodeError, Frame, Limits, Method, RawFrame, ShortStr, basic, frame};

use super::frames::{CHANNEL, deliver, headers, keys, publish, rich_header};
use super::{Frames, Pass, Work};

pub(super) fn prepare(work: Work) -> Box<dyn Pass> {
    match work {
        Work::EncodePublish => {
            Encode::boxed(|key, out| frame::encode_method(CHANNEL, &publish(key), out))
        }
        Work::EncodeDeliver => {
            Encode::boxed(|key, out| frame::encode_method(CHANNEL, &deliver(key), out))
        }
        Work::EncodeRichHeader => {
            let headers = headers();
            Encode::boxed(move |key, out| rich_header(&headers, key, 256).encode(out))
        }
        _ => Box::new(Decode {
            wire: Frames::of(work).wire,
            limits: Limits::default(),
            read: matches!(work, Work::ReadRichHeader | Work::ReadRichStream),
        }),
    }
}

struct Decode {
    wire: Vec<u8>,
    limits: Limits,
    /// Whether to look at all that was decoded.
    read: bool,
}

impl Pass for Decode {
    fn pass(&mut self) -> usize {
        let mut rest = &self.wire[..];
        let mut good = 0;
        while let Ok(Some((raw, len))) = RawFrame::parse(rest, &self.limits) {
            rest = &rest[len..];
            let Ok(frame) = raw.decode(&self.limits) else {
                break;
            };
            if self.read && !read(&frame, &self.limits) {
                break;
            }
            black_box(&frame);
            good += 1;
        }
        good
    }
}

/// Looks at every string as text and at every entry of a table. Says whether all was as it should be.
fn read(frame: &Frame<'_>, limits: &Limits) -> bool {
    match frame {
        Frame::Method {
            method: Method::BasicDeliver(deliver),
            ..
        } => read_deliver(deliver).is_ok(),
        Frame::Header { header, .. } => read_properties(&header.properties, limits).is_some(),
        other => {
            black_box(other);
            true
        }
    }
}

fn read_deliver(deliver: &basic::Deliver<'_>) -> Result<(), Utf8Error> {
    black_box(deliver.consumer_tag.as_str()?);
    black_box(deliver.exchange.as_str()?);
    black_box(deliver.routing_key.as_str()?);
    Ok(())
}

fn read_properties(properties: &basic::Properties<'_>, limits: &Limits) -> Option<()> {
    for text in [&properties.content_type, &properties.message_id] {
        black_box(text.as_ref()?.as_str().ok()?);
    }
    black_box((properties.delivery_mode?, properties.timestamp?));
    for (key, value) in properties.headers(limits).ok()??.iter() {
        black_box((key.as_str().ok()?, value.as_str(), &value));
    }
    Some(())
}

/// Makes and encodes one frame for each key.
struct Encode<F> {
    keys: Vec<ShortStr<'static>>,
    encode: F,
    out: Vec<u8>,
}

impl<F> Encode<F>
where
    F: Fn(&ShortStr<'static>, &mut Vec<u8>) -> Result<(), EncodeError> + 'static,
{
    fn boxed(encode: F) -> Box<dyn Pass> {
        Box::new(Encode {
            keys: keys(),
            encode,
            out: Vec::with_capacity(4096),
        })
    }
}

impl<F> Pass for Encode<F>
where
    F: Fn(&ShortStr<'static>, &mut Vec<u8>) -> Result<(), EncodeError>,
{
    fn pass(&mut self) -> usize {
        let mut good = 0;
        for key in &self.keys {
            self.out.clear();
            good += usize::from((self.encode)(key, &mut self.out).is_ok());
            black_box(&self.out);
        }
        good
    }
}
