use amqp_codec::{MethodId, ReplyCode, Table, basic, channel, queue};

use crate::broker::{
    Unit, WrongBroker, client, method_frame, misreads, misreads_properties, replaces,
    rewrites_properties, wrong,
};

type Declare = queue::Declare<'static>;

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "queue.arguments/ignores-them-all",
            misreads(|it: &mut Declare| it.arguments = Table::EMPTY),
        )
        .caught_by([
            "queue.declare/other-arguments-refused",
            "queue.arguments/message-ttl-expires",
            "queue.arguments/message-ttl-zero-delivers-at-once-or-never",
            "queue.arguments/shorter-of-two-ttls-counts",
            "queue.arguments/expires-deletes-an-unused-queue",
            "queue.arguments/max-length-drops-the-oldest",
            "queue.arguments/max-length-bytes-drops-the-oldest",
            "queue.arguments/reject-publish-nacks",
            "queue.arguments/dead-letter-of-the-rejected",
            "queue.arguments/dead-letter-of-the-dropped",
            "queue.arguments/dead-letter-keeps-its-key",
            "queue.arguments/higher-priority-first",
            "queue.arguments/single-active-consumer",
            "queue.arguments/quorum-counts-deliveries",
            "queue.arguments/stream-read-from-its-first",
            "queue.arguments/stream-get-refused",
        ]),
        wrong("queue.arguments/takes-any-value", {
            client(|channel, it: Declare, out| {
                let ok = queue::DeclareOk {
                    queue: it.queue,
                    ..Default::default()
                };
                out.tell_client(&Unit::method(channel, &ok));
            })
        })
        .caught_by([
            "queue.arguments/negative-ttl-refused",
            "queue.arguments/ttl-in-a-string-refused",
            "queue.arguments/expires-zero-refused",
            "queue.arguments/negative-length-refused",
            "queue.arguments/unknown-overflow-refused",
            "queue.arguments/priority-above-255-refused",
            "queue.arguments/unknown-type-refused",
            "queue.arguments/quorum-exclusive-refused",
            "queue.arguments/dead-letter-key-without-exchange-refused",
        ]),
        wrong("queue.arguments/refuses-those-it-does-not-know", {
            client(|channel, it: Declare, out| {
                if it.arguments.is_empty() {
                    out.tell_server(&method_frame(channel, &it));
                } else {
                    let close = channel::Close {
                        reply_code: ReplyCode::PRECONDITION_FAILED,
                        ..Default::default()
                    };
                    out.tell_client(&Unit::method(channel, &close));
                }
            })
        })
        .caught_by([
            "queue.arguments/unknown-ones-ignored",
            "field-table/arguments-of-every-type",
        ]),
        wrong("queue.arguments/never-nacks", {
            replaces(MethodId::BASIC_NACK, || basic::Ack {
                delivery_tag: 2,
                ..Default::default()
            })
        })
        .caught_by(["queue.arguments/reject-publish-nacks"]),
        wrong("queue.arguments/dead-letters-do-not-say-why", {
            rewrites_properties(MethodId::BASIC_DELIVER, |it| it.headers = None)
        })
        .caught_by([
            "queue.arguments/message-ttl-expires",
            "queue.arguments/expiration-of-a-message",
            "queue.arguments/dead-letter-of-the-rejected",
        ]),
        wrong("queue.arguments/dead-letters-expire-again", {
            rewrites_properties(MethodId::BASIC_DELIVER, |it| {
                it.expiration = Some(amqp_codec::short!("100"));
            })
        })
        .caught_by(["queue.arguments/expiration-of-a-message"]),
        wrong(
            "queue.arguments/knows-no-priorities",
            misreads_properties(|it| it.priority = None),
        )
        .caught_by(["queue.arguments/higher-priority-first"]),
    ]
}
