use bytes::BufMut;
use nom::IResult;
use nom::error::ErrorKind;

use crate::field::{RawTable, Table};
use crate::{DecodeError, DecodeErrorKind, EncodeError, Limits, LongStr, ShortStr};

/// What the parsers within a payload return.
pub(crate) type Parsed<'a, T> = IResult<&'a [u8], T, ParseError<'a>>;

/// Where parsing stopped and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParseError<'a> {
    /// The input from the offending byte on.
    pub(crate) rest: &'a [u8],
    pub(crate) kind: DecodeErrorKind,
}

impl<'a> nom::error::ParseError<&'a [u8]> for ParseError<'a> {
    fn from_error_kind(rest: &'a [u8], _: ErrorKind) -> Self {
        // Of nom's own parsers only those are used that fail for want of input.
        Self {
            rest,
            kind: DecodeErrorKind::Truncated,
        }
    }

    fn append(_: &'a [u8], _: ErrorKind, other: Self) -> Self {
        other
    }
}

/// Fails at the first byte of `rest`.
#[inline]
pub(crate) fn fail<'a, T>(rest: &'a [u8], kind: DecodeErrorKind) -> Parsed<'a, T> {
    Err(nom::Err::Error(ParseError { rest, kind }))
}

/// Ends the parsing of the whole `input`: nothing may be left, and errors learn their offset.
#[inline]
pub(crate) fn finish<'a, T>(input: &'a [u8], parsed: Parsed<'a, T>) -> Result<T, DecodeError> {
    let (rest, kind) = match parsed {
        Ok(([], value)) => return Ok(value),
        Ok((rest, _)) => (rest, DecodeErrorKind::TrailingBytes),
        Err(nom::Err::Error(error) | nom::Err::Failure(error)) => (error.rest, error.kind),
        Err(nom::Err::Incomplete(_)) => (&[][..], DecodeErrorKind::Truncated),
    };
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the rest is a part of the input"
    )]
    let offset = (input.len() - rest.len()) as u64;
    Err(DecodeError { kind, offset })
}

// The leaves are written out: nom's own do the same, but stay calls into another crate and cost most of a frame.

#[inline]
fn chunk<const N: usize>(input: &[u8]) -> Parsed<'_, [u8; N]> {
    match input.split_first_chunk() {
        Some((chunk, rest)) => Ok((rest, *chunk)),
        None => fail(input, DecodeErrorKind::Truncated),
    }
}

#[inline]
pub(crate) fn take(input: &[u8], len: usize) -> Parsed<'_, &[u8]> {
    match input.split_at_checked(len) {
        Some((taken, rest)) => Ok((rest, taken)),
        None => fail(input, DecodeErrorKind::Truncated),
    }
}

#[inline]
pub(crate) fn be_u8(input: &[u8]) -> Parsed<'_, u8> {
    let (rest, [byte]) = chunk(input)?;
    Ok((rest, byte))
}

#[inline]
pub(crate) fn be_u16(input: &[u8]) -> Parsed<'_, u16> {
    let (rest, bytes) = chunk(input)?;
    Ok((rest, u16::from_be_bytes(bytes)))
}

#[inline]
pub(crate) fn be_u32(input: &[u8]) -> Parsed<'_, u32> {
    let (rest, bytes) = chunk(input)?;
    Ok((rest, u32::from_be_bytes(bytes)))
}

#[inline]
pub(crate) fn be_u64(input: &[u8]) -> Parsed<'_, u64> {
    let (rest, bytes) = chunk(input)?;
    Ok((rest, u64::from_be_bytes(bytes)))
}

/// Bytes under a 32-bit length.
#[inline]
pub(crate) fn long_bytes(input: &[u8]) -> Parsed<'_, &[u8]> {
    let (rest, len) = be_u32(input)?;
    // What does not fit an address is longer than any input.
    take(rest, usize::try_from(len).unwrap_or(usize::MAX))
}

#[inline]
pub(crate) fn short_str(input: &[u8]) -> Parsed<'_, ShortStr<'_>> {
    let (rest, len) = be_u8(input)?;
    let (rest, bytes) = take(rest, len.into())?;
    Ok((rest, ShortStr::from_wire(bytes)))
}

#[inline]
pub(crate) fn long_str(input: &[u8]) -> Parsed<'_, LongStr<'_>> {
    let (rest, bytes) = long_bytes(input)?;
    Ok((rest, LongStr::from(bytes)))
}

/// A table that is checked to its outer length only, as in a content header.
pub(crate) fn raw_table(input: &[u8]) -> Parsed<'_, RawTable<'_>> {
    let (rest, bytes) = long_bytes(input)?;
    Ok((rest, RawTable::from_bytes(bytes)))
}

/// A table that is checked throughout, as in a method. Use: `table(limits)(input)?`.
pub(crate) fn table<'a>(limits: &Limits) -> impl Fn(&'a [u8]) -> Parsed<'a, Table<'a>> {
    move |input| {
        let (rest, raw) = raw_table(input)?;
        match raw.check(limits) {
            Ok(table) => Ok((rest, table)),
            Err(DecodeError { kind, offset }) => {
                let content = input.get(4..).unwrap_or_default();
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                fail(content.get(offset..).unwrap_or_default(), kind)
            }
        }
    }
}

/// Writes a 32-bit length and the bytes.
pub(crate) fn put_long(bytes: &[u8], buf: &mut impl BufMut) -> Result<(), EncodeError> {
    let len = u32::try_from(bytes.len()).map_err(|_| EncodeError::TooLong {
        len: bytes.len() as u64,
    })?;
    buf.put_u32(len);
    buf.put_slice(bytes);
    Ok(())
}
