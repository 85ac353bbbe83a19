//! Decoding and encoding, against amq-protocol and a plain copy.

use clap::ValueEnum;

use super::count_target;
use crate::codec::{Coder, Work};
use crate::load::Failure;
use crate::measure::Load;
use crate::side_by_side::Context;
use crate::side_by_side::contest::{Contest, Entry};
use crate::side_by_side::results::Measured;
use crate::side_by_side::target::Target;

/// Passes over at most three thousand frames fit into it a whole number of times.
const FRAMES: u64 = 3_000;

pub(super) fn run(context: &Context) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    for work in Work::value_variants() {
        let contest = Contest {
            work: work.name(),
            entries: Coder::value_variants()
                .iter()
                .map(|coder| entry(context, *coder, *work))
                .collect(),
            counted: Some(10 * FRAMES),
        };
        for mut row in contest.hold(context)? {
            // A process without a socket: neither says anything of the codec.
            (row.system_calls, row.peak_memory) = (None, None);
            measured.rows.push(row);
        }
    }
    for (work, what) in [
        (
            Work::DecodePlainStream,
            "decode, mixed stream with plain headers",
        ),
        (
            Work::DecodeRichStream,
            "decode, rich headers not looked into",
        ),
        (Work::ReadRichStream, "decode, rich headers, all looked at"),
        (Work::EncodePublish, "encode basic.publish"),
    ] {
        let ours = measured
            .row(&work.name(), &Coder::AmqpCodec.name())?
            .clone();
        let mut targets = Vec::new();
        if let Some(limit) = work.max_instructions() {
            let count = ours.instructions;
            targets.push(count_target(what, "instructions a frame", limit, count)?);
        }
        if work != Work::ReadRichStream {
            targets.push(count_target(what, "allocations", 0.0, ours.allocations)?);
        }
        if [Work::DecodePlainStream, Work::ReadRichStream].contains(&work) {
            let peer = measured.row(&work.name(), "amq-protocol")?;
            let ratio = peer.cpu_ratio.ok_or("a row without a ratio")?.median;
            targets.push(Target::at_least(
                what,
                "CPU time of amq-protocol in ours",
                3.0,
                ratio,
            ));
        }
        measured.targets.extend(targets);
    }
    measured.notes.push(
        "Each row is for one frame. A stream is of deliveries in three frames: method, header, body of 256 octets. A \
         plain header has two properties, a rich one five, of which one is a table of four entries. amq-protocol takes \
         tables apart in any case."
            .into(),
    );
    Ok(measured)
}

fn entry(context: &Context, coder: Coder, work: Work) -> Entry {
    let args = ["--coder".into(), coder.name(), "--work".into(), work.name()];
    let fast = coder != Coder::Copy;
    Entry {
        name: coder.name(),
        load: Load {
            program: context.programs.path("codec-load"),
            args: args.to_vec(),
        },
        count: context.count(if fast { 1_000 } else { 4_000 }) * FRAMES,
    }
}
