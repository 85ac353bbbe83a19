//! Who gets in, and what becomes of who does not.

use amqp_codec::{LongStr, ReplyCode, ShortStr, Table, connection, short, table};

use super::steps::{SLOW, SLOW_DEADLINE, expect_end_without_a_word};
use crate::check::Source::{Spec, Text};
use crate::{Check, Connection, Context, Failure, Login, check, ensure};

const FAILURES: &str = "Authentication Failures Notification";
const ACCESS_CONTROL: &str = "Access Control (Authentication, Authorisation) in RabbitMQ";

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("authentication/wrong-password-ends-the-stream")
            .must(
                Text("2.2.4 The Connection Class"),
                "an error before the connection is open, as a wrong password, ends it without a word",
            )
            .sends("PLAIN with a wrong password, from a client that announces no capabilities")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (user, _) = cx.credentials();
                let mut login = with_plain(cx, user, "not the password");
                login.client_properties = Table::EMPTY;
                let mut client = answered(cx, &login).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("authentication/wrong-password-refused-with-403")
            .rabbitmq(
                FAILURES,
                "a wrong password is refused with 403, to a client that announces authentication_failure_close",
            )
            .sends("PLAIN with the user's name and a wrong password")
            .expects("connection.close 403")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (user, _) = cx.credentials();
                refused(cx, &with_plain(cx, user, "not the password")).await
            }),
        check("authentication/no-password-refused-with-403")
            .rabbitmq(ACCESS_CONTROL, "an empty password is nobody's")
            .sends("PLAIN with the user's name and an empty password")
            .expects("connection.close 403")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (user, _) = cx.credentials();
                refused(cx, &with_plain(cx, user, "")).await
            }),
        check("authentication/unknown-user-refused-with-403")
            .rabbitmq(
                FAILURES,
                "an unknown user is refused in the same way as a wrong password",
            )
            .sends("PLAIN with a name that no user has, and the password of another")
            .expects("connection.close 403")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (_, password) = cx.credentials();
                refused(cx, &with_plain(cx, "amqp-conformance.nobody", password)).await
            }),
        check("authentication/no-tune-after-wrong-password")
            .must(
                Spec("connection.start-ok.mechanism rule security"),
                "who is refused does not get in by sending the rest of the handshake all the same",
            )
            .sends("PLAIN with a wrong password, connection.tune-ok and connection.open in one piece")
            .expects("connection.close 403, or the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (user, _) = cx.credentials();
                let mut client = answered(cx, &with_plain(cx, user, "not the password")).await?;
                let tune_ok = connection::TuneOk { channel_max: 10, frame_max: 4096, heartbeat: 0 };
                client.send(0, tune_ok).await?;
                let virtual_host = cx.login().vhost;
                let open = connection::Open { virtual_host, ..Default::default() };
                client.send(0, open).await?;
                let event = client.next().await;
                match event.typed::<connection::Close<'static>>() {
                    Some(close) if close.reply_code == ReplyCode::ACCESS_REFUSED => Ok(()),
                    None if event.is_end() => Ok(()),
                    _ => Err(Failure::unexpected("connection.close 403, or the end", &event)),
                }
            }),
        check("authentication/unknown-mechanism-ends-the-stream")
            .must(
                Spec("connection.start-ok.mechanism rule validity"),
                "a mechanism that was not offered ends the connection without a word",
            )
            .sends("connection.start-ok with the mechanism X-NONE")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut login = silent(cx);
                login.mechanism = short!("X-NONE");
                let mut client = answered(cx, &login).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("authentication/external-not-offered-ends-the-stream")
            .must(
                Spec("connection.start-ok.mechanism rule validity"),
                "a mechanism that was not offered ends the connection without a word, and EXTERNAL is offered with TLS alone",
            )
            .sends("connection.start-ok with the mechanism EXTERNAL and the user's name")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut login = silent(cx);
                login.mechanism = short!("EXTERNAL");
                login.response = LongStr::from(cx.credentials().0.to_owned());
                let mut client = cx.connect().await?;
                let start = client.greet().await?;
                if offers(&start, "EXTERNAL") {
                    return Err(Failure::unimplemented("no EXTERNAL", "EXTERNAL is offered"));
                }
                client.send_start_ok(&login).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("authentication/empty-mechanism-ends-the-stream")
            .must(
                Spec("connection.start-ok.mechanism"),
                "the mechanism is not empty",
            )
            .sends("connection.start-ok with an empty mechanism")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut login = silent(cx);
                login.mechanism = ShortStr::EMPTY;
                let mut client = answered(cx, &login).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("authentication/plain-without-separators-lets-nobody-in")
            .must(
                Text("2.2.4 The Connection Class"),
                "an error before the connection is open, as a malformed response, ends it without a word",
            )
            .sends("PLAIN with a response without the octets of 0 that part name and password, no capabilities announced")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (user, password) = cx.credentials();
                malformed_plain(cx, LongStr::from(format!("{user}{password}"))).await
            }),
        check("authentication/plain-empty-response-lets-nobody-in")
            .must(
                Spec("connection.start-ok.response"),
                "the response is not empty",
            )
            .sends("PLAIN with an empty response")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| malformed_plain(cx, LongStr::EMPTY).await),
        check("authentication/amqplain-accepted")
            .rabbitmq(
                ACCESS_CONTROL,
                "AMQPLAIN takes the content of a table with LOGIN and PASSWORD",
            )
            .sends("AMQPLAIN with the user's name and password")
            .expects("connection.tune, and connection.open-ok in the end")
            .run(async |cx| {
                let (user, password) = cx.credentials();
                let login = with_amqplain(cx, user, password);
                require_amqplain(cx).await?;
                cx.open_as(&login).await.map(drop)
            }),
        check("authentication/amqplain-wrong-password-refused-with-403")
            .rabbitmq(
                FAILURES,
                "a wrong password is refused with 403, to a client that announces authentication_failure_close",
            )
            .sends("AMQPLAIN with the user's name and a wrong password")
            .expects("connection.close 403")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (user, _) = cx.credentials();
                require_amqplain(cx).await?;
                refused(cx, &with_amqplain(cx, user, "not the password")).await
            }),
        check("authentication/amqplain-without-login-lets-nobody-in")
            .rabbitmq(
                ACCESS_CONTROL,
                "AMQPLAIN takes the content of a table with LOGIN and PASSWORD",
            )
            .sends("AMQPLAIN with a table that has no LOGIN")
            .expects("connection.close 403, or the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let response = table! { "PASSWORD" => cx.credentials().1 };
                malformed_amqplain(cx, response.as_bytes()).await
            }),
        check("authentication/amqplain-malformed-lets-nobody-in")
            .rabbitmq(
                ACCESS_CONTROL,
                "AMQPLAIN takes the content of a table with LOGIN and PASSWORD",
            )
            .sends("AMQPLAIN with what is no table")
            .expects("connection.close 403, or the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| malformed_amqplain(cx, b"\x05LOG").await),
        check("authentication/refused-once-let-in-next")
            .must(
                Text("2.2.4 The Connection Class"),
                "who was refused may try again, on another connection",
            )
            .sends("PLAIN with a wrong password; then, on another connection, with the right one")
            .expects("connection.close 403 or the end; then connection.open-ok")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (user, _) = cx.credentials();
                let mut client = answered(cx, &with_plain(cx, user, "not the password")).await?;
                client.set_patience(SLOW);
                let event = client.next().await;
                let closed = event.typed::<connection::Close<'static>>().is_some();
                let expected = "connection.close or the end";
                ensure(closed || event.is_end(), expected, event.found())?;
                cx.open().await.map(drop)
            }),
    ]
}

fn with_plain(cx: &Context, user: &str, password: &str) -> Login {
    let mut login = cx.login();
    login.response = LongStr::from(format!("\0{user}\0{password}"));
    login
}

fn with_amqplain(cx: &Context, user: &str, password: &str) -> Login {
    let mut login = cx.login();
    let response = table! { "LOGIN" => user, "PASSWORD" => password };
    login.mechanism = short!("AMQPLAIN");
    login.response = LongStr::from(response.as_bytes().to_vec());
    login
}

fn offers(start: &connection::Start<'_>, mechanism: &str) -> bool {
    let mechanisms = start.mechanisms.as_bytes();
    mechanisms
        .split(|octet| *octet == b' ')
        .any(|it| it == mechanism.as_bytes())
}

async fn require_amqplain(cx: &Context) -> Result<(), Failure> {
    let start = cx.connect().await?.greet().await?;
    match offers(&start, "AMQPLAIN") {
        true => Ok(()),
        false => Err(Failure::unimplemented(
            "AMQPLAIN",
            "AMQPLAIN is not offered",
        )),
    }
}

/// Up to start-ok.
async fn answered(cx: &Context, login: &Login) -> Result<Connection, Failure> {
    let mut client = cx.connect().await?;
    client.greet().await?;
    client.send_start_ok(login).await?;
    Ok(client)
}

async fn refused(cx: &Context, login: &Login) -> Result<(), Failure> {
    let mut client = answered(cx, login).await?;
    client
        .expect_connection_error(ReplyCode::ACCESS_REFUSED)
        .await
        .map(drop)
}

/// A client that announces no capabilities: nobody tells it why it is refused.
fn silent(cx: &Context) -> Login {
    let mut login = cx.login();
    login.client_properties = Table::EMPTY;
    login
}

/// A response to PLAIN that is none.
async fn malformed_plain(cx: &Context, response: LongStr<'static>) -> Result<(), Failure> {
    let mut login = silent(cx);
    login.response = response;
    let mut client = answered(cx, &login).await?;
    expect_end_without_a_word(&mut client).await
}

/// A response to AMQPLAIN that lets nobody in, whether the broker says so or not.
async fn malformed_amqplain(cx: &Context, response: &[u8]) -> Result<(), Failure> {
    require_amqplain(cx).await?;
    let mut login = cx.login();
    login.mechanism = short!("AMQPLAIN");
    login.response = LongStr::from(response.to_vec());
    let mut client = answered(cx, &login).await?;
    let event = client.next_within(SLOW).await;
    match event.typed::<connection::Close<'static>>() {
        Some(close) if close.reply_code == ReplyCode::ACCESS_REFUSED => Ok(()),
        None if event.is_end() => Ok(()),
        _ => Err(Failure::unexpected(
            "connection.close 403, or the end",
            &event,
        )),
    }
}
