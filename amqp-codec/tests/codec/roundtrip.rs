//! What is decoded encodes to the same bytes, what is encoded decodes to the same value, and it does not matter how
//! the bytes come in.

use amqp_codec::basic::Properties;
use amqp_codec::content::Announced;
use amqp_codec::{ContentHeader, Limits, Method, MethodId, RawFrame, RawTable, Table, frame};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::strategies::{
    each_method, encoded, encoded_frame, header, method, properties, table_content,
};

const LIMITS: Limits = Limits {
    frame_max: 131_072,
    method_frame_max: 1 << 20,
    table_depth: 64,
    table_entries: 65_536,
    body_max: u64::MAX,
};

/// All frames of a stream, as far as they are complete, and how many bytes they took.
fn frames(mut input: &[u8]) -> (Vec<RawFrame<'_>>, usize) {
    let (mut frames, mut taken) = (Vec::new(), 0);
    while let Some((frame, len)) = RawFrame::parse(input, &LIMITS).unwrap() {
        frames.push(frame);
        taken += len;
        input = &input[len..];
    }
    (frames, taken)
}

proptest! {
    #[test]
    fn any_method(method in method()) {
        let mut payload = Vec::new();
        method.encode(&mut payload).unwrap();
        prop_assert_eq!(payload.len(), method.payload_len());
        prop_assert_eq!(&payload[..2], method.id().class.to_be_bytes());
        prop_assert_eq!(&payload[2..4], method.id().method.to_be_bytes());
        let decoded = Method::decode(&payload, &LIMITS).unwrap();
        prop_assert_eq!(&decoded, &method);
        prop_assert_eq!(decoded.into_owned(), method);
    }

    #[test]
    fn any_header(header in header()) {
        let mut payload = Vec::new();
        header.encode(&mut payload).unwrap();
        prop_assert_eq!(payload.len(), header.encoded_len());
        let decoded = ContentHeader::decode(&payload).unwrap();
        prop_assert_eq!(Announced::decode(&payload), Ok(Announced::from(&decoded)));
        prop_assert_eq!(&decoded, &header);
        prop_assert_eq!(&decoded.clone().into_owned(), &header);
        let properties = Properties::decode(&payload[12..]).unwrap();
        prop_assert_eq!(&properties, &header.properties);
        // Poison or not, the headers are the same bytes; taken apart they are a table or an error.
        if let (Some(before), Some(after)) = (&header.properties.headers, &properties.headers) {
            prop_assert_eq!(before.as_bytes(), after.as_bytes());
            if let Ok(table) = after.decode(&LIMITS) {
                prop_assert_eq!(table.as_bytes(), before.as_bytes());
            }
        }
    }

    #[test]
    fn any_frame(bytes in encoded_frame()) {
        let (raw, len) = RawFrame::parse(&bytes, &LIMITS).unwrap().unwrap();
        prop_assert_eq!(len, bytes.len());
        let decoded = raw.decode(&LIMITS).unwrap();
        prop_assert_eq!(decoded.encoded_len(), bytes.len());
        prop_assert_eq!(decoded.channel(), raw.channel);
        prop_assert_eq!(&encoded(&decoded), &bytes);
        let mut again = Vec::new();
        raw.encode(&mut again).unwrap();
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn stream_cut_anywhere(
        stream in vec(encoded_frame(), 1..8),
        cuts in vec(any::<Index>(), 0..12),
    ) {
        let stream = stream.concat();
        let (whole, taken) = frames(&stream);
        prop_assert_eq!(taken, stream.len());
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.push(stream.len());
        cuts.sort_unstable();
        let (mut seen, mut from) = (Vec::new(), 0);
        for cut in cuts {
            let (some, taken) = frames(&stream[from..cut]);
            seen.extend(some);
            from += taken;
            let missing = frame::needed(&stream[from..cut]);
            prop_assert!(missing > 0, "what is whole has been taken");
            if cut + missing <= stream.len() {
                // With one byte less the frame is still incomplete.
                prop_assert_eq!(frames(&stream[from..cut + missing - 1]).1, 0);
            }
        }
        prop_assert_eq!(seen, whole);
    }

    #[test]
    fn frame_cut_short_is_incomplete(bytes in encoded_frame(), at in any::<Index>()) {
        let cut = at.index(bytes.len());
        prop_assert_eq!(RawFrame::parse(&bytes[..cut], &LIMITS), Ok(None));
    }

    #[test]
    fn payload_cut_short_is_an_error(method in method(), at in any::<Index>()) {
        let mut payload = Vec::new();
        method.encode(&mut payload).unwrap();
        let cut = at.index(payload.len());
        let error = Method::decode(&payload[..cut], &LIMITS).unwrap_err();
        prop_assert!(error.offset <= cut as u64);
    }

    #[test]
    fn properties_cut_short_are_an_error(properties in properties(), at in any::<Index>()) {
        let mut bytes = Vec::new();
        properties.encode(&mut bytes).unwrap();
        prop_assert!(Properties::decode(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_table(content in table_content()) {
        let raw = RawTable::from_bytes(&content);
        let table = raw.decode(&LIMITS).unwrap();
        prop_assert_eq!(table.as_bytes(), &content);
        prop_assert_eq!(table.iter().count(), table.len());
        let mut encoded = Vec::new();
        table.encode(&mut encoded).unwrap();
        prop_assert_eq!(encoded.len(), table.encoded_len());
        prop_assert_eq!(&encoded[4..], &content);
        for (key, value) in &table {
            prop_assert!(table.contains_key(key.as_bytes()));
            let _ = format!("{value:?}");
        }
        // Built anew from its values it means the same, even where the bytes differ: `L`, odd booleans.
        let rebuilt: Table<'_> = table.iter().collect();
        prop_assert!(rebuilt.eq_as_map(&table));
        prop_assert_eq!(rebuilt.len(), table.len());
    }
}

#[test]
fn every_method_is_generated() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let ids: Vec<MethodId> = each_method()
        .iter()
        .map(|strategy| {
            let tree = strategy.new_tree(&mut runner).unwrap();
            proptest::strategy::ValueTree::current(&tree).id()
        })
        .collect();
    assert_eq!(ids, MethodId::ALL);
}
