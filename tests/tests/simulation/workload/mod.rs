//! What programs do with the client: connections, and on each of them tasks that use channels of every mode at once,
//! drop what they wait for at any moment, and close what others use.

mod actor;
mod calls;
mod confirms;
mod consuming;
mod plain;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use amqp_client::error::UsageError;
use amqp_client::{ConnectOptions, Connection, Event, Limits};
use futures_util::future::join_all;

use self::actor::{Actor, SLACK};
use super::broker::Broker;
use super::explain::Who;
use super::network;
use super::random::Random;
use super::truth::ConnectionTruth;
use super::world::World;

/// Everything that the programs do. Returns when all of them are done.
pub(crate) async fn run(world: Arc<World>) {
    let programs = (0..world.plan.connections).map(|number| {
        let random = Random::of(world.seed, "connection", number);
        let actor = Actor::new(&world, random, format!("program {number}"));
        actor.spawn(program)
    });
    join_all(programs.collect::<Vec<_>>()).await;
}

/// Opens a connection and uses it.
async fn program(mut actor: Actor) {
    for _ in 0..2 {
        actor.pause(20).await;
        if let Some((connection, who)) = open(&mut actor).await {
            use_connection(&mut actor, connection, who).await;
            return;
        }
    }
}

/// The client's side of a new connection, if it comes about.
async fn open(actor: &mut Actor) -> Option<(Connection, Who)> {
    let world = actor.world.clone();
    let number = {
        let mut truth = world.truth();
        truth.connections.push(ConnectionTruth::default());
        truth.connections.len() - 1
    };
    let mut random = Random::of(world.seed, "network", number as u64);
    let (client, server) = network::connect(&world, number, &mut random);
    let broker = Broker::new(world.clone(), number, server, random.fork());
    tokio::spawn(broker.serve());
    let plan = &world.plan;
    let options = ConnectOptions::new()
        .heartbeat(plan.heartbeat)
        .limits(Limits {
            outgoing_bytes: plan.outgoing,
            owed_bytes: 2 * plan.outgoing,
            ..Limits::default()
        })
        .handshake_deadline(plan.deadlines.handshake)
        .rpc_deadline(plan.deadlines.rpc)
        .close_deadline(plan.deadlines.close)
        .confirm_deadline(plan.deadlines.confirm);
    let who = Who::connection(number);
    // The last bytes may take a second.
    let bound = plan.deadlines.handshake + Duration::from_secs(1);
    let opening = Connection::open_over(client, options);
    match actor.risky(format!("{number}: open"), bound, opening).await {
        Some(Ok(connection)) => Some((connection, who)),
        Some(Err(error)) => {
            world.saw("handshake failed");
            who.explain_handshake(&world, &error);
            None
        }
        None => None,
    }
}

async fn use_connection(actor: &mut Actor, connection: Connection, who: Who) {
    let world = actor.world.clone();
    let plan = &world.plan;
    let mut tasks = Vec::new();
    for number in 0..plan.channels {
        let connection = connection.clone();
        let part = actor.part(format!("task {number}"));
        tasks.push(part.spawn(async move |actor| channels(actor, connection, who).await));
    }
    if actor.random.chance(300) {
        let connection = connection.clone();
        let part = actor.part("watcher".to_owned());
        tasks.push(part.spawn(async move |actor| watch(actor, connection).await));
    }
    let closes_early = !plan.faultless && actor.random.chance(150);
    if closes_early {
        let connection = connection.clone();
        let part = actor.part("closer".to_owned());
        tasks.push(part.spawn(async move |mut actor: Actor| {
            actor.pause(600).await;
            close(&mut actor, &connection, who).await;
        }));
    }
    // The watcher watches until the connection is closed, which is for us to do.
    let watcher =
        (tasks.len() as u64 > plan.channels).then(|| tasks.remove(plan.channels as usize));
    for task in tasks {
        let _ = task.await;
    }
    if plan.calm && connection.is_open() {
        no_channel_is_left(actor, &connection, who).await;
    }
    if actor.random.chance(700) {
        close(actor, &connection, who).await;
    }
    world.log().connections_closing.insert(who.connection);
    drop(connection);
    if let Some(watcher) = watcher {
        let _ = watcher.await;
    }
}

async fn close(actor: &mut Actor, connection: &Connection, who: Who) {
    let world = actor.world.clone();
    world.log().connections_closing.insert(who.connection);
    let bound = world.plan.deadlines.close + Duration::from_secs(1) + SLACK;
    let what = format!("{}: close", who.connection);
    let result = match actor.risky(what.clone(), bound, connection.close()).await {
        Some(result) => result,
        // Whether it has begun or not.
        None => actor.wait(what, bound, connection.close()).await,
    };
    match result {
        Ok(()) => world.saw("connection closed"),
        Err(error) => who.explain_error(&world, "close of the connection", &error),
    }
    let what = format!("{}: closed", who.connection);
    let closed = actor.wait(what, bound, connection.closed()).await;
    who.explain(&world, "close of the connection", &closed);
}

/// Reads the events until the last one.
async fn watch(mut actor: Actor, connection: Connection) {
    let mut events = connection.events();
    drop(connection);
    let world = actor.world.clone();
    loop {
        // As long as the connection lasts.
        let next = actor
            .wait("event".to_owned(), Duration::MAX, events.next())
            .await;
        match next {
            Some(Event::Closed(_)) | None => break,
            Some(Event::Blocked(_)) => world.saw("blocked event"),
            Some(_) => {}
        }
    }
    assert!(events.next().await.is_none(), "an event behind the last");
}

/// When nobody uses channels any more, none holds a number, and all can be opened.
async fn no_channel_is_left(actor: &mut Actor, connection: &Connection, who: Who) {
    let world = actor.world.clone();
    for _ in 0..200 {
        if connection.open_channels() == 0 || !connection.is_open() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    if !connection.is_open() {
        return;
    }
    if connection.open_channels() > 0 {
        return world.fault(format_args!(
            "connection {}: {} channels hold a number, and nobody uses them",
            who.connection,
            connection.open_channels()
        ));
    }
    let max = world.plan.channel_max;
    if max > 16 {
        return;
    }
    let opening = join_all((0..max).map(|_| connection.open_channel()));
    let opened = actor
        .wait(
            format!("{}: open all channels", who.connection),
            world.plan.deadlines.rpc,
            opening,
        )
        .await;
    let mut kept = Vec::new();
    for channel in opened {
        match channel {
            Ok(channel) => kept.push(channel),
            Err(error) => who.explain_error(&world, "opening all channels", &error),
        }
    }
    if !world.plan.faultless {
        // Some of them are closed again by now.
        return;
    }
    let above = connection.open_channel().await;
    let source = above.as_ref().err().and_then(std::error::Error::source);
    let usage = source.and_then(|source| source.downcast_ref());
    if !matches!(usage, Some(UsageError::TooManyChannels { .. })) {
        world.fault(format_args!(
            "connection {}: one channel too many: {above:?}",
            who.connection
        ));
    }
    world.saw("all channels opened");
}

/// One channel after the other, until the steps are done.
async fn channels(mut actor: Actor, connection: Connection, who: Who) {
    let rounds = actor.random.between(1, 3);
    for _ in 0..rounds {
        actor.pause(30).await;
        if !connection.is_open() {
            break;
        }
        let opening = connection.open_channel();
        let what = format!("{}: open channel", who.connection);
        let channel = match actor
            .risky(what, actor.world.plan.deadlines.rpc, opening)
            .await
        {
            Some(Ok(channel)) => channel,
            Some(Err(error)) => {
                who.explain_error(&actor.world, "opening a channel", &error);
                continue;
            }
            None => continue,
        };
        let Some(who) = calls::introduce(&mut actor, &channel, who).await else {
            // Dropped with the channel's only handle.
            continue;
        };
        match actor.random.between(0, 9) {
            0..=5 => confirms::run(&mut actor, channel, who).await,
            6..=7 => plain::run(&mut actor, channel, who).await,
            _ => transactions::run(&mut actor, channel, who).await,
        }
    }
}
