use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::convert::Infallible;
use core::fmt::{self, Write as _};
use core::hash::{Hash, Hasher};
use core::str::Utf8Error;

use bytes::BufMut;
use nom::IResult;
use nom::error::ErrorKind;
use thiserror::Error;

use crate::field::{RawTable, Table};
use crate::{DecodeError, DecodeErrorKind, EncodeError, Limits};

/// Up to 255 bytes, usually UTF-8: the type of names, routing keys, table keys and most properties.
///
/// Borrowed when decoded, cheap to clone either way.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortStr<'a>(ByteStr<'a>);

/// Up to `u32::MAX` bytes, usually UTF-8, often not text at all. A longer one can be held but not encoded.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LongStr<'a>(ByteStr<'a>);

/// A short string of more than 255 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{len} bytes do not fit a short string of at most 255")]
pub struct TooLong {
    /// The length in bytes that was asked for.
    pub len: usize,
}

impl From<Infallible> for TooLong {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// A [`ShortStr`] from a string constant, its length checked while compiling.
///
/// ```
/// let exchange = amqp_codec::short!("amq.topic");
/// assert_eq!(exchange, "amq.topic");
/// ```
#[macro_export]
macro_rules! short {
    ($text:expr) => {
        const { $crate::ShortStr::from_static($text) }
    };
}

impl ShortStr<'static> {
    /// The string as it stands in the program.
    ///
    /// # Panics
    /// If it has more than 255 bytes; in a constant, as in [`short!`](crate::short), that is a compile error.
    #[must_use]
    pub const fn from_static(text: &'static str) -> Self {
        assert!(
            text.len() <= Self::MAX_LEN,
            "a short string has at most 255 bytes"
        );
        Self(ByteStr::Borrowed(text.as_bytes()))
    }
}

impl<'a> ShortStr<'a> {
    /// The most bytes a short string has.
    pub const MAX_LEN: usize = 255;

    fn checked(bytes: ByteStr<'a>) -> Result<Self, TooLong> {
        match bytes.as_bytes().len() {
            0..=Self::MAX_LEN => Ok(Self(bytes)),
            len => Err(TooLong { len }),
        }
    }

    /// How many bytes it takes on the wire: one for the length and its own.
    pub fn encoded_len(&self) -> usize {
        1 + self.len()
    }

    /// Writes the length octet and the bytes. Like all of [`BufMut`], panics when a fixed buffer is too small.
    pub fn encode(&self, buf: &mut impl BufMut) {
        let bytes = self.as_bytes();
        // Every way to make one checks the length.
        buf.put_u8(bytes.len() as u8);
        buf.put_slice(bytes);
    }
}

impl LongStr<'static> {
    /// The string as it stands in the program.
    #[must_use]
    pub const fn from_static(text: &'static str) -> Self {
        Self(ByteStr::Borrowed(text.as_bytes()))
    }
}

impl<'a> LongStr<'a> {
    pub(crate) fn into_borrowed(self) -> Option<&'a [u8]> {
        self.0.into_borrowed()
    }

    /// How many bytes it takes on the wire: four for the length and its own.
    pub fn encoded_len(&self) -> usize {
        4 + self.len()
    }

    /// Writes the length and the bytes. Like all of [`BufMut`], panics when a fixed buffer is too small.
    ///
    /// # Errors
    /// More than `u32::MAX` bytes; nothing is written.
    pub fn encode(&self, buf: &mut impl BufMut) -> Result<(), EncodeError> {
        put_long(self.as_bytes(), buf)
    }
}

pub(crate) fn put_long(bytes: &[u8], buf: &mut impl BufMut) -> Result<(), EncodeError> {
    let len = u32::try_from(bytes.len()).map_err(|_| EncodeError::TooLong {
        len: bytes.len() as u64,
    })?;
    buf.put_u32(len);
    buf.put_slice(bytes);
    Ok(())
}

macro_rules! byte_string {
    ($name:ident) => {
        impl<'a> $name<'a> {
            /// The empty string.
            pub const EMPTY: $name<'static> = $name(ByteStr::EMPTY);

            /// The bytes as they are on the wire.
            pub fn as_bytes(&self) -> &[u8] {
                self.0.as_bytes()
            }

            /// The text.
            ///
            /// # Errors
            /// The bytes are not UTF-8.
            pub fn as_str(&self) -> Result<&str, Utf8Error> {
                core::str::from_utf8(self.as_bytes())
            }

            /// The text, with U+FFFD for what is not UTF-8.
            pub fn to_string_lossy(&self) -> Cow<'_, str> {
                String::from_utf8_lossy(self.as_bytes())
            }

            /// The length in bytes.
            pub fn len(&self) -> usize {
                self.as_bytes().len()
            }

            /// Whether there is no byte in it.
            pub fn is_empty(&self) -> bool {
                self.as_bytes().is_empty()
            }

            /// A view that borrows from this one.
            #[must_use]
            pub fn as_borrowed(&self) -> $name<'_> {
                $name(self.0.as_borrowed())
            }

            /// One that owns its bytes: copied if they were borrowed, shared from then on.
            #[must_use]
            pub fn into_owned(self) -> $name<'static> {
                $name(self.0.into_owned())
            }
        }

        impl AsRef<[u8]> for $name<'_> {
            fn as_ref(&self) -> &[u8] {
                self.as_bytes()
            }
        }

        impl Borrow<[u8]> for $name<'_> {
            fn borrow(&self) -> &[u8] {
                self.as_bytes()
            }
        }

        impl PartialEq<str> for $name<'_> {
            fn eq(&self, other: &str) -> bool {
                self.as_bytes() == other.as_bytes()
            }
        }

        impl PartialEq<&str> for $name<'_> {
            fn eq(&self, other: &&str) -> bool {
                self.as_bytes() == other.as_bytes()
            }
        }

        /// Quoted, with escapes; what is not UTF-8 as `\xNN`.
        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_quoted(f)
            }
        }

        /// The text itself, with U+FFFD for what is not UTF-8.
        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_lossy(f)
            }
        }
    };
}

byte_string!(ShortStr);
byte_string!(LongStr);

macro_rules! short_from {
    ($($source:ty),*) => {$(
        impl<'a> TryFrom<$source> for ShortStr<'a> {
            type Error = TooLong;

            fn try_from(source: $source) -> Result<Self, TooLong> {
                Self::checked(source.into())
            }
        }
    )*};
}

macro_rules! long_from {
    ($($source:ty),*) => {$(
        impl<'a> From<$source> for LongStr<'a> {
            fn from(source: $source) -> Self {
                Self(source.into())
            }
        }
    )*};
}

short_from!(
    &'a str,
    &'a [u8],
    String,
    &String,
    Vec<u8>,
    Cow<'a, str>,
    LongStr<'a>
);
long_from!(
    &'a str,
    &'a [u8],
    String,
    &String,
    Vec<u8>,
    Cow<'a, str>,
    ShortStr<'a>
);

impl<'a, const N: usize> TryFrom<&'a [u8; N]> for ShortStr<'a> {
    type Error = TooLong;

    fn try_from(source: &'a [u8; N]) -> Result<Self, TooLong> {
        Self::checked(ByteStr::Borrowed(source))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for LongStr<'a> {
    fn from(source: &'a [u8; N]) -> Self {
        Self(ByteStr::Borrowed(source))
    }
}

/// Bytes that are borrowed, or owned and shared. Strings and tables are made of it.
#[derive(Clone)]
pub(crate) enum ByteStr<'a> {
    Borrowed(&'a [u8]),
    Owned(Arc<[u8]>),
}

impl<'a> ByteStr<'a> {
    pub(crate) const EMPTY: ByteStr<'static> = ByteStr::Borrowed(&[]);

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }

    pub(crate) fn as_borrowed(&self) -> ByteStr<'_> {
        ByteStr::Borrowed(self.as_bytes())
    }

    /// The bytes for as long as they live outside; none if they are owned.
    pub(crate) fn into_borrowed(self) -> Option<&'a [u8]> {
        match self {
            Self::Borrowed(bytes) => Some(bytes),
            Self::Owned(_) => None,
        }
    }

    pub(crate) fn into_owned(self) -> ByteStr<'static> {
        match self {
            Self::Borrowed([]) => ByteStr::EMPTY,
            Self::Borrowed(bytes) => ByteStr::Owned(bytes.into()),
            Self::Owned(bytes) => ByteStr::Owned(bytes),
        }
    }

    pub(crate) fn fmt_quoted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for chunk in self.as_bytes().utf8_chunks() {
            for char in chunk.valid().chars() {
                match char {
                    '\'' => f.write_char(char)?,
                    _ => write!(f, "{}", char.escape_debug())?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        f.write_char('"')
    }

    fn fmt_lossy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.as_bytes().utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl Default for ByteStr<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for ByteStr<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ByteStr<'_> {}

impl PartialOrd for ByteStr<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByteStr<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for ByteStr<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl<'a> From<&'a str> for ByteStr<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for ByteStr<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Borrowed(bytes)
    }
}

impl From<String> for ByteStr<'_> {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<&String> for ByteStr<'_> {
    fn from(text: &String) -> Self {
        ByteStr::Borrowed(text.as_bytes()).into_owned()
    }
}

impl From<Vec<u8>> for ByteStr<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        match bytes.is_empty() {
            true => Self::EMPTY,
            false => Self::Owned(bytes.into()),
        }
    }
}

impl<'a> From<Cow<'a, str>> for ByteStr<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl<'a> From<ShortStr<'a>> for ByteStr<'a> {
    fn from(string: ShortStr<'a>) -> Self {
        string.0
    }
}

impl<'a> From<LongStr<'a>> for ByteStr<'a> {
    fn from(string: LongStr<'a>) -> Self {
        string.0
    }
}

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
    Err(DecodeError {
        kind,
        offset: (input.len() - rest.len()) as u64,
    })
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
    Ok((rest, ShortStr(ByteStr::Borrowed(bytes))))
}

#[inline]
pub(crate) fn long_str(input: &[u8]) -> Parsed<'_, LongStr<'_>> {
    let (rest, bytes) = long_bytes(input)?;
    Ok((rest, LongStr(ByteStr::Borrowed(bytes))))
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
                fail(content.get(offset as usize..).unwrap_or_default(), kind)
            }
        }
    }
}
