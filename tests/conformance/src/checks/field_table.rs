//! Field tables: every type of value relayed in a message's headers, and what a broker must not swallow.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{Array, LongStr, RawTable, ReplyCode, Table, Value, frame, queue, table};

use crate::check::Source::Text;
use crate::event::LIMITS;
use crate::{Check, Context, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [types(), shapes(), malformed(), arguments()]
        .into_iter()
        .flatten()
        .collect()
}

const TABLES: crate::check::Source = Text("4.2.5.5 Field Tables");

/// Publishes a message with these headers and gets it back.
async fn relayed(cx: &Context, headers: RawTable<'_>) -> Result<RawTable<'static>, Failure> {
    let queue = cx.name("relayed");
    let mut client = cx.open_channel().await?;
    client.declare_queue(1, &queue).await?;
    let publish = basic::Publish {
        routing_key: queue.clone(),
        ..Default::default()
    };
    let properties = Properties {
        headers: Some(headers),
        ..Properties::EMPTY
    };
    client
        .send_content(1, publish, &properties, b"body")
        .await?;
    let got = client.get(1, &queue).await?;
    let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
    let headers = got.properties.headers;
    headers.ok_or_else(|| Failure::new("the headers", "no headers"))
}

/// A table with one entry, `k`, whose value is these octets: its tag and what follows.
fn entry(value: &[u8]) -> Vec<u8> {
    [&b"\x01k"[..], value].concat()
}

/// One value of one type: its octets, and what they mean.
struct Typed {
    name: &'static str,
    /// Whether it is RabbitMQ's reading; the specification's otherwise.
    errata: bool,
    rule: &'static str,
    sends: &'static str,
    octets: &'static [u8],
    means: fn() -> Value<'static>,
}

#[rustfmt::skip]
const TYPES: &[Typed] = &[
    Typed {
        name: "field-table/boolean-true", errata: false, rule: "t: a boolean, one octet",
        sends: "t 01", octets: b"t\x01", means: || Value::Bool(true),
    },
    Typed {
        name: "field-table/boolean-false", errata: false, rule: "t: a boolean, one octet",
        sends: "t 00", octets: b"t\x00", means: || Value::Bool(false),
    },
    Typed {
        name: "field-table/signed-8", errata: false, rule: "b: a signed octet",
        sends: "b 80", octets: b"b\x80", means: || Value::I8(i8::MIN),
    },
    Typed {
        name: "field-table/unsigned-8", errata: false, rule: "B: an unsigned octet",
        sends: "B ff", octets: b"B\xff", means: || Value::U8(u8::MAX),
    },
    Typed {
        name: "field-table/signed-16", errata: true, rule: "s: a signed 16-bit integer, in the errata and in practice",
        sends: "s 8000", octets: b"s\x80\x00", means: || Value::I16(i16::MIN),
    },
    Typed {
        name: "field-table/unsigned-16", errata: false, rule: "u: an unsigned 16-bit integer",
        sends: "u ffff", octets: b"u\xff\xff", means: || Value::U16(u16::MAX),
    },
    Typed {
        name: "field-table/signed-32-smallest", errata: false, rule: "I: a signed 32-bit integer",
        sends: "I 80000000", octets: b"I\x80\x00\x00\x00", means: || Value::I32(i32::MIN),
    },
    Typed {
        name: "field-table/signed-32-largest", errata: false, rule: "I: a signed 32-bit integer",
        sends: "I 7fffffff", octets: b"I\x7f\xff\xff\xff", means: || Value::I32(i32::MAX),
    },
    Typed {
        name: "field-table/unsigned-32", errata: false, rule: "i: an unsigned 32-bit integer",
        sends: "i ffffffff", octets: b"i\xff\xff\xff\xff", means: || Value::U32(u32::MAX),
    },
    Typed {
        name: "field-table/signed-64-smallest", errata: true, rule: "l: a signed 64-bit integer, in the errata and in practice",
        sends: "l 8000000000000000", octets: b"l\x80\0\0\0\0\0\0\0", means: || Value::I64(i64::MIN),
    },
    Typed {
        name: "field-table/signed-64-largest", errata: true, rule: "l: a signed 64-bit integer, in the errata and in practice",
        sends: "l 7fffffffffffffff", octets: b"l\x7f\xff\xff\xff\xff\xff\xff\xff", means: || Value::I64(i64::MAX),
    },
    Typed {
        name: "field-table/signed-64-capital", errata: false, rule: "L: a signed 64-bit integer",
        sends: "L fffffffffffffffe", octets: b"L\xff\xff\xff\xff\xff\xff\xff\xfe", means: || Value::I64(-2),
    },
    Typed {
        name: "field-table/float", errata: false, rule: "f: a 32-bit floating point number",
        sends: "f -0.75", octets: b"f\xbf\x40\x00\x00", means: || Value::F32(-0.75),
    },
    Typed {
        name: "field-table/double", errata: false, rule: "d: a 64-bit floating point number",
        sends: "d 1.5e300, rounded", octets: b"d\x7e\x41\xeb\x85\x1e\xb8\x51\xec",
        means: || Value::F64(f64::from_bits(0x7e41_eb85_1eb8_51ec)),
    },
    Typed {
        name: "field-table/decimal", errata: false, rule: "D: a scale and an integer of 32 bits",
        sends: "D scale 2, 12345", octets: b"D\x02\x00\x00\x30\x39",
        means: || Value::Decimal(amqp_codec::Decimal { scale: 2, value: 12_345 }),
    },
    Typed {
        name: "field-table/decimal-negative", errata: true, rule: "D: the integer of a decimal is signed",
        sends: "D scale 255, -1", octets: b"D\xff\xff\xff\xff\xff",
        means: || Value::Decimal(amqp_codec::Decimal { scale: 255, value: -1 }),
    },
    Typed {
        name: "field-table/long-string", errata: false, rule: "S: a long string",
        sends: "S with text", octets: b"S\x00\x00\x00\x04text", means: || Value::from("text"),
    },
    Typed {
        name: "field-table/long-string-empty", errata: false, rule: "S: a long string, possibly empty",
        sends: "S with nothing", octets: b"S\x00\x00\x00\x00", means: || Value::from(""),
    },
    Typed {
        name: "field-table/long-string-of-any-octets", errata: false, rule: "S: long strings can hold any octets",
        sends: "S with the octets 00 ff fe 80", octets: b"S\x00\x00\x00\x04\x00\xff\xfe\x80",
        means: || Value::LongStr(LongStr::from(&b"\x00\xff\xfe\x80"[..])),
    },
    Typed {
        name: "field-table/byte-array", errata: true, rule: "x: octets that are not text",
        sends: "x with the octets 00 ff", octets: b"x\x00\x00\x00\x02\x00\xff",
        means: || Value::Bytes(LongStr::from(&b"\x00\xff"[..])),
    },
    Typed {
        name: "field-table/array", errata: false, rule: "A: an array of values of any types",
        sends: "A with a boolean, an integer and an empty string", octets: b"A\x00\x00\x00\x0ct\x01I\x00\x00\x00\x05S\x00\x00\x00\x00",
        means: || Value::Array([Value::Bool(true), Value::I32(5), Value::from("")].into_iter().collect()),
    },
    Typed {
        name: "field-table/array-empty", errata: false, rule: "A: an array, possibly empty",
        sends: "A with nothing", octets: b"A\x00\x00\x00\x00", means: || Value::Array(Array::EMPTY),
    },
    Typed {
        name: "field-table/timestamp", errata: false, rule: "T: a 64-bit timestamp",
        sends: "T ffffffffffffffff", octets: b"T\xff\xff\xff\xff\xff\xff\xff\xff", means: || Value::Timestamp(u64::MAX),
    },
    Typed {
        name: "field-table/table", errata: false, rule: "F: a table in a table",
        sends: "F with one entry", octets: b"F\x00\x00\x00\x07\x01aI\x00\x00\x00\x05", means: || Value::Table(table! { "a" => 5 }),
    },
    Typed {
        name: "field-table/table-empty", errata: false, rule: "F: a table in a table, possibly empty",
        sends: "F with nothing", octets: b"F\x00\x00\x00\x00", means: || Value::Table(Table::EMPTY),
    },
    Typed {
        name: "field-table/void", errata: false, rule: "V: no value",
        sends: "V", octets: b"V", means: || Value::Void,
    },
];

fn types() -> Vec<Check> {
    let mut checks: Vec<Check> = TYPES
        .iter()
        .map(|case| {
            let check = check(case.name);
            let check = match case.errata {
                true => check.rabbitmq("AMQP 0-9-1 Errata", case.rule),
                false => check.must(TABLES, case.rule),
            };
            check
                .sends(case.sends)
                .expects("the headers with the same value of the same type")
                .run(async move |cx| {
                    let octets = entry(case.octets);
                    let headers = relayed(cx, RawTable::from_bytes(&octets)).await?;
                    let table = headers.decode(&LIMITS).map_err(|error| {
                        Failure::new("headers that can be read", "headers that cannot be read")
                            .detail(error)
                    })?;
                    ensure_eq("value", &table.get("k"), &Some((case.means)()))
                })
        })
        .collect();
    checks.push(
        check("field-table/signed-16-by-the-grammar")
            .must(
                TABLES,
                "U: a signed 16-bit integer, in the grammar of the specification",
            )
            .sends("U 8000")
            .expects("the headers with the same octets")
            .run(async |cx| {
                let octets = entry(b"U\x80\x00");
                let headers = relayed(cx, RawTable::from_bytes(&octets)).await?;
                ensure_eq("octets", &headers.as_bytes(), &&octets[..])
            }),
    );
    checks
}

fn shapes() -> Vec<Check> {
    vec![
        check("field-table/empty")
            .must(TABLES, "a table can be empty")
            .sends("headers without entries")
            .expects("headers without entries")
            .run(async |cx| {
                let headers = relayed(cx, Table::EMPTY.into()).await?;
                ensure_eq("octets", &headers.as_bytes(), &&b""[..])
            }),
        check("field-table/key-of-128-octets")
            .must(TABLES, "names of fields have up to 128 octets")
            .sends("headers with a key of 128 octets")
            .expects("the same headers")
            .run(async |cx| {
                let sent = Table::try_from_iter([("k".repeat(128), 5)])?;
                let headers = relayed(cx, sent.clone().into()).await?;
                ensure(headers == sent.into(), "the same headers", "other headers")
            }),
        check("field-table/many-entries")
            .must(TABLES, "a table has as many entries as fit a frame")
            .sends("headers with 1,000 entries, in the order of their keys")
            .expects("the same headers")
            .run(async |cx| {
                let sent = Table::try_from_iter((0..1000).map(|it| (format!("key-{it:04}"), it)))?;
                let headers = relayed(cx, sent.clone().into()).await?;
                ensure(headers == sent.into(), "the same headers", "other headers")
            }),
        check("field-table/order-and-duplicates")
            .silent(
                TABLES,
                "a server passes on headers as they are; what keys that repeat mean is not said",
            )
            .sends("headers b 1, a 2, a 3")
            .expects("a and b; which of the two a and what order is observed")
            .run(async |cx| {
                let octets = b"\x01bb\x01\x01ab\x02\x01ab\x03";
                let headers = relayed(cx, RawTable::from_bytes(octets)).await?;
                let table = headers.decode(&LIMITS).unwrap_or_default();
                let entries: Vec<String> = table
                    .iter()
                    .map(|(key, value)| format!("{key} {value:?}"))
                    .collect();
                cx.observe(entries.join(", "));
                ensure_eq("b", &table.get("b"), &Some(Value::I8(1)))?;
                ensure_eq("a", &table.contains_key("a"), &true)
            }),
        check("field-table/nested-100-deep")
            .must(
                TABLES,
                "tables and arrays can hold tables and arrays; no limit is given",
            )
            .sends("headers with arrays and tables in each other, 100 deep")
            .expects("the same headers")
            .run(async |cx| {
                let mut sent = table! { "core" => 1 };
                for _ in 0..50 {
                    let array: Array = [Value::Table(sent)].into_iter().collect();
                    sent = Table::try_from_iter([("k", array)])?;
                }
                let headers = relayed(cx, sent.clone().into()).await?;
                ensure(headers == sent.into(), "the same headers", "other headers")
            }),
    ]
}

/// A publish with these octets as headers must end the connection. It may do so without a word.
async fn refuses(cx: &Context, headers: &[u8]) -> Result<(), Failure> {
    let queue = cx.name("refused");
    let mut client = cx.open_channel().await?;
    client.declare_queue(1, &queue).await?;
    let publish = basic::Publish {
        routing_key: queue,
        ..Default::default()
    };
    let properties = Properties {
        headers: Some(RawTable::from_bytes(headers)),
        ..Properties::EMPTY
    };
    client
        .send_content(1, publish, &properties, b"body")
        .await?;
    let codes = [ReplyCode::SYNTAX_ERROR, ReplyCode::FRAME_ERROR];
    client.expect_connection_error(codes).await.map(drop)
}

/// Octets that are no table.
struct Malformed {
    name: &'static str,
    rule: &'static str,
    sends: &'static str,
    octets: &'static [u8],
}

#[rustfmt::skip]
const MALFORMED: &[Malformed] = &[
    Malformed {
        name: "field-table/unknown-type-refused", rule: "a type that is none of the grammar's is a syntax error: 502",
        sends: "headers with the type Z", octets: b"\x01kZ\x01",
    },
    Malformed {
        name: "field-table/value-cut-off-refused", rule: "a value that is cut off is a syntax error: 502",
        sends: "headers with I and two octets", octets: b"\x01kI\x00\x00",
    },
    Malformed {
        name: "field-table/key-without-value-refused", rule: "a key without a value is a syntax error: 502",
        sends: "headers that end after a key", octets: b"\x01k",
    },
    Malformed {
        name: "field-table/string-beyond-the-table-refused", rule: "a string that is longer than its table is a syntax error: 502",
        sends: "headers with a string of 100 octets, of which two follow", octets: b"\x01kS\x00\x00\x00\x64ab",
    },
    Malformed {
        name: "field-table/array-beyond-the-table-refused", rule: "an array that is longer than its table is a syntax error: 502",
        sends: "headers with an array of 4 GiB", octets: b"\x01kA\xff\xff\xff\xfft\x01",
    },
];

fn malformed() -> Vec<Check> {
    MALFORMED
        .iter()
        .map(|case| {
            check(case.name)
                .must(TABLES, case.rule)
                .sends(case.sends)
                .expects("connection.close 502 or 501")
                .run(async move |cx| refuses(cx, case.octets).await)
        })
        .collect()
}

/// queue.declare of a server-named exclusive queue with these octets as its arguments, length not included.
fn declare_with(arguments: &[u8]) -> Vec<u8> {
    let length = u32::try_from(arguments.len()).unwrap_or(u32::MAX);
    let mut payload = vec![0, 50, 0, 10, 0, 0, 0, 0b0000_0100];
    payload.extend(length.to_be_bytes());
    payload.extend(arguments);
    payload
}

fn arguments() -> Vec<Check> {
    vec![
        check("field-table/arguments-of-every-type")
            .must(
                TABLES,
                "the arguments of a method are a table with values of any type",
            )
            .sends("queue.declare with unknown arguments of the types t I S A T F V d")
            .expects("queue.declare-ok")
            .run(async |cx| {
                let queue = cx.name("arguments");
                let mut client = cx.open_channel().await?;
                let arguments = table! {
                    "x-t" => true,
                    "x-i" => 5,
                    "x-s" => "text",
                    "x-a" => Value::Array([Value::I32(1)].into_iter().collect()),
                    "x-time" => Value::Timestamp(1_700_000_000),
                    "x-f" => table! { "a" => 1 },
                    "x-v" => Value::Void,
                    "x-d" => 1.5,
                };
                client
                    .declare_queue_with(1, &queue, arguments)
                    .await
                    .map(drop)
            }),
        check("field-table/arguments-of-unknown-type-refused")
            .must(
                TABLES,
                "a type that is none of the grammar's is a syntax error: 502",
            )
            .sends("queue.declare with an argument of the type Z")
            .expects("connection.close 502 or 501")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let payload = declare_with(b"\x01kZ\x01");
                client.send_frame(frame::METHOD, 1, &payload).await?;
                let codes = [ReplyCode::SYNTAX_ERROR, ReplyCode::FRAME_ERROR];
                client.expect_connection_error(codes).await.map(drop)
            }),
        check("field-table/arguments-longer-than-the-frame-refused")
            .must(
                TABLES,
                "a table that is longer than its frame is a syntax error: 502",
            )
            .sends("queue.declare whose arguments claim 200 octets more than there are")
            .expects("connection.close 502 or 501")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let mut payload = declare_with(b"\x01kI\x00\x00\x00\x05");
                payload[11] = 207;
                client.send_frame(frame::METHOD, 1, &payload).await?;
                let codes = [ReplyCode::SYNTAX_ERROR, ReplyCode::FRAME_ERROR];
                client.expect_connection_error(codes).await.map(drop)
            }),
        check("field-table/arguments-well-formed-by-hand")
            .must(
                TABLES,
                "the octets that the two refused ones differ from are a declaration as any other",
            )
            .sends("queue.declare with one argument, its octets put together by hand")
            .expects("queue.declare-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let payload = declare_with(b"\x01kI\x00\x00\x00\x05");
                client.send_frame(frame::METHOD, 1, &payload).await?;
                client.expect::<queue::DeclareOk>(1).await.map(drop)
            }),
    ]
}
