//! What one confirmed publish, and one delivery, costs a client: measured against the null broker, as a table, with
//! targets.
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

const WINDOW: u16 = 1_000;
/// Publishes the null broker has to take each second, for the client to be what is measured.
const BROKER_MIN_RATE: f64 = 5e6;

/// Measures what a confirmed publish and a delivery cost.
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

/// How the broker acks publishes, and what the client under test is held to then.
const CONFIRMS: [(u64, Targets); 2] = [
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
/// How the client acks deliveries, which is not held to anything.
const ACKS: [u64; 2] = [1, 100];

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

    println!(
        "bodies of {} octets, window or prefetch {WINDOW}; for each message, system calls by {counter:?}",
        options.size
    );
    println!();
    println!(
        "| client | work | acks | kmsg/s | CPU ns | instructions | allocations | system calls |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let within_targets = publishes(&options, counter)?;
    let fast_enough = broker_rate(&options)?;
    let fine = within_targets && fast_enough;
    Ok(if fine || !options.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints all rows. Says whether all are within their targets.
fn publishes(options: &Options, counter: CallCounter) -> Result<bool, Failure> {
    let mut within_targets = true;
    let measured = |client| options.client.is_none_or(|only| only == client);
    for (ack_every, targets) in &CONFIRMS {
        let broker = start_broker(*ack_every)?;
        for client in Client::ALL
            .iter()
            .copied()
            .filter(|client| measured(*client))
        {
            let mut load = load(env!("CARGO_BIN_EXE_publish-load"), &broker, options);
            load.args.extend(["--client".into(), client.name().into()]);
            let cost = measure(&load, options, counter)?;
            // What the floor costs is not ours to bring down.
            let targets = (client != Client::Floor).then_some(targets);
            within_targets &= print(client, "confirmed publish", *ack_every, &cost, targets);
        }
    }
    if measured(Client::AmqpClient) {
        let broker = start_broker(1)?;
        for ack_every in ACKS {
            let mut load = load(env!("CARGO_BIN_EXE_consume-load"), &broker, options);
            load.args
                .extend(["--ack-every".into(), ack_every.to_string()]);
            let cost = measure(&load, options, counter)?;
            print(Client::AmqpClient, "consume", ack_every, &cost, None);
        }
    }
    println!();
    if !within_targets {
        println!("over target: marked with `!`");
    }
    Ok(within_targets)
}

/// Prints what the null broker can take. Says whether that is enough.
fn broker_rate(options: &Options) -> Result<bool, Failure> {
    let broker = start_broker(1)?;
    // The best of some: what it can take, whatever else the machine is doing.
    let mut rate = 0.0_f64;
    for _ in 0..options.rounds {
        rate = rate.max(blast::publish(
            broker.address(),
            options.timed,
            options.size,
        )?);
    }
    let enough = rate >= BROKER_MIN_RATE || options.size > 16 || !options.bench;
    println!(
        "the null broker takes and acks {:.1} million publishes a second{}",
        rate / 1e6,
        if enough {
            ""
        } else {
            ": too few to measure clients against"
        }
    );
    Ok(enough)
}

fn start_broker(ack_every: u64) -> Result<BrokerProcess, Failure> {
    BrokerProcess::start(Path::new(env!("CARGO_BIN_EXE_null-broker")), ack_every)
}

fn load(program: &str, broker: &BrokerProcess, options: &Options) -> Load {
    let address = broker.address().to_string();
    let [size, window] = [options.size.to_string(), WINDOW.to_string()];
    let args = ["--address", &address, "--size", &size, "--window", &window];
    Load {
        program: program.into(),
        args: args.map(String::from).to_vec(),
    }
}

fn measure(load: &Load, options: &Options, counter: CallCounter) -> Result<Cost, Failure> {
    let mut cpu = Vec::new();
    let mut wall = Vec::new();
    for _ in 0..options.rounds {
        let report = load.run(options.timed)?;
        cpu.push(report.cpu);
        wall.push(report.wall);
    }
    let nanoseconds = |times| median(times).as_nanos() as f64 / options.timed as f64;
    let count = options.counted;
    Ok(Cost {
        cpu: nanoseconds(cpu),
        rate: 1e9 / nanoseconds(wall),
        allocations: measure::per_message(count, |count| Ok(load.run(count)?.allocations))?,
        system_calls: measure::per_message(count, |count| load.system_calls(count, counter))?,
        instructions: measure::per_message(count, |count| load.instructions(count))?,
    })
}

/// Prints a row; says whether all of it is within its targets.
fn print(
    client: Client,
    work: &str,
    ack_every: u64,
    cost: &Cost,
    targets: Option<&Targets>,
) -> bool {
    let over =
        |value: f64, target: fn(&Targets) -> f64| targets.is_some_and(|all| value > target(all));
    let instructions = over(cost.instructions, |targets| targets.instructions);
    let allocations = over(cost.allocations, |targets| targets.allocations);
    let system_calls = over(cost.system_calls, |targets| targets.system_calls);
    let mark = |over| if over { " !" } else { "" };
    println!(
        "| {} | {work} | 1 per {ack_every} | {:.0} | {:.0} | {:.0}{} | {:.4}{} | {:.4}{} |",
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
