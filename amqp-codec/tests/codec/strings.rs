use std::borrow::Cow;
use std::collections::HashMap;

use amqp_codec::{EncodeError, LongStr, RawTable, ShortStr, TooLong, frame, short};

#[test]
fn length_of_short_strings() {
    let longest = "x".repeat(255);
    let too_long = "x".repeat(256);
    assert_eq!(ShortStr::try_from(longest.as_str()).unwrap().len(), 255);
    let error = Err(TooLong { len: 256 });
    assert_eq!(ShortStr::try_from(too_long.as_str()), error);
    assert_eq!(ShortStr::try_from(too_long.as_bytes()), error);
    assert_eq!(ShortStr::try_from(&too_long), error);
    assert_eq!(ShortStr::try_from(too_long.clone()), error);
    assert_eq!(ShortStr::try_from(too_long.clone().into_bytes()), error);
    assert_eq!(ShortStr::try_from(Cow::from(&too_long)), error);
    assert_eq!(ShortStr::try_from(LongStr::from(&too_long)), error);
    // 128 characters of two bytes each are 256.
    assert_eq!(ShortStr::try_from("é".repeat(128)), error);

    let mut wire = Vec::new();
    ShortStr::try_from(&longest).unwrap().encode(&mut wire);
    assert_eq!(wire, [b"\xff", longest.as_bytes()].concat());
}

#[test]
fn owned_and_borrowed_are_alike() {
    let borrowed = short!("queue");
    let owned = ShortStr::try_from(String::from("queue")).unwrap();
    assert_eq!(borrowed, owned);
    assert_eq!(borrowed.cmp(&owned), std::cmp::Ordering::Equal);
    assert_eq!(owned, "queue");
    assert!(short!("a") < short!("b"));
    let mut map = HashMap::new();
    map.insert(owned.clone(), 1);
    assert_eq!(map.get(&borrowed), Some(&1));
    assert_eq!(map.get(b"queue".as_slice()), Some(&1));

    // A clone of an owned one shares its bytes.
    let (first, second) = (owned.clone(), owned);
    assert!(std::ptr::eq(first.as_bytes(), second.as_bytes()));
    let outlives: ShortStr<'static> = {
        let local = String::from("local");
        ShortStr::try_from(local.as_str()).unwrap().into_owned()
    };
    assert_eq!(outlives.as_borrowed(), "local");
}

#[test]
fn bytes_that_are_no_text() {
    let latin1 = LongStr::from(b"caf\xe9 \"x\"\n");
    assert!(latin1.as_str().is_err());
    assert_eq!(latin1.to_string_lossy(), "caf\u{fffd} \"x\"\n");
    assert_eq!(latin1.to_string(), "caf\u{fffd} \"x\"\n");
    assert_eq!(format!("{latin1:?}"), r#""caf\xe9 \"x\"\n""#);
    assert_eq!(format!("{:?}", short!("it's é")), r#""it's é""#);
    assert_eq!(LongStr::default(), LongStr::EMPTY);
    assert!(LongStr::from(Vec::new()).is_empty());
}

#[test]
fn long_strings_on_the_wire() {
    let mut wire = Vec::new();
    let text = LongStr::from("abc");
    text.encode(&mut wire).unwrap();
    assert_eq!(wire, b"\0\0\0\x03abc");
    assert_eq!(text.encoded_len(), 7);
}

/// What comes from elsewhere, and what compares with it.
#[test]
fn made_from_and_compared_with() {
    for text in [
        LongStr::from_static("text"),
        "text".into(),
        b"text".as_slice().into(),
        b"text".to_vec().into(),
        String::from("text").into(),
        (&String::from("text")).into(),
        Cow::from("text").into(),
        Cow::from(String::from("text")).into(),
        ShortStr::from_static("text").into(),
    ] {
        assert_eq!(text, "text");
        assert_eq!(text.as_ref() as &[u8], b"text");
        assert_ne!(text, "texts");
        assert_eq!(*"text", *text.as_str().unwrap());
        assert!(!text.is_empty());
        assert_eq!(text.clone().into_owned().into_owned(), text);
    }
    let name = String::from("queue");
    assert_eq!(ShortStr::try_from(name.as_str()).unwrap(), *"queue");
    assert_eq!(ShortStr::from_static("queue").as_ref() as &[u8], b"queue");
}

/// Nothing is written of what does not fit its 32-bit length.
#[test]
#[cfg(target_pointer_width = "64")]
fn lengths_beyond_32_bits() {
    // Zeroes that nobody looks at take no memory.
    let zeroes = vec![0; 1 << 32];
    let mut wire = Vec::new();
    let too_long = Err(EncodeError::TooLong { len: 1 << 32 });
    assert_eq!(LongStr::from(&zeroes[..]).encode(&mut wire), too_long);
    assert_eq!(RawTable::from_bytes(&zeroes).encode(&mut wire), too_long);
    assert_eq!(frame::encode_body(1, &zeroes, &mut wire), too_long);
    assert!(wire.is_empty());
}
