//! How the cost of a message grows with what there is more of.

use std::net::SocketAddr;

use super::{AMQP_CLIENT, AMQPRS, Client, Job, LAPIN_FUTURES};
use crate::load::{Failure, Work};
use crate::measure::{self, BrokerProcess, Load};
use crate::side_by_side::Context;
use crate::side_by_side::contest::{Contest, Entry, OURS};
use crate::side_by_side::results::{Line, Measured, Plot, Row};
use crate::side_by_side::spread::short;

pub(super) fn run(context: &Context) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let broker = context.programs.null_broker(1)?;
    windows(context, broker.address(), &mut measured)?;
    bodies(context, broker.address(), &mut measured)?;
    for series in &SERIES {
        series.measure(context, broker.address(), &mut measured)?;
    }
    stuck(context, &mut measured)?;
    measured.notes.extend(NOTES.map(String::from));
    Ok(measured)
}

const NOTES: [&str; 6] = [
    "Instructions in user space and processor time for each message of 16 B, one ack a message, unless something else is \
     what grows.",
    "Messages in flight: with one, a message pays for its system calls and for waking two tasks alone; a thousand share \
     them. Beyond that a message costs the same, and memory grows by what is kept of it until its confirm.",
    "Octets of body: below 4 KiB a body is copied once, above that it is sent from where it is. What grows is the \
     kernel's copy; in user space a body of several frames costs what those frames do.",
    "Channels: what is done once for each channel that has published since the last write is shared by fewer messages, \
     the more of them are in use. Those that are open only cost nothing. Tasks: the same for any number.",
    "A tag that stays open moves to a map beside the ring of open tags; each ack looks there too, as long as it stays.",
    "Consumers on a channel: with each one more, fewer messages wait when its task is woken, up to one waking for each \
     message.",
];

fn windows(context: &Context, address: SocketAddr, measured: &mut Measured) -> Result<(), Failure> {
    let clients = [AMQP_CLIENT, AMQPRS, LAPIN_FUTURES];
    let mut jobs = Vec::new();
    for window in [1, 10, 100, 1_000, 10_000, 100_000] {
        let count = context.count((200 * window as u64).clamp(20_000, 400_000));
        let job = Job {
            window,
            ..Job::new(Work::Confirmed, address, 16, count)
        };
        // Twice the window at least, or it is never full.
        jobs.push((window, job, 200_000.min(10_000.max(2 * window as u64))));
    }
    against(context, &clients, &jobs, "messages in flight", measured)
}

fn bodies(context: &Context, address: SocketAddr, measured: &mut Measured) -> Result<(), Failure> {
    let clients = [AMQP_CLIENT, AMQPRS, LAPIN_FUTURES];
    let mut jobs = Vec::new();
    for size in [0, 16, 256, 4 << 10, 64 << 10, 1 << 20, 16 << 20] {
        // At most a gibibyte.
        let count = context.count(200_000).min((1 << 30) / size.max(1) as u64);
        let mut job = Job::new(Work::Confirmed, address, size, count);
        // What is in flight is memory of some peers, several times over.
        job.window = ((64 << 20) / size.max(1)).clamp(2, 1_000);
        jobs.push((size, job, ((1 << 26) / size.max(1) as u64).clamp(4, 5_000)));
    }
    against(context, &clients, &jobs, "octets of body", measured)
}

/// Times of some clients, and our instructions, against one number.
fn against(
    context: &Context,
    clients: &[Client],
    jobs: &[(usize, Job, u64)],
    what: &str,
    measured: &mut Measured,
) -> Result<(), Failure> {
    let mut lines: Vec<_> = clients
        .iter()
        .map(|client| Line {
            name: client.name.into(),
            points: Vec::new(),
        })
        .collect();
    for (number, job, counted) in jobs {
        let work = format!("confirmed publish, {number} {what}");
        let contest = Contest {
            work: work.clone(),
            entries: job.entries(context, clients),
            counted: None,
        };
        let mut rows = contest.hold(context)?;
        let load = job.load(context, AMQP_CLIENT);
        rows[0].instructions = Some(measure::per_message(*counted, |count| {
            load.instructions(count)
        })?);
        for (line, row) in lines.iter_mut().zip(&rows) {
            let cpu = row.cpu_ns.ok_or("a row without processor time")?.median;
            line.points.push(((*number).max(1) as f64, cpu));
        }
        measured.rows.extend(rows);
    }
    measured.plots.push(Plot {
        file: format!("cost-by-{}.svg", what.replace(' ', "-")),
        title: format!("A confirmed publish by {what}"),
        x: what.into(),
        y: "CPU ns".into(),
        lines,
    });
    Ok(())
}

/// A load of `scale-load`, against one number.
struct Series {
    what: &'static str,
    /// What is done; the number comes next, as the value of the last option.
    args: &'static [&'static str],
    numbers: &'static [u64],
    count: u64,
}

const SERIES: [Series; 4] = [
    Series {
        what: "channels, all in use",
        args: &["publish", "--traffic", "on-all", "--channels"],
        numbers: &[1, 10, 100, 1_000, 2_047],
        count: 200_000,
    },
    Series {
        what: "channels, the last in use",
        args: &["publish", "--traffic", "on-last", "--channels"],
        numbers: &[1, 10, 100, 1_000, 2_047],
        count: 200_000,
    },
    Series {
        what: "consumers on a channel",
        args: &["share", "--consumers"],
        numbers: &[1, 10, 100, 1_000],
        count: 100_000,
    },
    Series {
        what: "tasks on a channel",
        args: &["tasks", "--tasks"],
        numbers: &[1, 2, 4, 8, 16, 32, 64],
        count: 200_000,
    },
];

impl Series {
    fn measure(
        &self,
        context: &Context,
        address: SocketAddr,
        measured: &mut Measured,
    ) -> Result<(), Failure> {
        let mut points = [Vec::new(), Vec::new()];
        for number in self.numbers {
            let mut load = scale_load(context, self.args, address);
            load.args.insert(self.args.len(), number.to_string());
            let row = ours(
                context,
                &format!("{number} {}", self.what),
                load,
                self.count,
            )?;
            let cpu = row.cpu_ns.ok_or("a row without processor time")?.median;
            points[0].push((*number as f64, row.instructions.unwrap_or_default()));
            points[1].push((*number as f64, cpu));
            measured.rows.push(row);
        }
        let [instructions, cpu] = points;
        let name = self.what.replace(", ", "-").replace(' ', "-");
        measured.plots.push(Plot {
            file: format!("cost-by-{name}.svg"),
            title: format!("A message by {}", self.what),
            x: self.what.into(),
            y: "for each message".into(),
            lines: vec![
                Line {
                    name: "instructions".into(),
                    points: instructions,
                },
                Line {
                    name: "CPU ns".into(),
                    points: cpu,
                },
            ],
        });
        Ok(())
    }
}

/// One publish whose ack does not come, while all others are confirmed.
fn stuck(context: &Context, measured: &mut Measured) -> Result<(), Failure> {
    let program = context.programs.path("null-broker");
    for (work, args) in [
        ("no tag stuck open", &[][..]),
        ("the first tag stuck open", &["--hold-first"]),
    ] {
        let broker = BrokerProcess::start_with(&program, 1, args)?;
        let load = scale_load(context, &["stuck"], broker.address());
        measured.rows.push(ours(context, work, load, 200_000)?);
    }
    let [.., free, held] = &measured.rows[..] else {
        return Ok(());
    };
    if let Some((free, held)) = free.instructions.zip(held.instructions) {
        measured.notes.push(format!(
            "One tag that stays open while {} others are settled: {} instructions a message against {}.",
            200_000,
            short(held),
            short(free)
        ));
    }
    Ok(())
}

fn scale_load(context: &Context, args: &[&str], address: SocketAddr) -> Load {
    let mut args: Vec<_> = args.iter().map(ToString::to_string).collect();
    args.extend(["--address".into(), address.to_string()]);
    Load {
        program: context.programs.path("scale-load"),
        args,
    }
}

fn ours(context: &Context, work: &str, load: Load, count: u64) -> Result<Row, Failure> {
    let counted = |count| load.instructions(count);
    let instructions = measure::per_message(20_000, counted)?;
    let contest = Contest {
        work: work.into(),
        entries: vec![Entry {
            name: OURS.into(),
            load,
            count: context.count(count),
        }],
        counted: None,
    };
    let mut row = contest.hold(context)?.pop().ok_or("a contest of one")?;
    row.instructions = Some(instructions);
    Ok(row)
}
