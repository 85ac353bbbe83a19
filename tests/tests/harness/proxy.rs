//! The faulty proxy.

use std::time::{Duration, Instant};

use amqp_codec::{MethodId, channel, connection};
use amqp_tests::peer::{Greeting, Peer};
use amqp_tests::proxy::{Ending, Faults, Plan, Proxy};
use amqp_tests::{Broker, RawClient, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A proxy and what is behind it.
async fn proxy() -> (Proxy, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (Proxy::start(listener.local_addr().unwrap()).await, listener)
}

async fn pair(proxy: &Proxy, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

/// All there is to read before the end, and whether that was a reset.
async fn read_all(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let read = async {
        loop {
            match stream.read_buf(&mut bytes).await {
                Ok(0) => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
    };
    let reset = tokio::time::timeout(Duration::from_secs(10), read)
        .await
        .expect("an end");
    (bytes, reset)
}

#[tokio::test]
async fn cuts_exactly_at_the_byte_in_both_directions() {
    let (proxy, listener) = proxy().await;
    let sent: Vec<u8> = (0..40).collect();
    for how in [Ending::Close, Ending::Reset] {
        for offset in 0..=sent.len() {
            let cut = Faults::default().cut_at(offset as u64, how);

            proxy.plan(Plan {
                to_client: cut,
                ..Plan::default()
            });
            let (mut client, mut server) = pair(&proxy, &listener).await;
            // It may be gone already.
            let _ = server.write_all(&sent).await;
            let (got, reset) = read_all(&mut client).await;
            assert_eq!(got, sent[..offset], "{how:?}");
            assert_eq!(reset, how == Ending::Reset);

            proxy.plan(Plan {
                to_server: cut,
                ..Plan::default()
            });
            let (mut client, mut server) = pair(&proxy, &listener).await;
            let _ = client.write_all(&sent).await;
            let (got, reset) = read_all(&mut server).await;
            assert_eq!(got, sent[..offset], "{how:?}");
            assert_eq!(reset, how == Ending::Reset);
        }
    }
    let links = proxy.links();
    assert_eq!(links.len(), 4 * 41);
    links[163].ended().await;
    assert_eq!(links[163].to_server().bytes(), sent);
}

#[tokio::test]
async fn end_of_the_stream_and_resets_are_passed_on() {
    let (proxy, listener) = proxy().await;
    let (mut client, mut server) = pair(&proxy, &listener).await;
    client.write_all(b"ping").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut server).await, (b"ping".to_vec(), false));
    server.write_all(b"pong").await.unwrap();
    drop(server);
    assert_eq!(read_all(&mut client).await, (b"pong".to_vec(), false));
    proxy.link(0).await.ended().await;

    let (client, mut server) = pair(&proxy, &listener).await;
    client.set_zero_linger().unwrap();
    drop(client);
    assert_eq!(read_all(&mut server).await, (Vec::new(), true));
}

#[tokio::test]
async fn holds_at_the_byte_until_released() {
    let (proxy, listener) = proxy().await;
    proxy.plan(Plan {
        to_server: Faults::default().hold_at(3),
        ..Plan::default()
    });
    let (mut client, mut server) = pair(&proxy, &listener).await;
    let link = proxy.link(0).await;
    client.write_all(b"abcdef").await.unwrap();
    link.to_server().wait_for(3).await;
    let mut bytes = [0; 6];
    server.read_exact(&mut bytes[..3]).await.unwrap();
    let more = tokio::time::timeout(Duration::from_millis(200), server.read_u8()).await;
    assert!(more.is_err(), "held bytes came through");
    // The other direction is free.
    server.write_all(b"x").await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'x');
    link.to_server().release();
    server.read_exact(&mut bytes[3..]).await.unwrap();
    assert_eq!(&bytes, b"abcdef");

    link.to_client().hold();
    server.write_all(b"y").await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(200), client.read_u8())
            .await
            .is_err()
    );
    // A cut ends a hold.
    link.cut(Ending::Close);
    assert_eq!(read_all(&mut client).await, (Vec::new(), false));
}

#[tokio::test]
async fn delays_and_throttles() {
    let (proxy, listener) = proxy().await;
    let (mut client, mut server) = pair(&proxy, &listener).await;
    let link = proxy.link(0).await;
    link.to_server()
        .change(|faults| faults.delay(Duration::from_millis(150)));
    let began = Instant::now();
    client.write_all(b"x").await.unwrap();
    server.read_u8().await.unwrap();
    assert!(
        began.elapsed() >= Duration::from_millis(150),
        "{:?}",
        began.elapsed()
    );

    link.to_client().change(|faults| faults.throttle(10_000));
    let began = Instant::now();
    server.write_all(&[0; 5_000]).await.unwrap();
    client.read_exact(&mut [0; 5_000]).await.unwrap();
    // The last piece of a twentieth is not waited for.
    assert!(
        began.elapsed() >= Duration::from_millis(440),
        "{:?}",
        began.elapsed()
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn plans_go_by_turn_and_connections_can_be_refused() {
    let (proxy, listener) = proxy().await;
    proxy.plan_every(|index| Plan {
        to_client: Faults::default().cut_at(index as u64, Ending::Close),
        ..Plan::default()
    });
    proxy.plan(Plan {
        to_client: Faults::default().cut_at(5, Ending::Close),
        ..Plan::default()
    });
    for expected in [5, 1, 2] {
        let (mut client, mut server) = pair(&proxy, &listener).await;
        server.write_all(b"0123456789").await.unwrap();
        assert_eq!(read_all(&mut client).await.0.len(), expected);
    }
    proxy.refuse(true).await;
    assert!(TcpStream::connect(proxy.address()).await.is_err());
    proxy.refuse(false).await;
    pair(&proxy, &listener).await;

    // Nobody behind it: accepted, then gone.
    drop(listener);
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(read_all(&mut client).await.0.is_empty());
}

#[tokio::test]
async fn tells_where_frames_begin_and_end() {
    let listener = Peer::listen().await;
    let proxy = Proxy::start(listener.address()).await;
    let server = async {
        let mut peer = listener.accept().await;
        peer.handshake(Greeting::default()).await;
        peer.open_channel().await;
        peer.accept_close().await;
    };
    let client = async {
        let mut client = RawClient::open(proxy.address(), "/").await;
        client
            .call::<channel::OpenOk>(4, channel::Open::default())
            .await;
        client.close().await;
    };
    tokio::join!(server, client);
    let link = proxy.link(0).await;
    link.ended().await;
    let frames = link.to_server().frames();
    let what: Vec<_> = frames
        .iter()
        .map(|span| (span.channel, span.method))
        .collect();
    assert_eq!(
        what,
        [
            (0, None),
            (0, Some(MethodId::CONNECTION_START_OK)),
            (0, Some(MethodId::CONNECTION_TUNE_OK)),
            (0, Some(MethodId::CONNECTION_OPEN)),
            (4, Some(MethodId::CHANNEL_OPEN)),
            (0, Some(MethodId::CONNECTION_CLOSE)),
        ]
    );
    assert_eq!(frames[0].range, 0..8);
    assert!(
        frames
            .windows(2)
            .all(|pair| pair[0].range.end == pair[1].range.start)
    );
    assert_eq!(frames.last().unwrap().range.end, link.to_server().count());
}

#[tokio::test]
async fn broker_is_served_through_it_until_the_cut() {
    let broker = Broker::shared(Version::V3_10).await;
    let proxy = Proxy::start(broker.address()).await;
    let mut client = RawClient::open(proxy.address(), "/").await;
    client.open_channel(1).await;
    let to_client = proxy.link(0).await.to_client().frames();
    assert_eq!(
        to_client.last().and_then(|span| span.method),
        Some(MethodId::CHANNEL_OPEN_OK)
    );
    proxy.cut_all(Ending::Reset);
    client.expect_end().await;

    // Cut within the frame that the client waits for.
    let start = to_client[0].range.clone();
    proxy.plan(Plan {
        to_client: Faults::default().cut_at(start.end - 1, Ending::Close),
        ..Plan::default()
    });
    let mut client = RawClient::connect(proxy.address()).await;
    client
        .send_protocol(amqp_codec::ProtocolHeader::AMQP_0_9_1)
        .await;
    let failed = tokio::spawn(async move { client.expect::<connection::Start>(0).await });
    let message = *failed
        .await
        .unwrap_err()
        .into_panic()
        .downcast::<String>()
        .unwrap();
    assert!(message.contains("got end of the stream"), "{message}");
}
