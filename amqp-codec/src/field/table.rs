use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::Range;

use bytes::BufMut;

use super::check::check_table;
use super::value::{self, DEBUG_DEPTH, ToDepth};
use super::{Array, Value};
use crate::primitive::{Parsed, put_long, short_str};
use crate::string::ByteStr;
use crate::{DecodeError, EncodeError, Limits, ShortStr, TooLong};

/// The content of a table as it came, not looked into: possibly no table at all, possibly beyond every limit, and
/// still fit to be passed on byte for byte.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct RawTable<'a>(ByteStr<'a>);

/// A list of keys and values in its encoded form. Keys can repeat; the first one counts.
///
/// Equality is that of the bytes; see [`eq_as_map`](Self::eq_as_map) for that of the meaning.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Table<'a>(ByteStr<'a>);

impl<'a> RawTable<'a> {
    /// A table of these bytes, which do not include the length that goes before them on the wire.
    pub fn from_bytes(content: &'a [u8]) -> Self {
        Self(ByteStr::Borrowed(content))
    }

    /// The content, without the length that goes before it.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Takes it apart.
    ///
    /// # Errors
    /// It is malformed or breaks a limit. The offset counts from the first byte of the content.
    pub fn decode(&self, limits: &Limits) -> Result<Table<'_>, DecodeError> {
        self.as_borrowed().check(limits)
    }

    pub(crate) fn check(self, limits: &Limits) -> Result<Table<'a>, DecodeError> {
        check_table(self.as_bytes(), limits)?;
        Ok(Table(self.0))
    }
}

impl Table<'_> {
    /// The entries in order, duplicate keys included.
    pub fn iter(&self) -> TableIter<'_> {
        TableIter::over(self.as_bytes())
    }

    /// How many entries there are, duplicate keys included. Counts them.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The value of the first entry with this key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value<'_>> {
        let (_, at_value) = self.place(key.as_ref())?;
        value::value(at_value).ok().map(|(_, value)| value)
    }

    /// Whether there is an entry with this key.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.place(key.as_ref()).is_some()
    }

    /// The boolean under this key; `None` if there is none or it is of another type.
    pub fn get_bool(&self, key: impl AsRef<[u8]>) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// The integer of any type under this key.
    pub fn get_i64(&self, key: impl AsRef<[u8]>) -> Option<i64> {
        self.get(key)?.as_i64()
    }

    /// The integer of any type under this key, if it is not negative.
    pub fn get_u64(&self, key: impl AsRef<[u8]>) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// The float of either size under this key.
    pub fn get_f64(&self, key: impl AsRef<[u8]>) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    /// The text under this key, if it is UTF-8.
    pub fn get_str(&self, key: impl AsRef<[u8]>) -> Option<&str> {
        match self.get(key)? {
            Value::LongStr(text) => core::str::from_utf8(text.into_borrowed()?).ok(),
            _ => None,
        }
    }

    /// The bytes under this key, of a long string or a byte array.
    pub fn get_bytes(&self, key: impl AsRef<[u8]>) -> Option<&[u8]> {
        match self.get(key)? {
            Value::LongStr(bytes) | Value::Bytes(bytes) => bytes.into_borrowed(),
            _ => None,
        }
    }

    /// The table under this key.
    pub fn get_table(&self, key: impl AsRef<[u8]>) -> Option<Table<'_>> {
        match self.get(key)? {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The array under this key.
    pub fn get_array(&self, key: impl AsRef<[u8]>) -> Option<Array<'_>> {
        match self.get(key)? {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The timestamp under this key, in seconds since 1970-01-01 UTC.
    pub fn get_timestamp(&self, key: impl AsRef<[u8]>) -> Option<u64> {
        self.get(key)?.as_timestamp()
    }

    /// Sets a key: in the place of its first entry, or else at the end. Copies the table; to build a large one, collect
    /// it.
    ///
    /// # Errors
    /// The key has more than 255 bytes.
    pub fn insert<'v, K>(&mut self, key: K, value: impl Into<Value<'v>>) -> Result<(), TooLong>
    where
        K: TryInto<ShortStr<'v>>,
        TooLong: From<K::Error>,
    {
        let key = key.try_into()?;
        let end = self.as_bytes().len();
        let place = self
            .place(key.as_bytes())
            .map_or(end..end, |(place, _)| place);
        let mut entry = Vec::new();
        write_entry(&mut entry, &key, &value.into());
        let mut content = self.as_bytes().to_vec();
        content.splice(place, entry);
        self.0 = content.into();
        Ok(())
    }

    /// Takes out all entries with this key; returns the value of the first.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Option<Value<'static>> {
        let key = key.as_ref();
        let value = self.get(key)?.into_owned();
        self.0 = self
            .iter()
            .filter(|(name, _)| name.as_bytes() != key)
            .collect::<Table<'_>>()
            .0;
        Some(value)
    }

    /// Collects entries whose keys may turn out too long.
    ///
    /// # Errors
    /// A key has more than 255 bytes.
    pub fn try_from_iter<'v, K, V>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, TooLong>
    where
        K: TryInto<ShortStr<'v>>,
        TooLong: From<K::Error>,
        V: Into<Value<'v>>,
    {
        let mut content = Vec::new();
        for (key, value) in entries {
            write_entry(&mut content, &key.try_into()?, &value.into());
        }
        Ok(Self(content.into()))
    }

    /// Where the first entry with this key is in the content, its value apart.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "what a parser leaves is a part of the content"
    )]
    fn place(&self, key: &[u8]) -> Option<(Range<usize>, &[u8])> {
        let content = self.as_bytes();
        let mut rest = content;
        loop {
            // Fails at the end alone, what is inside has been checked.
            let (at_value, name) = short_str(rest).ok()?;
            let (after, ()) = value::skip(at_value).ok()?;
            if name.as_bytes() == key {
                return Some((
                    content.len() - rest.len()..content.len() - after.len(),
                    at_value,
                ));
            }
            rest = after;
        }
    }

    pub(super) fn fmt_to_depth(&self, f: &mut fmt::Formatter<'_>, depth: u8) -> fmt::Result {
        match depth.checked_sub(1) {
            Some(depth) => f
                .debug_map()
                .entries(self.iter().map(|(key, value)| (key, ToDepth(value, depth))))
                .finish(),
            None => f.write_str("{..}"),
        }
    }
}

impl<'a> Table<'a> {
    /// Takes the content of a table apart, which does not include the length that goes before it on the wire.
    ///
    /// # Errors
    /// It is malformed or breaks a limit. The offset counts from the start of `content`.
    pub fn decode(content: &'a [u8], limits: &Limits) -> Result<Self, DecodeError> {
        RawTable::from_bytes(content).check(limits)
    }

    /// One whose content has been checked, as a part of what was.
    pub(super) fn trusted(content: &'a [u8]) -> Self {
        Self(ByteStr::Borrowed(content))
    }

    pub(super) fn into_borrowed(self) -> Option<&'a [u8]> {
        self.0.into_borrowed()
    }

    /// The content, without the length that goes before it.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

macro_rules! encoded_table {
    ($name:ident) => {
        impl $name<'_> {
            /// The table without entries.
            pub const EMPTY: $name<'static> = $name(ByteStr::EMPTY);

            /// Whether there is no entry.
            pub fn is_empty(&self) -> bool {
                self.as_bytes().is_empty()
            }

            /// How many bytes it takes on the wire: four for the length and its content.
            #[expect(
                clippy::arithmetic_side_effects,
                reason = "a slice has isize::MAX bytes at most"
            )]
            pub fn encoded_len(&self) -> usize {
                4 + self.as_bytes().len()
            }

            /// Writes the length and the content. Like all of [`BufMut`], panics when a fixed buffer is too small.
            ///
            /// # Errors
            /// More than `u32::MAX` bytes; nothing is written.
            pub fn encode(&self, buf: &mut impl BufMut) -> Result<(), EncodeError> {
                put_long(self.as_bytes(), buf)
            }

            /// A view that borrows from this one.
            #[must_use]
            pub fn as_borrowed(&self) -> $name<'_> {
                $name(self.0.as_borrowed())
            }

            /// One that owns its bytes.
            #[must_use]
            pub fn into_owned(self) -> $name<'static> {
                $name(self.0.into_owned())
            }
        }
    };
}

encoded_table!(RawTable);
encoded_table!(Table);

fn write_entry(out: &mut Vec<u8>, key: &ShortStr<'_>, value: &Value<'_>) {
    key.encode(out);
    value.write(out);
}

/// The entries of a [`Table`].
#[derive(Debug, Clone)]
pub struct TableIter<'a> {
    rest: &'a [u8],
}

impl<'a> TableIter<'a> {
    /// Over the content of a table that has been checked.
    pub(super) fn over(content: &'a [u8]) -> Self {
        Self { rest: content }
    }
}

impl<'a> Iterator for TableIter<'a> {
    type Item = (ShortStr<'a>, Value<'a>);

    fn next(&mut self) -> Option<(ShortStr<'a>, Value<'a>)> {
        // Fails at the end alone, what is inside has been checked.
        let (rest, entry) = entry(self.rest).ok()?;
        self.rest = rest;
        Some(entry)
    }
}

impl FusedIterator for TableIter<'_> {}

fn entry(input: &[u8]) -> Parsed<'_, (ShortStr<'_>, Value<'_>)> {
    let (rest, key) = short_str(input)?;
    let (rest, value) = value::value(rest)?;
    Ok((rest, (key, value)))
}

impl<'t> IntoIterator for &'t Table<'_> {
    type Item = (ShortStr<'t>, Value<'t>);
    type IntoIter = TableIter<'t>;

    fn into_iter(self) -> TableIter<'t> {
        self.iter()
    }
}

/// In the order given, duplicate keys included.
impl<'k, 'v, V: Into<Value<'v>>> FromIterator<(ShortStr<'k>, V)> for Table<'_> {
    fn from_iter<I: IntoIterator<Item = (ShortStr<'k>, V)>>(entries: I) -> Self {
        let mut table = Self::default();
        table.extend(entries);
        table
    }
}

/// Appends in the order given, duplicate keys included.
impl<'k, 'v, V: Into<Value<'v>>> Extend<(ShortStr<'k>, V)> for Table<'_> {
    fn extend<I: IntoIterator<Item = (ShortStr<'k>, V)>>(&mut self, entries: I) {
        let mut content = self.as_bytes().to_vec();
        for (key, value) in entries {
            write_entry(&mut content, &key, &value.into());
        }
        self.0 = content.into();
    }
}

/// In the order given, duplicate keys included.
impl<'k, 'v, V: Into<Value<'v>>, const N: usize> From<[(ShortStr<'k>, V); N]> for Table<'_> {
    fn from(entries: [(ShortStr<'k>, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a> From<Table<'a>> for RawTable<'a> {
    fn from(table: Table<'a>) -> Self {
        Self(table.0)
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_to_depth(f, DEBUG_DEPTH)
    }
}

/// As a table if it is one within the default limits, else as bytes.
impl fmt::Debug for RawTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode(&Limits::default()) {
            Ok(table) => table.fmt(f),
            Err(_) => {
                f.write_str("RawTable(")?;
                self.0.fmt_quoted(f)?;
                f.write_str(")")
            }
        }
    }
}

/// A [`Table`] of literal keys, their lengths checked while compiling.
///
/// ```
/// use amqp_codec::{Array, table};
///
/// let arguments = table! {
///     "x-queue-type" => "quorum",
///     "x-delivery-limit" => 5,
///     "CC" => Array::from(["a", "b"]),
/// };
/// assert_eq!(arguments.len(), 3);
/// ```
#[macro_export]
macro_rules! table {
    () => {
        $crate::Table::EMPTY
    };
    ($($key:expr => $value:expr),* $(,)?) => {
        <$crate::Table<'_> as ::core::convert::From<_>>::from([
            $(($crate::short!($key), $crate::Value::from($value))),+
        ])
    };
}
