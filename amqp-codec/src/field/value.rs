use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::num::TryFromIntError;

use super::{Array, Table};
use crate::primitive::{Parsed, be_u8, be_u16, be_u32, be_u64, fail, long_bytes, long_str, take};
use crate::{DecodeErrorKind, LongStr, ShortStr};

/// A value in a table or array: the types that RabbitMQ reads and writes, each with its tag.
#[derive(Clone, PartialEq)]
pub enum Value<'a> {
    /// `t`. On the wire any octet other than 0 is true.
    Bool(bool),
    /// `b`, signed 8 bits.
    I8(i8),
    /// `B`, unsigned 8 bits.
    U8(u8),
    /// `s`, signed 16 bits.
    I16(i16),
    /// `u`, unsigned 16 bits.
    U16(u16),
    /// `I`, signed 32 bits.
    I32(i32),
    /// `i`, unsigned 32 bits.
    U32(u32),
    /// `l`, signed 64 bits. `L` is read as the same; what is built here gets `l`.
    I64(i64),
    /// `f`.
    F32(f32),
    /// `d`.
    F64(f64),
    /// `D`.
    Decimal(Decimal),
    /// `S`, usually text.
    LongStr(LongStr<'a>),
    /// `A`.
    Array(Array<'a>),
    /// `T`, seconds since 1970-01-01 UTC.
    Timestamp(u64),
    /// `F`.
    Table(Table<'a>),
    /// `V`, no value.
    Void,
    /// `x`, bytes that are not text.
    Bytes(LongStr<'a>),
}

/// A decimal number: `value` divided by ten to the power of `scale`.
///
/// The value is signed as in the errata of the specification; RabbitMQ takes it for unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Decimal {
    /// The number of digits after the point.
    pub scale: u8,
    /// The digits.
    pub value: i32,
}

impl Value<'_> {
    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The number, if it is an integer of whatever type.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::I8(value) => Some(value.into()),
            Self::U8(value) => Some(value.into()),
            Self::I16(value) => Some(value.into()),
            Self::U16(value) => Some(value.into()),
            Self::I32(value) => Some(value.into()),
            Self::U32(value) => Some(value.into()),
            Self::I64(value) => Some(value),
            _ => None,
        }
    }

    /// The number, if it is an integer of whatever type and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i64()?.try_into().ok()
    }

    /// The number, if it is a float of either size.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(value) => Some(value.into()),
            Self::F64(value) => Some(value),
            _ => None,
        }
    }

    /// The text, if it is a [`LongStr`](Self::LongStr) and UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::LongStr(value) => value.as_str().ok(),
            _ => None,
        }
    }

    /// The bytes, if it is a [`LongStr`](Self::LongStr) or [`Bytes`](Self::Bytes).
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::LongStr(value) | Self::Bytes(value) => Some(value.as_bytes()),
            _ => None,
        }
    }

    /// The table, if it is one.
    pub fn as_table(&self) -> Option<&Table<'_>> {
        match self {
            Self::Table(value) => Some(value),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub fn as_array(&self) -> Option<&Array<'_>> {
        match self {
            Self::Array(value) => Some(value),
            _ => None,
        }
    }

    /// The timestamp in seconds since 1970-01-01 UTC, if it is one.
    pub fn as_timestamp(&self) -> Option<u64> {
        match *self {
            Self::Timestamp(value) => Some(value),
            _ => None,
        }
    }

    /// One that owns its bytes.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::I8(value) => Value::I8(value),
            Self::U8(value) => Value::U8(value),
            Self::I16(value) => Value::I16(value),
            Self::U16(value) => Value::U16(value),
            Self::I32(value) => Value::I32(value),
            Self::U32(value) => Value::U32(value),
            Self::I64(value) => Value::I64(value),
            Self::F32(value) => Value::F32(value),
            Self::F64(value) => Value::F64(value),
            Self::Decimal(value) => Value::Decimal(value),
            Self::LongStr(value) => Value::LongStr(value.into_owned()),
            Self::Array(value) => Value::Array(value.into_owned()),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::Table(value) => Value::Table(value.into_owned()),
            Self::Void => Value::Void,
            Self::Bytes(value) => Value::Bytes(value.into_owned()),
        }
    }

    /// Appends the tag and the value. A length beyond 32 bits saturates; what holds it is then too long as well and
    /// says so when it is encoded.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => out.extend_from_slice(&[b't', u8::from(*value)]),
            Self::I8(value) => put(out, b'b', value.to_be_bytes()),
            Self::U8(value) => put(out, b'B', value.to_be_bytes()),
            Self::I16(value) => put(out, b's', value.to_be_bytes()),
            Self::U16(value) => put(out, b'u', value.to_be_bytes()),
            Self::I32(value) => put(out, b'I', value.to_be_bytes()),
            Self::U32(value) => put(out, b'i', value.to_be_bytes()),
            Self::I64(value) => put(out, b'l', value.to_be_bytes()),
            Self::F32(value) => put(out, b'f', value.to_be_bytes()),
            Self::F64(value) => put(out, b'd', value.to_be_bytes()),
            Self::Decimal(Decimal { scale, value }) => {
                out.extend_from_slice(&[b'D', *scale]);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Self::LongStr(value) => put_long(out, b'S', value.as_bytes()),
            Self::Array(value) => put_long(out, b'A', value.as_bytes()),
            Self::Timestamp(value) => put(out, b'T', value.to_be_bytes()),
            Self::Table(value) => put_long(out, b'F', value.as_bytes()),
            Self::Void => out.push(b'V'),
            Self::Bytes(value) => put_long(out, b'x', value.as_bytes()),
        }
    }
}

fn put<const N: usize>(out: &mut Vec<u8>, tag: u8, bytes: [u8; N]) {
    out.push(tag);
    out.extend_from_slice(&bytes);
}

fn put_long(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    put(
        out,
        tag,
        u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes(),
    );
    out.extend_from_slice(bytes);
}

/// What follows a tag.
pub(super) enum Shape {
    Fixed(usize),
    Bytes,
    Table,
    Array,
}

pub(super) fn shape(tag: u8) -> Option<Shape> {
    Some(match tag {
        b'V' => Shape::Fixed(0),
        b't' | b'b' | b'B' => Shape::Fixed(1),
        b's' | b'u' => Shape::Fixed(2),
        b'I' | b'i' | b'f' => Shape::Fixed(4),
        b'D' => Shape::Fixed(5),
        b'l' | b'L' | b'd' | b'T' => Shape::Fixed(8),
        b'S' | b'x' => Shape::Bytes,
        b'F' => Shape::Table,
        b'A' => Shape::Array,
        _ => return None,
    })
}

/// A tag and its value. Tables and arrays are taken as they are: the input has been checked.
pub(super) fn value(input: &[u8]) -> Parsed<'_, Value<'_>> {
    let (rest, tag) = be_u8(input)?;
    match tag {
        b't' => be_u8(rest).map(then(|value| Value::Bool(value != 0))),
        b'b' => be_u8(rest).map(then(|value: u8| Value::I8(value.cast_signed()))),
        b'B' => be_u8(rest).map(then(Value::U8)),
        b's' => be_u16(rest).map(then(|value: u16| Value::I16(value.cast_signed()))),
        b'u' => be_u16(rest).map(then(Value::U16)),
        b'I' => be_u32(rest).map(then(|value: u32| Value::I32(value.cast_signed()))),
        b'i' => be_u32(rest).map(then(Value::U32)),
        b'l' | b'L' => be_u64(rest).map(then(|value: u64| Value::I64(value.cast_signed()))),
        b'f' => be_u32(rest).map(then(|value| Value::F32(f32::from_bits(value)))),
        b'd' => be_u64(rest).map(then(|value| Value::F64(f64::from_bits(value)))),
        b'D' => {
            let (rest, scale) = be_u8(rest)?;
            let (rest, value) = be_u32(rest)?;
            Ok((
                rest,
                Value::Decimal(Decimal {
                    scale,
                    value: value.cast_signed(),
                }),
            ))
        }
        b'S' => long_str(rest).map(then(Value::LongStr)),
        b'A' => long_bytes(rest).map(then(|bytes| Value::Array(Array::trusted(bytes)))),
        b'T' => be_u64(rest).map(then(Value::Timestamp)),
        b'F' => long_bytes(rest).map(then(|bytes| Value::Table(Table::trusted(bytes)))),
        b'V' => Ok((rest, Value::Void)),
        b'x' => long_str(rest).map(then(Value::Bytes)),
        _ => fail(input, DecodeErrorKind::UnknownFieldType(tag)),
    }
}

/// Past a tag and its value, without looking into it.
pub(super) fn skip(input: &[u8]) -> Parsed<'_, ()> {
    let (rest, tag) = be_u8(input)?;
    let (rest, _) = match shape(tag) {
        Some(Shape::Fixed(len)) => take(rest, len)?,
        Some(Shape::Bytes | Shape::Table | Shape::Array) => long_bytes(rest)?,
        None => return fail(input, DecodeErrorKind::UnknownFieldType(tag)),
    };
    Ok((rest, ()))
}

fn then<R, T, U>(make: impl FnOnce(T) -> U) -> impl FnOnce((R, T)) -> (R, U) {
    |(rest, value)| (rest, make(value))
}

macro_rules! value_from {
    ($($source:ty => $variant:ident),* $(,)?) => {$(
        impl<'a> From<$source> for Value<'a> {
            fn from(source: $source) -> Self {
                Self::$variant(source.into())
            }
        }
    )*};
}

value_from! {
    bool => Bool,
    i8 => I8,
    u8 => U8,
    i16 => I16,
    u16 => U16,
    i32 => I32,
    u32 => U32,
    i64 => I64,
    f32 => F32,
    f64 => F64,
    Decimal => Decimal,
    &'a str => LongStr,
    String => LongStr,
    &String => LongStr,
    Cow<'a, str> => LongStr,
    ShortStr<'a> => LongStr,
    LongStr<'a> => LongStr,
    Array<'a> => Array,
    Table<'a> => Table,
    &'a [u8] => Bytes,
    Vec<u8> => Bytes,
}

/// AMQP has no unsigned 64-bit field that brokers understand: it becomes `l` where it fits.
impl TryFrom<u64> for Value<'_> {
    type Error = TryFromIntError;

    fn try_from(source: u64) -> Result<Self, TryFromIntError> {
        i64::try_from(source).map(Self::I64)
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_to_depth(f, DEBUG_DEPTH)
    }
}

/// How deep `Debug` looks into a table; beyond it prints `{..}` or `[..]`.
pub(super) const DEBUG_DEPTH: u8 = 16;

impl Value<'_> {
    fn fmt_to_depth(&self, f: &mut fmt::Formatter<'_>, depth: u8) -> fmt::Result {
        match self {
            Self::Bool(value) => fmt::Debug::fmt(value, f),
            Self::I8(value) => f.debug_tuple("I8").field(value).finish(),
            Self::U8(value) => f.debug_tuple("U8").field(value).finish(),
            Self::I16(value) => f.debug_tuple("I16").field(value).finish(),
            Self::U16(value) => f.debug_tuple("U16").field(value).finish(),
            Self::I32(value) => f.debug_tuple("I32").field(value).finish(),
            Self::U32(value) => f.debug_tuple("U32").field(value).finish(),
            Self::I64(value) => f.debug_tuple("I64").field(value).finish(),
            Self::F32(value) => f.debug_tuple("F32").field(value).finish(),
            Self::F64(value) => f.debug_tuple("F64").field(value).finish(),
            Self::Decimal(value) => fmt::Debug::fmt(value, f),
            Self::LongStr(value) => fmt::Debug::fmt(value, f),
            Self::Array(value) => value.fmt_to_depth(f, depth),
            Self::Timestamp(value) => f.debug_tuple("Timestamp").field(value).finish(),
            Self::Table(value) => value.fmt_to_depth(f, depth),
            Self::Void => f.write_str("Void"),
            Self::Bytes(value) => f.debug_tuple("Bytes").field(value).finish(),
        }
    }
}

/// A value for `Debug` with what is left of the depth.
pub(super) struct ToDepth<'a>(pub(super) Value<'a>, pub(super) u8);

impl fmt::Debug for ToDepth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_to_depth(f, self.1)
    }
}
