use alloc::vec;
use alloc::vec::Vec;

use super::array::ArrayIter;
use super::table::TableIter;
use super::{Table, Value};
use crate::ShortStr;

impl Table<'_> {
    /// Whether both mean the same: order does not count, of a repeated key the first value does. Integers are equal by
    /// number whatever their type, floats of one type by their bits; arrays keep their order. Brokers that re-encode
    /// headers (RabbitMQ from 4.0 on) keep this equality, not that of the bytes.
    pub fn eq_as_map(&self, other: &Table<'_>) -> bool {
        all_equal(vec![Pair::Tables(self.as_bytes(), other.as_bytes())])
    }

    /// Whether this table says all that `sent` does, in the sense of [`eq_as_map`](Self::eq_as_map), the keys in
    /// `except` aside. It may say more at the top level.
    pub fn contains_as_map(&self, sent: &Table<'_>, except: &[&str]) -> bool {
        self == sent || self.to_map().beyond(sent, except).is_some()
    }

    /// The table as a map, for who compares it with many.
    pub fn to_map(&self) -> TableMap<'_> {
        TableMap {
            entries: first_entries(self.as_bytes()),
        }
    }
}

/// A table as a map: of a repeated key the first value counts. It is made once, so that comparing it costs what the other
/// side has.
#[derive(Debug, Clone, Default)]
pub struct TableMap<'t> {
    /// By key.
    entries: Vec<(ShortStr<'t>, Value<'t>)>,
}

impl TableMap<'_> {
    /// How many keys it has beside those of `sent`, if it says all that `sent` does as
    /// [`Table::contains_as_map`] has it.
    pub fn beyond(&self, sent: &Table<'_>, except: &[&str]) -> Option<usize> {
        let mut pending = Vec::new();
        let mut shared = 0_usize;
        for (key, value) in first_entries(sent.as_bytes()) {
            let found = self.entries.binary_search_by(|(name, _)| name.cmp(&key));
            let own = found.ok().and_then(|index| self.entries.get(index));
            shared = shared.saturating_add(usize::from(own.is_some()));
            if except.iter().any(|name| key == *name) {
                continue;
            }
            let (_, own) = own?;
            if !same(value, own.clone(), &mut pending) {
                return None;
            }
        }
        all_equal(pending).then(|| self.entries.len().saturating_sub(shared))
    }
}

/// Contents that have to be equal.
enum Pair<'t> {
    Tables(&'t [u8], &'t [u8]),
    Arrays(&'t [u8], &'t [u8]),
}

/// Works through the pairs and those found inside them: a list, not recursion, for tables of any depth.
fn all_equal(mut pending: Vec<Pair<'_>>) -> bool {
    while let Some(pair) = pending.pop() {
        let equal = match pair {
            Pair::Tables(left, right) if left == right => true,
            Pair::Tables(left, right) => {
                let (left, right) = (first_entries(left), first_entries(right));
                left.len() == right.len()
                    && left
                        .into_iter()
                        .zip(right)
                        .all(|((left_key, left), (right_key, right))| {
                            left_key == right_key && same(left, right, &mut pending)
                        })
            }
            Pair::Arrays(left, right) => {
                let mut right = ArrayIter::over(right);
                ArrayIter::over(left).all(|left| {
                    right
                        .next()
                        .is_some_and(|right| same(left, right, &mut pending))
                }) && right.next().is_none()
            }
        };
        if !equal {
            return false;
        }
    }
    true
}

/// The entries by key, of each key the first.
fn first_entries(content: &[u8]) -> Vec<(ShortStr<'_>, Value<'_>)> {
    let mut entries: Vec<_> = TableIter::over(content).collect();
    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    entries.dedup_by(|(later, _), (first, _)| later == first);
    entries
}

/// Whether two values are the same as far as can be seen without looking into them; what is inside becomes pending.
fn same<'t>(left: Value<'t>, right: Value<'t>, pending: &mut Vec<Pair<'t>>) -> bool {
    match (left, right) {
        (Value::Table(left), Value::Table(right)) => {
            let pair = left.into_borrowed().zip(right.into_borrowed());
            pending.extend(pair.map(|(left, right)| Pair::Tables(left, right)));
            pair.is_some()
        }
        (Value::Array(left), Value::Array(right)) => {
            let pair = left.into_borrowed().zip(right.into_borrowed());
            pending.extend(pair.map(|(left, right)| Pair::Arrays(left, right)));
            pair.is_some()
        }
        (Value::F32(left), Value::F32(right)) => left.to_bits() == right.to_bits(),
        (Value::F64(left), Value::F64(right)) => left.to_bits() == right.to_bits(),
        (left, right) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left == right,
            _ => left == right,
        },
    }
}
