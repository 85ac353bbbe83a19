//! Publishing, with and without confirms.

use super::{
    AMQP_CLIENT, AMQPRS, Client, FLOOR, Job, LAPIN, LAPIN_FUTURES, RABBITMQ_C, SOCKET,
    count_target, cpu_target, lapins_best,
};
use crate::load::{Failure, Work};
use crate::side_by_side::Context;
use crate::side_by_side::contest::Contest;
use crate::side_by_side::results::Measured;
use crate::side_by_side::target::Target;

const SMALL_BY_100: &str = "confirmed publish, 16 B, one ack per 100";
const SMALL: &str = "confirmed publish, 16 B, one ack per 1";
const MEDIUM: &str = "confirmed publish, 1 KiB, one ack per 100";
const LARGE: &str = "confirmed publish, 64 KiB, one ack per 1";

const WITH_FLOOR: [Client; 7] = [
    AMQP_CLIENT,
    RABBITMQ_C,
    AMQPRS,
    LAPIN_FUTURES,
    LAPIN,
    FLOOR,
    SOCKET,
];
const CLIENTS: [Client; 6] = [
    AMQP_CLIENT,
    RABBITMQ_C,
    AMQPRS,
    LAPIN_FUTURES,
    LAPIN,
    SOCKET,
];
const UNCONFIRMED: [Client; 5] = [AMQP_CLIENT, RABBITMQ_C, AMQPRS, LAPIN, SOCKET];

pub(super) fn run(context: &Context) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let mut hold = |work: &str, what, ack_every, size, clients: &[Client], count, counted| {
        let broker = context.programs.null_broker(ack_every)?;
        let job = Job::new(what, broker.address(), size, context.count(count));
        let contest = Contest {
            work: work.into(),
            entries: job.entries(context, clients),
            counted,
        };
        measured.rows.extend(contest.hold(context)?);
        Ok::<_, Failure>(())
    };
    let (confirmed, counted) = (Work::Confirmed, Some(5_000));
    hold(
        SMALL_BY_100,
        confirmed,
        100,
        16,
        &WITH_FLOOR,
        1_000_000,
        counted,
    )?;
    hold(SMALL, confirmed, 1, 16, &WITH_FLOOR, 1_000_000, counted)?;
    hold(MEDIUM, confirmed, 100, 1 << 10, &CLIENTS, 400_000, None)?;
    hold(LARGE, confirmed, 1, 64 << 10, &CLIENTS, 20_000, Some(2_000))?;
    for (work, size, count) in [
        ("publish without confirms, 16 B", 16, 1_000_000),
        ("publish without confirms, 1 KiB", 1 << 10, 400_000),
    ] {
        hold(work, Work::Unconfirmed, 1, size, &UNCONFIRMED, count, None)?;
    }
    measured.targets = targets(&measured)?;
    measured.notes.push(
        "Window 1,000; keys and bodies made at run time; every outcome awaited, at most 30 seconds, and checked. The \
         floor knows no outcome but acked and keeps no message; the blocking socket checks next to nothing."
            .into(),
    );
    Ok(measured)
}

fn targets(measured: &Measured) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    let ours = |work| measured.row(work, AMQP_CLIENT.name);
    for (work, limit) in [(SMALL_BY_100, 800.0), (SMALL, 1_200.0)] {
        let row = ours(work)?;
        targets.push(count_target(work, "instructions", limit, row.instructions)?);
        targets.push(count_target(work, "allocations", 0.05, row.allocations)?);
        targets.push(count_target(work, "system calls", 0.05, row.system_calls)?);
    }
    let large = ours(LARGE)?;
    let beyond = large.instructions.zip(ours(SMALL)?.instructions);
    let beyond = beyond.map(|(large, small)| large - small);
    // 32 octets an instruction are more than any copy moves.
    let what = "no copy of the body: instructions beyond those of 16 B";
    targets.push(count_target(LARGE, what, 2_048.0, beyond)?);
    let blocking = measured.row(LARGE, SOCKET.name)?.system_calls;
    let limit = blocking.ok_or("system calls were not counted")? + 0.5;
    let what = "system calls, a blocking writer's + 0.5";
    targets.push(count_target(LARGE, what, limit, large.system_calls)?);
    for (work, at_least) in [(SMALL_BY_100, 10.0), (SMALL, 10.0), (LARGE, 2.0)] {
        targets.push(cpu_target(
            work,
            measured.row(work, AMQPRS.name)?,
            at_least,
        )?);
        let best = lapins_best(measured, work)?;
        let what = "CPU time of lapin's best in ours";
        targets.push(Target::at_least(work, what, at_least, best));
    }
    Ok(targets)
}
