use amqp_codec::basic::{self, Properties};
use amqp_codec::content::{self, Assembler, Content, ContentError, ContentHeader, Whole};
use amqp_codec::{EncodeError, Frame, Limits, Method, RawFrame, ReplyCode, frame, short};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::strategies;

fn limits() -> Limits {
    Limits {
        frame_max: u32::MAX,
        method_frame_max: u32::MAX,
        ..Limits::default()
    }
}

fn header(body_size: u64) -> (ContentHeader<'static>, Vec<u8>) {
    let properties = Properties {
        message_id: Some(short!("id")),
        delivery_mode: Some(2),
        ..Properties::EMPTY
    };
    let header = ContentHeader {
        class_id: 60,
        body_size,
        properties,
    };
    let mut payload = Vec::new();
    header.encode(&mut payload).unwrap();
    (header, payload)
}

/// An assembler that waits for a body of this size.
fn expecting(body_size: u64) -> Assembler<u8> {
    let mut assembler = Assembler::new();
    assembler.start(7, &[b"exchange", b"", b"key"]).unwrap();
    let (header, payload) = header(body_size);
    assert!(
        assembler
            .header(&header, &payload, &limits())
            .unwrap()
            .is_none()
    );
    assembler
}

#[test]
fn method_header_bodies() {
    let mut assembler = expecting(5);
    assert!(!assembler.is_idle());
    assert!(assembler.body(b"he", None).unwrap().is_none());
    // A body frame without a byte in the middle of a body is legal.
    assert!(assembler.body(b"", None).unwrap().is_none());
    let content = assembler.body(b"llo", None).unwrap().unwrap();
    assert!(assembler.is_idle());
    assert_eq!(content.method, 7);
    assert_eq!(content.body(), b"hello");
    assert_eq!(content.string(0), b"exchange");
    assert_eq!(content.string(1), b"");
    assert_eq!(content.string(2), b"key");
    assert_eq!(content.string(3), b"");
    assert_eq!(content.string(4), b"");
    assert_eq!(content.properties(), header(5).0.properties);
    assert_eq!(content.encoded_properties(), &header(5).1[12..]);
    assert_eq!(content.to_body(), "hello");
    let (method, properties, body) = content.clone().map(|method| method + 1).into_parts();
    assert_eq!(
        (method, properties, body),
        (8, header(5).0.properties, "hello".into())
    );
    assert_eq!(content.into_body(), "hello");
}

/// The size counts all that is kept, be the body among it or apart.
#[test]
fn size_of_small_and_large() {
    let strings_and_properties = b"exchangekey".len() + header(0).1[12..].len();
    let small = vec![1; Assembler::<u8>::SMALL_BODY];
    let large = vec![2; Assembler::<u8>::SMALL_BODY + 1];
    for body in [&[][..], b"hello", &small, &large] {
        let mut assembler = Assembler::default();
        assembler.start(7, &[b"exchange", b"", b"key"]).unwrap();
        let (header, payload) = header(body.len() as u64);
        let at_header = assembler.header(&header, &payload, &limits()).unwrap();
        let content = match at_header {
            Some(content) => content,
            None => assembler.body(body, None).unwrap().unwrap(),
        };
        assert_eq!(content.size(), strings_and_properties + body.len());
        assert_eq!(content.body(), body);
        assert_eq!(content.to_body(), body);
        assert_eq!(content.clone().into_body(), body);
        assert_eq!(content.string(2), b"key");
        assert_eq!(content.encoded_properties(), &payload[12..]);
    }
}

#[test]
fn an_empty_body_has_no_frame() {
    let mut assembler = Assembler::new();
    assembler.start((), &[]).unwrap();
    let (header, payload) = header(0);
    let content = assembler
        .header(&header, &payload, &limits())
        .unwrap()
        .unwrap();
    assert_eq!(content.body(), b"");
    assert_eq!(content.into_body(), "");
    assert!(assembler.is_idle());
    assert_eq!(
        assembler.body(b"", None).unwrap_err(),
        ContentError::UnexpectedBody
    );
}

#[test]
fn order_is_enforced() {
    let (header, payload) = header(5);
    let mut assembler = Assembler::new();
    let unexpected = assembler.header(&header, &payload, &limits()).unwrap_err();
    assert_eq!(unexpected, ContentError::UnexpectedHeader);
    assert_eq!(unexpected.reply_code(), ReplyCode(505));
    let unexpected = assembler.body(b"x", None).unwrap_err();
    assert_eq!(unexpected, ContentError::UnexpectedBody);
    assert_eq!(unexpected.reply_code(), ReplyCode(505));
    assembler.expect_method().unwrap();

    assembler.start((), &[]).unwrap();
    assert_eq!(
        assembler.body(b"x", None).unwrap_err(),
        ContentError::UnexpectedBody
    );
    assert_eq!(
        assembler.expect_method(),
        Err(ContentError::UnexpectedMethod)
    );
    assert_eq!(ContentError::UnexpectedMethod.reply_code(), ReplyCode(505));
    assert_eq!(
        assembler.start((), &[]),
        Err(ContentError::UnexpectedMethod)
    );

    assembler.header(&header, &payload, &limits()).unwrap();
    let second = assembler.header(&header, &payload, &limits()).unwrap_err();
    assert_eq!(second, ContentError::UnexpectedHeader);
    assert_eq!(
        assembler.expect_method(),
        Err(ContentError::UnexpectedMethod)
    );

    assembler.reset();
    assembler.start((), &[]).unwrap();
}

#[test]
fn another_class() {
    let mut assembler = Assembler::new();
    assembler.start((), &[]).unwrap();
    let header = ContentHeader {
        class_id: 50,
        ..Default::default()
    };
    let wrong = assembler.header(&header, &[0; 14], &limits()).unwrap_err();
    assert_eq!(wrong, ContentError::WrongClass(50));
    assert_eq!(wrong.reply_code(), ReplyCode(505));
}

#[test]
fn more_body_than_announced() {
    for received in [0, 1, 4] {
        let mut assembler = expecting(5);
        assembler.body(&b"hello"[..received], None).unwrap();
        let beyond = assembler.body(&b"world!"[received..], None);
        match received {
            0 => {
                let error = beyond.unwrap_err();
                assert_eq!(
                    error,
                    ContentError::BodyTooLong {
                        size: 6,
                        announced: 5
                    }
                );
                assert_eq!(error.reply_code(), ReplyCode(501));
            }
            _ => {
                let error = beyond.unwrap_err();
                assert_eq!(
                    error,
                    ContentError::BodyTooLong {
                        size: 6,
                        announced: 5
                    }
                );
            }
        }
    }
    // After the last byte nothing more belongs to the body.
    let mut assembler = expecting(5);
    assembler.body(b"hello", None).unwrap().unwrap();
    assert_eq!(
        assembler.body(b"", None).unwrap_err(),
        ContentError::UnexpectedBody
    );
}

#[test]
fn body_limit_is_checked_at_the_header() {
    let mut assembler = Assembler::new();
    assembler.start((), &[]).unwrap();
    let (header, payload) = header(101);
    let limits = Limits {
        body_max: 100,
        ..limits()
    };
    let error = assembler.header(&header, &payload, &limits).unwrap_err();
    assert_eq!(
        error,
        ContentError::TooLarge {
            size: 101,
            max: 100
        }
    );
    assert_eq!(error.reply_code(), ReplyCode(311));
    // What reaches the limit and goes no further is taken.
    let mut assembler = Assembler::new();
    assembler.start((), &[]).unwrap();
    let (header, payload) = self::header(100);
    assert!(
        assembler
            .header(&header, &payload, &limits)
            .unwrap()
            .is_none()
    );
    assert!(
        assembler
            .body(&[b'x'; 100], None)
            .is_ok_and(|done| done.is_some())
    );
}

#[test]
fn large_bodies_in_one_frame_are_not_copied() {
    let size = Assembler::<()>::SMALL_BODY + 1;
    let buffer = Bytes::from(vec![b'x'; size + 20]);
    let payload = &buffer[10..size + 10];
    let content = expecting(size as u64)
        .body(payload, Some(&buffer))
        .unwrap()
        .unwrap();
    assert!(std::ptr::eq(content.body(), payload));
    assert_eq!(content.string(0), b"exchange");
    assert_eq!(content.properties(), header(0).0.properties);
    assert!(std::ptr::eq(&content.into_body()[..], payload));

    // A source that the payload is not in, or no source: copied.
    let other = Bytes::from(vec![b'y'; size]);
    let (before, after) = (buffer.slice(..size), buffer.slice(20..));
    for source in [Some(&other), Some(&before), Some(&after), None] {
        let content = expecting(size as u64)
            .body(payload, source)
            .unwrap()
            .unwrap();
        assert!(!std::ptr::eq(content.body(), payload));
        assert_eq!(content.body(), payload);
    }

    // One byte less is small enough to share the one allocation; in two frames it has to be put together.
    let content = expecting(size as u64 - 1)
        .body(&payload[1..], Some(&buffer))
        .unwrap()
        .unwrap();
    assert!(!std::ptr::eq(content.body(), &payload[1..]));
    let mut assembler = expecting(size as u64);
    assembler.body(&payload[..1], Some(&buffer)).unwrap();
    let content = assembler
        .body(&payload[1..], Some(&buffer))
        .unwrap()
        .unwrap();
    assert_eq!(content.body(), payload);
}

#[test]
fn debug_shows_no_payload() {
    let content = expecting(6).body(b"secret", None).unwrap().unwrap();
    let text = format!("{content:?}");
    assert!(
        !text.contains("secret") && text.contains("body_len: 6"),
        "{text}"
    );
}

#[test]
fn chunks() {
    let lengths = |len: usize, frame_max| -> Vec<usize> {
        content::body_chunks(&vec![0; len], frame_max)
            .map(<[u8]>::len)
            .collect()
    };
    assert_eq!(lengths(0, 4096), [0; 0]);
    assert_eq!(lengths(1, 4096), [1]);
    assert_eq!(lengths(4088, 4096), [4088]);
    assert_eq!(lengths(4089, 4096), [4088, 1]);
    assert_eq!(lengths(10_000, 4096), [4088, 4088, 1824]);
    assert_eq!(lengths(3, 0), [1, 1, 1]);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let long = "x".repeat(255);
    let publish = basic::Publish {
        routing_key: long.as_str().try_into().unwrap(),
        ..Default::default()
    };
    let big = vec![b'h'; 5000];
    let headers = Some(amqp_codec::RawTable::from_bytes(&big));
    let properties = Properties {
        headers,
        ..Properties::EMPTY
    };
    let mut buf = Vec::new();
    // 8 around it, 12 before the flags, 2 flags, 4 for the length.
    let refused = EncodeError::FrameTooLarge {
        size: 5026,
        frame_max: 4096,
    };
    assert_eq!(
        content::encode(1, &publish, &properties, b"", 4096, &mut buf),
        Err(refused)
    );
    assert_eq!(buf, b"");
    content::encode(1, &publish, &properties, b"", 5026, &mut buf).unwrap();

    let mut buf = Vec::new();
    // 8 around it, 4 id, 2 reserved, 1 + 0, 1 + 255, 1 of bits.
    let refused = EncodeError::FrameTooLarge {
        size: 272,
        frame_max: 271,
    };
    let encoded = content::encode(1, &publish, &Properties::EMPTY, b"", 271, &mut buf);
    assert_eq!(encoded, Err(refused));
    assert_eq!(buf, b"");

    let publish = basic::Publish::default();
    let needed = content::encoded_len(&publish, &Properties::EMPTY, 5, 4096);
    let mut array = [0; 100];
    let mut room = &mut array[..needed - 1];
    assert_eq!(
        content::encode(1, &publish, &Properties::EMPTY, b"hello", 4096, &mut room),
        Err(EncodeError::NoRoom {
            needed,
            room: needed - 1
        })
    );
    assert_eq!(array, [0; 100]);
    let mut room = &mut array[..needed];
    content::encode(1, &publish, &Properties::EMPTY, b"hello", 4096, &mut room).unwrap();
    assert!(room.is_empty());
}

#[test]
fn a_message_on_the_wire() {
    let publish = basic::Publish {
        routing_key: short!("q"),
        ..Default::default()
    };
    let properties = Properties {
        delivery_mode: Some(2),
        ..Properties::EMPTY
    };
    let mut buf = Vec::new();
    content::encode(1, &publish, &properties, b"hello", 4096, &mut buf).unwrap();
    let expected = [
        &b"\x01\x00\x01\x00\x00\x00\x0a\x00\x3c\x00\x28\x00\x00\x00\x01q\x00\xce"[..],
        b"\x02\x00\x01\x00\x00\x00\x0f\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x10\x00\x02\xce",
        b"\x03\x00\x01\x00\x00\x00\x05hello\xce",
    ]
    .concat();
    assert_eq!(buf, expected);
    assert_eq!(
        content::encoded_len(&publish, &properties, 5, 4096),
        expected.len()
    );
    // Up to 4088 bytes take one body frame, one byte more takes two.
    let head = expected.len() - 13;
    for (len, frames) in [(0, 0), (1, 1), (4088, 1), (4089, 2), (8176, 2), (8177, 3)] {
        let total = content::encoded_len(&publish, &properties, len, 4096);
        assert_eq!(total, head + len + 8 * frames, "{len}");
        let mut buf = Vec::new();
        content::encode(1, &publish, &properties, &vec![b'x'; len], 4096, &mut buf).unwrap();
        assert_eq!(buf.len(), total, "{len}");
    }
}

#[test]
fn the_head_alone() {
    let publish = basic::Publish {
        routing_key: short!("q"),
        ..Default::default()
    };
    let some = Properties {
        priority: Some(3),
        ..Properties::EMPTY
    };
    for properties in [&Properties::EMPTY, &some] {
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        content::encode(1, &publish, properties, b"hello", 4096, &mut whole).unwrap();
        content::encode_head(1, &publish, properties, 5, &mut parts).unwrap();
        frame::encode_body(1, b"hello", &mut parts).unwrap();
        assert_eq!(parts, whole);
        // Without room for all of it the error comes before a panic; the body's frame has 13 bytes.
        let needed = whole.len() - 13;
        let mut array = [0; 100];
        let mut room = &mut array[..needed - 1];
        assert_eq!(
            content::encode_head(1, &publish, properties, 5, &mut room),
            Err(EncodeError::NoRoom {
                needed,
                room: needed - 1
            })
        );
        let mut room = &mut array[..needed];
        content::encode_head(1, &publish, properties, 5, &mut room).unwrap();
        assert!(room.is_empty());
    }
}

#[test]
fn a_publish_without_properties() {
    for mandatory in [false, true] {
        for body in [&b""[..], b"x", &[b'x'; 4088]] {
            let publish = basic::Publish {
                exchange: short!("exchange"),
                routing_key: short!("key"),
                mandatory,
                ..Default::default()
            };
            let none = &Properties::EMPTY;
            // Behind what the buffer holds already.
            let (mut expected, mut buf) = (vec![1], vec![1]);
            content::encode(9, &publish, none, body, 4096, &mut expected).unwrap();
            let (exchange, key) = (&publish.exchange, &publish.routing_key);
            content::encode_publish(9, exchange, key, mandatory, body, &mut buf);
            assert_eq!(buf, expected);
        }
    }
}

/// Puts a stream of frames together again.
fn assemble(mut wire: &[u8], frame_max: u32) -> Vec<Content<()>> {
    let (mut assembler, mut contents) = (Assembler::new(), Vec::new());
    while let Some((raw, len)) = RawFrame::parse(wire, &limits()).unwrap() {
        assert!(len <= frame_max as usize);
        wire = &wire[len..];
        let done = match raw.decode(&limits()).unwrap() {
            Frame::Method {
                method: Method::BasicPublish(publish),
                ..
            } => {
                let strings = [publish.exchange.as_bytes(), publish.routing_key.as_bytes()];
                assembler.start((), &strings).unwrap();
                None
            }
            Frame::Header { header, .. } => {
                assembler.header(&header, raw.payload, &limits()).unwrap()
            }
            Frame::Body { payload, .. } => assembler.body(payload, None).unwrap(),
            other => panic!("{other:?}"),
        };
        contents.extend(done);
    }
    assert!(wire.is_empty() && assembler.is_idle());
    contents
}

proptest! {
    #[test]
    fn split_and_put_together(
        strings in [strategies::short(), strategies::short()],
        properties in strategies::properties(),
        body in vec(any::<u8>(), 0..3000),
        repeat in 1usize..8,
        frame_max in prop_oneof![600u32..6000, Just(frame::FRAME_MIN_SIZE), Just(u32::MAX)],
    ) {
        let body = body.repeat(repeat);
        let [exchange, routing_key] = strings;
        let publish = basic::Publish { exchange, routing_key, ..Default::default() };
        let mut wire = Vec::new();
        let result = content::encode(1, &publish, &properties, &body, frame_max, &mut wire);
        let header_len = properties.encoded_len() + 20;
        if header_len.max(frame::method_frame_len(&publish)) > frame_max as usize {
            let too_large = matches!(result, Err(EncodeError::FrameTooLarge { .. }));
            prop_assert!(too_large);
            prop_assert!(wire.is_empty());
            return Ok(());
        }
        result.unwrap();
        prop_assert_eq!(
            wire.len(),
            content::encoded_len(&publish, &properties, body.len(), frame_max)
        );
        let contents = assemble(&wire, frame_max);
        prop_assert_eq!(contents.len(), 1);
        let content = contents.into_iter().next().unwrap();
        prop_assert_eq!(content.body(), &body);
        prop_assert_eq!(content.string(0), publish.exchange.as_bytes());
        prop_assert_eq!(content.string(1), publish.routing_key.as_bytes());
        prop_assert_eq!(content.properties(), properties);
        prop_assert_eq!(content.into_body(), body);
    }

    /// What is whole is what comes of assembling it.
    #[test]
    fn whole_or_assembled(
        strings in [strategies::short(), strategies::short()],
        properties in strategies::properties(),
        body in vec(any::<u8>(), 1..3000),
    ) {
        let strings = [strings[0].as_bytes(), strings[1].as_bytes()];
        let header = ContentHeader { class_id: 60, body_size: body.len() as u64, properties };
        let mut payload = Vec::new();
        header.encode(&mut payload).unwrap();
        let whole = Whole::new(&payload, &body, &limits()).unwrap();
        prop_assert_eq!((whole.header_len(), whole.body()), (payload.len(), &body[..]));
        let content = Content::from_whole(7, &strings, &whole);

        let mut assembler = Assembler::new();
        assembler.start(7, &strings).unwrap();
        prop_assert!(assembler.header(&header, &payload, &limits()).unwrap().is_none());
        let assembled = assembler.body(&body, None).unwrap().unwrap();
        prop_assert_eq!(content.method, assembled.method);
        for index in 0..4 {
            prop_assert_eq!(content.string(index), assembled.string(index));
        }
        prop_assert_eq!(content.encoded_properties(), assembled.encoded_properties());
        prop_assert_eq!(content.size(), assembled.size());
        prop_assert_eq!(content.into_body(), assembled.into_body());
    }

    /// Any sequence of frames against the rules in their simplest form.
    #[test]
    fn any_order(events in vec(prop_oneof![
        Just(Event::Method), (0u64..20).prop_map(Event::Header), (0usize..12).prop_map(Event::Body),
    ], 0..40)) {
        let mut assembler = Assembler::new();
        // What may come next: None a method, Some(None) a header, Some(Some(n)) n bytes of body.
        let mut expected: Option<Option<u64>> = None;
        for event in events {
            match event {
                Event::Method => {
                    let result = assembler.start((), &[b"x"]);
                    prop_assert_eq!(result.is_ok(), expected.is_none());
                    expected = expected.or(Some(None));
                }
                Event::Header(size) => {
                    let (header, payload) = header(size);
                    let result = assembler.header(&header, &payload, &limits());
                    prop_assert_eq!(result.is_ok(), expected == Some(None));
                    if let Ok(done) = result {
                        prop_assert_eq!(done.is_some(), size == 0);
                        expected = (size > 0).then_some(Some(size));
                    }
                }
                Event::Body(len) => {
                    let result = assembler.body(&vec![b'x'; len], None);
                    match expected {
                        Some(Some(left)) if len as u64 <= left => {
                            let left = left - len as u64;
                            prop_assert_eq!(result.unwrap().is_some(), left == 0);
                            expected = (left > 0).then_some(Some(left));
                        }
                        Some(Some(_)) => {
                            prop_assert_eq!(result.unwrap_err().reply_code(), ReplyCode(501));
                        }
                        _ => prop_assert_eq!(result.unwrap_err().reply_code(), ReplyCode(505)),
                    }
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Method,
    Header(u64),
    Body(usize),
}

/// What is not whole, not small or not well formed is for an assembler.
#[test]
fn whole_is_a_good_header_and_all_of_a_small_body() {
    let is_whole = |payload: &[u8], body: &[u8], limits: &Limits| {
        let whole = Whole::new(payload, body, limits);
        assert!(whole.is_none_or(|whole| whole.body() == body));
        whole.is_some()
    };
    let small = vec![1; Assembler::<()>::SMALL_BODY];
    let large = vec![1; Assembler::<()>::SMALL_BODY + 1];
    for (announced, body, expected) in [
        (5, &b"hello"[..], true),
        (6, b"hello", false),
        (4, b"hello", false),
        (0, b"", false),
        (small.len() as u64, &small, true),
        (large.len() as u64, &large, false),
    ] {
        let payload = header(announced).1;
        assert_eq!(is_whole(&payload, body, &limits()), expected, "{announced}");
    }
    let mut payload = header(5).1;
    let body_max = |body_max| Limits {
        body_max,
        ..limits()
    };
    assert!(is_whole(&payload, b"hello", &body_max(5)));
    assert!(!is_whole(&payload, b"hello", &body_max(4)));
    payload[1] = 61;
    assert!(!is_whole(&payload, b"hello", &limits()), "another class");
    payload[1] = 60;
    payload.pop();
    assert!(!is_whole(&payload, b"hello", &limits()), "cut short");
}

#[test]
fn the_method_of_a_content_in_progress_can_be_changed() {
    let limits = Limits::default();
    let mut assembler = Assembler::new();
    assert_eq!(assembler.method_mut(), None);
    assembler.start("first", &[]).unwrap();
    *assembler.method_mut().unwrap() = "second";
    let header = ContentHeader {
        class_id: 60,
        body_size: 1,
        ..Default::default()
    };
    let mut payload = Vec::new();
    header.encode(&mut payload).unwrap();
    assert!(
        assembler
            .header(&header, &payload, &limits)
            .unwrap()
            .is_none()
    );
    assert_eq!(assembler.method_mut(), Some(&mut "second"));
    *assembler.method_mut().unwrap() = "third";
    let content = assembler.body(b"x", None).unwrap().unwrap();
    assert_eq!(content.method, "third");
    assert_eq!(assembler.method_mut(), None);
}
