use amqp_codec::{channel, connection, frame};

use crate::broker::{
    Action, Fault, Out, Passing, Unit, WrongBroker, answers, ends_at, fault, misreads, never_ends,
    overhears, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "heartbeat/never-sends-one",
            instead_of_heartbeats(|_, _| {}),
        )
        .caught_by(["heartbeat/server-sends"]),
        wrong("heartbeat/waits-for-ever", never_ends())
            .caught_by(["heartbeat/silent-client-dropped"]),
        wrong(
            "heartbeat/drops-clients-too-early",
            instead_of_heartbeats(|_, out| out.act(Action::Cut)),
        )
        .caught_by(["heartbeat/silent-client-dropped", "heartbeat/server-sends"]),
        wrong(
            "heartbeat/does-not-hear-any",
            overhears(|it| it.kind == frame::HEARTBEAT),
        )
        .caught_by(["heartbeat/keeps-the-connection"]),
        wrong(
            "heartbeat/counts-heartbeats-alone",
            answers(|it: channel::Flow| channel::FlowOk {
                active: it.active,
                undefined_bits: 0,
            }),
        )
        .caught_by(["heartbeat/any-traffic-counts"]),
        wrong(
            "heartbeat/sends-them-to-everybody",
            misreads(|it: &mut connection::TuneOk| it.heartbeat = 1),
        )
        .caught_by(["heartbeat/none-when-0"]),
        wrong(
            "heartbeat/suffers-none",
            ends_at(|it| it.kind == frame::HEARTBEAT),
        )
        .caught_by(["heartbeat/discarded-when-0", "heartbeat/before-open"]),
    ]
}

/// What the broker does instead of sending a heartbeat.
fn instead_of_heartbeats(act: impl Fn(Unit, &mut Out) + Send + Sync + Clone + 'static) -> Fault {
    fault(move || {
        let act = act.clone();
        move |passing, out: &mut Out| match passing {
            Passing::Server(unit) if unit.frames[0].kind == frame::HEARTBEAT => act(unit, out),
            passing => out.pass(passing),
        }
    })
}
