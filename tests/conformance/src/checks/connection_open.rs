//! Opening a virtual host.

use amqp_codec::{ReplyCode, ShortStr, connection, short};

use super::steps::tune_ok_sent;
use crate::check::Source::Spec;
use crate::{Check, Context, Failure, check};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("connection.open/reserved-fields-ignored")
            .must(
                Spec("connection.open.reserved-1"),
                "what is in reserved fields does not matter",
            )
            .sends("connection.open with reserved-1 and reserved-2 set")
            .expects("connection.open-ok")
            .run(async |cx| {
                let mut client = tune_ok_sent(cx).await?;
                let open = connection::Open {
                    virtual_host: cx.login().vhost,
                    reserved_1: short!("capabilities"),
                    reserved_2: true,
                    ..Default::default()
                };
                client.call::<connection::OpenOk<'static>>(0, open).await.map(drop)
            }),
        check("connection.open/name-of-255-octets-refused")
            .must(
                Spec("connection.open.virtual-host"),
                "a virtual host that does not exist is refused with an error, how long its name may be",
            )
            .sends("connection.open with a name of 255 octets that no virtual host has")
            .expects("connection.close 530 or 402")
            .run(async |cx| refused(cx, ShortStr::try_from("v".repeat(255))?).await),
        check("connection.open/name-not-utf-8-refused")
            .must(
                Spec("connection.open.virtual-host"),
                "a virtual host that does not exist is refused with an error, be its name no text",
            )
            .sends("connection.open with the name ff fe")
            .expects("connection.close 530 or 402, or 501 or 502 for what is no text")
            .run(async |cx| {
                let codes = [
                    ReplyCode::NOT_ALLOWED,
                    ReplyCode::INVALID_PATH,
                    ReplyCode::FRAME_ERROR,
                    ReplyCode::SYNTAX_ERROR,
                ];
                let mut client = tune_ok_sent(cx).await?;
                let open = connection::Open {
                    virtual_host: ShortStr::try_from(vec![0xFF, 0xFE])?,
                    ..Default::default()
                };
                client.send(0, open).await?;
                client.expect_connection_error(codes).await.map(drop)
            }),
        check("connection.open/name-with-odd-characters-refused")
            .must(
                Spec("connection.open.virtual-host"),
                "a virtual host that does not exist is refused with an error, whatever is in its name",
            )
            .sends("connection.open with a name of path, format and quote characters")
            .expects("connection.close 530 or 402")
            .run(async |cx| refused(cx, short!("../~p %2f 'none' \"none\" $none #none")).await),
        check("connection.open/empty-name-refused")
            .must(
                Spec("connection.open.virtual-host"),
                "the empty name is a name like others: refused with an error where no virtual host has it",
            )
            .sends("connection.open with an empty name")
            .expects("connection.close 530 or 402")
            .run(async |cx| refused(cx, ShortStr::EMPTY).await),
        check("connection.open/twice")
            .must(
                Spec("constant command-invalid"),
                "a connection that is open is not opened again: 503",
            )
            .sends("connection.open on an open connection")
            .expects("connection.close 503")
            .run(async |cx| {
                let mut client = cx.open().await?;
                let open = connection::Open {
                    virtual_host: cx.login().vhost,
                    ..Default::default()
                };
                client.send(0, open).await?;
                client
                    .expect_connection_error(ReplyCode::COMMAND_INVALID)
                    .await
                    .map(drop)
            }),
    ]
}

async fn refused(cx: &Context, virtual_host: ShortStr<'static>) -> Result<(), Failure> {
    let mut client = tune_ok_sent(cx).await?;
    let open = connection::Open {
        virtual_host,
        ..Default::default()
    };
    client.send(0, open).await?;
    let codes = [ReplyCode::NOT_ALLOWED, ReplyCode::INVALID_PATH];
    client.expect_connection_error(codes).await.map(drop)
}
