//! What one confirmed publish, and one delivery, costs a client: measured against the null broker, as a table, with
//! targets.
//!
//! `cargo bench -p amqp-benches --bench cost -- --check` fails when a target is missed, or for instructions a regression
//! limit, while their target is not reached. It measures amqp-client alone, and no longer than that needs. Without
//! `--bench`, which `cargo bench` adds, everything runs once and briefly, as a test of the machinery.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use amqp_benches::blast;
use amqp_benches::load::{Failure, Work};
use amqp_benches::measure::{self, BrokerProcess, CallCounter, Load};
use clap::Parser;

const WINDOW: u16 = 1_000;
/// Publishes the null broker has to take each second, for the client to be what is measured.
const BROKER_MIN_RATE: f64 = 5e6;

/// Measures what a confirmed publish and a delivery cost.
#[derive(Parser)]
struct Options {
    /// Fail when a target or a regression limit is missed. Runs amqp-client alone, and fewer and shorter.
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

/// The client that does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Client {
    /// The hand-written floor.
    Floor,
    /// The one that all of this is about.
    AmqpClient,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Client::Floor => "floor",
            Client::AmqpClient => "amqp-client",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Client::Floor => env!("CARGO_BIN_EXE_load-floor"),
            Client::AmqpClient => env!("CARGO_BIN_EXE_load-amqp-client"),
        }
    }
}

/// The most a message may cost.
struct Limits {
    allocations: f64,
    system_calls: f64,
    instructions: Instructions,
}

/// What holds for instructions. What was reached, and a little, is the limit that catches a regression; where that is
/// the target itself, the target is.
struct Instructions {
    target: Option<f64>,
    regression_limit: f64,
}

impl Instructions {
    /// What this many are held to, in words.
    fn held_to(&self, instructions: f64) -> String {
        let limit = self.regression_limit;
        match self.target {
            Some(target) if instructions > target => {
                format!("target {target:.0} not reached, regression limit {limit:.0}")
            }
            Some(target) if limit < target => {
                format!("target {target:.0}, regression limit {limit:.0}")
            }
            Some(target) => format!("target {target:.0}"),
            None => format!("regression limit {limit:.0}"),
        }
    }
}

/// How the broker acks publishes, and what the client under test is held to then.
const CONFIRMS: [(u64, Limits); 2] = [
    (
        1,
        Limits {
            allocations: 0.05,
            system_calls: 0.05,
            instructions: Instructions {
                target: Some(1_200.0),
                regression_limit: 1_200.0,
            },
        },
    ),
    (
        100,
        Limits {
            allocations: 0.05,
            system_calls: 0.05,
            instructions: Instructions {
                target: Some(800.0),
                regression_limit: 800.0,
            },
        },
    ),
];
/// How the client acks deliveries, and what it is held to then. A delivery is one allocation, for all of its bytes.
const ACKS: [(u64, Limits); 2] = [
    (
        1,
        Limits {
            allocations: 1.1,
            system_calls: 0.05,
            instructions: Instructions {
                target: None,
                regression_limit: 2_290.0,
            },
        },
    ),
    (
        100,
        Limits {
            allocations: 1.1,
            system_calls: 0.05,
            instructions: Instructions {
                target: Some(2_500.0),
                regression_limit: 1_770.0,
            },
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
    } else if options.check {
        options.client = Some(Client::AmqpClient);
        options.timed = 500_000;
        options.counted = 20_000;
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
    let within_limits = messages(&options, counter)?;
    let fast_enough = broker_rate(&options)?;
    let fine = within_limits && fast_enough;
    Ok(if fine || !options.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints all rows. Says whether all are within their limits.
fn messages(options: &Options, counter: CallCounter) -> Result<bool, Failure> {
    let mut within_limits = true;
    let measured = |client| options.client.is_none_or(|only| only == client);
    for (ack_every, limits) in &CONFIRMS {
        let broker = start_broker(*ack_every)?;
        for client in [Client::Floor, Client::AmqpClient]
            .into_iter()
            .filter(|client| measured(*client))
        {
            let load = load(client, Work::Confirmed, &broker, options);
            let cost = measure(&load, options, counter)?;
            // What the floor costs is not ours to bring down.
            let limits = (client != Client::Floor).then_some(limits);
            within_limits &= print(client, "confirmed publish", *ack_every, &cost, limits);
        }
    }
    if measured(Client::AmqpClient) {
        let broker = start_broker(1)?;
        for (ack_every, limits) in &ACKS {
            let mut load = load(Client::AmqpClient, Work::Consume, &broker, options);
            load.args
                .extend(["--ack-every".into(), ack_every.to_string()]);
            let cost = measure(&load, options, counter)?;
            within_limits &= print(
                Client::AmqpClient,
                "consume",
                *ack_every,
                &cost,
                Some(limits),
            );
        }
    }
    println!();
    if !within_limits {
        println!("over target or regression limit: marked with `!`");
    }
    Ok(within_limits)
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

fn load(client: Client, work: Work, broker: &BrokerProcess, options: &Options) -> Load {
    let work = work.name();
    let address = broker.address().to_string();
    let [size, window] = [options.size.to_string(), WINDOW.to_string()];
    let args = [
        &work,
        "--address",
        &address,
        "--size",
        &size,
        "--window",
        &window,
    ];
    Load {
        program: client.program().into(),
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

/// Prints a row; says whether all of it is within its limits.
fn print(client: Client, work: &str, ack_every: u64, cost: &Cost, limits: Option<&Limits>) -> bool {
    let over = |value: f64, limit: fn(&Limits) -> f64| limits.is_some_and(|all| value > limit(all));
    let instructions = over(cost.instructions, |limits| {
        limits.instructions.regression_limit
    });
    let allocations = over(cost.allocations, |limits| limits.allocations);
    let system_calls = over(cost.system_calls, |limits| limits.system_calls);
    let mark = |over| if over { " !" } else { "" };
    let held_to = limits.map_or(String::new(), |limits| {
        format!(" ({})", limits.instructions.held_to(cost.instructions))
    });
    println!(
        "| {} | {work} | 1 per {ack_every} | {:.0} | {:.0} | {:.0}{}{held_to} | {:.4}{} | {:.4}{} |",
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
