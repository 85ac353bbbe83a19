//! Records sessions with private RabbitMQ nodes, each direction in a file of its own: what the fuzz targets' seeds are
//! made of.
//!
//! ```text
//! $ cargo run -p amqp-tests --example record -- fuzz/recordings
//! ```

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use amqp_client::codec::{Array, Decimal, Value, short};
use amqp_client::{
    Connection, Consume, ExchangeDeclare, ExchangeKind, Message, Methods, Outcome, QueueDeclare,
    QueueDelete, table,
};
use amqp_tests::broker::{Broker, Version};
use amqp_tests::proxy::Proxy;

type Done = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: record FOLDER")?);
    fs::create_dir_all(&folder)?;
    for (version, name) in [(Version::V3_10, "3.10"), (Version::V4_0, "4.0")] {
        let broker = Broker::start(version).await;
        let proxy = Proxy::start(broker.address()).await;
        session(&proxy).await?;
        let link = proxy.link(0).await;
        link.ended().await;
        fs::write(
            folder.join(format!("{name}-to-server")),
            link.to_server().bytes(),
        )?;
        fs::write(
            folder.join(format!("{name}-to-client")),
            link.to_client().bytes(),
        )?;
    }
    Ok(())
}

/// Something of everything, in a few kilobytes.
async fn session(proxy: &Proxy) -> Done {
    let connection = Connection::open(proxy.uri("%2f")).await?;
    let channel = connection.open_channel().await?.confirm_select().await?;
    topology(&channel).await?;

    let full = Message::new("hello")
        .content_type("text/plain")
        .content_encoding("identity")
        .headers(every_type())
        .persistent()
        .priority(3)
        .correlation_id("correlation")
        .reply_to("answers")
        .ttl(Duration::from_secs(60))
        .message_id("1")
        .timestamp(1_700_000_000)
        .kind("greeting")
        .user_id("guest")
        .app_id("recorder")
        .mandatory();
    for (key, message) in [
        ("routed", full.clone()),
        ("routed", Message::new("")),
        ("nowhere", full),
        ("full", Message::new("rejected")),
    ] {
        let outcome = channel.publish("things", key, message).await?.await;
        let expected = match key {
            "nowhere" => matches!(outcome, Outcome::Returned(_)),
            "full" => matches!(outcome, Outcome::Nacked(_)),
            _ => outcome.is_acked(),
        };
        assert!(expected, "{key}: {outcome:?}");
    }

    consume(&channel).await?;
    transaction(&connection).await?;
    remove(&channel).await?;
    // A fault closes the channel.
    let missing = connection.open_channel().await?;
    let refused = missing
        .queue_declare(QueueDeclare::new("missing").passive())
        .await;
    assert!(refused.is_err());
    channel.close().await?;
    connection
        .update_secret("another", "it was time")
        .await
        .ok();
    connection.close().await?;
    Ok(())
}

async fn topology(channel: &Methods) -> Done {
    for name in ["things", "more-things"] {
        let exchange = ExchangeDeclare::new(name, ExchangeKind::Topic).durable();
        channel.exchange_declare(exchange).await?;
    }
    channel
        .exchange_bind("more-things", "things", "more.#", table! {})
        .await?;
    let full = QueueDeclare::new("full")
        .argument("x-max-length", 0)
        .argument("x-overflow", "reject-publish");
    for (name, queue) in [
        ("routed", QueueDeclare::new("routed").durable()),
        ("full", full),
    ] {
        channel.queue_declare(queue).await?;
        channel.queue_bind(name, "things", name, table! {}).await?;
    }
    let temporary = channel
        .queue_declare(QueueDeclare::new("").exclusive())
        .await?;
    channel
        .queue_delete(QueueDelete::new(temporary.name))
        .await?;
    Ok(())
}

async fn consume(channel: &Methods) -> Done {
    channel.qos(10, false).await?;
    let got = channel
        .get("routed", false)
        .await?
        .ok_or("a message is there")?;
    got.delivery.reject(true)?;
    channel.recover().await?;
    let mut consumer = channel
        .consume(Consume::new("routed").tag("reader"))
        .await?;
    for _ in 0..2 {
        let delivery = consumer.next().await.ok_or("two messages are there")??;
        delivery.ack()?;
    }
    consumer.cancel().await?;
    assert!(channel.get("routed", false).await?.is_none());
    Ok(())
}

async fn transaction(connection: &Connection) -> Done {
    let mut tx = connection.open_channel().await?.tx_select().await?;
    tx.publish("things", "routed", Message::new("undone"))
        .await?;
    tx.rollback().await?;
    tx.publish("things", "nowhere", Message::new("back").mandatory())
        .await?;
    tx.commit().await?;
    tx.close().await?;
    Ok(())
}

async fn remove(channel: &Methods) -> Done {
    channel
        .queue_unbind("routed", "things", "routed", table! {})
        .await?;
    channel.queue_purge("routed").await?;
    channel.queue_delete(QueueDelete::new("routed")).await?;
    channel
        .exchange_unbind("more-things", "things", "more.#", table! {})
        .await?;
    channel.exchange_delete("more-things", false).await?;
    Ok(())
}

/// Headers of every type that RabbitMQ reads.
fn every_type() -> amqp_client::codec::Table<'static> {
    table! {
        "t" => true,
        "b" => Value::I8(-1),
        "B" => Value::U8(1),
        "s" => Value::I16(-1),
        "u" => Value::U16(1),
        "I" => Value::I32(-1),
        "i" => Value::U32(1),
        "l" => Value::I64(-1),
        "f" => Value::F32(0.5),
        "d" => Value::F64(0.5),
        "D" => Value::Decimal(Decimal { scale: 2, value: 314 }),
        "S" => "text",
        "A" => Array::from([1, 2]),
        "T" => Value::Timestamp(1_700_000_000),
        "F" => table! { "inner" => Array::from([table! { "innermost" => Value::Void }]) },
        "V" => Value::Void,
        "x" => Value::Bytes(b"\xff\x00".into()),
        "CC" => Array::from([short!("more.keys")]),
    }
}
