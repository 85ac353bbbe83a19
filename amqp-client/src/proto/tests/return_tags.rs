//! Returns by their opt-in header, and those that come too late.

use super::returns::{confirm_session, publish_all, returns, with_unmatched};
use super::*;
use crate::outcome::{Followed, Match};

fn tagging() -> (Session, ChannelId) {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default().tag_returns(true));
    (session, id)
}

fn tag(n: u64) -> Message {
    Message::new("same")
        .header(RETURN_TAG, n.to_string())
        .mandatory()
}

#[test]
fn the_header_says_nothing_on_a_channel_that_does_not_add_it() {
    let (mut session, id) = confirm_session();
    let with_header = publication(tag(2));
    publish_all(&mut session, id, &[with_header.clone(), mandatory("other")]);
    session.feed(wire().returned(1, &with_header).ack(1, 2, true));
    assert_eq!(session.outcomes(), [(1, "returned"), (2, "acked")]);
}

#[test]
fn the_opt_in_header_tells_identical_publishes_apart() {
    let (mut session, id) = tagging();
    let same = mandatory("same");
    session.publish(id, same.clone());
    session.transmit();
    let expected = wire().content(
        1,
        basic::Publish {
            exchange: same.exchange.clone(),
            routing_key: same.routing_key.clone(),
            mandatory: true,
            ..Default::default()
        },
        tag(1).properties(),
        b"same",
    );
    assert_eq!(session.client_bytes, expected.0);
    publish_all(
        &mut session,
        id,
        &[same.clone(), same.clone(), plain("same")],
    );
    session.feed(wire().returned_with(1, &same, tag(3).properties()));
    session.feed(
        wire()
            .returned_with(1, &same, tag(2).properties())
            .ack(1, 4, true),
    );
    let settled = session.settled();
    assert_eq!(
        settled
            .iter()
            .map(|(_, outcome)| name(outcome))
            .collect::<Vec<_>>(),
        ["acked", "returned", "returned", "acked"]
    );
    for (_, outcome) in settled {
        if let Outcome::Returned(returned) = outcome {
            assert_eq!(returned.matched, Match::Header);
            assert_eq!(
                returned.publication, same,
                "as it was given, without the tag"
            );
        }
    }
}

#[test]
fn what_cannot_come_back_or_is_not_to_be_tagged_is_sent_as_it_is() {
    for (tag_returns, publication) in [(false, mandatory("x")), (true, plain("x"))] {
        let mut session = Session::open();
        let options = ConfirmOptions::default().tag_returns(tag_returns);
        let id = session.confirm_channel(options);
        session.publish(id, publication.clone());
        session.transmit();
        let publish = basic::Publish {
            exchange: publication.exchange.clone(),
            routing_key: publication.routing_key.clone(),
            mandatory: publication.message.is_mandatory(),
            ..Default::default()
        };
        let expected = wire().content(1, publish, publication.message.properties(), b"x");
        assert_eq!(session.client_bytes, expected.0);
    }
}

#[test]
fn a_tag_that_is_of_no_open_publish_ties_to_none() {
    for bogus in ["77", "0", "18446744073709551615"] {
        let (mut session, id) = tagging();
        let same = mandatory("same");
        session.publish(id, same.clone());
        let other = Message::new("same").header(RETURN_TAG, bogus);
        session.feed(
            wire()
                .returned_with(1, &same, other.properties())
                .ack(1, 1, false),
        );
        let events = session.events();
        assert!(matches!(
            &events[..],
            [Event::Settled(_, 1, Outcome::Acked), Event::Returned(..)]
        ));
    }
    // What is no tag at all is left to the content.
    let (mut session, id) = tagging();
    let same = mandatory("same");
    session.publish(id, same.clone());
    let other = Message::new("same").header(RETURN_TAG, "nonsense");
    session.feed(
        wire()
            .returned_with(1, &same, other.properties())
            .ack(1, 1, false),
    );
    assert_eq!(returns(&mut session), [(1, Match::Unique, Followed::Ack)]);
}

/// A server that knows the number of a publish before it is made is making it up.
#[test]
fn a_tag_of_what_is_published_while_the_return_comes_ties_to_none() {
    let (mut session, id) = tagging();
    let same = mandatory("same");
    session.publish(id, same.clone());
    let bytes = wire().returned_with(1, &same, tag(2).properties()).0;
    let (begun, rest) = bytes.split_at(bytes.len() - 1);
    session.feed_bytes(begun);
    session.publish(id, same.clone());
    session.feed_bytes(rest);
    session.feed(wire().ack(1, 2, true));
    let outcomes = vec![(1, "acked"), (2, "acked")];
    assert_eq!(with_unmatched(&mut session), (outcomes, 1));
}

#[test]
fn a_publish_comes_back_once() {
    let (mut session, id) = tagging();
    let same = mandatory("same");
    session.publish(id, same.clone());
    session.feed(wire().returned_with(1, &same, tag(1).properties()));
    assert!(session.events().is_empty());
    session.feed(wire().returned_with(1, &same, tag(1).properties()));
    assert!(matches!(session.events()[..], [Event::Returned(..)]));
    session.feed(wire().ack(1, 1, false));
    assert_eq!(returns(&mut session), [(1, Match::Header, Followed::Ack)]);
}

#[test]
fn a_bogus_tag_does_not_disturb_the_order() {
    let (mut session, id) = tagging();
    let same = mandatory("same");
    publish_all(&mut session, id, &[same.clone(), same.clone()]);
    // The broker strips the header from some and garbles it in others.
    let garbled = Message::new("same").header(RETURN_TAG, "99");
    session.feed(
        wire()
            .returned(1, &same)
            .returned_with(1, &same, garbled.properties()),
    );
    session.feed(wire().returned(1, &same).ack(1, 2, true));
    let events = session.events();
    assert!(matches!(
        &events[..],
        [
            Event::Settled(_, 1, Outcome::Returned(_)),
            Event::Settled(_, 2, Outcome::Returned(_)),
            Event::Returned(..)
        ]
    ));
}

#[test]
fn a_late_return_is_not_taken_for_the_retry() {
    let (mut session, id) = confirm_session();
    let same = mandatory("same");
    session.publish(id, same.clone());
    session.pass(seconds(30));
    assert_eq!(session.outcomes(), [(1, "unknown")]);
    session.publish(id, same.clone());
    session.transmit();
    session.feed(wire().returned(1, &same));
    match &session.events()[..] {
        [Event::Returned(channel, returned)] => {
            assert_eq!((*channel, returned.matched), (id, Match::None));
            assert_eq!(returned.publication, same);
        }
        other => panic!("{other:?}"),
    }
    session.feed(wire().ack(1, 2, true));
    assert_eq!(session.outcomes(), [(2, "acked")]);
    assert_eq!(session.status(id).counts.late, 1);

    // The retry comes back as well: the late one has had its return.
    session.publish(id, same.clone());
    session.pass(seconds(30));
    assert_eq!(session.outcomes(), [(3, "unknown")]);
    session.publish(id, same.clone());
    session.transmit();
    session.feed(
        wire()
            .returned(1, &same)
            .returned(1, &same)
            .ack(1, 4, false),
    );
    let events = session.events();
    match &events[..] {
        [
            Event::Settled(_, 4, Outcome::Returned(returned)),
            Event::Returned(..),
        ] => {
            assert_eq!(returned.matched, Match::Unique);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_publish_that_timed_out_is_not_what_another_return_is_of() {
    let (mut session, id) = confirm_session();
    session.publish(id, mandatory("late"));
    session.pass(seconds(30));
    assert_eq!(session.outcomes(), [(1, "unknown")]);
    for (keep, other) in [
        (2, mandatory("body")),
        (3, publication(Message::new("late").priority(1).mandatory())),
    ] {
        session.publish(id, other.clone());
        session.transmit();
        session.feed(wire().returned(1, &other).ack(1, keep, false));
        assert_eq!(
            returns(&mut session),
            [(keep, Match::Unique, Followed::Ack)]
        );
    }
}

#[test]
fn what_came_back_before_it_timed_out_does_not_come_back_again() {
    let (mut session, id) = confirm_session();
    let same = mandatory("same");
    session.publish(id, same.clone());
    session.transmit();
    session.feed(wire().returned(1, &same));
    session.pass(seconds(30));
    assert_eq!(
        returns(&mut session),
        [(1, Match::Unique, Followed::Nothing)]
    );
    session.publish(id, same.clone());
    session.transmit();
    session.feed(wire().returned(1, &same).ack(1, 2, false));
    assert_eq!(returns(&mut session), [(2, Match::Unique, Followed::Ack)]);
}

#[test]
fn a_late_return_with_a_tag_is_not_taken_for_the_retry() {
    let (mut session, id) = tagging();
    let same = mandatory("same");
    session.publish(id, same.clone());
    session.pass(seconds(30));
    session.publish(id, same.clone());
    session.transmit();
    session.feed(
        wire()
            .returned_with(1, &same, tag(1).properties())
            .ack(1, 2, true),
    );
    let events = session.events();
    assert!(matches!(
        &events[..],
        [
            Event::Settled(_, 1, Outcome::Unknown { .. }),
            Event::Settled(_, 2, Outcome::Acked),
            Event::Returned(..)
        ]
    ));
}
