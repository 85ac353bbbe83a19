//! Bytes that nobody sends by accident.

use amqp_codec::basic::Properties;
use amqp_codec::content::Announced;
use amqp_codec::{
    ContentHeader, DecodeErrorKind, Frame, Limits, Method, RawFrame, RawTable, Table,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::strategies::encoded_frame;

/// Tables or arrays inside each other, each the only value of the one around it; the innermost is empty.
fn nested(levels: usize, tag: u8) -> Vec<u8> {
    let entry = |inner: usize| {
        let key: &[u8] = if tag == b'F' { b"\0" } else { b"" };
        [key, &[tag], &(inner as u32).to_be_bytes()].concat()
    };
    let entry_len = entry(0).len();
    let mut content = Vec::new();
    for level in (0..levels).rev() {
        content.extend(entry(level * entry_len));
    }
    // The outermost content belongs to a table in either case.
    match tag {
        b'F' => content,
        _ => [b"\0", &content[..]].concat(),
    }
}

#[test]
fn nesting_is_bounded_not_recursed() {
    for tag in [b'F', b'A'] {
        let deep = nested(100_000, tag);
        let error = Table::decode(&deep, &Limits::default()).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TableTooDeep(64));
        // As deep as a limit can be set, nothing recurses either: not the check, nor comparing, nor printing.
        let limits = Limits {
            table_depth: u16::MAX,
            table_entries: u32::MAX,
            ..Limits::default()
        };
        let error = Table::decode(&deep, &limits).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TableTooDeep(u16::MAX));
        let deep = nested(65_000, tag);
        let table = Table::decode(&deep, &limits).unwrap();
        assert!(format!("{table:?}").len() < 200);
        assert!(!table.has_non_finite());
        let mut other = table.clone();
        other.extend([(amqp_codec::short!(""), 1)]);
        assert!(table.eq_as_map(&other), "the first of two keys counts");
        assert!(table.contains_as_map(&other, &[]));
        let mut deeper = Table::EMPTY;
        deeper.insert("", table.get("").unwrap()).unwrap();
        assert_eq!(deeper, table);
    }
}

#[test]
fn depth_limit_is_exact() {
    for tag in [b'F', b'A'] {
        // The outermost table and 63 inside it; the innermost is empty and not entered.
        let limits = Limits::default();
        assert!(Table::decode(&nested(64, tag), &limits).is_ok());
        let error = Table::decode(&nested(65, tag), &limits).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TableTooDeep(64));
    }
}

#[test]
fn poison_headers_pass_through() {
    let limits = Limits {
        frame_max: 131_072,
        ..Limits::default()
    };
    for poison in [
        nested(10_000, b'A'),
        b"\x01kU\0".to_vec(),
        b"\xff".to_vec(),
        vec![0; 5000],
    ] {
        let headers = Some(RawTable::from_bytes(&poison));
        let properties = Properties {
            headers,
            priority: Some(1),
            ..Properties::EMPTY
        };
        let header = ContentHeader {
            class_id: 60,
            body_size: 1,
            properties,
        };
        let mut bytes = Vec::new();
        Frame::Header { channel: 1, header }
            .encode(&mut bytes)
            .unwrap();

        let (raw, _) = RawFrame::parse(&bytes, &limits).unwrap().unwrap();
        let frame = raw.decode(&limits).unwrap();
        let mut again = Vec::new();
        frame.encode(&mut again).unwrap();
        assert_eq!(again, bytes);
        let Frame::Header { header, .. } = frame else {
            panic!("a header was sent")
        };
        assert_eq!(header.properties.priority, Some(1));
        assert!(header.properties.headers(&limits).is_err());
    }
}

#[test]
fn lengths_of_four_gigabytes() {
    // Of a long string and of tables within a method; what allocates nothing is shown in `allocations`.
    for payload in [
        &b"\x00\x0a\x00\x14\xff\xff\xff\xff"[..],
        b"\x00\x0a\x00\x0b\xff\xff\xff\xff",
        b"\x00\x0a\x00\x0b\x00\x00\x00\x07\x00F\xff\xff\xff\xff\x00",
    ] {
        let error = Method::decode(payload, &Limits::default()).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Truncated);
    }
    let properties = b"\x20\x00\xff\xff\xff\xff\x01kV";
    assert_eq!(
        Properties::decode(properties).unwrap_err().kind,
        DecodeErrorKind::Truncated
    );
}

/// Decodes whatever comes, the way a connection would, and re-encodes what is valid.
fn consume(mut input: &[u8], limits: &Limits) {
    while let Ok(Some((raw, len))) = RawFrame::parse(input, limits) {
        let bytes = &input[..len];
        let mut again = Vec::new();
        raw.encode(&mut again).unwrap();
        assert_eq!(again, bytes);
        match raw.decode(limits) {
            Ok(frame) => {
                again.clear();
                frame.encode(&mut again).unwrap();
                assert_eq!(again, bytes);
                assert_eq!(frame.encoded_len(), len);
                if let Frame::Header { header, .. } = &frame {
                    let _ = header.properties.headers(limits);
                }
                let _ = format!("{frame:?}");
            }
            Err(error) => {
                assert!(error.offset <= len as u64, "{error}");
                let _ = error.reply_code();
            }
        }
        input = &input[len..];
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..400)) {
        consume(&bytes, &Limits::default());
        let _ = Method::decode(&bytes, &Limits::default());
        let header = ContentHeader::decode(&bytes);
        let announced = header.as_ref().map(Announced::from).map_err(|fault| *fault);
        prop_assert_eq!(Announced::decode(&bytes), announced);
        let _ = Table::decode(&bytes, &Limits::default());
    }

    /// Noise in a valid envelope, behind a method id that exists: gets deeper than noise alone.
    #[test]
    fn any_payload(
        kind in 0u8..10,
        channel in any::<u16>(),
        class in prop::sample::select(vec![10u16, 20, 40, 50, 60, 85, 90]),
        method in 0u16..130,
        rest in vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..120),
    ) {
        let payload = [&class.to_be_bytes(), &method.to_be_bytes(), &rest[..]].concat();
        let mut bytes = Vec::new();
        RawFrame { kind, channel, payload: &payload }.encode(&mut bytes).unwrap();
        consume(&bytes, &Limits::default());
    }

    #[test]
    fn damaged_frames(
        frame in encoded_frame(),
        damage in vec((any::<Index>(), any::<u8>()), 1..5),
        limits in (0u32..400, 0u16..5, 0u32..10),
    ) {
        let mut bytes = frame;
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        consume(&bytes, &Limits::default());
        let (method_frame_max, table_depth, table_entries) = limits;
        let narrow = Limits { method_frame_max, table_depth, table_entries, ..Limits::default() };
        consume(&bytes, &narrow);
    }

    #[test]
    fn any_table(content in vec(prop_oneof![
        3 => prop::sample::select(b"tbBsuIilLfdDSATFVx".to_vec()),
        3 => 0u8..6,
        1 => any::<u8>(),
    ], 0..200)) {
        if let Ok(table) = Table::decode(&content, &Limits::default()) {
            prop_assert_eq!(table.as_bytes(), &content);
            // Checked means walked to the last byte: the iterator gets as far.
            let rebuilt: Table<'_> = table.iter().collect();
            prop_assert_eq!(rebuilt.as_bytes().len(), content.len());
        }
    }
}
