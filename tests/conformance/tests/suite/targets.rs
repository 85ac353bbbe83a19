//! What is no broker to check is said in one sentence, with an exit status of its own.

use std::net::{Ipv4Addr, SocketAddr};

use amqp_conformance::Target;
use amqp_conformance::preflight::{Unfit, preflight};
use amqp_tests::broker::Certificates;
use amqp_tests::{Broker, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The silent ones need not be waited for long.
const FACTOR: f64 = 0.1;

async fn unfit(uri: &str) -> Unfit {
    let target = Target::parse(uri).expect("a URI");
    preflight(&target, FACTOR)
        .await
        .expect_err("no broker to check")
}

/// A server that does this with every connection.
async fn server<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

#[tokio::test]
async fn closed_port() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    drop(listener);
    let unfit = unfit(&format!("amqp://{address}")).await;
    assert!(matches!(unfit, Unfit::NoConnection(_)), "{unfit}");
}

#[tokio::test]
async fn silent() {
    let address = server(|mut stream| async move {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
    })
    .await;
    assert_eq!(unfit(&format!("amqp://{address}")).await, Unfit::Silent);
}

#[tokio::test]
async fn ends_the_connection() {
    let address = server(|mut stream| async move {
        let _ = stream.read_exact(&mut [0; 8]).await;
    })
    .await;
    assert_eq!(unfit(&format!("amqp://{address}")).await, Unfit::Hangs);
}

const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn http_that_answers_at_once() {
    let address = server(|mut stream| async move {
        let _ = stream.read_exact(&mut [0; 8]).await;
        let _ = stream.write_all(BAD_REQUEST).await;
    })
    .await;
    let unfit = unfit(&format!("amqp://{address}")).await;
    assert_eq!(unfit, Unfit::Http("HTTP/1.1 400 Bad Request".to_owned()));
}

/// Most servers wait for the end of a line.
#[tokio::test]
async fn http_that_waits_for_a_line() {
    let address = server(|mut stream| async move {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => request.push(byte),
                Err(_) => return,
            }
        }
        let _ = stream.write_all(BAD_REQUEST).await;
    })
    .await;
    let unfit = unfit(&format!("amqp://{address}")).await;
    assert_eq!(unfit, Unfit::Http("HTTP/1.1 400 Bad Request".to_owned()));
}

#[tokio::test]
async fn another_protocol() {
    let address = server(|mut stream| async move {
        let _ = stream.read_exact(&mut [0; 8]).await;
        let _ = stream.write_all(b"AMQP\x03\x01\x00\x00").await;
    })
    .await;
    let unfit = unfit(&format!("amqp://{address}")).await;
    assert_eq!(
        unfit,
        Unfit::OtherProtocol("protocol 3 version 1.0.0".to_owned())
    );
}

#[tokio::test]
async fn tls() {
    let certificates = Certificates::generate();
    let broker = Broker::builder(Version::V4_0)
        .tls(&certificates.node(false))
        .start()
        .await;
    let unfit = unfit(&format!("amqp://{}", broker.tls_address())).await;
    assert_eq!(unfit, Unfit::Tls);
}

/// Silence, and an end, after connection.start are nobody's lack of rights.
#[tokio::test]
async fn stops_after_the_start() {
    // Version 0.9, no properties, PLAIN, en_US.
    const START: &[u8] =
        b"\x01\0\0\0\0\0\x1c\0\x0a\0\x0a\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US\xce";
    for (ends, found) in [(false, "silence"), (true, "end of stream")] {
        let address = server(move |mut stream| async move {
            let _ = stream.read_exact(&mut [0; 8]).await;
            let _ = stream.write_all(START).await;
            let _ = stream.read(&mut [0; 4096]).await;
            if !ends {
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        })
        .await;
        let unfit = unfit(&format!("amqp://{address}")).await;
        assert!(
            matches!(&unfit, Unfit::Stuck { step: "the login", failure } if failure.contains(found)),
            "{unfit}"
        );
    }
}

#[tokio::test]
async fn wrong_password() {
    let address = Broker::shared(Version::V4_0).await.address();
    let unfit = unfit(&format!("amqp://guest:wrong@{address}")).await;
    assert!(
        matches!(&unfit, Unfit::Credentials { user, .. } if user == "guest"),
        "{unfit}"
    );
    assert!(
        unfit.to_string().contains("connection.close 403"),
        "{unfit}"
    );
}

#[tokio::test]
async fn missing_vhost() {
    let address = Broker::shared(Version::V4_0).await.address();
    let unfit = unfit(&format!("amqp://{address}/nowhere")).await;
    assert!(
        matches!(&unfit, Unfit::Vhost { vhost, .. } if vhost == "nowhere"),
        "{unfit}"
    );
    assert!(
        unfit.to_string().contains("connection.close 530"),
        "{unfit}"
    );
}

#[tokio::test]
async fn user_without_rights() {
    let broker = Broker::shared(Version::V3_10).await;
    let vhost = broker.vhost("rights").await;
    for (user, configure, write, read) in [
        ("nothing", "^$", "^$", "^$"),
        ("declares", ".*", "^$", "^$"),
        ("publishes", ".*", ".*", "^$"),
    ] {
        broker.ctl(&["add_user", user, "secret"]).await;
        let permissions = [
            "set_permissions",
            "-p",
            &vhost.name,
            user,
            configure,
            write,
            read,
        ];
        broker.ctl(&permissions).await;
        let uri = format!("amqp://{user}:secret@{}/{}", broker.address(), vhost.name);
        let unfit = unfit(&uri).await;
        assert!(
            matches!(&unfit, Unfit::Rights { user: it, .. } if it == user),
            "{unfit}"
        );
        assert!(unfit.to_string().contains("channel.close 403"), "{unfit}");
    }
}
