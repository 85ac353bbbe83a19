//! `Arbitrary` for what cannot be derived: strings, and the unused bits of an octet of flags.

use arbitrary::{Arbitrary, Result, Unstructured};

use crate::{LongStr, ShortStr};

/// Valid by its length; any bytes.
impl<'a> Arbitrary<'a> for ShortStr<'a> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let len = usize::from(u.arbitrary::<u8>()?).min(u.len());
        u.bytes(len).map(Self::from_wire)
    }

    fn size_hint(_: usize) -> (usize, Option<usize>) {
        (1, Some(1 + Self::MAX_LEN))
    }
}

/// Any bytes.
impl<'a> Arbitrary<'a> for LongStr<'a> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        u.arbitrary::<&[u8]>().map(Self::from)
    }

    fn arbitrary_take_rest(u: Unstructured<'a>) -> Result<Self> {
        Ok(u.take_rest().into())
    }
}

/// Of an octet, what the mask lets through.
pub(crate) fn bits<const MASK: u8>(u: &mut Unstructured<'_>) -> Result<u8> {
    Ok(u.arbitrary::<u8>()? & MASK)
}
