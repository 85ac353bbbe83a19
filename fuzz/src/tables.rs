use amqp_codec::field::Array;
use amqp_codec::{Limits, RawTable, ShortStr, Table, Value};

use crate::encoded;

/// The content of a table behind two bytes of limits: it is accepted if a plain reading of the rules accepts it, and
/// what is accepted can be read, copied and changed.
pub fn tables(data: &[u8]) {
    let Some(([depth, entries], content)) = data.split_first_chunk() else {
        return;
    };
    let limits = Limits {
        table_depth: u16::from(*depth),
        table_entries: u32::from(*entries),
        ..Limits::default()
    };
    let mut counted = Rules {
        entries: limits.table_entries,
    };
    let valid = counted.table(content, limits.table_depth).is_some();
    let raw = RawTable::from_bytes(content);
    let _ = format!("{raw:?}");
    let table = match raw.decode(&limits) {
        Ok(table) => table,
        Err(error) => {
            assert!(!valid, "refused: {error}");
            assert!(error.offset <= content.len() as u64, "{error}");
            assert!(error.reply_code().is_hard(), "{error}");
            return;
        }
    };
    assert!(valid, "accepted: {table:?}");
    assert_eq!(table.as_bytes(), content);
    // More than it needs changes nothing.
    assert_eq!(raw.decode(&Limits::default()).as_ref(), Ok(&table));
    check_table(&table);
    check_changes(&table);
}

/// The rules, read off the specification and what RabbitMQ does: a recursion, for depths of 255 at the most.
struct Rules {
    /// How many entries and elements there may still be.
    entries: u32,
}

impl Rules {
    fn table(&mut self, mut content: &[u8], depth: u16) -> Option<()> {
        while !content.is_empty() {
            self.enter(depth)?;
            let (len, rest) = content.split_first()?;
            content = self.value(rest.get(usize::from(*len)..)?, depth)?;
        }
        Some(())
    }

    fn array(&mut self, mut content: &[u8], depth: u16) -> Option<()> {
        while !content.is_empty() {
            self.enter(depth)?;
            content = self.value(content, depth)?;
        }
        Some(())
    }

    fn enter(&mut self, depth: u16) -> Option<()> {
        self.entries = self.entries.checked_sub(1)?;
        (depth > 0).then_some(())
    }

    /// What follows the value.
    fn value<'a>(&mut self, content: &'a [u8], depth: u16) -> Option<&'a [u8]> {
        let (tag, rest) = content.split_first()?;
        let fixed = match tag {
            b'V' => 0,
            b't' | b'b' | b'B' => 1,
            b's' | b'u' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'l' | b'L' | b'd' | b'T' => 8,
            b'S' | b'x' | b'F' | b'A' => {
                let (len, rest) = rest.split_first_chunk()?;
                let (inner, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
                match tag {
                    b'F' => self.table(inner, depth - 1)?,
                    b'A' => self.array(inner, depth - 1)?,
                    _ => {}
                }
                return Some(rest);
            }
            _ => return None,
        };
        rest.get(fixed..)
    }
}

/// Everything that can be read off a table agrees.
pub(crate) fn check_table(table: &Table<'_>) {
    let rebuilt: Table<'_> = table.iter().collect();
    assert_eq!(rebuilt.as_bytes().len(), table.as_bytes().len());
    assert!(rebuilt.eq_as_map(table) && table.eq_as_map(&rebuilt));
    assert!(table.contains_as_map(&rebuilt, &[]));
    assert_eq!(rebuilt.has_non_finite(), table.has_non_finite());
    assert_eq!(table.clone().into_owned(), *table);
    assert_eq!(table.len(), rebuilt.len());
    assert_eq!(table.is_empty(), table.iter().next().is_none());

    let with_length = encoded(|bytes| table.encode(bytes));
    assert_eq!(with_length.len(), table.encoded_len());
    assert_eq!(with_length[4..], *table.as_bytes());

    let mut seen: Vec<ShortStr<'_>> = Vec::new();
    for (key, value) in table {
        check_value(&value);
        if !seen.contains(&key) {
            let first = table.get(&key).expect("a key of the table's");
            // By what is shown: what is not a number is not even equal to itself.
            assert_eq!(format!("{first:?}"), format!("{value:?}"));
            seen.push(key);
        }
    }
}

fn check_value(value: &Value<'_>) {
    let shown = format!("{value:?}");
    assert_eq!(format!("{:?}", value.clone().into_owned()), shown);
    if let Some(number) = value.as_u64() {
        assert_eq!(value.as_i64(), i64::try_from(number).ok());
    }
    let read_as = [
        value.as_bool().is_some(),
        value.as_i64().is_some(),
        value.as_f64().is_some(),
        value.as_bytes().is_some(),
        value.as_table().is_some(),
        value.as_array().is_some(),
        value.as_timestamp().is_some(),
        matches!(value, Value::Void | Value::Decimal(_)),
    ];
    assert_eq!(read_as.into_iter().filter(|read| *read).count(), 1);
    if let Some(array) = value.as_array() {
        check_array(array);
    }
}

fn check_array(array: &Array<'_>) {
    let rebuilt: Array<'_> = array.iter().collect();
    assert_eq!(rebuilt.as_bytes().len(), array.as_bytes().len());
    let last = array.len().checked_sub(1).and_then(|last| array.get(last));
    assert_eq!(last.is_none(), array.is_empty());
    assert!(array.get(array.len()).is_none());
}

/// Keys are set and taken out, and the rest stays as it is.
fn check_changes(table: &Table<'_>) {
    let Some((key, _)) = table.iter().last() else {
        return;
    };
    let others = |table: &Table<'_>| -> Vec<u8> {
        let others = table.iter().filter(|(name, _)| *name != key);
        others.collect::<Table<'_>>().as_bytes().to_vec()
    };
    let mut changed = table.clone().into_owned();
    changed
        .insert(key.clone(), 7_i16)
        .expect("a key that is there");
    assert_eq!(changed.len(), table.len());
    assert_eq!(changed.get_i64(&key), Some(7));
    assert_eq!(others(&changed), others(table));

    let removed = changed.remove(&key);
    assert_eq!(removed, Some(Value::I16(7)));
    assert!(!changed.contains_key(&key));
    assert_eq!(others(&changed), others(table));
    assert_eq!(changed.remove(&key), None);
}
