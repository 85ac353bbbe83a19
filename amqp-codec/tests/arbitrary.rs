//! Values made of a fuzzer's bytes: valid where they say so, and of every kind there is.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::mem::discriminant;

use amqp_codec::{Array, Frame, Limits, LongStr, RawFrame, RawTable, Table, Value};
use arbitrary::{Arbitrary as _, Unstructured};
use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};

/// Calls for a thousand lots of bytes, the same each time, of 0 to 2 KiB.
fn each(mut make: impl FnMut(&mut Unstructured<'_>)) {
    let mut random = StdRng::seed_from_u64(17);
    let mut bytes = [0; 2048];
    for lot in 0..1000 {
        random.fill_bytes(&mut bytes);
        make(&mut Unstructured::new(&bytes[..lot * 2]));
    }
}

#[test]
fn frames_are_valid_and_of_every_method() {
    let limits = Limits::default();
    let mut methods = HashSet::new();
    each(|u| {
        let Ok(frame) = Frame::arbitrary(u) else {
            return;
        };
        let mut wire = Vec::new();
        frame.encode(&mut wire).unwrap();
        let (raw, len) = RawFrame::parse(&wire, &limits).unwrap().unwrap();
        assert_eq!((raw.decode(&limits), len), (Ok(frame.clone()), wire.len()));
        if let Frame::Method { method, .. } = frame {
            methods.insert(method.id());
        }
    });
    let missing = amqp_codec::MethodId::ALL
        .iter()
        .find(|id| !methods.contains(*id));
    assert_eq!(missing, None);
}

#[test]
fn tables_are_valid_and_hold_every_type() {
    let mut types = HashSet::new();
    let mut longest = 0;
    each(|u| {
        let Ok(table) = Table::arbitrary(u) else {
            return;
        };
        let read = Table::decode(table.as_bytes(), &Limits::default());
        assert_eq!(read, Ok(table.clone()));
        longest = longest.max(table.len());
        types.extend(
            table
                .iter()
                .map(|(_, value)| discriminant(&value.into_owned())),
        );
    });
    assert_eq!(types.len(), 17);
    assert_eq!(longest, 16);
}

#[test]
fn values_and_arrays_are_valid() {
    each(|u| {
        let (Ok(value), Ok(array)) = (Value::arbitrary(u), Array::arbitrary(u)) else {
            return;
        };
        let table: Table<'_> = [("a", value.clone()), ("b", Value::Array(array.clone()))]
            .into_iter()
            .map(|(key, value)| (amqp_codec::ShortStr::from_static(key), value))
            .collect();
        let read = Table::decode(table.as_bytes(), &Limits::default()).unwrap();
        // By their encoding: a float that is no number is not equal to itself.
        assert_eq!(read.as_bytes(), table.as_bytes());
        assert_eq!(read.get_array("b"), Some(array));
    });
}

/// What may be invalid is so, now and then.
#[test]
fn raw_tables_are_valid_or_not() {
    let (mut valid, mut invalid) = (0, 0);
    each(|u| {
        let Ok(raw) = RawTable::arbitrary(u) else {
            return;
        };
        match raw.decode(&Limits::default()) {
            Ok(_) => valid += 1,
            Err(_) => invalid += 1,
        }
    });
    assert!(valid > 100 && invalid > 100, "{valid} {invalid}");
}

#[test]
fn the_rest_is_a_string() {
    let rest = LongStr::arbitrary_take_rest(Unstructured::new(b"\xffrest"));
    assert_eq!(rest.unwrap(), LongStr::from(b"\xffrest"));
}
