//! How connections and channels begin and end.

use std::time::{Duration, Instant};

use amqp_client::codec::{Frame, Limits, Method, RawFrame, ReplyCode, short};
use amqp_client::error::{CloseCause, ErrorKind, Initiator, UsageError};
use amqp_client::{ConnectOptions, Connection, Message, Outcome, UnknownReason};
use amqp_tests::broker::Vhost;
use amqp_tests::proxy::{Flow, Link};
use amqp_tests::{Broker, Version};
use tokio::runtime::Handle;

use crate::support::{
    channel, confirm_channel, connect, connect_through, connections, declare, drain,
    no_connection_left, raw, soon, until,
};

on_each_broker!(
    what_the_server_says,
    what_the_broker_sees,
    last_handle_dropped,
    last_handle_dropped_with_confirms_alive,
    any_handle_keeps_the_connection,
    close_waits_for_confirms,
    close_says_code_and_text,
    closed_by_an_operator,
    close_that_is_not_answered,
    heartbeats,
    channels_up_to_the_limit,
);

async fn what_the_server_says(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let connection = connect(&vhost.uri).await;
    let server = connection.server();
    assert_eq!(server.properties.get_str("product"), Some("RabbitMQ"));
    let version = server.properties.get_str("version").unwrap();
    let expected = match broker.version() {
        Version::V3_10 => "3.10.",
        Version::V4_0 => "4.0.",
        Version::V4_3 => "4.3.",
    };
    assert!(version.starts_with(expected), "{version}");
    assert!(server.has_capability("publisher_confirms"));
    assert!(server.has_capability("basic.nack"));
    assert!(!server.has_capability("no.such.thing"));
    let negotiated = connection.negotiated().unwrap();
    let tuned = (
        negotiated.channel_max,
        negotiated.frame_max,
        negotiated.heartbeat,
    );
    assert_eq!(tuned, (2047, 131_072, 60));
    connection.close().await.unwrap();

    // What is asked for and smaller, holds.
    let options = ConnectOptions::try_from(vhost.uri.as_str())
        .unwrap()
        .channel_max(7)
        .frame_max(8192)
        .heartbeat(6);
    let connection = Connection::open(options).await.unwrap();
    let negotiated = connection.negotiated().unwrap();
    let tuned = (
        negotiated.channel_max,
        negotiated.frame_max,
        negotiated.heartbeat,
    );
    assert_eq!(tuned, (7, 8192, 6));
    for (item, value) in [("channel_max", 7), ("frame_max", 8192), ("timeout", 6)] {
        let known = connections(broker, &vhost, item).await;
        assert_eq!(known, format!("[{value}]"), "{item}");
    }
    connection.close().await.unwrap();
}

async fn what_the_broker_sees(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let options = ConnectOptions::try_from(vhost.uri.as_str())
        .unwrap()
        .connection_name("order-service");
    let connection = Connection::open(options).await.unwrap();
    let properties = connections(broker, &vhost, "client_properties").await;
    for expected in [
        "{<<\"connection_name\">>,longstr,<<\"order-service\">>}",
        "{<<\"product\">>,longstr,<<\"amqp-client\">>}",
        "{<<\"authentication_failure_close\">>,bool,true}",
    ] {
        assert!(properties.contains(expected), "{properties}");
    }
    assert_eq!(
        connections(broker, &vhost, "auth_mechanism").await,
        "[<<\"PLAIN\">>]"
    );
    let _channels = (channel(&connection).await, channel(&connection).await);
    assert_eq!(connections(broker, &vhost, "channels").await, "[2]");
    connection.close().await.unwrap();
    no_connection_left(broker, &vhost).await;
}

/// The close methods of the connection among what has passed, and whether a close-ok did.
fn closes(flow: &Flow) -> (Vec<(ReplyCode, String)>, bool) {
    let (mut closes, mut close_ok) = (Vec::new(), false);
    let (bytes, limits) = (flow.bytes(), Limits::default());
    for span in flow.frames() {
        let bytes = &bytes[span.range.start as usize..span.range.end as usize];
        if span.method.is_none() || span.channel != 0 {
            continue;
        }
        let (raw, _) = RawFrame::parse(bytes, &limits).unwrap().unwrap();
        match raw.decode(&limits).unwrap() {
            Frame::Method {
                method: Method::ConnectionClose(close),
                ..
            } => closes.push((
                close.reply_code,
                close.reply_text.to_string_lossy().into_owned(),
            )),
            Frame::Method {
                method: Method::ConnectionCloseOk(_),
                ..
            } => close_ok = true,
            _ => {}
        }
    }
    (closes, close_ok)
}

/// Checks that the client has closed the connection politely, and the server has agreed.
#[track_caller]
fn closed_politely(link: &Link) {
    let (sent, _) = closes(link.to_server());
    assert_eq!(sent, [(ReplyCode::REPLY_SUCCESS, String::new())]);
    let (received, close_ok) = closes(link.to_client());
    assert_eq!(received, []);
    assert!(close_ok, "no close-ok");
}

/// Waits until this many tasks are left in the runtime.
async fn tasks_left(count: usize) {
    until("the connection's task is gone", async || {
        Handle::current().metrics().num_alive_tasks() == count
    })
    .await;
}

async fn bodies(broker: &Broker, vhost: &Vhost) -> Vec<bytes::Bytes> {
    drain(&mut raw(broker.address(), vhost).await, "q").await
}

fn numbered(count: u32) -> Vec<Vec<u8>> {
    let numbers = 0..count;
    numbers
        .map(|number| number.to_string().into_bytes())
        .collect()
}

async fn last_handle_dropped(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let (proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let channel = channel(&connection).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    for number in 0..100_u32 {
        let message = Message::new(number.to_string());
        channel.publish("", "q", message).await.unwrap();
    }
    drop(channel);
    drop(connection);
    link.ended().await;
    // The connection's task, and the proxy's for it.
    tasks_left(tasks - 2).await;
    closed_politely(&link);
    no_connection_left(broker, &vhost).await;
    assert_eq!(bodies(broker, &vhost).await, numbered(100));
    drop(proxy);
}

async fn last_handle_dropped_with_confirms_alive(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let channel = confirm_channel(&connection).await;
    let mut confirms = Vec::new();
    for number in 0..100_u32 {
        let message = Message::new(number.to_string());
        confirms.push(channel.publish("", "q", message).await.unwrap());
    }
    let unroutable = Message::new("nowhere").mandatory();
    let returned = channel.publish("", "none", unroutable).await.unwrap();
    drop(channel);
    drop(connection);
    for confirm in confirms {
        assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    }
    let outcome = soon("a return", returned).await;
    assert!(matches!(outcome, Outcome::Returned(_)), "{outcome:?}");
    // With the last confirm the last handle is gone.
    link.ended().await;
    closed_politely(&link);
    assert_eq!(bodies(broker, &vhost).await, numbered(100));
}

async fn any_handle_keeps_the_connection(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let channel = channel(&connection).await;
    drop(connection);
    let message = Message::new("0");
    channel.publish("", "q", message).await.unwrap();
    let got = channel.get("q", false).await.unwrap();
    let delivery = got.expect("a message").delivery;
    drop(channel);
    // A delivery is a handle, too.
    let acker = delivery.acker();
    drop(delivery);
    assert!(!link.has_ended());
    acker.nack(true).unwrap();
    drop(acker);
    link.ended().await;
    closed_politely(&link);
    assert_eq!(bodies(broker, &vhost).await, numbered(1));
}

async fn close_waits_for_confirms(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    for whole in [false, true] {
        let channel = confirm_channel(&connection).await;
        let mut confirms = Vec::new();
        for number in 0..200_u32 {
            let message = Message::new(number.to_string());
            confirms.push(channel.publish("", "q", message).await.unwrap());
        }
        match whole {
            false => soon("close-ok", channel.close()).await.unwrap(),
            true => soon("close-ok", connection.close()).await.unwrap(),
        }
        for confirm in confirms {
            assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
        }
        let late = channel.publish("", "q", Message::new("late")).await;
        let reason = late.unwrap_err().reason;
        let reason = format!("{reason:?}");
        assert!(reason.contains("Closed"), "{reason}");
        let mut raw = raw(broker.address(), &vhost).await;
        assert_eq!(drain(&mut raw, "q").await, numbered(200));
    }
    // A second close is as good as the first.
    connection.close().await.unwrap();
    assert!(!connection.is_open());
    let error = connection.open_channel().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed);
}

async fn close_says_code_and_text(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    let channel = channel(&connection).await;
    channel
        .close_with(ReplyCode(299), "done with this channel")
        .await
        .unwrap();
    let closed = channel.closed().unwrap();
    assert_eq!(
        (closed.initiator, closed.code),
        (Initiator::Client, ReplyCode(299))
    );
    assert!(matches!(
        channel.get("q", true).await.unwrap_err().kind(),
        ErrorKind::ChannelClosed
    ));
    connection
        .close_with(ReplyCode(298), "going home")
        .await
        .unwrap();
    let closed = connection.closed().await;
    assert_eq!(closed.initiator, Initiator::Client);
    assert_eq!(
        (closed.code, &closed.text),
        (ReplyCode(298), &short!("going home"))
    );
    assert_eq!(closed.cause, None);
    link.ended().await;
    let (sent, _) = closes(link.to_server());
    assert_eq!(sent, [(ReplyCode(298), "going home".to_owned())]);
    let bytes = link.to_server().bytes();
    let text = b"done with this channel";
    assert!(bytes.windows(text.len()).any(|window| window == text));
}

async fn closed_by_an_operator(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let channel = confirm_channel(&connection).await;
    // Without an answer until the end.
    link.to_server().hold();
    let confirm = channel
        .publish("", "q", Message::new("held"))
        .await
        .unwrap();
    let declare = channel.queue_purge("q");
    let closing = broker.close_connections(&vhost.name, "maintenance at noon");
    let (purged, ()) = soon("an end", async { tokio::join!(declare, closing) }).await;

    let error = purged.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed);
    let closed = error.closed().unwrap().clone();
    assert_eq!(closed.initiator, Initiator::Server);
    assert_eq!(closed.code, ReplyCode::CONNECTION_FORCED);
    let text = closed.text.to_string_lossy();
    assert!(text.contains("maintenance at noon"), "{text}");
    match soon("an outcome", confirm).await {
        Outcome::Unknown {
            publication,
            reason: UnknownReason::ConnectionClosed { closed: why, .. },
        } => {
            assert_eq!(*why, closed);
            assert_eq!(publication.message.body(), "held");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(*soon("the end", connection.closed()).await, closed);
    let error = connection.close().await.unwrap_err();
    assert_eq!(error.closed(), Some(&closed));
    let refused = channel.publish("", "q", Message::new("late")).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("maintenance at noon"),
        "the reason is in every error"
    );
    let error = connection.open_channel().await.unwrap_err();
    assert_eq!(error.closed(), Some(&closed));
}

async fn close_that_is_not_answered(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let deadline = Duration::from_millis(400);
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| {
        options.close_deadline(deadline).rpc_deadline(deadline)
    })
    .await;
    let channel = channel(&connection).await;
    link.to_client().hold();
    let began = Instant::now();
    let error = soon("a timeout", channel.queue_purge("q"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("queue.purge"), "{error}");
    let error = soon("an end", connection.close()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
    let closed = error.closed().unwrap();
    assert_eq!(closed.cause, Some(CloseCause::CloseTimeout));
    assert!(began.elapsed() >= 2 * deadline);
    link.to_client().release();
    link.ended().await;
}

async fn heartbeats(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let beating = |options: ConnectOptions| options.heartbeat(1);
    let slowly = |options: ConnectOptions| options.heartbeat(2);

    let idle = async {
        let (_proxy, link, connection) = connect_through(broker, &vhost, slowly).await;
        assert_eq!(connection.negotiated().unwrap().heartbeat, 2);
        // This is about time itself: longer than either side waits for the other.
        tokio::time::sleep(Duration::from_millis(6_500)).await;
        assert!(connection.is_open());
        connection.open_channel().await.unwrap();
        for flow in [link.to_server(), link.to_client()] {
            let frames = flow.frames();
            let beats = frames.iter().filter(|span| span.kind == 8).count();
            assert!((4..=14).contains(&beats), "{beats}");
        }
        connection.close().await.unwrap();
    };
    let deaf = async {
        let (_proxy, link, connection) = connect_through(broker, &vhost, beating).await;
        link.to_client().hold();
        let began = Instant::now();
        let closed = soon("the end", connection.closed()).await;
        assert_eq!(closed.initiator, Initiator::Transport);
        // Two intervals, and what the machine takes to notice.
        match closed.cause {
            Some(CloseCause::HeartbeatTimeout(silence)) => {
                assert!(silence >= Duration::from_secs(2), "{silence:?}");
            }
            _ => panic!("{closed:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(5));
    };
    let mute = async {
        let (_proxy, link, connection) = connect_through(broker, &vhost, beating).await;
        link.to_server().hold();
        let closed = soon("the end", connection.closed()).await;
        // The broker waits for up to three intervals and ends the stream without a word.
        assert_eq!(closed.initiator, Initiator::Transport, "{closed:?}");
    };
    let off = async {
        let (_proxy, link, connection) =
            connect_through(broker, &vhost, |options| options.heartbeat(0)).await;
        assert_eq!(connection.negotiated().unwrap().heartbeat, 0);
        connection.close().await.unwrap();
        let frames = link.to_client().frames();
        assert!(frames.iter().all(|span| span.kind != 8));
    };
    tokio::join!(idle, deaf, mute, off);
    no_connection_left(broker, &vhost).await;
}

async fn channels_up_to_the_limit(broker: &'static Broker) {
    let vhost = broker.vhost("lifecycle").await;
    let options = ConnectOptions::try_from(vhost.uri.as_str())
        .unwrap()
        .channel_max(3);
    let connection = Connection::open(options).await.unwrap();
    let mut channels = Vec::new();
    for _ in 0..3 {
        channels.push(channel(&connection).await);
    }
    let error = connection.open_channel().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(
        source.downcast_ref(),
        Some(&UsageError::TooManyChannels { max: 3 })
    );
    // It costs the connection nothing, and a number that is free again is used again.
    let freed = channels.remove(1);
    let number = freed.id().number;
    freed.close().await.unwrap();
    let reused = channel(&connection).await;
    assert_eq!(reused.id().number, number);
    assert_ne!(reused.id().incarnation, freed.id().incarnation);
    // A dropped one is free when the server says so.
    drop(channels);
    until("the numbers are free", async || {
        connection.open_channels() == 1
    })
    .await;
    let other = channel(&connection).await;
    other.recover().await.unwrap();
    let names = [reused.id().number, other.id().number];
    assert_ne!(names[0], names[1]);
    connection.close().await.unwrap();
}
