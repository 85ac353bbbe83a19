//! The generated types read and write what the data says, shown by a second, slow encoder that walks the data.
//!
//! Every field gets a value of its own, so that two of the same type cannot change places unnoticed: the names are
//! compared in the text of `Debug`.

use amqp_codec::{Direction, Limits, Method, MethodId, ReplyCode, Table, Value, basic, frame};
use amqp_spec::model::{ConstantKind, Field, FieldTag, Layer, Specification, Type};
use amqp_spec::{BASE, RABBITMQ, load};

fn data() -> (Specification, Layer) {
    load(BASE, RABBITMQ).expect("the data is good")
}

/// The fields on the wire, with `bit` alone of the flags set, and the text that `Debug` shows of each.
fn encode(spec: &Specification, fields: &[Field], bit: Option<usize>) -> (Vec<u8>, Vec<String>) {
    let (mut wire, mut shown) = (Vec::new(), Vec::new());
    let mut bits: Option<(usize, u8)> = None;
    for (place, field) in fields.iter().enumerate() {
        let kind = spec.type_of(field).expect("the domain exists");
        if kind == Type::Bit {
            let (used, octet) = bits.unwrap_or_default();
            let set = bit == Some(used);
            bits = Some((used + 1, octet | u8::from(set) << used));
            shown.push(format!("{}: {set}", rust_name(field)));
            continue;
        }
        if let Some((_, octet)) = bits.take() {
            wire.push(octet);
        }
        wire.extend(value(field, kind, place));
        let name = rust_name(field);
        let number = number(place) & mask(kind);
        shown.push(match kind {
            _ if field.secret => format!("{name}: <{} bytes>", field.name.len()),
            _ if field.domain == "reply-code" => format!("{name}: ReplyCode({number})"),
            Type::Shortstr | Type::Longstr => format!("{name}: {:?}", field.name),
            Type::Table => format!("{name}: "),
            Type::Octet | Type::Short | Type::Long | Type::Longlong | Type::Timestamp => {
                format!("{name}: {number}")
            }
            Type::Bit => unreachable!("taken above"),
        });
    }
    if let Some((_, octet)) = bits {
        wire.push(octet);
    }
    (wire, shown)
}

fn value(field: &Field, kind: Type, place: usize) -> Vec<u8> {
    let name = field.name.as_bytes();
    let number = number(place);
    match kind {
        Type::Bit => unreachable!("bits share octets"),
        Type::Octet => vec![number as u8],
        Type::Short => (number as u16).to_be_bytes().to_vec(),
        Type::Long => (number as u32).to_be_bytes().to_vec(),
        Type::Longlong | Type::Timestamp => number.to_be_bytes().to_vec(),
        Type::Shortstr => [&[name.len() as u8], name].concat(),
        Type::Longstr => [&(name.len() as u32).to_be_bytes(), name].concat(),
        // One entry, the field's name with nothing as its value.
        Type::Table => {
            let len = (name.len() as u32 + 2).to_be_bytes();
            [&len[..], &[name.len() as u8], name, b"V"].concat()
        }
    }
}

/// A number that is another one for each place, in each of its octets, and names no reply code.
fn number(place: usize) -> u64 {
    0x0101_0101_0101_0101 * (0xa0 + place as u64)
}

fn mask(kind: Type) -> u64 {
    match kind {
        Type::Octet => u8::MAX.into(),
        Type::Short => u16::MAX.into(),
        Type::Long => u32::MAX.into(),
        _ => u64::MAX,
    }
}

fn rust_name(field: &Field) -> String {
    match field.name.as_str() {
        "type" => "kind".to_owned(),
        name => name.replace('-', "_"),
    }
}

#[test]
fn methods_are_read_and_written_as_the_data_says() {
    let (spec, _) = data();
    let limits = Limits::default();
    let mut tried = 0;
    for class in &spec.classes {
        for method in &class.methods {
            let path = format!("{}.{}", class.name, method.name);
            let bits = method
                .fields
                .iter()
                .filter(|field| spec.type_of(field) == Some(Type::Bit))
                .count();
            for bit in (0..bits).map(Some).chain([None]) {
                let (fields, shown) = encode(&spec, &method.fields, bit);
                let mut payload = [class.id.to_be_bytes(), method.id.to_be_bytes()].concat();
                payload.extend(fields);

                let decoded = Method::decode(&payload, &limits)
                    .unwrap_or_else(|error| panic!("{path}: {error} in {payload:02x?}"));
                let debug = format!("{decoded:?}");
                let mut rest = debug.as_str();
                for field in shown {
                    let at = rest
                        .find(&field)
                        .unwrap_or_else(|| panic!("{path}: {field} is not next in {rest}"));
                    rest = &rest[at + field.len()..];
                }
                assert_eq!(decoded.id().name(), Some(path.as_str()));
                assert_eq!(decoded.payload_len(), payload.len(), "{path}");
                let mut written = Vec::new();
                decoded
                    .encode(&mut written)
                    .unwrap_or_else(|error| panic!("{path}: {error}"));
                assert_eq!(written, payload, "{path}");
                assert_eq!(decoded.clone().into_owned(), decoded, "{path}");

                for cut in 0..payload.len() {
                    assert!(
                        Method::decode(&payload[..cut], &limits).is_err(),
                        "{path} cut at {cut}"
                    );
                }
                payload.push(0);
                assert!(
                    Method::decode(&payload, &limits).is_err(),
                    "{path} with a byte after it"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 64, "only {tried} tried");
}

#[test]
fn bits_without_a_meaning_are_kept() {
    let (spec, _) = data();
    for class in &spec.classes {
        for method in &class.methods {
            let bits = method
                .fields
                .iter()
                .filter(|field| spec.type_of(field) == Some(Type::Bit))
                .count();
            if bits == 0 {
                continue;
            }
            let (before, _) = encode(&spec, &method.fields, None);
            let (after, _) = encode(&spec, &method.fields, Some(0));
            let octet = before
                .iter()
                .zip(&after)
                .position(|(a, b)| a != b)
                .expect("one bit differs");
            let mut payload = [class.id.to_be_bytes(), method.id.to_be_bytes()].concat();
            payload.extend(before);
            payload[4 + octet] = 0xff;
            let decoded =
                Method::decode(&payload, &Limits::default()).expect("undefined bits are no error");
            let mut written = Vec::new();
            decoded.encode(&mut written).expect("it fits");
            assert_eq!(written, payload, "{}.{}", class.name, method.name);
            let undefined = format!("undefined_bits: {}", 0xff & (0xff_u16 << bits));
            assert!(format!("{decoded:?}").contains(&undefined), "{decoded:?}");
        }
    }
}

#[test]
fn properties_are_read_and_written_as_the_data_says() {
    let (spec, _) = data();
    let fields = &spec
        .class("basic")
        .expect("there is a class basic")
        .properties;
    assert_eq!(fields.len(), 14);
    // None, each alone, each left out, all.
    let each = || (0..fields.len()).map(|place| 0x8000_u16 >> place);
    let all: u16 = each().sum();
    for flags in [0, all]
        .into_iter()
        .chain(each())
        .chain(each().map(|flag| all - flag))
    {
        let mut wire = flags.to_be_bytes().to_vec();
        let mut shown = Vec::new();
        for (place, field) in fields.iter().enumerate() {
            let kind = spec.type_of(field).expect("the domain exists");
            let name = rust_name(field);
            if flags & (0x8000 >> place) == 0 {
                shown.push(format!("{name}: None"));
                continue;
            }
            wire.extend(value(field, kind, place));
            shown.push(match kind {
                Type::Shortstr => format!("{name}: Some({:?})", field.name),
                Type::Table => format!("{name}: Some("),
                _ => format!("{name}: Some({})", number(place) & mask(kind)),
            });
        }
        let decoded = basic::Properties::decode(&wire).expect("the properties are good");
        let debug = format!("{decoded:?}");
        let mut rest = debug.as_str();
        for field in shown {
            let at = rest
                .find(&field)
                .unwrap_or_else(|| panic!("{field} is not next in {rest}"));
            rest = &rest[at + field.len()..];
        }
        assert_eq!(decoded.encoded_len(), wire.len());
        assert_eq!(decoded.is_empty(), flags == 0);
        let mut written = Vec::new();
        decoded.encode(&mut written).expect("it fits");
        assert_eq!(written, wire);
        assert_eq!(decoded.clone().into_owned(), decoded);
        assert_eq!(
            decoded
                .headers(&Limits::default())
                .expect("the table is good")
                .map(|table| table.len()),
            decoded.headers.as_ref().map(|_| 1),
        );
        for cut in 0..wire.len() {
            assert!(
                basic::Properties::decode(&wire[..cut]).is_err(),
                "{flags:#06x} cut at {cut}"
            );
        }
        for undefined in [1, 2] {
            let mut bad = wire.clone();
            bad[1] |= undefined;
            assert!(
                basic::Properties::decode(&bad).is_err(),
                "{flags:#06x} with flag {undefined}"
            );
        }
        wire.push(0);
        assert!(
            basic::Properties::decode(&wire).is_err(),
            "{flags:#06x} with a byte after it"
        );
    }
    assert_eq!(basic::Properties::EMPTY, basic::Properties::default());
}

#[test]
fn what_is_known_of_methods_is_what_the_data_says() {
    let (spec, _) = data();
    let mut known = 0;
    for class in &spec.classes {
        for method in &class.methods {
            let id = MethodId {
                class: class.id,
                method: method.id,
            };
            assert!(MethodId::ALL.contains(&id));
            let direction = match (method.to_server, method.to_client) {
                (Some(_), Some(_)) => Some(Direction::Both),
                (Some(_), None) => Some(Direction::ToServer),
                (None, Some(_)) => Some(Direction::ToClient),
                (None, None) => None,
            };
            assert_eq!(id.direction(), direction, "{id}");
            assert_eq!(id.is_synchronous(), method.synchronous, "{id}");
            assert_eq!(id.carries_content(), method.content, "{id}");
            let replies: Vec<_> = id
                .replies()
                .iter()
                .filter_map(|reply| reply.name())
                .collect();
            let expected: Vec<_> = method
                .replies
                .iter()
                .map(|reply| format!("{}.{reply}", class.name))
                .collect();
            assert_eq!(replies, expected, "{id}");
            known += 1;
        }
    }
    assert_eq!(MethodId::ALL.len(), known);
    let unknown = MethodId {
        class: 60,
        method: 121,
    };
    assert_eq!((unknown.name(), unknown.direction()), (None, None));
    assert!(
        !unknown.is_synchronous() && !unknown.carries_content() && unknown.replies().is_empty()
    );
}

#[test]
fn constants_are_what_the_data_says() {
    let (spec, _) = data();
    let framing = |name: &str| match name {
        "frame-method" => u32::from(frame::METHOD),
        "frame-header" => u32::from(frame::HEADER),
        "frame-body" => u32::from(frame::BODY),
        "frame-heartbeat" => u32::from(frame::HEARTBEAT),
        "frame-end" => u32::from(frame::FRAME_END),
        "frame-min-size" => frame::FRAME_MIN_SIZE,
        other => panic!("the codec has no {other}"),
    };
    let mut codes = 0;
    for constant in &spec.constants {
        if constant.kind == ConstantKind::Frame {
            assert_eq!(
                framing(&constant.name),
                u32::from(constant.value),
                "{}",
                constant.name
            );
            continue;
        }
        let code = ReplyCode(constant.value);
        let name = constant.name.replace('-', "_").to_uppercase();
        assert_eq!(code.name(), Some(name.as_str()));
        assert_eq!(
            code.is_soft(),
            constant.kind == ConstantKind::Soft,
            "{name}"
        );
        assert_eq!(
            code.is_hard(),
            constant.kind == ConstantKind::Hard,
            "{name}"
        );
        assert!(ReplyCode::ALL.contains(&code));
        codes += 1;
    }
    assert_eq!(ReplyCode::ALL.len(), codes);
    let unknown = ReplyCode(299);
    assert!(unknown.name().is_none() && !unknown.is_soft() && !unknown.is_hard());
}

/// The codec reads the tags that RabbitMQ reads, as it reads them, and no others.
#[test]
fn tags_are_read_as_the_data_says() {
    let (_, layer) = data();
    for byte in 0..=u8::MAX {
        let known = layer
            .field_tags
            .iter()
            .find(|tag| tag.tag == char::from(byte));
        let known = known.and_then(|tag: &FieldTag| tag.rabbitmq.as_deref());
        // Zeros enough for any type: what does not read them all is another one.
        let read: Vec<_> = (0..=8)
            .filter_map(|zeros| {
                let mut wire = vec![1, b'k', byte];
                wire.extend(std::iter::repeat_n(0, zeros));
                let raw = amqp_codec::RawTable::from_bytes(&wire);
                let table = raw.decode(&Limits::default()).ok()?;
                Some((zeros, kind(&table)))
            })
            .collect();
        let expected = known.map(|text| match text {
            "boolean, one octet" => (1, "bool"),
            "8-bit signed integer" => (1, "i8"),
            "8-bit unsigned integer" => (1, "u8"),
            "16-bit signed integer" => (2, "i16"),
            "16-bit unsigned integer" => (2, "u16"),
            "32-bit signed integer" => (4, "i32"),
            "32-bit unsigned integer" => (4, "u32"),
            "64-bit signed integer" => (8, "i64"),
            "32-bit floating point" => (4, "f32"),
            "64-bit floating point" => (8, "f64"),
            text if text.starts_with("decimal") => (5, "decimal"),
            text if text.starts_with("timestamp") => (8, "timestamp"),
            text if text.starts_with("array") => (4, "array"),
            "octets behind a 32-bit size" => (4, "bytes"),
            "long string" => (4, "string"),
            "table" => (4, "table"),
            "no value" => (0, "void"),
            other => panic!("no such type: {other}"),
        });
        assert_eq!(read, Vec::from_iter(expected), "tag {:?}", char::from(byte));
    }
}

fn kind(table: &Table<'_>) -> &'static str {
    match table.get("k").expect("the key is there") {
        Value::Bool(_) => "bool",
        Value::I8(_) => "i8",
        Value::U8(_) => "u8",
        Value::I16(_) => "i16",
        Value::U16(_) => "u16",
        Value::I32(_) => "i32",
        Value::U32(_) => "u32",
        Value::I64(_) => "i64",
        Value::F32(_) => "f32",
        Value::F64(_) => "f64",
        Value::Decimal(_) => "decimal",
        Value::LongStr(_) => "string",
        Value::Array(_) => "array",
        Value::Timestamp(_) => "timestamp",
        Value::Table(_) => "table",
        Value::Void => "void",
        Value::Bytes(_) => "bytes",
    }
}
