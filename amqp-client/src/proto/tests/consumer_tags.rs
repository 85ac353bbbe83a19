use super::*;

impl Session {
    /// Asks for a consumer of this tag.
    fn consume(&mut self, id: ChannelId, tag: &str) -> Result<ConsumerId, UsageError> {
        let request = self.conn.next_request();
        self.view(id).consume(request, &tagged(tag))?;
        Ok(ConsumerId(request))
    }

    fn consume_no_wait(&mut self, id: ChannelId, tag: &str) -> Result<ConsumerId, UsageError> {
        let consumer = ConsumerId(self.conn.next_request());
        self.view(id).consume_no_wait(consumer, &tagged(tag))?;
        Ok(consumer)
    }

    fn cancel(&mut self, id: ChannelId, tag: &str) {
        let request = self.conn.next_request();
        self.view(id).cancel(request, text(tag)).expect("open");
    }

    /// The server answers a consume or cancel.
    fn started(&mut self, tag: &str) {
        let consumer_tag = text(tag);
        self.feed(wire().method(1, basic::ConsumeOk { consumer_tag }));
    }

    fn cancelled(&mut self, tag: &str) {
        let consumer_tag = text(tag);
        self.feed(wire().method(1, basic::CancelOk { consumer_tag }));
    }
}

fn tagged(tag: &str) -> basic::Consume<'static> {
    basic::Consume {
        consumer_tag: text(tag),
        ..Default::default()
    }
}

fn in_use<T>(tag: &str) -> Result<T, UsageError> {
    Err(UsageError::ConsumerTagInUse(text(tag)))
}

#[test]
fn a_consumer_without_an_answer_gets_what_comes() {
    let mut session = Session::open();
    let id = session.channel();
    // Another call waits for its answer, and a third one for its turn: neither holds it up.
    session.consume(id, "first").expect("open");
    session.consume(id, "second").expect("open");
    let consumer = session.consume_no_wait(id, "c").expect("a tag of its own");
    assert_eq!(
        session.sent(),
        ["1 basic.consume", "1 basic.consume no-wait"]
    );
    session.feed(wire().deliver(1, "c", 1));
    match &session.events()[..] {
        [Event::Delivered(of, delivery)] if *of == consumer => {
            assert_eq!(delivery.tag().number(), 1)
        }
        other => panic!("{other:?}"),
    }
    session.started("first");
    assert_eq!(session.sent(), ["1 basic.consume"]);
    assert!(matches!(session.events()[..], [Event::Reply(_, Ok(_))]));

    session.cancel(id, "c");
    session.started("second");
    assert_eq!(session.sent(), ["1 basic.cancel c"]);
    session.cancelled("c");
    session.feed(wire().deliver(1, "c", 2));
    assert_eq!(session.sent(), ["1 basic.nack 2 requeue"]);
}

#[test]
fn without_an_answer_a_tag_is_needed() {
    let mut session = Session::open();
    let id = session.channel();
    let none = session.consume_no_wait(id, "");
    assert_eq!(none, Err(UsageError::NoConsumerTag));
    assert!(session.sent().is_empty());
}

#[test]
fn a_refused_consumer_closes_its_channel() {
    let mut session = Session::open();
    let id = session.channel();
    session.consume_no_wait(id, "c").expect("open");
    session.feed(wire().channel_close(1, ReplyCode::NOT_FOUND, "no queue"));
    match &session.events()[..] {
        [Event::ChannelClosed(closed, why, _)] => {
            assert_eq!((*closed, why.code), (id, ReplyCode::NOT_FOUND));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tag_is_one_consumers() {
    let mut session = Session::open();
    let (id, other) = (session.channel(), session.channel());
    session.consume(id, "c").expect("open");
    // It waits for its answer.
    assert_eq!(session.consume(id, "c"), in_use("c"));
    assert_eq!(session.consume_no_wait(id, "c"), in_use("c"));
    session.started("c");
    // It is there.
    assert_eq!(session.consume(id, "c"), in_use("c"));
    assert_eq!(session.consume_no_wait(id, "c"), in_use("c"));
    session.consume_no_wait(id, "d").expect("another tag");
    assert_eq!(session.consume(id, "d"), in_use("d"));
    assert_eq!(session.sent().len(), 2, "nothing of what was refused");
    // Tags made by the server are no concern of ours.
    session.consume(id, "").expect("any number of them");
    session.consume(id, "").expect("any number of them");
    session
        .consume(other, "c")
        .expect("a tag of another channel");

    // What waits for its turn comes behind the cancel, what does not wait might not.
    session.started("made-1");
    session.started("made-2");
    session.cancel(id, "c");
    session.sent();
    assert_eq!(session.consume_no_wait(id, "c"), in_use("c"));
    session.consume(id, "c").expect("free by then");
    assert_eq!(session.consume(id, "c"), in_use("c"));
    assert!(session.sent().is_empty(), "the cancel is unanswered");
    session.cancelled("c");
    assert_eq!(session.sent(), ["1 basic.consume"]);
}

/// Its handle goes while its cancel is unanswered, and one of the same tag waits behind that.
#[test]
fn a_cancelled_consumer_is_not_cancelled_again() {
    let mut session = Session::open();
    let id = session.channel();
    let first = session.consume(id, "c").expect("open");
    session.started("c");
    session.cancel(id, "c");
    let second = session.consume(id, "c").expect("behind the cancel");
    session.view(id).forget_consumer(first);
    session.sent();
    session.cancelled("c");
    session.started("c");
    assert_eq!(session.sent(), ["1 basic.consume"]);
    session.events();
    session.feed(wire().deliver(1, "c", 1));
    assert!(matches!(session.events()[..], [Event::Delivered(of, _)] if of == second));
}

/// RabbitMQ before 4.0 ends the connection for it, and a stream keeps its messages anyway.
#[test]
fn a_message_of_a_stream_is_not_given_back() {
    let mut session = Session::open();
    let id = session.channel();
    let consumer = session.consume_no_wait(id, "c").expect("a tag of its own");
    session.view(id).forget_consumer(consumer);
    session.sent();
    let deliver = |delivery_tag| basic::Deliver {
        consumer_tag: text("c"),
        delivery_tag,
        ..Default::default()
    };
    let of_stream = Properties {
        headers: Some(table! { "x-stream-offset" => 7 }.into()),
        ..Properties::EMPTY
    };
    session.feed(wire().content(1, deliver(1), &of_stream, b"s"));
    assert!(session.sent().is_empty());
    session.feed(wire().content(1, deliver(2), &Properties::EMPTY, b"q"));
    assert_eq!(session.sent(), ["1 basic.nack 2 requeue"]);
}
