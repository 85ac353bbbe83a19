//! Channels in transaction mode: what was committed is in effect, what was not is not.

use std::time::Duration;

use amqp_client::codec::ShortStr;
use amqp_client::error::{CommitError, UsageError};
use amqp_client::proto::Settle;
use amqp_client::{Acker, Channel, Message, Publication, Returned, TxChannel};
use tokio::task::JoinHandle;

use super::actor::Actor;
use super::{calls, confirms};
use crate::broker::{body, finds_no_queue, number_of};
use crate::explain::Who;
use crate::log::{PublishEnd, Published, Transacted, TxEnd};

pub(super) async fn run(actor: &mut Actor, channel: Channel, who: Who) {
    let world = actor.world.clone();
    let plan = world.plan.clone();
    let Some(token) = who.token else { return };
    let what = format!("{}: tx.select on {token}", who.connection);
    let mut channel = match actor
        .risky(what, plan.deadlines.rpc, channel.tx_select())
        .await
    {
        Some(Ok(channel)) => channel,
        Some(Err(error)) => return who.explain_error(&world, "tx.select", &error),
        None => return,
    };
    for _ in 0..actor.random.between(1, 3) {
        if !transaction(actor, &mut channel, who).await {
            break;
        }
    }
    world.log().closing.insert(token);
    let what = format!("{}: close channel {token}", who.connection);
    if actor.random.chance(600)
        && let Some(Err(error)) = actor
            .risky(what, plan.deadlines.close, channel.close())
            .await
    {
        who.explain_error(&world, "close", &error);
    }
}

/// One transaction; whether others may follow.
async fn transaction(actor: &mut Actor, channel: &mut TxChannel, who: Who) -> bool {
    let world = actor.world.clone();
    let Some(token) = who.token else { return false };
    let (mut ids, mut unroutable) = (Vec::new(), Vec::new());
    let mut ackers = Vec::new();
    for _ in 0..actor.random.between(0, 5) {
        actor.pause(10).await;
        match actor.random.between(0, 9) {
            0 | 1 => {
                calls::one(actor, channel, who).await;
                continue;
            }
            2 | 3 => {
                let acker = get(actor, channel, who).await;
                // It is a part of the transaction.
                ackers.extend(acker.filter(|acker| ack(actor, acker, who)));
                continue;
            }
            _ => {}
        }
        let id = world.number();
        let mut message = Message::new(body(id, actor.random.pick(&[8, 300, 5000])));
        let mut routing_key = "queue";
        let mandatory = actor.random.chance(300);
        if mandatory {
            message = message.mandatory();
            routing_key = "nowhere";
        }
        let publication = Publication {
            exchange: ShortStr::from_static("e"),
            routing_key: ShortStr::from_static(routing_key),
            message: message.clone(),
        };
        let what = format!("{}: publish {id} on {token}", who.connection);
        let publishing = channel.publish("e", routing_key, message);
        let bound = Duration::from_secs(30);
        let end = match actor.risky(what, bound, publishing).await {
            Some(Ok(())) => {
                ids.push(id);
                if mandatory && finds_no_queue(routing_key.as_bytes(), Some(id)) {
                    unroutable.push(id);
                }
                PublishEnd::Unconfirmed
            }
            Some(Err(error)) => {
                confirms::not_sent(actor, &error, &publication, who);
                PublishEnd::NotSent
            }
            None => PublishEnd::NotSent,
        };
        world.log().publishes.push(Published {
            connection: who.connection,
            token,
            id: Some(id),
            end,
        });
    }
    let late = late_ack(actor, channel, who).await;
    let bound = world.plan.deadlines.rpc;
    let end = if actor.random.chance(700) {
        let what = format!("{}: commit on {token}", who.connection);
        match actor.risky(what, bound, channel.commit()).await {
            Some(Ok(committed)) => {
                world.saw("committed");
                TxEnd::Committed {
                    returned: numbers(actor, who, &committed.returned),
                }
            }
            Some(Err(CommitError::NotCommitted(error))) => {
                who.explain_usage(&world, "commit", &error);
                TxEnd::NotCommitted
            }
            Some(Err(CommitError::Refused(closed))) => {
                who.explain(&world, "commit", &closed);
                TxEnd::NotCommitted
            }
            Some(Err(CommitError::Unknown(_))) => TxEnd::Unknown,
            Some(Err(error)) => {
                who.fault(&world, format_args!("commit: {error}"));
                TxEnd::Unknown
            }
            None => {
                // Dropped once it was sent, it closes the channel.
                world.log().closing.insert(token);
                TxEnd::Unknown
            }
        }
    } else {
        let what = format!("{}: rollback on {token}", who.connection);
        match actor.risky(what, bound, channel.rollback()).await {
            Some(Ok(returned)) => {
                world.saw("rolled back");
                TxEnd::RolledBack {
                    returned: numbers(actor, who, &returned),
                }
            }
            Some(Err(error)) => {
                who.explain_error(&world, "rollback", &error);
                TxEnd::NotCommitted
            }
            None => {
                world.log().closing.insert(token);
                TxEnd::NotCommitted
            }
        }
    };
    for acker in ackers {
        check_acker(actor, &acker, &end, who);
    }
    let goes_on = matches!(end, TxEnd::Committed { .. } | TxEnd::RolledBack { .. });
    if let Some((tag, task)) = late {
        let _ = task.await;
        if !goes_on {
            world.log().held_for_ever.insert((token, tag));
        }
    }
    world.log().transactions.push(Transacted {
        token,
        ids,
        unroutable,
        end,
    });
    goes_on
}

/// Somebody who acks a message while a commit or rollback waits for its answer: the ack must wait too. Its tag, and the
/// task.
async fn late_ack(
    actor: &mut Actor,
    channel: &TxChannel,
    who: Who,
) -> Option<(u64, JoinHandle<()>)> {
    if !actor.random.chance(300) {
        return None;
    }
    let acker = get(actor, channel, who).await?;
    let tag = acker.tag().number();
    let part = actor.part("late acker".to_owned());
    let task = part.spawn(async move |mut actor: Actor| {
        actor.pause(8).await;
        ack(&actor, &acker, who);
    });
    Some((tag, task))
}

/// Gets a message.
async fn get(actor: &mut Actor, channel: &TxChannel, who: Who) -> Option<Acker> {
    let world = actor.world.clone();
    // Of a queue that is not empty.
    let number = world.number() * 3 + 1;
    let what = format!("{}: get {number} on {:?}", who.connection, who.token);
    let bound = world.plan.deadlines.rpc;
    let call = channel.get(format!("queue-{number}"), false);
    match actor.risky(what, bound, call).await? {
        Ok(Some(got)) => Some(got.delivery.acker()),
        Ok(None) => {
            who.fault(&world, format_args!("another's reply to get {number}"));
            None
        }
        Err(error) => {
            who.explain_error(&world, "get", &error);
            None
        }
    }
}

fn ack(actor: &Actor, acker: &Acker, who: Who) -> bool {
    let world = &actor.world;
    match acker.ack() {
        Ok(()) => {
            let token = who.token.unwrap_or_default();
            let tag = acker.tag().number();
            world.log().settled.insert((token, tag), Settle::Ack);
            true
        }
        Err(error) => {
            who.explain_usage(world, "ack", &error);
            false
        }
    }
}

/// What was acked is so after a commit, and is not after a rollback.
fn check_acker(actor: &Actor, acker: &Acker, end: &TxEnd, who: Who) {
    match end {
        TxEnd::RolledBack { .. } => {
            ack(actor, acker, who);
        }
        TxEnd::Committed { .. } => match acker.ack() {
            Err(UsageError::UnknownDeliveryTag(_)) => {}
            Err(error) => who.explain_usage(&actor.world, "ack", &error),
            Ok(()) => who.fault(
                &actor.world,
                format_args!("what was acked and committed can be acked again"),
            ),
        },
        TxEnd::NotCommitted | TxEnd::Unknown => {}
    }
}

fn numbers(actor: &Actor, who: Who, returned: &[Returned]) -> Vec<u64> {
    let bodies = returned
        .iter()
        .map(|returned| number_of(returned.publication.message.body()));
    let numbers: Result<Vec<u64>, String> = bodies.collect();
    numbers.unwrap_or_else(|error| {
        who.fault(&actor.world, format_args!("a return: {error}"));
        Vec::new()
    })
}
