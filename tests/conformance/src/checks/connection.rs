//! The end of a connection, and what is not for it.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{MethodFields, ReplyCode, ShortStr, channel, connection, exchange, queue, short};

use crate::check::Source::{Spec, Text};
use crate::{Check, Connection, Context, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("connection.close/answered")
            .must(
                Spec("connection.close"),
                "a close is answered by close-ok, and the stream ends",
            )
            .sends("connection.close 200")
            .expects("connection.close-ok, then the end of the stream")
            .run(async |cx| cx.open().await?.close().await),
        check("connection.close/with-channels-open")
            .must(
                Spec("connection.close"),
                "closing a connection closes its channels too; none of them says so",
            )
            .sends("connection.close with three channels open")
            .expects("connection.close-ok and nothing else")
            .run(async |cx| {
                let mut client = cx.open().await?;
                for number in 1..=3 {
                    client.open_channel(number).await?;
                }
                client.send(0, close(ReplyCode::REPLY_SUCCESS, "")?).await?;
                expect_close_ok_next(&mut client).await
            }),
        check("connection.close/with-any-code-and-text")
            .must(
                Spec("connection.close.reply-code"),
                "why a client closes is its own affair: the close is answered",
            )
            .sends("connection.close 541 with a text of 255 octets, as provoked by basic.publish")
            .expects("connection.close-ok, then the end of the stream")
            .run(async |cx| {
                let mut client = cx.open().await?;
                let close = connection::Close {
                    class_id: 60,
                    method_id: 40,
                    ..close(ReplyCode::INTERNAL_ERROR, &"t".repeat(255))?
                };
                client.send(0, close).await?;
                expect_close_ok_next(&mut client).await
            }),
        check("connection.close/what-follows-is-ignored")
            .must(
                Spec("connection.close rule stability"),
                "after a close nothing counts any more",
            )
            .sends("connection.close, and in the same piece a declare and a publish to a missing exchange")
            .expects("connection.close-ok, then the end of the stream")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(0, close(ReplyCode::REPLY_SUCCESS, "")?).await?;
                client.send(1, declare(cx.name("too-late"))).await?;
                client.publish(1, cx.name("missing"), "", "body").await?;
                expect_close_ok_next(&mut client).await
            }),
        check("connection.close/what-went-before-counts")
            .should(
                Text("4.7 Content Ordering Guarantees"),
                "a server takes what comes in its order: what was published before the close is in its queue",
            )
            .sends("100 times basic.publish and connection.close, without waiting; basic.get on another connection")
            .expects("100 messages in the queue")
            .run(async |cx| {
                let mut observer = cx.open_channel().await?;
                let queue = cx.queue("flushed");
                let declare = queue::Declare { queue: queue.clone(), durable: true, ..Default::default() };
                observer.call::<queue::DeclareOk<'static>>(1, declare).await?;
                let mut client = cx.open_channel().await?;
                for _ in 0..100 {
                    client.publish(1, "", &queue, "body").await?;
                }
                client.close().await?;
                for at in 0..100 {
                    let got = observer.get(1, &queue).await?;
                    ensure(got.is_some(), "100 messages", format!("{at} messages"))?;
                }
                Ok(())
            }),
        check("connection.close/on-channel-1-refused")
            .must(
                Text("4.2.3 General Frame Format"),
                "a method of the connection class on another channel than 0 is an error: 503",
            )
            .sends("connection.close on channel 1")
            .expects("connection.close 503")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, close(ReplyCode::REPLY_SUCCESS, "")?).await?;
                client.expect_connection_error(ReplyCode::COMMAND_INVALID).await.map(drop)
            }),
        check("connection.close/names-the-method")
            .must(
                Spec("connection.close.class-id"),
                "a close that a method provoked names its class and method",
            )
            .sends("channel.open twice")
            .expects("connection.close with the class 20 and the method 10")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, channel::Open::default()).await?;
                let close = client.expect_connection_error(ReplyCode::CHANNEL_ERROR).await?;
                ensure_eq("class and method", &(close.class_id, close.method_id), &(20, 10))
            }),
        check("connection.close/gives-a-text")
            .must(
                Spec("connection.close.reply-text"),
                "the text that says why is not empty",
            )
            .sends("channel.open twice")
            .expects("connection.close with a text")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, channel::Open::default()).await?;
                let close = client.expect_connection_error(ReplyCode::CHANNEL_ERROR).await?;
                ensure(!close.reply_text.is_empty(), "a text", "no text")
            }),
        check("connection.close/nothing-counts-after-an-error")
            .must(
                Spec("connection.close rule stability"),
                "after its close the server discards all but close and close-ok",
            )
            .sends("channel.open twice; after the close a declare, a publish and a get; then close-ok")
            .expects("nothing but the end of the stream")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.send(1, channel::Open::default()).await?;
                client.expect::<connection::Close<'static>>(0).await?;
                client.send(2, declare(cx.name("too-late"))).await?;
                client.publish(2, "", cx.name("too-late"), "body").await?;
                client.send(2, basic::Get::default()).await?;
                client.send(0, connection::CloseOk {}).await?;
                let event = client.next().await;
                ensure(event.is_end(), "the end of the stream", event.found())
            }),
        check("connection.close/crossing-an-error")
            .must(
                Spec("connection.close rule stability"),
                "a close that crosses the server's own is answered by close-ok",
            )
            .sends("channel.open twice; after the server's close, connection.close")
            .expects("connection.close-ok, then the end of the stream")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, channel::Open::default()).await?;
                client.expect::<connection::Close<'static>>(0).await?;
                client.call::<connection::CloseOk>(0, close(ReplyCode::REPLY_SUCCESS, "")?).await
                    .map(drop)
            }),
        check("connection.close/error-leaves-other-connections-alone")
            .must(
                Text("4.8.1 Exceptions"),
                "an error closes the connection that it happens on, no other",
            )
            .sends("channel.open twice on one connection; a declare on another")
            .expects("connection.close 504 on one; queue.declare-ok on the other")
            .run(async |cx| {
                let mut other = cx.open_channel().await?;
                let mut client = cx.open_channel().await?;
                client.send(1, channel::Open::default()).await?;
                client.expect_connection_error(ReplyCode::CHANNEL_ERROR).await?;
                other.declare_queue(1, cx.name("alive")).await.map(drop)
            }),
        check("connection.close-ok/unsolicited-refused")
            .must(
                Spec("constant command-invalid"),
                "a close-ok without a close is out of sequence: 503",
            )
            .sends("connection.close-ok")
            .expects("connection.close 503")
            .run(async |cx| refused_on_0(cx, connection::CloseOk {}).await),
        check("connection/half-closed-stream-ends")
            .must(
                Text("4.5 Channel Closure"),
                "a client that ends its stream without a close has closed the connection",
            )
            .sends("the end of the stream, on an open connection")
            .expects("the end of the stream")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.half_close().await;
                client.expect_end().await
            }),
        check("connection.start/from-client-refused")
            .must(
                Spec("constant command-invalid"),
                "a client does not start a connection: 503",
            )
            .sends("connection.start on an open connection")
            .expects("connection.close 503")
            .run(async |cx| refused_on_0(cx, connection::Start::default()).await),
        check("connection.start-ok/again-refused")
            .must(
                Spec("constant command-invalid"),
                "a client does not log in again on an open connection: 503",
            )
            .sends("connection.start-ok on an open connection")
            .expects("connection.close 503")
            .run(async |cx| {
                let login = cx.login();
                let start_ok = connection::StartOk {
                    client_properties: login.client_properties,
                    mechanism: login.mechanism,
                    response: login.response,
                    locale: login.locale,
                };
                refused_on_0(cx, start_ok).await
            }),
        check("connection.tune-ok/again-refused")
            .must(
                Spec("constant command-invalid"),
                "what was agreed upon stays so on an open connection: 503",
            )
            .sends("connection.tune-ok on an open connection")
            .expects("connection.close 503")
            .run(async |cx| {
                let tune_ok = connection::TuneOk { channel_max: 1, frame_max: 4096, heartbeat: 0 };
                refused_on_0(cx, tune_ok).await
            }),
        check("connection.secure-ok/unsolicited-refused")
            .must(
                Spec("constant command-invalid"),
                "a response without a challenge is out of sequence: 503",
            )
            .sends("connection.secure-ok on an open connection")
            .expects("connection.close 503")
            .run(async |cx| refused_on_0(cx, connection::SecureOk::default()).await),
        check("queue.declare-ok/from-client-refused")
            .must(
                Spec("constant command-invalid"),
                "an answer of the server's, sent by a client, is invalid: 503",
            )
            .sends("queue.declare-ok on an open channel")
            .expects("connection.close 503")
            .run(async |cx| refused_on_1(cx, queue::DeclareOk::default()).await),
        check("exchange.declare-ok/from-client-refused")
            .must(
                Spec("constant command-invalid"),
                "an answer of the server's, sent by a client, is invalid: 503",
            )
            .sends("exchange.declare-ok on an open channel")
            .expects("connection.close 503")
            .run(async |cx| refused_on_1(cx, exchange::DeclareOk {}).await),
        check("basic.consume-ok/from-client-refused")
            .must(
                Spec("constant command-invalid"),
                "an answer of the server's, sent by a client, is invalid: 503",
            )
            .sends("basic.consume-ok on an open channel")
            .expects("connection.close 503")
            .run(async |cx| refused_on_1(cx, basic::ConsumeOk::default()).await),
        check("basic.deliver/from-client-refused")
            .must(
                Spec("constant command-invalid"),
                "a delivery is the server's to make: 503",
            )
            .sends("basic.deliver with a content on an open channel")
            .expects("connection.close 503")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let deliver = basic::Deliver { consumer_tag: short!("c"), delivery_tag: 1, ..Default::default() };
                client.send_content(1, deliver, &Properties::EMPTY, b"body").await?;
                client.expect_connection_error(ReplyCode::COMMAND_INVALID).await.map(drop)
            }),
        check("connection.update-secret/answered")
            .rabbitmq(
                "OAuth 2.0 Authentication Backend",
                "a client may hand in a new secret on an open connection",
            )
            .sends("connection.update-secret with the user's password")
            .expects("connection.update-secret-ok, and a connection that goes on")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let update = connection::UpdateSecret {
                    new_secret: cx.credentials().1.into(),
                    reason: short!("test"),
                };
                client.call::<connection::UpdateSecretOk>(0, update).await?;
                client.barrier(1).await
            }),
    ]
}

/// Close-ok, and the end; either side may be first to end the stream.
async fn expect_close_ok_next(client: &mut Connection) -> Result<(), Failure> {
    let event = client.next().await;
    if event.typed::<connection::CloseOk>().is_none() {
        return Err(Failure::unexpected("connection.close-ok", &event));
    }
    client.half_close().await;
    client.expect_end().await
}

fn close(code: ReplyCode, text: &str) -> Result<connection::Close<'static>, Failure> {
    Ok(connection::Close {
        reply_code: code,
        reply_text: ShortStr::try_from(text.to_owned())?,
        ..Default::default()
    })
}

fn declare(queue: ShortStr<'static>) -> queue::Declare<'static> {
    queue::Declare {
        queue,
        exclusive: true,
        ..Default::default()
    }
}

async fn refused_on_0(cx: &Context, method: impl MethodFields) -> Result<(), Failure> {
    let mut client = cx.open().await?;
    client.send(0, method).await?;
    client
        .expect_connection_error(ReplyCode::COMMAND_INVALID)
        .await
        .map(drop)
}

async fn refused_on_1(cx: &Context, method: impl MethodFields) -> Result<(), Failure> {
    let mut client = cx.open_channel().await?;
    client.send(1, method).await?;
    client
        .expect_connection_error(ReplyCode::COMMAND_INVALID)
        .await
        .map(drop)
}
