//! A node out of memory: it stops reading from who publishes. Time goes on all the same.

use std::time::{Duration, Instant};

use amqp_client::error::{CloseCause, ErrorKind, NotSent};
use amqp_client::{
    ConfirmOptions, ConnectOptions, Connection, Event, Events, Message, Outcome, QueueDeclare,
    UnknownReason,
};
use amqp_tests::Broker;
use tokio::runtime::Handle;

use crate::support::{
    channel, confirm_channel_with, connect_through, declare, name, no_connection_left, raw, soon,
    until,
};

on_each_broker!(blocked_for_longer_than_any_deadline, given_up_while_blocked);

async fn next(events: &mut Events) -> Event {
    let event = soon("an event", events.next()).await;
    event.expect("the connection is open")
}

async fn blocked_for_longer_than_any_deadline(node: &Broker) {
    let vhost = node.vhost("alarm").await;
    let deadline = Duration::from_millis(300);
    let (_proxy, link, connection) = connect_through(node, &vhost, |options| {
        options.heartbeat(1).rpc_deadline(deadline)
    })
    .await;
    declare(&connection, "q").await;
    let options = ConfirmOptions::default().wait(deadline).timeout(deadline);
    let channel = confirm_channel_with(&connection, options).await;
    let patient = ConfirmOptions::default();
    let patient = confirm_channel_with(&connection, patient).await;
    let mut events = connection.events();
    assert_eq!(connection.blocked(), None);

    node.raise_alarm().await;
    // Nobody is told before the first publish. What goes with it is sent, and not read before the alarm is over.
    assert_eq!(connection.blocked(), None);
    let number = |number: u32| Message::new(number.to_string());
    let mut sent = Vec::new();
    for at in 0..3 {
        sent.push(channel.try_publish("", "q", number(at)).unwrap());
    }
    let Event::Blocked(reason) = next(&mut events).await else {
        panic!("not blocked");
    };
    assert_eq!(connection.blocked().as_ref(), Some(&reason));
    assert_eq!(reason, "low on memory");
    let began = Instant::now();

    // Publishes come back.
    let refused = channel.try_publish("", "q", number(9)).unwrap_err();
    assert_eq!(refused.reason, NotSent::Blocked);
    assert_eq!(refused.publication.message, number(9));
    let refused = soon("an answer", channel.publish("", "q", number(9))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason, NotSent::Blocked);
    assert_eq!(refused.publication.message, number(9));
    assert!(began.elapsed() >= deadline);
    let waiting = tokio::spawn(async move { patient.publish("", "q", number(4)).await });

    // Calls end, and confirms.
    let passive = || QueueDeclare::new(name("q")).passive();
    let error = soon("an end", channel.queue_declare(passive())).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Timeout);
    let mut known = 0;
    for confirm in sent {
        match soon("an outcome", confirm).await {
            Outcome::Acked => known += 1,
            Outcome::Unknown {
                reason: UnknownReason::TimedOut,
                ..
            } => {}
            other => panic!("{other:?}"),
        }
    }

    // Both sides go on with their heartbeats. This is about time itself: longer than either would wait for the other.
    tokio::time::sleep(Duration::from_millis(3_300).saturating_sub(began.elapsed())).await;
    assert!(connection.is_open() && !waiting.is_finished());
    let from = |flow: &amqp_tests::proxy::Flow| {
        let frames = flow.frames();
        frames.iter().filter(|span| span.kind == 8).count()
    };
    let beats = (from(link.to_server()), from(link.to_client()));
    assert!(beats.0 >= 3 && beats.1 >= 3, "{beats:?}");

    node.clear_alarm().await;
    assert!(matches!(next(&mut events).await, Event::Unblocked));
    assert_eq!(connection.blocked(), None);
    let confirm = soon("room", waiting).await.unwrap().unwrap();
    assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    // What had timed out is counted when it comes, and the next call gets its own answer.
    until("late acks", async || channel.status().in_flight == 0).await;
    let counts = channel.status().counts;
    assert_eq!((counts.acked, counts.late), (known, 3 - known));
    let info = soon("an answer", channel.queue_declare(passive())).await;
    assert_eq!(info.unwrap().message_count, 4);
    connection.close().await.unwrap();
}

async fn given_up_while_blocked(node: &Broker) {
    let vhost = node.vhost("alarm").await;
    let deadline = Duration::from_millis(500);
    let tasks = Handle::current().metrics().num_alive_tasks();
    let options = ConnectOptions::try_from(vhost.uri.as_str())
        .unwrap()
        .close_deadline(deadline);
    let mut blocked = Vec::new();
    for _ in 0..2 {
        let connection = Connection::open(options.clone()).await.unwrap();
        declare(&connection, "q").await;
        blocked.push(connection);
    }
    node.raise_alarm().await;
    let mut waiting = Vec::new();
    for connection in &blocked {
        let mut events = connection.events();
        let plain = channel(connection).await;
        plain.publish("", "q", Message::new("1")).await.unwrap();
        assert!(matches!(next(&mut events).await, Event::Blocked(_)));
        waiting.push(tokio::spawn(async move {
            plain.publish("", "q", Message::new("2")).await
        }));
    }
    tokio::task::yield_now().await;

    // A close ends at its deadline, and with it everything that waited.
    let closing = blocked.pop().unwrap();
    let began = Instant::now();
    let error = soon("an end", closing.close()).await.unwrap_err();
    let took = began.elapsed();
    assert!(took >= deadline && took < 8 * deadline, "{took:?}");
    let closed = error.closed().expect("how it ended").clone();
    assert_eq!(closed.cause, Some(CloseCause::CloseTimeout));
    let unsent = soon("an answer", waiting.pop().unwrap()).await.unwrap();
    assert_eq!(unsent.unwrap_err().publication.message, Message::new("2"));

    // So it is when its last handle goes: the one that waits to publish is one.
    let connection = blocked.pop().unwrap();
    let waiting = waiting.pop().unwrap();
    drop((closing, connection));
    assert!(!waiting.is_finished());
    waiting.abort();
    until("no task is left", async || {
        Handle::current().metrics().num_alive_tasks() <= tasks
    })
    .await;
    node.clear_alarm().await;
    no_connection_left(node, &vhost).await;
    let mut raw = raw(node.address(), &vhost).await;
    // The second messages were never sent.
    let bodies = crate::support::drain(&mut raw, "q").await;
    assert!(bodies.iter().all(|body| body == "1"), "{bodies:?}");
}
