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
use thiserror::Error;

use crate::EncodeError;
use crate::primitive::put_long;

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

    /// One that came with a length of eight bits.
    #[inline]
    pub(crate) fn from_wire(bytes: &'a [u8]) -> Self {
        Self(ByteStr::Borrowed(bytes))
    }

    #[inline]
    fn checked(bytes: ByteStr<'a>) -> Result<Self, TooLong> {
        match bytes.as_bytes().len() {
            0..=Self::MAX_LEN => Ok(Self(bytes)),
            len => Err(TooLong { len }),
        }
    }

    /// How many bytes it takes on the wire: one for the length and its own.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a slice has isize::MAX bytes at most"
    )]
    pub fn encoded_len(&self) -> usize {
        1 + self.len()
    }

    /// Writes the length octet and the bytes. Like all of [`BufMut`], panics when a fixed buffer is too small.
    #[inline]
    pub fn encode(&self, buf: &mut impl BufMut) {
        let bytes = self.as_bytes();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "every way to make one checks the length"
        )]
        let len = bytes.len() as u8;
        buf.put_u8(len);
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
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a slice has isize::MAX bytes at most"
    )]
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

            #[inline]
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
