use super::*;
use crate::outcome::{Counts, Followed};

fn seqs(range: std::ops::RangeInclusive<u64>, name: &'static str) -> Vec<(u64, &'static str)> {
    range.map(|keep| (keep, name)).collect()
}

#[test]
fn each_option_is_kept() {
    let options = ConfirmOptions::default()
        .max_in_flight(5)
        .max_bytes(6)
        .timeout(seconds(7))
        .wait(seconds(8))
        .tag_returns(true);
    let expected = ConfirmOptions {
        max_in_flight: 5,
        max_bytes: 6,
        timeout: Some(seconds(7)),
        wait: seconds(8),
        tag_returns: true,
    };
    assert_eq!(options, expected);
    // None in flight would be a channel that never publishes.
    assert_eq!(ConfirmOptions::default().max_in_flight(0).max_in_flight, 1);
}

/// A channel with this many plain publishes waiting for their confirms.
fn with_publishes(count: u64) -> (Session, ChannelId) {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default());
    for _ in 0..count {
        session.publish(id, plain("x"));
    }
    assert_eq!(session.sent().len() as u64, 3 * count);
    (session, id)
}

#[test]
fn one_by_one_in_any_order() {
    let (mut session, id) = with_publishes(4);
    session.feed(wire().ack(1, 3, false).nack(1, 1, false).ack(1, 4, false));
    assert_eq!(
        session.outcomes(),
        [(3, "acked"), (1, "nacked"), (4, "acked")]
    );
    session.feed(wire().ack(1, 2, false));
    assert_eq!(session.outcomes(), [(2, "acked")]);
    let status = session.status(id);
    assert_eq!(
        (status.in_flight, status.bytes_in_flight, status.last),
        (0, 0, 4)
    );
    assert_eq!(
        status.counts,
        Counts {
            acked: 3,
            nacked: 1,
            ..Counts::default()
        }
    );
}

#[test]
fn the_first_word_on_a_tag_counts() {
    let (mut session, _) = with_publishes(5);
    session.feed(wire().nack(1, 2, false).nack(1, 4, false).ack(1, 5, true));
    assert_eq!(
        session.outcomes(),
        [
            (2, "nacked"),
            (4, "nacked"),
            (1, "acked"),
            (3, "acked"),
            (5, "acked")
        ]
    );

    let (mut session, _) = with_publishes(5);
    session.feed(wire().ack(1, 2, false).nack(1, 5, true).ack(1, 5, true));
    assert_eq!(
        session.outcomes(),
        [
            (2, "acked"),
            (1, "nacked"),
            (3, "nacked"),
            (4, "nacked"),
            (5, "nacked")
        ]
    );
}

#[test]
fn a_single_ack_overtakes_a_multiple_one() {
    let (mut session, _) = with_publishes(6);
    session.feed(wire().ack(1, 6, false).ack(1, 5, true));
    assert_eq!(session.outcomes()[0], (6, "acked"));
    session.feed(wire().ack(1, 6, true));
    assert!(session.events().is_empty());
}

#[test]
fn multiple_is_bit_0_alone() {
    let (mut session, _) = with_publishes(3);
    let mut nack = wire().nack(1, 2, false);
    let octet = nack.0.len() - 2;
    assert_eq!(nack.0[octet], 0);
    nack.0[octet] = 0x02;
    session.feed(nack);
    assert_eq!(session.outcomes(), [(2, "nacked")]);
}

#[test]
fn tag_0_with_multiple_is_everything() {
    let (mut session, id) = with_publishes(3);
    session.feed(wire().ack(1, 0, true));
    assert_eq!(session.outcomes(), seqs(1..=3, "acked"));
    session.feed(wire().ack(1, 0, true));
    assert!(session.events().is_empty(), "fine with none outstanding");
    session.publish(id, plain("x"));
    session.feed(wire().nack(1, 0, true));
    assert_eq!(session.outcomes(), [(4, "nacked")]);
}

#[test]
fn a_bogus_tag_costs_the_channel_alone() {
    for (bogus, multiple) in [(4, false), (4, true), (u64::MAX, true), (0, false)] {
        let (mut session, id) = with_publishes(3);
        let other = session.confirm_channel(ConfirmOptions::default());
        session.feed(
            wire()
                .ack(1, 1, false)
                .ack(1, bogus, multiple)
                .ack(1, 2, false),
        );
        assert_eq!(session.sent(), ["1 channel.close 406"]);
        let mut events = session.events();
        assert!(
            matches!(events.pop(), Some(Event::ChannelClosed(closed, reason, counts))
            if closed == id && reason.code == ReplyCode::PRECONDITION_FAILED && counts.unknown == 2)
        );
        assert_eq!(events.len(), 3);
        assert!(matches!(
            events[1],
            Event::Settled(
                _,
                2,
                Outcome::Unknown {
                    reason: UnknownReason::ChannelClosed(_),
                    ..
                }
            )
        ));
        session.feed(wire().method(1, channel::CloseOk {}));
        session.publish(other, plain("y"));
        session.feed(wire().ack(2, 1, false));
        assert_eq!(session.outcomes(), [(4, "acked")]);
        assert_eq!(session.conn.footprint().channels, 1);
    }
}

#[test]
fn a_confirm_outside_confirm_mode_costs_the_channel_alone() {
    let mut session = Session::open();
    session.channel();
    session.publish(
        ChannelId {
            connection: 7,
            incarnation: 1,
            number: 1,
        },
        plain("x"),
    );
    session.sent();
    session.feed(wire().ack(1, 1, false));
    assert_eq!(session.sent(), ["1 channel.close 406"]);
    assert!(session.conn.is_open());
}

#[test]
fn publishes_before_the_select_do_not_count() {
    let mut session = Session::open();
    let id = session.channel();
    session.publish(id, plain("not confirmed"));
    let request = session.conn.next_request();
    session
        .view(id)
        .select_confirms(request, ConfirmOptions::default())
        .expect("plain");
    // Whether the broker would count it, nobody can say.
    assert_eq!(session.try_publish(id, plain("x")), Err(NotSent::Full));
    let again = session.conn.next_request();
    let again = session
        .view(id)
        .select_confirms(again, ConfirmOptions::default());
    assert_eq!(again, Err(UsageError::WrongMode));
    session.feed(wire().method(1, confirm::SelectOk {}));
    session.events();
    let keep = session.publish(id, plain("x"));
    session.feed(wire().ack(1, 1, false));
    assert_eq!(session.outcomes(), [(keep, "acked")]);
}

#[test]
fn one_open_publish_does_not_pin_what_settles_after_it() {
    let (mut session, id) = with_publishes(1);
    for tag in 2..=100_001 {
        session.publish(id, plain("x"));
        session.transmit();
        session.feed(wire().ack(1, tag, false));
        assert_eq!(session.outcomes(), [(tag, "acked")]);
        session.client_bytes.clear();
    }
    let kept = session.view(id).tracker_footprint();
    assert!(kept <= 1000, "{kept} entries for one open publish");
    assert_eq!(session.status(id).in_flight, 1);
    session.pass(seconds(30));
    assert_eq!(session.outcomes(), [(1, "unknown")]);
}

#[test]
fn a_publish_without_confirm_times_out_and_keeps_its_place() {
    let mut session = Session::open();
    let options = ConfirmOptions::default()
        .timeout(seconds(5))
        .max_in_flight(2)
        .max_bytes(10);
    let id = session.confirm_channel(options);
    let body = Bytes::from_static(b"12345678");
    session.publish(id, plain(body.clone()));
    session.pass(seconds(3));
    assert_eq!(
        session.try_publish(id, plain(body.clone())),
        Err(NotSent::Full),
        "by bytes"
    );
    session.pass(Duration::from_millis(1999));
    assert!(session.events().is_empty());
    session.pass(Duration::from_millis(1));
    match session.settled().remove(0) {
        (
            1,
            Outcome::Unknown {
                publication,
                reason: UnknownReason::TimedOut,
            },
        ) => {
            assert_eq!(publication.message.body(), &body);
        }
        other => panic!("{other:?}"),
    }
    let status = session.status(id);
    assert_eq!((status.in_flight, status.bytes_in_flight), (1, 0));
    assert_eq!(
        session.view(id).room_for(11),
        Ok(()),
        "no bytes are in flight"
    );
    session.publish(id, plain(body.clone()));
    assert_eq!(
        session.try_publish(id, plain("")),
        Err(NotSent::Full),
        "by count"
    );
    session.transmit();
    session.pass(seconds(5));
    assert_eq!(session.outcomes(), [(2, "unknown")]);
    assert_eq!(session.conn.poll_timeout(), None);

    // Late words are counted, not told.
    session.feed(wire().ack(1, 2, true));
    assert!(session.events().is_empty());
    let status = session.status(id);
    assert_eq!(
        (status.in_flight, status.counts.late, status.counts.unknown),
        (0, 2, 2)
    );
    session.publish(id, plain(body));
}

#[test]
fn each_publish_has_its_own_deadline() {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default().timeout(seconds(10)));
    for _ in 0..3 {
        session.publish(id, plain("x"));
        session.publish(id, plain("x"));
        session.pass(seconds(4));
    }
    // 12 seconds have passed since the first two.
    assert_eq!(session.outcomes(), [(1, "unknown"), (2, "unknown")]);
    session.feed(wire().ack(1, 4, false));
    session.pass(seconds(2));
    assert_eq!(session.outcomes(), [(4, "acked"), (3, "unknown")]);
    session.pass(seconds(4));
    assert_eq!(session.outcomes(), [(5, "unknown"), (6, "unknown")]);
}

#[test]
fn without_a_timeout_a_publish_waits() {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default().timeout(None));
    session.publish(id, plain("x"));
    session.pass(seconds(1_000_000));
    assert!(session.events().is_empty());
    session.feed(wire().ack(1, 1, false));
    assert_eq!(session.outcomes(), [(1, "acked")]);
}

#[test]
fn what_is_in_flight_is_bounded() {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default().max_in_flight(3).max_bytes(100));
    for _ in 0..3 {
        session.publish(id, plain(""));
    }
    assert_eq!(session.try_publish(id, plain("")), Err(NotSent::Full));
    session.feed(wire().ack(1, 2, false));
    session.publish(id, plain(vec![0; 100]));
    session.feed(wire().ack(1, 3, true));
    assert_eq!(
        session.try_publish(id, plain("x")),
        Err(NotSent::Full),
        "100 bytes are in flight"
    );
    session.publish(id, plain(""));
    session.feed(wire().ack(1, 5, true));
    assert_eq!(session.status(id).in_flight, 0);

    // A message above the bound goes alone.
    session.publish(id, plain("x"));
    assert_eq!(
        session.try_publish(id, plain(vec![0; 101])),
        Err(NotSent::Full)
    );
    session.feed(wire().ack(1, 6, false));
    session.publish(id, plain(vec![0; 101]));
    assert_eq!(session.try_publish(id, plain("x")), Err(NotSent::Full));
    assert_eq!(session.status(id).bytes_in_flight, 101);
    session.feed(wire().nack(1, 7, false));
    assert_eq!(session.status(id).bytes_in_flight, 0);
    session.publish(id, plain("x"));
}

#[test]
fn each_outcome_but_acked_brings_the_message_back() {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default());
    let sent: Vec<_> = (0..4).map(|n| mandatory(format!("message {n}"))).collect();
    for publication in &sent {
        session.publish(id, publication.clone());
    }
    session.transmit();
    session.feed(
        wire()
            .returned(1, &sent[0])
            .ack(1, 1, false)
            .nack(1, 2, false),
    );
    session.feed(wire().returned(1, &sent[2]));
    session.cut();
    let events = session.events();
    let mut came_back = Vec::new();
    for event in events {
        if let Event::Settled(_, keep, outcome) = event {
            if let Outcome::Returned(returned) = &outcome {
                let followed = if keep == 1 {
                    Followed::Ack
                } else {
                    Followed::Nothing
                };
                assert_eq!(returned.followed, followed);
            }
            came_back.push((keep, outcome.into_publication().expect("not acked")));
        }
    }
    assert_eq!(came_back, (1..).zip(sent).collect::<Vec<_>>());
    session.assert_over();
}

#[test]
fn settled_through_looks_at_what_was_published_before() {
    let (mut session, id) = with_publishes(3);
    session.feed(wire().ack(1, 3, false).ack(1, 1, false));
    assert!(session.conn.settled_through(id, PublishSeq(1)));
    assert!(!session.conn.settled_through(id, PublishSeq(3)));
    session.publish(id, plain("later"));
    session.feed(wire().nack(1, 2, false));
    assert!(session.conn.settled_through(id, PublishSeq(3)));
    assert!(!session.conn.settled_through(id, PublishSeq(4)));
}
