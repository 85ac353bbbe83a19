//! Publishing on a channel in confirm mode, from several tasks at once.

use std::time::Duration;

use amqp_client::codec::ShortStr;
use amqp_client::error::{CloseCause, NotSent, PublishError};
use amqp_client::{
    Channel, Confirm, ConfirmChannel, ConfirmOptions, Counts, Match, Message, Outcome, Publication,
    Returned, UnknownReason,
};
use futures_util::{FutureExt as _, StreamExt as _};

use super::actor::Actor;
use super::{calls, consuming};
use crate::broker::body;
use crate::explain::Who;
use crate::log::{ConfirmEnd, PublishEnd, Published};

/// A publish whose outcome is waited for.
struct Pending {
    confirm: Confirm,
    publication: Publication,
    id: Option<u64>,
}

/// What bounds a channel.
#[derive(Clone, Copy)]
struct Bounds {
    in_flight: usize,
    bytes: usize,
    tagged: bool,
    /// Nobody waits for what is open when the publishers are done.
    careless: bool,
}

/// Uses the channel in confirm mode until it is closed.
pub(super) async fn run(actor: &mut Actor, channel: Channel, who: Who) {
    let world = actor.world.clone();
    let plan = world.plan.clone();
    let Some(token) = who.token else { return };
    let bounds = Bounds {
        in_flight: actor.random.pick(&[1, 1, 2, 5, 1000]),
        bytes: actor.random.pick(&[100, 20_000, 64 << 20]),
        tagged: actor.random.chance(200),
        careless: actor.random.chance(200),
    };
    let hasty = actor.random.chance(100);
    let most = (bounds.in_flight, bounds.bytes);
    world.log().bounds.insert(token, most);
    let options = ConfirmOptions::default()
        .max_in_flight(bounds.in_flight)
        .max_bytes(bounds.bytes)
        .timeout(plan.deadlines.confirm)
        .wait(plan.deadlines.wait)
        .tag_returns(bounds.tagged);
    let select = channel.confirm_select_with(options);
    let what = format!("{}: confirm.select on {token}", who.connection);
    let channel = match actor.risky(what, plan.deadlines.rpc, select).await {
        Some(Ok(channel)) => channel,
        Some(Err(error)) => return who.explain_error(&world, "confirm.select", &error),
        None => return,
    };
    let mut tasks = Vec::new();
    for number in 0..actor.random.pick(&[1, 2, 3, 5]) {
        let part = actor.part(format!("publisher {number}"));
        let channel = channel.clone();
        tasks.push(part.spawn(async move |actor| publish(actor, channel, who, bounds).await));
    }
    if actor.random.chance(250) {
        let part = actor.part("consumer".to_owned());
        let channel = channel.clone();
        tasks.push(part.spawn(async move |mut actor: Actor| {
            consuming::run(&mut actor, &channel, who, false).await;
        }));
    }
    let reader = actor.random.chance(400).then(|| {
        let part = actor.part("reader of returns".to_owned());
        let returns = channel.returns();
        part.spawn(async move |actor| read_returns(actor, returns, who).await)
    });
    if hasty {
        // The others are still at it.
        actor.pause(60).await;
        close(actor, &channel, who).await;
    }
    for task in tasks {
        let _ = task.await;
    }
    if !hasty && !bounds.careless {
        all_settled(actor, &channel, who).await;
        read_all_returns(actor, &channel, who);
    }
    if !hasty {
        close(actor, &channel, who).await;
    }
    drop(channel);
    if let Some(reader) = reader {
        // It holds the channel; what became of that is known.
        let _ = reader.await;
    }
}

/// Waits for what is left.
async fn all_settled(actor: &mut Actor, channel: &ConfirmChannel, who: Who) {
    let world = actor.world.clone();
    let plan = world.plan.clone();
    let Some(token) = who.token else { return };
    let deadline = plan.deadlines.confirm + Duration::from_secs(1);
    let what = format!("{}: wait for confirms on {token}", who.connection);
    let settled = actor
        .wait(what, deadline, channel.wait_for_confirms(deadline))
        .await;
    if let Err(error) = settled {
        // Each is settled by its confirm, by its timeout or by the end of the channel.
        who.fault(&world, format_args!("wait for confirms: {error}"));
    }
    let status = channel.status();
    world.log().counts.insert(token, status.counts);
    if channel.closed().is_none() && status.counts.settled() != status.last {
        who.fault(
            &world,
            format_args!("all publishes are settled, and yet: {status:?}"),
        );
    }
    // What timed out keeps its place until its confirm comes.
    let Counts {
        unknown, returned, ..
    } = status.counts;
    let late = if plan.calm { 0 } else { unknown + returned };
    if channel.closed().is_none() && (status.in_flight as u64 > late || status.bytes_in_flight > 0)
    {
        who.fault(
            &world,
            format_args!("all publishes are settled, and something is in flight: {status:?}"),
        );
    }
}

/// When all is settled, what came back and belongs to no confirm is there.
fn read_all_returns(actor: &Actor, channel: &ConfirmChannel, who: Who) {
    let world = &actor.world;
    let Some(token) = who.token else { return };
    // What has timed out may come back later.
    if channel.closed().is_some() || !world.plan.calm {
        return;
    }
    let mut returns = channel.returns();
    while let Some(Some(next)) = returns.next().now_or_never() {
        match next {
            Ok(returned) => returned_unclaimed(actor, &returned, who),
            Err(missed) => who.fault(world, format_args!("{missed}")),
        }
    }
    world.log().returns_read.insert(token);
}

/// Closes the channel in one way or another, or leaves that to the drop of its last handle.
async fn close(actor: &mut Actor, channel: &ConfirmChannel, who: Who) {
    let world = actor.world.clone();
    let plan = &world.plan;
    let Some(token) = who.token else { return };
    world.log().closing.insert(token);
    let what = format!("{}: close channel {token}", who.connection);
    match actor.random.between(0, 3) {
        0 | 1 => {
            let bound = plan.deadlines.close;
            match actor.risky(what, bound, channel.close()).await {
                Some(Ok(())) => world.saw("channel closed"),
                Some(Err(error)) => who.explain_error(&world, "close", &error),
                None => {}
            }
        }
        2 => {
            let code = amqp_client::codec::ReplyCode::REPLY_SUCCESS;
            let closing = channel.close_with(code, "enough");
            if let Some(Err(error)) = actor.risky(what, plan.deadlines.close, closing).await {
                who.explain_error(&world, "close", &error);
            }
        }
        _ => {}
    }
}

async fn read_returns(mut actor: Actor, mut returns: amqp_client::Returns, who: Who) {
    let world = actor.world.clone();
    let Some(token) = who.token else { return };
    // Its handle would keep the channel open.
    for _ in 0..actor.random.between(1, 5) {
        let patience = actor.random.millis(1000);
        let what = format!("{}: returns of {token}", who.connection);
        match actor.patient(what, patience, returns.next()).await {
            Some(Some(Ok(returned))) => returned_unclaimed(&actor, &returned, who),
            Some(Some(Err(missed))) => who.fault(&world, format_args!("{missed}")),
            Some(None) => return,
            None => {}
        }
    }
}

/// A message came back that no confirm is about.
pub(super) fn returned_unclaimed(actor: &Actor, returned: &Returned, who: Who) {
    let world = &actor.world;
    let Some(token) = who.token else { return };
    world.saw("return without a confirm");
    let body = returned.publication.message.body();
    if body.is_empty() {
        return;
    }
    match crate::broker::number_of(body) {
        Ok(id) => world.log().returns.entry(token).or_default().push(id),
        Err(error) => who.fault(world, format_args!("a return: {error}")),
    }
}

/// One task of several that publish on the channel.
async fn publish(mut actor: Actor, channel: ConfirmChannel, who: Who, bounds: Bounds) {
    let actor = &mut actor;
    let world = actor.world.clone();
    let plan = world.plan.clone();
    let mut pending: Vec<Pending> = Vec::new();
    let mut last: Option<(Publication, Option<u64>)> = None;
    let steps = actor.random.between(1, plan.steps);
    for _ in 0..steps {
        actor.pause(10).await;
        match actor.random.between(0, 19) {
            // The same once more, or anew.
            0..=13 => {
                let (publication, id) = match last.take() {
                    Some((mut same, id)) if actor.random.chance(200) => {
                        if actor.random.chance(300) {
                            // To where it was not sent before, perhaps.
                            same.routing_key = route(actor);
                        }
                        (same, id)
                    }
                    _ => new_message(actor),
                };
                last = Some((publication.clone(), id));
                let sent = send(actor, &channel, who, publication, id).await;
                check_bounds(&channel, who, bounds, actor);
                pending.extend(sent);
            }
            14 => calls::one(actor, &channel, who).await,
            15 => wait_for_confirms(actor, &channel, who, &mut pending).await,
            16 => {
                // Settles them in another order than they were published in.
                while let Some(one) = pending.pop() {
                    settle(actor, one, who).await;
                }
            }
            17 => {
                let kept = pending.split_off(pending.len() / 2);
                for one in std::mem::replace(&mut pending, kept) {
                    dropped(actor, one, who);
                }
            }
            18 if !plan.faultless && actor.random.chance(200) => {
                // The broker closes the channel for it.
                let (publication, id) = new_message(actor);
                let publication = Publication {
                    exchange: ShortStr::from_static("missing"),
                    ..publication
                };
                let sent = send(actor, &channel, who, publication, id).await;
                pending.extend(sent);
            }
            _ => {}
        }
    }
    for one in pending {
        match bounds.careless {
            true => dropped(actor, one, who),
            false => settle(actor, one, who).await,
        }
    }
}

fn new_message(actor: &mut Actor) -> (Publication, Option<u64>) {
    let id = actor.world.number();
    let len = match actor.random.between(0, 19) {
        0 => 0,
        1 => 40_000,
        2..=4 => 5000,
        5..=9 => 300,
        _ => 8,
    };
    let mut message = Message::new(if len == 0 { Vec::new() } else { body(id, len) });
    match actor.random.between(0, 5) {
        0 => message = message.message_id(format!("m-{id}")).content_type("x/y"),
        1 => message = message.header("number", id as i64).persistent(),
        _ => {}
    }
    let mut routing_key = ShortStr::from_static("queue");
    if actor.random.chance(350) {
        message = message.mandatory();
        routing_key = route(actor);
    }
    let publication = Publication {
        exchange: ShortStr::from_static("e"),
        routing_key,
        message,
    };
    (publication, (len > 0).then_some(id))
}

/// To a queue, or more often to none.
fn route(actor: &mut Actor) -> ShortStr<'static> {
    ShortStr::from_static(match actor.random.chance(700) {
        true => "nowhere",
        false => "queue",
    })
}

/// Publishes one way or another.
async fn send(
    actor: &mut Actor,
    channel: &ConfirmChannel,
    who: Who,
    publication: Publication,
    id: Option<u64>,
) -> Option<Pending> {
    let world = actor.world.clone();
    let what = format!("{}: publish {:?} on {:?}", who.connection, id, who.token);
    let copy = publication.clone();
    let result = if actor.random.chance(200) {
        let Publication {
            exchange,
            routing_key,
            message,
        } = publication;
        let channel = channel.clone();
        let publish = move || channel.try_publish(exchange, routing_key, message);
        match actor.random.chance(500) {
            true => {
                let what = format!("{what}, meanwhile");
                actor.meanwhile(who.connection, what, publish).await
            }
            false => {
                world.note(format_args!("{what}, without waiting"));
                Some(publish())
            }
        }
    } else {
        let publishing = channel.publish_again(publication);
        actor
            .risky(what, world.plan.deadlines.wait, publishing)
            .await
    };
    match result {
        Some(Ok(confirm)) => Some(Pending {
            confirm,
            publication: copy,
            id,
        }),
        Some(Err(error)) => {
            not_sent(actor, &error, &copy, who);
            record(actor, who, id, PublishEnd::NotSent);
            None
        }
        None => {
            record(actor, who, id, PublishEnd::NotSent);
            None
        }
    }
}

/// Why a publish was not sent.
pub(super) fn not_sent(actor: &Actor, error: &PublishError, publication: &Publication, who: Who) {
    let world = &actor.world;
    if *error.publication != *publication {
        who.fault(world, format_args!("another message came back: {error:?}"));
    }
    match &error.reason {
        NotSent::Full => world.saw("not sent: full"),
        NotSent::Blocked => world.saw("not sent: blocked"),
        NotSent::Usage(error) => who.explain_usage(world, "publish", error),
        reason => who.fault(world, format_args!("publish: {reason}")),
    }
}

fn record(actor: &Actor, who: Who, id: Option<u64>, end: PublishEnd) {
    let Some(token) = who.token else { return };
    actor.world.log().publishes.push(Published {
        connection: who.connection,
        token,
        id,
        end,
    });
}

/// What the channel has in flight keeps within its bounds.
fn check_bounds(channel: &ConfirmChannel, who: Who, bounds: Bounds, actor: &Actor) {
    let status = channel.status();
    // One message larger than the bound goes alone.
    let bytes = bounds.bytes.max(40_000);
    if status.in_flight > bounds.in_flight || status.bytes_in_flight > bytes {
        who.fault(
            &actor.world,
            format_args!("more is in flight than may be: {status:?}"),
        );
    }
}

async fn wait_for_confirms(
    actor: &mut Actor,
    channel: &ConfirmChannel,
    who: Who,
    pending: &mut Vec<Pending>,
) {
    let world = actor.world.clone();
    let deadline = match actor.random.chance(300) {
        true => actor.random.millis(100),
        false => world.plan.deadlines.confirm + Duration::from_secs(1),
    };
    let what = format!("{}: confirms on {:?}", who.connection, who.token);
    let waiting = channel.wait_for_confirms(deadline);
    match actor.risky(what, deadline, waiting).await {
        Some(Ok(_)) => {
            world.saw("waited for confirms");
            // Mine were published before.
            for mut one in pending.drain(..) {
                match (&mut one.confirm).now_or_never() {
                    Some(outcome) => settled(actor, one, outcome, who),
                    None => {
                        let seq = one.confirm.sequence_number();
                        who.fault(
                            &world,
                            format_args!("publish {seq} is open after the wait for confirms"),
                        );
                    }
                }
            }
        }
        Some(Err(error)) if deadline < world.plan.deadlines.confirm => {
            world.saw("confirms not in time");
            let _ = error;
        }
        Some(Err(error)) => who.fault(&world, format_args!("wait for confirms: {error}")),
        None => {}
    }
}

/// Awaits an outcome.
async fn settle(actor: &mut Actor, mut one: Pending, who: Who) {
    let bound = actor.world.plan.deadlines.confirm;
    let seq = one.confirm.sequence_number();
    let what = format!("{}: outcome of {seq} on {:?}", who.connection, who.token);
    match actor.risky(what, bound, &mut one.confirm).await {
        Some(outcome) => settled(actor, one, outcome, who),
        None => dropped(actor, one, who),
    }
}

fn dropped(actor: &Actor, one: Pending, who: Who) {
    let seq = one.confirm.sequence_number();
    let end = ConfirmEnd::Dropped;
    record(actor, who, one.id, PublishEnd::Confirmed { seq, end });
}

fn settled(actor: &Actor, one: Pending, outcome: Outcome, who: Who) {
    let world = &actor.world;
    let seq = one.confirm.sequence_number();
    world.note(format_args!(
        "{}: outcome of {seq} on {:?}: {}",
        who.connection,
        who.token,
        word(&outcome)
    ));
    world.saw(word(&outcome));
    let end = match &outcome {
        Outcome::Acked => ConfirmEnd::Acked,
        Outcome::Nacked(_) => ConfirmEnd::Nacked,
        Outcome::Returned(returned) => {
            if let Match::None = returned.matched {
                who.fault(world, format_args!("publish {seq} was returned by no rule"));
            }
            ConfirmEnd::Returned(returned.followed)
        }
        Outcome::Unknown { reason, .. } => match reason {
            UnknownReason::TimedOut => {
                if world.plan.calm {
                    who.fault(world, format_args!("publish {seq} timed out"));
                }
                ConfirmEnd::TimedOut
            }
            UnknownReason::ChannelClosed(closed) => {
                who.explain(world, "outcome", closed);
                ConfirmEnd::Unknown { written: true }
            }
            UnknownReason::ConnectionClosed { closed, written } => {
                if let Some(CloseCause::Abandoned) = closed.cause {
                    who.fault(world, format_args!("the connection's task has died"));
                }
                who.explain(world, "outcome", closed);
                ConfirmEnd::Unknown { written: *written }
            }
        },
    };
    if let Some(publication) = outcome.into_publication()
        && publication != one.publication
    {
        who.fault(
            world,
            format_args!("publish {seq}: another message came back: {publication:?}"),
        );
    }
    record(actor, who, one.id, PublishEnd::Confirmed { seq, end });
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Acked => "acked",
        Outcome::Nacked(_) => "nacked",
        Outcome::Returned(_) => "returned",
        Outcome::Unknown {
            reason: UnknownReason::TimedOut,
            ..
        } => "unknown: timed out",
        Outcome::Unknown {
            reason: UnknownReason::ChannelClosed(_),
            ..
        } => "unknown: channel closed",
        Outcome::Unknown {
            reason: UnknownReason::ConnectionClosed { written: true, .. },
            ..
        } => "unknown: connection closed",
        Outcome::Unknown {
            reason: UnknownReason::ConnectionClosed { written: false, .. },
            ..
        } => "unknown: connection closed, unwritten",
    }
}
