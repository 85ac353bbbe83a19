use super::*;
use crate::error::{Initiator, Violation};

fn with_publish() -> (Session, ChannelId) {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default().timeout(None));
    session.publish(id, plain("x"));
    session.sent();
    (session, id)
}

fn close(session: &mut Session) {
    session
        .conn
        .close(session.now, ReplyCode::REPLY_SUCCESS, text("bye"));
}

#[test]
fn a_close_waits_for_confirms_then_for_close_ok() {
    let (mut session, id) = with_publish();
    close(&mut session);
    close(&mut session);
    assert!(session.sent().is_empty());
    // Nothing new is taken; waiting for room would be in vain.
    let refused = session.try_publish(id, plain("y"));
    assert!(matches!(
        refused,
        Err(NotSent::Usage(UsageError::ConnectionClosed(_)))
    ));
    let request = session.conn.next_request();
    assert!(matches!(
        session.conn.open_channel(request),
        Err(UsageError::ConnectionClosed(_))
    ));
    session.feed(wire().ack(1, 1, false));
    assert_eq!(session.sent(), ["0 connection.close 200"]);
    assert_eq!(session.outcomes(), [(1, "acked")]);
    session.feed(wire().method(0, connection::CloseOk {}));
    let events = session.events();
    assert!(matches!(
        events[..],
        [Event::ChannelClosed(..), Event::Closed(_)]
    ));
    assert_eq!(closed(&events).initiator, Initiator::Client);
    session.assert_over();
}

#[test]
fn confirms_have_half_of_the_deadline() {
    let (mut session, _) = with_publish();
    close(&mut session);
    session.pass(seconds(14));
    assert!(session.sent().is_empty());
    session.pass(seconds(1));
    assert_eq!(session.sent(), ["0 connection.close 200"]);
    // Still in time: the server flushes what it had.
    session.feed(wire().ack(1, 1, false));
    assert_eq!(session.outcomes(), [(1, "acked")]);
    session.pass(seconds(14));
    assert!(session.events().is_empty());
    session.pass(seconds(1));
    let events = session.events();
    let closed = closed(&events);
    assert_eq!(
        (closed.initiator, &closed.cause),
        (Initiator::Client, &Some(CloseCause::CloseTimeout))
    );
    session.assert_over();
}

#[test]
fn what_is_unconfirmed_at_the_end_is_unknown() {
    let (mut session, _) = with_publish();
    close(&mut session);
    session.pass(seconds(30));
    assert!(matches!(
        &session.events()[..],
        [
            Event::Settled(
                _,
                1,
                Outcome::Unknown {
                    reason: UnknownReason::ConnectionClosed { written: true, .. },
                    ..
                }
            ),
            Event::ChannelClosed(..),
            Event::Closed(_)
        ]
    ));
    session.assert_over();
}

#[test]
fn the_end_of_the_stream_is_as_good_as_close_ok() {
    let mut session = Session::open();
    close(&mut session);
    session.sent();
    session.cut();
    let events = session.events();
    assert_eq!(
        (closed(&events).initiator, &closed(&events).cause),
        (Initiator::Client, &None)
    );
    session.assert_over();
}

#[test]
fn closes_that_cross_are_both_answered() {
    let mut session = Session::open();
    session.channel();
    close(&mut session);
    assert_eq!(session.sent(), ["0 connection.close 200"]);
    session.feed(wire().connection_close(ReplyCode::CONNECTION_FORCED, "crossing"));
    assert_eq!(session.sent(), ["0 connection.close-ok"]);
    let events = session.events();
    assert_eq!(closed(&events).initiator, Initiator::Client);
    session.assert_over();
    session.feed(wire().method(0, connection::CloseOk {}));
    session.cut();
    session.assert_over();
    assert!(session.sent().is_empty());
}

#[test]
fn the_servers_close_is_told_with_code_text_and_method() {
    let (mut session, _) = with_publish();
    let request = session.conn.next_request();
    let opening = session.conn.open_channel(request).expect("free");
    session.transmit();
    session.client_bytes.clear();
    // Not handed to the transport yet.
    session.publish(
        ChannelId {
            incarnation: 1,
            number: 1,
            ..opening
        },
        plain("y"),
    );
    let close = connection::Close {
        reply_code: ReplyCode::CONNECTION_FORCED,
        reply_text: text("node goes down"),
        class_id: 60,
        method_id: 40,
    };
    session.feed(wire().method(0, close));
    assert_eq!(
        session.sent(),
        ["0 connection.close-ok"],
        "and nothing that it would not read"
    );
    let events = session.events();
    let written: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Settled(
                _,
                keep,
                Outcome::Unknown {
                    reason: UnknownReason::ConnectionClosed { written, closed },
                    ..
                },
            ) => {
                assert_eq!(closed.code, ReplyCode::CONNECTION_FORCED);
                Some((*keep, *written))
            }
            _ => None,
        })
        .collect();
    assert_eq!(written, [(1, true), (2, false)]);
    assert!(events.iter().any(|event| matches!(event, Event::Reply(answered, Err(RequestError::ConnectionClosed { .. })) if *answered == request)));
    let closed = closed(&events);
    assert_eq!(
        (closed.initiator, closed.text.as_bytes()),
        (Initiator::Server, &b"node goes down"[..])
    );
    assert_eq!(closed.method, Some(MethodId::BASIC_PUBLISH));
    session.assert_over();
}

#[test]
fn texts_may_be_anything() {
    let mut session = Session::open();
    session.channel();
    let not_utf8 = ShortStr::try_from(&b"caf\xc3\n"[..]).expect("short");
    let close = channel::Close {
        reply_text: not_utf8.clone(),
        ..Default::default()
    };
    session.feed(wire().method(1, close));
    assert!(
        matches!(&session.events()[..], [Event::ChannelClosed(_, reason, _)] if reason.text == not_utf8)
    );
    let close = connection::Close {
        reply_text: not_utf8.clone(),
        ..Default::default()
    };
    session.feed(wire().method(0, close));
    assert_eq!(closed(&session.events()).text, not_utf8);

    // Ours are cut to what a short string holds, between characters.
    let long = format!("a{}", "é".repeat(200));
    assert_eq!(
        crate::error::short_text(&long).as_bytes(),
        &long.as_bytes()[..255]
    );
    assert_eq!(
        crate::error::short_text(&long[1..]).as_bytes(),
        &long.as_bytes()[1..255]
    );
    assert_eq!(crate::error::short_text("").as_bytes(), b"");
}

#[test]
fn acks_before_the_servers_close_count() {
    let (mut session, _) = with_publish();
    session.channel();
    session.feed(
        wire()
            .ack(1, 1, false)
            .connection_close(ReplyCode::CHANNEL_ERROR, "channel 2's fault"),
    );
    let events = session.events();
    assert!(matches!(events[0], Event::Settled(_, 1, Outcome::Acked)));
    session.sent();
    session.assert_over();
}

#[test]
fn after_a_violation_what_was_not_handed_out_is_not_sent() {
    let (mut session, id) = with_publish();
    session.publish(id, plain("y"));
    session.feed(wire().raw(frame::BODY, 1, b"x"));
    assert_eq!(session.sent(), ["0 connection.close 505"]);
    let events = session.events();
    let written: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Settled(
                _,
                _,
                Outcome::Unknown {
                    reason: UnknownReason::ConnectionClosed { written, .. },
                    ..
                },
            ) => Some(*written),
            _ => None,
        })
        .collect();
    assert_eq!(written, [true, false]);
    assert!(
        session.conn.closed().is_none(),
        "the close is to be answered first"
    );
    // Whatever else comes is of no interest, nor is more nonsense.
    session.feed(wire().ack(1, 1, false).raw(frame::HEADER, 1, &[0; 14]));
    session.pass(seconds(30));
    let events = session.events();
    assert_eq!(closed(&events).code, ReplyCode::UNEXPECTED_FRAME);
    session.assert_over();
}

/// Where the bytes that do not decode are, when these go before them.
fn offset_of_garbage(before: Wire) -> u64 {
    let mut session = Session::open();
    session.channel();
    session.feed(before);
    session.events();
    session.feed_bytes(&[9; 8]);
    // A close-ok could not be told from the rest.
    assert_eq!(session.sent(), ["0 connection.close 501"]);
    let events = session.events();
    let cause = closed(&events).cause.clone();
    session.assert_over();
    match cause {
        Some(CloseCause::Violation(Violation::Decode(error))) => error.offset,
        other => panic!("{other:?}"),
    }
}

#[test]
fn garbage_ends_the_connection_and_is_told_by_its_offset() {
    let start = offset_of_garbage(wire());
    let large = || wire().content(1, basic::Return::default(), &Properties::EMPTY, &[7; 4000]);
    let shared = || {
        let header = amqp_codec::ContentHeader {
            class_id: 60,
            body_size: 20_000,
            ..Default::default()
        };
        let mut payload = Vec::new();
        header.encode(&mut payload).expect("short");
        let method = wire().method(1, basic::Return::default());
        method
            .raw(frame::HEADER, 1, &payload)
            .raw(frame::BODY, 1, &[7; 20_000])
    };
    for before in [large, shared as fn() -> Wire] {
        let len = before().0.len() as u64;
        assert_eq!(offset_of_garbage(before()), start + len);
    }
}

#[test]
fn nothing_happens_after_the_end() {
    let (mut session, id) = with_publish();
    session.cut();
    session.events();
    session.assert_over();
    session.feed(
        wire()
            .ack(1, 1, false)
            .connection_close(ReplyCode::NOT_FOUND, "x")
            .raw(9, 9, b""),
    );
    session.cut();
    close(&mut session);
    session.conn.handle_timeout(session.now + seconds(1000));
    assert!(session.conn.channel(id).is_err());
    let request = session.conn.next_request();
    assert!(session.conn.open_channel(request).is_err());
    assert!(
        session
            .conn
            .update_secret(request, b"secret", text("why"))
            .is_err()
    );
    session.assert_over();
    assert!(session.sent().is_empty());
    session.feed_bytes(b"more of the kind");
    assert!(session.input.buffer().is_empty(), "nothing gathers");
}

#[test]
fn a_large_message_goes_out_before_the_close() {
    let mut session = Session::open_with(
        options(),
        connection::Tune {
            frame_max: 4096,
            ..tune()
        },
    );
    let id = session.channel();
    session.publish(id, plain(vec![0; 600_000]));
    close(&mut session);
    let sent = session.sent();
    assert_eq!(sent.len(), 2 + 147 + 1);
    assert_eq!(
        sent.last().map(String::as_str),
        Some("0 connection.close 200")
    );
}

#[test]
fn nothing_follows_a_close_but_the_answer_to_the_servers() {
    let provocations = [
        // To a fault on it, the channel would be closed.
        wire().ack(1, 7, false),
        wire().channel_close(1, ReplyCode::NOT_FOUND, "no"),
        wire().method(
            1,
            channel::Flow {
                active: false,
                ..Default::default()
            },
        ),
        wire().method(
            1,
            basic::Cancel {
                consumer_tag: text("c"),
                ..Default::default()
            },
        ),
        // What nobody wants would be given back.
        wire().deliver(1, "nobody", 1),
        // Behind this answer another request waits.
        wire().method(1, basic::QosOk {}),
    ];
    for provocation in provocations {
        let mut session = Session::open();
        let id = session.channel();
        for _ in 0..2 {
            let request = session.conn.next_request();
            let qos = basic::Qos::default();
            session.view(id).call(request, &qos).expect("open");
        }
        assert_eq!(session.sent(), ["1 basic.qos"]);
        close(&mut session);
        assert_eq!(session.sent(), ["0 connection.close 200"]);
        session.feed(provocation);
        assert!(session.sent().is_empty());
        session.feed(wire().connection_close(ReplyCode::CONNECTION_FORCED, "too"));
        assert_eq!(session.sent(), ["0 connection.close-ok"]);
        session.events();
        session.assert_over();
    }
}
