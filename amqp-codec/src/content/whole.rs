use super::SMALL_BODY;
use super::header::{Announced, FIXED};
use crate::{Limits, MethodId};

/// The frames after the method of a small content, header and body, where both lie there whole: as they do for nearly
/// every message that comes.
///
/// [`Content::from_whole`](super::Content::from_whole) takes it to the same content as an [`Assembler`](super::Assembler)
/// would, without keeping anything from one frame to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<'a> {
    properties: &'a [u8],
    body: &'a [u8],
}

impl<'a> Whole<'a> {
    /// From the payloads of the two frames. `None` if they are anything but a header and all of its body, well formed and
    /// within the limits: an [`Assembler`](super::Assembler) then says what there is to say of each. Larger contents than
    /// those that fit one small allocation are left to it too, and those without a body.
    #[inline]
    pub fn new(header: &'a [u8], body: &'a [u8], limits: &Limits) -> Option<Self> {
        let announced = Announced::decode(header).ok()?;
        let whole = announced.class_id == MethodId::BASIC_PUBLISH.class
            && announced.body_size == body.len() as u64
            && announced.body_size <= limits.body_max;
        let properties = header.get(FIXED..)?;
        (whole && !body.is_empty() && body.len() <= SMALL_BODY)
            .then_some(Whole { properties, body })
    }

    /// The properties as they came, flags first.
    #[inline]
    pub(super) fn properties(&self) -> &'a [u8] {
        self.properties
    }

    /// How many bytes the payload of the header frame has.
    #[expect(clippy::arithmetic_side_effects, reason = "it is in memory")]
    pub fn header_len(&self) -> usize {
        FIXED + self.properties.len()
    }

    /// The body.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
}
