//! What the modules share: a client and a peer at the two ends of a pipe, and futures polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use amqp_client::{ConfirmChannel, ConfirmOptions, ConnectOptions, Connection, Message, Outcome};
use amqp_tests::peer::{Greeting, Peer};
use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// A peer at one end of a pipe.
pub(crate) type MemoryPeer = Peer<DuplexStream>;

/// How much the pipe holds in each direction unless said otherwise.
pub(crate) const PIPE: usize = 64 * 1024;

/// An open connection and its peer.
pub(crate) async fn connected() -> (MemoryPeer, Connection) {
    connected_with(PIPE, Greeting::default(), ConnectOptions::new()).await
}

/// An open connection over a pipe that holds `capacity` bytes in each direction.
pub(crate) async fn connected_with(
    capacity: usize,
    greeting: Greeting,
    options: ConnectOptions,
) -> (MemoryPeer, Connection) {
    let (mut peer, stream) = Peer::in_memory(capacity);
    let (connection, _) = tokio::join!(
        Connection::open_over(stream, options),
        peer.handshake(greeting)
    );
    (peer, connection.unwrap())
}

/// An open connection with a channel in confirm mode, and the channel's number.
pub(crate) async fn confirming() -> (MemoryPeer, Connection, ConfirmChannel, u16) {
    confirming_with(ConfirmOptions::default()).await
}

/// The same, with these bounds.
pub(crate) async fn confirming_with(
    options: ConfirmOptions,
) -> (MemoryPeer, Connection, ConfirmChannel, u16) {
    let (mut peer, connection) = connected().await;
    let (channel, number) = confirm_channel(&mut peer, &connection, options).await;
    (peer, connection, channel, number)
}

/// One more channel in confirm mode.
pub(crate) async fn confirm_channel(
    peer: &mut MemoryPeer,
    connection: &Connection,
    options: ConfirmOptions,
) -> (ConfirmChannel, u16) {
    let client = async {
        let channel = connection.open_channel().await.unwrap();
        channel.confirm_select_with(options).await.unwrap()
    };
    tokio::join!(client, peer.open_confirm_channel())
}

/// One more channel in no mode.
pub(crate) async fn plain_channel(
    peer: &mut MemoryPeer,
    connection: &Connection,
) -> (amqp_client::Channel, u16) {
    let (channel, number) = tokio::join!(connection.open_channel(), peer.open_channel());
    (channel.unwrap(), number)
}

/// A mandatory message with this body.
pub(crate) fn mandatory(body: impl Into<Vec<u8>>) -> Message {
    Message::new(body.into()).mandatory()
}

/// An outcome in a word.
pub(crate) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Acked => "acked",
        Outcome::Returned(_) => "returned",
        Outcome::Nacked(_) => "nacked",
        Outcome::Unknown { .. } => "unknown",
    }
}

/// Lets all other tasks run until none has anything to do. Only for a paused clock, which it moves by a millisecond.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Runs a test on a thread with a runtime of its own, which is given up if it takes longer than this: it may lock itself
/// out, or never yield.
pub(crate) fn on_a_thread(
    patience: Duration,
    expected: &str,
    test: impl Future<Output = ()> + Send + 'static,
) {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            test.await;
            done.send(()).unwrap();
        });
    });
    is_done.recv_timeout(patience).expect(expected);
}

/// Fails if any task is left on this runtime, after what is about to end has ended.
///
/// The body of a test is no task; a peer that was spawned is.
#[track_caller]
pub(crate) fn no_task_left() -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        settle().await;
        let alive = Handle::current().metrics().num_alive_tasks();
        assert_eq!(alive, 0, "{caller}: tasks are left");
    }
}

/// What a future gives, and how much virtual time that took.
pub(crate) async fn timed<F: Future>(future: F) -> (F::Output, Duration) {
    let began = Instant::now();
    (future.await, began.elapsed())
}

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Woken {
    /// How often it was woken so far.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a future once, and remembers whether it is woken.
pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> (Poll<F::Output>, Arc<Woken>) {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    (future.poll(&mut Context::from_waker(&waker)), woken)
}

/// When a future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropAt {
    /// Right after it was polled so often.
    Polled(usize),
    /// After it was polled so often, and was woken once more.
    Woken(usize),
}

/// Drives a future until it is ready or is to be dropped; `None` if it was dropped.
///
/// # Panics
/// It is woken by nothing, not even a deadline of its own.
pub(crate) async fn drop_at<F: Future>(future: F, at: DropAt) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let (DropAt::Polled(polls) | DropAt::Woken(polls)) = at;
    for poll in 1..=polls {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if poll < polls || matches!(at, DropAt::Woken(_)) {
            let rung = tokio::time::timeout(Duration::from_secs(3600), bell.0.notified());
            rung.await
                .expect("a future that is pending is woken at last");
        }
    }
    None
}

#[derive(Default)]
struct Bell(tokio::sync::Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Tries every moment at which a future can be dropped: `once` is run with each until the future was ready in time,
/// which it says.
pub(crate) async fn at_every_drop<F: Future<Output = bool>>(mut once: impl FnMut(DropAt) -> F) {
    for kind in [DropAt::Polled, DropAt::Woken] {
        let mut polls = 0;
        while !once(kind(polls)).await {
            polls += 1;
            assert!(polls < 1000, "it is never ready");
        }
        assert!(polls > 0, "it was ready without being polled");
    }
}
