//! Time to decode and to encode one frame of each common kind, and to take a stream of deliveries apart.
//!
//! Each time is for one frame. A thousand frames take turns, with keys of different length made when the program runs.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;

use amqp_benches::workload::Workload;
use amqp_codec::{
    Assembler, ContentHeader, Frame, Limits, Method, RawFrame, RawTable, ShortStr, basic, content,
    frame, table,
};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

const CHANNEL: u16 = 1;

criterion_group!(benches, decode, encode, stream);
criterion_main!(benches);

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    let bench = |group: &mut BenchmarkGroup<'_, WallTime>, name, frames: &[Frame<'_>]| {
        let wire = encoded(frames);
        let limits = Limits::default();
        let mut rest = &wire[..];
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let frame = next_frame(&mut rest, &limits).decode(&limits);
                if rest.is_empty() {
                    rest = &wire;
                }
                black_box(&frame).is_ok()
            });
        });
    };
    let keys = keys();
    bench(
        &mut group,
        "basic.deliver",
        &each(&keys, |key| method(deliver(key))),
    );
    bench(
        &mut group,
        "basic.publish",
        &each(&keys, |key| method(publish(key))),
    );
    bench(
        &mut group,
        "basic.ack",
        &each(&keys, |key| method(ack(key.len() as u64))),
    );
    let headers = headers();
    let frames = each(&keys, |key| header(&headers, key, 1024));
    bench(&mut group, "header of 5 properties and 4 headers", &frames);
    bench(&mut group, "body of 1 KiB", &[body(&[7; 1024])]);

    let wire = encoded(&frames);
    let limits = Limits::default();
    let mut rest = &wire[..];
    group.bench_function("the same header, its 4 headers read as well", |bencher| {
        bencher.iter(|| {
            let frame = next_frame(&mut rest, &limits).decode(&limits);
            if rest.is_empty() {
                rest = &wire;
            }
            let Ok(Frame::Header { header, .. }) = frame else {
                return 0;
            };
            let Ok(Some(table)) = header.properties.headers(&limits) else {
                return 0;
            };
            table
                .iter()
                .inspect(|entry| {
                    black_box(entry);
                })
                .count()
        });
    });
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    let keys = keys();
    let mut out = Vec::with_capacity(4096);
    let mut turns = keys.iter().cycle();
    group.bench_function("basic.publish", |bencher| {
        bencher.iter(|| {
            out.clear();
            let method = turns.next().map(publish).unwrap_or_default();
            frame::encode_method(CHANNEL, &method, &mut out).is_ok()
        });
    });
    let mut turns = keys.iter().cycle();
    group.bench_function("basic.deliver", |bencher| {
        bencher.iter(|| {
            out.clear();
            let method = turns.next().map(deliver).unwrap_or_default();
            frame::encode_method(CHANNEL, &method, &mut out).is_ok()
        });
    });
    let headers = headers();
    let frames = each(&keys, |key| header(&headers, key, 1024));
    let mut turns = frames.iter().cycle();
    group.bench_function("header of 5 properties and 4 headers", |bencher| {
        bencher.iter(|| {
            out.clear();
            turns
                .next()
                .is_some_and(|frame| frame.encode(&mut out).is_ok())
        });
    });
    let mut turns = keys.iter().cycle();
    group.bench_function("publish, header and body of 16 octets", |bencher| {
        bencher.iter(|| {
            out.clear();
            let method = turns.next().map(publish).unwrap_or_default();
            let properties = basic::Properties::EMPTY;
            content::encode(CHANNEL, &method, &properties, &[7; 16], 131_072, &mut out).is_ok()
        });
    });
    group.finish();
}

/// A thousand deliveries with a plain header and a body of 256 octets, three frames each; times are for all of them.
fn stream(criterion: &mut Criterion) {
    let keys = keys();
    let body = [7; 256];
    let frames: Vec<_> = keys
        .iter()
        .flat_map(|key| [method(deliver(key)), plain_header(256), self::body(&body)])
        .collect();
    let wire = encoded(&frames);
    let limits = Limits::default();
    let mut group = criterion.benchmark_group("stream");
    group.throughput(Throughput::Elements(frames.len() as u64));

    let mut copy = vec![0; wire.len()];
    group.bench_function("copied, for comparison", |bencher| {
        bencher.iter(|| black_box(&mut copy[..]).copy_from_slice(&wire));
    });
    group.bench_function("envelopes", |bencher| {
        bencher.iter(|| {
            let mut rest = &wire[..];
            while !rest.is_empty() {
                black_box(next_frame(&mut rest, &limits));
            }
        });
    });
    group.bench_function("frames", |bencher| {
        bencher.iter(|| {
            let mut rest = &wire[..];
            let mut decoded = 0;
            while !rest.is_empty() {
                let frame = next_frame(&mut rest, &limits).decode(&limits);
                decoded += usize::from(black_box(&frame).is_ok());
            }
            assert_eq!(decoded, frames.len());
        });
    });
    group.bench_function("messages that own their bytes", |bencher| {
        bencher.iter(|| {
            let mut rest = &wire[..];
            let mut assembler = Assembler::new();
            let mut messages = 0;
            while !rest.is_empty() {
                messages += usize::from(assemble(&mut assembler, &mut rest, &limits));
            }
            assert_eq!(messages, keys.len());
        });
    });
    group.finish();
}

/// Takes one frame; says whether it completed a message.
fn assemble(assembler: &mut Assembler<u64>, rest: &mut &[u8], limits: &Limits) -> bool {
    let raw = next_frame(rest, limits);
    let content = match raw.decode(limits) {
        Ok(Frame::Method {
            method: Method::BasicDeliver(deliver),
            ..
        }) => {
            let strings = [deliver.exchange.as_bytes(), deliver.routing_key.as_bytes()];
            assembler
                .start(deliver.delivery_tag, &strings)
                .map(|()| None)
        }
        Ok(Frame::Header { header, .. }) => assembler.header(&header, raw.payload, limits),
        Ok(Frame::Body { payload, .. }) => assembler.body(payload, None),
        other => panic!("not of a delivery: {other:?}"),
    };
    matches!(black_box(&content), Ok(Some(_)))
}

fn next_frame<'a>(rest: &mut &'a [u8], limits: &Limits) -> RawFrame<'a> {
    let (frame, len) = match RawFrame::parse(rest, limits) {
        Ok(Some(parsed)) => parsed,
        other => panic!("the benchmark's own frames are good: {other:?}"),
    };
    *rest = &rest[len..];
    frame
}

fn encoded(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut wire = Vec::new();
    for frame in frames {
        assert_eq!(frame.encode(&mut wire), Ok(()));
    }
    wire
}

fn keys() -> Vec<ShortStr<'static>> {
    let keys = Workload::new(0, 0, 0, 0).keys;
    keys.iter()
        .filter_map(|key| ShortStr::try_from(key).ok())
        .collect()
}

fn each<'a>(
    keys: &'a [ShortStr<'static>],
    frame: impl Fn(&'a ShortStr<'static>) -> Frame<'a>,
) -> Vec<Frame<'a>> {
    keys.iter().map(frame).collect()
}

fn method<'a>(method: impl Into<Method<'a>>) -> Frame<'a> {
    Frame::Method {
        channel: CHANNEL,
        method: method.into(),
    }
}

fn deliver<'a>(key: &'a ShortStr<'static>) -> basic::Deliver<'a> {
    basic::Deliver {
        consumer_tag: ShortStr::from_static("amq.ctag-DmWGwH8rbvBr4nTxmTQ1uA"),
        delivery_tag: 1_000_000,
        exchange: ShortStr::from_static("orders"),
        routing_key: key.as_borrowed(),
        ..Default::default()
    }
}

fn publish<'a>(key: &'a ShortStr<'static>) -> basic::Publish<'a> {
    basic::Publish {
        exchange: ShortStr::from_static("orders"),
        routing_key: key.as_borrowed(),
        mandatory: true,
        ..Default::default()
    }
}

fn ack(delivery_tag: u64) -> basic::Ack {
    basic::Ack {
        delivery_tag,
        multiple: true,
        ..Default::default()
    }
}

fn headers() -> RawTable<'static> {
    table! {
        "x-attempt" => 3,
        "x-tenant" => "acme",
        "x-trace" => "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "x-urgent" => true,
    }
    .into()
}

fn header<'a>(
    headers: &'a RawTable<'static>,
    key: &'a ShortStr<'static>,
    body_size: u64,
) -> Frame<'a> {
    let properties = basic::Properties {
        content_type: Some(ShortStr::from_static("application/json")),
        headers: Some(headers.clone()),
        delivery_mode: Some(2),
        message_id: Some(key.as_borrowed()),
        timestamp: Some(1_700_000_000),
        ..Default::default()
    };
    let header = ContentHeader {
        class_id: 60,
        body_size,
        properties,
    };
    Frame::Header {
        channel: CHANNEL,
        header,
    }
}

fn plain_header(body_size: u64) -> Frame<'static> {
    let header = ContentHeader {
        class_id: 60,
        body_size,
        properties: basic::Properties::EMPTY,
    };
    Frame::Header {
        channel: CHANNEL,
        header,
    }
}

fn body(payload: &[u8]) -> Frame<'_> {
    Frame::Body {
        channel: CHANNEL,
        payload,
    }
}
