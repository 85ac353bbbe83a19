use super::*;
use crate::outcome::{Followed, Match};
use amqp_codec::{RawTable, Value};

pub(super) fn confirm_session() -> (Session, ChannelId) {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default());
    (session, id)
}

pub(super) fn publish_all(session: &mut Session, id: ChannelId, publications: &[Publication]) {
    for publication in publications {
        session.publish(id, publication.clone());
    }
    session.transmit();
}

/// Of each publish that was returned: its name, how it was found, and what followed.
pub(super) fn returns(session: &mut Session) -> Vec<(u64, Match, Followed)> {
    let of = |(keep, outcome)| match outcome {
        Outcome::Returned(returned) => Some((keep, returned.matched, returned.followed)),
        Outcome::Acked | Outcome::Nacked(_) | Outcome::Unknown { .. } => None,
    };
    session.settled().into_iter().filter_map(of).collect()
}

/// What became of the publishes, and how many messages came back that are tied to none.
pub(super) fn with_unmatched(session: &mut Session) -> (Vec<(u64, &'static str)>, usize) {
    let (mut outcomes, mut unmatched) = (Vec::new(), 0);
    for event in session.events() {
        match event {
            Event::Settled(_, keep, outcome) => outcomes.push((keep, name(&outcome))),
            Event::Returned(..) => unmatched += 1,
            other => panic!("{other:?}"),
        }
    }
    (outcomes, unmatched)
}

#[test]
fn acks_of_others_stand_between_a_return_and_its_ack() {
    let (mut session, id) = confirm_session();
    let sent: Vec<_> = (0..6).map(|n| mandatory(format!("{n}"))).collect();
    publish_all(&mut session, id, &sent);
    session.feed(
        wire()
            .returned(1, &sent[3])
            .ack(1, 1, false)
            .ack(1, 6, false)
            .nack(1, 2, false),
    );
    assert_eq!(
        session.outcomes(),
        [(1, "acked"), (6, "acked"), (2, "nacked")]
    );
    session.feed(wire().ack(1, 4, false).ack(1, 5, true));
    assert_eq!(
        session.outcomes(),
        [(4, "returned"), (3, "acked"), (5, "acked")]
    );
}

#[test]
fn several_returns_before_one_ack_multiple() {
    let (mut session, id) = confirm_session();
    let sent: Vec<_> = (0..6).map(|n| mandatory(format!("{n}"))).collect();
    publish_all(&mut session, id, &sent);
    session.feed(
        wire()
            .returned(1, &sent[1])
            .returned(1, &sent[2])
            .returned(1, &sent[4]),
    );
    session.feed(wire().ack(1, 6, true));
    let names: Vec<_> = session.outcomes().iter().map(|(_, name)| *name).collect();
    assert_eq!(
        names,
        [
            "acked", "returned", "returned", "acked", "returned", "acked"
        ]
    );
}

#[test]
fn a_return_followed_by_a_nack_says_so() {
    let (mut session, id) = confirm_session();
    let sent = [mandatory("a"), mandatory("b")];
    publish_all(&mut session, id, &sent);
    session.feed(wire().returned(1, &sent[0]).nack(1, 1, false));
    session.feed(wire().returned(1, &sent[1]).nack(1, 2, true));
    assert_eq!(
        returns(&mut session),
        [
            (1, Match::Unique, Followed::Nack),
            (2, Match::Unique, Followed::Nack)
        ]
    );
}

#[test]
fn a_return_without_a_confirm_is_returned_all_the_same() {
    let (mut session, id) = confirm_session();
    let sent = [mandatory("timeout"), mandatory("channel")];
    publish_all(&mut session, id, &sent[..1]);
    session.feed(wire().returned(1, &sent[0]));
    session.pass(seconds(30));
    assert_eq!(
        returns(&mut session),
        [(1, Match::Unique, Followed::Nothing)]
    );
    assert_eq!(session.status(id).counts.returned, 1);
    publish_all(&mut session, id, &sent[1..]);
    session.feed(
        wire()
            .returned(1, &sent[1])
            .channel_close(1, ReplyCode::NOT_FOUND, "gone"),
    );
    let events = session.events();
    assert!(
        matches!(&events[0], Event::Settled(_, 2, Outcome::Returned(returned)) if returned.followed == Followed::Nothing)
    );
}

#[test]
fn the_return_says_code_text_and_brings_the_message_as_it_was_given() {
    let (mut session, id) = confirm_session();
    let sent = publication(
        Message::new("")
            .message_id("01J")
            .header("BCC", "hidden")
            .mandatory(),
    );
    session.publish(id, sent.clone());
    let stripped = publication(Message::new("").message_id("01J").headers(Table::default()));
    session.feed(wire().returned(1, &stripped).ack(1, 1, false));
    let came_back = returned(session.settled().remove(0).1);
    assert_eq!(came_back.publication, sent);
    assert_eq!(
        (came_back.code, came_back.text.as_bytes()),
        (ReplyCode::NO_ROUTE, &b"NO_ROUTE"[..])
    );
}

/// Raw headers: keys in any order, repeated, in any encoding.
fn headers(entries: &[(&str, &[u8])]) -> Properties<'static> {
    let mut bytes = Vec::new();
    for (key, value) in entries {
        bytes.push(key.len() as u8);
        bytes.extend_from_slice(key.as_bytes());
        bytes.extend_from_slice(value);
    }
    Properties {
        headers: Some(RawTable::from_bytes(&bytes).into_owned()),
        ..Properties::EMPTY
    }
}

#[test]
fn headers_come_back_in_another_form() {
    // Two publishes that differ in one header alone: neither may be taken for the other.
    let of = |value: &[u8]| {
        headers(&[
            ("zeta", b"L\0\0\0\0\0\0\0\x05"),
            ("flag", b"t\x02"),
            ("BCC", b"A\0\0\0\x06S\0\0\0\x01q"),
            ("alpha", value),
            ("alpha", b"I\0\0\0\x63"),
        ])
    };
    // As RabbitMQ 4 does it: sorted, the first of each key, l for L, true for 2; without BCC.
    let back = |value: &[u8]| {
        headers(&[
            ("alpha", value),
            ("flag", b"t\x01"),
            ("zeta", b"l\0\0\0\0\0\0\0\x05"),
        ])
    };
    let with = |properties| publication(Message::with_properties("same", properties).mandatory());
    let sent = [with(of(b"I\0\0\0\x01")), with(of(b"I\0\0\0\x02"))];
    let (mut session, id) = confirm_session();
    publish_all(&mut session, id, &sent);
    session.feed(
        wire()
            .returned_with(1, &sent[1], &back(b"I\0\0\0\x02"))
            .ack(1, 2, true),
    );
    assert_eq!(session.outcomes(), [(1, "acked"), (2, "returned")]);

    publish_all(&mut session, id, &sent);
    session.feed(
        wire()
            .returned_with(1, &sent[0], &back(b"l\0\0\0\0\0\0\0\x01"))
            .ack(1, 4, true),
    );
    assert_eq!(session.outcomes(), [(3, "returned"), (4, "acked")]);
}

/// What a server added without end is not looked into for each of the publishes that wait.
#[test]
fn headers_come_back_in_a_reasonable_length() {
    let sent = publication(Message::new("x").header("n", 1_i32).mandatory());
    let with = |padding: usize| {
        let text = [
            &b"S"[..],
            &u32::try_from(padding).expect("short").to_be_bytes(),
            &vec![b'x'; padding],
        ]
        .concat();
        headers(&[("n", b"I\0\0\0\x01"), ("padding", &text)])
    };
    // Of the 7 bytes sent 8 times as much, and 1,024 more, may come back; 20 bytes of it are no padding.
    for (padding, outcome) in [(0, "returned"), (1060, "returned"), (1061, "acked")] {
        let (mut session, id) = confirm_session();
        publish_all(&mut session, id, std::slice::from_ref(&sent));
        session.feed(
            wire()
                .returned_with(1, &sent, &with(padding))
                .ack(1, 1, false),
        );
        let events = session.events();
        let name = events.iter().find_map(|event| match event {
            Event::Settled(.., outcome) => Some(name(outcome)),
            _ => None,
        });
        assert_eq!(name, Some(outcome));
    }
}

#[test]
fn headers_may_be_added_on_the_way() {
    let with = |n: i32| publication(Message::new("same").header("n", n).mandatory());
    let bare = mandatory("same");
    let sent = [bare.clone(), with(1), with(2)];
    let (mut session, id) = confirm_session();
    publish_all(&mut session, id, &sent);
    let added = with(2)
        .message
        .header("x-received-by", "node")
        .header("x-time", 5);
    session.feed(wire().returned_with(1, &sent[2], added.properties()));
    let added = bare.message.clone().header("x-received-by", "node");
    session.feed(wire().returned_with(1, &sent[0], added.properties()));
    session.feed(wire().returned(1, &sent[1]).ack(1, 3, true));
    let returns = returns(&mut session);
    assert_eq!(
        returns.iter().map(|(keep, ..)| *keep).collect::<Vec<_>>(),
        [1, 2, 3]
    );
}

#[test]
fn an_exact_fit_goes_before_one_with_headers_added() {
    let (mut session, id) = confirm_session();
    let less = mandatory("same");
    let more = publication(Message::new("same").header("n", 1).mandatory());
    publish_all(&mut session, id, &[less, more.clone()]);
    session.feed(wire().returned(1, &more).ack(1, 2, true));
    assert_eq!(session.outcomes(), [(1, "acked"), (2, "returned")]);
}

#[test]
fn anything_that_differs_tells_publishes_apart() {
    let base = || Message::new("body").mandatory();
    let at = |exchange: &str, key: &str, message: Message| Publication {
        exchange: text(exchange),
        routing_key: text(key),
        message,
    };
    let sent = [
        at("ex", "key", base()),
        at("other", "key", base()),
        at("ex", "other", base()),
        at("ex", "key", Message::new("Body").mandatory()),
        at("ex", "key", base().message_id("1")),
        at("ex", "key", base().message_id("2")),
        at("ex", "key", base().priority(3)),
        at("ex", "key", base().persistent()),
        at("ex", "key", base().timestamp(9)),
        at("ex", "key", base().header("a", 1)),
        at("ex", "key", base().header("a", 2)),
        at(
            "ex",
            "key",
            base().kind("k").user_id("u").app_id("a").reply_to("r"),
        ),
        at(
            "ex",
            "key",
            base()
                .content_type("c")
                .content_encoding("e")
                .correlation_id("c")
                .expiration("1"),
        ),
        // Cannot be returned at all.
        at("ex", "key", Message::new("body")),
    ];
    for pick in 0..sent.len() - 1 {
        let (mut session, id) = confirm_session();
        publish_all(&mut session, id, &sent);
        session.feed(wire().returned(1, &sent[pick]).ack(1, 0, true));
        assert_eq!(
            returns(&mut session),
            [(pick as u64 + 1, Match::Unique, Followed::Ack)]
        );
    }
}

#[test]
fn of_two_identical_publishes_the_next_in_order_is_taken() {
    let (mut session, id) = confirm_session();
    let same = mandatory("same");
    publish_all(
        &mut session,
        id,
        &[same.clone(), mandatory("other"), same.clone(), same.clone()],
    );
    session.feed(wire().returned(1, &mandatory("other")));
    // Returns come in publish order: it is the first one after the one just returned.
    session.feed(wire().returned(1, &same).ack(1, 4, true));
    assert_eq!(
        returns(&mut session),
        [
            (2, Match::Unique, Followed::Ack),
            (3, Match::Order, Followed::Ack)
        ]
    );
}

#[test]
fn a_publish_that_came_back_is_out_of_the_question() {
    let (mut session, id) = confirm_session();
    let (same, other) = (mandatory("same"), mandatory("other"));
    publish_all(
        &mut session,
        id,
        &[same.clone(), same.clone(), other.clone()],
    );
    session.feed(wire().returned(1, &same).returned(1, &other));
    // Nothing is left after the last one, and before it one alone.
    session.feed(wire().returned(1, &same).ack(1, 3, true));
    assert_eq!(
        returns(&mut session),
        [
            (1, Match::Order, Followed::Ack),
            (2, Match::Unique, Followed::Ack),
            (3, Match::Unique, Followed::Ack)
        ]
    );
}

#[test]
fn the_search_wraps_round_to_older_publishes() {
    let (mut session, id) = confirm_session();
    let sent = [mandatory("a"), mandatory("b")];
    publish_all(&mut session, id, &sent);
    session.feed(
        wire()
            .returned(1, &sent[1])
            .returned(1, &sent[0])
            .ack(1, 2, true),
    );
    let of: Vec<_> = returns(&mut session)
        .iter()
        .map(|(keep, ..)| *keep)
        .collect();
    assert_eq!(of, [1, 2]);
}

/// A return that comes in pieces is of a publish before its first one, also where nothing is left there.
#[test]
fn what_is_published_while_a_return_comes_did_not_come_back() {
    let (mut session, id) = confirm_session();
    let same = mandatory("same");
    publish_all(&mut session, id, std::slice::from_ref(&same));
    let once = wire().returned(1, &same).0;
    let (begun, rest) = once.split_at(once.len() - 1);
    session.feed_bytes(&[&once[..], begun].concat());
    publish_all(&mut session, id, std::slice::from_ref(&same));
    session.feed_bytes(rest);
    session.feed(wire().ack(1, 2, true));
    let outcomes = vec![(1, "returned"), (2, "acked")];
    assert_eq!(with_unmatched(&mut session), (outcomes, 1));
}

/// Nor is it chosen in place of an older one.
#[test]
fn what_is_published_while_a_return_comes_is_not_searched() {
    let (mut session, id) = confirm_session();
    let (same, other) = (mandatory("same"), mandatory("other"));
    publish_all(&mut session, id, &[same.clone(), other.clone()]);
    let bytes = wire().returned(1, &other).returned(1, &same).0;
    let (begun, rest) = bytes.split_at(bytes.len() - 1);
    session.feed_bytes(begun);
    session.publish(id, same);
    session.feed_bytes(rest);
    session.feed(wire().ack(1, 3, true));
    let outcomes = [(1, "returned"), (2, "returned"), (3, "acked")];
    assert_eq!(session.outcomes(), outcomes);
}

/// The same for one that times out meanwhile: the next return is not taken for what is late.
#[test]
fn what_times_out_while_a_return_comes_did_not_come_back() {
    let mut session = Session::open();
    let timeout = seconds(5);
    let id = session.confirm_channel(ConfirmOptions::default().timeout(timeout));
    let same = mandatory("same");
    let once = wire().returned(1, &same).0;
    let (begun, rest) = once.split_at(once.len() - 1);
    session.feed_bytes(begun);
    publish_all(&mut session, id, std::slice::from_ref(&same));
    session.pass(timeout);
    assert_eq!(session.outcomes(), [(1, "unknown")]);
    publish_all(&mut session, id, std::slice::from_ref(&same));
    session.feed_bytes(rest);
    // This one is of the first: the second is acked.
    session.feed(wire().returned(1, &same).ack(1, 2, true));
    assert_eq!(with_unmatched(&mut session), (vec![(2, "acked")], 2));
}

#[test]
fn outside_confirm_mode_returns_are_events() {
    let mut session = Session::open();
    let id = session.channel();
    let sent = publication(Message::new("body").header("n", 1).mandatory());
    session.publish(id, sent.clone());
    session.feed(wire().returned(1, &sent));
    match &session.events()[..] {
        [Event::Returned(channel, returned)] => {
            assert_eq!(*channel, id);
            assert_eq!(
                (&returned.publication, returned.matched),
                (&sent, Match::None)
            );
            assert_eq!(returned.followed, Followed::Nothing);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn headers_that_break_the_limits_harm_nobody() {
    let (mut session, id) = confirm_session();
    let same = mandatory("same");
    session.publish(id, same.clone());
    let mut deep = Vec::new();
    for _ in 0..200 {
        let mut outer = vec![1, b'a', b'F'];
        outer.extend_from_slice(&(deep.len() as u32).to_be_bytes());
        outer.extend_from_slice(&deep);
        deep = outer;
    }
    let properties = Properties {
        headers: Some(RawTable::from_bytes(&deep)),
        ..Properties::EMPTY
    };
    session.feed(wire().returned_with(1, &same, &properties).ack(1, 1, false));
    let events = session.events();
    assert!(matches!(
        &events[..],
        [Event::Settled(_, 1, Outcome::Acked), Event::Returned(..)]
    ));
}

#[test]
fn values_of_any_type_come_back() {
    let sent = publication(
        Message::new("x")
            .header("f", 1.5)
            .header("v", Value::Void)
            .header("t", Value::Timestamp(7))
            .header("nested", table! { "a" => 1, "b" => "two" })
            .mandatory(),
    );
    let reordered = Message::new("x")
        .header("nested", table! { "b" => "two", "a" => 1i64 })
        .header("t", Value::Timestamp(7))
        .header("v", Value::Void)
        .header("f", 1.5);
    let (mut session, id) = confirm_session();
    publish_all(&mut session, id, &[sent.clone(), mandatory("x")]);
    session.feed(
        wire()
            .returned_with(1, &sent, reordered.properties())
            .ack(1, 2, true),
    );
    assert_eq!(session.outcomes(), [(1, "returned"), (2, "acked")]);
}

/// The wrong rule: a return belongs to the publish that is confirmed next.
fn attach_to_the_next_confirm(frames: &[Frame<'_>]) -> Vec<u64> {
    let mut waiting = 0;
    let mut returned = Vec::new();
    for frame in frames {
        match frame {
            Frame::Method {
                method: amqp_codec::Method::BasicReturn(_),
                ..
            } => waiting += 1,
            Frame::Method {
                method: amqp_codec::Method::BasicAck(ack),
                ..
            } if waiting > 0 => {
                waiting -= 1;
                returned.push(ack.delivery_tag);
            }
            _ => {}
        }
    }
    returned
}

#[test]
fn the_check_can_fail_attaching_to_the_next_ack_finds_faults() {
    // Of 200 publishes every 7th comes back. The broker acks in bursts, and other tags stand between a
    // return and its own ack at times.
    let sent: Vec<_> = (1..=200u64).map(|n| mandatory(format!("{n}"))).collect();
    let unroutable: Vec<u64> = (1..=200).filter(|n| n % 7 == 0).collect();
    let mut server = wire();
    for burst in (1..=200u64).collect::<Vec<_>>().chunks(10) {
        let comes_back = burst.iter().filter(|tag| *tag % 7 == 0);
        for tag in comes_back {
            server = server.returned(1, &sent[*tag as usize - 1]);
            if tag % 2 == 0 {
                server = server.ack(1, *tag, false);
            }
        }
        for tag in burst.iter().filter(|tag| *tag % 14 != 0) {
            server = server.ack(1, *tag, false);
        }
    }

    let (mut session, id) = confirm_session();
    publish_all(&mut session, id, &sent);
    let transcript = server.0.clone();
    session.feed(server);
    let ours: Vec<u64> = {
        let mut keeps: Vec<_> = returns(&mut session)
            .iter()
            .map(|(keep, ..)| *keep)
            .collect();
        keeps.sort_unstable();
        keeps
    };
    assert_eq!(ours, unroutable);

    let limits = Limits::default();
    let (mut rest, mut frames) = (&transcript[..], Vec::new());
    while let Some((raw, len)) = RawFrame::parse(rest, &limits).expect("valid") {
        frames.push(raw.decode(&limits).expect("valid"));
        rest = &rest[len..];
    }
    let mut naive = attach_to_the_next_confirm(&frames);
    naive.sort_unstable();
    assert_ne!(naive, unroutable);
    let wrong = naive.iter().filter(|tag| !unroutable.contains(tag)).count();
    assert!(
        wrong >= 10,
        "the transcript has orders that tell the rules apart: {wrong}"
    );
}
