//! What a value is and is not, owned values, arrays.

use amqp_codec::{Array, Decimal, Limits, Table, Value, short, table};

/// Exactly what each type of value gives out, as RabbitMQ's types read.
#[derive(Debug, Default, PartialEq)]
struct Views<'a> {
    bool: Option<bool>,
    i64: Option<i64>,
    u64: Option<u64>,
    f64: Option<f64>,
    str: Option<&'a str>,
    bytes: Option<&'a [u8]>,
    timestamp: Option<u64>,
    table: bool,
    array: bool,
}

fn views<'a>(value: &'a Value<'_>) -> Views<'a> {
    Views {
        bool: value.as_bool(),
        i64: value.as_i64(),
        u64: value.as_u64(),
        f64: value.as_f64(),
        str: value.as_str(),
        bytes: value.as_bytes(),
        timestamp: value.as_timestamp(),
        table: value.as_table().is_some(),
        array: value.as_array().is_some(),
    }
}

fn integer(i64: i64, u64: Option<u64>) -> Views<'static> {
    Views {
        i64: Some(i64),
        u64,
        ..Default::default()
    }
}

fn each() -> Vec<(Value<'static>, Views<'static>)> {
    let none = Views::default;
    vec![
        (
            Value::Bool(true),
            Views {
                bool: Some(true),
                ..none()
            },
        ),
        (Value::I8(-1), integer(-1, None)),
        (Value::U8(255), integer(255, Some(255))),
        (Value::I16(-1), integer(-1, None)),
        (Value::U16(65_535), integer(65_535, Some(65_535))),
        (Value::I32(7), integer(7, Some(7))),
        (
            Value::U32(u32::MAX),
            integer(4_294_967_295, Some(4_294_967_295)),
        ),
        (Value::I64(i64::MIN), integer(i64::MIN, None)),
        (
            Value::F32(1.5),
            Views {
                f64: Some(1.5),
                ..none()
            },
        ),
        (
            Value::F64(-2.5),
            Views {
                f64: Some(-2.5),
                ..none()
            },
        ),
        (
            Value::Decimal(Decimal {
                scale: 2,
                value: -123,
            }),
            none(),
        ),
        (
            Value::LongStr("text".into()),
            Views {
                str: Some("text"),
                bytes: Some(b"text"),
                ..none()
            },
        ),
        // No text, bytes nevertheless.
        (
            Value::LongStr(b"\xff".into()),
            Views {
                bytes: Some(b"\xff"),
                ..none()
            },
        ),
        (
            Value::Bytes(b"text".into()),
            Views {
                bytes: Some(b"text"),
                ..none()
            },
        ),
        (
            Array::from([Value::Void]).into(),
            Views {
                array: true,
                ..none()
            },
        ),
        (
            table! { "k" => true }.into(),
            Views {
                table: true,
                ..none()
            },
        ),
        (
            Value::Timestamp(u64::MAX),
            Views {
                timestamp: Some(u64::MAX),
                ..none()
            },
        ),
        (Value::Void, none()),
    ]
}

#[test]
fn views_of_each_type() {
    for (value, expected) in each() {
        assert_eq!(views(&value), expected, "{value:?}");
    }
}

#[test]
fn getters_of_a_table_look_at_the_type() {
    for (value, expected) in each() {
        let table = Table::from([(short!("k"), value)]);
        assert_eq!(table.get_bool("k"), expected.bool, "{table:?}");
        assert_eq!(table.get_i64("k"), expected.i64, "{table:?}");
        assert_eq!(table.get_u64("k"), expected.u64, "{table:?}");
        assert_eq!(table.get_f64("k"), expected.f64, "{table:?}");
        assert_eq!(table.get_str("k"), expected.str, "{table:?}");
        assert_eq!(table.get_bytes("k"), expected.bytes, "{table:?}");
        assert_eq!(table.get_timestamp("k"), expected.timestamp, "{table:?}");
        assert_eq!(table.get_table("k").is_some(), expected.table, "{table:?}");
        assert_eq!(table.get_array("k").is_some(), expected.array, "{table:?}");
        assert!(!table.is_empty());
    }
    assert!(Table::EMPTY.is_empty());
    assert!(table! {}.is_empty());
}

/// An owned value outlives the bytes it was read from.
#[test]
fn owned_values() {
    for (value, _) in each() {
        let owned: Value<'static> = {
            let table = Table::from([(short!("k"), value.clone())]);
            let bytes = table.as_bytes().to_vec();
            let read = Table::decode(&bytes, &Limits::default()).unwrap();
            read.get("k").unwrap().into_owned()
        };
        assert_eq!(owned, value);
    }
}

#[test]
fn arrays() {
    let mut array = Array::EMPTY;
    assert!(array.is_empty());
    assert_eq!(array.len(), 0);
    assert_eq!(array.get(0), None);
    array.push(1_i32);
    array.push("two");
    array.extend([true]);
    assert!(!array.is_empty());
    assert_eq!(array.len(), 3);
    let values = [Value::I32(1), Value::LongStr("two".into()), true.into()];
    assert_eq!((&array).into_iter().collect::<Vec<_>>(), values);
    assert_eq!(array.get(1), Some(Value::LongStr("two".into())));
    assert_eq!(array.get(3), None);
    assert_eq!(array.as_bytes(), b"I\0\0\0\x01S\0\0\0\x03twot\x01");
    assert_eq!(format!("{array:?}"), r#"[I32(1), "two", true]"#);

    assert_eq!(array.as_borrowed(), array);
    let owned: Array<'static> = {
        let local = array.clone();
        local.as_borrowed().into_owned()
    };
    assert_eq!(owned, array);
}
