//! What a connection may run over: Unix-domain sockets, IPv6, TLS on a slow line, streams that have to be flushed.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use amqp_client::config::Tls;
use amqp_client::error::{CloseCause, Initiator};
use amqp_client::{ConnectOptions, Connection};
use amqp_tests::peer::{Greeting, Peer};
use amqp_tests::proxy::{Ending, Faults, Plan};
use amqp_tests::{Proxy, Version};
use tokio::io::{AsyncRead, AsyncWrite, BufStream, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::node::{Node, exchange, node, soon, works};

on_each_broker!(
    a_unix_socket,
    ipv6,
    tls_on_a_slow_line,
    tls_that_ends_without_a_farewell,
);

/// Carries one connection to the broker.
fn forward(mut from: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, to: SocketAddr) {
    tokio::spawn(async move {
        let mut to = TcpStream::connect(to).await.unwrap();
        let _ = copy_bidirectional(&mut from, &mut to).await;
    });
}

async fn a_unix_socket(node: &'static Node) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rabbitmq.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let address = node.broker.address();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            forward(stream, address);
        }
    });
    let stream = UnixStream::connect(&path).await.unwrap();
    let connection = Connection::open_over(stream, ConnectOptions::new());
    let connection = soon("a connection", connection).await.unwrap();
    exchange(&connection).await;
    connection.close().await.unwrap();
}

async fn ipv6(node: &'static Node) {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = node.broker.address();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            forward(stream, address);
        }
    });
    let uri = format!("amqp://guest:guest@[::1]:{port}/%2f");
    let by_uri = ConnectOptions::try_from(uri).unwrap();
    for options in [by_uri, ConnectOptions::new().address("::1", port)] {
        works(options).await.close().await.unwrap();
    }
}

fn trusting(node: &Node, proxy: &Proxy) -> ConnectOptions {
    let address = proxy.address();
    let options = ConnectOptions::new().address(address.ip().to_string(), address.port());
    options.tls(Tls::new().ca_file(node.authority.ca()))
}

/// Where the line takes no more, records of TLS wait half sent; each must go on as soon as it can.
async fn tls_on_a_slow_line(node: &'static Node) {
    let proxy = Proxy::start(node.usual_listener().await).await;
    let slow = || {
        Faults::default()
            .throttle(512 * 1024)
            .delay(Duration::from_millis(20))
    };
    proxy.plan(Plan {
        to_server: slow(),
        to_client: slow(),
    });
    works(trusting(node, &proxy)).await.close().await.unwrap();
}

async fn tls_that_ends_without_a_farewell(node: &'static Node) {
    let proxy = Proxy::start(node.usual_listener().await).await;
    let connection = works(trusting(node, &proxy)).await;
    proxy.link(0).await.cut(Ending::Close);
    let closed = soon("the end", connection.closed()).await;
    assert_eq!(closed.initiator, Initiator::Transport);
    assert!(
        matches!(closed.cause, Some(CloseCause::EndOfStream)),
        "{closed}"
    );
}

#[tokio::test]
async fn a_stream_that_keeps_what_it_was_given_until_it_is_flushed() {
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let options = ConnectOptions::new();
    let client = tokio::spawn(Connection::open_over(BufStream::new(stream), options));
    peer.handshake(Greeting::default()).await;
    let connection = soon("a connection", client).await.unwrap().unwrap();
    let close = tokio::spawn(async move { connection.close().await });
    peer.accept_close().await;
    soon("the close", close).await.unwrap().unwrap();
}

/// A connection that is given a stream does not end earlier than one that makes its own.
#[tokio::test]
async fn a_thousand_kilobytes_over_a_thin_pipe() {
    let node = node(Version::V4_0).await;
    let (client, server) = tokio::io::duplex(512);
    forward(server, node.broker.address());
    let connection = Connection::open_over(client, ConnectOptions::new());
    let connection = soon("a connection", connection).await.unwrap();
    exchange(&connection).await;
    connection.close().await.unwrap();
}
