//! Publishes one message for each way a publish can end, to a private RabbitMQ node, and prints as a table what the
//! client says of each.

#![allow(clippy::print_stdout, reason = "printing is what this example is for")]

use std::error::Error;

use amqp_client::codec::short;
use amqp_client::{
    ConfirmChannel, Connection, ExchangeDeclare, Message, Outcome, QueueDeclare, UnknownReason,
};
use amqp_tests::broker::{Broker, Version};
use amqp_tests::proxy::{Ending, Proxy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = Broker::start(Version::V4_0).await;
    let connection = Connection::open(broker.uri()).await?;
    let channel = connection.open_channel().await?.confirm_select().await?;
    declare(&channel).await?;

    println!("{:<46} {:<9} what the client tells", "publish", "outcome");
    let order = || Message::new("{\"order\":1}").content_type("application/json");
    let confirm = channel
        .publish("demo", "orders", order().mandatory())
        .await?;
    row("mandatory, to a queue", &confirm.await);
    let confirm = channel
        .publish("demo", "nowhere", order().mandatory())
        .await?;
    row("mandatory, no queue bound", &confirm.await);
    let confirm = channel.publish("demo", "nowhere", order()).await?;
    row("not mandatory, no queue bound", &confirm.await);
    let confirm = channel.publish("demo", "full", order().mandatory()).await?;
    row("to a queue that is full and rejects", &confirm.await);
    row(
        "the connection cut before the confirm",
        &lost(&broker).await?,
    );
    let confirm = channel.publish("missing", "orders", order()).await?;
    row("to an exchange that does not exist", &confirm.await);
    // That fault has closed the channel.
    match channel.publish("demo", "orders", order()).await {
        Ok(confirm) => row("on a closed channel", &confirm.await),
        Err(error) => line("on a closed channel", "not sent", &error.reason.to_string()),
    }
    connection.close().await?;
    Ok(())
}

/// A direct exchange with a queue that takes messages and one that is always full.
async fn declare(channel: &ConfirmChannel) -> Result<(), amqp_client::error::Error> {
    let exchange = ExchangeDeclare::new(short!("demo"), short!("direct"));
    channel.exchange_declare(exchange).await?;
    let full = QueueDeclare::new(short!("full"))
        .argument(short!("x-max-length"), 0)
        .argument(short!("x-overflow"), "reject-publish");
    for queue in [QueueDeclare::new(short!("orders")), full] {
        let name = channel.queue_declare(queue).await?.name;
        channel
            .queue_bind(name.clone(), "demo", name, Default::default())
            .await?;
    }
    Ok(())
}

/// Publishes through a proxy that passes the message on, holds the broker's answer back, and cuts the connection.
async fn lost(broker: &Broker) -> Result<Outcome, Box<dyn Error>> {
    let proxy = Proxy::start(broker.address()).await;
    let connection = Connection::open(proxy.uri("%2f")).await?;
    let channel = connection.open_channel().await?.confirm_select().await?;
    let link = proxy.link(0).await;
    link.to_client().hold();
    let before = link.to_server().count();
    let confirm = channel
        .publish("demo", "orders", Message::new("{\"order\":2}"))
        .await?;
    link.to_server().wait_for(before + 1).await;
    link.cut(Ending::Reset);
    Ok(confirm.await)
}

fn row(what: &str, outcome: &Outcome) {
    match outcome {
        Outcome::Acked => line(what, "acked", "the broker took responsibility"),
        Outcome::Returned(returned) => {
            let followed = format!("{}, then {:?}", returned.code, returned.followed);
            line(what, "returned", &followed);
        }
        Outcome::Nacked(_) => line(what, "nacked", "the broker refused it"),
        Outcome::Unknown { reason, .. } => line(what, "unknown", &why(reason)),
    }
}

fn why(reason: &UnknownReason) -> String {
    match reason {
        UnknownReason::TimedOut => "no confirm came in time".to_owned(),
        UnknownReason::ChannelClosed(closed) => format!("channel {closed}"),
        UnknownReason::ConnectionClosed { closed, .. } => format!("connection {closed}"),
    }
}

fn line(what: &str, outcome: &str, tells: &str) {
    println!("{what:<46} {outcome:<9} {tells}");
}
