//! `Arbitrary` for tables and what is in them, as peers may send them: every tag, odd booleans, duplicate keys, strings
//! that are no text. Written without the help of what builds tables, which makes none of these.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "no peer's bytes come here, and what is made of a fuzzer's is small"
)]

use alloc::vec::Vec;

use arbitrary::{Arbitrary, Error, Result, Unstructured};

use super::value::{Shape, shape};
use super::{Array, RawTable, Table, Value};
use crate::{Limits, ShortStr};

/// How many tables and arrays lie inside each other at most, the outermost one counted.
const DEPTH: usize = 8;
/// How many entries or elements each has at most.
const ENTRIES: usize = 16;

/// Few, so that some come twice.
const KEYS: &[ShortStr<'static>] = &[
    ShortStr::EMPTY,
    ShortStr::from_static("a"),
    ShortStr::from_static("b"),
    ShortStr::from_static("x-death"),
    ShortStr::from_static("CC"),
];

const LEAVES: &[u8] = b"tbBsuIilLfdDSTVx";
const NESTED: &[u8] = b"AF";

/// Valid, at most eight deep, within the default [`Limits`].
impl<'a> Arbitrary<'a> for Table<'a> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut content = Vec::new();
        put_entries(u, &mut content, DEPTH)?;
        table(&content)
    }
}

/// As often as not a valid [`Table`], else any bytes.
impl<'a> Arbitrary<'a> for RawTable<'a> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        match u.arbitrary()? {
            true => u.arbitrary::<Table<'_>>().map(Self::from),
            false => u.arbitrary().map(Self::from_bytes),
        }
    }
}

/// Valid, at most seven deep.
impl<'a> Arbitrary<'a> for Array<'a> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        match lone_value(u, b"A")? {
            Value::Array(array) => Ok(array),
            _ => Err(Error::IncorrectFormat),
        }
    }
}

/// Of any type; tables and arrays as above.
impl<'a> Arbitrary<'a> for Value<'a> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let tags = [LEAVES, NESTED].concat();
        lone_value(u, &tags)
    }
}

/// The value of a table with one entry.
fn lone_value<'a>(u: &mut Unstructured<'_>, tags: &[u8]) -> Result<Value<'a>> {
    let mut content = Vec::from([0]);
    put_value(u, &mut content, tags, DEPTH - 1)?;
    let table = table(&content)?;
    let value = table.get("").ok_or(Error::IncorrectFormat)?;
    Ok(value.into_owned())
}

fn table(content: &[u8]) -> Result<Table<'static>> {
    let table = Table::decode(content, &Limits::default());
    // Never: what is written here is a table, and far within the limits.
    let table = table.map_err(|_| Error::IncorrectFormat)?;
    Ok(table.into_owned())
}

fn put_entries(u: &mut Unstructured<'_>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    put_some(u, out, |u, out| {
        match u.arbitrary()? {
            true => u.choose(KEYS)?.encode(out),
            false => u.arbitrary::<ShortStr<'_>>()?.encode(out),
        }
        put_any_value(u, out, depth)
    })
}

fn put_any_value(u: &mut Unstructured<'_>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    let inner = depth - 1;
    match inner > 0 && u.ratio(1, 4)? {
        true => put_value(u, out, NESTED, inner),
        false => put_value(u, out, LEAVES, inner),
    }
}

/// A tag, one of `tags`, and a value; up to `depth` tables and arrays inside each other.
fn put_value(u: &mut Unstructured<'_>, out: &mut Vec<u8>, tags: &[u8], depth: usize) -> Result<()> {
    let tag = *u.choose(tags)?;
    out.push(tag);
    match shape(tag).ok_or(Error::IncorrectFormat)? {
        Shape::Fixed(len) => {
            let at = out.len();
            out.resize(at + len, 0);
            u.fill_buffer(&mut out[at..])
        }
        Shape::Bytes => put_long(out, |out| {
            let bytes = u.arbitrary::<ShortStr<'_>>()?;
            out.extend_from_slice(bytes.as_bytes());
            Ok(())
        }),
        Shape::Table => put_long(out, |out| put_entries(u, out, depth)),
        Shape::Array => put_long(out, |out| {
            put_some(u, out, |u, out| put_any_value(u, out, depth))
        }),
    }
}

/// Puts none, one or several, fewer the less there is to make them of.
fn put_some<'a>(
    u: &mut Unstructured<'a>,
    out: &mut Vec<u8>,
    mut put: impl FnMut(&mut Unstructured<'a>, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    for _ in 0..ENTRIES {
        if u.is_empty() || u.ratio(1, 4)? {
            break;
        }
        put(u, out)?;
    }
    Ok(())
}

/// What `put` writes, behind its length in 32 bits.
fn put_long(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out)?;
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}
