//! Channels in no mode: calls, deliveries, and publishes of which nobody hears anything but returns.

use std::time::Duration;

use amqp_client::codec::ShortStr;
use amqp_client::error::Error;
use amqp_client::{Channel, Message, Publication, QueueDeclare};
use futures_util::StreamExt as _;

use super::actor::Actor;
use super::{calls, confirms, consuming};
use crate::broker::body;
use crate::explain::Who;
use crate::log::{PublishEnd, Published};

pub(super) async fn run(actor: &mut Actor, channel: Channel, who: Who) {
    let world = actor.world.clone();
    let plan = world.plan.clone();
    let Some(token) = who.token else { return };
    let channel = std::sync::Arc::new(channel);
    let mut tasks = Vec::new();
    if actor.random.chance(500) {
        let alone = actor.random.chance(500);
        let shared = channel.clone();
        let part = actor.part("consumer".to_owned());
        tasks.push(part.spawn(async move |mut actor: Actor| {
            consuming::run(&mut actor, &shared, who, alone).await;
        }));
        if alone {
            for task in tasks {
                let _ = task.await;
            }
            return close(actor, &channel, who).await;
        }
    }
    for number in 0..actor.random.between(1, 3) {
        let shared = channel.clone();
        let part = actor.part(format!("caller {number}"));
        tasks.push(part.spawn(async move |actor| call(actor, &shared, who).await));
    }
    for task in tasks {
        let _ = task.await;
    }
    if !plan.faultless && actor.random.chance(100) {
        absent(actor, &channel, who).await;
    }
    world.note(format_args!("channel {token} is done"));
    close(actor, &channel, who).await;
}

async fn call(mut actor: Actor, channel: &Channel, who: Who) {
    let actor = &mut actor;
    let steps = actor.random.between(1, actor.world.plan.steps);
    for _ in 0..steps {
        actor.pause(10).await;
        match actor.random.between(0, 9) {
            0..=3 => publish(actor, channel, who).await,
            4 => read_return(actor, channel, who).await,
            _ => calls::one(actor, channel, who).await,
        }
    }
}

async fn publish(actor: &mut Actor, channel: &Channel, who: Who) {
    let world = actor.world.clone();
    let Some(token) = who.token else { return };
    let id = world.number();
    let len = actor.random.pick(&[8, 8, 300, 5000]);
    let mut message = Message::new(body(id, len));
    let mandatory = actor.random.chance(300);
    if mandatory {
        message = message.mandatory();
    }
    let publication = Publication {
        exchange: ShortStr::from_static("e"),
        routing_key: ShortStr::from_static(actor.random.pick(&["queue", "nowhere"])),
        message: message.clone(),
    };
    let Publication {
        exchange,
        routing_key,
        ..
    } = publication.clone();
    let publishing = channel.publish(exchange, routing_key, message);
    let what = format!("{}: publish {id} on {token}", who.connection);
    // Outside confirm mode, what is waited for is room in the outgoing buffer.
    let bound = Duration::from_secs(30);
    let end = match actor.risky(what, bound, publishing).await {
        Some(Ok(())) => PublishEnd::Unconfirmed,
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

async fn read_return(actor: &mut Actor, channel: &Channel, who: Who) {
    let patience = actor.random.millis(20);
    let mut returns = channel.returns();
    let what = format!("{}: returns of {:?}", who.connection, who.token);
    if let Some(Some(Ok(returned))) = actor.patient(what, patience, returns.next()).await {
        confirms::returned_unclaimed(actor, &returned, who);
    }
}

/// Asks for what the broker closes the channel for.
async fn absent(actor: &mut Actor, channel: &Channel, who: Who) {
    let world = actor.world.clone();
    let declare = QueueDeclare::new("absent-1").passive();
    let what = format!("{}: declare what is absent", who.connection);
    let bound = world.plan.deadlines.rpc;
    let call = channel.queue_declare(declare);
    match actor.risky(what, bound, call).await {
        Some(Ok(info)) => who.fault(&world, format_args!("another's reply: {info:?}")),
        Some(Err(error)) => who.explain_error(&world, "passive declare", &error),
        None => {}
    }
}

async fn close(actor: &mut Actor, channel: &Channel, who: Who) {
    let world = actor.world.clone();
    let Some(token) = who.token else { return };
    if actor.random.chance(150) {
        // What goes back in the background has the time for it.
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    world.log().closing.insert(token);
    if actor.random.chance(300) {
        // Dropped with its last handle.
        return;
    }
    let bound = world.plan.deadlines.close;
    let what = format!("{}: close channel {token}", who.connection);
    let result: Option<Result<(), Error>> = actor.risky(what, bound, channel.close()).await;
    match result {
        Some(Ok(())) => world.saw("channel closed"),
        Some(Err(error)) => who.explain_error(&world, "close", &error),
        None => {}
    }
}
