use amqp_codec::{MethodId, ReplyCode, channel};

use crate::broker::{WrongBroker, drops, ignores, rewrites, wrong};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "channel/never-closes-in-answer",
            drops(MethodId::CHANNEL_CLOSE_OK),
        )
        .caught_by(["channel.close/number-can-be-used-again"]),
        wrong(
            "channel/refused-for-everything",
            rewrites(|it: &mut channel::Close| {
                it.reply_code = ReplyCode::ACCESS_REFUSED;
            }),
        )
        .caught_by(["basic.publish/missing-exchange", "basic.get/missing-queue"]),
        wrong("channel/does-not-open", ignores::<channel::Open<'static>>())
            .caught_by(["channel.close/number-can-be-used-again"]),
    ]
}
