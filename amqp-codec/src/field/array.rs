use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;

use super::Value;
use super::value::{self, DEBUG_DEPTH, ToDepth};
use crate::string::ByteStr;

/// A list of values, not necessarily of one type, in its encoded form.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Array<'a>(ByteStr<'a>);

impl<'a> Array<'a> {
    /// The array without values.
    pub const EMPTY: Array<'static> = Array(ByteStr::EMPTY);

    /// One whose content has been checked, as a part of what was.
    pub(super) fn trusted(content: &'a [u8]) -> Self {
        Self(ByteStr::Borrowed(content))
    }

    pub(super) fn into_borrowed(self) -> Option<&'a [u8]> {
        self.0.into_borrowed()
    }

    /// The encoded values, without the length that goes before them.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The values in order.
    pub fn iter(&self) -> ArrayIter<'_> {
        ArrayIter::over(self.as_bytes())
    }

    /// How many values there are. Counts them.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// The value at `index`, counted from 0.
    pub fn get(&self, index: usize) -> Option<Value<'_>> {
        self.iter().nth(index)
    }

    /// Appends a value.
    pub fn push<'v>(&mut self, value: impl Into<Value<'v>>) {
        self.extend([value]);
    }

    /// A view that borrows from this one.
    #[must_use]
    pub fn as_borrowed(&self) -> Array<'_> {
        Array(self.0.as_borrowed())
    }

    /// One that owns its bytes.
    #[must_use]
    pub fn into_owned(self) -> Array<'static> {
        Array(self.0.into_owned())
    }

    pub(super) fn fmt_to_depth(&self, f: &mut fmt::Formatter<'_>, depth: u8) -> fmt::Result {
        match depth.checked_sub(1) {
            Some(depth) => f
                .debug_list()
                .entries(self.iter().map(|value| ToDepth(value, depth)))
                .finish(),
            None => f.write_str("[..]"),
        }
    }
}

/// The values of an [`Array`].
#[derive(Debug, Clone)]
pub struct ArrayIter<'a> {
    rest: &'a [u8],
}

impl<'a> ArrayIter<'a> {
    /// Over the content of an array that has been checked.
    pub(super) fn over(content: &'a [u8]) -> Self {
        Self { rest: content }
    }
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        // Fails at the end alone, what is inside has been checked.
        let (rest, value) = value::value(self.rest).ok()?;
        self.rest = rest;
        Some(value)
    }
}

impl FusedIterator for ArrayIter<'_> {}

impl<'t> IntoIterator for &'t Array<'_> {
    type Item = Value<'t>;
    type IntoIter = ArrayIter<'t>;

    fn into_iter(self) -> ArrayIter<'t> {
        self.iter()
    }
}

impl<'v, V: Into<Value<'v>>> FromIterator<V> for Array<'_> {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        let mut content = Vec::new();
        for value in values {
            value.into().write(&mut content);
        }
        Self(content.into())
    }
}

impl<'v, V: Into<Value<'v>>> Extend<V> for Array<'_> {
    fn extend<I: IntoIterator<Item = V>>(&mut self, values: I) {
        let mut content = self.as_bytes().to_vec();
        for value in values {
            value.into().write(&mut content);
        }
        self.0 = content.into();
    }
}

impl<'v, V: Into<Value<'v>>, const N: usize> From<[V; N]> for Array<'_> {
    fn from(values: [V; N]) -> Self {
        values.into_iter().collect()
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_to_depth(f, DEBUG_DEPTH)
    }
}
