//! Resident memory, at its peak, of whole processes.

use super::{AMQP_CLIENT, AMQPRS, Client, Job, LAPIN, RABBITMQ_C};
use crate::load::{Failure, Work};
use crate::side_by_side::Context;
use crate::side_by_side::contest::Contest;
use crate::side_by_side::results::Measured;
use crate::side_by_side::target::Target;

const MAX: f64 = 8e6;

pub(super) fn run(context: &Context) -> Result<Measured, Failure> {
    let broker = context.programs.null_broker(1)?;
    let clients = [AMQP_CLIENT, RABBITMQ_C, AMQPRS, LAPIN];
    let clients = clients.map(|client| Client {
        percent: 100,
        ..client
    });
    let mut measured = Measured::default();
    for (work, what, size, count) in [
        (
            "publish without confirms, 1 KiB",
            Work::Unconfirmed,
            1 << 10,
            50_000,
        ),
        (
            "publish without confirms, 64 KiB",
            Work::Unconfirmed,
            64 << 10,
            5_000,
        ),
        (
            "consume without acks, 1 KiB",
            Work::Consume,
            1 << 10,
            100_000,
        ),
    ] {
        let mut job = Job::new(what, broker.address(), size, context.count(count));
        job.args = vec!["--ack-every".into(), "0".into()];
        let contest = Contest {
            work: work.into(),
            entries: job.entries(context, &clients),
            counted: None,
        };
        measured.rows.extend(contest.hold(context)?);
        let ours = measured.row(work, AMQP_CLIENT.name)?.peak_memory;
        // The worst of the rounds: memory is no matter of luck.
        let ours = ours.ok_or("no memory was measured")?.max / 1e6;
        measured
            .targets
            .push(Target::at_most(work, "resident MB", MAX / 1e6, ours));
    }
    measured.notes.push(
        "The bodies of the load itself are 1 MiB of it, the program and its libraries some 3 MB. Ours consumes with a \
         budget of 1 MiB; the others have none."
            .into(),
    );
    Ok(measured)
}
