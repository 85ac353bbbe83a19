//! Confirms: what they count, and what becomes of them when a queue, a channel or the connection goes.

use amqp_client::codec::{MethodId, ReplyCode, short};
use amqp_client::error::Initiator;
use amqp_client::{
    ConfirmChannel, Consume, Message, Outcome, QueueDeclare, QueueDelete, QueueType, UnknownReason,
};
use amqp_tests::Broker;
use amqp_tests::broker::Vhost;
use futures_util::future::join_all;

use crate::support::{
    channel, confirm_channel, connect, connect_through, declare, drain, no_connection_left, raw,
    soon, until,
};

on_each_broker!(
    numbers_begin_with_the_select,
    queue_process_that_dies,
    queue_deleted_under_open_confirms,
    channel_closed_at_once_with_confirms_open,
    error_of_one_channel_among_confirms_of_another,
);

/// The process of a classic queue, stopped: what is published stays without its confirm.
struct Suspended<'a> {
    broker: &'a Broker,
    pid: String,
}

impl<'a> Suspended<'a> {
    async fn new(broker: &'a Broker, vhost: &Vhost, queue: &str) -> Self {
        let pid = broker
            .eval(&format!(
                "{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"{}\">>, queue, <<\"{queue}\">>)), \
                 ok = sys:suspend(amqqueue:get_pid(Q)), pid_to_list(amqqueue:get_pid(Q))",
                vhost.name
            ))
            .await;
        Suspended { broker, pid }
    }

    /// Does something with the process, `P`.
    async fn eval(&self, expression: &str) -> String {
        let pid = &self.pid;
        self.broker
            .eval(&format!("P = list_to_pid({pid}), {expression}"))
            .await
    }
}

async fn publish(channel: &ConfirmChannel, count: u32) -> Vec<amqp_client::Confirm> {
    let mut confirms = Vec::new();
    for number in 0..count {
        let message = Message::new(number.to_string()).persistent();
        confirms.push(channel.publish("", "q", message).await.unwrap());
    }
    confirms
}

/// What was published on the channel is with its queues when this returns: the server takes frames in order.
async fn with_their_queues(channel: &ConfirmChannel) {
    soon("qos-ok", channel.qos(1, false)).await.unwrap();
}

async fn numbers_begin_with_the_select(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let plain = channel(&connection).await;
    for body in ["1", "2", "3"] {
        plain.publish("", "q", Message::new(body)).await.unwrap();
    }
    let channel = soon("select-ok", plain.confirm_select()).await.unwrap();
    let confirms = publish(&channel, 2).await;
    for (at, confirm) in confirms.into_iter().enumerate() {
        assert_eq!(confirm.sequence_number(), at as u64 + 1);
        assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    }
    let counts = channel.status().counts;
    assert_eq!((counts.acked, counts.late), (2, 0));
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(drain(&mut raw, "q").await, ["1", "2", "3", "0", "1"]);
    connection.close().await.unwrap();
}

async fn queue_process_that_dies(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    let channel = confirm_channel(&connection).await;
    let queue = QueueDeclare::new(short!("q")).durable();
    channel.queue_declare(queue).await.unwrap();
    let process = Suspended::new(broker, &vhost, "q").await;
    let confirms = publish(&channel, 10).await;
    with_their_queues(&channel).await;
    assert_eq!(channel.status().in_flight, 10);
    process.eval("exit(P, kill)").await;
    for (number, confirm) in confirms.into_iter().enumerate() {
        match soon("a nack", confirm).await {
            Outcome::Nacked(publication) => {
                assert_eq!(publication.message.body(), &number.to_string());
            }
            other => panic!("{number}: {other:?}"),
        }
    }
    // The channel lives on, and the queue is back.
    until("an ack", async || {
        let retry = channel.publish("", "q", Message::new("again").mandatory());
        soon("an outcome", retry.await.unwrap()).await.is_acked()
    })
    .await;
    connection.close().await.unwrap();
}

async fn queue_deleted_under_open_confirms(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    let channel = confirm_channel(&connection).await;
    let queue = QueueDeclare::new(short!("q")).durable();
    channel.queue_declare(queue).await.unwrap();
    let process = Suspended::new(broker, &vhost, "q").await;
    let confirms = publish(&channel, 10).await;
    with_their_queues(&channel).await;
    let other = self::channel(&connection).await;
    let delete = other.queue_delete(QueueDelete::new(short!("q")));
    let resume = async {
        until("the delete is with the queue", async || {
            let waiting = process.eval("process_info(P, message_queue_len)").await;
            let count = waiting.trim_matches(|c: char| !c.is_ascii_digit());
            count.parse::<u32>().unwrap() > 10
        })
        .await;
        assert_eq!(channel.status().in_flight, 10);
        process.eval("sys:resume(P)").await;
    };
    let (deleted, ()) = soon("delete-ok", async { tokio::join!(delete, resume) }).await;
    assert_eq!(deleted.unwrap(), 10);
    for outcome in soon("outcomes", join_all(confirms)).await {
        assert_eq!(outcome, Outcome::Acked);
    }
    connection.close().await.unwrap();
}

async fn channel_closed_at_once_with_confirms_open(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let channel = confirm_channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;
    link.to_client().hold();
    let confirms = publish(&channel, 100).await;
    until("all are in the queue", async || {
        raw.message_count(1, "q").await == 100
    })
    .await;
    let close = channel.close_with(ReplyCode(200), "at once");
    let release = async {
        until("the close is on its way", async || {
            let frames = link.to_server().frames();
            let close = Some(MethodId::CHANNEL_CLOSE);
            let number = channel.id().number;
            frames
                .iter()
                .any(|span| span.method == close && span.channel == number)
        })
        .await;
        link.to_client().release();
    };
    let (closed, ()) = soon("close-ok", async { tokio::join!(close, release) }).await;
    closed.unwrap();
    for outcome in soon("outcomes", join_all(confirms)).await {
        match outcome {
            Outcome::Unknown {
                reason: UnknownReason::ChannelClosed(closed),
                ..
            } => assert_eq!(closed.initiator, Initiator::Client),
            other => panic!("{other:?}"),
        }
    }
    // Nobody knows, and they are all there.
    assert_eq!(raw.message_count(1, "q").await, 100);
    connection.close().await.unwrap();
}

async fn error_of_one_channel_among_confirms_of_another(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let mut acked_before = 0;
    for round in 0..5 {
        let connection = connect(&vhost.uri).await;
        declare(&connection, "q").await;
        let erring = channel(&connection).await;
        let confirms_of = confirm_channel(&connection).await;
        let delete = QueueDelete::new(short!("q"));
        erring.queue_delete(delete).await.unwrap();
        declare(&connection, "q").await;
        let quorum = QueueDeclare::new("quorum").durable();
        let quorum = quorum.queue_type(QueueType::Quorum);
        erring.queue_declare(quorum).await.unwrap();
        erring.qos(5, true).await.unwrap();

        let confirms = publish(&confirms_of, 300).await;
        // Quorum queues know no limit for a channel as a whole: the end of the connection.
        let consume = Consume::new("quorum");
        let refused = soon("a refusal", erring.consume(consume)).await;
        let error = refused.err().expect("a refusal");
        let closed = error.closed().expect("how it was closed");
        assert_eq!(closed.initiator, Initiator::Server);
        assert_eq!(closed.code, ReplyCode::NOT_IMPLEMENTED, "{error}");
        assert_eq!(closed.method, Some(MethodId::BASIC_CONSUME), "{error}");

        let outcomes = soon("outcomes", join_all(confirms)).await;
        no_connection_left(broker, &vhost).await;
        let bodies = drain(&mut raw(broker.address(), &vhost).await, "q").await;
        for (number, outcome) in outcomes.into_iter().enumerate() {
            let times = bodies
                .iter()
                .filter(|body| ***body == *number.to_string().as_bytes())
                .count();
            match outcome {
                Outcome::Acked => {
                    acked_before += 1;
                    assert_eq!(times, 1, "{round}: {number}");
                }
                Outcome::Unknown {
                    reason: UnknownReason::ConnectionClosed { closed: why, .. },
                    ..
                } => {
                    assert_eq!(*why, *closed);
                    assert!(times <= 1, "{round}: {number}");
                }
                other => panic!("{round}: {number}: {other:?}"),
            }
        }
    }
    println!("{acked_before} of 1500 acked before the connection's end");
}
