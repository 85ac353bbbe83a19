//! Neither payloads nor secrets go into logs, at any level, nor into what errors and handles show.

use std::io;
use std::sync::{Arc, Mutex};

use amqp_client::codec::{ReplyCode, basic, short};
use amqp_client::{ConnectOptions, Consume, Message, Outcome};
use amqp_tests::peer::Greeting;
use futures_util::StreamExt;
use tracing_subscriber::fmt::MakeWriter;

use super::support::{confirm_channel, connected_with, no_task_left, plain_channel, settle};

/// What a subscriber writes.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Written;

    fn make_writer(&'a self) -> Written {
        self.clone()
    }
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
    delivery.ack().unwrap();
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
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_writer(written.clone())
        .with_ansi(false)
        .finish();
    let shown = {
        let _guard = tracing::subscriber::set_default(subscriber);
        everything().await
    };
    tells_nothing(&shown);
    let log = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
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
}

/// A refused login tells its user, not the password.
#[tokio::test(start_paused = true)]
async fn refused_credentials_do_not_show_the_password() {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(written.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
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
    tells_nothing(&String::from_utf8_lossy(&written.0.lock().unwrap()));

    let uri = format!("amqp://app:{PASSWORD}@localhost/v?heartbeat=nonsense");
    let error = ConnectOptions::try_from(uri.as_str()).unwrap_err();
    tells_nothing(&format!("{error} {error:?}"));
    let uri = format!("amqp://app:{PASSWORD}@localhost/v");
    let uri: amqp_client::Uri = uri.parse().unwrap();
    tells_nothing(&format!("{uri} {uri:?}"));
}
