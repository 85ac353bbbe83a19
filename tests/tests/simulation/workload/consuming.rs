//! Consumers that ack, nack and reject what they get, and give up at some time.

use std::time::Duration;

use amqp_client::error::UsageError;
use amqp_client::proto::Settle;
use amqp_client::{Consume, Consumer, Delivery, Methods, Overflow};

use super::actor::Actor;
use crate::broker::number_of;
use crate::explain::Who;
use crate::log::Received;

/// Within this, all that is under way arrives in a calm simulation.
const LONG_AGO: Duration = Duration::from_secs(4);

/// Consumes for a while. `alone`: nobody else gets deliveries on the channel, so that `multiple` hits nobody.
pub(super) async fn run(actor: &mut Actor, channel: &Methods, who: Who, alone: bool) {
    let world = actor.world.clone();
    let Some(token) = who.token else { return };
    let bound = world.plan.deadlines.rpc;
    if actor.random.chance(500) {
        let prefetch = actor.random.pick(&[1, 2, 5]);
        let what = format!("{}: qos on {token}", who.connection);
        if let Some(Err(error)) = actor.risky(what, bound, channel.qos(prefetch, false)).await {
            return who.explain_error(&world, "qos", &error);
        }
    }
    let no_ack = actor.random.chance(200);
    let mut consume = Consume::new("queue");
    if actor.random.chance(700) {
        consume = consume.tag(format!("c-{}", world.number()));
    }
    if no_ack {
        consume = consume.no_ack();
    }
    match actor.random.between(0, 9) {
        0 => {
            world.log().overflowing.insert(token);
            consume = consume.budget(2000, Overflow::CloseChannel);
        }
        1 | 2 => consume = consume.budget(500, Overflow::StallConnection),
        _ => {}
    }
    let what = format!("{}: consume on {token}", who.connection);
    let consumer = match actor.risky(what, bound, channel.consume(consume)).await {
        Some(Ok(consumer)) => consumer,
        Some(Err(error)) => return who.explain_error(&world, "consume", &error),
        None => return,
    };
    read(actor, consumer, who, no_ack, alone).await;
}

async fn read(actor: &mut Actor, mut consumer: Consumer, who: Who, no_ack: bool, alone: bool) {
    let world = actor.world.clone();
    let patience = Duration::from_millis(actor.random.pick(&[0, 50, 400, 8000]));
    let most = actor.random.between(0, 30);
    let what = format!("{}: delivery to {}", who.connection, consumer.tag());
    for _ in 0..most {
        let next = actor.patient(what.clone(), patience, consumer.next());
        let Some(next) = next.await else {
            all_came(actor, &consumer, who);
            break;
        };
        if !take(actor, &consumer, next, who, no_ack, alone) {
            return;
        }
        // A slow one makes the others wait, or is given more than it keeps.
        if actor.random.chance(200) {
            tokio::time::sleep(actor.random.millis(30)).await;
        }
    }
    let what = format!("{}: cancel {}", who.connection, consumer.tag());
    match actor.random.between(0, 3) {
        0 => {
            let bound = world.plan.deadlines.rpc;
            match actor.risky(what.clone(), bound, consumer.cancel()).await {
                Some(Ok(())) => world.saw("consumer cancelled"),
                Some(Err(error)) => return who.explain_error(&world, "cancel", &error),
                // It is cancelled all the same, if it was polled.
                None => return,
            }
        }
        1 => {
            if let Err(error) = consumer.cancel_no_wait() {
                return who.explain_usage(&world, "cancel", &error);
            }
        }
        _ => return,
    }
    // What has come is there, and then the end is. A broker that forgets requests cancels nothing.
    let bound = match world.plan.calm {
        true => Duration::from_secs(20),
        false => world.plan.deadlines.rpc,
    };
    loop {
        let next = actor.patient(what.clone(), bound, consumer.next());
        let Some(next) = next.await else {
            if world.plan.calm {
                who.fault(&world, format_args!("a cancelled consumer does not end"));
            }
            return;
        };
        if !take(actor, &consumer, next, who, no_ack, alone) {
            return;
        }
    }
}

/// Nothing has come for a while: what the broker sent long ago has come before.
fn all_came(actor: &Actor, consumer: &Consumer, who: Who) {
    let world = &actor.world;
    let Some(token) = who.token else { return };
    if !world.plan.calm {
        return;
    }
    let tag = consumer.tag().to_string_lossy().into_owned();
    let truth = world.truth();
    let sent = truth.channel(token).into_iter();
    let sent = sent.flat_map(|channel| channel.deliveries.values());
    let long_ago = sent.filter(|sent| sent.consumer == tag && sent.at.elapsed() > LONG_AGO);
    let (long_ago, broken) = (long_ago.count(), truth.connections[who.connection].broken);
    drop(truth);
    let received = world
        .log()
        .received
        .get(&(token, tag.clone()))
        .map_or(0, Vec::len);
    if long_ago > received && !broken {
        who.fault(
            world,
            format_args!(
                "{long_ago} messages were sent to {tag} long ago, and {received} have come"
            ),
        );
    }
}

/// Looks at a delivery and settles it. Whether others may follow.
fn take(
    actor: &mut Actor,
    consumer: &Consumer,
    next: Option<Result<Delivery, amqp_client::ConsumerError>>,
    who: Who,
    no_ack: bool,
    alone: bool,
) -> bool {
    let world = actor.world.clone();
    let Some(token) = who.token else { return false };
    let delivery = match next {
        None => return false,
        Some(Err(error)) => {
            who.explain(&world, "consumer", &error.0);
            return false;
        }
        Some(Ok(delivery)) => delivery,
    };
    let tag = delivery.tag().number();
    match number_of(delivery.body()) {
        Ok(id) => {
            let received = Received {
                tag,
                id,
                redelivered: delivery.redelivered(),
            };
            let consumer = consumer.tag().to_string_lossy().into_owned();
            world
                .log()
                .received
                .entry((token, consumer))
                .or_default()
                .push(received);
        }
        Err(error) => who.fault(&world, format_args!("delivery {tag}: {error}")),
    }
    world.saw("delivery");
    if no_ack {
        match delivery.ack() {
            Err(UsageError::UnknownDeliveryTag(_)) => {}
            Err(error) => who.explain_usage(&world, "ack of what needs none", &error),
            Ok(()) => who.fault(
                &world,
                format_args!("delivery {tag} needs no ack, and was acked"),
            ),
        }
        return true;
    }
    settle(actor, who, &delivery, tag, alone);
    true
}

/// Acks, nacks or rejects, or leaves it to the end of the channel.
pub(super) fn settle(actor: &mut Actor, who: Who, delivery: &Delivery, tag: u64, alone: bool) {
    let world = actor.world.clone();
    let Some(token) = who.token else { return };
    let (how, multiple) = match actor.random.between(0, 9) {
        0..=3 => (Settle::Ack, false),
        4 if alone => (Settle::Ack, true),
        5 if alone => (Settle::Nack { requeue: false }, true),
        4..=6 => (Settle::Nack { requeue: true }, false),
        7 => (Settle::Reject { requeue: false }, false),
        8 => (Settle::Reject { requeue: true }, false),
        _ => return,
    };
    let settled = match (how, multiple) {
        (Settle::Ack, false) => delivery.ack(),
        (Settle::Ack, true) => delivery.ack_multiple(),
        (Settle::Nack { requeue }, false) => delivery.nack(requeue),
        (Settle::Nack { requeue }, true) => delivery.nack_multiple(requeue),
        (Settle::Reject { requeue }, _) => delivery.reject(requeue),
    };
    match settled {
        Ok(()) => {
            let mut log = world.log();
            let before = log.settled.insert((token, tag), how);
            if multiple {
                // Those that were left open before.
                log.settled_through
                    .entry(token)
                    .or_default()
                    .push((tag, how));
            }
            drop(log);
            if before.is_some() {
                who.fault(&world, format_args!("delivery {tag} was settled twice"));
            }
            let again = delivery.ack();
            if !matches!(
                again,
                Err(UsageError::UnknownDeliveryTag(_)
                    | UsageError::ChannelClosed(_)
                    | UsageError::ConnectionClosed(_)
                    | UsageError::NoChannel)
            ) {
                who.fault(
                    &world,
                    format_args!("delivery {tag} can be settled again: {again:?}"),
                );
            }
        }
        Err(error) => who.explain_usage(&world, "ack", &error),
    }
}
