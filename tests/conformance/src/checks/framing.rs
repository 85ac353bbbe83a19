//! Frames that are none, and frames that come in odd pieces.

use amqp_codec::{ProtocolHeader, ReplyCode, channel, frame, queue};

use super::steps::{SLOW, SLOW_DEADLINE};
use crate::check::Source::{Spec, Text};
use crate::{Check, Connection, Context, Event, Failure, check, ensure_eq};

const GENERAL: &str = "4.2.3 General Frame Format";
const HEARTBEATS: &str = "4.2.7 Heartbeat Frames";
const METHODS: &str = "4.2.4 Method Payloads";

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("framing/method-octet-by-octet")
            .must(
                Text(GENERAL),
                "a frame is what its size says, in however many pieces it comes",
            )
            .sends("channel.flow, each octet of its frame by itself")
            .expects("channel.flow-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let mut bytes = Vec::new();
                frame::encode_method(1, &FLOW, &mut bytes)?;
                for octet in bytes {
                    client.send_bytes(&[octet]).await?;
                    tokio::task::yield_now().await;
                }
                client.expect::<channel::FlowOk>(1).await.map(drop)
            }),
        check("framing/many-frames-in-one-piece")
            .must(
                Text(GENERAL),
                "a frame ends where its size says, whatever follows it",
            )
            .sends("channel.flow 100 times in one piece, with heartbeats between them")
            .expects("channel.flow-ok 100 times")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let mut bytes = Vec::new();
                for _ in 0..100 {
                    frame::encode_method(1, &FLOW, &mut bytes)?;
                    frame::encode_heartbeat(&mut bytes)?;
                }
                client.send_bytes(&bytes).await?;
                for _ in 0..100 {
                    client.expect::<channel::FlowOk>(1).await?;
                }
                Ok(())
            }),
        check("framing/wrong-frame-end")
            .must(
                Text(GENERAL),
                "a frame that does not end in CE is a fatal error: the connection ends, without further data",
            )
            .sends("channel.flow with a frame-end of CF")
            .expects("the end of the stream; connection.close 501 is not strict")
            .run(async |cx| {
                let mut bytes = Vec::new();
                frame::encode_method(1, &FLOW, &mut bytes)?;
                if let Some(end) = bytes.last_mut() {
                    *end = 0xCF;
                }
                fatal(cx, &bytes).await
            }),
        check("framing/size-below-the-payload")
            .must(
                Text(GENERAL),
                "a frame that does not end in CE is a fatal error: the connection ends, without further data",
            )
            .sends("channel.flow with a size that is one too small")
            .expects("the end of the stream; connection.close 501 is not strict")
            .run(async |cx| {
                let mut bytes = Vec::new();
                frame::encode_method(1, &FLOW, &mut bytes)?;
                bytes[6] -= 1;
                fatal(cx, &bytes).await
            }),
        check("framing/unknown-type-0")
            .must(
                Text(GENERAL),
                "a type that is not defined is a fatal error: the connection ends, without further data",
            )
            .sends("a frame of type 0")
            .expects("the end of the stream; connection.close 501 or 503 is not strict")
            .run(async |cx| fatal(cx, b"\x00\x00\x01\x00\x00\x00\x00\xCE").await),
        check("framing/unknown-type-9")
            .must(
                Text(GENERAL),
                "a type that is not defined is a fatal error: the connection ends, without further data",
            )
            .sends("a frame of type 9 with a payload")
            .expects("the end of the stream; connection.close 501 or 503 is not strict")
            .run(async |cx| fatal(cx, b"\x09\x00\x01\x00\x00\x00\x02ab\xCE").await),
        check("framing/protocol-header-on-an-open-connection")
            .must(
                Text(GENERAL),
                "a type that is not defined is a fatal error: the connection ends, without further data",
            )
            .sends("the protocol header again, on an open connection")
            .expects("the end of the stream; connection.close 501 is not strict")
            .run(async |cx| fatal(cx, &ProtocolHeader::AMQP_0_9_1.to_bytes()).await),
        check("framing/frame-above-frame-max")
            .must(
                Text(GENERAL),
                "a frame above the size that was agreed upon is an error: 501",
            )
            .sends("a body frame of one octet more than the frame-max, and channel.flow")
            .expects("connection.close 501")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| frame_too_large(cx, 1).await),
        check("framing/frame-far-above-frame-max")
            .must(
                Text(GENERAL),
                "a frame above the size that was agreed upon is an error: 501",
            )
            .sends("a body frame of 1,000 octets more than the frame-max, and channel.flow")
            .expects("connection.close 501")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| frame_too_large(cx, 1000).await),
        check("framing/size-of-four-gigabytes")
            .must(
                Text(GENERAL),
                "a frame above the size that was agreed upon is an error, as soon as its size is read: 501",
            )
            .sends("a frame header with a size of 4,294,967,295, and nothing more")
            .expects("connection.close 501")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.set_patience(SLOW);
                client.send_bytes(b"\x01\x00\x01\xFF\xFF\xFF\xFF").await?;
                client.expect_connection_error(ReplyCode::FRAME_ERROR).await.map(drop)
            }),
        check("framing/heartbeat-on-channel-1")
            .must(
                Text(HEARTBEATS),
                "a heartbeat on another channel than 0 is an error: 501, or 503",
            )
            .sends("a heartbeat on an open channel")
            .expects("connection.close 501 or 503")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send_frame(frame::HEARTBEAT, 1, &[]).await?;
                let codes = [ReplyCode::FRAME_ERROR, ReplyCode::COMMAND_INVALID];
                client.expect_connection_error(codes).await.map(drop)
            }),
        check("framing/heartbeat-with-a-payload")
            .must(
                Text(HEARTBEATS),
                "a heartbeat that is not as defined is an error: 501",
            )
            .sends("a heartbeat with four octets of payload")
            .expects("connection.close 501")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send_frame(frame::HEARTBEAT, 0, b"beat").await?;
                client.expect_connection_error(ReplyCode::FRAME_ERROR).await.map(drop)
            }),
        check("framing/empty-method-frame")
            .must(
                Spec("constant frame-error"),
                "a method frame that is too short for a class and a method is malformed: 501, or 502",
            )
            .sends("a method frame without a payload")
            .expects("connection.close 501 or 502")
            .run(async |cx| malformed(cx, b"").await),
        check("framing/truncated-arguments")
            .must(
                Spec("constant frame-error"),
                "a method whose arguments end too early is malformed: 501, or 502",
            )
            .sends("channel.flow without its argument")
            .expects("connection.close 501 or 502")
            .run(async |cx| malformed(cx, &[0, 20, 0, 20]).await),
        check("framing/string-longer-than-its-frame")
            .must(
                Spec("constant frame-error"),
                "a string that ends behind its frame is malformed: 501, or 502",
            )
            .sends("queue.delete with a name of 200 octets, of which 4 are there")
            .expects("connection.close 501 or 502")
            .run(async |cx| malformed(cx, b"\x00\x32\x00\x28\x00\x00\xC8name").await),
        check("framing/table-longer-than-its-frame")
            .must(
                Spec("constant frame-error"),
                "a table that ends behind its frame is malformed: 501, or 502",
            )
            .sends("queue.declare with a table of 4,294,967,295 octets, of which none is there")
            .expects("connection.close 501 or 502")
            .run(async |cx| malformed(cx, b"\x00\x32\x00\x0A\x00\x00\x00\x08\xFF\xFF\xFF\xFF").await),
        check("framing/octets-after-the-arguments")
            .silent(
                Text(METHODS),
                "a method has its arguments; what becomes of octets after them is not said",
            )
            .sends("channel.flow with an octet after its argument")
            .expects("channel.flow-ok, an error or the end of the stream; which one is observed")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send_frame(frame::METHOD, 1, &[0, 20, 0, 20, 1, 0]).await?;
                let event = client.next_on(1).await;
                match event {
                    Event::Silence(_) | Event::Malformed(..) | Event::Protocol(_) => {
                        Err(Failure::unexpected("an answer, an error or the end", &event))
                    }
                    _ => {
                        cx.observe(event.found());
                        Ok(())
                    }
                }
            }),
        check("framing/unknown-class")
            .must(
                Spec("constant not-implemented"),
                "a class that the server does not know is refused: 503, or 540",
            )
            .sends("a method of the class 999")
            .expects("connection.close 503 or 540")
            .run(async |cx| unknown(cx, &[3, 231, 0, 10]).await),
        check("framing/unknown-method")
            .must(
                Spec("constant not-implemented"),
                "a method that the server does not know is refused: 503, or 540",
            )
            .sends("the method 999 of the queue class")
            .expects("connection.close 503 or 540")
            .run(async |cx| unknown(cx, &[0, 50, 3, 231]).await),
        check("framing/channel-method-on-channel-0")
            .must(
                Text("4.3 Channel Multiplexing"),
                "channel 0 is that of the connection; other methods are not for it: 503, or 504",
            )
            .sends("queue.declare on channel 0")
            .expects("connection.close 503 or 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let queue = cx.name("nowhere");
                let declare = queue::Declare { queue, exclusive: true, ..Default::default() };
                client.send(0, declare).await?;
                let codes = [ReplyCode::COMMAND_INVALID, ReplyCode::CHANNEL_ERROR];
                client.expect_connection_error(codes).await.map(drop)
            }),
        check("framing/header-on-channel-0")
            .must(
                Text("4.2.6.1 The Content Header"),
                "a content frame on channel 0 is an error: 504",
            )
            .sends("a content header on channel 0")
            .expects("connection.close 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send_frame(frame::HEADER, 0, &HEADER).await?;
                client.expect_connection_error(ReplyCode::CHANNEL_ERROR).await.map(drop)
            }),
        check("framing/body-on-channel-0")
            .must(
                Text("4.2.6.1 The Content Header"),
                "a content frame on channel 0 is an error: 504",
            )
            .sends("a body on channel 0")
            .expects("connection.close 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send_frame(frame::BODY, 0, b"body").await?;
                client.expect_connection_error(ReplyCode::CHANNEL_ERROR).await.map(drop)
            }),
        check("framing/error-leaves-other-connections-alone")
            .must(
                Text("4.8.1 Exceptions"),
                "broken framing is the end of its connection, and of no other",
            )
            .sends("octets that are no frame on one connection; a publish and a get on another")
            .expects("the message on the other")
            .run(async |cx| {
                let queue = cx.name("alive");
                let mut other = cx.open_channel().await?;
                other.declare_queue(1, &queue).await?;
                let mut client = cx.open_channel().await?;
                client.send_bytes(&[0xCE; 64]).await?;
                // Whichever way it is told.
                client.next().await;
                client.abandon();
                other.publish(1, "", &queue, "alive").await?;
                let got = other.get(1, &queue).await?;
                ensure_eq("messages", &got.is_some(), &true)
            }),
    ]
}

const FLOW: channel::Flow = channel::Flow {
    active: true,
    undefined_bits: 0,
};

/// Of a content of the basic class without properties or body.
const HEADER: [u8; 14] = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// basic.publish and a header that announces a body of so many octets.
async fn start_content(cx: &Context, client: &mut Connection, octets: u64) -> Result<(), Failure> {
    let queue = cx.name("content");
    client.declare_queue(1, &queue).await?;
    let publish = amqp_codec::basic::Publish {
        routing_key: queue,
        ..Default::default()
    };
    client.send(1, publish).await?;
    let mut header = HEADER;
    header[4..12].copy_from_slice(&octets.to_be_bytes());
    client.send_frame(frame::HEADER, 1, &header).await
}

async fn frame_too_large(cx: &Context, by: usize) -> Result<(), Failure> {
    let mut client = cx.open_channel().await?;
    client.set_patience(SLOW);
    let octets = client.frame_max() as usize - frame::FRAME_OVERHEAD + by;
    start_content(cx, &mut client, octets as u64).await?;
    client
        .send_frame(frame::BODY, 1, &vec![b'x'; octets])
        .await?;
    client.send(1, FLOW).await?;
    client
        .expect_connection_error_next(ReplyCode::FRAME_ERROR)
        .await
        .map(drop)
}

/// A fatal error of the protocol: the end without further data. Many brokers say 501 first.
async fn fatal(cx: &Context, bytes: &[u8]) -> Result<(), Failure> {
    let mut client = cx.open_channel().await?;
    client.send_bytes(bytes).await?;
    let event = client.next().await;
    if event.is_end() {
        return client.expect_end().await;
    }
    let failure = Failure::unexpected("the end of the stream, without further data", &event);
    match event.typed::<amqp_codec::connection::Close<'static>>() {
        Some(close)
            if [ReplyCode::FRAME_ERROR, ReplyCode::COMMAND_INVALID].contains(&close.reply_code) =>
        {
            Err(failure.not_strict())
        }
        _ => Err(failure),
    }
}

async fn malformed(cx: &Context, payload: &[u8]) -> Result<(), Failure> {
    let mut client = cx.open_channel().await?;
    client.send_frame(frame::METHOD, 1, payload).await?;
    let codes = [ReplyCode::FRAME_ERROR, ReplyCode::SYNTAX_ERROR];
    client.expect_connection_error(codes).await.map(drop)
}

async fn unknown(cx: &Context, payload: &[u8]) -> Result<(), Failure> {
    let mut client = cx.open_channel().await?;
    client.send_frame(frame::METHOD, 1, payload).await?;
    let codes = [ReplyCode::COMMAND_INVALID, ReplyCode::NOT_IMPLEMENTED];
    client.expect_connection_error(codes).await.map(drop)
}
