use amqp_codec::{MethodId, ReplyCode, basic, channel, queue, short};

use crate::broker::{
    Fault, Passing, Unit, WrongBroker, answers, client, drops, fault, misreads, rewrites, wrong,
};

type Declare = queue::Declare<'static>;
type DeclareOk = queue::DeclareOk<'static>;
type Bind = queue::Bind<'static>;
type Unbind = queue::Unbind<'static>;
type Purge = queue::Purge<'static>;
type Delete = queue::Delete<'static>;

pub(crate) fn brokers() -> Vec<WrongBroker> {
    [declare(), exclusive(), bind(), purge(), delete()]
        .into_iter()
        .flatten()
        .collect()
}

fn declare() -> Vec<WrongBroker> {
    vec![
        wrong(
            "queue.declare/counts-one-more",
            rewrites(|it: &mut DeclareOk| it.message_count += 1),
        )
        .caught_by(["queue.declare/answered-with-name-and-counts"]),
        wrong(
            "queue.declare/counts-no-consumers",
            rewrites(|it: &mut DeclareOk| it.consumer_count = 0),
        )
        .caught_by(["queue.declare/answered-with-name-and-counts"]),
        wrong(
            "queue.declare/does-not-say-the-name",
            rewrites(|it: &mut DeclareOk| it.queue = short!("")),
        )
        .caught_by([
            "queue.declare/server-names-it",
            "queue.declare/answered-with-name-and-counts",
            "queue.declare/name-of-127-octets",
        ]),
        wrong(
            "queue.declare/never-answers",
            drops(MethodId::QUEUE_DECLARE_OK),
        )
        .caught_by([
            "queue.declare/equivalent-again",
            "queue.arguments/type-classic",
            "field-table/arguments-well-formed-by-hand",
        ]),
        wrong(
            "queue.declare/ignores-passive",
            misreads(|it: &mut Declare| it.passive = false),
        )
        .caught_by([
            "queue.declare/passive-missing",
            "queue.declare/no-wait-fails-all-the-same",
        ]),
        wrong(
            "queue.declare/ignores-durable",
            misreads(|it: &mut Declare| it.durable = false),
        )
        .caught_by(["queue.declare/other-durability-refused"]),
        wrong(
            "queue.declare/ignores-auto-delete",
            misreads(|it: &mut Declare| it.auto_delete = false),
        )
        .caught_by([
            "queue.declare/other-auto-delete-refused",
            "queue.declare/auto-delete-goes-with-last-consumer",
            "queue.declare/auto-delete-goes-with-the-channel-of-its-consumer",
        ]),
        wrong(
            "queue.declare/makes-all-auto-delete",
            misreads(|it: &mut Declare| it.auto_delete = true),
        )
        .caught_by(["queue.declare/other-auto-delete-refused"]),
        wrong(
            "queue.declare/answers-no-wait",
            misreads(|it: &mut Declare| it.no_wait = false),
        )
        .caught_by(["queue.declare/no-wait-unanswered"]),
        wrong("queue.declare/lets-anybody-have-any-name", {
            answers(|it: Declare| DeclareOk {
                queue: it.queue,
                ..Default::default()
            })
        })
        .caught_by([
            "queue.declare/reserved-name-refused",
            "queue.declare/passive-missing",
        ]),
        wrong(
            "queue.declare/says-nothing-of-failures",
            drops(MethodId::CHANNEL_CLOSE),
        )
        .caught_by([
            "queue.declare/no-wait-fails-all-the-same",
            "queue.bind/missing-exchange-refused",
        ]),
        wrong("queue/last-come-first-served", swaps_publishes())
            .caught_by(["queue/messages-in-order"]),
        wrong("queue.declare/forgets-which-was-last", {
            client(|channel, it: Purge, out| match it.queue.is_empty() {
                true => out.tell_client(&Unit::method(channel, &queue::PurgeOk::default())),
                false => out.tell_server(&crate::broker::method_frame(channel, &it)),
            })
        })
        .caught_by([
            "queue.declare/empty-name-is-the-last-declared",
            "queue.declare/empty-name-without-any-refused",
        ]),
    ]
}

/// The first message of a connection is routed after the second.
fn swaps_publishes() -> Fault {
    fault(|| {
        let mut held = Vec::new();
        let mut publishes = 0;
        move |passing, out| {
            let Passing::Client(frame) = &passing else {
                return out.pass(passing);
            };
            match frame.method().map(|method| method.id()) {
                Some(MethodId::BASIC_PUBLISH) => publishes += 1,
                Some(_) => return out.pass(passing),
                None => {}
            }
            match publishes {
                1 => held.push(frame.clone()),
                3 => {
                    for frame in held.drain(..) {
                        out.tell_server(&frame);
                    }
                    out.pass(passing);
                }
                _ => out.pass(passing),
            }
        }
    })
}

fn exclusive() -> Vec<WrongBroker> {
    vec![
        wrong(
            "queue.declare/ignores-exclusive",
            misreads(|it: &mut Declare| it.exclusive = false),
        )
        .caught_by([
            "queue.declare/exclusive-belongs-to-its-connection",
            "queue.declare/exclusive-goes-with-its-connection",
            "queue.bind/exclusive-of-another-refused",
            "queue.purge/exclusive-of-another-refused",
            "queue.delete/exclusive-of-another-refused",
            "basic.consume/exclusive-queue-of-another-refused",
            "basic.get/exclusive-queue-of-another-refused",
        ]),
        wrong(
            "queue.declare/makes-all-exclusive",
            misreads(|it: &mut Declare| it.exclusive = true),
        )
        .caught_by([
            "queue.declare/outlives-its-connection",
            "queue.declare/equivalent-again",
        ]),
        wrong("queue.declare/exclusive-to-the-channel", {
            client(|channel, it: Declare, out| {
                if it.passive && channel > 1 {
                    let close = channel::Close {
                        reply_code: ReplyCode::RESOURCE_LOCKED,
                        ..Default::default()
                    };
                    out.tell_client(&Unit::method(channel, &close));
                } else {
                    out.tell_server(&crate::broker::method_frame(channel, &it));
                }
            })
        })
        .caught_by(["queue.declare/exclusive-used-on-all-channels"]),
        wrong("basic.publish/loses-what-is-for-exclusive-queues", {
            misreads(|it: &mut basic::Publish<'static>| it.routing_key = short!("nowhere"))
        })
        .caught_by(["basic.publish/exclusive-queue-of-another-takes-it"]),
    ]
}

fn bind() -> Vec<WrongBroker> {
    vec![
        wrong(
            "queue.bind/binds-nothing",
            answers(|_: Bind| queue::BindOk {}),
        )
        .caught_by([
            "queue.bind/missing-exchange-refused",
            "queue.bind/missing-queue-refused",
            "queue.bind/default-exchange-refused",
            "queue.bind/twice-is-once",
        ]),
        wrong(
            "queue.bind/answers-no-wait",
            misreads(|it: &mut Bind| it.no_wait = false),
        )
        .caught_by(["queue.bind/no-wait-unanswered"]),
        wrong(
            "queue.unbind/removes-nothing",
            answers(|_: Unbind| queue::UnbindOk {}),
        )
        .caught_by([
            "routing/unbound-gets-nothing-more",
            "queue.bind/twice-is-once",
            "queue.unbind/arguments-count",
            "exchange.declare/auto-delete-goes-with-last-binding",
        ]),
        wrong(
            "queue.unbind/never-answers",
            drops(MethodId::QUEUE_UNBIND_OK),
        )
        .caught_by(["queue.unbind/missing-binding"]),
    ]
}

fn purge() -> Vec<WrongBroker> {
    vec![
        wrong(
            "queue.purge/purges-nothing",
            answers(|_: Purge| queue::PurgeOk { message_count: 3 }),
        )
        .caught_by([
            "queue.purge/removes-what-is-ready",
            "queue.purge/missing-queue-refused",
            "queue.purge/exclusive-of-another-refused",
        ]),
        wrong("queue.purge/counts-one-less", {
            rewrites(|it: &mut queue::PurgeOk| {
                it.message_count = it.message_count.saturating_sub(1)
            })
        })
        .caught_by([
            "queue.purge/removes-what-is-ready",
            "properties/body-size-decides-about-body-frames",
        ]),
        wrong("queue.purge/takes-the-unacknowledged-too", {
            misreads(|it: &mut basic::Reject| it.requeue = false)
        })
        .caught_by(["queue.purge/keeps-what-is-unacknowledged"]),
        wrong(
            "queue.purge/answers-no-wait",
            misreads(|it: &mut Purge| it.no_wait = false),
        )
        .caught_by(["queue.purge/no-wait-unanswered"]),
    ]
}

fn delete() -> Vec<WrongBroker> {
    vec![
        wrong(
            "queue.delete/deletes-nothing",
            answers(|_: Delete| queue::DeleteOk { message_count: 0 }),
        )
        .caught_by([
            "queue.delete/removes-with-its-messages",
            "queue.delete/if-unused-and-if-empty-when-both-hold",
            "queue.delete/exclusive-of-another-refused",
        ]),
        wrong(
            "queue.delete/does-not-count",
            rewrites(|it: &mut queue::DeleteOk| it.message_count = 0),
        )
        .caught_by(["queue.delete/removes-with-its-messages"]),
        wrong(
            "queue.delete/ignores-if-unused",
            misreads(|it: &mut Delete| it.if_unused = false),
        )
        .caught_by(["queue.delete/if-unused-refused-with-consumer"]),
        wrong(
            "queue.delete/ignores-if-empty",
            misreads(|it: &mut Delete| it.if_empty = false),
        )
        .caught_by(["queue.delete/if-empty-refused-with-message"]),
        wrong(
            "queue.delete/answers-no-wait",
            misreads(|it: &mut Delete| it.no_wait = false),
        )
        .caught_by(["queue.delete/no-wait-unanswered"]),
    ]
}
