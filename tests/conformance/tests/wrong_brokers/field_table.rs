use amqp_codec::{Array, MethodId, RawTable, ReplyCode, Table, Value, connection};
use amqp_conformance::event::LIMITS;

use crate::broker::{Fault, WrongBroker, rewrites, rewrites_properties, wrong};

/// What is got has other values in its headers than what was published.
fn values(change: fn(Value<'static>) -> Value<'static>) -> Fault {
    rewrites_properties(MethodId::BASIC_GET_OK, move |it| {
        let Some(headers) = &it.headers else { return };
        let Ok(table) = headers.decode(&LIMITS) else {
            return;
        };
        let changed = table
            .iter()
            .map(|(key, value)| (key.into_owned(), change(value.into_owned())));
        it.headers = Some(
            Table::try_from_iter(changed)
                .expect("the keys are the same")
                .into(),
        );
    })
}

fn headers(make: fn() -> RawTable<'static>) -> Fault {
    rewrites_properties(MethodId::BASIC_GET_OK, move |it| it.headers = Some(make()))
}

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong("field-table/booleans-are-all-true", {
            values(|it| match it {
                Value::Bool(_) => Value::Bool(true),
                other => other,
            })
        })
        .caught_by(["field-table/boolean-false"]),
        wrong("field-table/booleans-are-numbers", {
            values(|it| match it {
                Value::Bool(value) => Value::I8(value.into()),
                other => other,
            })
        })
        .caught_by(["field-table/boolean-true", "field-table/boolean-false"]),
        wrong("field-table/integers-all-have-64-bits", {
            values(|it| match it.as_i64() {
                Some(value) => Value::I64(value),
                None => it,
            })
        })
        .caught_by([
            "field-table/signed-8",
            "field-table/unsigned-8",
            "field-table/signed-16",
            "field-table/unsigned-16",
            "field-table/signed-32-smallest",
            "field-table/signed-32-largest",
            "field-table/unsigned-32",
        ]),
        wrong("field-table/integers-of-64-bits-are-unsigned", {
            values(|it| match it {
                Value::I64(value) => Value::I64(value & i64::MAX),
                other => other,
            })
        })
        .caught_by([
            "field-table/signed-64-smallest",
            "field-table/signed-64-capital",
        ]),
        wrong("field-table/integers-are-doubles", {
            values(|it| match it {
                Value::I64(value) => Value::F64(value as f64),
                other => other,
            })
        })
        .caught_by(["field-table/signed-64-largest"]),
        wrong("field-table/floats-are-doubles", {
            values(|it| match it {
                Value::F32(value) => Value::F64(value.into()),
                other => other,
            })
        })
        .caught_by(["field-table/float"]),
        wrong("field-table/doubles-are-floats", {
            values(|it| match it {
                Value::F64(value) => Value::F32(value as f32),
                other => other,
            })
        })
        .caught_by(["field-table/double"]),
        wrong("field-table/decimals-without-scale", {
            values(|it| match it {
                Value::Decimal(decimal) => Value::I32(decimal.value),
                other => other,
            })
        })
        .caught_by(["field-table/decimal", "field-table/decimal-negative"]),
        wrong("field-table/strings-are-bytes", {
            values(|it| match it {
                Value::LongStr(text) => Value::Bytes(text),
                other => other,
            })
        })
        .caught_by(["field-table/long-string", "field-table/long-string-empty"]),
        wrong("field-table/bytes-are-strings", {
            values(|it| match it {
                Value::Bytes(bytes) => Value::LongStr(bytes),
                other => other,
            })
        })
        .caught_by(["field-table/byte-array"]),
        wrong("field-table/strings-are-text-alone", {
            values(|it| match &it {
                Value::LongStr(text) => Value::from(text.to_string_lossy().into_owned()),
                _ => it,
            })
        })
        .caught_by(["field-table/long-string-of-any-octets"]),
        wrong("field-table/arrays-of-the-first-alone", {
            values(|it| match &it {
                Value::Array(array) => {
                    let first = array.iter().take(1).map(Value::into_owned);
                    Value::Array(first.collect())
                }
                _ => it,
            })
        })
        .caught_by(["field-table/array"]),
        wrong("field-table/empty-is-void", {
            values(|it| match &it {
                Value::Array(array) if *array == Array::EMPTY => Value::Void,
                Value::Table(table) if table.is_empty() => Value::Void,
                _ => it,
            })
        })
        .caught_by(["field-table/array-empty", "field-table/table-empty"]),
        wrong("field-table/timestamps-are-numbers", {
            values(|it| match it {
                Value::Timestamp(time) => Value::I64(time.cast_signed()),
                other => other,
            })
        })
        .caught_by(["field-table/timestamp"]),
        wrong("field-table/void-is-false", {
            values(|it| match it {
                Value::Void => Value::Bool(false),
                other => other,
            })
        })
        .caught_by(["field-table/void"]),
        wrong("field-table/tables-in-tables-are-empty", {
            values(|it| match it {
                Value::Table(_) | Value::Array(_) => Value::Table(Table::EMPTY),
                other => other,
            })
        })
        .caught_by(["field-table/table", "field-table/nested-100-deep"]),
        wrong(
            "field-table/has-one-entry-more",
            headers(|| RawTable::from_bytes(b"\x01xt\x01")),
        )
        .caught_by([
            "field-table/empty",
            "field-table/key-of-128-octets",
            "field-table/many-entries",
            "field-table/order-and-duplicates",
        ]),
        wrong("field-table/calls-everything-unexpected", {
            rewrites(|it: &mut connection::Close<'static>| {
                it.reply_code = ReplyCode::UNEXPECTED_FRAME
            })
        })
        .caught_by(["field-table/arguments-longer-than-the-frame-refused"]),
    ]
}
