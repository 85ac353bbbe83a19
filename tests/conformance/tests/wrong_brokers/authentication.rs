use amqp_codec::{LongStr, ReplyCode, Table, connection, table};

use crate::broker::{WrongBroker, answers, confuses_codes, ends_at_method, misreads, wrong};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "authentication/lets-everybody-in",
            answers(|_: connection::StartOk<'static>| connection::Tune {
                channel_max: 2047,
                frame_max: 131_072,
                heartbeat: 60,
            }),
        )
        .caught_by([
            "authentication/wrong-password-ends-the-stream",
            "authentication/wrong-password-refused-with-403",
            "authentication/no-password-refused-with-403",
            "authentication/unknown-user-refused-with-403",
            "authentication/no-tune-after-wrong-password",
            "authentication/unknown-mechanism-ends-the-stream",
            "authentication/external-not-offered-ends-the-stream",
            "authentication/empty-mechanism-ends-the-stream",
            "authentication/plain-without-separators-lets-nobody-in",
            "authentication/plain-empty-response-lets-nobody-in",
            "authentication/amqplain-wrong-password-refused-with-403",
            "authentication/amqplain-without-login-lets-nobody-in",
            "authentication/amqplain-malformed-lets-nobody-in",
            "handshake/start-ok-twice",
        ]),
        wrong(
            "authentication/says-not-found-to-who-is-refused",
            confuses_codes(ReplyCode::ACCESS_REFUSED, ReplyCode::NOT_FOUND),
        )
        .caught_by([
            "authentication/unknown-user-refused-with-403",
            "authentication/amqplain-wrong-password-refused-with-403",
        ]),
        wrong(
            "authentication/closes-before-every-client",
            misreads(|it: &mut connection::StartOk<'static>| {
                it.client_properties = table! {
                    "capabilities" => table! { "authentication_failure_close" => true },
                };
            }),
        )
        .caught_by(["authentication/wrong-password-ends-the-stream"]),
        wrong(
            "authentication/tells-no-client",
            misreads(|it: &mut connection::StartOk<'static>| {
                it.client_properties = Table::EMPTY;
            }),
        )
        .caught_by(["authentication/wrong-password-refused-with-403"]),
        wrong(
            "authentication/takes-plain-alone",
            ends_at_method(|it: &connection::StartOk<'static>| {
                it.mechanism.as_bytes() == b"AMQPLAIN"
            }),
        )
        .caught_by(["authentication/amqplain-accepted"]),
        wrong(
            "authentication/knows-no-password",
            misreads(|it: &mut connection::StartOk<'static>| {
                it.response = LongStr::from("\0guest\0not the password");
            }),
        )
        .caught_by(["authentication/refused-once-let-in-next"]),
    ]
}
