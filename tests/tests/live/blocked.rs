//! A broker with an alarm: it takes no publishes, and answers nothing to those who publish.

use std::time::{Duration, Instant};

use amqp_client::error::{CloseCause, ErrorKind, NotSent};
use amqp_client::{ConfirmOptions, Connection, Event, Events, Message, Outcome};
use amqp_client::{ConnectOptions, QueueDeclare};
use amqp_tests::Broker;

use crate::support::{channel, confirm_channel_with, connect, declare, name, soon};

on_each_broker!(publishes_wait_and_every_call_ends);

async fn next(events: &mut Events) -> Event {
    let event = soon("an event", events.next()).await;
    event.expect("the connection is open")
}

/// On a node of its own: an alarm concerns everybody.
async fn publishes_wait_and_every_call_ends(shared: &'static Broker) {
    let broker = Broker::start(shared.version()).await;
    let uri = broker.uri();
    let connection = connect(&uri).await;
    declare(&connection, "q").await;
    let options = ConfirmOptions::default().wait(Duration::from_millis(200));
    let impatient = confirm_channel_with(&connection, options).await;
    let patient = confirm_channel_with(&connection, ConfirmOptions::default()).await;
    let mut events = connection.events();
    broker.raise_alarm().await;

    // The broker says so at the first publish, which it has read by then.
    let first = impatient.publish("", "q", Message::new("1")).await.unwrap();
    match next(&mut events).await {
        Event::Blocked(reason) => assert_eq!(connection.blocked(), Some(reason)),
        event => panic!("{event:?}"),
    }
    let refused = impatient.try_publish("", "q", Message::new("2"));
    assert_eq!(refused.unwrap_err().reason, NotSent::Blocked);
    let began = Instant::now();
    let refused = impatient.publish("", "q", Message::new("2")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason, NotSent::Blocked);
    assert_eq!(refused.publication.message.body(), "2");
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert!(connection.is_open());

    // Calls and closes get no answer, and end all the same.
    let hasty = ConnectOptions::try_from(uri.as_str())
        .unwrap()
        .rpc_deadline(Duration::from_millis(300))
        .close_deadline(Duration::from_millis(300));
    let other = Connection::open(hasty).await.unwrap();
    let plain = channel(&other).await;
    let mut others = other.events();
    let publish = plain.publish("", "q", Message::new("3")).await;
    publish.unwrap();
    assert!(matches!(next(&mut others).await, Event::Blocked(_)));
    let passive = || QueueDeclare::new(name("q")).passive();
    let declared = plain.queue_declare(passive()).await;
    assert_eq!(declared.unwrap_err().kind(), ErrorKind::Timeout);
    let error = soon("an end", other.close()).await.unwrap_err();
    let cause = &error.closed().expect("how it ended").cause;
    assert_eq!(*cause, Some(CloseCause::CloseTimeout));

    // Who waits is served when the alarm is over, nothing is lost.
    let waiting = {
        let patient = patient.clone();
        tokio::spawn(async move { patient.publish("", "q", Message::new("4")).await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    broker.clear_alarm().await;
    assert!(matches!(next(&mut events).await, Event::Unblocked));
    assert_eq!(connection.blocked(), None);
    let fourth = soon("room", waiting).await.unwrap().unwrap();
    assert_eq!(soon("an ack", fourth).await, Outcome::Acked);
    assert_eq!(soon("an ack", first).await, Outcome::Acked);
    let counted = impatient.queue_declare(passive()).await.unwrap();
    // The third may have been read before its connection was given up.
    assert!([2, 3].contains(&counted.message_count), "{counted:?}");
    connection.close().await.unwrap();
}
