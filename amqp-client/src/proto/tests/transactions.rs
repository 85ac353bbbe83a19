use super::*;
use amqp_codec::tx;

fn tx_channel() -> (Session, ChannelId) {
    let mut session = Session::open();
    let id = session.channel();
    let request = session.conn.next_request();
    session.view(id).select_tx(request).expect("plain");
    assert_eq!(session.sent(), ["1 tx.select"]);
    session.feed(wire().method(1, tx::SelectOk {}));
    assert_eq!(session.events().len(), 1);
    (session, id)
}

impl Session {
    fn commit(&mut self, id: ChannelId) -> RequestId {
        let request = self.conn.next_request();
        self.view(id).commit(request).expect("in tx mode");
        request
    }

    /// A consumer, and so many deliveries to it.
    fn deliver_to_consumer(
        &mut self,
        id: ChannelId,
        tags: std::ops::RangeInclusive<u64>,
    ) -> Vec<DeliveryTag> {
        let request = self.conn.next_request();
        self.view(id)
            .consume(request, &basic::Consume::default())
            .expect("open");
        self.feed(wire().method(
            1,
            basic::ConsumeOk {
                consumer_tag: text("c"),
            },
        ));
        for tag in tags {
            self.feed(wire().deliver(1, "c", tag));
        }
        self.sent();
        let tag = |event| match event {
            Event::Delivered(_, delivery) => Some(delivery.tag()),
            _ => None,
        };
        self.events().into_iter().filter_map(tag).collect()
    }

    fn ack(&mut self, id: ChannelId, tag: DeliveryTag, multiple: bool) -> Result<(), UsageError> {
        self.view(id).settle(tag, multiple, Settle::Ack)
    }
}

#[test]
fn returns_come_with_the_commit() {
    let (mut session, id) = tx_channel();
    let sent = [mandatory("a"), mandatory("b")];
    for publication in &sent {
        session.publish(id, publication.clone());
    }
    let request = session.commit(id);
    session.feed(wire().returned(1, &sent[1]));
    assert!(session.events().is_empty());
    session.feed(wire().method(1, tx::CommitOk {}));
    match &session.events()[..] {
        [Event::Reply(answered, Ok(Reply::Committed(returned)))] => {
            assert_eq!(*answered, request);
            assert_eq!(returned.len(), 1);
            assert_eq!(returned[0].publication, sent[1]);
        }
        other => panic!("{other:?}"),
    }
    let request = session.conn.next_request();
    session.view(id).rollback(request).expect("in tx mode");
    session.feed(wire().method(1, tx::RollbackOk {}));
    assert!(
        matches!(&session.events()[..], [Event::Reply(_, Ok(Reply::RolledBack(returned)))] if returned.is_empty())
    );
}

#[test]
fn nothing_is_sent_while_a_commit_is_pending() {
    let (mut session, id) = tx_channel();
    let tags = session.deliver_to_consumer(id, 1..=2);
    session.ack(id, tags[0], false).expect("outstanding");
    session.commit(id);
    assert_eq!(session.sent(), ["1 basic.ack 1", "1 tx.commit"]);
    session.ack(id, tags[1], false).expect("outstanding");
    assert_eq!(session.try_publish(id, plain("x")), Err(NotSent::Full));
    let next = session.conn.next_request();
    session
        .view(id)
        .call(next, &basic::Qos::default())
        .expect("open");
    assert!(session.sent().is_empty());
    session.feed(wire().method(1, tx::CommitOk {}));
    assert_eq!(session.sent(), ["1 basic.ack 2", "1 basic.qos"]);
    session.publish(id, plain("x"));
}

#[test]
fn a_rollback_makes_its_acks_outstanding_again() {
    let (mut session, id) = tx_channel();
    let tags = session.deliver_to_consumer(id, 1..=4);
    session.ack(id, tags[1], true).expect("outstanding");
    assert_eq!(
        session.ack(id, tags[0], false),
        Err(UsageError::UnknownDeliveryTag(1))
    );
    let request = session.conn.next_request();
    session.view(id).rollback(request).expect("in tx mode");
    session
        .ack(id, tags[2], false)
        .expect("waits for the answer");
    session.sent();
    session.feed(wire().method(1, tx::RollbackOk {}));
    assert_eq!(session.sent(), ["1 basic.ack 3"]);
    for tag in &tags[..2] {
        session.ack(id, *tag, false).expect("outstanding again");
    }
    // It was sent after the rollback, in the transaction that is open now.
    assert_eq!(
        session.ack(id, tags[2], false),
        Err(UsageError::UnknownDeliveryTag(3))
    );
    session.commit(id);
    session.feed(wire().method(1, tx::CommitOk {}));
    for tag in &tags[..3] {
        assert!(session.ack(id, *tag, false).is_err(), "committed");
    }
    session.ack(id, tags[3], false).expect("outstanding");
}

#[test]
fn acks_sent_after_a_commit_belong_to_the_next_transaction() {
    let (mut session, id) = tx_channel();
    let tags = session.deliver_to_consumer(id, 1..=2);
    session.ack(id, tags[0], false).expect("outstanding");
    session.commit(id);
    session.ack(id, tags[1], false).expect("held back");
    session.feed(wire().method(1, tx::CommitOk {}));
    let request = session.conn.next_request();
    session.view(id).rollback(request).expect("in tx mode");
    session.feed(wire().method(1, tx::RollbackOk {}));
    session
        .ack(id, tags[1], false)
        .expect("the rollback undid it");
    assert_eq!(
        session.ack(id, tags[0], false),
        Err(UsageError::UnknownDeliveryTag(1))
    );
}

#[test]
fn a_refused_commit_tells_why_and_what_had_come_back() {
    let (mut session, id) = tx_channel();
    let sent = mandatory("a");
    session.publish(id, sent.clone());
    let request = session.commit(id);
    session.feed(wire().returned(1, &sent));
    session.feed(wire().channel_close(1, ReplyCode::PRECONDITION_FAILED, "partial tx completion"));
    match &session.events()[..] {
        [
            Event::Reply(answered, Err(RequestError::ChannelClosed { method, closed })),
            Event::Returned(_, returned),
            Event::ChannelClosed(..),
        ] => {
            assert_eq!((*answered, *method), (request, MethodId::TX_COMMIT));
            assert_eq!(closed.code, ReplyCode::PRECONDITION_FAILED);
            assert_eq!(returned.publication, sent);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cut_before_commit_ok_fails_the_commit() {
    let (mut session, id) = tx_channel();
    session.publish(id, plain("a"));
    let request = session.commit(id);
    session.transmit();
    session.cut();
    match &session.events()[..] {
        [
            Event::Reply(answered, Err(RequestError::ConnectionClosed { method, .. })),
            Event::ChannelClosed(..),
            Event::Closed(_),
        ] => assert_eq!((*answered, *method), (request, MethodId::TX_COMMIT)),
        other => panic!("{other:?}"),
    }
    session.assert_over();
}

#[test]
fn a_commit_that_was_given_up_closes_the_channel() {
    let (mut session, id) = tx_channel();
    session.publish(id, plain("a"));
    let request = session.commit(id);
    session.sent();
    session.view(id).abandon(request);
    assert_eq!(session.sent(), ["1 channel.close 200"]);
    // RabbitMQ: close-ok, and no commit-ok.
    session.feed(wire().method(1, channel::CloseOk {}));
    assert!(matches!(session.events()[..], [Event::ChannelClosed(..)]));
    assert_eq!(session.conn.footprint().channels, 0);
}

#[test]
fn a_confirm_in_tx_mode_costs_the_channel() {
    let (mut session, id) = tx_channel();
    session.publish(id, plain("a"));
    session.sent();
    session.feed(wire().ack(1, 1, false));
    assert_eq!(session.sent(), ["1 channel.close 406"]);
}
