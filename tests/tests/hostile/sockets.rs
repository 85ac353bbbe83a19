//! Cases in which the socket itself matters: resets, halves that end, buffers that fill. Time is that of the wall.

use std::net::Ipv4Addr;
use std::time::Duration;

use amqp_client::codec::{basic, connection, queue};
use amqp_client::error::{CloseCause, Error, ErrorKind, HandshakeError, Step};
use amqp_client::{
    ConfirmOptions, ConnectOptions, Connection, Message, Outcome, QueueDeclare, UnknownReason,
};
use amqp_tests::peer::{Greeting, Listener, Peer};
use tokio::net::{TcpListener, TcpStream};

use super::play::{Play, play};

/// The deadlines of these cases, and what else takes its time.
const SHORT: Duration = Duration::from_millis(500);
const MIB: usize = 1 << 20;

pub(crate) fn all() -> Vec<Play> {
    vec![
        play!("socket", nobody_listens),
        play!("socket", never_accepts),
        play!("socket", accepts_and_says_nothing),
        play!("socket", resets_before_start),
        play!("socket", resets_instead_of_tune),
        play!("socket", resets_instead_of_open_ok),
        play!("socket", half_closes_before_start),
        play!("socket", resets_while_a_confirm_is_awaited),
        play!("socket", resets_within_a_frame),
        play!("socket", half_closes_while_an_answer_is_awaited),
        play!("socket", half_closes_and_goes_on_reading),
        play!("socket", hangs_up_on_what_it_has_not_read),
        // The message itself is counted.
        play!("socket", never_reads, 17 * MIB),
        play!("socket", never_reads_and_sends_no_heartbeat, 17 * MIB),
        play!("socket", resets_while_a_message_is_sent, 17 * MIB),
        play!("socket", never_ends_the_stream),
        play!("socket", sends_one_byte_a_segment),
    ]
}

// ----- before it is open -----

async fn nobody_listens() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = Connection::open(ConnectOptions::new().address("127.0.0.1", port)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Connect);
}

async fn never_accepts() {
    let listener = Peer::listen().await;
    let error = Connection::open(options(&listener).connect_deadline(SHORT)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Timeout);
}

async fn accepts_and_says_nothing() {
    let listener = Peer::listen().await;
    let opening = Connection::open(options(&listener).handshake_deadline(SHORT));
    let (result, _peer) = tokio::join!(opening, listener.accept());
    let (step, cause) = lost(&result.unwrap_err());
    assert_eq!(step, Step::Start);
    assert_eq!(cause, CloseCause::HandshakeTimeout(SHORT));
}

async fn resets_before_start() {
    let error = refused(async |mut peer: Peer| {
        peer.expect_protocol().await;
        peer.reset();
    })
    .await;
    let (step, cause) = lost(&error);
    assert!(step == Step::Start && is_io(&cause), "{error}");
}

async fn resets_instead_of_tune() {
    let error = refused(async |mut peer: Peer| {
        peer.greet(&Greeting::default()).await;
        peer.reset();
    })
    .await;
    let Some(HandshakeError::CredentialsProbablyRefused(closed)) = error.handshake() else {
        panic!("{error}")
    };
    assert!(is_io(closed.cause.as_ref().unwrap()), "{error}");
}

async fn resets_instead_of_open_ok() {
    let error = refused(async |mut peer: Peer| {
        peer.greet(&Greeting::default()).await;
        peer.tune(Greeting::default().tune).await;
        peer.expect::<connection::Open>(0).await;
        peer.reset();
    })
    .await;
    let (step, cause) = lost(&error);
    assert!(step == Step::Open && is_io(&cause), "{error}");
}

async fn half_closes_before_start() {
    let error = refused(async |mut peer: Peer| {
        peer.expect_protocol().await;
        peer.half_close().await.unwrap();
        peer.expect_end().await;
    })
    .await;
    assert_eq!(lost(&error), (Step::Start, CloseCause::EndOfStream));
}

// ----- once it is open -----

async fn resets_while_a_confirm_is_awaited() {
    let (connection, mut peer) = open(|options| options).await;
    let (channel, _) = tokio::join!(confirming(&connection), peer.open_confirm_channel());
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    peer.expect_publish().await;
    peer.reset();
    assert_unknown(confirm.await);
    assert!(is_io(connection.closed().await.cause.as_ref().unwrap()));
}

async fn resets_within_a_frame() {
    let (connection, mut peer) = open(|options| options).await;
    let (channel, on) = tokio::join!(connection.open_channel(), peer.open_channel());
    let channel = channel.unwrap();
    let server = async {
        peer.expect::<queue::Declare>(on).await;
        peer.send_bytes(&b"\x01\0\x01\0\0\0\x20\0"[..]).await;
        peer.reset();
    };
    let (declared, ()) = tokio::join!(channel.queue_declare(QueueDeclare::new("q")), server);
    assert_eq!(declared.unwrap_err().kind(), ErrorKind::ConnectionClosed);
    assert!(is_io(connection.closed().await.cause.as_ref().unwrap()));
}

async fn half_closes_while_an_answer_is_awaited() {
    let (connection, mut peer) = open(|options| options).await;
    let (channel, on) = tokio::join!(connection.open_channel(), peer.open_channel());
    let channel = channel.unwrap();
    let server = async {
        peer.expect::<queue::Declare>(on).await;
        peer.half_close().await.unwrap();
        // The other half ends too, and nothing is sent before.
        peer.expect_end().await;
    };
    let (declared, ()) = tokio::join!(channel.queue_declare(QueueDeclare::new("q")), server);
    assert_eq!(declared.unwrap_err().kind(), ErrorKind::ConnectionClosed);
    assert_eq!(
        connection.closed().await.cause,
        Some(CloseCause::EndOfStream)
    );
}

async fn half_closes_and_goes_on_reading() {
    let (connection, mut peer) = open(|options| options).await;
    let (channel, _) = tokio::join!(confirming(&connection), peer.open_confirm_channel());
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    peer.half_close().await.unwrap();
    peer.expect_publish().await;
    peer.expect_end().await;
    assert_unknown(confirm.await);
    let refused = channel.publish("", "q", Message::new("y")).await;
    assert!(refused.unwrap_err().reason.closed().is_some());
}

/// A socket that is closed with something unread in it is reset by the system.
async fn hangs_up_on_what_it_has_not_read() {
    let (connection, mut peer) = open(|options| options).await;
    let (channel, _) = tokio::join!(confirming(&connection), peer.open_confirm_channel());
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    peer.stream().readable().await.unwrap();
    drop(peer);
    assert_unknown(confirm.await);
}

async fn never_reads() {
    let (connection, mut peer) = open(|options| options.close_deadline(SHORT)).await;
    let (channel, _) = tokio::join!(
        confirming_with(
            &connection,
            ConfirmOptions::default().timeout(SHORT).wait(SHORT)
        ),
        peer.open_confirm_channel()
    );
    let large = Message::new(vec![7; 16 * MIB]);
    let confirm = channel.publish("", "q", large).await.unwrap();
    let refused = channel.publish("", "q", Message::new("y")).await;
    assert!(refused.is_err(), "there is no room");
    let Outcome::Unknown { reason, .. } = confirm.await else {
        panic!("nobody has read it")
    };
    assert_eq!(reason, UnknownReason::TimedOut);
    let error = connection.close().await.unwrap_err();
    assert_eq!(
        error.closed().unwrap().cause,
        Some(CloseCause::CloseTimeout)
    );
    drop(peer);
}

async fn never_reads_and_sends_no_heartbeat() {
    let (connection, mut peer) = open(|options| options.heartbeat(1)).await;
    let (channel, _) = tokio::join!(confirming(&connection), peer.open_confirm_channel());
    let large = Message::new(vec![7; 16 * MIB]);
    let confirm = channel.publish("", "q", large).await.unwrap();
    assert_unknown(confirm.await);
    let closed = connection.closed().await;
    assert!(
        matches!(closed.cause, Some(CloseCause::HeartbeatTimeout(_))),
        "{closed}"
    );
    drop(peer);
}

async fn resets_while_a_message_is_sent() {
    let (connection, mut peer) = open(|options| options).await;
    let (channel, on) = tokio::join!(confirming(&connection), peer.open_confirm_channel());
    let large = Message::new(vec![7; 16 * MIB]);
    let confirm = channel.publish("", "q", large).await.unwrap();
    peer.expect::<basic::Publish>(on).await;
    peer.reset();
    assert_unknown(confirm.await);
}

/// It answers the close, and holds on to the connection.
async fn never_ends_the_stream() {
    let (connection, mut peer) = open(|options| options).await;
    let server = async {
        peer.reply::<connection::Close>(0, connection::CloseOk {})
            .await;
        peer.expect_end().await;
    };
    let (closed, ()) = tokio::join!(connection.close(), server);
    closed.unwrap();
    drop(peer);
}

async fn sends_one_byte_a_segment() {
    let (connection, mut peer) = open(|options| options).await;
    let (channel, on) = tokio::join!(connection.open_channel(), peer.open_channel());
    let channel = channel.unwrap();
    let server = async {
        peer.expect::<queue::Declare>(on).await;
        for byte in super::wire::method(on, queue::DeclareOk::default()) {
            // Without Nagle's algorithm, each is a segment of its own.
            peer.send_bytes(vec![byte]).await;
        }
    };
    let (declared, ()) = tokio::join!(channel.queue_declare(QueueDeclare::new("q")), server);
    declared.unwrap();
}

// ----- what they share -----

fn options(listener: &Listener) -> ConnectOptions {
    let address = listener.address();
    ConnectOptions::new().address(address.ip().to_string(), address.port())
}

/// Why a connection is not opened to a server that does this.
async fn refused(server: impl AsyncFnOnce(Peer)) -> Error {
    let listener = Peer::listen().await;
    let server = async { server(listener.accept().await).await };
    let (result, ()) = tokio::join!(Connection::open(options(&listener)), server);
    result.unwrap_err()
}

async fn open(change: fn(ConnectOptions) -> ConnectOptions) -> (Connection, Peer<TcpStream>) {
    let listener = Peer::listen().await;
    let server = async {
        let mut peer = listener.accept().await;
        peer.forget_transcript();
        peer.handshake(Greeting::default()).await;
        peer
    };
    let (connection, peer) = tokio::join!(Connection::open(change(options(&listener))), server);
    (connection.unwrap(), peer)
}

async fn confirming(connection: &Connection) -> amqp_client::ConfirmChannel {
    confirming_with(connection, ConfirmOptions::default()).await
}

async fn confirming_with(
    connection: &Connection,
    options: ConfirmOptions,
) -> amqp_client::ConfirmChannel {
    let channel = connection.open_channel().await.unwrap();
    channel.confirm_select_with(options).await.unwrap()
}

fn lost(error: &Error) -> (Step, CloseCause) {
    match error.handshake() {
        Some(HandshakeError::Closed { step, closed }) => (*step, closed.cause.clone().unwrap()),
        other => panic!("{error}: {other:?}"),
    }
}

fn is_io(cause: &CloseCause) -> bool {
    matches!(cause, CloseCause::Io(_))
}

/// Nobody knows whether the server has it, as the connection is lost.
#[track_caller]
fn assert_unknown(outcome: Outcome) {
    assert!(
        matches!(
            outcome,
            Outcome::Unknown {
                reason: UnknownReason::ConnectionClosed { written: true, .. },
                ..
            }
        ),
        "{outcome:?}"
    );
}
