use amqp_codec::{MethodId, Table, basic, connection, short, table};

use crate::broker::{
    WrongBroker, answers, drops, misreads, misreads_properties, postpones, rewrites, wrong,
};

type Consume = basic::Consume<'static>;
type Cancel = basic::Cancel<'static>;
type Deliver = basic::Deliver<'static>;

pub(crate) fn brokers() -> Vec<WrongBroker> {
    [consume(), cancel(), qos()].into_iter().flatten().collect()
}

fn consume() -> Vec<WrongBroker> {
    vec![
        wrong(
            "basic.consume/delivers-before-it-answers",
            postpones(MethodId::BASIC_CONSUME_OK),
        )
        .caught_by(["basic.consume/ok-before-the-first-delivery"]),
        wrong("basic.consume/does-not-say-the-tag", {
            rewrites(|it: &mut basic::ConsumeOk<'static>| it.consumer_tag = short!(""))
        })
        .caught_by([
            "basic.consume/server-names-it",
            "basic.consume/ok-before-the-first-delivery",
        ]),
        wrong("basic.consume/starts-no-consumer", {
            answers(|it: Consume| basic::ConsumeOk {
                consumer_tag: it.consumer_tag,
            })
        })
        .caught_by([
            "basic.consume/missing-queue-refused",
            "basic.consume/tag-in-use-refused",
            "basic.consume/same-tag-on-another-channel",
            "basic.consume/direct-reply-to",
            "basic.consume/direct-reply-to-wants-no-ack",
        ]),
        wrong(
            "basic.consume/answers-no-wait",
            misreads(|it: &mut Consume| it.no_wait = false),
        )
        .caught_by(["basic.consume/no-wait-unanswered"]),
        wrong(
            "basic.consume/always-wants-acks",
            misreads(|it: &mut Consume| it.no_ack = false),
        )
        .caught_by([
            "basic.consume/no-ack-settles-at-once",
            "basic.qos/does-not-concern-no-ack",
        ]),
        wrong(
            "basic.consume/never-wants-acks",
            misreads(|it: &mut Consume| it.no_ack = true),
        )
        .caught_by([
            "channel.close/unacked-come-back",
            "basic.consume/direct-reply-to-wants-no-ack",
        ]),
        wrong(
            "basic.consume/ignores-exclusive",
            misreads(|it: &mut Consume| it.exclusive = false),
        )
        .caught_by([
            "basic.consume/exclusive-shuts-others-out",
            "basic.consume/exclusive-refused-beside-others",
        ]),
        wrong(
            "basic.consume/ignores-arguments",
            misreads(|it: &mut Consume| it.arguments = Table::EMPTY),
        )
        .caught_by(["basic.consume/higher-priority-first"]),
        wrong("basic.deliver/all-to-the-first", {
            rewrites(|it: &mut Deliver| it.consumer_tag = short!("one"))
        })
        .caught_by([
            "basic.consume/consumers-take-turns",
            "basic.qos/each-consumer-has-its-own",
        ]),
        wrong(
            "basic.deliver/does-not-say-the-exchange",
            rewrites(|it: &mut Deliver| it.exchange = short!("")),
        )
        .caught_by(["basic.deliver/says-where-from"]),
        wrong(
            "basic.deliver/all-redelivered",
            rewrites(|it: &mut Deliver| it.redelivered = true),
        )
        .caught_by(["basic.deliver/says-where-from"]),
    ]
}

fn cancel() -> Vec<WrongBroker> {
    vec![
        wrong("basic.cancel/cancels-nothing", {
            answers(|it: Cancel| basic::CancelOk {
                consumer_tag: it.consumer_tag,
            })
        })
        .caught_by([
            "basic.cancel/nothing-after-it",
            "basic.cancel/tag-can-be-used-again",
        ]),
        wrong(
            "basic.cancel/never-answers",
            drops(MethodId::BASIC_CANCEL_OK),
        )
        .caught_by([
            "basic.cancel/unknown-tag-is-fine",
            "basic.cancel/nothing-after-it",
        ]),
        wrong(
            "basic.cancel/answers-no-wait",
            misreads(|it: &mut Cancel| it.no_wait = false),
        )
        .caught_by(["basic.cancel/no-wait-unanswered"]),
        wrong(
            "basic.cancel/does-not-tell-of-a-lost-queue",
            drops(MethodId::BASIC_CANCEL),
        )
        .caught_by(["basic.cancel/from-the-server-when-the-queue-goes"]),
        wrong("connection.start-ok/takes-every-client-for-able", {
            misreads(|it: &mut connection::StartOk<'static>| {
                it.client_properties = table! {
                    "capabilities" => table! {
                        "consumer_cancel_notify" => true,
                        "connection.blocked" => true,
                    },
                };
            })
        })
        .caught_by([
            "basic.cancel/not-from-the-server-without-the-capability",
            "connection.blocked/not-told-without-the-capability",
        ]),
    ]
}

fn qos() -> Vec<WrongBroker> {
    vec![
        wrong(
            "basic.qos/limits-nothing",
            answers(|_: basic::Qos| basic::QosOk {}),
        )
        .caught_by([
            "basic.qos/withholds-until-acked",
            "basic.qos/not-for-consumers-there-are",
            "basic.qos/each-consumer-has-its-own",
            "basic.qos/global-is-for-the-channel",
        ]),
        wrong("basic.qos/takes-0-for-1", {
            misreads(|it: &mut basic::Qos| it.prefetch_count = it.prefetch_count.max(1))
        })
        .caught_by(["basic.qos/zero-is-no-limit"]),
        wrong(
            "basic.qos/ignores-global",
            misreads(|it: &mut basic::Qos| it.global = false),
        )
        .caught_by(["basic.qos/global-is-for-the-channel"]),
        wrong(
            "basic.qos/always-global",
            misreads(|it: &mut basic::Qos| it.global = true),
        )
        .caught_by(["basic.qos/each-consumer-has-its-own"]),
        wrong(
            "basic.publish/knows-no-direct-reply-to",
            misreads_properties(|it| it.reply_to = None),
        )
        .caught_by([
            "basic.consume/direct-reply-to",
            "basic.publish/direct-reply-to-without-consumer-refused",
        ]),
    ]
}
