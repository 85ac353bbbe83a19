//! Servers that are silent, refuse, close or speak another protocol, at each step of the handshake: a typed error that
//! says so, within the deadline.

use std::net::Ipv4Addr;
use std::time::Duration;

use amqp_client::codec::{
    LongStr, Method, ProtocolHeader, RawFrame, ReplyCode, channel, connection, frame, short,
};
use amqp_client::error::{
    CloseCause, Closed, Error, ErrorKind, HandshakeError, Initiator, Operation, Step, Violation,
};
use amqp_client::negotiate::{FRAME_MAX_CAP, NegotiateError};
use amqp_client::{ConnectOptions, Connection, Message};
use amqp_tests::peer::{Greeting, Listener, Peer};
use amqp_tests::wire::Event;
use tokio::net::TcpListener;

use super::support::{
    MemoryPeer, connected_with, no_task_left, plain_channel, poll_once, settle, timed,
};

const STEPS: [Step; 3] = [Step::Start, Step::Credentials, Step::Open];

/// Plays the server's part until the client waits in this step.
async fn play_until(peer: &mut MemoryPeer, step: Step) {
    let greeting = Greeting::default();
    match step {
        Step::Start => {
            peer.expect_protocol().await;
        }
        Step::Credentials => {
            peer.greet(&greeting).await;
        }
        Step::Open => {
            peer.greet(&greeting).await;
            peer.tune(greeting.tune).await;
            peer.expect::<connection::Open>(0).await;
        }
    }
}

/// What the client says of a server that plays its part until `step` and then does `then`.
async fn failure<F>(step: Step, then: impl FnOnce(MemoryPeer) -> F) -> (Error, Duration)
where
    F: Future<Output = ()>,
{
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let server = async {
        play_until(&mut peer, step).await;
        then(peer).await;
    };
    let client = timed(Connection::open_over(stream, ConnectOptions::new()));
    let ((result, took), ()) = tokio::join!(client, server);
    no_task_left().await;
    let error = result.expect_err("nobody would call that a connection");
    assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
    // The whole error is one line for people.
    assert!(!error.to_string().contains('\n'), "{error}");
    (error, took)
}

/// What a fault is answered with. Specification 2.2.4: nothing but the end of the stream until open is sent.
async fn expect_complaint(peer: &mut MemoryPeer, step: Step, code: ReplyCode) {
    if step == Step::Open {
        let close: connection::Close = peer.expect(0).await;
        assert_eq!(close.reply_code, code);
    }
    peer.expect_end().await;
}

fn closed_at(error: &Error) -> (Step, &Closed) {
    match error.handshake() {
        Some(HandshakeError::Closed { step, closed }) => (*step, closed),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn silent_server() {
    for step in STEPS {
        let (error, took) = failure(step, |mut peer| async move {
            peer.set_deadline(Duration::from_secs(3600));
            assert!(peer.expect_end().await.is_end());
        })
        .await;
        let (at, closed) = closed_at(&error);
        assert_eq!(at, step);
        let ten = Duration::from_secs(10);
        assert_eq!(closed.cause, Some(CloseCause::HandshakeTimeout(ten)));
        assert_eq!(closed.initiator, Initiator::Transport);
        assert!(took >= ten && took <= ten + Duration::from_secs(1));
        assert!(error.to_string().contains("10s"), "{error}");
    }
}

/// Bytes keep coming, but the handshake does not get on.
#[tokio::test(start_paused = true)]
async fn server_that_only_sends_heartbeats_or_half_a_frame() {
    for step in STEPS {
        let (error, took) = failure(step, |mut peer| async move {
            for _ in 0..11 {
                peer.send_heartbeat().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
        .await;
        assert!(matches!(
            closed_at(&error).1.cause,
            Some(CloseCause::HandshakeTimeout(_))
        ));
        assert!(took <= Duration::from_secs(11), "{took:?}");

        let (error, took) = failure(step, |mut peer| async move {
            peer.send_bytes(&b"\x01\0\0\0\0\x01\0\0"[..]).await;
            tokio::time::sleep(Duration::from_secs(20)).await;
        })
        .await;
        assert!(matches!(
            closed_at(&error).1.cause,
            Some(CloseCause::HandshakeTimeout(_))
        ));
        assert!(took <= Duration::from_secs(11), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_ends_the_stream() {
    for step in STEPS {
        let (error, took) = failure(step, |peer| async move { drop(peer) }).await;
        match (step, error.handshake()) {
            (Step::Credentials, Some(HandshakeError::CredentialsProbablyRefused(closed))) => {
                assert_eq!(closed.cause, Some(CloseCause::EndOfStream));
                assert!(error.to_string().contains("credentials"), "{error}");
            }
            (Step::Start | Step::Open, Some(HandshakeError::Closed { step: at, closed })) => {
                assert_eq!((*at, &closed.cause), (step, &Some(CloseCause::EndOfStream)));
            }
            (_, other) => panic!("{step}: {other:?}"),
        }
        assert!(took < Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_closes_with_a_method() {
    let refusals = [
        (ReplyCode::CONNECTION_FORCED, "broker is shutting down"),
        (ReplyCode::ACCESS_REFUSED, "ACCESS_REFUSED - Login refused"),
        (ReplyCode::NOT_ALLOWED, "NOT_ALLOWED - vhost / not found"),
        (ReplyCode::INTERNAL_ERROR, "no idea"),
    ];
    for step in STEPS {
        for (code, text) in refusals {
            let (error, took) = failure(step, |mut peer| async move {
                peer.close_connection(code, text).await;
                peer.expect::<connection::CloseOk>(0).await;
                peer.expect_end().await;
            })
            .await;
            let closed = match (step, code, error.handshake().unwrap()) {
                (
                    Step::Credentials,
                    ReplyCode::ACCESS_REFUSED,
                    HandshakeError::CredentialsRefused(closed),
                ) => closed,
                (
                    Step::Open,
                    ReplyCode::NOT_ALLOWED,
                    HandshakeError::VirtualHostRefused(closed),
                ) => closed,
                (_, _, HandshakeError::Closed { step: at, closed }) => {
                    assert_eq!(*at, step);
                    assert!(
                        !matches!(
                            (step, code),
                            (Step::Credentials, ReplyCode::ACCESS_REFUSED)
                                | (Step::Open, ReplyCode::NOT_ALLOWED)
                        ),
                        "{error}"
                    );
                    closed
                }
                (_, _, other) => panic!("{step}: {other:?}"),
            };
            assert_eq!(closed.initiator, Initiator::Server);
            assert_eq!(
                (closed.code, closed.text.as_bytes()),
                (code, text.as_bytes())
            );
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(error.closed(), Some(&**closed));
            assert!(took < Duration::from_secs(1));
        }
    }
}

/// The header comes where a frame is expected: the broker speaks, but not to us.
#[tokio::test(start_paused = true)]
async fn server_that_answers_with_a_protocol_header() {
    let headers = [
        // RabbitMQ 4.x says it like that: AMQP 1.0 over SASL.
        ProtocolHeader {
            id: 3,
            major: 1,
            minor: 0,
            revision: 0,
        },
        ProtocolHeader {
            id: 0,
            major: 1,
            minor: 0,
            revision: 0,
        },
        // RabbitMQ 3.10 to a header that it does not like.
        ProtocolHeader::AMQP_0_9_1,
        // Qpid, long ago.
        ProtocolHeader {
            id: 1,
            major: 1,
            minor: 0,
            revision: 10,
        },
    ];
    for header in headers {
        let (error, took) = failure(Step::Start, |mut peer| async move {
            peer.send_protocol(header).await;
            peer.expect_end().await;
        })
        .await;
        assert_eq!(error.handshake(), Some(&HandshakeError::Protocol(header)));
        let text = error.to_string();
        let version = format!("{}.{}.{}", header.major, header.minor, header.revision);
        assert!(text.contains(&version), "{text}");
        assert!(took < Duration::from_secs(1));

        // Later it is no more than bytes that are no frame.
        for step in [Step::Credentials, Step::Open] {
            let (error, _) = failure(step, |mut peer| async move {
                peer.send_protocol(header).await;
                settle().await;
            })
            .await;
            let (at, closed) = closed_at(&error);
            assert_eq!((at, closed.code), (step, ReplyCode::FRAME_ERROR));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_speak_amqp() {
    let speakers: [&[u8]; 4] = [
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        // A TLS alert: fatal, unexpected message.
        b"\x15\x03\x03\x00\x02\x02\x0a",
        b"-ERR unknown command 'AMQP'\r\n",
    ];
    for bytes in speakers {
        let (error, took) = failure(Step::Start, |mut peer| async move {
            peer.send_bytes(bytes).await;
            peer.expect_end().await;
        })
        .await;
        let says = match error.handshake() {
            Some(HandshakeError::NotAmqp(fault)) => {
                assert_eq!(fault.offset, 0);
                "does not speak AMQP"
            }
            Some(HandshakeError::TlsExpected) => "expects TLS",
            other => panic!("{other:?}"),
        };
        assert_eq!(says == "expects TLS", bytes[0] == 0x15);
        assert!(error.to_string().contains(says), "{error}");
        assert!(took < Duration::from_secs(1));

        for step in [Step::Credentials, Step::Open] {
            let (error, _) = failure(step, |mut peer| async move {
                peer.send_bytes(bytes).await;
                expect_complaint(&mut peer, step, ReplyCode::FRAME_ERROR).await;
            })
            .await;
            let (at, closed) = closed_at(&error);
            assert_eq!((at, closed.initiator), (step, Initiator::Library));
            assert!(matches!(
                closed.cause,
                Some(CloseCause::Violation(Violation::Decode(_)))
            ));
        }
    }
}

/// Less than a frame's head of another protocol, and then the end.
#[tokio::test(start_paused = true)]
async fn server_that_hangs_up_after_a_few_bytes() {
    for bytes in [&b"A"[..], b"AMQP", b"AMQP\0\0\x09", b"H", b"HTTP/1"] {
        let (error, took) = failure(Step::Start, |mut peer| async move {
            peer.send_bytes(bytes).await;
        })
        .await;
        let (at, closed) = closed_at(&error);
        assert_eq!(at, Step::Start);
        assert_eq!(closed.cause, Some(CloseCause::EndOfStream));
        assert!(took < Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn server_of_another_version_of_amqp() {
    let (error, _) = failure(Step::Start, |mut peer| async move {
        let start = connection::Start {
            version_major: 8,
            mechanisms: LongStr::from("PLAIN"),
            ..Default::default()
        };
        peer.send(0, start).await;
        peer.expect_end().await;
    })
    .await;
    let expected = HandshakeError::Version { major: 8, minor: 0 };
    assert_eq!(error.handshake(), Some(&expected));
    assert!(error.to_string().contains("8-0"), "{error}");
}

/// Methods that are none of the expected ones, and frames on channels that do not exist.
#[tokio::test(start_paused = true)]
async fn server_that_says_something_else() {
    let start = Method::from(connection::Start::default());
    let tune = Method::from(connection::Tune::default());
    let open_ok = Method::from(connection::OpenOk::default());
    let unexpected = [
        (Step::Start, [tune, open_ok.clone()]),
        (Step::Credentials, [start.clone(), open_ok]),
        (
            Step::Open,
            [start, Method::from(connection::Tune::default())],
        ),
    ];
    for (step, methods) in unexpected {
        for method in methods {
            let (error, _) = failure(step, |mut peer| async move {
                let mut payload = Vec::new();
                method.encode(&mut payload).unwrap();
                let frame = RawFrame {
                    kind: frame::METHOD,
                    channel: 0,
                    payload: &payload,
                };
                peer.send_frame(frame).await;
                expect_complaint(&mut peer, step, ReplyCode::COMMAND_INVALID).await;
            })
            .await;
            let (at, closed) = closed_at(&error);
            assert_eq!((at, closed.initiator), (step, Initiator::Library));
        }
        let (error, _) = failure(step, |mut peer| async move {
            peer.send(1, channel::OpenOk::default()).await;
            expect_complaint(&mut peer, step, ReplyCode::CHANNEL_ERROR).await;
        })
        .await;
        let violation = Violation::ChannelNotOpen(1);
        let cause = &closed_at(&error).1.cause;
        assert_eq!(*cause, Some(CloseCause::Violation(violation)));
    }
}

#[tokio::test(start_paused = true)]
async fn no_mechanism_in_common() {
    let (mut peer, stream) = Peer::in_memory(4096);
    let greeting = connection::Start {
        version_minor: 9,
        mechanisms: LongStr::from("EXTERNAL GSSAPI"),
        ..Default::default()
    };
    let server = async {
        peer.expect_protocol().await;
        peer.send(0, greeting).await;
        peer.expect_end().await;
    };
    let client = Connection::open_over(stream, ConnectOptions::new());
    let (result, _) = tokio::join!(client, server);
    let error = result.unwrap_err();
    assert!(
        matches!(error.handshake(), Some(HandshakeError::Authentication(_))),
        "{error:?}"
    );
    assert!(error.to_string().contains("EXTERNAL GSSAPI"), "{error}");
}

/// A challenge that PLAIN knows no answer to.
#[tokio::test(start_paused = true)]
async fn challenge_that_the_mechanism_does_not_know() {
    let (error, _) = failure(Step::Credentials, |mut peer| async move {
        let secure = connection::Secure {
            challenge: LongStr::from("and what else?"),
        };
        peer.send(0, secure).await;
        peer.expect_end().await;
    })
    .await;
    assert!(
        matches!(error.handshake(), Some(HandshakeError::Authentication(_))),
        "{error:?}"
    );
}

// ----- tune -----

fn tune(channel_max: u16, frame_max: u32, heartbeat: u16) -> connection::Tune {
    connection::Tune {
        channel_max,
        frame_max,
        heartbeat,
    }
}

#[tokio::test(start_paused = true)]
async fn zero_in_tune_is_no_limit_and_never_sent_back() {
    let proposals = [
        (tune(0, 131_072, 60), (65_535, 131_072, 60)),
        (tune(2047, 0, 60), (2047, FRAME_MAX_CAP, 60)),
        (tune(2047, 131_072, 0), (2047, 131_072, 0)),
        (tune(0, 0, 0), (65_535, FRAME_MAX_CAP, 0)),
        (tune(1, 4096, 1), (1, 4096, 1)),
        (
            tune(65_535, u32::MAX, 65_535),
            (65_535, FRAME_MAX_CAP, 65_535),
        ),
    ];
    for (proposal, (channel_max, frame_max, heartbeat)) in proposals {
        let (mut peer, stream) = Peer::in_memory(4 * 1024 * 1024);
        let greeting = Greeting {
            tune: proposal,
            ..Default::default()
        };
        let client = Connection::open_over(stream, ConnectOptions::new());
        let (connection, greeted) = tokio::join!(client, peer.handshake(greeting));
        let (connection, tune_ok) = (connection.unwrap(), greeted.tune_ok);
        assert_eq!(
            (tune_ok.channel_max, tune_ok.frame_max, tune_ok.heartbeat),
            (channel_max, frame_max, heartbeat)
        );
        let negotiated = connection.negotiated().unwrap();
        assert_eq!(negotiated.frame_max, frame_max);
        // A body larger than any of these, both ways.
        let (channel, on) = plain_channel(&mut peer, &connection).await;
        let body = vec![7; 2_000_000];
        let publish = channel.publish("", "q", Message::new(body.clone()).mandatory());
        let (sent, publish) = tokio::join!(publish, peer.expect_publish());
        sent.unwrap();
        assert_eq!((publish.channel, &publish.body[..]), (on, &body[..]));
        peer.send_return(&publish, ReplyCode::NO_ROUTE, "NO_ROUTE")
            .await;
        let mut returns = channel.returns();
        let returned = futures_util::StreamExt::next(&mut returns).await.unwrap();
        assert_eq!(returned.unwrap().publication.message.body(), &body[..]);
        drop((returns, channel));
        peer.accept_channel_close(on).await;
        let (closed, _) = tokio::join!(connection.close(), peer.accept_close());
        closed.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeat_zero_is_never_a_reason_to_close() {
    let (mut peer, connection) =
        connected_with(4096, Greeting::default(), ConnectOptions::new()).await;
    peer.expect_silence(Duration::from_secs(24 * 3600)).await;
    assert!(connection.is_open());
    // Nor is it where only we want none.
    let options = ConnectOptions::new().heartbeat(0);
    let greeting = Greeting {
        tune: tune(2047, 131_072, 60),
        ..Default::default()
    };
    let (mut peer, connection) = connected_with(4096, greeting, options).await;
    for _ in 0..100 {
        match peer.next_within(Duration::from_secs(3600)).await {
            Event::Silence(_) => {}
            event => panic!("{event}"),
        }
    }
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn frame_max_below_the_minimum() {
    for frame_max in [1, 7, 8, 4095] {
        let (error, took) = failure(Step::Credentials, |mut peer| async move {
            peer.send(0, tune(2047, frame_max, 60)).await;
            // Nothing is agreed on.
            peer.expect_end().await;
        })
        .await;
        let expected = HandshakeError::Tune(NegotiateError::ServerFrameMax { frame_max });
        assert_eq!(error.handshake(), Some(&expected));
        assert!(
            error.to_string().contains(&frame_max.to_string()),
            "{error}"
        );
        assert!(took < Duration::from_secs(1));

        // Our own is refused before anything is sent.
        let (mut peer, stream) = Peer::in_memory(4096);
        let options = ConnectOptions::new().frame_max(frame_max);
        let error = Connection::open_over(stream, options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(peer.next().await, Event::Eof);
    }
}

#[tokio::test(start_paused = true)]
async fn start_ok_that_no_broker_would_read_is_not_sent() {
    let options = ConnectOptions::new().connection_name("n".repeat(5000));
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let server = async {
        peer.expect_protocol().await;
        let start = connection::Start {
            version_minor: 9,
            mechanisms: LongStr::from("PLAIN"),
            ..Default::default()
        };
        peer.send(0, start).await;
        peer.expect_end().await;
    };
    let (result, _) = tokio::join!(Connection::open_over(stream, options), server);
    let error = result.unwrap_err();
    assert!(
        matches!(error.handshake(), Some(HandshakeError::StartOk(_))),
        "{error:?}"
    );
}

/// What came before open-ok is not lost, what came with it neither.
#[tokio::test(start_paused = true)]
async fn close_right_behind_open_ok() {
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let server = async {
        play_until(&mut peer, Step::Open).await;
        let mut bytes = Vec::new();
        frame::encode_method(0, &connection::OpenOk::default(), &mut bytes).unwrap();
        let close = connection::Close {
            reply_code: ReplyCode::CONNECTION_FORCED,
            reply_text: short!("bye"),
            ..Default::default()
        };
        frame::encode_method(0, &close, &mut bytes).unwrap();
        peer.send_bytes(bytes).await;
        peer.expect::<connection::CloseOk>(0).await;
        peer.expect_end().await;
    };
    let (result, _) = tokio::join!(Connection::open_over(stream, ConnectOptions::new()), server);
    // It was open, and is not any more: the next call says how it ended.
    let connection = result.unwrap();
    let error = connection.open_channel().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed);
    assert_eq!(error.closed().unwrap().code, ReplyCode::CONNECTION_FORCED);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_is_given_up_leaves_nothing() {
    for step in STEPS {
        let (mut peer, stream) = Peer::in_memory(64 * 1024);
        let mut open = Box::pin(Connection::open_over(stream, ConnectOptions::new()));
        assert!(poll_once(open.as_mut()).0.is_pending());
        let played = play_until(&mut peer, step);
        tokio::select! {
            _ = &mut open => panic!("nobody said open-ok"),
            () = played => {}
        }
        drop(open);
        assert!(peer.next().await.is_end());
        drop(peer);
        no_task_left().await;
    }
}

// ----- over sockets -----

const SHORT: Duration = Duration::from_millis(300);

fn options(listener: &Listener) -> ConnectOptions {
    ConnectOptions::try_from(listener.uri().as_str()).unwrap()
}

#[tokio::test]
async fn refused_port() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let uri = format!("amqp://{address}");
    let (result, took) = timed(Connection::open(uri.as_str())).await;
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(took < Duration::from_secs(5));
}

#[tokio::test]
async fn reset_at_each_step() {
    let listener = Peer::listen().await;
    for step in STEPS {
        let server = async {
            let mut peer = listener.accept().await;
            let greeting = Greeting::default();
            match step {
                Step::Start => {
                    peer.expect_protocol().await;
                }
                Step::Credentials => {
                    peer.greet(&greeting).await;
                }
                Step::Open => {
                    peer.greet(&greeting).await;
                    peer.tune(greeting.tune).await;
                    peer.expect::<connection::Open>(0).await;
                }
            }
            peer.reset();
        };
        let ((result, took), ()) =
            tokio::join!(timed(Connection::open(options(&listener))), server);
        let error = result.unwrap_err();
        match (step, error.handshake().unwrap()) {
            (Step::Credentials, HandshakeError::CredentialsProbablyRefused(closed)) => {
                assert!(matches!(closed.cause, Some(CloseCause::Io(_))));
            }
            (Step::Start | Step::Open, HandshakeError::Closed { step: at, closed }) => {
                assert_eq!(*at, step);
                assert!(matches!(closed.cause, Some(CloseCause::Io(_))), "{closed}");
            }
            (_, other) => panic!("{step}: {other:?}"),
        }
        assert!(took < Duration::from_secs(5));
        // One accepted and closed at once, before it said anything.
        let (result, _) = tokio::join!(Connection::open(options(&listener)), async {
            listener.accept().await.reset();
        });
        let error = result.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Handshake | ErrorKind::Connect),
            "{error}"
        );
    }
}

/// The deadline of the handshake, and that of the whole attempt where it is the shorter one.
#[tokio::test]
async fn silent_server_over_a_socket() {
    let listener = Peer::listen().await;
    let (quick, slow) = (SHORT, Duration::from_secs(60));
    let opening = Connection::open(options(&listener).handshake_deadline(quick));
    let ((result, took), _peer) = tokio::join!(timed(opening), listener.accept());
    let error = result.unwrap_err();
    let (step, closed) = closed_at(&error);
    assert_eq!(step, Step::Start);
    assert_eq!(closed.cause, Some(CloseCause::HandshakeTimeout(quick)));
    assert!(took >= quick && took < quick + Duration::from_secs(3));

    let options = options(&listener)
        .handshake_deadline(slow)
        .connect_deadline(quick);
    let ((result, took), _peer) = tokio::join!(timed(Connection::open(options)), listener.accept());
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains(&Operation::Connect.to_string()));
    assert!(took >= quick && took < quick + Duration::from_secs(3));
}

/// A port that takes connections which nobody accepts.
#[tokio::test]
async fn server_that_never_accepts() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let options = ConnectOptions::new()
        .address("127.0.0.1", listener.local_addr().unwrap().port())
        .connect_deadline(SHORT);
    let (result, took) = timed(Connection::open(options)).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(took < SHORT + Duration::from_secs(3));
}
