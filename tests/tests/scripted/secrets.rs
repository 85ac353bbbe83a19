//! Neither payloads nor secrets go into logs, at any level, nor into what errors and handles show.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use amqp_client::codec::{ReplyCode, basic, short};
use amqp_client::{ConnectOptions, Consume, Message, Outcome};
use amqp_tests::peer::Greeting;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

use super::support::{confirm_channel, connected_with, no_task_left, plain_channel, settle};

thread_local! {
    /// What is logged on this thread, while somebody wants it.
    static CAPTURED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Writes what is logged on a thread to where that thread wants it.
struct ToThread;

impl io::Write for ToThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        CAPTURED.with_borrow_mut(|captured| {
            captured
                .iter_mut()
                .for_each(|all| all.extend_from_slice(bytes));
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Captures what is logged on this thread from now on.
///
/// There is one subscriber for all threads: what tracing remembers of its callsites is wrong at times where several
/// threads have subscribers of their own.
fn capture() {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let wanted = dynamic_filter_fn(|_, _| CAPTURED.with_borrow(Option::is_some));
        let layer = tracing_subscriber::fmt::layer()
            .with_span_events(FmtSpan::FULL)
            .with_writer(|| ToThread)
            .with_ansi(false)
            .with_filter(wanted);
        tracing_subscriber::registry().with(layer).init();
    });
    CAPTURED.set(Some(Vec::new()));
}

/// What was logged on this thread.
fn captured() -> String {
    String::from_utf8(CAPTURED.take().unwrap()).unwrap()
}

const PASSWORD: &str = "hunter2-correct-horse";
const PAYLOAD: &str = "payload-4711-of-nobodys-concern";
const HEADER: &str = "header-4711-of-nobodys-concern";
const DELIVERED: &str = "delivered-4711-of-nobodys-concern";
const SECRETS: [&str; 4] = [PASSWORD, PAYLOAD, HEADER, DELIVERED];

#[track_caller]
fn tells_nothing(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
        // As bytes, as numbers.
        let numbers = format!("{:?}", secret.as_bytes());
        let numbers = numbers.trim_matches(['[', ']']);
        assert!(
            !text.contains(numbers),
            "the bytes of {secret} are in\n{text}"
        );
    }
}

/// Logs in, publishes what is acked, returned, nacked and lost, consumes, and breaks off; all that is shown on the way.
async fn everything() -> String {
    let mut shown = String::new();
    let options = ConnectOptions::new()
        .credentials("app", PASSWORD)
        .connection_name("logged");
    shown += &format!("{options:?}");
    let (mut peer, connection) = connected_with(64 * 1024, Greeting::default(), options).await;
    let (channel, on) = confirm_channel(&mut peer, &connection, Default::default()).await;
    let message = || {
        Message::new(PAYLOAD)
            .header("h", HEADER)
            .message_id("id-1")
            .mandatory()
    };
    shown += &format!("{:?}", message());
    let mut confirms = Vec::new();
    for _ in 0..4 {
        confirms.push(channel.publish("e", "k", message()).await.unwrap());
    }
    let mut publishes = Vec::new();
    for _ in 0..4 {
        publishes.push(peer.expect_publish().await);
    }
    peer.send_ack(on, 1, false).await;
    peer.send_return(&publishes[1], ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 2, false).await;
    peer.send_nack(on, 3, false).await;
    // A return that nobody asked for.
    drop(channel.publish("e", "k", message()).await.unwrap());
    let fifth = peer.expect_publish().await;
    peer.send_return(&fifth, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 5, false).await;
    settle().await;

    let (plain, plain_on) = plain_channel(&mut peer, &connection).await;
    let ok = basic::ConsumeOk {
        consumer_tag: short!("c"),
    };
    let answer = async {
        peer.reply::<basic::Consume>(plain_on, ok).await;
    };
    let (consumer, ()) = tokio::join!(plain.consume(Consume::new(short!("q"))), answer);
    let mut consumer = consumer.unwrap();
    let properties = publishes[0].properties.clone();
    peer.send_deliver(plain_on, "c", 1, &properties, DELIVERED.as_bytes())
        .await;
    let delivery = consumer.next().await.unwrap().unwrap();
    assert_eq!(delivery.body(), DELIVERED.as_bytes());
    consumer
        .process_span(&delivery)
        .in_scope(|| delivery.ack())
        .unwrap();
    shown += &format!("{delivery:?} {:?}", delivery.acker());

    // A fault, so that there are warnings.
    peer.send_bytes(vec![0x42; 32]).await;
    for confirm in confirms {
        shown += &format!("{confirm:?}");
        let outcome = confirm.await;
        shown += &format!("{outcome:?}");
        if let Outcome::Returned(returned) = &outcome {
            shown += &format!("{returned:?}");
        }
    }
    let refused = channel.publish("e", "k", message()).await.unwrap_err();
    shown += &format!("{refused:?} {refused}");
    let error = amqp_client::error::Error::from(refused);
    shown += &format!("{error:?} {error}");
    shown += &format!("{connection:?} {channel:?} {:?}", connection.closed().await);
    drop((peer, connection, channel, plain, consumer, delivery));
    no_task_left().await;
    shown
}

#[tokio::test(start_paused = true)]
async fn no_payload_and_no_secret_is_shown_at_any_level() {
    capture();
    let shown = everything().await;
    let log = captured();
    tells_nothing(&shown);
    tells_nothing(&log);
    // It did log: frames, publishes, and what went wrong.
    for expected in [
        "basic.publish",
        "basic.deliver",
        "amqp_client::frames",
        "amqp_client::publish",
        "id-1",
        "settled",
        "WARN",
        "body_size=31",
    ] {
        assert!(log.contains(expected), "{expected} is not in\n{log}");
    }
    // And the spans by the names of OpenTelemetry's conventions.
    for [name, attribute] in [
        ["publish", "otel.name=publish e:k otel.kind=\"producer\""],
        [
            "publish",
            "messaging.operation.name=\"publish\" messaging.operation.type=\"send\"",
        ],
        ["publish", "messaging.destination.name=e:k"],
        [
            "publish",
            "messaging.rabbitmq.destination.routing_key=k messaging.message.id=id-1",
        ],
        ["publish", "messaging.message.body.size=31"],
        ["publish", "outcome=\"returned\" error.type=\"returned\""],
        ["rpc", "otel.name=basic.consume otel.kind=\"client\""],
        ["channel", "messaging.system=\"rabbitmq\" channel=1"],
        ["process", "otel.name=process q otel.kind=\"consumer\""],
        ["process", "messaging.rabbitmq.message.delivery_tag=1"],
    ] {
        let has = |line: &str| line.contains(&format!("{name}{{")) && line.contains(attribute);
        assert!(
            log.lines().any(has),
            "no span {name} with {attribute} in\n{log}"
        );
    }
}

/// A refused login tells its user, not the password.
#[tokio::test(start_paused = true)]
async fn refused_credentials_do_not_show_the_password() {
    capture();
    let (mut peer, stream) = amqp_tests::Peer::in_memory(4096);
    let options = ConnectOptions::new().credentials("app", PASSWORD);
    let server = async {
        let start_ok = peer.greet(&Greeting::default()).await;
        assert!(start_ok.response.to_string_lossy().contains(PASSWORD));
        // A broker that repeats what it was told is not our doing; one that does not is.
        peer.close_connection(ReplyCode::ACCESS_REFUSED, "Login was refused")
            .await;
    };
    let (opened, ()) = tokio::join!(amqp_client::Connection::open_over(stream, options), server);
    let error = opened.unwrap_err();
    tells_nothing(&format!("{error} {error:?}"));
    tells_nothing(&captured());

    let uri = format!("amqp://app:{PASSWORD}@localhost/v?heartbeat=nonsense");
    let error = ConnectOptions::try_from(uri.as_str()).unwrap_err();
    tells_nothing(&format!("{error} {error:?}"));
    let uri = format!("amqp://app:{PASSWORD}@localhost/v");
    let uri: amqp_client::Uri = uri.parse().unwrap();
    tells_nothing(&format!("{uri} {uri:?}"));
}
