//! Each of [`Limits`]: what reaches it is taken, what goes beyond it meets the error that its documentation names, and
//! the memory for it is not taken.

use std::time::Duration;

use amqp_client::codec::{
    ContentError, DecodeError, DecodeErrorKind, LongStr, ReplyCode, Table, Value, basic, channel,
    connection, frame, short, table, tx,
};
use amqp_client::error::{
    CloseCause, Closed, CommitError, Error, ErrorKind, HandshakeError, Initiator, NotSent,
    UsageError, Violation,
};
use amqp_client::{
    Channel, ConfirmOptions, ConnectOptions, Connection, Consume, Consumer, Event, Limits, Message,
    Missed, Overflow, QueueDeclare,
};
use amqp_tests::peer::{Greeting, Peer};
use amqp_tests::wire::Event as Seen;
use futures_util::StreamExt as _;
use futures_util::future::poll_immediate;
use tokio::io::DuplexStream;
use tokio::time::{sleep, timeout};

use super::play::{Play, play};
use super::wire::{body, delivery, header, header_of, heartbeat, method, raw, returned};

const MIB: usize = 1 << 20;

pub(crate) fn all() -> Vec<Play> {
    vec![
        play!("limit", handshake_bytes),
        play!("limit", handshake_bytes_of_one_frame),
        play!("limit", handshake_bytes_of_challenges),
        play!("limit", frame_bytes),
        play!("limit", frame_bytes_before_tune),
        play!("limit", method_frame_bytes),
        play!("limit", table_depth),
        play!("limit", table_entries),
        play!("limit", message_bytes),
        play!("limit", assembly_bytes),
        // Twice what is kept, while what it was in is left; and half a MiB for all else.
        play!("limit", assembly_bytes_by_default_sized_flood, 3 * MIB),
        play!("limit", assembly_bytes_of_closed_channels_are_free),
        play!("limit", assembly_bytes_of_headers),
        play!("limit", channels),
        play!("limit", undelivered_bytes),
        play!("limit", undelivered_bytes_of_one_consumer),
        play!("limit", returned_messages),
        play!("limit", returned_bytes),
        play!("limit", events),
        play!("limit", outgoing_bytes),
        play!("limit", owed_bytes),
        play!("limit", held_answer_bytes),
    ]
}

// ----- the handshake -----

/// connection.start with so many bytes in one of its properties.
fn start_padded(bytes: usize) -> Vec<u8> {
    start_with(table! { "padding" => LongStr::from(vec![b'x'; bytes]) })
}

fn start_with(server_properties: Table<'static>) -> Vec<u8> {
    let start = connection::Start {
        version_minor: 9,
        server_properties,
        mechanisms: LongStr::from("PLAIN CHATTY"),
        locales: LongStr::from("en_US"),
        ..Default::default()
    };
    method(0, start)
}

/// What becomes of a connection that is opened to a server which sends this for its start.
async fn opened(limits: Limits, start: Vec<u8>) -> Result<Connection, Error> {
    opened_with(ConnectOptions::new().limits(limits), start).await
}

async fn opened_with(options: ConnectOptions, start: Vec<u8>) -> Result<Connection, Error> {
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let server = async {
        peer.forget_transcript();
        peer.expect_protocol().await;
        peer.send_bytes(start).await;
        if let Seen::Frame(_) = peer.next().await {
            peer.send(0, Greeting::default().tune).await;
            if let Seen::Frame(_) = peer.next().await {
                peer.send(0, connection::OpenOk::default()).await;
            }
        }
        // What it holds on to is the connection's.
        sleep(Duration::from_secs(1)).await;
    };
    tokio::join!(Connection::open_over(stream, options), server).0
}

/// Why it was not opened: for this violation.
#[track_caller]
fn violation(result: Result<Connection, Error>) -> Violation {
    let error = result.expect_err("it is beyond the limit");
    match error.handshake() {
        Some(HandshakeError::Closed { closed, .. }) => violation_of(closed),
        other => panic!("{error}: {other:?}"),
    }
}

#[track_caller]
fn violation_of(closed: &Closed) -> Violation {
    assert_eq!(closed.initiator, Initiator::Library);
    match &closed.cause {
        Some(CloseCause::Violation(violation)) => violation.clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn kind(violation: &Violation) -> DecodeErrorKind {
    match violation {
        Violation::Decode(DecodeError { kind, .. }) => *kind,
        other => panic!("{other:?}"),
    }
}

async fn handshake_bytes() {
    let limits = Limits {
        handshake_bytes: 5000,
        ..Limits::default()
    };
    let padded = start_padded(0).len();
    // In two frames, as many heartbeats, and tune, whose frame has 20 bytes: up to the limit, and one byte above.
    let heartbeats = heartbeat().repeat(100);
    let room = 5000 - padded - heartbeats.len() - 20;
    let padded = |bytes| [heartbeats.clone(), start_padded(bytes)].concat();
    assert!(opened(limits, padded(room)).await.is_ok());
    let beyond = violation(opened(limits, padded(room + 1)).await);
    assert_eq!(beyond, Violation::HandshakeTooLong { max: 5000 });
}

async fn handshake_bytes_of_one_frame() {
    let limits = Limits {
        handshake_bytes: 5000,
        ..Limits::default()
    };
    let beyond = raw(frame::METHOD, 0, vec![0; 5000 - 7]);
    let too_large = DecodeErrorKind::FrameTooLarge {
        size: 5001,
        max: 5000,
    };
    // Its head is enough.
    let beyond = violation(opened(limits, beyond[..7].to_vec()).await);
    assert_eq!(kind(&beyond), too_large);
}

/// A server that never has enough of the client's answers.
async fn handshake_bytes_of_challenges() {
    #[derive(Debug)]
    struct Chatty;
    impl amqp_client::Mechanism for Chatty {
        fn name(&self) -> &str {
            "CHATTY"
        }
        fn login(
            &self,
            _: &amqp_client::Credentials,
        ) -> Result<Box<dyn amqp_client::Login>, amqp_client::AuthError> {
            Ok(Box::new(Chatty))
        }
    }
    impl amqp_client::Login for Chatty {
        fn initial_response(&mut self) -> Result<amqp_client::Secret, amqp_client::AuthError> {
            Ok("hello".into())
        }
        fn respond(&mut self, _: &[u8]) -> Result<amqp_client::Secret, amqp_client::AuthError> {
            Ok("and so on".into())
        }
    }
    let (mut peer, stream) = Peer::in_memory(4096);
    let server = async {
        peer.expect_protocol().await;
        peer.send_bytes(start_padded(0)).await;
        peer.expect::<connection::StartOk>(0).await;
        let mut challenges = 0;
        loop {
            let challenge = LongStr::from("tell me more");
            peer.send(0, connection::Secure { challenge }).await;
            match peer.next().await {
                Seen::Frame(_) => challenges += 1,
                _ => return challenges,
            }
        }
    };
    let options = ConnectOptions::new().mechanism(Chatty);
    let (result, challenges) = tokio::join!(Connection::open_over(stream, options), server);
    let max = Limits::default().handshake_bytes;
    assert_eq!(violation(result), Violation::HandshakeTooLong { max });
    // Each has 28 bytes.
    assert!((2000..=max / 28).contains(&challenges), "{challenges}");
}

async fn frame_bytes_before_tune() {
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let server = async {
        peer.expect_protocol().await;
        peer.send_bytes(raw(frame::BODY, 0, vec![0; 4096 - 7]))
            .await;
        peer.expect_end().await;
    };
    let options = ConnectOptions::new();
    let (result, ()) = tokio::join!(Connection::open_over(stream, options), server);
    let (size, max) = (4097, 4096);
    let beyond = DecodeErrorKind::FrameTooLarge { size, max };
    assert_eq!(kind(&violation(result)), beyond);
}

async fn table_depth() {
    let limits = Limits {
        table_depth: 3,
        ..Limits::default()
    };
    let three = table! { "a" => table! { "b" => table! { "c" => true } } };
    let four = table! { "z" => three.clone() };
    assert!(opened(limits, start_with(three)).await.is_ok());
    let beyond = violation(opened(limits, start_with(four)).await);
    assert_eq!(kind(&beyond), DecodeErrorKind::TableTooDeep(3));
    assert_eq!(beyond.code(), ReplyCode::RESOURCE_ERROR);
}

async fn table_entries() {
    let limits = Limits {
        table_entries: 10,
        ..Limits::default()
    };
    let of = |entries| Table::from_iter((0..entries).map(|_| (short!("k"), Value::from(true))));
    assert!(opened(limits, start_with(of(10))).await.is_ok());
    let beyond = violation(opened(limits, start_with(of(11))).await);
    assert_eq!(kind(&beyond), DecodeErrorKind::TableTooLong(10));
}

// ----- a connection that is open -----

/// An open connection within these limits, and two open channels, of the numbers 1 and 2.
async fn open(limits: Limits) -> (Peer<DuplexStream>, Connection, [Channel; 2]) {
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    peer.forget_transcript();
    let options = ConnectOptions::new().limits(limits);
    let (connection, _) = tokio::join!(
        Connection::open_over(stream, options),
        peer.handshake(Greeting::default())
    );
    let connection = connection.unwrap();
    let (first, _) = tokio::join!(connection.open_channel(), peer.open_channel());
    let (second, _) = tokio::join!(connection.open_channel(), peer.open_channel());
    (peer, connection, [first.unwrap(), second.unwrap()])
}

/// Lets what is under way arrive.
async fn settle() {
    sleep(Duration::from_millis(10)).await;
}

/// How the connection ended, when it was told so.
async fn ended(peer: &mut Peer<DuplexStream>, connection: &Connection) -> (ReplyCode, Violation) {
    let close = peer.accept_close().await;
    let closed = connection.closed().await;
    assert_eq!(closed.code, close.reply_code);
    (closed.code, violation_of(&closed))
}

/// How this channel ended, of which the server was told.
async fn channel_ended(
    peer: &mut Peer<DuplexStream>,
    on: u16,
    channel: &Channel,
) -> (ReplyCode, Violation) {
    let close = peer.accept_channel_close(on).await;
    let closed = channel.closed().expect("it has closed");
    assert_eq!(closed.code, close.reply_code);
    (closed.code, violation_of(&closed))
}

async fn frame_bytes() {
    let limits = Limits {
        frame_bytes: 5000,
        ..Limits::default()
    };
    let (mut peer, connection, [channel, _other]) = open(limits).await;
    let content = |size: usize| {
        let announced = method(1, basic::Return::default());
        [announced, header(1, size as u64), body(1, &vec![7; size])].concat()
    };
    peer.send_bytes(content(5000 - 8)).await;
    let returned = channel.returns().next().await.unwrap().unwrap();
    assert_eq!(returned.publication.message.body().len(), 5000 - 8);
    peer.send_bytes(content(5000 - 7)).await;
    let (code, beyond) = ended(&mut peer, &connection).await;
    let (size, max) = (5001, 5000);
    let too_large = DecodeErrorKind::FrameTooLarge { size, max };
    assert_eq!((code, kind(&beyond)), (ReplyCode::FRAME_ERROR, too_large));
}

async fn method_frame_bytes() {
    let limits = Limits {
        frame_bytes: 4096,
        method_frame_bytes: 5000,
        ..Limits::default()
    };
    let (mut peer, connection, [channel, _other]) = open(limits).await;
    // A frame's eight bytes, a header's twelve, two of flags; and the length and bytes of the table.
    let content = |frame: usize| {
        let table = super::wire::long(&vec![0; frame - 8 - 12 - 2 - 4]);
        let properties = [&[0x20, 0][..], &table].concat();
        [
            method(1, basic::Return::default()),
            header_of(1, 60, 0, 0, &properties),
        ]
        .concat()
    };
    peer.send_bytes(content(5000)).await;
    assert!(channel.returns().next().await.unwrap().is_ok());
    peer.send_bytes(content(5001)).await;
    let (code, beyond) = ended(&mut peer, &connection).await;
    let (size, max) = (5001, 5000);
    let too_large = DecodeErrorKind::FrameTooLarge { size, max };
    assert_eq!((code, kind(&beyond)), (ReplyCode::FRAME_ERROR, too_large));
}

async fn message_bytes() {
    let limits = Limits {
        message_bytes: 1000,
        ..Limits::default()
    };
    let (mut peer, connection, [channel, _other]) = open(limits).await;
    peer.send_bytes(returned(1, b"", &[7; 1000])).await;
    assert!(channel.returns().next().await.unwrap().is_ok());
    // The header is enough.
    peer.send_bytes([method(1, basic::Return::default()), header(1, 1001)].concat())
        .await;
    let (code, beyond) = channel_ended(&mut peer, 1, &channel).await;
    let (size, max) = (1001, 1000);
    assert_eq!(beyond, ContentError::TooLarge { size, max }.into());
    assert_eq!(code, ReplyCode::CONTENT_TOO_LARGE);
    assert!(connection.is_open());
}

async fn assembly_bytes() {
    let limits = Limits {
        assembly_bytes: 1000,
        ..Limits::default()
    };
    let (mut peer, connection, [first, second]) = open(limits).await;
    let begin = |on, part: usize| {
        let announced = method(on, basic::Return::default());
        [announced, header(on, 10_000), body(on, &vec![7; part])].concat()
    };
    // Of both channels together there is as much as there may be.
    peer.send_bytes([begin(1, 600), begin(2, 400)].concat())
        .await;
    settle().await;
    assert!(first.closed().is_none() && second.closed().is_none());
    // One more, on either, is too much.
    peer.send_bytes(body(1, b"x")).await;
    let (code, beyond) = channel_ended(&mut peer, 1, &first).await;
    let max = limits.assembly_bytes;
    assert_eq!(beyond, Violation::TooMuchInAssembly { max });
    assert_eq!(code, ReplyCode::CONTENT_TOO_LARGE);
    // The other channel goes on, and has the room of the first.
    assert!(connection.is_open());
    peer.send_bytes(body(2, &[7; 600])).await;
    settle().await;
    assert!(second.closed().is_none());
    // The last part of a message is not kept, and so may be of any size.
    peer.send_bytes(body(2, &[7; 9000])).await;
    let whole = second.returns().next().await.unwrap().unwrap();
    assert_eq!(whole.publication.message.body().len(), 10_000);
}

/// A message of 100 MB that is never complete, on each of two channels.
async fn assembly_bytes_by_default_sized_flood() {
    let limits = Limits {
        assembly_bytes: MIB,
        ..Limits::default()
    };
    let (mut peer, connection, [first, second]) = open(limits).await;
    let part = |on| bytes::Bytes::from(body(on, &[7; 50_000]));
    let (one, two) = (part(1), part(2));
    for on in [1, 2] {
        let announced = method(on, basic::Return::default());
        peer.send_bytes([announced, header(on, 100_000_000)].concat())
            .await;
    }
    for _ in 0..30 {
        peer.send_bytes(one.clone()).await;
        peer.send_bytes(two.clone()).await;
    }
    settle().await;
    // Whose frame went beyond is closed, and what it had is free for the other.
    let closed = [first.closed(), second.closed()];
    assert!(closed.iter().any(Option::is_some), "{closed:?}");
    assert!(connection.is_open());
}

async fn assembly_bytes_of_closed_channels_are_free() {
    let limits = Limits {
        assembly_bytes: 1000,
        ..Limits::default()
    };
    let (mut peer, connection, [first, second]) = open(limits).await;
    let begin = |on| {
        let announced = method(on, basic::Return::default());
        [announced, header(on, 2000), body(on, &[7; 1000])].concat()
    };
    // Closed by the server, before its message was complete: which is a fault of its own, so that it closes from here.
    peer.send_bytes(begin(1)).await;
    settle().await;
    let (closed, _) = tokio::join!(first.close(), peer.accept_channel_close(1));
    closed.unwrap();
    peer.send_bytes([begin(2), body(2, &[7; 1000])].concat())
        .await;
    assert!(second.returns().next().await.unwrap().is_ok());
    assert!(connection.is_open());
}

/// A header that is large counts before its body has come.
async fn assembly_bytes_of_headers() {
    // Class, weight and size, flags, and the table with its length: 2,000 bytes each.
    let table = super::wire::long(&[0; 2000 - 12 - 2 - 4]);
    let properties = [&[0x20, 0][..], &table].concat();
    let begin = |on| {
        let announced = method(on, basic::Return::default());
        [announced, header_of(on, 60, 0, 1, &properties)].concat()
    };
    let limits = Limits {
        assembly_bytes: 3999,
        ..Limits::default()
    };
    let (mut peer, connection, [_first, second]) = open(limits).await;
    peer.send_bytes([begin(1), begin(2)].concat()).await;
    let (code, beyond) = channel_ended(&mut peer, 2, &second).await;
    assert_eq!(beyond, Violation::TooMuchInAssembly { max: 3999 });
    assert_eq!(code, ReplyCode::CONTENT_TOO_LARGE);
    assert!(connection.is_open());
    let limits = Limits {
        assembly_bytes: 4000,
        ..Limits::default()
    };
    let (mut peer, _connection, [first, second]) = open(limits).await;
    peer.send_bytes([begin(1), begin(2), body(1, b"x"), body(2, b"x")].concat())
        .await;
    assert!(first.returns().next().await.unwrap().is_ok());
    assert!(second.returns().next().await.unwrap().is_ok());
}

async fn channels() {
    let limits = Limits {
        channels: 2,
        ..Limits::default()
    };
    let (_peer, connection, _channels) = open(limits).await;
    let error = connection.open_channel().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let source = std::error::Error::source(&error).unwrap();
    let usage = source.downcast_ref::<UsageError>().unwrap();
    assert_eq!(*usage, UsageError::TooManyChannels { max: 2 });
}

async fn consuming(
    peer: &mut Peer<DuplexStream>,
    channel: &Channel,
    on: u16,
    consume: Consume,
) -> Consumer {
    let ok = basic::ConsumeOk {
        consumer_tag: short!("c"),
    };
    let answer = peer.reply::<basic::Consume>(on, ok);
    tokio::join!(channel.consume(consume), answer).0.unwrap()
}

/// Delivers messages of 100 bytes until the channel is closed; how many that took, and how it was closed.
async fn deliver_until_closed(
    peer: &mut Peer<DuplexStream>,
    on: u16,
    channel: &Channel,
) -> (usize, Closed) {
    for number in 1..10_000 {
        peer.send_bytes(delivery(on, b"c", number, &[7; 100])).await;
        settle().await;
        if let Some(closed) = channel.closed() {
            return (number as usize, Closed::clone(&closed));
        }
    }
    panic!("no bound")
}

async fn undelivered_bytes() {
    let budget = 10_000;
    let limits = Limits {
        undelivered_bytes: budget,
        ..Limits::default()
    };
    let (mut peer, connection, [first, _second]) = open(limits).await;
    let consumer = consuming(&mut peer, &first, 1, Consume::new("q")).await;
    let (count, closed) = deliver_until_closed(&mut peer, 1, &first).await;
    // Each takes its body, two letters of address, two bytes of flags, and some 150 bytes to be kept.
    assert!((30..=budget / 104).contains(&count), "{count}");
    assert_eq!(closed.code, ReplyCode::RESOURCE_ERROR);
    assert_eq!(closed.cause, Some(CloseCause::ConsumerOverflow { budget }));
    // All but the one too many can be read, and that one too.
    let got: Vec<_> = consumer.collect().await;
    assert_eq!(got.iter().filter(|got| got.is_ok()).count(), count);
    assert!(connection.is_open());
}

async fn undelivered_bytes_of_one_consumer() {
    let limits = Limits {
        undelivered_bytes: 0,
        ..Limits::default()
    };
    let (mut peer, _connection, [first, second]) = open(limits).await;
    let budget = 5000;
    let own = Consume::new("q").budget(budget, Overflow::CloseChannel);
    let _first = consuming(&mut peer, &first, 1, own).await;
    let _second = consuming(&mut peer, &second, 2, Consume::new("q")).await;
    let (count, closed) = deliver_until_closed(&mut peer, 1, &first).await;
    assert!(count > 10, "{count}");
    assert_eq!(closed.cause, Some(CloseCause::ConsumerOverflow { budget }));
    let (count, closed) = deliver_until_closed(&mut peer, 2, &second).await;
    assert_eq!(count, 1);
    assert_eq!(
        closed.cause,
        Some(CloseCause::ConsumerOverflow { budget: 0 })
    );
}

async fn returned_messages() {
    let limits = Limits {
        returned_messages: 3,
        ..Limits::default()
    };
    let (mut peer, _connection, [first, second]) = open(limits).await;
    for body in [b"1", b"2", b"3"] {
        peer.send_bytes(returned(1, b"", body)).await;
    }
    settle().await;
    let mut unread = first.returns();
    let kept = unread.next().await.unwrap().unwrap();
    assert_eq!(kept.publication.message.body(), "1");
    // Two wait; two more are one too many, and the channel with most of them loses it.
    let mut read = second.returns();
    peer.send_bytes([returned(2, b"", b"4"), returned(1, b"", b"5")].concat())
        .await;
    settle().await;
    let kept = read.next().await.unwrap().unwrap();
    assert_eq!(kept.publication.message.body(), "4");
    assert_eq!(unread.next().await.unwrap().unwrap_err(), Missed(1));
    for body in ["3", "5"] {
        let kept = unread.next().await.unwrap().unwrap();
        assert_eq!(kept.publication.message.body(), body);
    }
    assert!(poll_immediate(unread.next()).await.is_none());
}

async fn returned_bytes() {
    // Two of 100 bytes, each with two bytes of flags.
    let limits = Limits {
        returned_bytes: 204,
        ..Limits::default()
    };
    let (mut peer, _connection, [first, second]) = open(limits).await;
    peer.send_bytes(returned(1, b"", &[1; 100]).repeat(2)).await;
    settle().await;
    let mut unread = first.returns();
    let mut read = second.returns();
    assert!(unread.next().await.unwrap().is_ok());
    peer.send_bytes(returned(1, b"", &[1; 100])).await;
    settle().await;
    // The first channel keeps all that may be kept: what another gets is at its expense.
    peer.send_bytes(returned(2, b"", &[2; 50])).await;
    settle().await;
    assert!(read.next().await.unwrap().is_ok());
    assert_eq!(unread.next().await.unwrap().unwrap_err(), Missed(1));
    // One alone may be larger than the limit.
    assert!(unread.next().await.unwrap().is_ok());
    peer.send_bytes(returned(1, b"", &[1; 1000])).await;
    assert!(unread.next().await.unwrap().is_ok());
}

async fn events() {
    let limits = Limits {
        events: 4,
        ..Limits::default()
    };
    let (mut peer, connection, _channels) = open(limits).await;
    let mut events = connection.events();
    let blocked = |times: usize| method(0, connection::Unblocked {}).repeat(times);
    peer.send_bytes(blocked(4)).await;
    settle().await;
    for _ in 0..4 {
        assert!(matches!(events.next().await, Some(Event::Unblocked)));
    }
    peer.send_bytes(blocked(5)).await;
    settle().await;
    assert!(matches!(events.next().await, Some(Event::Lagged(1))));
}

async fn outgoing_bytes() {
    let limits = Limits {
        outgoing_bytes: 1000,
        ..Limits::default()
    };
    let (mut peer, _connection, [first, _second]) = open(limits).await;
    let (channel, _) = tokio::join!(
        first.confirm_select_with(ConfirmOptions::default().wait(Duration::ZERO)),
        peer.reply::<amqp_client::codec::confirm::Select>(
            1,
            amqp_client::codec::confirm::SelectOk {}
        )
    );
    let channel = channel.unwrap();
    // Larger than the limit and the pipe: it goes as nothing waits. Behind it there is room for 1,000 bytes.
    let _large = channel
        .publish("", "q", Message::new(vec![7; 100_000]))
        .await
        .unwrap();
    settle().await;
    let half = || channel.publish("", "q", Message::new(vec![7; 600]));
    let _first = half().await.unwrap();
    let _second = half().await.unwrap();
    assert_eq!(half().await.unwrap_err().reason, NotSent::Full);
    // It is read, and there is room.
    peer.expect_publish().await;
    peer.expect_publish().await;
    assert!(half().await.is_ok());
}

/// A peer that makes us owe and does not read is not read from, which is no error.
async fn owed_bytes() {
    let limits = Limits {
        owed_bytes: 10_000,
        ..Limits::default()
    };
    let (mut peer, connection, [first, _second]) = open(limits).await;
    let flow = bytes::Bytes::from(method(1, channel::Flow::default()).repeat(1000));
    let mut taken = 0;
    peer.set_deadline(Duration::from_secs(3600));
    loop {
        let sending = peer.send_bytes(flow.clone());
        if timeout(Duration::from_secs(1), sending).await.is_err() {
            break;
        }
        taken += flow.len();
        assert!(taken < MIB, "no bound");
    }
    // The pipe holds 64 KiB in each direction, and a batch that was handed out may wait beside what is owed.
    assert!(taken <= 4 * 65_536 + 2 * 10_000, "{taken}");
    assert!(connection.is_open());
    // Calls end all the same.
    let error = first.queue_declare(QueueDeclare::new("q")).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Timeout);
}

async fn held_answer_bytes() {
    // channel.flow-ok takes 13 bytes with its frame.
    let limits = Limits {
        held_answer_bytes: 26,
        ..Limits::default()
    };
    let (mut peer, connection, [first, _second]) = open(limits).await;
    let (channel, _) = tokio::join!(
        first.tx_select(),
        peer.reply::<tx::Select>(1, tx::SelectOk {})
    );
    let mut channel = channel.unwrap();
    let flow = method(1, channel::Flow::default());
    // Two wait, and go when the commit is answered.
    let server = async {
        peer.expect::<tx::Commit>(1).await;
        peer.send_bytes(flow.repeat(2)).await;
        peer.send(1, tx::CommitOk {}).await;
        peer.expect::<channel::FlowOk>(1).await;
        peer.expect::<channel::FlowOk>(1).await;
    };
    let (committed, ()) = tokio::join!(channel.commit(), server);
    committed.unwrap();
    // Three are too many.
    let server = async {
        peer.expect::<tx::Commit>(1).await;
        peer.send_bytes(flow.repeat(3)).await;
        ended(&mut peer, &connection).await
    };
    let (committed, (code, beyond)) = tokio::join!(channel.commit(), server);
    assert!(matches!(committed, Err(CommitError::Unknown(_))));
    assert_eq!(beyond, Violation::TooManyAnswers { max: 26 });
    assert_eq!(code, ReplyCode::RESOURCE_ERROR);
}
