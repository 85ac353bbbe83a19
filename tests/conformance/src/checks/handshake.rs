//! From the protocol header to connection.open-ok.

use amqp_codec::{LongStr, ProtocolHeader, ReplyCode, connection, short};

use crate::check::Source::{Spec, Text};
use crate::{Check, Failure, check, ensure, ensure_eq};

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
                Spec("connection.start.version-major rule 01"),
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
            .must(
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
    ]
}
