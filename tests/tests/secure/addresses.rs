//! Several addresses: which failures lead to the next one, which end the search, and how the time is shared out.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use amqp_client::codec::{ReplyCode, connection};
use amqp_client::error::{AttemptError, Error, ErrorKind, HandshakeError, Initiator, Phase};
use amqp_client::{AuthError, ConnectOptions, Connection, Sasl};
use amqp_tests::peer::{Greeting, Peer};
use amqp_tests::{Broker, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::node::{connect, exchange, node, soon};

/// An address at which this happens to each connection.
async fn at<F>(act: impl Fn(Peer) -> F + Send + Sync + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send,
{
    let listener = Peer::listen().await;
    let address = listener.address();
    tokio::spawn(async move {
        loop {
            act(listener.accept().await).await;
        }
    });
    address
}

/// An address at which nobody listens.
async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    listener.local_addr().unwrap()
}

/// An address at which connections are taken, and nothing is ever said.
async fn silence() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut streams = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            streams.push(stream);
        }
    });
    address
}

/// An address that answers the first bytes with these, and ends the stream.
async fn answer(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 64]).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    address
}

/// An address that must not be tried.
async fn untouched() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let watch = tokio::spawn(async move {
        let _ = listener.accept().await;
    });
    (address, watch)
}

fn close(code: ReplyCode) -> connection::Close<'static> {
    connection::Close {
        reply_code: code,
        ..Default::default()
    }
}

fn to(addresses: impl IntoIterator<Item = SocketAddr>) -> ConnectOptions {
    let add = |options: ConnectOptions, address: SocketAddr| {
        options.address(address.ip().to_string(), address.port())
    };
    addresses.into_iter().fold(ConnectOptions::new(), add)
}

async fn broker() -> &'static Broker {
    &node(Version::V4_0).await.broker
}

/// The next address is the broker's, and a connection to it comes about.
async fn goes_on_after(address: SocketAddr) {
    let connection = connect(to([address, broker().await.address()]))
        .await
        .unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn goes_on_where_nobody_listens() {
    goes_on_after(nobody().await).await;
}

#[tokio::test]
async fn goes_on_after_a_name_that_is_not_resolved() {
    let address = broker().await.address();
    let options = ConnectOptions::new().address("nowhere.invalid", 5672);
    let options = options.address(address.ip().to_string(), address.port());
    let options = options.connect_deadline(Duration::from_secs(10));
    connect(options).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn goes_on_after_another_protocol() {
    goes_on_after(answer(b"AMQP\x03\x01\x00\x00").await).await;
    goes_on_after(answer(b"HTTP/1.1 400 Bad Request\r\n\r\n").await).await;
    goes_on_after(answer(b"\x15\x03\x03\x00\x02\x02\x0a").await).await;
}

#[tokio::test]
async fn goes_on_after_an_end_at_any_step() {
    goes_on_after(answer(b"").await).await;
    let after_start = at(async |mut peer: Peer| drop(peer.greet(&Greeting::default()).await)).await;
    goes_on_after(after_start).await;
    let after_tune = at(async |mut peer: Peer| {
        let greeting = Greeting::default();
        peer.greet(&greeting).await;
        peer.tune(greeting.tune).await;
        let _: connection::Open = peer.expect(0).await;
    });
    goes_on_after(after_tune.await).await;
}

#[tokio::test]
async fn goes_on_after_a_server_that_cannot_now() {
    for code in [ReplyCode::CONNECTION_FORCED, ReplyCode::INTERNAL_ERROR] {
        let address = at(move |mut peer: Peer| async move {
            peer.greet(&Greeting::default()).await;
            let _: connection::CloseOk = {
                peer.send(0, close(code)).await;
                peer.expect(0).await
            };
        });
        goes_on_after(address.await).await;
    }
}

/// The search must end at this one, with the error it gives.
async fn stops_at(
    address: SocketAddr,
    options: impl Fn(ConnectOptions) -> ConnectOptions,
) -> Error {
    let (next, watch) = untouched().await;
    let first = nobody().await;
    let error = connect(options(to([first, address, next])))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
    assert!(!watch.is_finished(), "the next address was tried: {error}");
    let tried: Vec<_> = error
        .attempts()
        .iter()
        .map(|attempt| attempt.address.unwrap())
        .collect();
    assert_eq!(tried, [first, address], "{error}");
    // What came before is told too.
    let text = error.to_string();
    assert!(text.contains(&format!("{first}: ")), "{text}");
    error
}

#[tokio::test]
async fn stops_at_refused_credentials() {
    let wrong = |options: ConnectOptions| options.credentials("guest", "wrong");
    let error = stops_at(broker().await.address(), wrong).await;
    assert!(
        matches!(
            error.handshake(),
            Some(HandshakeError::CredentialsRefused(_))
        ),
        "{error}"
    );
    assert_eq!(error.closed().unwrap().initiator, Initiator::Server);
}

#[tokio::test]
async fn stops_at_a_refused_virtual_host() {
    let missing = |options: ConnectOptions| options.virtual_host("missing");
    let error = stops_at(broker().await.address(), missing).await;
    assert!(
        matches!(
            error.handshake(),
            Some(HandshakeError::VirtualHostRefused(_))
        ),
        "{error}"
    );
}

#[tokio::test]
async fn stops_without_a_common_mechanism() {
    let external = |options: ConnectOptions| options.mechanism(Sasl::External);
    let error = stops_at(broker().await.address(), external).await;
    let reason = error.handshake().unwrap();
    assert!(
        matches!(
            reason,
            HandshakeError::Authentication(AuthError::NoCommonMechanism { .. })
        ),
        "{error}"
    );
}

#[tokio::test]
async fn stops_at_a_refusal_while_tuning() {
    let address = at(async |mut peer: Peer| {
        let greeting = Greeting::default();
        peer.greet(&greeting).await;
        peer.tune(greeting.tune).await;
        let _: connection::Open = peer.expect(0).await;
        peer.send(0, close(ReplyCode::ACCESS_REFUSED)).await;
        let _: connection::CloseOk = peer.expect(0).await;
    });
    let error = stops_at(address.await, |options| options).await;
    assert_eq!(error.closed().unwrap().code, ReplyCode::ACCESS_REFUSED);
}

#[tokio::test]
async fn the_error_lists_every_address() {
    let (refusing, other) = (nobody().await, answer(b"AMQP\x03\x01\x00\x00").await);
    let (ending, also_refusing) = (answer(b"").await, nobody().await);
    let error = connect(to([refusing, other, ending, also_refusing]))
        .await
        .unwrap_err();
    // A server was reached: that says more than an address that was not.
    assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
    match error.attempts() {
        [first, second, third, fourth] => {
            let address = |attempt: &amqp_client::error::Attempt| attempt.address.unwrap();
            assert_eq!(address(first), refusing);
            assert!(matches!(first.error, AttemptError::Connect(_)), "{first}");
            assert_eq!(address(second), other);
            assert!(
                matches!(
                    second.error,
                    AttemptError::Handshake(HandshakeError::Protocol(_))
                ),
                "{second}"
            );
            assert_eq!(address(third), ending);
            assert!(
                matches!(
                    third.error,
                    AttemptError::Handshake(HandshakeError::Closed { .. })
                ),
                "{third}"
            );
            assert_eq!(address(fourth), also_refusing);
            assert!(matches!(fourth.error, AttemptError::Connect(_)), "{fourth}");
        }
        attempts => panic!("{attempts:?}"),
    }
    let text = error.to_string();
    for address in [refusing, other, ending, also_refusing] {
        assert!(text.contains(&format!("{address}: ")), "{text}");
    }

    let error = connect(to([refusing, also_refusing])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    assert_eq!(error.attempts().len(), 2, "{error}");
}

/// One that does not answer gets its share of the time and no more.
#[tokio::test]
async fn a_silent_address_does_not_use_up_the_deadline() {
    let options = to([silence().await, broker().await.address()]);
    let began = Instant::now();
    let connection = connect(options.connect_deadline(Duration::from_secs(6)))
        .await
        .unwrap();
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(3) && took < Duration::from_secs(6),
        "{took:?}"
    );
    exchange(&connection).await;
    connection.close().await.unwrap();
}

/// What comes of connecting to so many silent addresses, and how long it took. In virtual time: a step that the system
/// is slow with counts as silence too.
async fn all_silent(count: usize, deadline: Duration) -> (Error, Vec<SocketAddr>, Duration) {
    let mut addresses = Vec::new();
    for _ in 0..count {
        addresses.push(silence().await);
    }
    let began = tokio::time::Instant::now();
    let options = to(addresses.iter().copied()).connect_deadline(deadline);
    let error = Connection::open(options).await.unwrap_err();
    let took = began.elapsed();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(
        error.to_string().contains(&format!("{deadline:?}")),
        "{error}"
    );
    (error, addresses, took)
}

#[tokio::test(start_paused = true)]
async fn the_time_is_shared_out_evenly() {
    let deadline = Duration::from_secs(30);
    let (error, addresses, took) = all_silent(6, deadline).await;
    assert!(
        took >= deadline && took < deadline + Duration::from_millis(100),
        "{took:?}"
    );
    let tried = error.attempts().iter().map(|attempt| match attempt.error {
        AttemptError::Timeout {
            phase: Phase::Connect | Phase::Handshake,
            after,
        } => {
            let even = Duration::from_millis(4950)..Duration::from_millis(5050);
            assert!(even.contains(&after), "{after:?}");
            attempt.address.unwrap()
        }
        ref other => panic!("{other}"),
    });
    assert_eq!(tried.collect::<Vec<_>>(), addresses);
}

/// With more addresses than seconds, the first ones get one each, and the others are not tried.
#[tokio::test(start_paused = true)]
async fn no_share_is_too_small_to_be_of_use() {
    let (error, addresses, took) = all_silent(20, Duration::from_millis(2500)).await;
    assert!(took < Duration::from_millis(2600), "{took:?}");
    let tried = error
        .attempts()
        .iter()
        .map(|attempt| attempt.address.unwrap());
    assert_eq!(tried.collect::<Vec<_>>(), addresses[..3]);
}

#[tokio::test]
async fn several_uris() {
    let second = broker().await.uri();
    let first = format!("amqp://guest:guest@{}/%2f", nobody().await);
    let open = Connection::open([first.as_str(), second.as_str()]);
    let connection = soon("a connection", open).await.unwrap();
    connection.close().await.unwrap();
}
