//! Whoever waits is woken, also when others gave up, consumers stall, or a waker owns what it wakes.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use amqp_client::codec::{ReplyCode, basic, content, short};
use amqp_client::{Confirm, ConnectOptions, Consume, Consumer, Message, Methods, Overflow};
use amqp_tests::Peer;
use futures_util::StreamExt as _;
use tokio::io::DuplexStream;

use super::support::{confirm_channel, connected_with, on_a_thread, plain_channel, settle};

const PIPE: usize = 1 << 20;

/// A consumer that may keep one byte, on a peer without heartbeats, which would hide that nobody is woken.
fn stalling() -> Consume {
    Consume::new("q").budget(1, Overflow::StallConnection)
}

async fn start(
    peer: &mut Peer<DuplexStream>,
    on: u16,
    channel: &Methods,
    consume: Consume,
) -> Consumer {
    let answer = async {
        let ok = basic::ConsumeOk {
            consumer_tag: short!("c"),
        };
        peer.reply::<basic::Consume>(on, ok).await;
    };
    let (consumer, ()) = tokio::join!(channel.consume(consume), answer);
    consumer.unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_readers_of_returns_are_woken() {
    let (mut peer, connection) = connected_with(PIPE, Default::default(), Default::default()).await;
    let (channel, on) = confirm_channel(&mut peer, &connection, Default::default()).await;
    let mut first = channel.returns();
    let reader = tokio::spawn(async move { first.next().await });
    settle().await;
    // A second one that gives up.
    let mut second = channel.returns();
    tokio::time::timeout(Duration::from_millis(10), second.next())
        .await
        .unwrap_err();
    drop(second);
    let message = Message::new("x").mandatory();
    let confirm = channel.publish("", "q", message).await.unwrap();
    let publish = peer.expect_publish().await;
    peer.send_return(&publish, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 1, false).await;
    settle().await;
    drop(confirm);
    let returned = tokio::time::timeout(Duration::from_secs(1), reader).await;
    assert!(returned.unwrap().unwrap().unwrap().is_ok());
}

/// A waker that owns a handle, as the task of a simple executor may.
struct Owning {
    _confirm: Mutex<Option<Confirm>>,
}

impl Wake for Owning {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_may_own_a_handle() {
    on_a_thread(Duration::from_secs(20), "nothing locks itself out", async {
        let (mut peer, connection) =
            connected_with(PIPE, Default::default(), Default::default()).await;
        let (channel, _) = confirm_channel(&mut peer, &connection, Default::default()).await;
        let mut first = channel.publish("", "q", Message::new("1")).await.unwrap();
        let second = channel.publish("", "q", Message::new("2")).await.unwrap();
        let waker = Waker::from(Arc::new(Owning {
            _confirm: Mutex::new(Some(second)),
        }));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut first).poll(&mut context).is_pending());
        drop(waker);
        // The last reference to the waker goes with its place in the client's state.
        drop(first);
    });
}

#[tokio::test(start_paused = true)]
async fn a_stalled_consumer_can_be_cancelled() {
    let options = ConnectOptions::new().heartbeat(0);
    let (mut peer, connection) = connected_with(PIPE, Default::default(), options).await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let mut consumer = start(&mut peer, on, &channel, stalling()).await;
    peer.send_deliver(on, "c", 1, &Default::default(), b"x")
        .await;
    settle().await;
    let answer = async {
        let ok = basic::CancelOk {
            consumer_tag: short!("c"),
        };
        peer.reply::<basic::Cancel>(on, ok).await;
    };
    let (cancelled, ()) = tokio::join!(consumer.cancel(), answer);
    cancelled.unwrap();
    assert_eq!(consumer.next().await.unwrap().unwrap().body(), b"x");
    assert!(consumer.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_channel_and_a_connection_with_a_stalled_consumer_can_be_closed() {
    let options = ConnectOptions::new().heartbeat(0);
    let (mut peer, connection) = connected_with(PIPE, Default::default(), options).await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let consumer = start(&mut peer, on, &channel, stalling()).await;
    peer.send_deliver(on, "c", 1, &Default::default(), b"x")
        .await;
    settle().await;
    let (closed, _) = tokio::join!(channel.close(), peer.accept_channel_close(on));
    closed.unwrap();
    drop(consumer);

    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let _consumer = start(&mut peer, on, &channel, stalling()).await;
    peer.send_deliver(on, "c", 1, &Default::default(), b"x")
        .await;
    settle().await;
    let (closed, _) = tokio::join!(connection.close(), peer.accept_close());
    closed.unwrap();
}

/// The consumer takes what stalls the connection while the connection's task goes to sleep, over and over.
#[test]
fn a_connection_that_stalls_goes_on() {
    const COUNT: u64 = 20_000;
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let options = ConnectOptions::new().heartbeat(0);
            let (mut peer, connection) = connected_with(PIPE, Default::default(), options).await;
            let (channel, on) = plain_channel(&mut peer, &connection).await;
            let mut consumer = start(&mut peer, on, &channel, stalling().no_ack()).await;
            let deliver = basic::Deliver {
                consumer_tag: short!("c"),
                delivery_tag: 1,
                ..Default::default()
            };
            let mut bytes = Vec::new();
            content::encode(on, &deliver, &Default::default(), b"x", 4096, &mut bytes).unwrap();
            let feeder = tokio::spawn(async move {
                for _ in 0..COUNT {
                    peer.send_bytes(bytes.clone()).await;
                }
                peer
            });
            for _ in 0..COUNT {
                drop(consumer.next().await.unwrap().unwrap());
            }
            drop(feeder.await.unwrap());
        });
        done.send(()).unwrap();
    });
    is_done
        .recv_timeout(Duration::from_secs(60))
        .expect("the consumer is not forgotten");
}
