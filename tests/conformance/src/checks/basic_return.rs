//! Messages that come back.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{Limits, ReplyCode, ShortStr, Table, Value, exchange, short, table};

use crate::check::Source::{Spec, Text};
use crate::event::Content;
use crate::{Check, Connection, Failure, check, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [contents(), order(), exceptions()]
        .into_iter()
        .flatten()
        .collect()
}

fn mandatory(
    exchange: &ShortStr<'static>,
    routing_key: &ShortStr<'static>,
) -> basic::Publish<'static> {
    basic::Publish {
        exchange: exchange.clone(),
        routing_key: routing_key.clone(),
        mandatory: true,
        ..Default::default()
    }
}

/// Publishes what no queue takes, and gets it back.
async fn returned(
    client: &mut Connection,
    properties: &Properties<'_>,
    body: &[u8],
) -> Result<Content<basic::Return<'static>>, Failure> {
    let publish = mandatory(&short!("amq.direct"), &short!("amqp-conformance.nowhere"));
    client.send_content(1, publish, properties, body).await?;
    client.expect_return(1).await
}

const RULE: &str =
    "a mandatory message that no queue takes is returned, whole, and with the reason";

fn contents() -> Vec<Check> {
    vec![
        check("basic.return/says-why-and-where-to")
            .should(Spec("basic.publish.mandatory rule 01"), RULE)
            .sends("basic.publish mandatory to amq.direct with a key that no queue has")
            .expects("basic.return 312 with a text, the exchange and the key")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let method = returned(&mut client, &Properties::EMPTY, b"body").await?.method;
                ensure_eq("reply code", &method.reply_code, &ReplyCode::NO_ROUTE)?;
                ensure_eq("text is there", &!method.reply_text.is_empty(), &true)?;
                ensure_eq("exchange", &method.exchange, &"amq.direct")?;
                ensure_eq("key", &method.routing_key, &"amqp-conformance.nowhere")
            }),
        check("basic.return/properties-as-published")
            .should(Spec("basic.publish.mandatory rule 01"), RULE)
            .sends("basic.publish mandatory with several properties and headers")
            .expects("the same properties")
            .run(async |cx| {
                let properties = Properties {
                    content_type: Some(short!("text/plain")),
                    headers: Some(table! { "a" => 1, "b" => "x" }.into()),
                    delivery_mode: Some(2),
                    message_id: Some(short!("m-1")),
                    timestamp: Some(1_700_000_000),
                    ..Properties::EMPTY
                };
                let mut client = cx.open_channel().await?;
                let returned = returned(&mut client, &properties, b"body").await?;
                ensure_eq("properties", &returned.properties, &properties)
            }),
        check("basic.return/empty-body")
            .should(Spec("basic.publish.mandatory rule 01"), RULE)
            .sends("basic.publish mandatory without a body; channel.flow")
            .expects("basic.return and a header of size 0, no body frame; then channel.flow-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let returned = returned(&mut client, &Properties::EMPTY, b"").await?;
                ensure_eq("size", &returned.body.len(), &0)?;
                client.barrier(1).await
            }),
        check("basic.return/large-body")
            .should(Spec("basic.publish.mandatory rule 01"), RULE)
            .sends("basic.publish mandatory with a body of 300,000 octets")
            .expects("the same body")
            .run(async |cx| {
                let body: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
                let mut client = cx.open_channel().await?;
                let returned = returned(&mut client, &Properties::EMPTY, &body).await?;
                ensure_eq("body is the same", &(returned.body == body), &true)
            }),
        check("basic.return/without-the-hidden-copies")
            .rabbitmq(
                "Sender-selected Distribution",
                "BCC is taken out of a message that is returned, too",
            )
            .sends("basic.publish mandatory with BCC of a queue that does not exist, and another header")
            .expects("basic.return with the other header alone")
            .run(async |cx| {
                let mut headers = table! { "kept" => 1 };
                let nobody = [Value::from("amqp-conformance.nobody")].into_iter().collect();
                headers.insert("BCC", Value::Array(nobody))?;
                let properties = Properties { headers: Some(headers.into()), ..Properties::EMPTY };
                let mut client = cx.open_channel().await?;
                let returned = returned(&mut client, &properties, b"body").await?;
                let headers = returned.properties.headers.unwrap_or_default();
                let headers = headers.decode(&Limits::default()).unwrap_or_default();
                let seen = (headers.contains_key("BCC"), headers.get_i64("kept"));
                ensure_eq("BCC and the other header", &seen, &(false, Some(1)))
            }),
    ]
}

fn order() -> Vec<Check> {
    vec![
        check("basic.return/in-the-order-of-publishing")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "messages are returned in the order in which they were published",
            )
            .sends("50 mandatory messages, every second one to a queue")
            .expects("the 25 others, in their order")
            .run(async |cx| {
                let queue = cx.name("routed");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                for number in 0..50 {
                    let key = if number % 2 == 0 { queue.clone() } else { cx.name("nowhere") };
                    let publish = mandatory(&ShortStr::EMPTY, &key);
                    let body = format!("{number}");
                    client.send_content(1, publish, &Properties::EMPTY, body.as_bytes()).await?;
                }
                for number in (1..50).step_by(2) {
                    let returned = client.expect_return(1).await?;
                    let body = String::from_utf8_lossy(&returned.body).into_owned();
                    ensure_eq("body", &body, &format!("{number}"))?;
                }
                client.barrier(1).await
            }),
        check("basic.return/on-the-channel-of-the-publish")
            .must(
                Text("4.3 Channel Multiplexing"),
                "what concerns a channel is said on that channel",
            )
            .sends("a mandatory message on channel 2, which no queue takes; channel.flow on channel 1")
            .expects("basic.return on channel 2, nothing on channel 1")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                let publish = mandatory(&ShortStr::EMPTY, &cx.name("nowhere"));
                client.send_content(2, publish, &Properties::EMPTY, b"body").await?;
                client.expect_return(2).await?;
                client.barrier(1).await
            }),
        check("basic.return/acked-after-it")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "an unroutable message is confirmed once it is known to be unroutable, after its return",
            )
            .sends("confirm.select; ten mandatory messages that no queue takes")
            .expects("ten returns; no message is acked before it was returned; all ten are acked")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.confirm_select(1).await?;
                for _ in 0..10 {
                    let publish = mandatory(&ShortStr::EMPTY, &cx.name("nowhere"));
                    client.send_content(1, publish, &Properties::EMPTY, b"body").await?;
                }
                let (mut returned, mut acked) = (0_u64, 0_u64);
                while acked < 10 {
                    let event = client.next_on(1).await;
                    if let Some(method) = event.typed::<basic::Return>() {
                        client.content_of(1, method).await?;
                        returned += 1;
                    } else if let Some(ack) = event.typed::<basic::Ack>() {
                        acked = acked.max(ack.delivery_tag);
                        if acked > returned {
                            return Err(Failure::unexpected("basic.return before its basic.ack", &event));
                        }
                    } else {
                        return Err(Failure::unexpected("basic.return or basic.ack", &event));
                    }
                }
                ensure_eq("messages returned", &returned, &10)
            }),
    ]
}

fn exceptions() -> Vec<Check> {
    vec![
        check("basic.return/not-when-the-alternate-exchange-takes-it")
            .rabbitmq(
                "Alternate Exchanges",
                "a mandatory message that an alternate exchange routes is not returned",
            )
            .sends("an exchange with an alternate that has a queue; basic.publish mandatory with a key that is not bound")
            .expects("no return; the message in that queue")
            .run(async |cx| {
                let (main, spare, queue) = (cx.exchange("main"), cx.exchange("spare"), cx.name("end"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &spare, "fanout").await?;
                let mut arguments = Table::EMPTY;
                arguments.insert("alternate-exchange", spare.clone())?;
                let declare = exchange::Declare {
                    exchange: main.clone(),
                    kind: short!("direct"),
                    arguments,
                    ..Default::default()
                };
                client.call::<exchange::DeclareOk>(1, declare).await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &spare, "").await?;
                let publish = mandatory(&main, &short!("unbound"));
                client.send_content(1, publish, &Properties::EMPTY, b"body").await?;
                client.barrier(1).await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["body"])
            }),
        check("basic.return/channel-goes-on")
            .must(
                Spec("basic.return"),
                "a return is no error: the channel goes on, and so does what was published after it",
            )
            .sends("a mandatory message that no queue takes, one that a queue takes; basic.get")
            .expects("basic.return; then the second message")
            .run(async |cx| {
                let queue = cx.name("routed");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                returned(&mut client, &Properties::EMPTY, b"first").await?;
                client.publish(1, "", &queue, "second").await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["second"])
            }),
    ]
}
