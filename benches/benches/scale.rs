//! What many open channels do to the cost of a frame, and what idle connections cost: measured against the null broker,
//! with targets.
//!
//! `cargo bench -p amqp-benches --bench scale -- --check` fails when a target is missed. Without `--bench`, which
//! `cargo bench` adds, everything runs once with few channels and connections, as a test of the machinery.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::path::Path;
use std::process::{Command, ExitCode};

use amqp_benches::load::Failure;
use amqp_benches::load::scale::Idle;
use amqp_benches::measure::{self, BrokerProcess, Load};
use clap::Parser;

const PROGRAM: &str = env!("CARGO_BIN_EXE_scale-load");

/// Instructions for a message with many channels open, against those with one.
const MAX_RATIO: f64 = 1.1;
/// Or how many instructions more a message may cost: with acks that come channel by channel, some of what a batch costs is
/// paid for each message, and the cheaper a message is, the more that is of it.
const MAX_MORE: f64 = 150.0;
/// Bytes of memory for an idle connection.
const MAX_MEMORY: f64 = 64.0 * 1024.0;
/// The part of one processor that all idle connections may take, at a heartbeat every other second.
const MAX_CPU: f64 = 0.03;

/// Measures many channels and many connections.
#[derive(Parser)]
struct Options {
    /// Fail when a target is missed.
    #[arg(long)]
    check: bool,
    /// Channels that are open.
    #[arg(long, default_value_t = 2_000)]
    channels: usize,
    /// Connections that are idle.
    #[arg(long, default_value_t = 1_000)]
    connections: usize,
    /// Messages in the shorter of the two runs whose instructions are counted.
    #[arg(long, default_value_t = 20_000)]
    counted: u64,
    /// Added by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<ExitCode, Failure> {
    let mut options = Options::parse();
    if !options.bench {
        options.channels = 20;
        options.connections = 20;
        options.counted = 2_000;
    }
    measure::find_valgrind()?;
    let broker = BrokerProcess::start(Path::new(env!("CARGO_BIN_EXE_null-broker")), 1)?;
    let channels = channels(&options, &broker)?;
    println!();
    let connections = connections(&options, &broker)?;
    // Few channels and connections, for a test of the machinery, say nothing of many.
    let fine = !options.bench || (channels && connections);
    if !fine {
        println!("\nover target: marked with `!`");
    }
    Ok(if fine || !options.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints what messages cost with one and with many channels. Says whether the ratios are within the target.
fn channels(options: &Options, broker: &BrokerProcess) -> Result<bool, Failure> {
    let many = options.channels;
    println!("| instructions for each message, 16 B | 1 channel | {many} channels | ratio |");
    println!("|---|---|---|---|");
    let mut fine = true;
    for (work, args) in [
        (
            "confirmed publish, on the last",
            &["publish", "--traffic", "on-last"][..],
        ),
        (
            "confirmed publish, on all in turn",
            &["publish", "--traffic", "on-all"],
        ),
        ("consume on the last, a consumer on each", &["consume"]),
    ] {
        let one = instructions(options, broker, args, 1)?;
        let with_many = instructions(options, broker, args, many)?;
        let ratio = with_many / one;
        let over = ratio > MAX_RATIO && with_many - one > MAX_MORE;
        fine &= !over;
        let mark = if over { " !" } else { "" };
        println!("| {work} | {one:.0} | {with_many:.0} | {ratio:.3}{mark} |");
    }
    println!("target: a ratio of at most {MAX_RATIO}, or at most {MAX_MORE} instructions more");
    Ok(fine)
}

fn instructions(
    options: &Options,
    broker: &BrokerProcess,
    args: &[&str],
    channels: usize,
) -> Result<f64, Failure> {
    let [channels, address] = [channels.to_string(), broker.address().to_string()];
    let more = ["--channels", &channels, "--address", &address];
    let load = Load {
        program: PROGRAM.into(),
        args: args.iter().chain(&more).map(ToString::to_string).collect(),
    };
    measure::per_message(options.counted, |count| load.instructions(count))
}

/// Prints what idle connections cost. Says whether that is within the targets.
fn connections(options: &Options, broker: &BrokerProcess) -> Result<bool, Failure> {
    let [count, address] = [
        options.connections.to_string(),
        broker.address().to_string(),
    ];
    let mut command = Command::new(PROGRAM);
    command.args(["idle", "--connections", &count, "--address", &address]);
    let output = command.output()?;
    let idle = String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(Idle::parse)
        .ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let over = [
        idle.memory > MAX_MEMORY,
        idle.cpu > MAX_CPU,
        idle.threads > 0,
    ];
    let [memory, cpu, threads] = over.map(|over| if over { " !" } else { "" });
    println!("| {count} idle connections | measured | target |");
    println!("|---|---|---|");
    println!(
        "| KiB of memory, each | {:.1}{memory} | {:.0} |",
        idle.memory / 1024.0,
        MAX_MEMORY / 1024.0
    );
    println!("| threads, all | {}{threads} | 0 |", idle.threads);
    println!(
        "| % of a processor, all | {:.2}{cpu} | {:.0} |",
        idle.cpu * 100.0,
        MAX_CPU * 100.0
    );
    Ok(over == [false; 3])
}
