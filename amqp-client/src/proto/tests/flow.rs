//! Heartbeats, and everything that makes a publish wait or be refused.

use super::*;
use crate::error::Initiator;
use crate::message::Property;
use amqp_codec::{RawTable, Value};

fn with_heartbeat(heartbeat: u16) -> Session {
    Session::open_with(
        options(),
        connection::Tune {
            heartbeat,
            ..tune()
        },
    )
}

#[test]
fn a_heartbeat_is_sent_after_half_the_interval_of_silence() {
    let mut session = with_heartbeat(10);
    let start = session.now;
    let mut at = Vec::new();
    for second in 1..=12u64 {
        session.feed_bytes(&[8, 0, 0, 0, 0, 0, 0, 0xce]);
        session.pass(seconds(1));
        if session.sent() == ["heartbeat"] {
            at.push(second);
        }
    }
    assert_eq!(at, [5, 10]);
    // Anything sent counts.
    let id = session.channel();
    let opened = session.now - start;
    assert_eq!(opened, seconds(12));
    session.pass(seconds(4));
    session.publish(id, plain("x"));
    assert_eq!(session.sent().len(), 3);
    session.pass(seconds(4));
    assert!(session.sent().is_empty());
    session.pass(seconds(1));
    assert_eq!(session.sent(), ["heartbeat"]);
}

#[test]
fn a_peer_that_is_silent_for_two_intervals_is_gone() {
    let mut session = with_heartbeat(10);
    let id = session.confirm_channel(ConfirmOptions::default());
    session.publish(id, plain("x"));
    session.pass(seconds(19));
    session.feed_bytes(&[8]);
    session.pass(seconds(19));
    // A part of a frame is a sign of life.
    session.feed_bytes(&[0, 0, 0]);
    session.pass(seconds(11));
    assert_eq!(session.outcomes().len(), 1, "the confirm's timeout");
    session.pass(seconds(8));
    assert!(session.conn.closed().is_none());
    session.pass(seconds(1));
    let events = session.events();
    let closed = closed(&events);
    assert_eq!(closed.initiator, Initiator::Transport);
    assert_eq!(
        closed.cause,
        Some(CloseCause::HeartbeatTimeout(seconds(20)))
    );
    session.client_bytes.clear();
    session.assert_over();
}

#[test]
fn a_silent_peer_cannot_hold_up_a_close() {
    let mut session = with_heartbeat(1);
    session
        .conn
        .close(session.now, ReplyCode::REPLY_SUCCESS, text(""));
    session.pass(seconds(2));
    let events = session.events();
    let closed = closed(&events);
    assert_eq!(closed.initiator, Initiator::Client);
    assert_eq!(closed.cause, Some(CloseCause::HeartbeatTimeout(seconds(2))));
}

#[test]
fn without_heartbeats_silence_is_fine() {
    let mut session = with_heartbeat(0);
    assert_eq!(session.conn.poll_timeout(), None);
    session.pass(seconds(1_000_000));
    assert!(session.conn.is_open() && session.sent().is_empty());
}

#[test]
fn heartbeats_do_not_gather_while_the_transport_takes_nothing() {
    let mut session = with_heartbeat(2);
    for _ in 0..100 {
        session.now += seconds(1);
        session.feed_bytes(&[8, 0, 0, 0, 0, 0, 0, 0xce]);
        session.conn.handle_timeout(session.now);
        assert!(
            session.conn.poll_timeout() > Some(session.now),
            "the owner would spin"
        );
    }
    assert_eq!(session.conn.footprint().waiting, 8);
}

#[test]
fn blocked_refuses_publishes_alone() {
    let mut session = Session::open();
    let id = session.channel();
    let reason = text("low on disk");
    session.feed(wire().method(
        0,
        connection::Blocked {
            reason: reason.clone(),
        },
    ));
    assert!(matches!(&session.events()[..], [Event::Blocked(why)] if *why == reason));
    assert_eq!(session.conn.blocked(), Some(&reason));
    assert_eq!(session.try_publish(id, plain("x")), Err(NotSent::Blocked));
    session
        .view(id)
        .send(&basic::Qos::default())
        .expect("other methods go");
    assert_eq!(session.sent(), ["1 basic.qos"]);
    session.feed(wire().method(0, connection::Unblocked {}));
    assert!(matches!(session.events()[..], [Event::Unblocked]));
    session.publish(id, plain("x"));
    // A close ends within its deadline, though a server that blocks does not read it.
    session.feed(wire().method(0, connection::Blocked { reason }));
    session
        .conn
        .close(session.now, ReplyCode::REPLY_SUCCESS, text(""));
    session.pass(seconds(30));
    assert!(session.conn.closed().is_some());
}

#[test]
fn a_channel_without_flow_takes_no_publishes() {
    let mut session = Session::open();
    let (id, other) = (session.channel(), session.channel());
    session.feed(wire().method(
        1,
        channel::Flow {
            active: false,
            ..Default::default()
        },
    ));
    assert_eq!(session.sent(), ["1 channel.flow-ok false"]);
    assert_eq!(session.try_publish(id, plain("x")), Err(NotSent::Full));
    assert_eq!(session.view(id).room_for(0), Err(NotSent::Full));
    session.publish(other, plain("x"));
    session.sent();
    session.feed(wire().method(
        1,
        channel::Flow {
            active: true,
            ..Default::default()
        },
    ));
    assert_eq!(session.sent(), ["1 channel.flow-ok true"]);
    session.publish(id, plain("x"));
}

#[test]
fn large_bodies_of_several_channels_take_turns() {
    let mut session = Session::open_with(
        options(),
        connection::Tune {
            frame_max: 4096,
            ..tune()
        },
    );
    let (one, two) = (
        session.confirm_channel(ConfirmOptions::default()),
        session.channel(),
    );
    session.publish(one, plain(vec![1; 9000]));
    session.publish(one, plain("behind it"));
    session.publish(two, plain(vec![2; 5000]));
    session.publish(two, plain(""));
    session
        .view(one)
        .send(&basic::Qos::default())
        .expect("open");
    assert_eq!(
        session.sent(),
        [
            "1 basic.publish",
            "1 header 9000",
            "2 basic.publish",
            "2 header 5000",
            "1 body 4088",
            "2 body 4088",
            "1 body 4088",
            "2 body 912",
            "1 body 824",
            "2 basic.publish",
            "2 header 0",
            "1 basic.publish",
            "1 header 9",
            "1 body 9",
            "1 basic.qos",
        ]
    );
    session.feed(wire().ack(1, 2, true));
    assert_eq!(session.outcomes().len(), 2);
}

#[test]
fn publishes_wait_for_room_in_the_buffer_and_nothing_else_does() {
    let mut session = Session::open_with(options().outgoing_buffer(1000), tune());
    let id = session.channel();
    // A message above the bound goes when nothing waits.
    session.publish(id, plain(vec![0; 5000]));
    assert_eq!(session.try_publish(id, plain("x")), Err(NotSent::Full));
    session
        .view(id)
        .send(&basic::Qos::default())
        .expect("it may always");
    assert!(
        !session.conn.is_overfull(),
        "a message of ours is no reason not to read"
    );
    session.transmit();
    session.publish(id, plain("x"));
}

fn owing_at_most(owed_bytes: usize) -> ConnectOptions {
    options().limits(crate::Limits {
        owed_bytes,
        ..crate::Limits::default()
    })
}

#[test]
fn who_makes_us_owe_replies_without_taking_them_is_not_read_from() {
    let mut session = Session::open_with(owing_at_most(2000), tune());
    let id = session.channel();
    session.transmit();
    let flow = channel::Flow {
        active: true,
        ..Default::default()
    };
    let mut owed = 0;
    while !session.conn.is_overfull() {
        session.feed(wire().method(1, flow));
        owed += 1;
        assert!(owed < 1000, "no bound");
    }
    session.transmit();
    assert!(!session.conn.is_overfull());
    // The same behind a large body.
    session.publish(id, plain(vec![0; 10_000_000]));
    for _ in 0..owed {
        session.feed(wire().method(1, flow));
    }
    assert!(session.conn.is_overfull());
    session.transmit();
    assert!(!session.conn.is_overfull());
    assert_eq!(session.conn.footprint().waiting, 0);
}

#[test]
fn what_is_owed_goes_with_its_channel() {
    let mut session = Session::open_with(owing_at_most(2000), tune());
    let id = session.channel();
    session.publish(id, plain(vec![0; 1_000_000]));
    for _ in 0..1000 {
        session.feed(wire().method(1, channel::Flow::default()));
    }
    assert!(session.conn.is_overfull());
    session.feed(wire().channel_close(1, ReplyCode::NOT_FOUND, "no"));
    assert!(!session.conn.is_overfull());
}

fn refused(session: &mut Session, id: ChannelId, message: Message) -> UsageError {
    let before = message.clone();
    let published = session.try_publish(id, publication(message.clone()));
    assert_eq!(message, before);
    match published {
        Err(NotSent::Usage(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_sent_is_refused_and_costs_nothing() {
    let mut session = Session::open_with(
        options(),
        connection::Tune {
            frame_max: 4096,
            ..tune()
        },
    );
    let id = session.confirm_channel(ConfirmOptions::default());
    let long = "x".repeat(256);
    let error = refused(&mut session, id, Message::new("x").message_id(long));
    assert_eq!(error, UsageError::InvalidProperty(Property::MessageId));
    for not_finite in [f64::NAN, f64::INFINITY] {
        let nested = table! { "deep" => table! { "n" => not_finite } };
        let error = refused(&mut session, id, Message::new("x").headers(nested));
        assert_eq!(error, UsageError::InvalidProperty(Property::Headers));
    }
    let unknown_tag = Properties {
        headers: Some(RawTable::from_bytes(b"\x01aU\0\x01")),
        ..Properties::EMPTY
    };
    let error = refused(&mut session, id, Message::with_properties("x", unknown_tag));
    assert!(matches!(error, UsageError::InvalidHeaders(_)));
    let error = refused(
        &mut session,
        id,
        Message::new("x").header("big", "x".repeat(4096).as_str()),
    );
    assert!(matches!(error, UsageError::Encode(_)));
    assert!(session.sent().is_empty());
    assert_eq!(session.status(id).last, 0, "no number is used up");
    session.publish(id, plain("x"));
    session.feed(wire().ack(1, 1, false));
    assert_eq!(session.outcomes(), [(1, "acked")]);
}

#[test]
fn the_tag_for_returns_has_to_fit_as_well() {
    let tune = connection::Tune {
        frame_max: 4096,
        ..tune()
    };
    let of = |len: usize| {
        Message::new("x")
            .header("big", Value::LongStr("x".repeat(len).into()))
            .mandatory()
    };
    // 8 of the frame, 12 and 2 before the properties, 4 of the table, 1 + 3 of the key, 5 of the value.
    let exact = 4096 - (8 + 12 + 2) - 4 - 4 - 5;
    let mut session = Session::open_with(options(), tune);
    let id = session.confirm_channel(ConfirmOptions::default());
    session.publish(id, publication(of(exact)));
    assert!(matches!(
        refused(&mut session, id, of(exact + 1)),
        UsageError::Encode(_)
    ));

    let mut session = Session::open_with(options(), tune);
    let id = session.confirm_channel(ConfirmOptions::default().tag_returns(true));
    assert!(matches!(
        refused(&mut session, id, of(exact)),
        UsageError::Encode(_)
    ));
    session.publish(id, publication(of(exact - 50)));
    session.transmit();
    let mut rest = &session.client_bytes[..];
    let limits = Limits::default();
    while let Some((raw, len)) = RawFrame::parse(rest, &limits).expect("valid") {
        assert!(raw.encoded_len() <= 4096);
        rest = &rest[len..];
    }
}
