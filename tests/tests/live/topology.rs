//! Declaring, binding, purging and deleting: what the answers say, and what the broker refuses.

use amqp_client::codec::{MethodId, ReplyCode, short, table};
use amqp_client::error::{Error, ErrorKind, Initiator};
use amqp_client::{
    Channel, Connection, ExchangeDeclare, Message, Outcome, QueueDeclare, QueueDelete,
};
use amqp_tests::{Broker, Version};

use crate::support::{channel, confirm_channel, connect, name, raw, soon};

on_each_broker!(
    queues_and_their_counts,
    server_named_queues,
    bindings,
    exchange_bindings,
    deleting_what_is_missing_is_fine,
    conditional_deletes,
    refusals_close_their_channel_alone,
);

async fn publish_acked(connection: &Connection, exchange: &'static str, key: &'static str) {
    let channel = confirm_channel(connection).await;
    let confirm = channel
        .publish(exchange, key, Message::new(key))
        .await
        .unwrap();
    assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    channel.close().await.unwrap();
}

async fn queues_and_their_counts(broker: &'static Broker) {
    let vhost = broker.vhost("topology").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;

    let orders = QueueDeclare::new(short!("orders")).durable();
    let info = channel.queue_declare(orders.clone()).await.unwrap();
    assert_eq!((info.message_count, info.consumer_count), (0, 0));
    assert_eq!(info.name, "orders");

    let mut other = raw(broker.address(), &vhost).await;
    for _ in 0..3 {
        publish_acked(&connection, "", "orders").await;
    }
    let consumer = channel
        .consume(amqp_client::Consume::new(short!("other")))
        .await;
    assert_eq!(
        consumer.err().and_then(|error| code(&error)),
        Some(ReplyCode::NOT_FOUND)
    );

    let channel = self::channel(&connection).await;
    let passive = QueueDeclare::new(short!("orders")).passive();
    let info = channel.queue_declare(passive.clone()).await.unwrap();
    assert_eq!((info.message_count, info.consumer_count), (3, 0));
    assert_eq!(channel.queue_purge("orders").await.unwrap(), 3);
    assert_eq!(channel.queue_purge("orders").await.unwrap(), 0);
    assert_eq!(other.message_count(1, "orders").await, 0);

    for _ in 0..2 {
        publish_acked(&connection, "", "orders").await;
    }
    // One of the two is unacked with the consumer, the other ready: the count is of those that are ready.
    channel.qos(1, false).await.unwrap();
    let mut consumer = channel
        .consume(amqp_client::Consume::new(short!("orders")))
        .await
        .unwrap();
    let _unacked = futures_util::StreamExt::next(&mut consumer)
        .await
        .unwrap()
        .unwrap();
    let info = channel.queue_declare(passive.clone()).await.unwrap();
    assert_eq!((info.message_count, info.consumer_count), (1, 1));
    consumer.cancel().await.unwrap();
    let info = channel.queue_declare(passive).await.unwrap();
    assert_eq!((info.message_count, info.consumer_count), (1, 0));

    // Deleting counts those that are ready, too.
    let deleted = channel
        .queue_delete(QueueDelete::new(short!("orders")))
        .await;
    assert_eq!(deleted.unwrap(), 1);
    connection.close().await.unwrap();
}

async fn server_named_queues(broker: &'static Broker) {
    let vhost = broker.vhost("topology").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let declare = || QueueDeclare::new(short!("")).exclusive().auto_delete();
    let first = channel.queue_declare(declare()).await.unwrap();
    let second = channel.queue_declare(declare()).await.unwrap();
    assert!(first.name.as_bytes().starts_with(b"amq.gen"), "{first:?}");
    assert_ne!(first.name, second.name);
    // The empty name is the queue declared last on the channel.
    let bound = channel.queue_bind("", "amq.fanout", "", table! {}).await;
    bound.unwrap();
    publish_acked(&connection, "amq.fanout", "anything").await;
    let got = channel.get("", true).await.unwrap().expect("a message");
    assert_eq!(got.delivery.body(), b"anything");
    let got = channel.get(second.name.clone(), true).await.unwrap();
    assert!(got.is_none());
    connection.close().await.unwrap();
    // Exclusive queues go with their connection.
    let connection = connect(&vhost.uri).await;
    let error = self::channel(&connection)
        .await
        .queue_declare(QueueDeclare::new(second.name).passive())
        .await
        .unwrap_err();
    assert_eq!(code(&error), Some(ReplyCode::NOT_FOUND));
    connection.close().await.unwrap();
}

/// Whether a message to this address is in the queue then.
async fn routes(channel: &Channel, exchange: &'static str, key: &'static str, queue: &str) -> bool {
    channel
        .publish(exchange, key, Message::new("probe"))
        .await
        .unwrap();
    // Both on one channel: in order.
    let got = channel.get(name(queue), true).await.unwrap();
    got.is_some()
}

async fn bindings(broker: &'static Broker) {
    let vhost = broker.vhost("topology").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    for (exchange, kind) in [
        ("direct", "direct"),
        ("topic", "topic"),
        ("headers", "headers"),
    ] {
        let declare = ExchangeDeclare::new(name(exchange), name(kind)).durable();
        channel.exchange_declare(declare.clone()).await.unwrap();
        // Declaring it again, equal, is fine.
        channel.exchange_declare(declare).await.unwrap();
    }
    let queue = QueueDeclare::new(short!("bound"));
    channel.queue_declare(queue).await.unwrap();

    assert!(!routes(&channel, "direct", "a", "bound").await);
    let bind = channel.queue_bind("bound", "direct", "a", table! {}).await;
    bind.unwrap();
    assert!(routes(&channel, "direct", "a", "bound").await);
    assert!(!routes(&channel, "direct", "b", "bound").await);
    let unbind = channel
        .queue_unbind("bound", "direct", "a", table! {})
        .await;
    unbind.unwrap();
    assert!(!routes(&channel, "direct", "a", "bound").await);

    let bind = channel
        .queue_bind("bound", "topic", "*.eu.#", table! {})
        .await;
    bind.unwrap();
    assert!(routes(&channel, "topic", "order.eu.berlin", "bound").await);
    assert!(!routes(&channel, "topic", "order.us", "bound").await);

    // A binding is told by its arguments, too.
    let match_all = || table! { "x-match" => "all", "colour" => "red", "size" => 3 };
    let bind = channel
        .queue_bind("bound", "headers", "", match_all())
        .await;
    bind.unwrap();
    let red = Message::new("probe")
        .header("colour", "red")
        .header("size", 3);
    channel.publish("headers", "", red.clone()).await.unwrap();
    assert!(channel.get("bound", true).await.unwrap().is_some());
    assert!(!routes(&channel, "headers", "", "bound").await);
    let unbind = channel
        .queue_unbind("bound", "headers", "", match_all())
        .await;
    unbind.unwrap();
    channel.publish("headers", "", red).await.unwrap();
    assert!(channel.get("bound", true).await.unwrap().is_none());
    connection.close().await.unwrap();
}

async fn exchange_bindings(broker: &'static Broker) {
    let vhost = broker.vhost("topology").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let outer = ExchangeDeclare::new(short!("outer"), short!("direct"));
    let inner = ExchangeDeclare::new(short!("inner"), short!("fanout")).internal();
    channel.exchange_declare(outer).await.unwrap();
    channel.exchange_declare(inner).await.unwrap();
    let queue = QueueDeclare::new(short!("q"));
    channel.queue_declare(queue).await.unwrap();
    let bind = channel.queue_bind("q", "inner", "", table! {}).await;
    bind.unwrap();

    assert!(!routes(&channel, "outer", "k", "q").await);
    let bind = channel
        .exchange_bind("inner", "outer", "k", table! {})
        .await;
    bind.unwrap();
    assert!(routes(&channel, "outer", "k", "q").await);
    let unbind = channel
        .exchange_unbind("inner", "outer", "k", table! {})
        .await;
    unbind.unwrap();
    assert!(!routes(&channel, "outer", "k", "q").await);

    // Nobody publishes to an internal exchange.
    let confirms = confirm_channel(&connection).await;
    let confirm = confirms.publish("inner", "k", Message::new("x")).await;
    let outcome = soon("an outcome", confirm.unwrap()).await;
    assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
    assert_eq!(
        confirms.closed().map(|closed| closed.code),
        Some(ReplyCode::ACCESS_REFUSED)
    );

    channel.exchange_delete("outer", false).await.unwrap();
    let gone = ExchangeDeclare::new(short!("outer"), short!("direct")).passive();
    let error = channel.exchange_declare(gone).await.unwrap_err();
    assert_eq!(code(&error), Some(ReplyCode::NOT_FOUND));
    connection.close().await.unwrap();
}

async fn deleting_what_is_missing_is_fine(broker: &'static Broker) {
    let vhost = broker.vhost("topology").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let deleted = channel.queue_delete(QueueDelete::new(short!("none"))).await;
    assert_eq!(deleted.unwrap(), 0);
    channel.exchange_delete("none", false).await.unwrap();
    let queue = QueueDeclare::new(short!("q"));
    channel.queue_declare(queue).await.unwrap();
    let unbind = channel
        .queue_unbind("q", "amq.direct", "none", table! {})
        .await;
    unbind.unwrap();
    connection.close().await.unwrap();
}

async fn conditional_deletes(broker: &'static Broker) {
    let vhost = broker.vhost("topology").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let queue = QueueDeclare::new(short!("q"));
    channel.queue_declare(queue).await.unwrap();
    publish_acked(&connection, "", "q").await;

    let if_empty = QueueDelete::new(short!("q")).if_empty();
    refused(
        &connection,
        async |channel| channel.queue_delete(if_empty.clone()).await,
        ReplyCode::PRECONDITION_FAILED,
        "not empty",
        MethodId::QUEUE_DELETE,
    )
    .await;

    let consumer = channel
        .consume(amqp_client::Consume::new(short!("q")))
        .await
        .unwrap();
    let if_unused = QueueDelete::new(short!("q")).if_unused();
    refused(
        &connection,
        async |channel| channel.queue_delete(if_unused.clone()).await,
        ReplyCode::PRECONDITION_FAILED,
        "in use",
        MethodId::QUEUE_DELETE,
    )
    .await;
    drop(consumer);

    let bind = channel.queue_bind("q", "amq.direct", "k", table! {}).await;
    bind.unwrap();
    let exchange = ExchangeDeclare::new(short!("x"), short!("direct"));
    channel.exchange_declare(exchange).await.unwrap();
    let bind = channel.queue_bind("q", "x", "k", table! {}).await;
    bind.unwrap();
    refused(
        &connection,
        async |channel| channel.exchange_delete("x", true).await,
        ReplyCode::PRECONDITION_FAILED,
        "in use",
        MethodId::EXCHANGE_DELETE,
    )
    .await;

    // The consumer was dropped, and its message is back.
    let delete = QueueDelete::new(short!("q")).if_unused();
    assert_eq!(channel.queue_delete(delete).await.unwrap(), 1);
    channel.exchange_delete("x", true).await.unwrap();
    connection.close().await.unwrap();
}

fn code(error: &Error) -> Option<ReplyCode> {
    error.closed().map(|closed| closed.code)
}

/// Calls on a channel of its own, and checks how the broker refuses: its words are in the error, the channel is gone.
async fn refused<R: std::fmt::Debug>(
    connection: &Connection,
    call: impl AsyncFn(&Channel) -> Result<R, Error>,
    code: ReplyCode,
    text: &str,
    method: MethodId,
) {
    let channel = channel(connection).await;
    let error = soon("a refusal", call(&channel)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChannelClosed, "{error}");
    let closed = error.closed().expect("how the channel was closed");
    assert_eq!(closed.initiator, Initiator::Server);
    assert_eq!(closed.code, code, "{error}");
    assert_eq!(closed.method, Some(method), "{error}");
    assert!(closed.text.to_string_lossy().contains(text), "{error}");
    assert!(error.to_string().contains(text), "{error}");
    // It stays so.
    assert_eq!(channel.closed().as_deref(), Some(closed));
    let again = channel.queue_purge("any").await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::ChannelClosed);
    assert_eq!(again.closed(), Some(closed));
}

async fn refusals_close_their_channel_alone(broker: &'static Broker) {
    let vhost = broker.vhost("topology").await;
    let connection = connect(&vhost.uri).await;
    let survivor = channel(&connection).await;
    let queue = QueueDeclare::new(short!("mine"));
    survivor.queue_declare(queue).await.unwrap();
    let exclusive = QueueDeclare::new(short!("exclusive")).exclusive();
    let other = connect(&vhost.uri).await;
    let others = channel(&other).await;
    others.queue_declare(exclusive).await.unwrap();

    let declare = |declare: QueueDeclare| {
        async move |channel: &Channel| channel.queue_declare(declare.clone()).await
    };
    refused(
        &connection,
        declare(QueueDeclare::new(short!("none")).passive()),
        ReplyCode::NOT_FOUND,
        "no queue 'none'",
        MethodId::QUEUE_DECLARE,
    )
    .await;
    refused(
        &connection,
        declare(QueueDeclare::new(short!("mine")).durable()),
        ReplyCode::PRECONDITION_FAILED,
        "inequivalent arg 'durable'",
        MethodId::QUEUE_DECLARE,
    )
    .await;
    refused(
        &connection,
        declare(QueueDeclare::new(short!("mine")).argument(short!("x-max-length"), 7)),
        ReplyCode::PRECONDITION_FAILED,
        "inequivalent arg 'x-max-length'",
        MethodId::QUEUE_DECLARE,
    )
    .await;
    refused(
        &connection,
        declare(QueueDeclare::new(short!("exclusive")).passive()),
        ReplyCode::RESOURCE_LOCKED,
        "exclusive access to locked queue",
        MethodId::QUEUE_DECLARE,
    )
    .await;
    refused(
        &connection,
        async |channel| channel.queue_purge("exclusive").await,
        ReplyCode::RESOURCE_LOCKED,
        "exclusive access to locked queue",
        MethodId::QUEUE_PURGE,
    )
    .await;
    let exchange = |declare: ExchangeDeclare| {
        async move |channel: &Channel| channel.exchange_declare(declare.clone()).await
    };
    refused(
        &connection,
        exchange(ExchangeDeclare::new(short!("amq.direct"), short!("fanout")).durable()),
        ReplyCode::PRECONDITION_FAILED,
        "inequivalent arg 'type'",
        MethodId::EXCHANGE_DECLARE,
    )
    .await;
    refused(
        &connection,
        async |channel| channel.queue_bind("mine", "none", "", table! {}).await,
        ReplyCode::NOT_FOUND,
        "no exchange 'none'",
        MethodId::QUEUE_BIND,
    )
    .await;
    refused(
        &connection,
        async |channel| channel.get("none", true).await,
        ReplyCode::NOT_FOUND,
        "no queue 'none'",
        MethodId::BASIC_GET,
    )
    .await;

    // None of that concerned anybody else.
    assert!(connection.is_open());
    let mine = survivor.queue_declare(QueueDeclare::new(short!("mine")).passive());
    assert_eq!(mine.await.unwrap().name, "mine");
    until_open_channels(&connection, 1).await;

    // An unknown exchange type is the connection's end on 3.10 and the channel's on 4.x.
    let unknown = ExchangeDeclare::new(short!("odd"), short!("no-such-type"));
    let error = channel(&connection)
        .await
        .exchange_declare(unknown)
        .await
        .unwrap_err();
    let closed = error.closed().expect("how it was closed");
    assert_eq!(closed.method, Some(MethodId::EXCHANGE_DECLARE));
    if broker.version() == Version::V3_10 {
        assert_eq!(error.kind(), ErrorKind::ConnectionClosed);
        assert_eq!(closed.code, ReplyCode::COMMAND_INVALID);
        assert_eq!(connection.closed().await.code, ReplyCode::COMMAND_INVALID);
    } else {
        assert_eq!(error.kind(), ErrorKind::ChannelClosed);
        assert_eq!(closed.code, ReplyCode::PRECONDITION_FAILED);
        connection.close().await.unwrap();
    }
    other.close().await.unwrap();
}

async fn until_open_channels(connection: &Connection, count: usize) {
    crate::support::until("closed channels give back their numbers", async || {
        connection.open_channels() == count
    })
    .await;
}
