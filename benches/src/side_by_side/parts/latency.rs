//! One publish, one confirm, in turn.

use super::{AMQP_CLIENT, AMQPRS, Client, Job, LAPIN, RABBITMQ_C, SOCKET, count_target};
use crate::load::{Failure, Work};
use crate::side_by_side::Context;
use crate::side_by_side::contest::Contest;
use crate::side_by_side::results::Measured;
use crate::side_by_side::target::Target;

const WORK: &str = "one publish, one confirm, in turn, 16 B";

pub(super) fn run(context: &Context) -> Result<Measured, Failure> {
    let broker = context.programs.null_broker(1)?;
    let job = Job {
        window: 1,
        ..Job::new(Work::InTurn, broker.address(), 16, context.count(20_000))
    };
    let clients = [AMQP_CLIENT, SOCKET, RABBITMQ_C, AMQPRS, LAPIN];
    let clients = clients.map(|client| Client {
        percent: 100.min(client.percent * 10),
        ..client
    });
    let contest = Contest {
        work: WORK.into(),
        entries: job.entries(context, &clients),
        counted: Some(1_000),
    };
    let mut measured = Measured {
        rows: contest.hold(context)?,
        ..Measured::default()
    };
    let ratio = measured.row(WORK, SOCKET.name)?.p50_ratio;
    let calls = measured.row(WORK, AMQP_CLIENT.name)?.system_calls;
    // To the hundredth: in thousands of messages a wait ends for nothing once or twice.
    let calls = calls.map(|calls| (100.0 * calls).round() / 100.0);
    measured.targets = vec![
        Target::at_most(
            WORK,
            "p50 in that of a blocking socket",
            1.35,
            ratio.ok_or("no latency was measured")?.median,
        ),
        count_target(WORK, "system calls", 4.0, calls)?,
    ];
    Ok(measured)
}
