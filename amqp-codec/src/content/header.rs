use bytes::BufMut;

use crate::basic::Properties;
use crate::primitive::{Parsed, be_u16, be_u64, fail, finish};
use crate::{DecodeError, DecodeErrorKind, EncodeError};

/// The payload of a header frame: whose content it is, how long the body is, and the message's properties.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct ContentHeader<'a> {
    /// The class of the method before it; 60, `basic`, is the only one with content.
    pub class_id: u16,
    /// The length of the body in bytes, all its frames together.
    pub body_size: u64,
    /// The message's properties.
    pub properties: Properties<'a>,
}

impl<'a> ContentHeader<'a> {
    /// Takes the payload of a header frame apart. The headers' table is checked to its outer length alone.
    ///
    /// # Errors
    /// It is malformed or its weight is not 0. The offset counts from the start of `payload`.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut header = ContentHeader::default();
        finish(payload, header.parse(payload))?;
        Ok(header)
    }

    /// Fills an empty one where it is, as [`Properties::parse`] does.
    #[inline]
    fn parse(&mut self, input: &'a [u8]) -> Parsed<'a, ()> {
        let (rest, announced) = announced(input)?;
        self.class_id = announced.class_id;
        self.body_size = announced.body_size;
        self.properties.parse(rest)
    }

    /// One that owns its bytes.
    #[must_use]
    pub fn into_owned(self) -> ContentHeader<'static> {
        ContentHeader {
            class_id: self.class_id,
            body_size: self.body_size,
            properties: self.properties.into_owned(),
        }
    }

    /// How many bytes the payload has.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a length of what is in memory, and twelve bytes"
    )]
    pub fn encoded_len(&self) -> usize {
        FIXED + self.properties.encoded_len()
    }

    /// Writes the payload.
    ///
    /// # Errors
    /// The headers' table has more than `u32::MAX` bytes. A part may be written then.
    pub fn encode(&self, buf: &mut impl BufMut) -> Result<(), EncodeError> {
        buf.put_slice(&fixed_bytes(self.class_id, self.body_size));
        self.properties.encode(buf)
    }
}

/// The bytes of class, weight and body size.
pub(super) const FIXED: usize = 12;

/// What a content header announces: all of it but the properties, which are large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// The class of the method before it.
    pub class_id: u16,
    /// The length of the body in bytes.
    pub body_size: u64,
}

impl Announced {
    /// Checks the whole payload of a header frame, as [`ContentHeader::decode`] does, for who keeps it as it is.
    ///
    /// # Errors
    /// As there.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        finish(payload, announced_and_properties(payload))
    }
}

impl From<&ContentHeader<'_>> for Announced {
    fn from(header: &ContentHeader<'_>) -> Self {
        Announced {
            class_id: header.class_id,
            body_size: header.body_size,
        }
    }
}

fn announced_and_properties(input: &[u8]) -> Parsed<'_, Announced> {
    let (rest, announced) = announced(input)?;
    match rest {
        // No property is there, as is usual where cost matters most.
        [0, 0, rest @ ..] => Ok((rest, announced)),
        properties => {
            let (rest, ()) = Properties::default().parse(properties)?;
            Ok((rest, announced))
        }
    }
}

#[inline]
fn announced(input: &[u8]) -> Parsed<'_, Announced> {
    let (at_weight, class_id) = be_u16(input)?;
    let (rest, weight) = be_u16(at_weight)?;
    if weight != 0 {
        return fail(at_weight, DecodeErrorKind::Weight(weight));
    }
    let (rest, body_size) = be_u64(rest)?;
    let announced = Announced {
        class_id,
        body_size,
    };
    Ok((rest, announced))
}

pub(super) fn fixed_bytes(class_id: u16, body_size: u64) -> [u8; FIXED] {
    let [c0, c1] = class_id.to_be_bytes();
    let [s0, s1, s2, s3, s4, s5, s6, s7] = body_size.to_be_bytes();
    [c0, c1, 0, 0, s0, s1, s2, s3, s4, s5, s6, s7]
}
