//! The raw client against real nodes.

use amqp_codec::{MethodId, ReplyCode, basic, channel, table};
use amqp_tests::{Broker, RawClient, Version, drain};

async fn publishes_and_gets(version: Version) {
    let broker = Broker::shared(version).await;
    let vhost = broker.vhost("raw").await;
    let mut client = RawClient::open(broker.address(), &vhost.name).await;
    client.open_confirm_channel(1).await;
    client.open_channel(2).await;
    client.declare(2, "queue", table! {}).await;

    // One body in several frames, one in one, one in none.
    let large: Vec<u8> = (0..300_000_u32).map(|i| i as u8).collect();
    for (at, body) in [&large[..], b"small", b""].into_iter().enumerate() {
        client.publish(1, "", "queue", body).await;
        let ack: basic::Ack = client.expect(1).await;
        assert_eq!(ack.delivery_tag, at as u64 + 1);
    }
    assert_eq!(client.message_count(2, "queue").await, 3);
    let first = client.get(2, "queue").await.expect("there are messages");
    assert!(first.body == large && first.method.message_count == 2);
    client.close().await;

    let rest = drain(broker.address(), &vhost.name, "queue").await;
    let bodies: Vec<_> = rest.iter().map(|message| &message.body[..]).collect();
    assert_eq!(bodies, [&b"small"[..], b""]);
    assert!(
        drain(broker.address(), &vhost.name, "queue")
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn publishes_and_gets_3_10() {
    publishes_and_gets(Version::V3_10).await;
}

#[tokio::test]
async fn publishes_and_gets_4_0() {
    publishes_and_gets(Version::V4_0).await;
}

#[tokio::test]
async fn error_on_one_channel_waits_aside_while_another_is_served() {
    let broker = Broker::shared(Version::V4_0).await;
    let vhost = broker.vhost("raw").await;
    let mut client = RawClient::open(broker.address(), &vhost.name).await;
    client.open_channel(1).await;
    client.open_channel(2).await;
    client.publish(1, "no-such-exchange", "", b"").await;
    client.declare(2, "queue", table! {}).await;
    // Long there, and not lost.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    client.declare(2, "queue", table! {}).await;
    let close: channel::Close = client.expect(1).await;
    assert_eq!(close.reply_code, ReplyCode::NOT_FOUND);
    assert_eq!(
        (close.class_id, close.method_id),
        (
            MethodId::BASIC_PUBLISH.class,
            MethodId::BASIC_PUBLISH.method
        )
    );
}
