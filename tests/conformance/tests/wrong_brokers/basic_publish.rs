use amqp_codec::{MethodId, basic};
use std::time::Duration;

use crate::broker::{
    WrongBroker, delays, drops, misreads, postpones, rewrites, rewrites_body, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong("basic.publish/never-confirms", drops(MethodId::BASIC_ACK))
            .caught_by(["basic.publish/confirmed-when-routed"]),
        wrong(
            "basic.publish/confirms-the-next",
            rewrites(|it: &mut basic::Ack| {
                it.delivery_tag += 1;
            }),
        )
        .caught_by(["basic.publish/confirmed-when-routed"]),
        wrong(
            "basic.publish/acks-before-it-returns",
            postpones(MethodId::BASIC_RETURN),
        )
        .caught_by(["basic.publish/mandatory-unroutable-returned-before-ack"]),
        wrong(
            "basic.publish/returns-another-body",
            rewrites_body(MethodId::BASIC_RETURN, |it| {
                it.reverse();
            }),
        )
        .caught_by(["basic.publish/mandatory-unroutable-returned-before-ack"]),
        wrong(
            "basic.publish/ignores-mandatory",
            misreads(|it: &mut basic::Publish| {
                it.mandatory = false;
            }),
        )
        .caught_by(["basic.publish/mandatory-unroutable-returned-before-ack"]),
        wrong(
            "basic.publish/confirms-too-late",
            delays(MethodId::BASIC_ACK, Duration::from_secs(2)),
        )
        .caught_by(["basic.publish/confirmed-when-routed"]),
        wrong(
            "basic.publish/takes-all-for-mandatory",
            misreads(|it: &mut basic::Publish| it.mandatory = true),
        )
        .caught_by(["basic.publish/unroutable-not-mandatory-dropped"]),
        wrong("basic.publish/routes-nothing", {
            misreads(|it: &mut basic::Publish| {
                it.exchange = amqp_codec::short!("amq.direct");
                it.routing_key = amqp_codec::short!("nowhere");
            })
        })
        .caught_by([
            "basic.publish/mandatory-routed-is-not-returned",
            "basic.publish/mandatory-in-part-is-not-returned",
        ]),
    ]
}
