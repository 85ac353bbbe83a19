//! What brokers refuse that the client cannot know beforehand: with which code, and what it costs.

use amqp_client::auth::{AuthError, Credentials, Login, Mechanism, Secret};
use amqp_client::codec::{MethodId, ReplyCode, Value, short};
use amqp_client::error::{Closed, Error, ErrorKind, HandshakeError, Initiator};
use amqp_client::{
    ConnectOptions, Connection, Consume, Message, Outcome, QueueDeclare, UnknownReason,
};
use amqp_tests::{Broker, Version};

use crate::support::{channel, confirm_channel, connect, declare, name, soon};

on_each_broker!(
    malformed_plain,
    global_prefetch_on_a_quorum_queue,
    queue_of_an_unknown_type,
    properties_that_the_broker_refuses,
    passive_declares_without_permission,
    names_beyond_ascii,
);

/// PLAIN, and something that is not PLAIN's to say.
#[derive(Debug)]
struct Malformed;

impl Mechanism for Malformed {
    fn name(&self) -> &str {
        "PLAIN"
    }

    fn login(&self, _: &Credentials) -> Result<Box<dyn Login>, AuthError> {
        Ok(Box::new(Malformed))
    }
}

impl Login for Malformed {
    fn initial_response(&mut self) -> Result<Secret, AuthError> {
        Ok(Secret::from("neither user nor password"))
    }
}

async fn malformed_plain(broker: &'static Broker) {
    let options = ConnectOptions::try_from(broker.uri().as_str())
        .unwrap()
        .mechanism(Malformed);
    let error = soon("a refusal", Connection::open(options)).await;
    let error = error.unwrap_err();
    // The broker ends the stream without a word.
    let Some(HandshakeError::CredentialsProbablyRefused(closed)) = error.handshake() else {
        panic!("{error:?}");
    };
    assert_eq!(closed.initiator, Initiator::Transport);
    assert!(error.to_string().contains("probably"), "{error}");
}

#[track_caller]
fn ends_the_connection(error: &Error, code: ReplyCode, method: MethodId) {
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
    let closed = error.closed().expect("how it was closed");
    assert_eq!(closed.initiator, Initiator::Server, "{error}");
    assert_eq!(closed.code, code, "{error}");
    assert_eq!(closed.method, Some(method), "{error}");
}

async fn global_prefetch_on_a_quorum_queue(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let quorum = QueueDeclare::new(short!("quorum"))
        .durable()
        .argument(short!("x-queue-type"), "quorum");
    channel.queue_declare(quorum).await.unwrap();
    // Each for itself, that is fine.
    channel.qos(5, false).await.unwrap();
    let mut consumer = channel
        .consume(Consume::new(short!("quorum")))
        .await
        .unwrap();
    consumer.cancel().await.unwrap();
    channel.qos(5, true).await.unwrap();
    let consuming = channel.consume(Consume::new(short!("quorum")));
    let error = soon("a refusal", consuming).await.err().unwrap();
    ends_the_connection(&error, ReplyCode::NOT_IMPLEMENTED, MethodId::BASIC_CONSUME);
    assert_eq!(connection.closed().await.code, ReplyCode::NOT_IMPLEMENTED);
}

async fn queue_of_an_unknown_type(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "known").await;
    // A new queue, and one that is there.
    for queue in ["new", "known"] {
        for kind in [Value::from("no-such-type"), Value::from(5)] {
            let odd = QueueDeclare::new(name(queue)).argument(short!("x-queue-type"), kind);
            let channel = channel(&connection).await;
            let error = soon("a refusal", channel.queue_declare(odd)).await;
            let error = error.unwrap_err();
            println!("{queue}: {error}");
            assert_eq!(error.kind(), ErrorKind::ChannelClosed, "{error}");
            let closed = error.closed().expect("how it was closed");
            assert_eq!(closed.code, ReplyCode::PRECONDITION_FAILED, "{error}");
            assert_eq!(closed.method, Some(MethodId::QUEUE_DECLARE));
        }
    }
    connection.close().await.unwrap();
}

async fn properties_that_the_broker_refuses(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    // The setter would not take it.
    let expiration = |millis: &str| {
        let mut message = Message::new("x");
        message.properties_mut().expiration = Some(name(millis));
        message
    };
    let delivery_mode = |mode: u8| {
        let mut message = Message::new("x");
        message.properties_mut().delivery_mode = Some(mode);
        message
    };
    let old = broker.version() == Version::V3_10;
    let ten_years = 315_360_000_000_u64;
    for (message, refused) in [
        (expiration("abc"), true),
        (expiration("-1"), true),
        (expiration(""), true),
        (expiration(&(ten_years + 1).to_string()), true),
        (expiration(&ten_years.to_string()), false),
        (expiration("60000"), false),
        (Message::new("x").user_id("somebody-else"), true),
        (Message::new("x").user_id("guest"), false),
        (Message::new("x").header("CC", "no array"), true),
        (delivery_mode(0), old),
        (delivery_mode(7), old),
    ] {
        let what = format!("{:?}", message.properties());
        let channel = confirm_channel(&connection).await;
        let confirm = channel.publish("", "q", message.clone()).await.unwrap();
        match soon("an outcome", confirm).await {
            Outcome::Acked => assert!(!refused, "{what} is taken"),
            Outcome::Unknown {
                publication,
                reason: UnknownReason::ChannelClosed(closed),
            } => {
                assert!(refused, "{what}: {closed}");
                assert_eq!(closed.initiator, Initiator::Server);
                assert_eq!(
                    closed.code,
                    ReplyCode::PRECONDITION_FAILED,
                    "{what}: {closed}"
                );
                assert_eq!(closed.method, Some(MethodId::BASIC_PUBLISH));
                assert_eq!(publication.message, message);
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    connection.close().await.unwrap();
}

async fn passive_declares_without_permission(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let user = format!("nobody-{}", vhost.name);
    broker
        .eval(&format!(
            "ok = rabbit_auth_backend_internal:add_user(<<\"{user}\">>, <<\"p\">>, <<\"test\">>), \
             ok = rabbit_auth_backend_internal:set_permissions(<<\"{user}\">>, <<\"{}\">>, <<\"^$\">>, <<\"^$\">>, \
             <<\"^$\">>, <<\"test\">>)",
            vhost.name
        ))
        .await;
    let options = ConnectOptions::try_from(vhost.uri.as_str())
        .unwrap()
        .credentials(user, "p");
    let nobody = soon("a connection", Connection::open(options))
        .await
        .unwrap();
    let code = |error: Error| error.closed().map(|closed| closed.code);
    // What is declared anew, and what is only asked for.
    let channel_of = channel(&nobody).await;
    let error = channel_of
        .queue_declare(QueueDeclare::new(short!("mine")))
        .await;
    assert_eq!(code(error.unwrap_err()), Some(ReplyCode::ACCESS_REFUSED));
    let passive = |queue: &str| QueueDeclare::new(name(queue)).passive();
    let channel_of = channel(&nobody).await;
    let known = channel_of.queue_declare(passive("q")).await;
    let missing = channel(&nobody).await.queue_declare(passive("none")).await;
    match broker.version() {
        Version::V3_10 | Version::V4_0 => {
            assert_eq!(known.unwrap().name, "q");
            assert_eq!(code(missing.unwrap_err()), Some(ReplyCode::NOT_FOUND));
        }
        Version::V4_3 => {
            assert_eq!(code(known.unwrap_err()), Some(ReplyCode::ACCESS_REFUSED));
            assert_eq!(code(missing.unwrap_err()), Some(ReplyCode::ACCESS_REFUSED));
        }
    }
    nobody.close().await.unwrap();
    connection.close().await.unwrap();
}

/// A text that is cut in the middle of a character on 3.10, and the connection's end on 4.x.
async fn names_beyond_ascii(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let long = format!("x{}", "\u{fc}".repeat(127));
    let passive = QueueDeclare::new(name(long)).passive();
    let error = soon("a refusal", channel.queue_declare(passive)).await;
    let error = error.unwrap_err();
    let closed = error.closed().expect("how it was closed");
    match broker.version() {
        Version::V3_10 => {
            assert_eq!(error.kind(), ErrorKind::ChannelClosed, "{error}");
            assert_eq!(closed.code, ReplyCode::NOT_FOUND);
            assert_eq!(closed.text.len(), 255);
            assert!(closed.text.as_str().is_err(), "{:?}", closed.text);
            assert!(error.to_string().contains("no queue"), "{error}");
            connection.close().await.unwrap();
        }
        Version::V4_0 | Version::V4_3 => {
            assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
            assert!(by_the_broker_or_cut(closed), "{closed:?}");
            assert_eq!(*connection.closed().await, *closed);
        }
    }
}

fn by_the_broker_or_cut(closed: &Closed) -> bool {
    match closed.initiator {
        Initiator::Server => closed.code == ReplyCode::INTERNAL_ERROR,
        Initiator::Transport => closed.cause.is_some(),
        Initiator::Client | Initiator::Library => false,
    }
}
