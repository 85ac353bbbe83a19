//! What the tests have in common.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use amqp_client::codec::{ShortStr, basic};
use amqp_client::{
    Channel, ConfirmChannel, ConfirmOptions, ConnectOptions, Connection, Outcome, QueueDeclare,
    UnknownReason,
};
use amqp_tests::broker::Vhost;
use amqp_tests::proxy::Link;
use amqp_tests::{Broker, Proxy, RawClient, Version};
use bytes::Bytes;
use tokio::time::timeout;

/// How long one test may take. It takes a few seconds at most; this is for one that hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs a test on the shared node of this version.
pub(crate) async fn run<F>(version: Version, test: impl FnOnce(&'static Broker) -> F)
where
    F: Future<Output = ()>,
{
    let test = test(Broker::shared(version).await);
    if timeout(TEST_TIMEOUT, test).await.is_err() {
        panic!("not over after {TEST_TIMEOUT:?}");
    }
}

/// What must come soon; a test that waits for it in vain says for what.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(Duration::from_secs(20), future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within 20 s"),
    }
}

/// Asks again and again until the answer is yes, for what no event tells.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    soon(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Polls once, without being woken for it afterwards.
pub(crate) async fn poll_once<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut future).poll(cx))).await
}

/// A text that is known to be short.
pub(crate) fn name(text: impl Into<String>) -> ShortStr<'static> {
    ShortStr::try_from(text.into()).expect("a name of at most 255 bytes")
}

pub(crate) async fn connect(uri: &str) -> Connection {
    soon("a connection", Connection::open(uri)).await.unwrap()
}

pub(crate) async fn channel(connection: &Connection) -> Channel {
    soon("a channel", connection.open_channel()).await.unwrap()
}

pub(crate) async fn confirm_channel(connection: &Connection) -> ConfirmChannel {
    let channel = channel(connection).await;
    soon("confirm.select", channel.confirm_select())
        .await
        .unwrap()
}

pub(crate) async fn confirm_channel_with(
    connection: &Connection,
    options: ConfirmOptions,
) -> ConfirmChannel {
    let channel = channel(connection).await;
    soon("confirm.select", channel.confirm_select_with(options))
        .await
        .unwrap()
}

/// A connection through a proxy, with options made from its URI.
pub(crate) async fn connect_through(
    broker: &Broker,
    vhost: &Vhost,
    options: impl FnOnce(ConnectOptions) -> ConnectOptions,
) -> (Proxy, Link, Connection) {
    let proxy = Proxy::start(broker.address()).await;
    let uri = proxy.uri(&vhost.name);
    let options = options(ConnectOptions::try_from(uri.as_str()).unwrap());
    let connection = soon("a connection", Connection::open(options))
        .await
        .unwrap();
    let link = proxy.link(0).await;
    (proxy, link, connection)
}

/// Declares a queue with nothing special about it.
pub(crate) async fn declare(connection: &Connection, queue: &str) {
    let channel = channel(connection).await;
    let declare = QueueDeclare::new(name(queue));
    soon("a queue", channel.queue_declare(declare))
        .await
        .unwrap();
    channel.close().await.unwrap();
}

/// Declares a queue that takes one message, gives it that, and rejects all others.
pub(crate) async fn declare_full(connection: &Connection, queue: &str) {
    let channel = confirm_channel(connection).await;
    let declare = QueueDeclare::new(name(queue))
        .argument(name("x-max-length"), 1)
        .argument(name("x-overflow"), "reject-publish");
    channel.queue_declare(declare).await.unwrap();
    let filler = amqp_client::Message::new("filler");
    let confirm = channel.publish("", name(queue), filler).await.unwrap();
    assert_eq!(soon("the filler's ack", confirm).await, Outcome::Acked);
    channel.close().await.unwrap();
}

/// A raw client on a vhost, with channel 1 open.
pub(crate) async fn raw(address: SocketAddr, vhost: &Vhost) -> RawClient {
    let mut raw = RawClient::open(address, &vhost.name).await;
    raw.open_channel(1).await;
    raw
}

/// Takes all messages out of a queue, in raw frames, by consuming: for many of them.
pub(crate) async fn drain(raw: &mut RawClient, queue: &str) -> Vec<Bytes> {
    let count = raw.message_count(1, queue).await;
    let consume = basic::Consume {
        queue: name(queue),
        consumer_tag: name("drain"),
        no_ack: true,
        ..Default::default()
    };
    raw.call::<basic::ConsumeOk<'static>>(1, consume).await;
    let mut bodies = Vec::with_capacity(count as usize);
    while bodies.len() < count as usize {
        let delivery = raw.expect_content::<basic::Deliver<'static>>(1).await;
        bodies.push(delivery.body);
    }
    let cancel = basic::Cancel {
        consumer_tag: name("drain"),
        ..Default::default()
    };
    // Were there more than the queue had said, they would come before the answer.
    raw.call::<basic::CancelOk<'static>>(1, cancel).await;
    bodies
}

/// Waits until the broker has no connection on this vhost.
pub(crate) async fn no_connection_left(broker: &Broker, vhost: &Vhost) {
    until("no connection left on the broker", async || {
        connections(broker, vhost, "pid").await == "[]"
    })
    .await;
}

/// What the broker knows of the connections on a vhost, as Erlang writes it: one item of
/// `rabbitmqctl list_connections`.
pub(crate) async fn connections(broker: &Broker, vhost: &Vhost, item: &str) -> String {
    broker
        .eval(&format!(
            "[V || [{{vhost, <<\"{}\">>}}, {{_, V}}] <- rabbit_networking:connection_info_all([vhost, {item}])]",
            vhost.name
        ))
        .await
}

/// One word for an outcome.
pub(crate) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Acked => "acked",
        Outcome::Returned(_) => "returned",
        Outcome::Nacked(_) => "nacked",
        Outcome::Unknown { reason, .. } => match reason {
            UnknownReason::TimedOut => "timed out",
            UnknownReason::ChannelClosed(_) => "unknown, channel closed",
            UnknownReason::ConnectionClosed { written: true, .. } => "unknown, connection closed",
            UnknownReason::ConnectionClosed { written: false, .. } => "never written",
        },
    }
}

/// How often each word was said.
pub(crate) fn tally<'a>(words: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut tally = BTreeMap::new();
    for word in words {
        *tally.entry(word).or_default() += 1;
    }
    tally
}
