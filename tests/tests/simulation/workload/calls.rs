//! Synchronous methods, whose answers say whom they are for.

use amqp_client::codec::{ShortStr, Table};
use amqp_client::error::Error;
use amqp_client::{ExchangeDeclare, ExchangeKind, Methods, QueueDeclare, QueueDelete};

use super::actor::Actor;
use crate::broker::number_of;
use crate::explain::Who;

fn name(kind: &str, number: u64) -> ShortStr<'static> {
    ShortStr::try_from(format!("{kind}-{number}")).unwrap()
}

/// Tells the broker which channel this is. `None` if the channel is not open any more.
pub(super) async fn introduce(actor: &mut Actor, channel: &Methods, who: Who) -> Option<Who> {
    let token = actor.world.number();
    let who = who.channel(token);
    let declare = QueueDeclare::new(name("channel", token));
    let what = format!("{}: introduce {token}", who.connection);
    let bound = actor.world.plan.deadlines.rpc;
    match actor
        .wait(what, bound, channel.queue_declare(declare))
        .await
    {
        Ok(info) => {
            if info.name != name("channel", token) || u64::from(info.message_count) != token {
                who.fault(&actor.world, format_args!("another's reply: {info:?}"));
            }
            Some(who)
        }
        Err(error) => {
            who.explain_error(&actor.world, "introducing", &error);
            None
        }
    }
}

/// One call, dropped or not.
pub(super) async fn one(actor: &mut Actor, channel: &Methods, who: Who) {
    let world = actor.world.clone();
    let number = world.number();
    let bound = world.plan.deadlines.rpc;
    let what = |kind: &str| format!("{}: {kind} {number} on {:?}", who.connection, who.token);
    let expect = |what: &str, got: u32| {
        if u64::from(got) != number {
            who.fault(
                &world,
                format_args!("another's reply to {what} {number}: {got}"),
            );
        }
    };
    let fail = |what: &str, error: &Error| who.explain_error(&world, what, error);
    match actor.random.between(0, 7) {
        0 => {
            let asked = name("queue", number);
            let call = channel.queue_declare(QueueDeclare::new(asked.clone()));
            match actor.risky(what("declare"), bound, call).await {
                Some(Ok(info)) => {
                    expect("declare", info.message_count);
                    if info.name != asked {
                        who.fault(&world, format_args!("{asked} was declared as {info:?}"));
                    }
                }
                Some(Err(error)) => fail("declare", &error),
                None => {}
            }
        }
        1 => {
            let call = channel.queue_delete(QueueDelete::new(name("queue", number)));
            match actor.risky(what("delete"), bound, call).await {
                Some(Ok(count)) => expect("delete", count),
                Some(Err(error)) => fail("delete", &error),
                None => {}
            }
        }
        2 => {
            let call = channel.queue_purge(name("queue", number));
            match actor.risky(what("purge"), bound, call).await {
                Some(Ok(count)) => expect("purge", count),
                Some(Err(error)) => fail("purge", &error),
                None => {}
            }
        }
        3 => {
            let call = channel.queue_bind(name("queue", number), "e", "k", Table::default());
            if let Some(Err(error)) = actor.risky(what("bind"), bound, call).await {
                fail("bind", &error);
            }
        }
        4 => {
            let declare = ExchangeDeclare::new(name("exchange", number), ExchangeKind::Topic);
            let call = channel.exchange_declare(declare);
            if let Some(Err(error)) = actor.risky(what("exchange"), bound, call).await {
                fail("exchange declare", &error);
            }
        }
        5 => {
            let call = channel.qos(actor.random.pick(&[0, 1, 3, 20]), false);
            if let Some(Err(error)) = actor.risky(what("qos"), bound, call).await {
                fail("qos", &error);
            }
        }
        _ => get(actor, channel, who, number).await,
    }
}

async fn get(actor: &mut Actor, channel: &Methods, who: Who, number: u64) {
    let world = actor.world.clone();
    let bound = world.plan.deadlines.rpc;
    let no_ack = actor.random.chance(300);
    let what = format!("{}: get {number} on {:?}", who.connection, who.token);
    let call = channel.get(name("queue", number), no_ack);
    let got = match actor.risky(what, bound, call).await {
        Some(Ok(got)) => got,
        Some(Err(error)) => return who.explain_error(&world, "get", &error),
        None => {
            let token = who.token.unwrap_or_default();
            world.log().given_up.insert((token, number));
            return;
        }
    };
    let (empty, expected_empty) = (got.is_none(), number.is_multiple_of(3));
    if empty != expected_empty {
        return who.fault(
            &world,
            format_args!("another's reply to get {number}: {got:?}"),
        );
    }
    let Some(got) = got else { return };
    if u64::from(got.message_count) != number {
        who.fault(
            &world,
            format_args!("another's reply to get {number}: {}", got.message_count),
        );
    }
    if let Err(error) = number_of(got.delivery.body()) {
        who.fault(&world, format_args!("get {number}: {error}"));
    }
    if no_ack {
        return;
    }
    let tag = got.delivery.tag().number();
    super::consuming::settle(actor, who, &got.delivery, tag, false);
}
