use amqp_codec::{MethodId, basic};

use crate::broker::{WrongBroker, ignores, misreads, postpones, rewrites, wrong};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    [acks(), rejects(), deliveries()]
        .into_iter()
        .flatten()
        .collect()
}

fn acks() -> Vec<WrongBroker> {
    vec![
        wrong("basic.ack/does-not-hear-it", ignores::<basic::Ack>()).caught_by([
            "basic.ack/one",
            "basic.ack/multiple",
            "basic.ack/multiple-after-single-ones",
            "basic.ack/zero-with-multiple-is-all",
            "basic.ack/unknown-tag-refused",
            "basic.ack/unknown-tag-with-multiple-refused",
            "basic.ack/twice-refused",
            "basic.ack/after-reject-refused",
            "basic.ack/on-another-channel-refused",
            "basic.ack/of-no-ack-delivery-refused",
            "basic.cancel/unacked-stay-with-the-channel",
            "basic.qos/withholds-until-acked",
            "tx.commit/acks-count-then",
            "tx.commit/ack-again-after-rollback",
        ]),
        wrong(
            "basic.ack/knows-no-multiple",
            misreads(|it: &mut basic::Ack| it.multiple = false),
        )
        .caught_by([
            "basic.ack/multiple",
            "basic.ack/zero-with-multiple-is-all",
            "basic.ack/zero-with-multiple-is-fine-with-none",
        ]),
        wrong(
            "basic.ack/takes-all-for-multiple",
            misreads(|it: &mut basic::Ack| it.multiple = true),
        )
        .caught_by(["basic.ack/one", "basic.ack/zero-alone-refused"]),
    ]
}

fn rejects() -> Vec<WrongBroker> {
    vec![
        wrong("basic.reject/does-not-hear-it", ignores::<basic::Reject>())
            .caught_by(["basic.reject/discards", "basic.reject/unknown-tag-refused"]),
        wrong(
            "basic.reject/never-requeues",
            misreads(|it: &mut basic::Reject| it.requeue = false),
        )
        .caught_by([
            "basic.reject/requeues",
            "basic.reject/requeued-to-its-place",
        ]),
        wrong(
            "basic.reject/always-requeues",
            misreads(|it: &mut basic::Reject| it.requeue = true),
        )
        .caught_by(["basic.reject/discards"]),
        wrong("basic.nack/does-not-hear-it", ignores::<basic::Nack>()).caught_by([
            "basic.nack/one-discarded",
            "basic.nack/multiple-discarded",
            "basic.nack/zero-with-multiple-is-all",
            "basic.nack/unknown-tag-refused",
        ]),
        wrong(
            "basic.nack/knows-no-multiple",
            misreads(|it: &mut basic::Nack| it.multiple = false),
        )
        .caught_by([
            "basic.nack/multiple-discarded",
            "basic.nack/multiple-requeued",
        ]),
        wrong(
            "basic.nack/never-requeues",
            misreads(|it: &mut basic::Nack| it.requeue = false),
        )
        .caught_by(["basic.nack/multiple-requeued"]),
    ]
}

fn deliveries() -> Vec<WrongBroker> {
    vec![
        wrong(
            "basic.deliver/tags-from-2",
            rewrites(|it: &mut basic::Deliver<'static>| it.delivery_tag += 1),
        )
        .caught_by([
            "basic.deliver/tags-count-up",
            "basic.deliver/tags-shared-by-get-and-consume",
        ]),
        wrong(
            "basic.get-ok/never-redelivered",
            rewrites(|it: &mut basic::GetOk<'static>| it.redelivered = false),
        )
        .caught_by([
            "basic.nack/multiple-requeued",
            "basic.recover-async/not-answered",
        ]),
        wrong(
            "basic.deliver/never-redelivered",
            rewrites(|it: &mut basic::Deliver<'static>| it.redelivered = false),
        )
        .caught_by([
            "basic.deliver/says-that-it-comes-again",
            "basic.ack/unacked-come-back-when-the-channel-closes",
            "basic.ack/unacked-come-back-when-the-connection-goes",
            "basic.recover/requeues-and-delivers-again",
        ]),
        wrong(
            "basic.recover/delivers-before-it-answers",
            postpones(MethodId::BASIC_RECOVER_OK),
        )
        .caught_by(["basic.recover/requeues-and-delivers-again"]),
        wrong(
            "basic.recover-async/does-not-hear-it",
            ignores::<basic::RecoverAsync>(),
        )
        .caught_by(["basic.recover-async/not-answered"]),
    ]
}
