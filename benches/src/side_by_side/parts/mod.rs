//! What each part measures, and its targets.

mod codec;
mod consume;
mod growth;
mod latency;
mod live;
mod memory;
mod publish;
mod tls;

use std::net::SocketAddr;

use super::contest::{Entry, OURS};
use super::results::{Measured, Row};
use super::target::Target;
use super::{Context, Part};
use crate::load::{Failure, Work};
use crate::measure::Load;

pub(super) fn run(part: Part, context: &Context) -> Result<Measured, Failure> {
    match part {
        Part::Codec => codec::run(context),
        Part::Publish => publish::run(context),
        Part::Consume => consume::run(context),
        Part::Latency => latency::run(context),
        Part::Memory => memory::run(context),
        Part::Live => live::run(context),
        Part::Tls => tls::run(context),
        Part::Growth => growth::run(context),
    }
}

/// A load program, as it takes part.
#[derive(Debug, Clone, Copy)]
struct Client {
    name: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    /// Messages for each of ours, in hundredths: slower ones would take too long over as many.
    percent: u64,
}

const AMQP_CLIENT: Client = Client::new(OURS, "load-amqp-client", &[], 100);
const FLOOR: Client = Client::new("floor", "load-floor", &[], 100);
const SOCKET: Client = Client::new("blocking socket", "load-socket", &[], 100);
const RABBITMQ_C: Client = Client::new("rabbitmq-c", "load-rabbitmq-c", &[], 10);
const AMQPRS: Client = Client::new("amqprs", "load-amqprs", &[], 10);
const LAPIN: Client = Client::new("lapin", "load-lapin", &[], 3);
const LAPIN_FUTURES: Client = Client::new("lapin, a future each", "load-lapin", &["--futures"], 10);

impl Client {
    const fn new(
        name: &'static str,
        program: &'static str,
        args: &'static [&'static str],
        percent: u64,
    ) -> Client {
        Client {
            name,
            program,
            args,
            percent,
        }
    }
}

/// What is done, and where.
#[derive(Debug, Clone)]
struct Job {
    work: Work,
    address: SocketAddr,
    size: usize,
    window: usize,
    /// Messages of ours.
    count: u64,
    warm_up: u64,
    args: Vec<String>,
}

impl Job {
    fn new(work: Work, address: SocketAddr, size: usize, count: u64) -> Job {
        Job {
            work,
            address,
            size,
            window: 1_000,
            count,
            warm_up: ((64 << 20) / size.max(1) as u64).clamp(4, 1_000),
            args: Vec::new(),
        }
    }

    fn load(&self, context: &Context, client: Client) -> Load {
        let mut args = vec![self.work.name()];
        for (option, value) in [
            ("--address", self.address.to_string()),
            ("--size", self.size.to_string()),
            ("--window", self.window.to_string()),
            ("--warm-up", self.warm_up.to_string()),
        ] {
            args.extend([option.to_owned(), value]);
        }
        args.extend(client.args.iter().map(ToString::to_string));
        args.extend(self.args.iter().cloned());
        Load {
            program: context.programs.path(client.program),
            args,
        }
    }

    /// All that are there.
    fn entries(&self, context: &Context, clients: &[Client]) -> Vec<Entry> {
        clients
            .iter()
            .filter(|client| client.program != RABBITMQ_C.program || context.programs.rabbitmq_c)
            .map(|client| Entry {
                name: client.name.into(),
                load: self.load(context, *client),
                count: (self.count * client.percent / 100).max(self.count.min(2_000)),
            })
            .collect()
    }
}

/// The processor time of whichever way of using lapin is the best, in ours.
fn lapins_best(measured: &Measured, work: &str) -> Result<f64, Failure> {
    let best = [LAPIN, LAPIN_FUTURES]
        .iter()
        .filter_map(|client| measured.row(work, client.name).ok()?.cpu_ratio)
        .map(|ratio| ratio.median)
        .min_by(f64::total_cmp);
    best.ok_or_else(|| format!("nothing was measured of lapin in {work}").into())
}

/// Its processor time in ours is to be at least this.
fn cpu_target(work: &str, row: &Row, at_least: f64) -> Result<Target, Failure> {
    let ratio = row.cpu_ratio.ok_or("a row without a ratio")?.median;
    let what = format!("CPU time of {} in ours", row.client);
    Ok(Target::at_least(work, &what, at_least, ratio))
}

/// Something that was counted is to be at most this.
fn count_target(
    work: &str,
    what: &str,
    at_most: f64,
    count: Option<f64>,
) -> Result<Target, Failure> {
    let count = count.ok_or_else(|| format!("{what} of {work} were not counted"))?;
    Ok(Target::at_most(work, what, at_most, count))
}
