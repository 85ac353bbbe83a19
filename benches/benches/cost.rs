//! What one confirmed publish costs a client: measured against the null broker, as a table, with targets.
//!
//! `cargo bench -p amqp-benches --bench cost -- --check` fails when a target is missed. Without `--bench`, which
//! `cargo bench` adds, everything runs once and briefly, as a test of the machinery.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use amqp_benches::blast;
use amqp_benches::load::{Client, Failure};
use amqp_benches::measure::{self, BrokerProcess, CallCounter, Load};
use clap::Parser;

const WINDOW: usize = 1_000;
/// Publishes the null broker has to take each second, for the client to be what is measured.
const BROKER_MIN_RATE: f64 = 5e6;

/// Measures what a confirmed publish costs.
#[derive(Parser)]
struct Options {
    /// Fail when a target is missed.
    #[arg(long)]
    check: bool,
    /// Measure this client alone.
    #[arg(long, value_enum)]
    client: Option<Client>,
    /// Octets of a body; the targets are for 16.
    #[arg(long, default_value_t = 16)]
    size: usize,
    /// Messages in each run that is timed.
    #[arg(long, default_value_t = 2_000_000)]
    timed: u64,
    /// Messages in the shorter of two runs of which things are counted.
    #[arg(long, default_value_t = 100_000)]
    counted: u64,
    /// Runs that are timed; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Added by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The most a message may cost.
struct Targets {
    allocations: f64,
    system_calls: f64,
    instructions: f64,
}

/// How the broker acks, and what the client under test is held to then.
const CASES: [(u64, Targets); 2] = [
    (
        1,
        Targets {
            allocations: 0.05,
            system_calls: 0.05,
            instructions: 1_200.0,
        },
    ),
    (
        100,
        Targets {
            allocations: 0.05,
            system_calls: 0.05,
            instructions: 800.0,
        },
    ),
];

/// What a message cost.
struct Cost {
    /// Messages a second.
    rate: f64,
    /// Nanoseconds of processor time.
    cpu: f64,
    allocations: f64,
    system_calls: f64,
    instructions: f64,
}

fn main() -> Result<ExitCode, Failure> {
    let mut options = Options::parse();
    if !options.bench {
        options.timed = 20_000;
        options.counted = 5_000;
        options.rounds = 1;
    }
    let counter = CallCounter::find()?;
    measure::find_valgrind()?;
    let mut fine = true;

    println!(
        "confirmed publish of {} octets, window {WINDOW}; system calls by {counter:?}",
        options.size
    );
    println!();
    println!("| client | acks | kmsg/s | CPU ns | instructions | allocations | system calls |");
    println!("|---|---|---|---|---|---|---|");
    let mut rates = Vec::new();
    for (ack_every, targets) in &CASES {
        let broker =
            BrokerProcess::start(Path::new(env!("CARGO_BIN_EXE_null-broker")), *ack_every)?;
        rates.push(blast::publish(
            broker.address(),
            options.timed,
            options.size,
        )?);
        for client in Client::ALL {
            if options.client.is_some_and(|only| only != *client) {
                continue;
            }
            let cost = measure(*client, &broker, &options, counter)?;
            fine &= print(*client, *ack_every, &cost, targets);
        }
    }
    println!();
    println!("over target: marked with `!`. The floor is not held to a target: see its module.");

    let slowest = rates.into_iter().fold(f64::INFINITY, f64::min);
    println!(
        "the null broker takes {:.1} million publishes a second",
        slowest / 1e6
    );
    if options.bench && options.size == 16 && slowest < BROKER_MIN_RATE {
        println!("that is too slow to measure clients against");
        fine = false;
    }
    Ok(if fine || !options.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn measure(
    client: Client,
    broker: &BrokerProcess,
    options: &Options,
    counter: CallCounter,
) -> Result<Cost, Failure> {
    let args = [
        "--client",
        client.name(),
        "--address",
        &broker.address().to_string(),
    ]
    .into_iter()
    .map(String::from)
    .chain(["--size".into(), options.size.to_string()])
    .chain(["--window".into(), WINDOW.to_string()])
    .collect();
    let load = Load {
        program: env!("CARGO_BIN_EXE_publish-load").into(),
        args,
    };

    let mut cpu = Vec::new();
    let mut wall = Vec::new();
    for _ in 0..options.rounds {
        let report = load.run(options.timed)?;
        cpu.push(report.cpu);
        wall.push(report.wall);
    }
    let nanoseconds = |times| median(times).as_nanos() as f64 / options.timed as f64;
    Ok(Cost {
        cpu: nanoseconds(cpu),
        rate: 1e9 / nanoseconds(wall),
        allocations: measure::per_message(options.counted, |count| {
            Ok(load.run(count)?.allocations)
        })?,
        system_calls: measure::per_message(options.counted, |count| {
            load.system_calls(count, counter)
        })?,
        instructions: measure::per_message(options.counted, |count| load.instructions(count))?,
    })
}

/// Prints a row; says whether all of it is within its targets.
fn print(client: Client, ack_every: u64, cost: &Cost, targets: &Targets) -> bool {
    let held = client != Client::Floor;
    let over = |value: f64, most: f64| held && value > most;
    let mark = |over: bool| if over { " !" } else { "" };
    let instructions = over(cost.instructions, targets.instructions);
    let allocations = over(cost.allocations, targets.allocations);
    let system_calls = over(cost.system_calls, targets.system_calls);
    println!(
        "| {} | 1 per {ack_every} | {:.0} | {:.0} | {:.0}{} | {:.4}{} | {:.4}{} |",
        client.name(),
        cost.rate / 1e3,
        cost.cpu,
        cost.instructions,
        mark(instructions),
        cost.allocations,
        mark(allocations),
        cost.system_calls,
        mark(system_calls),
    );
    !(instructions || allocations || system_calls)
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}
