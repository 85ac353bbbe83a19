//! Time to decode and to encode one frame of each common kind, and to take a stream of deliveries apart; with the
//! feature `peers`, by amq-protocol as well.
//!
//! Throughput is in frames. Ratios that hold on a busy machine are those of `side-by-side codec`, whose rounds
//! alternate between the codecs.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;

use amqp_benches::codec::{Coder, Frames, Work, frames_a_pass};
use amqp_codec::{Assembler, Frame, Limits, Method, RawFrame};
use clap::ValueEnum;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

criterion_group!(benches, works, messages);
criterion_main!(benches);

/// Each work by each coder.
fn works(criterion: &mut Criterion) {
    for work in Work::value_variants() {
        let mut group = criterion.benchmark_group(work.name());
        let frames = frames_a_pass(*work);
        group.throughput(Throughput::Elements(frames as u64));
        for coder in Coder::value_variants() {
            let mut job = coder.prepare(*work);
            group.bench_function(coder.name(), |bencher| {
                bencher.iter(|| assert_eq!(job.pass(), frames));
            });
        }
        group.finish();
    }
}

/// What amqp-codec can do with a stream short of and beyond decoding its frames.
fn messages(criterion: &mut Criterion) {
    let Frames { wire, count } = Frames::of(Work::DecodePlainStream);
    let limits = Limits::default();
    let mut group = criterion.benchmark_group("plain-stream");
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function("envelopes", |bencher| {
        bencher.iter(|| {
            let mut rest = &wire[..];
            while !rest.is_empty() {
                black_box(next_frame(&mut rest, &limits));
            }
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
            assert_eq!(messages, count / 3);
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
