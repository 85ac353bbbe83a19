//! What decoding and encoding ask of the allocator. The counters are the process's: no harness, no other thread.
#![allow(clippy::unwrap_used)]

use std::alloc::System;

use amqp_codec::basic::{self, Properties};
use amqp_codec::{
    Assembler, Content, ContentHeader, Frame, Limits, Method, RawFrame, ShortStr, Table, Value,
    connection, content, queue, short, table,
};
use bytes::Bytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often `work` allocates or grows, and how many bytes it asks for; what is freed does not count.
fn allocations<T>(work: impl FnOnce() -> T) -> ((usize, usize), T) {
    let region = Region::new(ALLOCATOR);
    let result = work();
    let stats = region.change();
    (
        (
            stats.allocations + stats.reallocations,
            stats.bytes_allocated,
        ),
        result,
    )
}

fn main() {
    decoding_allocates_nothing();
    encoding_into_a_buffer_with_room_allocates_nothing();
    a_small_content_is_one_allocation();
    a_whole_content_is_one_allocation();
    a_large_content_is_its_strings_and_properties();
    scratch_space_is_kept_up_to_16_kib();
    announced_sizes_reserve_nothing();
}

fn decoding_allocates_nothing() {
    let limits = Limits::default();
    let capabilities = table! { "publisher_confirms" => true, "basic.nack" => true };
    let start = connection::Start {
        server_properties: table! { "product" => "RabbitMQ", "capabilities" => capabilities },
        ..Default::default()
    };
    let declare = queue::Declare {
        arguments: table! { "x-max-length" => 10 },
        ..Default::default()
    };
    let deliver = basic::Deliver {
        consumer_tag: short!("tag"),
        routing_key: short!("key"),
        ..Default::default()
    };
    let properties = Properties {
        message_id: Some(short!("id")),
        headers: Some(table! { "a" => 1, "b" => "text" }.into()),
        ..Properties::EMPTY
    };
    let header = ContentHeader {
        class_id: 60,
        body_size: 5,
        properties,
    };
    let mut wire = Vec::new();
    for method in [Method::from(start), declare.into(), deliver.into()] {
        Frame::Method { channel: 1, method }
            .encode(&mut wire)
            .unwrap();
    }
    Frame::Header { channel: 1, header }
        .encode(&mut wire)
        .unwrap();
    Frame::Body {
        channel: 1,
        payload: b"hello",
    }
    .encode(&mut wire)
    .unwrap();

    let (counted, frames) = allocations(|| {
        let (mut rest, mut frames) = (&wire[..], 0);
        while let Some((raw, len)) = RawFrame::parse(rest, &limits).unwrap() {
            rest = &rest[len..];
            frames += 1;
            match raw.decode(&limits).unwrap() {
                Frame::Header { header, .. } => {
                    let headers = header.properties.headers(&limits).unwrap().unwrap();
                    assert_eq!(headers.get_str("b"), Some("text"));
                }
                Frame::Method {
                    method: Method::ConnectionStart(start),
                    ..
                } => {
                    let capabilities = start.server_properties.get_table("capabilities").unwrap();
                    assert_eq!(capabilities.get_bool("basic.nack"), Some(true));
                }
                _ => {}
            }
        }
        frames
    });
    assert_eq!((counted, frames), ((0, 0), 5));
}

fn encoding_into_a_buffer_with_room_allocates_nothing() {
    let publish = basic::Publish {
        routing_key: short!("key"),
        ..Default::default()
    };
    let owned = ShortStr::try_from(String::from("id")).unwrap();
    let (counted, ()) = allocations(|| {
        let copy = owned.clone();
        assert_eq!(copy, owned);
    });
    assert_eq!(counted, (0, 0));
    let properties = Properties {
        message_id: Some(owned),
        ..Properties::EMPTY
    };
    let mut wire = Vec::with_capacity(1000);
    let (counted, ()) = allocations(|| {
        content::encode(1, &publish, &properties, b"hello", 4096, &mut wire).unwrap();
    });
    assert_eq!(counted, (0, 0));
}

/// A content of this body in pieces of `piece` bytes; what putting it together cost.
fn assemble(
    assembler: &mut Assembler<u64>,
    body: &Bytes,
    piece: usize,
) -> ((usize, usize), Content<u64>) {
    let properties = Properties {
        message_id: Some(short!("0123456789")),
        ..Properties::EMPTY
    };
    let header = ContentHeader {
        class_id: 60,
        body_size: body.len() as u64,
        properties,
    };
    let mut payload = Vec::new();
    header.encode(&mut payload).unwrap();
    allocations(|| {
        assembler.start(7, &[b"tag", b"exchange", b"key"]).unwrap();
        let mut done = assembler
            .header(&header, &payload, &Limits::default())
            .unwrap();
        for piece in body.chunks(piece) {
            assert!(done.is_none());
            done = assembler.body(piece, Some(body)).unwrap();
        }
        done.unwrap()
    })
}

/// The strings and the properties of the content above: 3 + 8 + 3 and 2 + 1 + 10.
const HEAD: usize = 14 + 13;

fn a_small_content_is_one_allocation() {
    let mut assembler = Assembler::new();
    for len in [1000, 0, 1, 16, 1000] {
        let body = Bytes::from(vec![b'x'; len]);
        for piece in [4096, 300] {
            // The first fills the scratch space that the others reuse.
            assemble(&mut assembler, &body, piece);
            let (counted, content) = assemble(&mut assembler, &body, piece);
            assert_eq!(counted, (1, HEAD + len), "{len} in pieces of {piece}");
            assert_eq!(content.body(), body);
            let (counted, body) = allocations(|| content.into_body());
            assert_eq!((counted, body.len()), ((0, 0), len));
        }
    }
}

fn a_whole_content_is_one_allocation() {
    // Class, weight, size and no properties.
    let header = [&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0][..]].concat();
    let (counted, content) = allocations(|| {
        let whole = content::Whole::new(&header, &[b'x'; 16], &Limits::default()).unwrap();
        Content::from_whole(7, &[b"tag", b"exchange", b"key"], &whole)
    });
    assert_eq!(counted, (1, 14 + 2 + 16));
    assert_eq!(content.body(), [b'x'; 16]);
}

fn a_large_content_is_its_strings_and_properties() {
    let mut assembler = Assembler::new();
    let body = Bytes::from(vec![b'x'; 100_000]);
    assemble(&mut assembler, &body, usize::MAX);
    let (counted, content) = assemble(&mut assembler, &body, usize::MAX);
    // And the handle of the slice.
    let size = HEAD + size_of::<Bytes>();
    assert_eq!(counted, (2, size), "a slice of the buffer, not a copy");
    assert_eq!(content.body(), body);
    // In pieces it is copied, doubling on the way and ending in what the header announced: room for 20,000, 60,000 and
    // 100,000 bytes, the head, and the body's handle.
    let (counted, content) = assemble(&mut assembler, &body, 10_000);
    assert_eq!(content.into_body().len(), 100_000);
    assert_eq!(counted.0, 3 + 1 + 1);
    assert!(counted.1 < HEAD + 300_000, "{counted:?}");
}

fn scratch_space_is_kept_up_to_16_kib() {
    // Around the text: the string, the flags, and a table with its length, a key, a tag and the text's length.
    const AROUND: usize = 3 + 2 + (4 + 2 + 1 + 4);
    for (len, kept) in [(100, true), (16_384, true), (16_385, false)] {
        let mut assembler = Assembler::new();
        let text = "x".repeat(len - AROUND);
        let properties = Properties {
            headers: Some(Table::from([(short!("k"), Value::from(text.as_str()))]).into()),
            ..Properties::EMPTY
        };
        let header = ContentHeader {
            class_id: 60,
            body_size: 0,
            properties,
        };
        let mut payload = Vec::new();
        header.encode(&mut payload).unwrap();
        let mut cost = || {
            let (counted, content) = allocations(|| {
                assembler.start((), &[b"key"]).unwrap();
                assembler.header(&header, &payload, &Limits::default())
            });
            assert_eq!(content.unwrap().unwrap().size(), len);
            counted.0
        };
        cost();
        assert_eq!(cost() == 1, kept, "{len}");
    }
}

fn announced_sizes_reserve_nothing() {
    let limits = Limits {
        frame_max: u32::MAX,
        method_frame_max: u32::MAX,
        body_max: u64::MAX,
        ..Limits::default()
    };
    let (counted, ()) = allocations(|| {
        // A frame of four gigabytes, a long string, a table and a nested table of as many.
        let huge = b"\x01\x00\x01\xff\xff\xff\xf7\x00\x0a";
        assert_eq!(RawFrame::parse(huge, &limits), Ok(None));
        assert!(Method::decode(b"\x00\x0a\x00\x14\xff\xff\xff\xff", &limits).is_err());
        assert!(Method::decode(b"\x00\x0a\x00\x0b\xff\xff\xff\xff", &limits).is_err());
        assert!(Table::decode(b"\x01kF\xff\xff\xff\xff", &limits).is_err());
        assert!(Properties::decode(b"\x20\x00\xff\xff\xff\xff").is_err());
    });
    assert_eq!(counted, (0, 0));

    // An announced body of eight exabytes; memory follows what comes.
    let header = ContentHeader {
        class_id: 60,
        body_size: 1 << 63,
        ..Default::default()
    };
    let mut payload = Vec::new();
    header.encode(&mut payload).unwrap();
    let mut assembler = Assembler::new();
    let (counted, ()) = allocations(|| {
        assembler.start((), &[]).unwrap();
        assert!(
            assembler
                .header(&header, &payload, &limits)
                .unwrap()
                .is_none()
        );
        assert!(assembler.body(&[b'x'; 1000], None).unwrap().is_none());
    });
    assert!(counted.1 <= 4000, "{counted:?}");

    // Deep nesting takes a small multiple of its own bytes.
    let mut deep = Value::Void;
    for _ in 0..200 {
        deep = Value::Array([deep].into_iter().collect());
    }
    let deep = Table::from([(short!("k"), deep)]);
    let limits = Limits {
        table_depth: 1000,
        ..limits
    };
    let (counted, result) = allocations(|| Table::decode(deep.as_bytes(), &limits).is_ok());
    assert!(
        result && counted.1 < 16 * deep.as_bytes().len(),
        "{counted:?}"
    );
}
