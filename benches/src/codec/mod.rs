//! The same coding done by amqp-codec, by amq-protocol (feature `peers`) and, for a floor, by a plain copy.
//!
//! `codec-load` runs one of them, as the process that is measured. All of them work on the same bytes: a thousand frames of a kind, or a thousand messages of three frames, with keys
//! of different length that are made when the program runs.

#[cfg(feature = "peers")]
mod amq_protocol;
mod amqp_codec;
mod copy;
mod frames;

use clap::ValueEnum;

pub use frames::{Frames, keys};

/// What is done to how many frames of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Decode basic.deliver.
    DecodeDeliver,
    /// Decode basic.publish.
    DecodePublish,
    /// Decode basic.ack.
    DecodeAck,
    /// Decode a content header of two properties.
    DecodePlainHeader,
    /// Decode a content header of five properties, one of which is a table of four entries, without looking into it.
    DecodeRichHeader,
    /// The same, and look at each property and each entry.
    ReadRichHeader,
    /// Decode a body of 1 KiB.
    DecodeBody,
    /// Decode deliveries: method, plain header, body of 256 octets.
    DecodePlainStream,
    /// Decode deliveries: method, rich header, body of 256 octets.
    DecodeRichStream,
    /// The same, and look at everything.
    ReadRichStream,
    /// Make a basic.publish of a key and encode it.
    EncodePublish,
    /// Make a basic.deliver of a key and encode it.
    EncodeDeliver,
    /// Encode a content header of five properties with four header entries.
    EncodeRichHeader,
}

impl Work {
    /// As it is named on the command line.
    pub fn name(self) -> String {
        name(self)
    }

    /// The most instructions a frame may take in amqp-codec, where there is a target. Nothing may allocate.
    pub fn max_instructions(self) -> Option<f64> {
        match self {
            Work::DecodePlainStream => Some(370.0),
            Work::EncodePublish => Some(200.0),
            _ => None,
        }
    }
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Coder {
    /// The one that all of this is about.
    AmqpCodec,
    /// The codec of lapin.
    #[cfg(feature = "peers")]
    AmqProtocol,
    /// Copies the bytes and looks at none.
    Copy,
}

impl Coder {
    /// As it is named on the command line.
    pub fn name(self) -> String {
        name(self)
    }

    /// Makes ready for one work.
    pub fn prepare(self, work: Work) -> Box<dyn Pass> {
        match self {
            Coder::AmqpCodec => amqp_codec::prepare(work),
            #[cfg(feature = "peers")]
            Coder::AmqProtocol => amq_protocol::prepare(work),
            Coder::Copy => Box::new(copy::Copy::new(work)),
        }
    }
}

/// A work that can be done again and again.
pub trait Pass {
    /// Does it once with all frames; says how many frames were as they should be, which is [`frames_a_pass`].
    fn pass(&mut self) -> usize;
}

/// How many frames there are.
pub fn frames_a_pass(work: Work) -> usize {
    Frames::of(work).count
}

fn name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().into())
}
