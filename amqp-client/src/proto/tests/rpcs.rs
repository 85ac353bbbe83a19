use super::*;
use amqp_codec::{Method, queue, tx};

fn declare(name: &'static str) -> queue::Declare<'static> {
    queue::Declare {
        queue: ShortStr::from_static(name),
        ..Default::default()
    }
}

fn declare_ok(name: &'static str) -> queue::DeclareOk<'static> {
    queue::DeclareOk {
        queue: ShortStr::from_static(name),
        ..Default::default()
    }
}

impl Session {
    fn call(&mut self, id: ChannelId, method: impl MethodFields) -> RequestId {
        let request = self.conn.next_request();
        self.view(id)
            .call(request, &method)
            .expect("the channel is open");
        request
    }
}

fn replies(session: &mut Session) -> Vec<(RequestId, Method<'static>)> {
    let reply = |event| match event {
        Event::Reply(request, Ok(Reply::Method(method))) => (request, method),
        other => panic!("{other:?}"),
    };
    session.events().into_iter().map(reply).collect()
}

#[test]
fn one_is_on_the_wire_at_a_time() {
    let mut session = Session::open();
    let (id, other) = (session.channel(), session.channel());
    let requests = [
        session.call(id, declare("a")),
        session.call(id, declare("b")),
        session.call(id, queue::Purge::default()),
    ];
    let elsewhere = session.call(other, declare("c"));
    assert_eq!(session.sent(), ["1 queue.declare", "2 queue.declare"]);
    session.feed(wire().method(2, declare_ok("c")).method(1, declare_ok("a")));
    assert_eq!(
        replies(&mut session),
        [
            (elsewhere, declare_ok("c").into()),
            (requests[0], declare_ok("a").into())
        ]
    );
    assert_eq!(session.sent(), ["1 queue.declare"]);
    session.feed(wire().method(1, declare_ok("b")));
    assert_eq!(session.sent(), ["1 queue.purge"]);
    session.feed(wire().method(1, queue::PurgeOk { message_count: 5 }));
    assert_eq!(
        replies(&mut session).last(),
        Some(&(requests[2], queue::PurgeOk { message_count: 5 }.into()))
    );
}

#[test]
fn the_reply_to_a_request_that_was_given_up_goes_to_nobody() {
    let mut session = Session::open();
    let id = session.channel();
    let abandoned = session.call(id, declare("a"));
    let never_sent = session.call(id, declare("b"));
    let kept = session.call(id, declare("c"));
    session.sent();
    session.view(id).abandon(abandoned);
    session.view(id).abandon(never_sent);
    assert!(session.sent().is_empty());
    session.feed(wire().method(1, declare_ok("a")));
    assert!(session.events().is_empty());
    assert_eq!(session.sent(), ["1 queue.declare"]);
    session.feed(wire().method(1, declare_ok("c")));
    assert_eq!(replies(&mut session), [(kept, declare_ok("c").into())]);
}

#[test]
fn a_wrong_reply_is_a_violation() {
    let mut session = Session::open();
    let id = session.channel();
    let request = session.call(id, declare("a"));
    session.sent();
    session.feed(wire().method(1, queue::PurgeOk::default()));
    assert_eq!(session.sent(), ["0 connection.close 503"]);
    assert!(matches!(&session.events()[..], [
        Event::Reply(answered, Err(RequestError::ConnectionClosed { method: MethodId::QUEUE_DECLARE, .. })),
        Event::ChannelClosed(..)
    ] if *answered == request));
}

#[test]
fn all_requests_fail_with_their_channel() {
    let mut session = Session::open();
    let id = session.channel();
    let requests = [
        session.call(id, declare("a")),
        session.call(id, queue::Purge::default()),
    ];
    let given_up = session.call(id, declare("c"));
    session.view(id).abandon(given_up);
    session.feed(wire().channel_close(1, ReplyCode::PRECONDITION_FAILED, "inequivalent arg"));
    let events = session.events();
    for (event, (request, expected)) in events.iter().zip(
        requests
            .into_iter()
            .zip([MethodId::QUEUE_DECLARE, MethodId::QUEUE_PURGE]),
    ) {
        match event {
            Event::Reply(answered, Err(RequestError::ChannelClosed { method, closed })) => {
                assert_eq!((*answered, *method), (request, expected));
                assert_eq!(closed.code, ReplyCode::PRECONDITION_FAILED);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(events.len(), 3);
}

#[test]
fn an_open_that_was_given_up_is_closed() {
    let mut session = Session::open();
    let request = session.conn.next_request();
    let id = session.conn.open_channel(request).expect("free");
    assert_eq!(session.sent(), ["1 channel.open"]);
    session.view(id).abandon(request);
    session.feed(wire().method(1, channel::OpenOk::default()));
    assert_eq!(session.sent(), ["1 channel.close 200"]);
    session.feed(wire().method(1, channel::CloseOk {}));
    assert!(
        !session
            .events()
            .iter()
            .any(|event| matches!(event, Event::Reply(..)))
    );
    assert_eq!(session.conn.footprint().channels, 0);
}

#[test]
fn a_consumer_that_was_given_up_is_cancelled() {
    let mut session = Session::open();
    let id = session.channel();
    for (number, no_ack) in [(0, false), (2, true)] {
        let request = session.conn.next_request();
        let consume = basic::Consume {
            no_ack,
            ..Default::default()
        };
        session.view(id).consume(request, &consume).expect("open");
        assert_eq!(session.sent(), ["1 basic.consume"]);
        session.view(id).abandon(request);
        let ok = basic::ConsumeOk {
            consumer_tag: text("ctag"),
        };
        session.feed(wire().method(1, ok).deliver(1, "ctag", number + 1));
        let mut expected = vec!["1 basic.cancel ctag".to_owned()];
        if !no_ack {
            // One without acks is gone: to nack it would cost the channel.
            expected.push(format!("1 basic.nack {} requeue", number + 1));
        }
        assert_eq!(session.sent(), expected);
        let ok = basic::CancelOk {
            consumer_tag: text("ctag"),
        };
        session.feed(wire().method(1, ok));
        assert!(session.events().is_empty());
        assert!(session.sent().is_empty());
    }
}

#[test]
fn the_cancel_of_a_consumer_that_was_given_up_goes_before_its_successor() {
    let mut session = Session::open();
    let id = session.channel();
    let consume = basic::Consume {
        consumer_tag: text("ctag"),
        ..Default::default()
    };
    let requests = [session.conn.next_request(), session.conn.next_request()];
    session
        .view(id)
        .consume(requests[0], &consume)
        .expect("open");
    let early = session.view(id).consume(requests[1], &consume);
    assert_eq!(early, Err(UsageError::ConsumerTagInUse(text("ctag"))));
    session.view(id).abandon(requests[0]);
    session
        .view(id)
        .consume(requests[1], &consume)
        .expect("the first is cancelled before");
    assert_eq!(session.sent(), ["1 basic.consume"]);
    let consumer_tag = || text("ctag");
    session.feed(wire().method(
        1,
        basic::ConsumeOk {
            consumer_tag: consumer_tag(),
        },
    ));
    // RabbitMQ ends the connection for a second consumer of the same tag.
    assert_eq!(session.sent(), ["1 basic.cancel ctag"]);
    session.feed(wire().method(
        1,
        basic::CancelOk {
            consumer_tag: consumer_tag(),
        },
    ));
    assert_eq!(session.sent(), ["1 basic.consume"]);
    session.feed(wire().method(
        1,
        basic::ConsumeOk {
            consumer_tag: consumer_tag(),
        },
    ));
    session.feed(wire().deliver(1, "ctag", 1));
    let events = session.events();
    assert!(
        matches!(&events[..], [Event::Delivered(consumer, _), Event::Reply(answered, Ok(_))]
        if *answered == requests[1] && consumer.0 == requests[1])
    );
}

#[test]
fn a_message_got_by_nobody_goes_back() {
    let mut session = Session::open();
    let id = session.channel();
    for (tag, no_ack) in [(1, false), (2, true)] {
        let request = session.conn.next_request();
        let get = basic::Get {
            no_ack,
            ..Default::default()
        };
        session.view(id).get(request, &get).expect("open");
        let next = session.call(id, declare("a"));
        session.sent();
        session.view(id).abandon(request);
        let ok = basic::GetOk {
            delivery_tag: tag,
            ..Default::default()
        };
        session.feed(wire().content(1, ok, &Properties::EMPTY, b"body"));
        let mut expected = vec!["1 basic.nack 1 requeue", "1 queue.declare"];
        if no_ack {
            expected.remove(0);
        }
        assert_eq!(session.sent(), expected);
        session.feed(wire().method(1, declare_ok("a")));
        assert_eq!(replies(&mut session)[0].0, next);
    }
}

#[test]
fn got_and_empty() {
    let mut session = Session::open();
    let id = session.channel();
    let requests: Vec<_> = (0..2)
        .map(|_| {
            let request = session.conn.next_request();
            session
                .view(id)
                .get(request, &basic::Get::default())
                .expect("open");
            request
        })
        .collect();
    assert_eq!(session.sent(), ["1 basic.get"]);
    let ok = basic::GetOk {
        delivery_tag: 1,
        message_count: 3,
        routing_key: text("q"),
        ..Default::default()
    };
    session.feed(wire().content(1, ok, &Properties::EMPTY, b"body"));
    assert_eq!(session.sent(), ["1 basic.get"]);
    session.feed(wire().method(1, basic::GetEmpty::default()));
    match &session.events()[..] {
        [
            Event::Reply(first, Ok(Reply::Got(Some((delivery, 3))))),
            Event::Reply(second, Ok(Reply::Got(None))),
        ] => {
            assert_eq!([*first, *second], requests[..]);
            assert_eq!(
                (delivery.body(), delivery.routing_key().as_bytes()),
                (&b"body"[..], &b"q"[..])
            );
        }
        other => panic!("{other:?}"),
    }
    // get-ok to no get.
    session.feed(wire().content(1, basic::GetOk::default(), &Properties::EMPTY, b""));
    assert_eq!(session.sent(), ["0 connection.close 503"]);
}

#[test]
fn a_select_that_was_given_up_closes_the_channel() {
    for tx in [false, true] {
        let mut session = Session::open();
        let id = session.channel();
        let request = session.conn.next_request();
        let mut view = session.view(id);
        match tx {
            true => view.select_tx(request),
            false => view.select_confirms(request, ConfirmOptions::default()),
        }
        .expect("plain");
        session.sent();
        session.view(id).abandon(request);
        assert_eq!(session.sent(), ["1 channel.close 200"]);
        session.feed(
            wire()
                .method(1, confirm::SelectOk {})
                .method(1, channel::CloseOk {}),
        );
        assert!(
            !session
                .events()
                .iter()
                .any(|event| matches!(event, Event::Reply(..)))
        );
    }
}

#[test]
fn a_select_that_was_never_sent_is_forgotten() {
    let mut session = Session::open();
    let id = session.channel();
    session.call(id, declare("a"));
    let request = session.conn.next_request();
    session.view(id).select_tx(request).expect("plain");
    assert_eq!(session.sent(), ["1 queue.declare"]);
    session.view(id).abandon(request);
    session.publish(id, plain("x"));
    session.sent();
    session.feed(wire().method(1, declare_ok("a")));
    assert!(session.sent().is_empty());
    let request = session.conn.next_request();
    session.view(id).select_tx(request).expect("plain again");
    session.feed(wire().method(1, tx::SelectOk {}));
    assert_eq!(session.events().len(), 2);
}

#[test]
fn the_wrong_mode_is_refused() {
    let mut session = Session::open();
    let (plain, confirming) = (
        session.channel(),
        session.confirm_channel(ConfirmOptions::default()),
    );
    let request = session.conn.next_request();
    assert_eq!(
        session.view(plain).commit(request),
        Err(UsageError::WrongMode)
    );
    assert_eq!(
        session.view(plain).rollback(request),
        Err(UsageError::WrongMode)
    );
    assert_eq!(
        session.view(confirming).commit(request),
        Err(UsageError::WrongMode)
    );
    assert_eq!(
        session.view(confirming).select_tx(request),
        Err(UsageError::WrongMode)
    );
    assert!(session.sent().is_empty());
}

#[test]
fn a_method_that_does_not_fit_a_frame_is_refused() {
    let mut session = Session::open_with(
        options(),
        connection::Tune {
            frame_max: 4096,
            ..tune()
        },
    );
    let id = session.channel();
    let arguments = Table::try_from_iter([("big", "x".repeat(4096).as_str())]).expect("short key");
    let request = session.conn.next_request();
    let refused = session.view(id).call(
        request,
        &queue::Declare {
            arguments,
            ..Default::default()
        },
    );
    assert!(matches!(refused, Err(UsageError::Encode(_))));
    let refused = session
        .conn
        .update_secret(request, &[b'x'; 4096], text("new"));
    assert!(matches!(refused, Err(UsageError::Encode(_))));
    assert!(session.sent().is_empty());
    assert!(session.conn.is_open());
}

#[test]
fn a_new_secret() {
    let mut session = Session::open();
    let requests = [session.conn.next_request(), session.conn.next_request()];
    for request in requests {
        session
            .conn
            .update_secret(request, b"token", text("expired"))
            .expect("open");
    }
    assert_eq!(session.sent(), ["0 connection.update-secret"]);
    session.feed(wire().method(0, connection::UpdateSecretOk {}));
    assert_eq!(session.sent(), ["0 connection.update-secret"]);
    assert_eq!(replies(&mut session)[0].0, requests[0]);
    session.cut();
    assert!(matches!(&session.events()[..], [
        Event::Reply(answered, Err(RequestError::ConnectionClosed { .. })),
        Event::Closed(_)
    ] if *answered == requests[1]));
    session.assert_over();
}
