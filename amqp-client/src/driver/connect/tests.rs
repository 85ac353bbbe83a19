#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::error::{ErrorKind, Step};

/// A server that ends the stream once it has been spoken to.
async fn ending() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read_exact(&mut [0; 8]).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    listener.local_addr().unwrap()
}

async fn failing(
    options: ConnectOptions,
    resolve: impl Fn(&str) -> io::Result<Vec<SocketAddr>>,
) -> Error {
    let resolve = |host: String, _| std::future::ready(resolve(&host));
    match connect_by(options, resolve).await {
        Ok(_) => panic!("nobody there speaks AMQP"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_name_with_several_addresses_is_all_of_them() {
    let addresses = [nobody().await, ending().await, nobody().await];
    let options = ConnectOptions::new()
        .address("several", 1)
        .address("none", 2);
    let options = options.address("unknown", 3).address("::1", 4);
    let error = failing(options, |host| match host {
        "several" => Ok(addresses.to_vec()),
        "none" => Ok(Vec::new()),
        "unknown" => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(vec![addresses[0]]),
    })
    .await;
    let (attempts, text) = (error.attempts(), error.to_string());
    let tried = attempts
        .iter()
        .map(|attempt| (attempt.host.as_str(), attempt.port, attempt.address));
    let [refused, ended, refused_too] = addresses;
    assert_eq!(
        tried.collect::<Vec<_>>(),
        [
            ("several", 1, Some(refused)),
            ("several", 1, Some(ended)),
            ("several", 1, Some(refused_too)),
            ("none", 2, None),
            ("unknown", 3, None),
            ("::1", 4, Some(refused)),
        ]
    );
    assert!(
        matches!(attempts[3].error, AttemptError::NoAddress),
        "{text}"
    );
    assert!(
        matches!(attempts[4].error, AttemptError::Resolve(_)),
        "{text}"
    );
    for part in [
        format!("several ({refused}): "),
        format!("several ({ended}): before connection.start: "),
        "none:2: the name has no address".to_owned(),
        "unknown:3: the name cannot be resolved: ".to_owned(),
        format!("::1 ({refused}): "),
    ] {
        assert!(text.contains(&part), "no {part:?} in {text}");
    }
    assert_eq!(error.kind(), ErrorKind::Handshake);
    assert!(matches!(
        error.handshake(),
        Some(HandshakeError::Closed {
            step: Step::Start,
            ..
        })
    ));
}

#[tokio::test]
async fn an_address_is_shown_once() {
    let attempt = |host: &str, address| Attempt {
        host: host.to_owned(),
        port: 5672,
        address,
        error: AttemptError::NoAddress,
    };
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 5672));
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 5672));
    for (attempt, shown) in [
        (attempt("::1", Some(v6)), "[::1]:5672: "),
        (attempt("::1", None), "[::1]:5672: "),
        (attempt("127.0.0.1", Some(v4)), "127.0.0.1:5672: "),
        (
            attempt("localhost", Some(v4)),
            "localhost (127.0.0.1:5672): ",
        ),
        (attempt("localhost", None), "localhost:5672: "),
    ] {
        assert_eq!(
            attempt.to_string(),
            format!("{shown}the name has no address")
        );
    }
}

/// The resolver takes forever for one name: it gets its share of the time, like an address.
#[tokio::test(start_paused = true)]
async fn a_resolver_that_does_not_answer_has_a_share() {
    let refused = nobody().await;
    let options = ConnectOptions::new().address("slow", 1).address("quick", 2);
    let options = options.connect_deadline(Duration::from_secs(10));
    let resolve = |host: String, _| async move {
        if host == "slow" {
            std::future::pending::<()>().await;
        }
        Ok(vec![refused])
    };
    let began = Instant::now();
    let connect = tokio::time::timeout(Duration::from_secs(60), connect_by(options, resolve));
    let error = connect.await.unwrap().err().unwrap();
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(5) && took < Duration::from_secs(6),
        "{took:?}"
    );
    match error.attempts() {
        [slow, quick] => {
            let share = Duration::from_secs(5);
            assert!(
                matches!(slow.error, AttemptError::Timeout { phase: Phase::Resolve, after } if after == share),
                "{slow}"
            );
            assert_eq!(quick.address, Some(refused));
        }
        attempts => panic!("{attempts:?}"),
    }
}

/// No time at all, or more than a clock can count.
#[tokio::test]
async fn extreme_deadlines() {
    let there = || ConnectOptions::new().address("there", 1);
    let address = ending().await;
    let options = there().connect_deadline(Duration::ZERO);
    let error = failing(options, |_| Ok(vec![address])).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let never = Duration::MAX;
    let deadlines = crate::config::Deadlines {
        connect: never,
        handshake: never,
        rpc: never,
        close: never,
        confirm: never,
    };
    let error = failing(there().deadlines(deadlines), |_| Ok(vec![address])).await;
    assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
}
