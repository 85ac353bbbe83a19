use super::*;

impl Session {
    fn consumer(&mut self, id: ChannelId, tag: &'static str, no_ack: bool) -> ConsumerId {
        let request = self.conn.next_request();
        let consume = basic::Consume {
            no_ack,
            // There is an answer all the same.
            no_wait: true,
            ..Default::default()
        };
        self.view(id).consume(request, &consume).expect("open");
        assert_eq!(self.sent(), [format!("{} basic.consume", id.number)]);
        self.feed(wire().method(
            id.number,
            basic::ConsumeOk {
                consumer_tag: text(tag),
            },
        ));
        assert!(
            matches!(self.events()[..], [Event::Reply(answered, Ok(_))] if answered == request)
        );
        ConsumerId(request)
    }

    /// Takes what was delivered.
    fn deliveries(&mut self) -> Vec<(ConsumerId, DeliveryTag)> {
        let delivered = |event| match event {
            Event::Delivered(consumer, delivery) => (consumer, delivery.tag()),
            other => panic!("{other:?}"),
        };
        self.events().into_iter().map(delivered).collect()
    }

    fn settle(&mut self, tag: DeliveryTag, multiple: bool, how: Settle) -> Result<(), UsageError> {
        self.view(tag.channel()).settle(tag, multiple, how)
    }
}

#[test]
fn each_delivery_is_settled_once() {
    let mut session = Session::open();
    let id = session.channel();
    let consumer = session.consumer(id, "c", false);
    session.feed(
        wire()
            .deliver(1, "c", 1)
            .deliver(1, "c", 2)
            .deliver(1, "c", 3)
            .deliver(1, "c", 4),
    );
    let tags: Vec<_> = session
        .deliveries()
        .into_iter()
        .map(|(of, tag)| {
            assert_eq!(of, consumer);
            tag
        })
        .collect();
    session
        .settle(tags[1], false, Settle::Nack { requeue: true })
        .expect("outstanding");
    session
        .settle(tags[2], true, Settle::Ack)
        .expect("outstanding");
    session
        .settle(tags[3], false, Settle::Reject { requeue: false })
        .expect("outstanding");
    assert_eq!(
        session.sent(),
        [
            "1 basic.nack 2 requeue",
            "1 basic.ack 3 multiple",
            "1 basic.reject 4"
        ]
    );
    for tag in tags {
        for multiple in [false, true] {
            let again = session.settle(tag, multiple, Settle::Ack);
            assert_eq!(again, Err(UsageError::UnknownDeliveryTag(tag.number())));
        }
    }
    assert!(session.sent().is_empty(), "nothing is sent when refused");
    assert!(session.conn.is_open());
}

#[test]
fn a_tag_belongs_to_one_opening_of_one_channel() {
    let mut session = Session::open();
    let (one, two) = (session.channel(), session.channel());
    session.consumer(one, "c", false);
    session.consumer(two, "c", false);
    session.feed(wire().deliver(1, "c", 1).deliver(2, "c", 1));
    let tags: Vec<_> = session
        .deliveries()
        .into_iter()
        .map(|(_, tag)| tag)
        .collect();
    let foreign = session.view(two).settle(tags[0], false, Settle::Ack);
    assert_eq!(foreign, Err(UsageError::ForeignDeliveryTag));

    session.feed(wire().channel_close(1, ReplyCode::PRECONDITION_FAILED, "timeout"));
    session.events();
    session.sent();
    let again = session.channel();
    assert_eq!(again.number, one.number);
    session.consumer(again, "c", false);
    session.feed(wire().deliver(1, "c", 1));
    assert_eq!(session.deliveries().len(), 1);
    let old = session.view(again).settle(tags[0], false, Settle::Ack);
    assert_eq!(old, Err(UsageError::ForeignDeliveryTag));
    assert!(session.conn.channel(one).is_err());
    assert!(session.sent().is_empty());
}

#[test]
fn a_tag_of_another_connection_is_foreign() {
    let (mut one, mut two) = (Session::open(), Session::open());
    let id = one.channel();
    one.consumer(id, "c", false);
    one.feed(wire().deliver(1, "c", 1));
    let (_, mut tag) = one.deliveries().remove(0);
    tag.channel.connection = 8;
    let of_two = two.channel();
    two.consumer(of_two, "c", false);
    two.feed(wire().deliver(1, "c", 1));
    let refused = two.view(of_two).settle(tag, false, Settle::Ack);
    assert_eq!(refused, Err(UsageError::ForeignDeliveryTag));
}

#[test]
fn reject_knows_no_multiple() {
    let mut session = Session::open();
    let id = session.channel();
    session.consumer(id, "c", false);
    session.feed(wire().deliver(1, "c", 1).deliver(1, "c", 2));
    let tags: Vec<_> = session
        .deliveries()
        .into_iter()
        .map(|(_, tag)| tag)
        .collect();
    session
        .settle(tags[1], true, Settle::Reject { requeue: true })
        .expect("outstanding");
    session
        .settle(tags[0], false, Settle::Ack)
        .expect("still outstanding");
    assert_eq!(
        session.sent(),
        ["1 basic.reject 2 requeue", "1 basic.ack 1"]
    );
}

#[test]
fn deliveries_without_acks_cannot_be_acked() {
    let mut session = Session::open();
    let id = session.channel();
    session.consumer(id, "quiet", true);
    session.consumer(id, "c", false);
    // They use up tags too.
    session.feed(
        wire()
            .deliver(1, "quiet", 1)
            .deliver(1, "quiet", 2)
            .deliver(1, "c", 3),
    );
    let tags: Vec<_> = session
        .deliveries()
        .into_iter()
        .map(|(_, tag)| tag)
        .collect();
    assert_eq!(
        session.settle(tags[0], false, Settle::Ack),
        Err(UsageError::UnknownDeliveryTag(1))
    );
    session
        .settle(tags[2], true, Settle::Ack)
        .expect("outstanding");
    assert_eq!(session.sent(), ["1 basic.ack 3 multiple"]);
}

#[test]
fn tags_that_do_not_grow_cost_the_channel() {
    let mut session = Session::open();
    let id = session.channel();
    session.consumer(id, "c", false);
    session.feed(wire().deliver(1, "c", 5).deliver(1, "c", 5));
    assert_eq!(session.sent(), ["1 channel.close 406"]);
    assert!(session.conn.is_open());
}

#[test]
fn what_comes_for_a_forgotten_consumer_goes_back() {
    let mut session = Session::open();
    let id = session.channel();
    let (acks, quiet) = (
        session.consumer(id, "c", false),
        session.consumer(id, "quiet", true),
    );
    session.feed(wire().deliver(1, "c", 1));
    let (_, tag) = session.deliveries().remove(0);
    session.view(id).forget_consumer(acks);
    session.view(id).forget_consumer(acks);
    session.view(id).forget_consumer(quiet);
    assert_eq!(session.sent(), ["1 basic.cancel c"]);
    session.feed(wire().deliver(1, "c", 2).deliver(1, "quiet", 3));
    assert_eq!(session.sent(), ["1 basic.nack 2 requeue"]);
    session
        .settle(tag, false, Settle::Ack)
        .expect("what was delivered before is still to be settled");
    session.sent();
    session.feed(
        wire()
            .method(
                1,
                basic::CancelOk {
                    consumer_tag: text("c"),
                },
            )
            .deliver(1, "quiet", 4),
    );
    assert_eq!(session.sent(), ["1 basic.cancel quiet"]);
    session.feed(wire().method(
        1,
        basic::CancelOk {
            consumer_tag: text("quiet"),
        },
    ));
    assert!(session.events().is_empty());
}

#[test]
fn the_server_cancels_a_consumer() {
    let mut session = Session::open();
    let id = session.channel();
    let consumer = session.consumer(id, "c", false);
    session.feed(wire().deliver(1, "c", 1));
    let (_, tag) = session.deliveries().remove(0);
    let cancel = basic::Cancel {
        consumer_tag: text("c"),
        no_wait: true,
        ..Default::default()
    };
    session.feed(wire().method(1, cancel.clone()));
    assert!(
        matches!(&session.events()[..], [Event::ConsumerCancelled(channel, cancelled, tag)]
        if (*channel, *cancelled) == (id, consumer) && tag.as_bytes() == b"c")
    );
    session
        .settle(tag, false, Settle::Ack)
        .expect("acking afterwards works");
    assert_eq!(session.sent(), ["1 basic.ack 1"]);
    // RabbitMQ 4.3 delivers again to the tag that it has cancelled.
    session.feed(wire().deliver(1, "c", 2));
    assert_eq!(session.sent(), ["1 basic.nack 2 requeue"]);
    // Another server waits for an answer.
    let cancel = basic::Cancel {
        no_wait: false,
        ..cancel
    };
    session.feed(wire().method(1, cancel));
    assert_eq!(session.sent(), ["1 basic.cancel-ok"]);
    assert!(session.events().is_empty());
}

#[test]
fn a_cancelled_consumer_gets_what_was_under_way() {
    let mut session = Session::open();
    let id = session.channel();
    let consumer = session.consumer(id, "c", false);
    let request = session.conn.next_request();
    let cancel = basic::Cancel {
        consumer_tag: text("c"),
        ..Default::default()
    };
    session.view(id).call(request, &cancel).expect("open");
    session.feed(wire().deliver(1, "c", 1));
    assert_eq!(session.deliveries()[0].0, consumer);
    let consumer_tag = text("c");
    session.feed(wire().method(1, basic::CancelOk { consumer_tag }));
    assert!(matches!(session.events()[..], [Event::Reply(answered, Ok(_))] if answered == request));
    session.sent();
    session.feed(wire().deliver(1, "c", 2));
    assert!(session.events().is_empty());
    assert_eq!(session.sent(), ["1 basic.nack 2 requeue"]);
}

#[test]
fn recover_takes_all_tags_away() {
    let mut session = Session::open();
    let id = session.channel();
    session.consumer(id, "c", false);
    session.feed(wire().deliver(1, "c", 1));
    let (_, before) = session.deliveries().remove(0);
    let request = session.conn.next_request();
    session
        .view(id)
        .call(
            request,
            &basic::Recover {
                requeue: true,
                ..Default::default()
            },
        )
        .expect("open");
    assert_eq!(session.sent(), ["1 basic.recover"]);
    // On its way when the server read recover: it goes back with the rest.
    session.feed(wire().deliver(1, "c", 2));
    let (_, crossing) = session.deliveries().remove(0);
    session.feed(wire().method(1, basic::RecoverOk {}).deliver(1, "c", 3));
    let events = session.events();
    let [Event::Delivered(_, after), Event::Reply(..)] = &events[..] else {
        panic!("{events:?}");
    };
    let after = after.tag();
    for tag in [before, crossing] {
        assert_eq!(
            session.settle(tag, false, Settle::Ack),
            Err(UsageError::UnknownDeliveryTag(tag.number()))
        );
    }
    session
        .settle(after, false, Settle::Ack)
        .expect("outstanding");
    assert_eq!(session.sent(), ["1 basic.ack 3"]);
}

#[test]
fn the_parts_of_a_delivery() {
    let mut session = Session::open();
    let id = session.channel();
    session.consumer(id, "c", false);
    let deliver = basic::Deliver {
        consumer_tag: text("c"),
        delivery_tag: 1,
        redelivered: true,
        exchange: ShortStr::try_from(&b"\xff\xfe"[..]).expect("short"),
        routing_key: text("key"),
        ..Default::default()
    };
    let properties = Properties {
        message_id: Some(text("01J")),
        ..Properties::EMPTY
    };
    let body = vec![7; 20_000];
    session.feed(wire().content(1, deliver, &properties, &body));
    match session.events().remove(0) {
        Event::Delivered(_, delivery) => {
            assert!(delivery.redelivered());
            assert_eq!(delivery.exchange().as_bytes(), b"\xff\xfe");
            assert_eq!(delivery.routing_key().as_bytes(), b"key");
            assert_eq!(delivery.properties(), properties);
            // Two strings, the properties' flags, and one short string with its length.
            assert_eq!(delivery.size(), 2 + 3 + 2 + 4 + 20_000);
            let shown = format!("{delivery:?}");
            assert!(shown.contains(r#"routing_key: "key""#), "{shown}");
            assert!(shown.contains("body_len: 20000"), "{shown}");
            assert_eq!(delivery.into_body(), body);
        }
        other => panic!("{other:?}"),
    }
    session.feed(wire().deliver(1, "c", 2));
    match session.events().remove(0) {
        Event::Delivered(_, delivery) => assert!(!delivery.redelivered()),
        other => panic!("{other:?}"),
    }
}

/// The method of a delivery, and what seems to be the header of so many bytes.
fn head(channel: u16, (kind, of_channel): (u8, u16), body_size: u64) -> Wire {
    let deliver = basic::Deliver {
        consumer_tag: text("c"),
        delivery_tag: 1,
        routing_key: text("key"),
        ..Default::default()
    };
    let header = content::ContentHeader {
        class_id: 60,
        body_size,
        ..Default::default()
    };
    let mut payload = Vec::new();
    header.encode(&mut payload).expect("a vector has room");
    let wire = wire().method(channel, deliver);
    wire.raw(kind, of_channel, &payload)
}

/// What comes of these bytes, to which a delivery and a heartbeat are added, if they arrive in pieces that end there:
/// events and answers, in words.
fn comes_of(bytes: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<String>) {
    let mut session = Session::open();
    let (id, other) = (session.channel(), session.channel());
    session.consumer(id, "c", false);
    session.consumer(other, "forgotten", false);
    let forgotten = session.consumer(other, "quiet", true);
    session.view(other).forget_consumer(forgotten);
    session.sent();
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        session.feed_bytes(&bytes[from..to]);
        from = to;
    }
    session.feed(wire().deliver(1, "c", 100).raw(frame::HEARTBEAT, 0, &[]));
    let told = |event| match event {
        Event::Delivered(consumer, delivery) => format!(
            "{consumer:?} {delivery:?} {:?} {:?}",
            delivery.properties(),
            delivery.body()
        ),
        other => format!("{other:?}"),
    };
    let events = session.events().into_iter().map(told).collect();
    (events, session.sent())
}

/// Whether the frames of a delivery are handled at once or one by one.
#[test]
fn a_delivery_that_is_there_at_once_is_what_it_is_in_pieces() {
    let body = |len| vec![b'x'; len];
    let rich = Properties {
        message_id: Some(text("01J")),
        headers: Some(table! { "k" => "v" }.into()),
        ..Properties::EMPTY
    };
    let deliver = |consumer_tag, delivery_tag| basic::Deliver {
        consumer_tag: text(consumer_tag),
        delivery_tag,
        redelivered: true,
        exchange: text("exchange"),
        routing_key: text("key"),
        ..Default::default()
    };
    const HEADER: (u8, u16) = (frame::HEADER, 1);
    let none = Properties::EMPTY;
    let cases = [
        (
            "three",
            wire()
                .deliver(1, "c", 1)
                .deliver(1, "c", 2)
                .deliver(1, "c", 3),
        ),
        (
            "of two channels",
            wire().deliver(1, "c", 1).deliver(2, "forgotten", 1),
        ),
        (
            "with all it can have",
            wire().content(1, deliver("c", 1), &rich, b"body"),
        ),
        (
            "without a body",
            wire().content(1, deliver("c", 1), &rich, b""),
        ),
        (
            "of two body frames",
            head(1, HEADER, 4)
                .raw(frame::BODY, 1, b"bo")
                .raw(frame::BODY, 1, b"dy"),
        ),
        (
            "with an empty body frame",
            head(1, HEADER, 4)
                .raw(frame::BODY, 1, b"")
                .raw(frame::BODY, 1, b"body"),
        ),
        (
            "as long as is small",
            wire().content(1, deliver("c", 1), &none, &body(8 << 10)),
        ),
        (
            "for nobody",
            wire().deliver(2, "quiet", 1).deliver(1, "unknown", 1),
        ),
        (
            "under a tag again",
            wire()
                .deliver(1, "c", 1)
                .deliver(1, "c", 1)
                .deliver(1, "c", 2),
        ),
        ("on no channel", wire().deliver(3, "c", 1)),
        ("on channel 0", wire().deliver(0, "c", 1)),
        ("within another", head(1, HEADER, 4).deliver(1, "c", 2)),
        (
            "beside another",
            head(1, HEADER, 4)
                .deliver(2, "forgotten", 1)
                .raw(frame::BODY, 1, b"body"),
        ),
        (
            "header of another channel",
            head(1, (frame::HEADER, 2), 4).raw(frame::BODY, 1, b"body"),
        ),
        (
            "two headers",
            head(1, HEADER, 4).raw(frame::HEADER, 1, b"body"),
        ),
        (
            "header in a body",
            head(1, (frame::BODY, 1), 4).raw(frame::BODY, 1, b"body"),
        ),
        (
            "body of another channel",
            head(1, HEADER, 4).raw(frame::BODY, 2, b"body"),
        ),
        (
            "body too long",
            head(1, HEADER, 3).raw(frame::BODY, 1, b"body"),
        ),
        (
            "two bodies",
            head(1, HEADER, 4)
                .raw(frame::BODY, 1, b"body")
                .raw(frame::BODY, 1, b"body"),
        ),
        (
            "header malformed",
            wire()
                .method(1, deliver("c", 1))
                .raw(frame::HEADER, 1, b"x")
                .raw(frame::BODY, 1, b"x"),
        ),
        (
            "header above the limit",
            head(1, HEADER, u64::MAX).raw(frame::BODY, 1, b"body"),
        ),
        (
            "no header",
            wire()
                .method(1, deliver("c", 1))
                .raw(frame::BODY, 1, b"body"),
        ),
        (
            "no frame behind",
            wire().method(1, deliver("c", 1)).raw(9, 1, b"body"),
        ),
        (
            "of a closed channel",
            wire()
                .channel_close(1, ReplyCode(404), "no")
                .deliver(1, "c", 1),
        ),
    ];
    for (case, Wire(bytes)) in cases {
        let at_once = comes_of(&bytes, &[]);
        let singly: Vec<usize> = (1..bytes.len()).collect();
        assert_eq!(comes_of(&bytes, &singly), at_once, "{case}");
        for cut in (1..bytes.len()).take(200) {
            assert_eq!(comes_of(&bytes, &[cut]), at_once, "{case}, cut at {cut}");
        }
    }
}

#[test]
fn a_delivery_that_is_half_there_goes_back_when_its_consumer_is_forgotten() {
    let delivery = wire().deliver(1, "c", 1).0;
    for part in 20..delivery.len() {
        let mut session = Session::open();
        let id = session.channel();
        let consumer = session.consumer(id, "c", false);
        let (before, after) = delivery.split_at(part);
        session.feed_bytes(before);
        session.view(id).forget_consumer(consumer);
        session.feed_bytes(after);
        assert!(session.events().is_empty(), "delivered after {part} bytes");
        let sent = session.sent();
        assert_eq!(sent, ["1 basic.cancel c", "1 basic.nack 1 requeue"]);
    }
}

/// Malformed headers are an error of whoever asks for them: the message is whole, and can be settled.
#[test]
fn headers_of_a_delivery() {
    let mut session = Session::open();
    let id = session.channel();
    session.consumer(id, "c", false);
    let with = |headers| Properties {
        headers,
        ..Properties::EMPTY
    };
    let malformed = amqp_codec::RawTable::from_bytes(b"\x01a?");
    for (delivery_tag, properties, expected) in [
        (1, with(None), Some(Table::EMPTY)),
        (
            2,
            with(Some(table! { "n" => 7 }.into())),
            Some(table! { "n" => 7 }),
        ),
        (3, with(Some(malformed)), None),
    ] {
        let deliver = basic::Deliver {
            consumer_tag: text("c"),
            delivery_tag,
            ..Default::default()
        };
        session.feed(wire().content(1, deliver, &properties, b"body"));
        let Some(Event::Delivered(_, delivery)) = session.events().pop() else {
            panic!("delivered");
        };
        assert_eq!(delivery.headers().ok(), expected);
        let settled = session.settle(delivery.tag(), false, Settle::Ack);
        assert_eq!(settled, Ok(()));
    }
}
