//! What becomes of a connection when nobody holds it any more, or its runtime goes.

use std::sync::mpsc;
use std::time::Duration;

use amqp_client::codec::{ReplyCode, channel, confirm, connection, short};
use amqp_client::error::{CloseCause, ErrorKind};
use amqp_client::{
    ConfirmOptions, ConnectOptions, Connection, Consume, Message, Outcome, QueueDeclare,
    UnknownReason,
};
use amqp_tests::peer::{Greeting, Peer};
use futures_util::StreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use super::broker::{AutoBroker, Rules};
use super::support::{
    confirm_channel, confirming, connected, connected_with, no_task_left, plain_channel, settle,
};

#[tokio::test(start_paused = true)]
async fn last_handle_closes_politely() {
    let (mut peer, connection) = connected().await;
    let other = connection.clone();
    drop(connection);
    peer.expect_silence(Duration::from_secs(60)).await;
    assert!(other.is_open());
    drop(other);
    let close = peer.accept_close().await;
    assert_eq!(close.reply_code, ReplyCode::REPLY_SUCCESS);
    drop(peer);
    no_task_left().await;
}

/// Channels, consumers, deliveries and confirms are handles of the connection too.
#[tokio::test(start_paused = true)]
async fn anything_of_a_connection_keeps_it_open() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    drop(connection);
    let start = channel.consume(Consume::new(short!("q")));
    let answer = async {
        let ok = amqp_client::codec::basic::ConsumeOk {
            consumer_tag: short!("c"),
        };
        peer.reply::<amqp_client::codec::basic::Consume>(on, ok)
            .await;
    };
    let (consumer, ()) = tokio::join!(start, answer);
    let mut consumer = consumer.unwrap();
    drop(channel);
    peer.expect_silence(Duration::from_secs(60)).await;
    peer.send_deliver(on, "c", 1, &Default::default(), b"x")
        .await;
    let delivery = consumer.next().await.unwrap().unwrap();
    drop(consumer);
    let cancel = amqp_client::codec::basic::CancelOk {
        consumer_tag: short!("c"),
    };
    peer.reply::<amqp_client::codec::basic::Cancel>(on, cancel)
        .await;
    peer.expect_silence(Duration::from_secs(60)).await;
    delivery.ack().unwrap();
    peer.expect::<amqp_client::codec::basic::Ack>(on).await;
    drop(delivery);
    peer.accept_channel_close(on).await;
    peer.accept_close().await;
    drop(peer);
    no_task_left().await;
}

/// What was published is confirmed before the connection closes, though nobody will ask.
#[tokio::test(start_paused = true)]
async fn last_handle_waits_for_confirms() {
    let (mut peer, connection, channel, on) = confirming().await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    drop((confirm, channel, connection));
    peer.expect_publish().await;
    peer.expect_silence(Duration::from_secs(10)).await;
    peer.send_ack(on, 1, false).await;
    peer.accept_channel_close(on).await;
    peer.accept_close().await;
    drop(peer);
    no_task_left().await;
}

#[tokio::test(start_paused = true)]
async fn last_handle_does_not_wait_for_ever() {
    // Nothing is confirmed, and close is not answered.
    let (mut peer, connection, channel, _) = confirming().await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    let began = Instant::now();
    drop((confirm, channel, connection));
    peer.expect_publish().await;
    peer.set_deadline(Duration::from_secs(60));
    peer.expect::<connection::Close>(0).await;
    assert_eq!(began.elapsed().as_secs_f64().round(), 15.0);
    peer.expect_end().await;
    assert!(
        began.elapsed() <= Duration::from_secs(31),
        "{:?}",
        began.elapsed()
    );
    drop(peer);
    no_task_left().await;

    // Nothing is read either.
    let (mut peer, connection) =
        connected_with(1024, Greeting::default(), ConnectOptions::new()).await;
    let (channel, _) = plain_channel(&mut peer, &connection).await;
    channel
        .publish("", "q", Message::new(vec![0; 100_000]))
        .await
        .unwrap();
    drop((channel, connection));
    sleep(Duration::from_secs(32)).await;
    no_task_left().await;
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn dropped_channel_closes_and_its_number_is_free() {
    let (mut peer, connection) = connected().await;
    let (first, on) = plain_channel(&mut peer, &connection).await;
    drop(first);
    peer.accept_channel_close(on).await;
    settle().await;
    assert_eq!(connection.open_channels(), 0);
    let (_second, again) = plain_channel(&mut peer, &connection).await;
    assert_eq!(again, on);
}

// ----- runtimes -----

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// The runtime that the connection lives on is shut down: whoever waits for something of it on another one is told.
#[test]
fn runtime_that_goes_leaves_nobody_waiting() {
    let (connections, elsewhere) = (runtime(), runtime());
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let server = elsewhere.spawn(async move {
        peer.handshake(Greeting::default()).await;
        AutoBroker::start(
            peer,
            Rules {
                mute: vec![
                    amqp_client::codec::MethodId::QUEUE_DECLARE,
                    amqp_client::codec::MethodId::CONNECTION_CLOSE,
                ],
                verdict: |_| super::broker::Verdict::Silent,
                ..Rules::default()
            },
        )
    });
    let opening = Connection::open_over(stream, ConnectOptions::new());
    let connection = connections
        .block_on(async { tokio::spawn(opening).await })
        .unwrap()
        .unwrap();
    let broker = elsewhere.block_on(server).unwrap();
    let (confirming, other, mut consumer) = elsewhere.block_on(async {
        let options = ConfirmOptions::default().max_in_flight(1).timeout(None);
        let confirming = connection.open_channel().await.unwrap();
        let confirming = confirming.confirm_select_with(options).await.unwrap();
        let other = connection.open_channel().await.unwrap();
        let consumer = other.consume(Consume::new(short!("q"))).await.unwrap();
        (confirming, other, consumer)
    });
    let (done, all_done) = mpsc::channel();
    let waiting = elsewhere.spawn({
        let connection = connection.clone();
        async move {
            let mut returns = confirming.returns();
            let mut events = connection.events();
            let confirm = confirming
                .publish("", "q", Message::new("1"))
                .await
                .unwrap();
            let all = async {
                tokio::join!(
                    confirm,
                    confirming.publish("", "q", Message::new("2")),
                    confirming.wait_for_confirms(Duration::from_secs(600)),
                    other.queue_declare(QueueDeclare::new(short!("q"))),
                    consumer.next(),
                    returns.next(),
                    async { while events.next().await.is_some() {} },
                    connection.closed(),
                )
            };
            let (outcome, published, counts, declared, delivered, returned, (), closed) = all.await;
            assert_eq!(closed.cause, Some(CloseCause::Abandoned));
            let Outcome::Unknown {
                reason: UnknownReason::ConnectionClosed { .. },
                ..
            } = outcome
            else {
                panic!("{outcome:?}")
            };
            assert_eq!(
                published.unwrap_err().publication.message.body(),
                "2".as_bytes()
            );
            assert_eq!(counts.unwrap().unknown, 1);
            assert_eq!(declared.unwrap_err().kind(), ErrorKind::ConnectionClosed);
            assert!(delivered.unwrap().is_err());
            assert!(returned.is_none());
            // And whatever is asked for now.
            assert!(connection.open_channel().await.is_err());
            assert!(connection.close().await.is_err());
            assert!(other.close().await.is_err());
            done.send(()).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    connections.shutdown_background();
    let told = all_done.recv_timeout(Duration::from_secs(20));
    if told.is_err() && waiting.is_finished() {
        elsewhere.block_on(waiting).unwrap();
    }
    told.expect("everybody is told");
    elsewhere.block_on(broker.ended());
}

/// The runtime that is shut down is the one of a handshake.
#[test]
fn runtime_that_goes_during_the_handshake() {
    let (connections, elsewhere) = (runtime(), runtime());
    let (_peer, stream) = Peer::in_memory(64 * 1024);
    let (sender, receiver) = mpsc::channel();
    let handle = connections.handle().clone();
    elsewhere.spawn(async move {
        // The task of the connection is spawned on the runtime that is entered at the time.
        let mut opening = Box::pin(Connection::open_over(stream, ConnectOptions::new()));
        let opened = std::future::poll_fn(move |cx| {
            let _entered = handle.enter();
            opening.as_mut().poll(cx)
        });
        sender.send(opened.await.map(drop)).unwrap();
    });
    std::thread::sleep(Duration::from_millis(200));
    connections.shutdown_background();
    let result = receiver
        .recv_timeout(Duration::from_secs(20))
        .expect("it ends");
    assert!(result.is_err());
}

/// Handles are dropped outside of any runtime, and after theirs is gone.
#[test]
fn handles_may_be_dropped_anywhere() {
    let runtime = runtime();
    let (broker, connection, channel, confirm) = runtime.block_on(async {
        let (mut peer, connection) = connected().await;
        let (channel, _) = confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
        let broker = AutoBroker::start(peer, Rules::default());
        let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
        (broker, connection, channel, confirm)
    });
    let late = connection.clone();
    drop(connection);
    drop(channel);
    drop(confirm);
    runtime.block_on(async { sleep(Duration::from_millis(100)).await });
    assert!(late.is_open());
    drop(late);
    let record = runtime.block_on(broker.ended());
    assert_eq!(
        record.count(amqp_client::codec::MethodId::CONNECTION_CLOSE),
        1
    );

    let connection = runtime.block_on(async {
        let (peer, connection) = connected().await;
        drop(peer);
        connection
    });
    drop(runtime);
    assert!(!connection.is_open());
    drop(connection);
}

/// A channel that nobody has got yet when its server closes it: the one who asked for it is told why.
#[tokio::test(start_paused = true)]
async fn channel_that_is_closed_right_after_it_was_opened() {
    let (mut peer, connection) = connected().await;
    let server = async {
        let (on, _) = peer.expect_any::<channel::Open>().await;
        let mut bytes = Vec::new();
        use amqp_client::codec::frame::encode_method;
        encode_method(on, &channel::OpenOk::default(), &mut bytes).unwrap();
        let close = channel::Close {
            reply_code: ReplyCode::RESOURCE_ERROR,
            reply_text: short!("no more"),
            ..Default::default()
        };
        encode_method(on, &close, &mut bytes).unwrap();
        peer.send_bytes(bytes).await;
        peer.expect::<channel::CloseOk>(on).await;
    };
    let (channel, ()) = tokio::join!(connection.open_channel(), server);
    let channel = channel.unwrap();
    let closed = channel.closed().expect("it is known");
    assert_eq!(closed.code, ReplyCode::RESOURCE_ERROR);
    let ended = tokio::time::timeout(Duration::from_secs(5), channel.returns().next()).await;
    assert!(ended.expect("nothing will come back").is_none());
    let error = channel.confirm_select().await.unwrap_err();
    assert_eq!(error.closed().unwrap().code, ReplyCode::RESOURCE_ERROR);
    // Its number is free, and the next one has nothing to do with it.
    let (next, _) = plain_channel(&mut peer, &connection).await;
    assert!(next.closed().is_none());
    let select = async {
        peer.reply::<confirm::Select>(1, confirm::SelectOk {}).await;
    };
    let (next, ()) = tokio::join!(next.confirm_select(), select);
    next.unwrap();
}
