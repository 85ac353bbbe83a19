use super::*;
use crate::error::Initiator;
use amqp_codec::queue;

#[test]
fn an_error_among_pipelined_publishes_leaves_those_unknown_that_had_no_answer() {
    let mut session = Session::open();
    let other = session.confirm_channel(ConfirmOptions::default());
    let id = session.confirm_channel(ConfirmOptions::default());
    let sent: Vec<_> = (0..10).map(|n| plain(format!("{n}"))).collect();
    for publication in &sent {
        session.publish(id, publication.clone());
    }
    session.publish(other, plain("elsewhere"));
    session.sent();
    session.feed(wire().ack(2, 3, true).nack(2, 5, false));
    session.feed(wire().channel_close(2, ReplyCode::NOT_FOUND, "no exchange 'missing'"));
    assert_eq!(session.sent(), ["2 channel.close-ok"]);
    let mut events = session.events();
    match events.pop() {
        Some(Event::ChannelClosed(closed, reason, counts)) => {
            assert_eq!(closed, id);
            assert_eq!(
                (reason.initiator, reason.code),
                (Initiator::Server, ReplyCode::NOT_FOUND)
            );
            assert_eq!(reason.method, Some(MethodId::BASIC_PUBLISH));
            assert_eq!((counts.acked, counts.nacked, counts.unknown), (3, 1, 6));
        }
        other => panic!("{other:?}"),
    }
    let mut unknown = Vec::new();
    for event in events {
        let Event::Settled(_, keep, outcome) = event else {
            panic!("{event:?}")
        };
        if let Outcome::Unknown {
            publication,
            reason,
        } = outcome
        {
            let UnknownReason::ChannelClosed(reason) = reason else {
                panic!("{reason:?}")
            };
            assert_eq!(reason.code, ReplyCode::NOT_FOUND);
            assert_eq!(reason.text.as_bytes(), b"no exchange 'missing'");
            assert_eq!(*publication, sent[keep as usize - 1]);
            unknown.push(keep);
        }
    }
    assert_eq!(unknown, [4, 6, 7, 8, 9, 10]);

    // The other channel and the connection live on, and the number is used again.
    session.feed(wire().ack(1, 1, false));
    assert_eq!(session.outcomes(), [(11, "acked")]);
    let gone = session.try_publish(id, plain("x"));
    assert_eq!(gone, Err(NotSent::Usage(UsageError::NoChannel)));
    let again = session.confirm_channel(ConfirmOptions::default());
    assert_eq!(again.number, id.number);
    assert_ne!(again, id);
    assert!(
        session.conn.channel(id).is_err(),
        "an old id is not the new channel"
    );
    session.publish(again, plain("x"));
    session.feed(wire().ack(2, 1, false));
    assert_eq!(session.outcomes(), [(12, "acked")]);
}

#[test]
fn thousands_of_channel_errors_leave_nothing() {
    let mut session = Session::open();
    let mut settled = 0;
    let mut baseline = None;
    for round in 0..5000 {
        let id = session.confirm_channel(ConfirmOptions::default());
        for _ in 0..3 {
            session.publish(id, plain("x"));
        }
        if round % 2 == 0 {
            session.transmit();
        }
        session.feed(wire().channel_close(id.number, ReplyCode::NOT_FOUND, "no"));
        session.transmit();
        session.client_bytes.clear();
        settled += session
            .events()
            .iter()
            .filter(|event| matches!(event, Event::Settled(_, _, Outcome::Unknown { .. })))
            .count();
        let footprint = session.conn.footprint();
        assert_eq!(*baseline.get_or_insert(footprint), footprint);
    }
    assert_eq!(settled, 15_000);
    let footprint = session.conn.footprint();
    assert_eq!(
        (footprint.numbers, footprint.channels, footprint.timers),
        (1, 0, 0)
    );
}

#[test]
fn as_many_as_the_connection_allows() {
    let tune = connection::Tune {
        channel_max: 2,
        ..tune()
    };
    let mut session = Session::open_with(options(), tune);
    session.channel();
    let second = session.channel();
    let request = session.conn.next_request();
    assert_eq!(
        session.conn.open_channel(request),
        Err(UsageError::TooManyChannels { max: 2 })
    );
    session
        .view(second)
        .close(None, ReplyCode::REPLY_SUCCESS, text(""));
    assert_eq!(session.sent(), ["2 channel.close 200"]);
    let full = session.conn.open_channel(request);
    assert_eq!(
        full,
        Err(UsageError::TooManyChannels { max: 2 }),
        "not before close-ok"
    );
    session.feed(wire().method(2, channel::CloseOk {}));
    session.events();
    assert_eq!(session.channel().number, 2);
}

#[test]
fn a_close_that_crosses_is_answered_before_the_number_is_used_again() {
    let mut session = Session::open();
    let id = session.channel();
    let request = session.conn.next_request();
    session
        .view(id)
        .close(Some(request), ReplyCode::REPLY_SUCCESS, text(""));
    assert_eq!(session.sent(), ["1 channel.close 200"]);
    assert!(matches!(session.events()[..], [Event::ChannelClosed(..)]));
    session.feed(wire().channel_close(1, ReplyCode::PRECONDITION_FAILED, "crossing"));
    // RabbitMQ may repeat it, and takes a second close-ok for a fault.
    session.feed(wire().channel_close(1, ReplyCode::PRECONDITION_FAILED, "crossing"));
    assert_eq!(session.sent(), ["1 channel.close-ok"]);
    assert!(session.events().is_empty(), "still closing");
    session.feed(wire().method(1, channel::CloseOk {}));
    assert!(matches!(session.events()[..], [Event::Reply(answered, Ok(_))] if answered == request));
    assert_eq!(session.channel().number, 1);
}

#[test]
fn a_repeated_close_is_answered_once() {
    let mut session = Session::open();
    session.channel();
    session.feed(wire().channel_close(1, ReplyCode::PRECONDITION_FAILED, "timeout"));
    session.feed(wire().channel_close(1, ReplyCode::PRECONDITION_FAILED, "timeout"));
    assert_eq!(session.sent(), ["1 channel.close-ok"]);
    assert_eq!(session.events().len(), 1);
    assert!(session.conn.is_open());
}

#[test]
fn what_comes_for_a_closing_channel_is_discarded() {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default());
    let sent = mandatory("x");
    session.publish(id, sent.clone());
    session
        .view(id)
        .close(None, ReplyCode::REPLY_SUCCESS, text(""));
    assert_eq!(session.events().len(), 2);
    session.feed(
        wire()
            .ack(1, 1, false)
            .ack(1, 99, false)
            .returned(1, &sent)
            .method(1, queue::DeclareOk::default())
            .raw(frame::BODY, 1, b"x"),
    );
    assert!(session.events().is_empty());
    session.feed(wire().method(1, channel::CloseOk {}));
    assert!(session.events().is_empty());
    assert_eq!(session.conn.footprint().channels, 0);
    assert!(session.conn.is_open());
}

#[test]
fn a_polite_close_waits_for_confirms() {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default());
    session.publish(id, plain("x"));
    session.publish(id, plain("y"));
    session.sent();
    let request = session.conn.next_request();
    session.view(id).close_when_settled(Some(request));
    assert!(session.sent().is_empty());
    let refused = session.try_publish(id, plain("z"));
    assert_eq!(refused, Err(NotSent::Usage(UsageError::NoChannel)));
    session.feed(wire().ack(1, 1, false));
    assert!(session.sent().is_empty());
    session.feed(wire().nack(1, 2, false));
    assert_eq!(session.sent(), ["1 channel.close 200"]);
    session.feed(wire().method(1, channel::CloseOk {}));
    match &session.events()[..] {
        [
            Event::Settled(_, 1, Outcome::Acked),
            Event::Settled(_, 2, Outcome::Nacked(_)),
            Event::ChannelClosed(closed, ..),
            Event::Reply(answered, Ok(_)),
        ] => assert_eq!((*closed, *answered), (id, request)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_polite_close_ends_with_the_confirm_timeout() {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default().timeout(seconds(5)));
    session.publish(id, plain("x"));
    session.view(id).close_when_settled(None);
    session.sent();
    session.pass(seconds(5));
    assert_eq!(session.sent(), ["1 channel.close 200"]);
}

#[test]
fn everybody_who_closes_a_channel_is_answered() {
    let mut session = Session::open();
    let id = session.confirm_channel(ConfirmOptions::default());
    session.publish(id, plain("x"));
    let requests: Vec<_> = (0..4).map(|_| session.conn.next_request()).collect();
    session.view(id).close_when_settled(Some(requests[0]));
    session.view(id).close_when_settled(Some(requests[1]));
    session.view(id).abandon(requests[1]);
    session
        .view(id)
        .close(Some(requests[2]), ReplyCode::REPLY_SUCCESS, text(""));
    session
        .view(id)
        .close(Some(requests[3]), ReplyCode::REPLY_SUCCESS, text(""));
    session.events();
    session.sent();
    session.feed(wire().method(1, channel::CloseOk {}));
    let answered: Vec<_> = session
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Reply(request, Ok(_)) => request,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(answered, [requests[0], requests[2], requests[3]]);

    // The server's close comes first, or the connection goes.
    for server_closes in [true, false] {
        let id = session.confirm_channel(ConfirmOptions::default());
        session.publish(id, plain("x"));
        let request = session.conn.next_request();
        session.view(id).close_when_settled(Some(request));
        if server_closes {
            session.feed(wire().channel_close(id.number, ReplyCode::NOT_FOUND, "no"));
        } else {
            session.cut();
        }
        session.sent();
        let is_answer = |event: &&Event<u64>| {
            matches!(event, Event::Reply(answered, result)
            if *answered == request && result.is_ok() == server_closes)
        };
        assert_eq!(session.events().iter().filter(is_answer).count(), 1);
    }
}

#[test]
fn a_close_before_open_ok_waits_for_it() {
    let mut session = Session::open();
    let open = session.conn.next_request();
    let id = session.conn.open_channel(open).expect("free");
    let close = session.conn.next_request();
    session
        .view(id)
        .close(Some(close), ReplyCode::REPLY_SUCCESS, text(""));
    assert_eq!(session.sent(), ["1 channel.open"]);
    session.feed(wire().method(1, channel::OpenOk::default()));
    assert_eq!(session.sent(), ["1 channel.close 200"]);
    session.feed(wire().method(1, channel::CloseOk {}));
    let events = session.events();
    assert!(matches!(events.last(), Some(Event::Reply(answered, Ok(_))) if *answered == close));
    assert_eq!(session.conn.footprint().channels, 0);
}

#[test]
fn frames_on_channels_that_are_not_open_are_violations() {
    for server in [
        wire().method(1, channel::OpenOk::default()),
        wire().method(9, queue::DeclareOk::default()),
        wire().channel_close(9, ReplyCode::NOT_FOUND, "never open"),
        wire().raw(frame::BODY, 0, b"x"),
        wire().ack(65_535, 1, false),
    ] {
        let mut session = Session::open();
        session.feed(server);
        assert_closes_with(&mut session, ReplyCode::CHANNEL_ERROR);
    }
}

#[test]
fn a_close_ok_to_no_close_is_a_violation() {
    let mut session = Session::open();
    session.channel();
    session.feed(wire().method(1, channel::CloseOk {}));
    session.events();
    assert_closes_with(&mut session, ReplyCode::COMMAND_INVALID);

    let mut session = Session::open();
    session.feed(wire().method(0, connection::CloseOk {}));
    assert_closes_with(&mut session, ReplyCode::COMMAND_INVALID);
}

#[test]
fn methods_of_clients_and_of_other_channels_are_violations() {
    for server in [
        wire().method(1, basic::Publish::default()),
        wire().method(1, connection::Blocked::default()),
        wire().method(0, channel::OpenOk::default()),
        wire().method(0, connection::OpenOk::default()),
        wire().method(1, queue::DeclareOk::default()),
    ] {
        let mut session = Session::open();
        session.channel();
        session.feed(server);
        assert_eq!(session.sent(), ["0 connection.close 503"]);
    }
}

fn returned_method() -> basic::Return<'static> {
    basic::Return::default()
}

fn header(body_size: u64, class_id: u16) -> Vec<u8> {
    let mut payload = Vec::new();
    let header = amqp_codec::ContentHeader {
        class_id,
        body_size,
        ..Default::default()
    };
    header.encode(&mut payload).expect("short");
    payload
}

#[test]
fn content_out_of_order_is_505_and_too_much_of_it_501() {
    let cases: [(u16, Wire); 8] = [
        (505, wire().raw(frame::HEADER, 1, &header(0, 60))),
        (505, wire().raw(frame::BODY, 1, b"x")),
        (
            505,
            wire()
                .method(1, returned_method())
                .raw(frame::BODY, 1, b"x"),
        ),
        (505, wire().method(1, returned_method()).ack(1, 1, false)),
        (
            505,
            wire()
                .method(1, returned_method())
                .raw(frame::HEADER, 1, &header(2, 60))
                .raw(frame::HEADER, 1, &header(2, 60)),
        ),
        (
            505,
            wire()
                .method(1, returned_method())
                .raw(frame::HEADER, 1, &header(2, 50)),
        ),
        (
            505,
            wire()
                .method(1, returned_method())
                .raw(frame::HEADER, 1, &header(2, 60))
                .channel_close(1, ReplyCode::NOT_FOUND, "in the middle"),
        ),
        (
            501,
            wire()
                .method(1, returned_method())
                .raw(frame::HEADER, 1, &header(2, 60))
                .raw(frame::BODY, 1, b"xyz"),
        ),
    ];
    for (code, server) in cases {
        let mut session = Session::open();
        session.channel();
        session.feed(server);
        assert_eq!(session.sent(), [format!("0 connection.close {code}")]);
        let events = session.events();
        assert!(
            matches!(events[..], [Event::ChannelClosed(..)]),
            "{events:?}"
        );
        assert_eq!(session.conn.footprint().channels, 0);
    }
}

#[test]
fn contents_of_channels_may_interleave() {
    let mut session = Session::open();
    session.channel();
    session.channel();
    session.feed(
        wire()
            .method(1, returned_method())
            .method(2, returned_method())
            .raw(frame::HEADER, 2, &header(2, 60))
            .raw(frame::HEADER, 1, &header(3, 60))
            .raw(frame::BODY, 1, b"a")
            .raw(frame::BODY, 1, b"")
            .raw(frame::BODY, 2, b"xy")
            .raw(frame::BODY, 1, b"bc"),
    );
    let bodies: Vec<_> = session
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Returned(id, returned) => (id.number, returned.publication.message.into_body()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(bodies, [(2, Bytes::from("xy")), (1, Bytes::from("abc"))]);
}

#[test]
fn parts_of_messages_are_bounded_on_all_channels_together() {
    let limits = crate::Limits {
        assembly_bytes: 10,
        ..crate::Limits::default()
    };
    let mut session = Session::open_with(options().limits(limits), tune());
    session.channel();
    session.channel();
    let begin = |on| {
        wire()
            .method(on, returned_method())
            .raw(frame::HEADER, on, &header(100, 60))
            .raw(frame::BODY, on, b"12345")
    };
    session.feed(begin(1));
    session.feed(begin(2));
    assert!(session.sent().is_empty());
    session.feed(wire().raw(frame::BODY, 2, b"6"));
    assert_eq!(session.sent(), ["2 channel.close 311"]);
    // What the one had is free for the other, and what is left of it is discarded.
    session.feed(wire().raw(frame::BODY, 2, &[b'6'; 94]));
    session.feed(wire().raw(frame::BODY, 1, &[b'6'; 5]));
    session.feed(wire().raw(frame::BODY, 1, &[b'6'; 90]));
    let events = session.events();
    let whole = |event: &Event<u64>| matches!(event, Event::Returned(_, returned) if returned.publication.message.body().len() == 100);
    assert!(events.iter().any(whole), "{events:?}");
    // And all of it when its message is complete.
    session.feed(begin(1));
    session.feed(wire().raw(frame::BODY, 1, &[b'6'; 5]));
    assert!(session.sent().is_empty());
}

#[test]
fn a_large_header_counts_as_a_part_of_its_message() {
    let limits = crate::Limits {
        assembly_bytes: 2_000,
        ..crate::Limits::default()
    };
    let with_header = |on, len: usize| {
        // All but the table's bytes: class, weight, size, flags, the table's length.
        let table = vec![0; len - (2 + 2 + 8 + 2 + 4)];
        let header = content::ContentHeader {
            class_id: 60,
            body_size: 100,
            properties: Properties {
                headers: Some(amqp_codec::RawTable::from_bytes(&table)),
                ..Properties::EMPTY
            },
        };
        let mut payload = Vec::new();
        header.encode(&mut payload).expect("a vector has room");
        assert_eq!(payload.len(), len);
        wire()
            .method(on, returned_method())
            .raw(frame::HEADER, on, &payload)
    };
    for (len, refused) in [(1024, false), (1025, true), (1100, true)] {
        let mut session = Session::open_with(options().limits(limits), tune());
        session.channel();
        session.channel();
        session.feed(with_header(1, len));
        assert!(session.sent().is_empty());
        session.feed(with_header(2, len));
        let close: &[_] = &["2 channel.close 311"];
        assert_eq!(session.sent(), if refused { close } else { &[] });
    }
}

#[test]
fn a_body_above_the_limit_costs_the_channel_alone() {
    let limits = crate::Limits {
        message_bytes: 10,
        ..crate::Limits::default()
    };
    let mut session = Session::open_with(options().limits(limits), tune());
    session.channel();
    session.feed(
        wire()
            .method(1, returned_method())
            .raw(frame::HEADER, 1, &header(11, 60))
            .raw(frame::BODY, 1, b"01234567890"),
    );
    assert_eq!(session.sent(), ["1 channel.close 311"]);
    assert!(session.conn.is_open());
}

#[test]
fn a_close_ok_to_a_close_that_was_not_sent_is_a_violation() {
    let tune = connection::Tune {
        frame_max: 4096,
        ..tune()
    };
    let mut session = Session::open_with(options(), tune);
    let id = session.channel();
    let large = plain(vec![0; 10_000]);
    session.view(id).publish(&mut Some(large), 1).expect("room");
    // To a confirm where there are none, the channel is closed, behind the body.
    session.feed(wire().ack(1, 1, false));
    session.feed(wire().method(1, channel::CloseOk {}));
    session.events();
    let sent = session.sent();
    assert_eq!(
        sent.last().map(String::as_str),
        Some("0 connection.close 503")
    );
    assert!(!sent.iter().any(|frame| frame.contains("channel.open")));
}
