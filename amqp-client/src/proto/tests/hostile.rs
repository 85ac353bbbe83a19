//! What a peer that means harm, or options beyond reason, must not do.

use super::*;
use amqp_codec::tx;

fn tx_channel() -> (Session, ChannelId) {
    tx_channel_with(options())
}

fn tx_channel_with(options: ConnectOptions) -> (Session, ChannelId) {
    let mut session = Session::open_with(options, tune());
    let id = session.channel();
    let request = session.conn.next_request();
    session.view(id).select_tx(request).expect("plain");
    session.feed(wire().method(1, tx::SelectOk {}));
    session.sent();
    session.events();
    (session, id)
}

fn consume(session: &mut Session, id: ChannelId, tag: &str) -> RequestId {
    let request = session.conn.next_request();
    let consume = basic::Consume {
        consumer_tag: text(tag),
        ..Default::default()
    };
    session.view(id).consume(request, &consume).expect("open");
    request
}

fn consume_ok(tag: &str) -> Wire {
    let consumer_tag = text(tag);
    wire().method(1, basic::ConsumeOk { consumer_tag })
}

fn cancel_ok(tag: &str) -> Wire {
    let consumer_tag = text(tag);
    wire().method(1, basic::CancelOk { consumer_tag })
}

#[test]
fn deadlines_beyond_all_time_are_never_reached() {
    let forever = Duration::MAX;
    let options = options()
        .handshake_deadline(forever)
        .close_deadline(forever);
    let mut session = Session::open_with(options, tune());
    let id = session.confirm_channel(ConfirmOptions::default().timeout(forever));
    session.publish(id, plain("x"));
    session.pass(seconds(1_000_000));
    assert!(session.events().is_empty());
    session
        .conn
        .close(session.now, ReplyCode::REPLY_SUCCESS, text("bye"));
    session.pass(seconds(1_000_000));
    assert!(session.conn.closed().is_none());
}

#[test]
fn a_transaction_keeps_no_more_returns_than_it_published() {
    let (mut session, id) = tx_channel();
    let sent = mandatory("abc");
    session.publish(id, plain("not mandatory"));
    session.publish(id, sent.clone());
    session.publish(id, sent.clone());
    let request = session.commit_it(id);
    // The second is larger than what is left to come back, the fourth one too many.
    session.feed(wire().returned(1, &sent));
    session.feed(wire().returned(1, &mandatory("abcd")));
    session.feed(wire().returned(1, &sent));
    session.feed(wire().returned(1, &mandatory("")));
    let events = session.events();
    assert!(
        matches!(events[..], [Event::Returned(..), Event::Returned(..)]),
        "{events:?}"
    );
    session.feed(wire().method(1, tx::CommitOk {}));
    match &session.events()[..] {
        [Event::Reply(answered, Ok(Reply::Committed(returned)))] if *answered == request => {
            assert_eq!(returned.len(), 2);
        }
        other => panic!("{other:?}"),
    }
    // The next transaction has published nothing.
    session.feed(wire().returned(1, &sent));
    assert!(matches!(session.events()[..], [Event::Returned(..)]));
}

impl Session {
    fn commit_it(&mut self, id: ChannelId) -> RequestId {
        let request = self.conn.next_request();
        self.view(id).commit(request).expect("in tx mode");
        request
    }
}

#[test]
fn a_peer_that_withholds_commit_ok_cannot_make_answers_gather() {
    let (mut session, id) = tx_channel();
    session.commit_it(id);
    session.sent();
    let flow = channel::Flow {
        active: true,
        ..Default::default()
    };
    let thousand = (0..1000).fold(wire(), |wire, _| wire.method(1, flow));
    let mut fed = 0;
    while session.conn.footprint().channels == 1 && fed < 1000 {
        session.feed_bytes(&thousand.0);
        fed += 1;
    }
    assert_closes_with(&mut session, ReplyCode::RESOURCE_ERROR);
    assert!((100..500).contains(&fed), "{fed}");
}

#[test]
fn answers_gather_up_to_the_limit() {
    // Two flow-oks: envelope, method and one octet each.
    let limits = crate::Limits {
        held_answer_bytes: 2 * (8 + 4 + 1),
        ..crate::Limits::default()
    };
    let (mut session, id) = tx_channel_with(options().limits(limits));
    session.commit_it(id);
    session.sent();
    for _ in 0..2 {
        session.feed(wire().method(1, channel::Flow::default()));
        assert!(session.sent().is_empty());
    }
    session.feed(wire().method(1, channel::Flow::default()));
    assert_closes_with(&mut session, ReplyCode::RESOURCE_ERROR);
}

#[test]
fn what_a_transaction_gives_back_is_not_remembered() {
    let (mut session, id) = tx_channel();
    for tag in 1..=100 {
        session.feed(wire().deliver(1, "nobody", tag));
    }
    assert_eq!(session.sent().len(), 100);
    let request = session.conn.next_request();
    session.view(id).rollback(request).expect("in tx mode");
    session.feed(wire().method(1, tx::RollbackOk {}));
    let tag = DeliveryTag {
        channel: id,
        tag: 100,
    };
    assert_eq!(
        session.view(id).settle(tag, true, Settle::Ack),
        Err(UsageError::UnknownDeliveryTag(100))
    );
}

#[test]
fn a_cancel_ok_for_another_consumer_is_refused() {
    let mut session = Session::open();
    let id = session.channel();
    for tag in ["a", "b"] {
        consume(&mut session, id, tag);
        session.feed(consume_ok(tag));
    }
    let request = session.conn.next_request();
    session.view(id).cancel(request, text("a")).expect("open");
    session.sent();
    session.events();
    session.feed(cancel_ok("b"));
    assert!(matches!(
        session.events()[..],
        [
            Event::Reply(answered, Err(RequestError::ConnectionClosed { .. })),
            Event::ChannelClosed(..)
        ] if answered == request
    ));
    assert_closes_with(&mut session, ReplyCode::COMMAND_INVALID);
}

#[test]
fn a_consume_ok_for_a_consumer_that_is_there_is_refused() {
    for (asked, answered) in [("", "a"), ("b", "a"), ("b", "c")] {
        let mut session = Session::open();
        let id = session.channel();
        consume(&mut session, id, "a");
        session.feed(consume_ok("a"));
        let request = consume(&mut session, id, asked);
        session.sent();
        session.events();
        session.feed(consume_ok(answered));
        assert!(
            matches!(
                session.events()[..],
                [
                    Event::Reply(failed, Err(RequestError::ConnectionClosed { .. })),
                    Event::ChannelClosed(..)
                ] if failed == request
            ),
            "{asked} {answered}"
        );
        assert_closes_with(&mut session, ReplyCode::COMMAND_INVALID);
    }
}

#[test]
fn debug_output_shows_lengths_and_no_bytes() {
    let mut session = Session::open();
    let id = session.channel();
    session.publish(id, plain("secret".repeat(1000)));
    let mut batch = Batch::new();
    assert!(session.conn.poll_transmit(session.now, &mut batch));
    let bytes = batch.remaining();
    let mut input = Input::new(&crate::Limits::default());
    input.buffer().extend_from_slice(b"secret");
    let shown = format!("{batch:?} {input:?}");
    assert!(shown.contains(&bytes.to_string()), "{shown}");
    assert!(shown.contains("buffered: 6"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    assert!(!shown.contains("115, 101"), "{shown}");
}

#[test]
fn a_message_goes_when_nothing_waits_whatever_the_limit() {
    let mut session = Session::open_with(options().outgoing_buffer(0), tune());
    let id = session.channel();
    session.publish(id, plain("x"));
    assert_eq!(session.try_publish(id, plain("y")), Err(NotSent::Full));
    session.transmit();
    session.publish(id, plain("y"));
}
