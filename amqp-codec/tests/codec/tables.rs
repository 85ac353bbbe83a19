use amqp_codec::{
    Array, Decimal, DecodeErrorKind, Limits, LongStr, RawTable, ShortStr, Table, TooLong, Value,
    short, table,
};
use proptest::prelude::*;

use crate::strategies;

fn decode(content: &[u8]) -> Table<'static> {
    Table::decode(content, &Limits::default())
        .unwrap()
        .into_owned()
}

fn failure(content: &[u8], limits: Limits) -> (DecodeErrorKind, u64) {
    let error = Table::decode(content, &limits).unwrap_err();
    (error.kind, error.offset)
}

/// Each type of value: its bytes as RabbitMQ reads and writes them.
#[test]
fn every_type() {
    let nested = table! { "k" => true };
    for (bytes, value) in [
        (&b"t\x01"[..], Value::Bool(true)),
        (b"t\x00", Value::Bool(false)),
        (b"b\x80", Value::I8(-128)),
        (b"B\x80", Value::U8(128)),
        (b"s\xff\xfe", Value::I16(-2)),
        (b"u\xff\xfe", Value::U16(65_534)),
        (b"I\xff\xff\xff\xff", Value::I32(-1)),
        (b"i\xff\xff\xff\xff", Value::U32(4_294_967_295)),
        (b"l\x80\x00\x00\x00\x00\x00\x00\x00", Value::I64(i64::MIN)),
        (b"f\x3f\xc0\x00\x00", Value::F32(1.5)),
        (b"d\xc0\x04\x00\x00\x00\x00\x00\x00", Value::F64(-2.5)),
        (
            b"D\x02\xff\xff\xff\x85",
            Value::Decimal(Decimal {
                scale: 2,
                value: -123,
            }),
        ),
        (b"S\x00\x00\x00\x02hi", Value::LongStr("hi".into())),
        (
            b"A\x00\x00\x00\x03Vt\x01",
            Array::from([Value::Void, Value::Bool(true)]).into(),
        ),
        (
            b"T\xff\xff\xff\xff\xff\xff\xff\xff",
            Value::Timestamp(u64::MAX),
        ),
        (b"F\x00\x00\x00\x04\x01kt\x01", nested.into()),
        (b"V", Value::Void),
        (
            b"x\x00\x00\x00\x02\x00\xff",
            Value::Bytes(b"\x00\xff".into()),
        ),
    ] {
        let content = [b"\x01k", bytes].concat();
        let table = decode(&content);
        assert_eq!(
            table.iter().collect::<Vec<_>>(),
            [(short!("k"), value.clone())]
        );
        assert_eq!(Table::from([(short!("k"), value)]).as_bytes(), content);
    }
    // `L` is read as `l` and keeps its letter.
    let table = decode(b"\x01kL\xff\xff\xff\xff\xff\xff\xff\xfe");
    assert_eq!(table.get("k"), Some(Value::I64(-2)));
    assert_eq!(table.as_bytes()[2], b'L');
    // So does a bool that is neither 0 nor 1.
    assert_eq!(decode(b"\x01kt\x07").get_bool("k"), Some(true));
}

#[test]
fn every_other_letter_is_refused() {
    let known = b"tbBsuIilLfdDSATFVx";
    for tag in 0..=255 {
        let content = [b'\x01', b'k', tag, 0, 0, 0, 0, 0, 0, 0, 0];
        match Table::decode(&content, &Limits::default()) {
            Err(error) if error.kind == DecodeErrorKind::UnknownFieldType(tag) => {
                assert!(!known.contains(&tag));
                assert_eq!(error.offset, 2);
            }
            _ => assert!(known.contains(&tag), "{tag:#04x}"),
        }
    }
}

#[test]
fn malformed() {
    let limits = Limits::default();
    use DecodeErrorKind::*;
    assert_eq!(failure(b"\x02k", limits), (Truncated, 1));
    assert_eq!(failure(b"\x01k", limits), (Truncated, 2));
    assert_eq!(failure(b"\x01kI\0\0\0", limits), (Truncated, 3));
    assert_eq!(failure(b"\x01kS\0\0\0\x03ab", limits), (Truncated, 7));
    // A nested table that ends within a value of its own, although the outer one goes on.
    assert_eq!(
        failure(b"\x01aF\0\0\0\x04\x01bI\0\0\0\0\x01cV", limits),
        (Truncated, 10)
    );
    // The same after a nested table that is whole: positions count from the outermost content.
    assert_eq!(
        failure(b"\x01aF\0\0\0\x03\x01bV\x01c?", limits),
        (UnknownFieldType(b'?'), 12)
    );
    assert_eq!(
        failure(b"\x01aA\0\0\0\x03VV?V", limits),
        (UnknownFieldType(b'?'), 9)
    );
}

/// Arrays and tables inside each other in turn, each with a second value after the one that holds the rest, so that
/// every end and every kind counts on the way out. At the level of `cut` the second value reaches a byte too far.
fn nested_in_turn(levels: usize, cut: Option<usize>) -> Vec<u8> {
    let mut value = b"V".to_vec();
    for level in 0..levels {
        let (tag, key): (&[u8], &[u8]) = if level % 2 == 0 {
            (b"A", b"")
        } else {
            (b"F", b"\x01k")
        };
        let content = [key, &value, key, b"I\0\0\0V"].concat();
        let len = content.len() - usize::from(cut == Some(level));
        value = [tag, &(len as u32).to_be_bytes(), &content].concat();
    }
    [b"\x01k", &value[..]].concat()
}

#[test]
fn ends_are_kept_at_any_depth() {
    let limits = Limits::default();
    for levels in 1..60 {
        assert!(
            Table::decode(&nested_in_turn(levels, None), &limits).is_ok(),
            "{levels}"
        );
        for cut in 0..levels {
            let (kind, _) = failure(&nested_in_turn(levels, Some(cut)), limits);
            assert_eq!(kind, DecodeErrorKind::Truncated, "{levels}, {cut}");
        }
    }
}

#[test]
fn limits() {
    let entries = |count| Limits {
        table_entries: count,
        ..Limits::default()
    };
    // Three entries, one of them an array of two.
    let content = b"\x01aV\x01bA\0\0\0\x02VV\x01cV";
    assert!(Table::decode(content, &entries(5)).is_ok());
    assert_eq!(
        failure(content, entries(4)),
        (DecodeErrorKind::TableTooLong(4), 12)
    );

    let depth = |depth| Limits {
        table_depth: depth,
        ..Limits::default()
    };
    let content = b"\x01aF\0\0\0\x09\x01bA\0\0\0\x01V";
    let content = &content[..content.len()];
    // The announced 9 bytes are 8: key, tag, length and one value.
    let fixed = [&b"\x01aF\0\0\0\x08"[..], &content[7..]].concat();
    assert!(Table::decode(&fixed, &depth(3)).is_ok());
    assert_eq!(
        failure(&fixed, depth(2)),
        (DecodeErrorKind::TableTooDeep(2), 14)
    );
    // An empty table is not entered.
    assert!(Table::decode(b"", &depth(0)).is_ok());
    assert_eq!(
        failure(b"\x01aV", depth(0)),
        (DecodeErrorKind::TableTooDeep(0), 0)
    );
}

#[test]
fn getters() {
    let table = table! {
        "bool" => true,
        "small" => 7u8,
        "negative" => -7i64,
        "float" => 0.5f32,
        "text" => "text",
        "bytes" => vec![1u8, 2],
        "table" => table! { "in" => 1 },
        "array" => Array::from(["a", "b"]),
        "time" => Value::Timestamp(12),
        "not text" => LongStr::from(b"\xff"),
    };
    assert_eq!(table.get_bool("bool"), Some(true));
    assert_eq!(table.get_i64("small"), Some(7));
    assert_eq!(table.get_u64("small"), Some(7));
    assert_eq!(table.get_i64("negative"), Some(-7));
    assert_eq!(table.get_u64("negative"), None);
    assert_eq!(table.get_f64("float"), Some(0.5));
    assert_eq!(table.get_str("text"), Some("text"));
    assert_eq!(table.get_bytes("text"), Some(&b"text"[..]));
    assert_eq!(table.get_bytes("bytes"), Some(&[1, 2][..]));
    assert_eq!(table.get_str("bytes"), None);
    assert_eq!(table.get_str("not text"), None);
    assert_eq!(table.get_table("table").unwrap().get_i64("in"), Some(1));
    assert_eq!(
        table.get_array("array").unwrap().get(1).unwrap().as_str(),
        Some("b")
    );
    assert_eq!(table.get_timestamp("time"), Some(12));
    assert_eq!(table.get_i64("time"), None);
    assert_eq!(table.get_bool("missing"), None);
    assert!(table.contains_key(b"bool") && !table.contains_key("Bool"));
    assert_eq!(Value::try_from(7u64), Ok(Value::I64(7)));
    assert!(Value::try_from(u64::MAX).is_err());
}

#[test]
fn first_of_duplicates_counts() {
    let table = decode(b"\x01kB\x01\x01kB\x02");
    assert_eq!(table.len(), 2);
    assert_eq!(table.get_i64("k"), Some(1));
}

#[test]
fn insert_and_remove() {
    let mut table = Table::default();
    table.insert("a", 1u8).unwrap();
    table.insert(String::from("b"), "x").unwrap();
    table.insert(short!("c"), Value::Void).unwrap();
    assert_eq!(table.as_bytes(), b"\x01aB\x01\x01bS\0\0\0\x01x\x01cV");
    // In the place of the first, whatever its size.
    table.insert("b", false).unwrap();
    assert_eq!(table.as_bytes(), b"\x01aB\x01\x01bt\x00\x01cV");
    let too_long = "k".repeat(256);
    assert_eq!(table.insert(&too_long, 1), Err(TooLong { len: 256 }));
    assert_eq!(table.len(), 3);

    let mut twice = decode(b"\x01kB\x01\x01aV\x01kB\x02");
    twice.insert("k", 9u8).unwrap();
    assert_eq!(twice.as_bytes(), b"\x01kB\x09\x01aV\x01kB\x02");
    assert_eq!(twice.remove("k"), Some(Value::U8(9)));
    assert_eq!(twice.as_bytes(), b"\x01aV");
    assert_eq!(twice.remove("k"), None);

    let collected = Table::try_from_iter([("a", Value::from(1)), ("b", "x".into())]).unwrap();
    assert_eq!(collected.len(), 2);
    assert_eq!(
        Table::try_from_iter([(too_long, 1)]),
        Err(TooLong { len: 256 })
    );
    let mut extended = collected.clone();
    extended.extend([(short!("a"), 2)]);
    assert_eq!(extended.len(), 3);
    assert_eq!(extended.get_i64("a"), Some(1));

    let mut array = Array::default();
    array.push(true);
    array.push("x");
    assert_eq!(array.as_bytes(), b"t\x01S\0\0\0\x01x");
    assert_eq!(table! {}, Table::EMPTY);
}

#[test]
fn equal_as_maps() {
    let sent = decode(b"\x01bt\x02\x01aL\0\0\0\0\0\0\0\x05\x01bt\x00");
    // As RabbitMQ 4 gives it back: sorted, without the duplicate, `L` as `l`, the bool as 1.
    let back = decode(b"\x01al\0\0\0\0\0\0\0\x05\x01bt\x01");
    assert_ne!(sent, back);
    assert!(sent.eq_as_map(&back) && back.eq_as_map(&sent));

    let same = |left: &Table<'_>, right: &Table<'_>| {
        assert_eq!(left.eq_as_map(right), right.eq_as_map(left));
        left.eq_as_map(right)
    };
    let one = |value: Value<'_>| Table::from([(short!("k"), value)]);
    assert!(same(&one(1u8.into()), &one(1i32.into())));
    assert!(!same(&one(1u8.into()), &one(2i32.into())));
    assert!(!same(&one(1u8.into()), &one(true.into())));
    assert!(!same(&one(Value::I64(1)), &one(Value::Timestamp(1))));
    assert!(!same(&one("a".into()), &one(b"a".as_slice().into())));
    assert!(same(&one(f64::NAN.into()), &one(f64::NAN.into())));
    assert!(!same(&one(0.0f64.into()), &one((-0.0f64).into())));
    assert!(!same(&one(1.0f64.into()), &one(1.0f32.into())));
    let array = |values: [i32; 2]| one(Array::from(values).into());
    assert!(!same(&array([1, 2]), &array([2, 1])));
    assert!(!same(&one(Array::from([1]).into()), &array([1, 1])));
    assert!(same(&one(Array::from([1u8, 2]).into()), &array([1, 2])));
    let nested = |table: Table<'_>| one(Array::from([table]).into());
    let xy = table! { "x" => 1, "y" => 2 };
    assert!(same(
        &nested(xy.clone()),
        &nested(table! { "y" => 2, "x" => 1 })
    ));
    assert!(!same(
        &nested(xy.clone()),
        &nested(table! { "y" => 2, "x" => 3 })
    ));
    assert!(!same(&nested(xy.clone()), &nested(table! { "x" => 1 })));
    assert!(!same(&xy, &Table::EMPTY));
    assert!(same(&Table::EMPTY, &Table::EMPTY));
}

#[test]
fn contains_as_map() {
    let sent = table! { "b" => 2, "BCC" => Array::from(["q"]), "a" => 1 };
    let back = table! { "a" => 1i64, "added" => true, "b" => 2i64 };
    assert!(back.contains_as_map(&sent, &["BCC"]));
    assert!(!back.contains_as_map(&sent, &[]));
    assert!(!table! { "a" => 1 }.contains_as_map(&sent, &["BCC"]));
    assert!(!table! { "a" => 1, "b" => 3 }.contains_as_map(&sent, &["BCC"]));
    assert!(back.contains_as_map(&Table::EMPTY, &[]));
    // How much more it says, keys that are left out counted where both have them.
    let map = back.to_map();
    assert_eq!(map.beyond(&sent, &["BCC"]), Some(1));
    assert_eq!(map.beyond(&sent, &[]), None);
    assert_eq!(map.beyond(&Table::EMPTY, &[]), Some(3));
    assert_eq!(
        map.beyond(&table! { "added" => false, "a" => 1 }, &["added"]),
        Some(1)
    );
    let twice = table! { "a" => 1, "a" => 2, "b" => 1 };
    assert_eq!(twice.to_map().beyond(&table! { "a" => 1 }, &[]), Some(1));
    assert_eq!(twice.to_map().beyond(&table! { "a" => 2 }, &[]), None);
    // Inside, a table may not have more.
    let inner = |table: Table<'static>| table! { "t" => table };
    assert!(
        !inner(table! { "x" => 1, "y" => 2 }).contains_as_map(&inner(table! { "x" => 1 }), &[])
    );
}

#[test]
fn non_finite() {
    assert!(!table! { "a" => 1.5, "b" => 2 }.has_non_finite());
    assert!(table! { "a" => f32::NAN }.has_non_finite());
    assert!(table! { "a" => f64::NEG_INFINITY }.has_non_finite());
    let deep = table! { "a" => Array::from([Value::from(table! { "b" => f64::NAN })]) };
    assert!(deep.has_non_finite());
}

#[test]
fn debug() {
    let table = table! {
        "n" => 1,
        "s" => "x\"y",
        "l" => Array::from([Value::Void, true.into(), table! { "b" => b"\xff".as_slice() }.into()]),
    };
    assert_eq!(
        format!("{table:?}"),
        r#"{"n": I32(1), "s": "x\"y", "l": [Void, true, {"b": Bytes("\xff")}]}"#
    );
    // A value alone is shown as it is within a table.
    assert_eq!(format!("{:?}", Value::U8(7)), "U8(7)");
    assert_eq!(
        format!("{:?}", Value::from(table! { "k" => "v" })),
        r#"{"k": "v"}"#
    );
    let raw = RawTable::from(table.clone());
    assert_eq!(format!("{raw:?}"), format!("{table:?}"));
    assert_eq!(
        format!("{:?}", RawTable::from_bytes(b"\x05?")),
        r#"RawTable("\u{5}?")"#
    );
}

proptest! {
    #[test]
    fn map_equality_ignores_order(content in strategies::table_content(), seed in any::<u64>()) {
        let table = decode(&content);
        // Without duplicates, in another order.
        let mut entries: Vec<(ShortStr<'_>, Value<'_>)> = Vec::new();
        for (key, value) in &table {
            if entries.iter().all(|(seen, _)| *seen != key) {
                entries.push((key, value));
            }
        }
        let places = entries.len().max(1);
        entries.rotate_left(seed as usize % places);
        let other: Table<'_> = entries.into_iter().collect();
        prop_assert!(table.eq_as_map(&other));
        prop_assert!(other.eq_as_map(&table));
        prop_assert!(table.contains_as_map(&other, &[]));
        let mut more = other.clone();
        more.insert("a key that no strategy makes", 1).unwrap();
        prop_assert!(!table.eq_as_map(&more));
        prop_assert!(!more.eq_as_map(&table));
        prop_assert!(more.contains_as_map(&table, &[]));
        prop_assert!(!table.contains_as_map(&more, &[]));
        prop_assert!(table.contains_as_map(&more, &["a key that no strategy makes"]));
    }
}
