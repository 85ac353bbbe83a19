use super::*;
use crate::auth::{AuthError, Credentials, Login, Mechanism, Secret};
use crate::error::{HandshakeError, Initiator, Step, Violation};
use crate::negotiate::{NegotiateError, Negotiated};

/// Sessions of which the client has done so many steps: none, start-ok, tune-ok and open.
fn at_step(step: Step) -> Session {
    let mut session = Session::new(options());
    match step {
        Step::Start => {}
        Step::Credentials => session.feed(wire().method(0, start())),
        Step::Open => {
            session.feed(wire().method(0, start()));
            session.feed(wire().method(0, tune()));
        }
    }
    session.sent();
    session
}

const STEPS: [Step; 3] = [Step::Start, Step::Credentials, Step::Open];

fn failure(session: &mut Session) -> HandshakeError {
    let mut events = session.events();
    let failure = match events.pop() {
        Some(Event::HandshakeFailed(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(events.is_empty());
    assert!(session.conn.closed().is_some());
    assert_eq!(session.conn.poll_timeout(), None);
    failure
}

#[test]
fn a_good_one() {
    let mut session = Session::new(options().connection_name("orders"));
    assert_eq!(session.sent(), ["AMQP 0 0 9 1"]);
    session.feed(wire().method(0, start()));
    assert_eq!(session.sent(), ["0 connection.start-ok"]);
    assert_eq!(
        session.conn.server().properties.get_str("product"),
        Some("Double")
    );
    assert!(session.conn.server().has_capability("basic.nack"));
    assert!(!session.conn.server().has_capability("publisher_confirms"));
    session.feed(wire().method(0, tune()));
    assert_eq!(
        session.sent(),
        ["0 connection.tune-ok", "0 connection.open"]
    );
    let refused = session.conn.open_channel(RequestId(1));
    assert_eq!(refused, Err(UsageError::NotConnected));
    session.feed(wire().method(0, connection::OpenOk::default()));
    assert!(matches!(session.events()[..], [Event::Opened]));
    assert!(session.conn.is_open());
    session.pass(seconds(3600));
    assert!(
        session.events().is_empty(),
        "the handshake's deadline is over with it"
    );
}

#[test]
fn silence_ends_at_the_deadline() {
    for step in STEPS {
        let mut session = at_step(step);
        session.pass(seconds(9));
        assert!(session.events().is_empty());
        session.pass(seconds(1));
        match failure(&mut session) {
            HandshakeError::Closed {
                step: reached,
                closed,
            } => {
                assert_eq!(reached, step);
                assert_eq!(
                    closed.cause,
                    Some(CloseCause::HandshakeTimeout(seconds(10)))
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_end_of_the_stream_says_how_far_it_got() {
    for step in STEPS {
        let mut session = at_step(step);
        session.cut();
        match (step, failure(&mut session)) {
            (Step::Credentials, HandshakeError::CredentialsProbablyRefused(closed)) => {
                assert_eq!(closed.cause, Some(CloseCause::EndOfStream));
            }
            (Step::Start | Step::Open, HandshakeError::Closed { step: reached, .. }) => {
                assert_eq!(reached, step);
            }
            (step, other) => panic!("{step}: {other:?}"),
        }
        session.cut();
        session.assert_over();
    }
}

#[test]
fn a_close_by_the_server_is_answered_and_told() {
    for step in STEPS {
        for code in [
            ReplyCode::ACCESS_REFUSED,
            ReplyCode::NOT_ALLOWED,
            ReplyCode::CONNECTION_FORCED,
        ] {
            let mut session = at_step(step);
            session.feed(wire().connection_close(code, "no"));
            assert_eq!(session.sent(), ["0 connection.close-ok"]);
            let closed = match (step, failure(&mut session)) {
                (Step::Credentials, HandshakeError::CredentialsRefused(closed)) => {
                    assert_eq!(code, ReplyCode::ACCESS_REFUSED);
                    closed
                }
                (Step::Open, HandshakeError::VirtualHostRefused(closed)) => {
                    assert_eq!(code, ReplyCode::NOT_ALLOWED);
                    closed
                }
                (
                    _,
                    HandshakeError::Closed {
                        step: reached,
                        closed,
                    },
                ) => {
                    assert_eq!(reached, step);
                    let told_apart = [
                        (Step::Credentials, ReplyCode::ACCESS_REFUSED),
                        (Step::Open, ReplyCode::NOT_ALLOWED),
                    ];
                    assert!(!told_apart.contains(&(step, code)), "{step} {code}");
                    closed
                }
                (_, other) => panic!("{other:?}"),
            };
            assert_eq!((closed.code, closed.text.as_bytes()), (code, &b"no"[..]));
            assert_eq!(closed.initiator, Initiator::Server);
        }
    }
}

#[test]
fn another_protocol_is_named_however_it_is_cut() {
    for bytes in [[3, 1, 0, 0], [0, 0, 9, 1], [1, 1, 0, 10]] {
        for cut in 0..8 {
            let mut session = at_step(Step::Start);
            let header = [*b"AMQP", bytes].concat();
            session.feed_bytes(&header[..cut]);
            assert!(session.events().is_empty());
            session.feed_bytes(&header[cut..]);
            session.feed_bytes(b"and more");
            match failure(&mut session) {
                HandshakeError::Protocol(protocol) => assert_eq!(
                    [
                        protocol.id,
                        protocol.major,
                        protocol.minor,
                        protocol.revision
                    ],
                    bytes
                ),
                other => panic!("{other:?}"),
            }
            assert!(session.sent().is_empty());
        }
    }
}

#[test]
fn a_server_that_wants_tls_is_told_by_its_alert() {
    for cut in 0..7 {
        let mut session = at_step(Step::Start);
        let alert = [21, 3, 1, 0, 2, 2, 70];
        session.feed_bytes(&alert[..cut]);
        session.feed_bytes(&alert[cut..]);
        assert_eq!(failure(&mut session), HandshakeError::TlsExpected);
        assert!(session.sent().is_empty());
    }
}

/// spec 2.2.4: until open is sent, a fault is answered by the end of the stream alone.
fn complaint(step: Step, code: u16) -> Vec<String> {
    match step {
        Step::Start | Step::Credentials => Vec::new(),
        Step::Open => vec![format!("0 connection.close {code}")],
    }
}

#[test]
fn garbage_is_a_violation() {
    for (bytes, code) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], 501),
        (b"\x01\x00\x00\xff\xff\xff\xff", 501),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x0a\xcd", 501),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x63\xce", 503),
    ] {
        for step in STEPS {
            let mut session = at_step(step);
            session.feed_bytes(bytes);
            // Who begins with something else than a frame would not understand a close.
            if (bytes[0], step) == (b'H', Step::Start) {
                assert!(session.sent().is_empty());
                assert!(matches!(failure(&mut session), HandshakeError::NotAmqp(_)));
                continue;
            }
            assert_eq!(session.sent(), complaint(step, code));
            match failure(&mut session) {
                HandshakeError::Closed {
                    step: reached,
                    closed,
                } => {
                    assert_eq!((reached, closed.code.0), (step, code));
                    assert!(matches!(closed.cause, Some(CloseCause::Violation(_))));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_method_out_of_turn_is_a_violation() {
    let wires: [fn() -> Wire; 4] = [
        || wire().method(0, connection::OpenOk::default()),
        || wire().method(0, connection::CloseOk {}),
        || wire().method(0, connection::Unblocked {}),
        || wire().method(1, channel::OpenOk::default()),
    ];
    for (index, out_of_turn) in wires.iter().enumerate() {
        for step in STEPS {
            if index == 0 && step == Step::Open {
                continue;
            }
            let mut session = at_step(step);
            session.feed(out_of_turn());
            let code = if index == 3 { 504 } else { 503 };
            assert_eq!(session.sent(), complaint(step, code));
            let failure = failure(&mut session);
            assert!(
                matches!(failure, HandshakeError::Closed { step: reached, .. } if reached == step)
            );
        }
    }
    let mut session = at_step(Step::Open);
    session.feed(wire().method(0, start()));
    assert_eq!(session.sent(), ["0 connection.close 503"]);
}

#[test]
fn a_server_that_says_too_much_is_cut_short() {
    let limits = crate::Limits {
        handshake_bytes: FRAME_MIN_SIZE,
        ..crate::Limits::default()
    };
    let mut session = Session::new(options().limits(limits));
    session.feed(wire().method(0, start()));
    session.sent();
    let said = wire().method(0, start()).0.len();
    // Half of what is left in frames, half as the beginning of one.
    let left = FRAME_MIN_SIZE as usize - said;
    let frames = left / 16;
    session.feed_bytes(&[8, 0, 0, 0, 0, 0, 0, frame::FRAME_END].repeat(frames));
    let mut long = vec![0; left - 8 * frames];
    long[..7].copy_from_slice(&[1, 0, 0, 0, 0, 0x0F, 0xF0]);
    session.feed_bytes(&long);
    assert!(session.sent().is_empty() && session.events().is_empty());
    session.feed_bytes(&[0]);
    assert_eq!(session.sent(), complaint(Step::Credentials, 506));
    match failure(&mut session) {
        HandshakeError::Closed { closed, .. } => {
            let violation = Violation::HandshakeTooLong {
                max: FRAME_MIN_SIZE,
            };
            assert_eq!(closed.cause, Some(CloseCause::Violation(violation)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_version_is_named() {
    let mut session = at_step(Step::Start);
    let start = connection::Start {
        version_minor: 8,
        ..start()
    };
    session.feed(wire().method(0, start));
    assert_eq!(
        failure(&mut session),
        HandshakeError::Version { major: 0, minor: 8 }
    );
    assert!(session.sent().is_empty());
}

#[test]
fn a_start_ok_that_does_not_fit_is_not_sent() {
    let properties = Table::try_from_iter([("big", "x".repeat(4096).as_str())]).expect("short key");
    let mut session = Session::new(options().client_properties(properties));
    session.sent();
    session.feed(wire().method(0, start()));
    assert!(session.sent().is_empty());
    assert!(matches!(failure(&mut session), HandshakeError::StartOk(_)));
}

#[test]
fn no_common_mechanism_is_told() {
    let mut session = at_step(Step::Start);
    let start = connection::Start {
        mechanisms: LongStr::from("EXTERNAL PLAINER"),
        ..start()
    };
    session.feed(wire().method(0, start));
    assert!(session.sent().is_empty());
    match failure(&mut session) {
        HandshakeError::Authentication(AuthError::NoCommonMechanism { offered, .. }) => {
            assert_eq!(offered, "EXTERNAL PLAINER");
        }
        other => panic!("{other:?}"),
    }
}

/// Answers so many challenges, each with its own text turned round.
#[derive(Debug)]
struct Rounds(u32);

impl Mechanism for Rounds {
    fn name(&self) -> &str {
        "ROUNDS"
    }

    fn login(&self, _: &Credentials) -> Result<Box<dyn Login>, AuthError> {
        Ok(Box::new(Rounds(self.0)))
    }
}

impl Login for Rounds {
    fn initial_response(&mut self) -> Result<Secret, AuthError> {
        Ok(Secret::from("hello"))
    }

    fn respond(&mut self, challenge: &[u8]) -> Result<Secret, AuthError> {
        self.0 = self
            .0
            .checked_sub(1)
            .ok_or(AuthError::UnexpectedChallenge)?;
        Ok(Secret::from(
            challenge.iter().rev().copied().collect::<Vec<_>>(),
        ))
    }
}

#[test]
fn as_many_rounds_as_the_mechanism_has() {
    let start = || connection::Start {
        mechanisms: LongStr::from("PLAIN ROUNDS"),
        ..start()
    };
    let secure = || connection::Secure {
        challenge: LongStr::from("abc"),
    };
    let mut session = Session::new(options().mechanism(Rounds(2)));
    session.feed(wire().method(0, start()));
    session.sent();
    for _ in 0..2 {
        session.feed(wire().method(0, secure()));
        session.transmit();
        let answer = wire().method(
            0,
            connection::SecureOk {
                response: LongStr::from("cba"),
            },
        );
        assert_eq!(session.client_bytes, answer.0);
        session.client_bytes.clear();
    }
    session.feed(wire().method(0, tune()));
    assert_eq!(
        session.sent(),
        ["0 connection.tune-ok", "0 connection.open"]
    );

    let mut session = Session::new(options().mechanism(Rounds(0)));
    session.feed(wire().method(0, start()));
    session.feed(wire().method(0, secure()));
    let failure = failure(&mut session);
    assert_eq!(
        failure,
        HandshakeError::Authentication(AuthError::UnexpectedChallenge)
    );
}

/// What is negotiated, and that tune-ok says the same.
fn negotiated(options: ConnectOptions, tune: connection::Tune) -> Negotiated {
    let mut session = Session::new(options);
    session.feed(wire().method(0, start()));
    session.transmit();
    session.client_bytes.clear();
    session.feed(wire().method(0, tune));
    let negotiated = session.conn.negotiated().expect("agreed");
    session.transmit();
    let tune_ok = wire().method(
        0,
        connection::TuneOk {
            channel_max: negotiated.channel_max,
            frame_max: negotiated.frame_max,
            heartbeat: negotiated.heartbeat,
        },
    );
    assert!(session.client_bytes.starts_with(&tune_ok.0));
    negotiated
}

#[test]
fn zeros_in_tune_are_no_limits() {
    let none = connection::Tune {
        channel_max: 0,
        frame_max: 0,
        heartbeat: 0,
    };
    let agreed = negotiated(options(), none);
    assert_eq!(
        (agreed.channel_max, agreed.frame_max, agreed.heartbeat),
        (65_535, 1 << 20, 0)
    );
    let wanted = || options().channel_max(10).frame_max(8192).heartbeat(20);
    let agreed = negotiated(wanted(), none);
    assert_eq!(
        (agreed.channel_max, agreed.frame_max, agreed.heartbeat),
        (10, 8192, 20)
    );
    let full = connection::Tune {
        channel_max: 5,
        frame_max: 4096,
        heartbeat: 7,
    };
    let agreed = negotiated(wanted(), full);
    assert_eq!(
        (agreed.channel_max, agreed.frame_max, agreed.heartbeat),
        (5, 4096, 7)
    );
    assert_eq!(negotiated(options().heartbeat(0), full).heartbeat, 0);
}

#[test]
fn a_frame_max_below_the_minimum_is_told() {
    let mut session = at_step(Step::Credentials);
    let tune = connection::Tune {
        frame_max: 4095,
        ..tune()
    };
    session.feed(wire().method(0, tune));
    assert!(session.sent().is_empty());
    let expected = NegotiateError::ServerFrameMax { frame_max: 4095 };
    assert_eq!(failure(&mut session), HandshakeError::Tune(expected));
}

#[test]
fn closing_during_it_ends_it() {
    for step in STEPS {
        let mut session = at_step(step);
        session
            .conn
            .close(session.now, ReplyCode::REPLY_SUCCESS, text("bye"));
        match failure(&mut session) {
            HandshakeError::Closed { closed, .. } => {
                assert_eq!(closed.initiator, Initiator::Client)
            }
            other => panic!("{other:?}"),
        }
        session.feed(wire().method(0, tune()));
        assert!(session.events().is_empty() && session.sent().is_empty());
    }
}

#[test]
fn nothing_is_said_before_the_protocol_header() {
    let mut session = Session::new(options());
    session.feed(wire().connection_close(ReplyCode::CONNECTION_FORCED, "no"));
    assert!(matches!(
        failure(&mut session),
        HandshakeError::Closed { .. }
    ));
    assert!(session.sent().is_empty(), "an answer without the header");
    session.assert_over();
}
