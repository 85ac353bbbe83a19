use amqp_codec::{LongStr, MethodId, ReplyCode, connection};

use crate::broker::{WrongBroker, cuts_instead_of, drops, resets_instead_of, rewrites, wrong};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "handshake/speaks-another-version",
            rewrites(|it: &mut connection::Start| {
                it.version_minor = 8;
            }),
        )
        .caught_by(["handshake/start-after-header"]),
        wrong(
            "handshake/knows-no-english",
            rewrites(|it: &mut connection::Start| {
                it.locales = LongStr::from("en_GB");
            }),
        )
        .caught_by(["handshake/offers-en-us"]),
        wrong(
            "connection/wrong-code-for-credentials",
            rewrites(|it: &mut connection::Close| {
                it.reply_code = ReplyCode::INTERNAL_ERROR;
            }),
        )
        .caught_by([
            "handshake/wrong-password-refused-with-403",
            "handshake/missing-vhost-refused",
            "channel.open/twice",
        ]),
        wrong(
            "connection/cuts-instead-of-closing",
            cuts_instead_of(MethodId::CONNECTION_CLOSE),
        )
        .caught_by(["channel.open/twice"]),
        wrong("handshake/never-tunes", drops(MethodId::CONNECTION_TUNE))
            .caught_by(["handshake/heartbeat-proposal"]),
        wrong(
            "connection/resets-instead-of-closing",
            resets_instead_of(MethodId::CONNECTION_CLOSE),
        )
        .caught_by(["channel.open/twice"]),
    ]
}
