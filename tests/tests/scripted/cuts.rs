//! The connection cut at every byte of a session, in both directions: each publish ends in exactly one way, and in
//! the right one, nothing stays behind, and the next connection works.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use amqp_client::codec::{Frame, Limits, MethodId, RawFrame};
use amqp_client::error::{CloseCause, Error, ErrorKind, HandshakeError, NotSent, UsageError};
use amqp_client::{
    ConfirmOptions, ConnectOptions, Connection, Followed, Message, Outcome, UnknownReason,
};
use amqp_tests::peer::{Greeting, Peer};
use amqp_tests::wire::Event;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::support::{MemoryPeer, no_task_left, timed};

/// How many publishes a session has, and how many of them are pipelined.
const PUBLISHES: usize = 50;
const WINDOW: usize = 10;

/// One end of a pipe that breaks after so many bytes.
struct Cut {
    /// `None` once it is broken.
    inner: Option<DuplexStream>,
    reads: u64,
    writes: u64,
    how: Break,
    counts: Arc<Counts>,
}

/// How a pipe breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Break {
    /// The stream ends.
    End,
    /// It is reset.
    Reset,
    /// Nothing goes through any more, and nobody is told.
    Hold,
}

/// What went through.
#[derive(Default)]
struct Counts {
    read: AtomicU64,
    written: AtomicU64,
}

impl Cut {
    fn break_if_due(&mut self) {
        let read = self.counts.read.load(Ordering::Relaxed);
        let written = self.counts.written.load(Ordering::Relaxed);
        if read >= self.reads || written >= self.writes {
            self.inner = None;
        }
    }
}

impl AsyncRead for Cut {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.break_if_due();
        let left = this.reads - this.counts.read.load(Ordering::Relaxed);
        let Some(inner) = &mut this.inner else {
            return match this.how {
                Break::End => Poll::Ready(Ok(())),
                Break::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Break::Hold => Poll::Pending,
            };
        };
        let room = buf
            .remaining()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut bytes = vec![0; room.min(4096)];
        let mut some = ReadBuf::new(&mut bytes);
        std::task::ready!(Pin::new(inner).poll_read(cx, &mut some))?;
        buf.put_slice(some.filled());
        let count = some.filled().len() as u64;
        this.counts.read.fetch_add(count, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Cut {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.break_if_due();
        let left = this.writes - this.counts.written.load(Ordering::Relaxed);
        let Some(inner) = &mut this.inner else {
            return match this.how {
                Break::End | Break::Reset => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                Break::Hold => Poll::Pending,
            };
        };
        let some = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        let count = std::task::ready!(Pin::new(inner).poll_write(cx, some))?;
        this.counts
            .written
            .fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

/// What the broker's side says to a publish, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ack,
    Nack,
    Return,
}

fn verdict(number: usize) -> Verdict {
    match number % WINDOW {
        2 => Verdict::Nack,
        3 | 7 => Verdict::Return,
        _ => Verdict::Ack,
    }
}

/// What became of one publish on the client's side.
type Fate = Result<Outcome, NotSent>;

/// What a session came to.
struct Session {
    /// Why there was nothing to publish on.
    failed: Option<Error>,
    fates: Vec<Fate>,
    closed: Option<Result<(), Error>>,
}

async fn client(stream: Cut) -> Session {
    let mut session = Session {
        failed: None,
        fates: Vec::new(),
        closed: None,
    };
    let connection = match Connection::open_over(stream, ConnectOptions::new()).await {
        Ok(connection) => connection,
        Err(error) => {
            session.failed = Some(error);
            return session;
        }
    };
    let channel = async {
        let channel = connection.open_channel().await?;
        channel.confirm_select_with(ConfirmOptions::default()).await
    };
    match channel.await {
        Ok(channel) => {
            for window in 0..PUBLISHES / WINDOW {
                let mut confirms = Vec::new();
                for number in window * WINDOW + 1..=(window + 1) * WINDOW {
                    let message = Message::new(number.to_string()).mandatory();
                    confirms.push(channel.publish("", "q", message).await);
                }
                for confirm in confirms {
                    session.fates.push(match confirm {
                        Ok(confirm) => Ok(confirm.await),
                        Err(error) => Err(error.reason),
                    });
                }
            }
            // Whether it succeeds says the connection's close.
            let _ = channel.close().await;
        }
        Err(error) => session.failed = Some(error),
    }
    session.closed = Some(connection.close().await);
    session
}

/// What the broker's side got whole, by the publishes' numbers.
async fn broker(mut peer: MemoryPeer, heartbeat: u16) -> Vec<usize> {
    let mut got = Vec::new();
    // The dialogue breaks off wherever it does.
    let _ = serve(&mut peer, heartbeat, &mut got).await;
    got
}

/// Ends with `None` as soon as the connection does.
async fn serve(peer: &mut MemoryPeer, heartbeat: u16, got: &mut Vec<usize>) -> Option<()> {
    use amqp_client::codec::{LongStr, channel, confirm, connection};
    let Event::Protocol(_) = peer.next().await else {
        return None;
    };
    let greeting = Greeting::default();
    let start = connection::Start {
        version_minor: 9,
        server_properties: greeting.server_properties,
        mechanisms: LongStr::from(greeting.mechanisms),
        locales: LongStr::from("en_US"),
        ..Default::default()
    };
    peer.send(0, start).await;
    loop {
        let Event::Frame(frame) = peer.next().await else {
            return None;
        };
        let (on, Some(method)) = (frame.channel, frame.method()) else {
            // The content of a publish.
            if let Ok(Frame::Body { payload, .. }) = frame.decode() {
                got.push(std::str::from_utf8(payload).unwrap().parse().unwrap());
                if got.len().is_multiple_of(WINDOW) {
                    confirm_window(peer, frame.channel, got.len() - WINDOW).await;
                }
            }
            continue;
        };
        match method.id() {
            MethodId::CONNECTION_START_OK => {
                let tune = connection::Tune {
                    heartbeat,
                    ..greeting.tune
                };
                peer.send(0, tune).await;
            }
            MethodId::CONNECTION_OPEN => peer.send(0, connection::OpenOk::default()).await,
            MethodId::CHANNEL_OPEN => peer.send(on, channel::OpenOk::default()).await,
            MethodId::CONFIRM_SELECT => peer.send(on, confirm::SelectOk {}).await,
            MethodId::CHANNEL_CLOSE => peer.send(on, channel::CloseOk {}).await,
            MethodId::CONNECTION_CLOSE => peer.send(0, connection::CloseOk {}).await,
            _ => {}
        }
    }
}

/// Confirms the ten publishes after `base`, out of order, with returns and with multiple over tags that are settled.
async fn confirm_window(peer: &mut MemoryPeer, on: u16, base: usize) {
    use amqp_client::codec::basic::Properties;
    use amqp_client::codec::{ReplyCode, basic, short};
    let tag = |n: usize| (base + n) as u64;
    for (n, other) in [(3, 5), (7, 9)] {
        let method = basic::Return {
            reply_code: ReplyCode::NO_ROUTE,
            reply_text: short!("NO_ROUTE"),
            routing_key: short!("q"),
            ..Default::default()
        };
        let body = (base + n).to_string();
        peer.send_content(on, method, &Properties::EMPTY, body.as_bytes())
            .await;
        peer.send_ack(on, tag(other), false).await;
    }
    peer.send_nack(on, tag(2), false).await;
    peer.send_ack(on, tag(7), true).await;
    peer.send_ack(on, tag(10), true).await;
}

/// Runs a session that is cut after so many bytes, and checks all that can be told of it.
///
/// `starts` has the offset of each publish in what the client sends; empty, where that is still to be found out.
async fn session(
    reads: u64,
    writes: u64,
    how: Break,
    heartbeat: u16,
    starts: &[u64],
) -> (Session, Arc<Counts>) {
    let (peer, stream) = Peer::in_memory(64 * 1024);
    let counts = Arc::new(Counts::default());
    let cut = Cut {
        inner: Some(stream),
        reads,
        writes,
        how,
        counts: counts.clone(),
    };
    let broker = tokio::spawn(broker(peer, heartbeat));
    let (session, took) = timed(client(cut)).await;
    let got = broker.await.unwrap();
    let longest = match (how, heartbeat) {
        // The goodbye of a broken connection may take a second.
        (Break::End | Break::Reset, _) => 1,
        // Opening: 10 s for the handshake, or 30 for each call and for the close. Publishing: 30 for the confirms
        // of each window, for the channel's close and for the connection's.
        (Break::Hold, 0) => 5 * 30 + 30 + 30 + 1,
        // Two intervals, from the end of the handshake on.
        (Break::Hold, heartbeat) => 10 + 2 * u64::from(heartbeat) + 1,
    };
    assert!(took <= Duration::from_secs(longest), "it took {took:?}");
    no_task_left().await;
    let written = counts.written.load(Ordering::Relaxed);
    check(&session, &got, written, starts, how);
    (session, counts)
}

fn check(session: &Session, got: &[usize], written: u64, starts: &[u64], how: Break) {
    if let Some(error) = &session.failed {
        assert!(session.fates.is_empty());
        let deadline = how == Break::Hold && error.kind() == ErrorKind::Timeout;
        assert!(deadline || is_cut(error), "{error:?}");
        assert!(got.is_empty());
        return;
    }
    assert_eq!(session.fates.len(), PUBLISHES);
    for (index, fate) in session.fates.iter().enumerate() {
        let number = index + 1;
        let arrived = got.contains(&number);
        let start = starts.get(index).copied().unwrap_or(u64::MAX);
        match fate {
            Ok(Outcome::Acked) => {
                assert_eq!((arrived, verdict(number)), (true, Verdict::Ack), "{number}");
            }
            Ok(Outcome::Nacked(publication)) => {
                assert_eq!(
                    (arrived, verdict(number)),
                    (true, Verdict::Nack),
                    "{number}"
                );
                assert_eq!(publication.message.body(), number.to_string().as_bytes());
            }
            Ok(Outcome::Returned(returned)) => {
                assert_eq!(
                    (arrived, verdict(number)),
                    (true, Verdict::Return),
                    "{number}"
                );
                assert!(matches!(
                    returned.followed,
                    Followed::Ack | Followed::Nothing
                ));
                let body = returned.publication.message.body();
                assert_eq!(body, number.to_string().as_bytes());
            }
            Ok(Outcome::Unknown {
                publication,
                reason,
            }) => {
                assert_eq!(publication.message.body(), number.to_string().as_bytes());
                match reason {
                    UnknownReason::ConnectionClosed {
                        written: of_it,
                        closed,
                    } => {
                        assert!(closed.cause.as_ref().is_some_and(is_break), "{closed:?}");
                        // What was handed over to be written when the heartbeat failed counts as written.
                        let may_be = how == Break::Hold && *of_it;
                        let is = start < written;
                        assert!(may_be || *of_it == is, "{number}: {start} {written}");
                        assert!(*of_it || !arrived);
                    }
                    UnknownReason::TimedOut => assert_eq!(how, Break::Hold),
                    reason => panic!("{number}: {reason:?}"),
                }
            }
            Err(NotSent::Usage(
                UsageError::ChannelClosed(closed) | UsageError::ConnectionClosed(closed),
            )) => {
                assert!(!arrived && start >= written, "{number}: {closed}");
            }
            Err(reason) => panic!("{number}: {reason}"),
        }
    }
}

/// Whether this is what a connection that breaks ends with.
fn is_break(cause: &CloseCause) -> bool {
    match cause {
        CloseCause::Connection(closed) => closed.cause.as_ref().is_some_and(is_break),
        cause => matches!(
            cause,
            CloseCause::Io(_)
                | CloseCause::EndOfStream
                | CloseCause::HandshakeTimeout(_)
                | CloseCause::HeartbeatTimeout(_)
        ),
    }
}

/// Whether an error says that the connection went.
fn is_cut(error: &Error) -> bool {
    let closed = match error.handshake() {
        Some(
            HandshakeError::CredentialsProbablyRefused(closed)
            | HandshakeError::Closed { closed, .. },
        ) => Some(&**closed),
        Some(_) => None,
        None => error.closed(),
    };
    closed.is_some_and(|closed| closed.cause.as_ref().is_some_and(is_break))
}

/// Where each publish begins in what a client sends that nobody cuts off.
async fn publish_offsets() -> (Vec<u64>, u64, u64) {
    let (session, counts) = session(u64::MAX, u64::MAX, Break::End, 0, &[]).await;
    for (index, fate) in session.fates.iter().enumerate() {
        let expected = verdict(index + 1);
        assert!(
            matches!(
                (fate, expected),
                (Ok(Outcome::Acked), Verdict::Ack)
                    | (Ok(Outcome::Nacked(_)), Verdict::Nack)
                    | (Ok(Outcome::Returned(_)), Verdict::Return)
            ),
            "{index}: {fate:?}"
        );
    }
    session.closed.unwrap().unwrap();
    let sent = sent_bytes().await;
    assert_eq!(sent.len() as u64, counts.written.load(Ordering::Relaxed));
    let mut starts = Vec::new();
    let mut at = 8;
    while at < sent.len() {
        let (raw, len) = RawFrame::parse(&sent[at..], &Limits::default())
            .unwrap()
            .unwrap();
        if let Frame::Method { method, .. } = raw.decode(&Limits::default()).unwrap()
            && method.id() == MethodId::BASIC_PUBLISH
        {
            starts.push(at as u64);
        }
        at += len;
    }
    assert_eq!(starts.len(), PUBLISHES);
    (
        starts,
        counts.read.load(Ordering::Relaxed),
        sent.len() as u64,
    )
}

/// All that a client sends in an undisturbed session.
async fn sent_bytes() -> Vec<u8> {
    let (peer, stream) = Peer::in_memory(64 * 1024);
    let (tap, to_client) = tokio::io::duplex(64 * 1024);
    let (mut from_client, mut to_peer) = tokio::io::split(tap);
    let (mut from_peer, mut to_tap) = tokio::io::split(stream);
    let broker = tokio::spawn(broker(peer, 0));
    let up = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut all, mut buf) = (Vec::new(), vec![0; 4096]);
        loop {
            let count = from_client.read(&mut buf).await.unwrap();
            if count == 0 {
                to_tap.shutdown().await.unwrap();
                return all;
            }
            all.extend_from_slice(&buf[..count]);
            to_tap.write_all(&buf[..count]).await.unwrap();
        }
    });
    let down = tokio::spawn(async move { tokio::io::copy(&mut from_peer, &mut to_peer).await });
    let cut = Cut {
        inner: Some(to_client),
        reads: u64::MAX,
        writes: u64::MAX,
        how: Break::End,
        counts: Arc::default(),
    };
    client(cut).await;
    let sent = up.await.unwrap();
    broker.await.unwrap();
    down.abort();
    let _ = down.await;
    sent
}

/// A connection that nobody cuts does what it should.
async fn next_connection_works(starts: &[u64]) {
    let (session, _) = session(u64::MAX, u64::MAX, Break::End, 0, starts).await;
    assert!(session.failed.is_none() && session.closed.unwrap().is_ok());
    assert!(session.fates.iter().all(Result::is_ok));
}

/// How the connection is cut at this byte.
fn how(at: u64) -> Break {
    match at % 2 {
        0 => Break::Reset,
        _ => Break::End,
    }
}

#[tokio::test(start_paused = true)]
async fn cut_at_every_byte_to_the_server() {
    let (starts, _, total) = publish_offsets().await;
    for at in 0..total {
        let (session, _) = session(u64::MAX, at, how(at), 0, &starts).await;
        // The last bytes are a close: whatever it came to, it came to an end.
        assert!(session.failed.is_some() || session.closed.is_some(), "{at}");
        next_connection_works(&starts).await;
    }
}

#[tokio::test(start_paused = true)]
async fn cut_at_every_byte_to_the_client() {
    let (starts, total, _) = publish_offsets().await;
    for at in 0..total {
        let (session, _) = session(at, u64::MAX, how(at), 0, &starts).await;
        assert!(session.failed.is_some() || session.closed.is_some(), "{at}");
        next_connection_works(&starts).await;
    }
}

/// From some byte on nothing goes through, and nobody says so: the deadlines, or the heartbeat, end everything.
#[tokio::test(start_paused = true)]
async fn silence_from_some_byte_on() {
    let (starts, to_client, to_server) = publish_offsets().await;
    for (at, heartbeat) in (0..to_server).step_by(11).zip([0, 10].into_iter().cycle()) {
        let (session, _) = session(u64::MAX, at, Break::Hold, heartbeat, &starts).await;
        assert!(session.failed.is_some() || session.closed.is_some(), "{at}");
    }
    for (at, heartbeat) in (0..to_client).step_by(7).zip([0, 10].into_iter().cycle()) {
        let (session, _) = session(at, u64::MAX, Break::Hold, heartbeat, &starts).await;
        assert!(session.failed.is_some() || session.closed.is_some(), "{at}");
    }
    next_connection_works(&starts).await;
}
