//! Consuming, with an ack for every hundred.

use super::{AMQP_CLIENT, AMQPRS, Client, Job, LAPIN, RABBITMQ_C, count_target, cpu_target};
use crate::load::{Failure, Work};
use crate::side_by_side::Context;
use crate::side_by_side::contest::Contest;
use crate::side_by_side::results::Measured;

const SMALL: &str = "consume 16 B, one ack per 100";
const MEDIUM: &str = "consume 1 KiB, one ack per 100";
/// These take it faster than they publish.
const PEERS: [Client; 3] = [
    Client {
        percent: 50,
        ..RABBITMQ_C
    },
    Client {
        percent: 20,
        ..AMQPRS
    },
    Client {
        percent: 20,
        ..LAPIN
    },
];

pub(super) fn run(context: &Context) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let broker = context.programs.null_broker(1)?;
    let clients = [&[AMQP_CLIENT][..], &PEERS].concat();
    for (work, size, counted) in [(SMALL, 16, Some(5_000)), (MEDIUM, 1 << 10, None)] {
        let job = Job::new(
            Work::Consume,
            broker.address(),
            size,
            context.count(1_000_000),
        );
        let contest = Contest {
            work: work.into(),
            entries: job.entries(context, &clients),
            counted,
        };
        measured.rows.extend(contest.hold(context)?);
    }
    let ours = measured.row(SMALL, AMQP_CLIENT.name)?;
    let mut targets = vec![
        count_target(SMALL, "instructions", 2_500.0, ours.instructions)?,
        count_target(SMALL, "allocations", 3.0, ours.allocations)?,
        count_target(SMALL, "system calls", 0.02, ours.system_calls)?,
        cpu_target(SMALL, measured.row(SMALL, AMQPRS.name)?, 4.0)?,
        cpu_target(SMALL, measured.row(SMALL, LAPIN.name)?, 4.0)?,
    ];
    if context.programs.rabbitmq_c {
        targets.push(cpu_target(
            SMALL,
            measured.row(SMALL, RABBITMQ_C.name)?,
            1.0,
        )?);
    }
    measured.targets = targets;
    measured
        .notes
        .push("Prefetch count 1,000; every body is looked at.".into());
    Ok(measured)
}
