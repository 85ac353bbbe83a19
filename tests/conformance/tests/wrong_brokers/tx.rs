use amqp_codec::{MethodId, tx};

use crate::broker::{WrongBroker, answers, drops, wrong};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong("tx.select/never-answers", drops(MethodId::TX_SELECT_OK))
            .caught_by(["tx.select/twice-is-fine"]),
        wrong("tx.commit/never-answers", drops(MethodId::TX_COMMIT_OK))
            .caught_by(["tx.commit/empty", "tx.select/twice-is-fine"]),
        wrong(
            "tx.select/answers-and-does-nothing",
            answers(|_: tx::Select| tx::SelectOk {}),
        )
        .caught_by([
            "tx.commit/publishes-appear-together",
            "tx.rollback/publishes-vanish",
            "tx/channel-close-discards",
            "tx/connection-end-discards",
            "tx/missing-exchange-fails-at-once",
        ]),
        wrong(
            "tx.commit/answers-and-does-nothing",
            answers(|_: tx::Commit| tx::CommitOk {}),
        )
        .caught_by([
            "tx.commit/refused-without-select",
            "tx.commit/publishes-appear-together",
            "tx.commit/next-transaction-begins-at-once",
            "tx.commit/acks-count-then",
            "tx.commit/ack-again-after-rollback",
            "tx.commit/then-close-at-once",
        ]),
        wrong(
            "tx.rollback/answers-and-does-nothing",
            answers(|_: tx::Rollback| tx::RollbackOk {}),
        )
        .caught_by([
            "tx.rollback/refused-without-select",
            "tx.rollback/publishes-vanish",
        ]),
        wrong("tx.rollback/commits", {
            crate::broker::client(|channel, _: tx::Rollback, out| {
                out.tell_server(&crate::broker::method_frame(channel, &tx::Commit {}));
            })
        })
        .caught_by([
            "tx.rollback/publishes-vanish",
            "tx.rollback/acks-do-not-count",
        ]),
    ]
}
