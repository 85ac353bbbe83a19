//! The lives of channels.

use amqp_codec::{ReplyCode, channel};

use crate::check::Source::Spec;
use crate::{Check, check};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("channel.open/twice")
            .must(
                Spec("channel.open rule state"),
                "opening a channel that is open already is a channel error of the connection: 504",
            )
            .sends("channel.open twice")
            .expects("connection.close 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, channel::Open::default()).await?;
                client
                    .expect_connection_error(ReplyCode::CHANNEL_ERROR)
                    .await
                    .map(drop)
            }),
        check("channel.close/number-can-be-used-again")
            .must(
                Spec("channel.close"),
                "a channel that has been closed can be opened again under its number",
            )
            .sends("channel.open, channel.close, channel.open")
            .expects("open-ok, close-ok, open-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.close_channel(1).await?;
                client.open_channel(1).await?;
                client.barrier(1).await
            }),
    ]
}
