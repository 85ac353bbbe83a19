//! From the protocol header to connection.open-ok.

use std::time::Duration;

use amqp_codec::{
    LongStr, ProtocolHeader, ReplyCode, Table, channel, connection, frame, short, table,
};

use super::steps::{SLOW_DEADLINE, expect_end_without_a_word, tune_ok_sent, tuned};
use crate::check::Source::{Spec, Text};
use crate::{Check, Connection, Context, Event, Failure, Login, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("handshake/start-after-header")
            .must(
                Text("2.2.4 The Connection Class"),
                "a server that accepts the protocol header answers with connection.start, version 0-9",
            )
            .sends("the protocol header of 0-9-1")
            .expects("connection.start with version 0-9")
            .run(async |cx| {
                let start = cx.connect().await?.greet().await?;
                let version = (start.version_major, start.version_minor);
                ensure_eq("version", &version, &(0, 9))
            }),
        check("handshake/offers-en-us")
            .must(
                Spec("connection.start.locales rule required-support"),
                "the server supports at least the locale en_US",
            )
            .sends("the protocol header of 0-9-1")
            .expects("connection.start with en_US among its locales")
            .run(async |cx| {
                let start = cx.connect().await?.greet().await?;
                let locales = start.locales.to_string_lossy().into_owned();
                let offered = locales.split(' ').any(|locale| locale == "en_US");
                ensure(offered, "the locale en_US", format!("locales {locales}"))
            }),
        check("handshake/wrong-header-answered-by-own")
            .must(
                Spec("connection.start rule protocol-name"),
                "a protocol header that the server does not support is answered by one that it does, and the end",
            )
            .sends("a protocol header of version 9.9.9")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| {
                let mut client = cx.connect().await?;
                let wrong = ProtocolHeader { id: 0, major: 9, minor: 9, revision: 9 };
                client.send_protocol(wrong).await?;
                let event = client.next().await;
                if event != crate::Event::Protocol(ProtocolHeader::AMQP_0_9_1) {
                    let expected = "the protocol header 0 0 9 1";
                    return Err(Failure::unexpected(expected, &event));
                }
                client.expect_end().await
            }),
        check("handshake/wrong-password-refused-with-403")
            .rabbitmq(
                "Authentication Failures Notification",
                "wrong credentials are refused with 403, to a client that announces authentication_failure_close",
            )
            .sends("connection.start-ok with PLAIN and a wrong password")
            .expects("connection.close 403")
            .run(async |cx| {
                let mut login = cx.login();
                login.response = LongStr::from("\0nobody\0wrong");
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send_start_ok(&login).await?;
                client
                    .expect_connection_error(ReplyCode::ACCESS_REFUSED)
                    .await
                    .map(drop)
            }),
        check("handshake/missing-vhost-refused")
            .must(
                Spec("connection.open.virtual-host"),
                "a virtual host that does not exist is refused with an error",
            )
            .sends("connection.open with a name that no virtual host has")
            .expects("connection.close 530 or 402")
            .run(async |cx| {
                let mut login = cx.login();
                login.vhost = short!("amqp-conformance/none");
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send_start_ok(&login).await?;
                let tune: connection::Tune = client.expect(0).await?;
                client.send_tune_ok(tune, None).await?;
                let open = connection::Open {
                    virtual_host: login.vhost.clone(),
                    ..Default::default()
                };
                client.send(0, open).await?;
                let codes = [ReplyCode::NOT_ALLOWED, ReplyCode::INVALID_PATH];
                client.expect_connection_error(codes).await.map(drop)
            }),
        check("handshake/server-properties-named")
            .should(
                Spec("connection.start.server-properties rule required-fields"),
                "the server's properties say host, product, version, platform, copyright and information",
            )
            .sends("the protocol header of 0-9-1")
            .expects("those six in the server's properties")
            .run(async |cx| {
                let start = cx.connect().await?.greet().await?;
                for field in ["host", "product", "version", "platform", "copyright", "information"] {
                    let there = start.server_properties.contains_key(field);
                    ensure(there, format!("the property {field}"), format!("no property {field}"))?;
                }
                Ok(())
            }),
        check("handshake/heartbeat-proposal")
            .silent(
                Spec("connection.tune.heartbeat"),
                "the server proposes a heartbeat; which one is its own affair",
            )
            .sends("the handshake up to connection.tune")
            .expects("connection.tune; the heartbeat is observed")
            .run(async |cx| {
                let mut client = cx.open().await?;
                let tune = client.opened().map(|it| it.tune).unwrap_or_default();
                cx.observe(format!("heartbeat {} s", tune.heartbeat));
                client.open_channel(1).await
            }),
        check("handshake/mechanisms-not-empty")
            .must(
                Spec("connection.start.mechanisms"),
                "the lists of security mechanisms and of locales are not empty",
            )
            .sends("the protocol header of 0-9-1")
            .expects("connection.start with at least one mechanism and one locale")
            .run(async |cx| {
                let start = cx.connect().await?.greet().await?;
                ensure(!start.mechanisms.is_empty(), "mechanisms", "no mechanisms")?;
                ensure(!start.locales.is_empty(), "locales", "no locales")
            }),
        check("handshake/offers-plain")
            .rabbitmq(
                "Access Control (Authentication, Authorisation) in RabbitMQ",
                "the mechanism PLAIN is offered",
            )
            .sends("the protocol header of 0-9-1")
            .expects("connection.start with PLAIN among its mechanisms")
            .run(async |cx| {
                let start = cx.connect().await?.greet().await?;
                let mechanisms = start.mechanisms.to_string_lossy().into_owned();
                let offered = mechanisms.split(' ').any(|it| it == "PLAIN");
                ensure(offered, "the mechanism PLAIN", format!("mechanisms {mechanisms}"))
            }),
        check("handshake/capabilities-announced")
            .rabbitmq(
                "AMQP 0-9-1 Protocol Extensions",
                "the server's properties say which extensions it has, in a table of booleans: capabilities",
            )
            .sends("the protocol header of 0-9-1")
            .expects("capabilities with publisher_confirms, basic.nack and others set")
            .run(async |cx| {
                let start = cx.connect().await?.greet().await?;
                let capabilities = start.server_properties.get_table("capabilities");
                let capabilities = capabilities
                    .ok_or_else(|| Failure::new("a table of capabilities", "no capabilities"))?;
                for name in [
                    "publisher_confirms",
                    "exchange_exchange_bindings",
                    "basic.nack",
                    "consumer_cancel_notify",
                    "connection.blocked",
                    "consumer_priorities",
                    "authentication_failure_close",
                    "per_consumer_qos",
                    "direct_reply_to",
                ] {
                    let set = capabilities.get_bool(name) == Some(true);
                    ensure(set, format!("the capability {name}"), format!("no {name}"))?;
                }
                Ok(())
            }),
        check("handshake/header-octet-by-octet")
            .must(
                Text("4.2.2 Protocol Header"),
                "the protocol header is eight octets, in however many pieces they come",
            )
            .sends("the protocol header of 0-9-1, each octet by itself")
            .expects("connection.start")
            .run(async |cx| {
                let mut client = cx.connect().await?;
                for octet in ProtocolHeader::AMQP_0_9_1.to_bytes() {
                    client.send_bytes(&[octet]).await?;
                    tokio::task::yield_now().await;
                }
                client.expect::<connection::Start<'static>>(0).await.map(drop)
            }),
        check("handshake/wrong-literal-answered-by-own-header")
            .must(
                Spec("connection.start rule protocol-name"),
                "what does not begin as a protocol header is answered by one, and the end",
            )
            .sends("AMQX 0 0 9 1")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| refuses_header(cx, b"AMQX\x00\x00\x09\x01").await),
        check("handshake/http-answered-by-own-header")
            .must(
                Text("4.2.2 Protocol Header"),
                "a server that does not recognise the first octets answers by a protocol header, and the end",
            )
            .sends("a request of HTTP")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| refuses_header(cx, b"GET / HTTP/1.1\r\n\r\n").await),
        check("handshake/frame-before-header-answered-by-own-header")
            .must(
                Text("4.2.2 Protocol Header"),
                "nothing is said before the protocol header",
            )
            .sends("a heartbeat as the first eight octets")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| refuses_header(cx, b"\x08\x00\x00\x00\x00\x00\x00\xCE").await),
        check("handshake/wrong-id-answered-by-own-header")
            .must(
                Text("4.2.2 Protocol Header"),
                "the octet after the literal is the protocol's id, 0",
            )
            .sends("AMQP 7 0 9 1")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| refuses_header(cx, b"AMQP\x07\x00\x09\x01").await),
        check("handshake/wrong-major-answered-by-own-header")
            .must(
                Text("4.2.2 Protocol Header"),
                "a major version that the server does not support is refused",
            )
            .sends("AMQP 0 7 9 1")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| refuses_header(cx, b"AMQP\x00\x07\x09\x01").await),
        check("handshake/wrong-minor-answered-by-own-header")
            .must(
                Text("4.2.2 Protocol Header"),
                "a minor version that the server does not support is refused",
            )
            .sends("AMQP 0 0 7 1")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| refuses_header(cx, b"AMQP\x00\x00\x07\x01").await),
        check("handshake/wrong-revision-answered-by-own-header")
            .must(
                Text("4.2.2 Protocol Header"),
                "a revision that the server does not support is refused",
            )
            .sends("AMQP 0 0 9 7")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| refuses_header(cx, b"AMQP\x00\x00\x09\x07").await),
        check("handshake/version-0-8")
            .must(
                Spec("connection.start rule protocol-name"),
                "an older version is served, or refused by a protocol header",
            )
            .sends("AMQP 1 1 8 0, the header of 0-8")
            .expects("connection.start, or a protocol header and the end; which one is observed")
            .run(async |cx| serves_or_refuses_header(cx, b"AMQP\x01\x01\x08\x00").await),
        check("handshake/version-0-9")
            .must(
                Spec("connection.start rule protocol-name"),
                "an older version is served, or refused by a protocol header",
            )
            .sends("AMQP 1 1 0 9, the header of 0-9 before 0-9-1")
            .expects("connection.start, or a protocol header and the end; which one is observed")
            .run(async |cx| serves_or_refuses_header(cx, b"AMQP\x01\x01\x00\x09").await),
        check("handshake/version-0-10")
            .must(
                Spec("connection.start rule protocol-name"),
                "a version of other frames is refused by a protocol header",
            )
            .sends("AMQP 1 1 0 10, the header of 0-10")
            .expects("the header 0 0 9 1, then the end of the stream")
            .run(async |cx| refuses_header(cx, b"AMQP\x01\x01\x00\x0A").await),
        check("handshake/locale-not-offered")
            .must(
                Spec("connection.start-ok.locale"),
                "the locale is one that the server offers; what becomes of another one is not said",
            )
            .sends("connection.start-ok with the locale xx_XX")
            .expects("connection.tune, or the end of the stream; which one is observed")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut login = cx.login();
                login.locale = short!("xx_XX");
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send_start_ok(&login).await?;
                tuned_or_ended(cx, &mut client).await
            }),
        check("handshake/client-properties-empty")
            .must(
                Spec("connection.start-ok.client-properties"),
                "a client need not say anything about itself",
            )
            .sends("connection.start-ok with an empty table of properties")
            .expects("connection.tune")
            .run(async |cx| {
                let mut login = cx.login();
                login.client_properties = Table::EMPTY;
                cx.open_as(&login).await.map(drop)
            }),
        check("handshake/client-properties-unknown")
            .must(
                Spec("connection.start-ok.client-properties"),
                "a client may say about itself what the server does not know",
            )
            .sends("connection.start-ok with nested tables and unknown capabilities")
            .expects("connection.tune")
            .run(async |cx| {
                let mut login = cx.login();
                login.client_properties = table! {
                    "unknown" => table! { "deep" => table! { "deeper" => 1 }, "void" => false },
                    "capabilities" => table! { "amqp-conformance.unknown" => true },
                    "product" => "",
                };
                cx.open_as(&login).await.map(drop)
            }),
        check("handshake/frame-of-4096-octets")
            .must(
                Spec("connection.tune.frame-max rule minimum"),
                "before the frame size is agreed upon, frames of up to 4096 octets are accepted",
            )
            .sends("a connection.start-ok that makes a frame of 4096 octets")
            .expects("connection.tune")
            .run(async |cx| {
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send_start_ok(&padded(cx, 4096)?).await?;
                client.expect::<connection::Tune>(0).await.map(drop)
            }),
        check("handshake/frame-far-above-4096-octets")
            .must(
                Text("2.2.4 The Connection Class"),
                "an error before the connection is open, as a frame that is too large, ends it without a word",
            )
            .sends("a connection.start-ok that makes a frame of 100,000 octets")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send_start_ok(&padded(cx, 100_000)?).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/tune-ok-instead-of-start-ok")
            .must(
                Text("2.2.4 The Connection Class"),
                "an error before the connection is open, as a method out of its order, ends it without a word",
            )
            .sends("connection.tune-ok as the answer to connection.start")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send(0, TUNE_OK).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/open-instead-of-start-ok")
            .must(
                Text("2.2.4 The Connection Class"),
                "nobody gets in without having said who it is",
            )
            .sends("connection.open as the answer to connection.start")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send(0, open(cx)).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/open-instead-of-tune-ok")
            .must(
                Text("2.2.4 The Connection Class"),
                "an error before the connection is open, as a method out of its order, ends it without a word",
            )
            .sends("connection.open as the answer to connection.tune")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (mut client, _) = tuned(cx).await?;
                client.send(0, open(cx)).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/start-ok-twice")
            .must(
                Text("2.2.4 The Connection Class"),
                "an error before the connection is open, as a method out of its order, ends it without a word",
            )
            .sends("connection.start-ok as the answer to connection.tune")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (mut client, _) = tuned(cx).await?;
                client.send_start_ok(&cx.login()).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/tune-ok-twice")
            .must(
                Text("2.2.4 The Connection Class"),
                "an error before the connection is open, as a method out of its order, ends it without a word",
            )
            .sends("connection.tune-ok twice")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let (mut client, tune) = tuned(cx).await?;
                client.send_tune_ok(tune, None).await?;
                client.send_tune_ok(tune, None).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/channel-before-open")
            .must(
                Text("2.2.4 The Connection Class"),
                "no channel opens before the connection does",
            )
            .sends("channel.open after connection.tune-ok, without connection.open")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut client = tune_ok_sent(cx).await?;
                client.send(1, channel::Open::default()).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/server-method-from-client")
            .must(
                Text("2.2.4 The Connection Class"),
                "an error before the connection is open, as a method of the server's, ends it without a word",
            )
            .sends("connection.tune as the answer to connection.start")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send(0, connection::Tune::default()).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/start-ok-on-channel-1")
            .must(
                Text("4.2.3 General Frame Format"),
                "the methods of the connection class are on channel 0",
            )
            .sends("connection.start-ok on channel 1")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let login = cx.login();
                let start_ok = connection::StartOk {
                    client_properties: login.client_properties,
                    mechanism: login.mechanism,
                    response: login.response,
                    locale: login.locale,
                };
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.send(1, start_ok).await?;
                expect_end_without_a_word(&mut client).await
            }),
        check("handshake/silent-before-header")
            .rabbitmq(
                "Networking and RabbitMQ",
                "a client that has not finished the handshake after ten seconds is dropped",
            )
            .sends("nothing")
            .expects("the end of the stream within 15 seconds")
            .deadline(60)
            .run(async |cx| {
                let mut client = cx.connect().await?;
                client.set_patience(HANDSHAKE_TIMEOUT);
                client.expect_end().await
            }),
        check("handshake/silent-after-start")
            .rabbitmq(
                "Networking and RabbitMQ",
                "a client that has not finished the handshake after ten seconds is dropped",
            )
            .sends("the protocol header, and nothing more")
            .expects("the end of the stream within 15 seconds")
            .deadline(60)
            .run(async |cx| {
                let mut client = cx.connect().await?;
                client.greet().await?;
                client.set_patience(HANDSHAKE_TIMEOUT);
                client.expect_end().await
            }),
    ]
}

/// RabbitMQ's ten seconds, and what a busy machine takes besides.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

const TUNE_OK: connection::TuneOk = connection::TuneOk {
    channel_max: 10,
    frame_max: 4096,
    heartbeat: 0,
};

fn open(cx: &Context) -> connection::Open<'static> {
    connection::Open {
        virtual_host: cx.login().vhost,
        ..Default::default()
    }
}

/// A login whose start-ok makes a frame of so many octets.
fn padded(cx: &Context, octets: usize) -> Result<Login, Failure> {
    let mut login = cx.login();
    let start_ok = |login: &Login| connection::StartOk {
        client_properties: login.client_properties.clone(),
        mechanism: login.mechanism.clone(),
        response: login.response.clone(),
        locale: login.locale.clone(),
    };
    login.client_properties.insert("padding", "")?;
    let short = octets.saturating_sub(frame::method_frame_len(&start_ok(&login)));
    login.client_properties.remove("padding");
    login
        .client_properties
        .insert("padding", "x".repeat(short))?;
    Ok(login)
}

async fn refuses_header(cx: &Context, header: &[u8]) -> Result<(), Failure> {
    let mut client = cx.connect().await?;
    client.send_bytes(header).await?;
    let event = client.next().await;
    match event {
        Event::Protocol(ProtocolHeader::AMQP_0_9_1) => client.expect_end().await,
        _ => Err(Failure::unexpected("the protocol header 0 0 9 1", &event)),
    }
}

async fn serves_or_refuses_header(cx: &Context, header: &[u8]) -> Result<(), Failure> {
    let mut client = cx.connect().await?;
    client.send_bytes(header).await?;
    let event = client.next().await;
    match event {
        Event::Protocol(_) => {
            cx.observe("refused by a protocol header");
            client.expect_end().await
        }
        // The arguments of later versions are in it, or fewer.
        Event::Frame(frame) if frame.payload.starts_with(&[0, 10, 0, 10]) => {
            cx.observe("served: connection.start");
            Ok(())
        }
        _ => Err(Failure::unexpected(
            "connection.start or a protocol header",
            &event,
        )),
    }
}

async fn tuned_or_ended(cx: &Context, client: &mut Connection) -> Result<(), Failure> {
    match expect_end_without_a_word(client).await {
        Ok(()) => {
            cx.observe("the connection is ended");
            Ok(())
        }
        Err(failure) if failure.found == "connection.tune" => {
            cx.observe("accepted: connection.tune");
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}
