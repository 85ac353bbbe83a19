use alloc::vec;
use alloc::vec::Vec;

use super::array::ArrayIter;
use super::table::TableIter;
use super::{Table, Value};

impl Table<'_> {
    /// Whether a float in it, at any depth, is infinite or not a number. RabbitMQ closes the connection (541) when it
    /// is sent one.
    pub fn has_non_finite(&self) -> bool {
        let mut pending = vec![Nested::Table(self.as_bytes())];
        while let Some(next) = pending.pop() {
            let found = match next {
                Nested::Table(content) => {
                    TableIter::over(content).any(|(_, value)| is_non_finite(value, &mut pending))
                }
                Nested::Array(content) => {
                    ArrayIter::over(content).any(|value| is_non_finite(value, &mut pending))
                }
            };
            if found {
                return true;
            }
        }
        false
    }
}

/// A content to be looked into: a list of them, not recursion, for tables of any depth.
enum Nested<'t> {
    Table(&'t [u8]),
    Array(&'t [u8]),
}

fn is_non_finite<'t>(value: Value<'t>, pending: &mut Vec<Nested<'t>>) -> bool {
    match value {
        Value::F32(value) => return !value.is_finite(),
        Value::F64(value) => return !value.is_finite(),
        Value::Table(table) => pending.extend(table.into_borrowed().map(Nested::Table)),
        Value::Array(array) => pending.extend(array.into_borrowed().map(Nested::Array)),
        _ => {}
    }
    false
}
