//! Publishes one message for each way a publish can end, to a private RabbitMQ node, and prints what the client
//! says of each.

#![allow(clippy::print_stdout, reason = "printing is what this example is for")]

use std::error::Error;
use std::time::Duration;

use amqp_client::codec::short;
use amqp_client::{ConfirmChannel, Connection, ExchangeDeclare, Message, Outcome, QueueDeclare};
use amqp_tests::broker::{Broker, Version};
use amqp_tests::proxy::{Direction, Proxy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = Broker::start(Version::V4_0).await;
    let connection = Connection::open(broker.uri().as_str()).await?;
    let channel = connection.open_channel().await?.confirm_select().await?;
    declare(&channel).await?;

    println!("{:<44} outcome", "publish");
    let order = || {
        Message::new("{\"order\":1}")
            .content_type("application/json")
            .mandatory()
    };
    row(
        "to a bound queue",
        channel.publish("demo", "orders", order()).await?.await,
    );
    row(
        "mandatory, no queue bound",
        channel.publish("demo", "nowhere", order()).await?.await,
    );
    let not_mandatory = Message::new("{\"order\":1}");
    row(
        "not mandatory, no queue bound",
        channel
            .publish("demo", "nowhere", not_mandatory)
            .await?
            .await,
    );
    row(
        "to a queue that is full and rejects",
        channel.publish("demo", "full", order()).await?.await,
    );
    row(
        "to an exchange that does not exist",
        channel.publish("missing", "orders", order()).await?.await,
    );

    let not_sent = channel.publish("demo", "orders", order()).await;
    let error = not_sent
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    println!("{:<44} {error}", "on the channel that this has closed");

    row(
        "the connection cut before the confirm",
        lost(&broker).await?,
    );
    connection.close().await?;
    Ok(())
}

/// A direct exchange with a queue that takes messages and one that is full.
async fn declare(channel: &ConfirmChannel) -> Result<(), amqp_client::error::Error> {
    channel
        .exchange_declare(ExchangeDeclare::new(short!("demo"), short!("direct")))
        .await?;
    let full = QueueDeclare::new(short!("full"))
        .argument(short!("x-max-length"), 0)
        .argument(short!("x-overflow"), "reject-publish");
    for queue in [QueueDeclare::new(short!("orders")), full] {
        let info = channel.queue_declare(queue).await?;
        channel
            .queue_bind(info.name.clone(), "demo", info.name, Default::default())
            .await?;
    }
    Ok(())
}

/// Publishes through a proxy that passes the message on, keeps the broker's answer back, and cuts the connection.
async fn lost(broker: &Broker) -> Result<Outcome, Box<dyn Error>> {
    let proxy = Proxy::start(broker.address()).await;
    let connection =
        Connection::open(format!("amqp://guest:guest@{}/%2f", proxy.address())).await?;
    let channel = connection.open_channel().await?.confirm_select().await?;
    proxy.hold(Direction::ToClient);
    let confirm = channel
        .publish("demo", "orders", Message::new("{\"order\":2}"))
        .await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    proxy.cut();
    Ok(confirm.await)
}

fn row(what: &str, outcome: Outcome) {
    let outcome = match outcome {
        Outcome::Acked => "acked: the broker has it".to_owned(),
        Outcome::Returned(returned) => {
            format!("returned: {}, then {:?}", returned.code, returned.followed)
        }
        Outcome::Nacked(_) => "nacked: the broker refused it".to_owned(),
        Outcome::Unknown { reason, .. } => format!("unknown: {reason}"),
    };
    println!("{what:<44} {outcome}");
}
