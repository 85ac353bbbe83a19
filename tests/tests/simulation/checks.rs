//! At the end: what the client was told, held against what the broker did.

use std::collections::{BTreeMap, BTreeSet};

use amqp_client::proto::Settle;
use amqp_client::{Counts, Followed};

use super::explain::Who;
use super::log::{ConfirmEnd, Log, PublishEnd, Published, TxEnd};
use super::truth::{ChannelTruth, PublishTruth, Truth};
use super::world::World;

/// Notes a fault for each contradiction.
pub(crate) fn check(world: &World) {
    let truth = std::mem::take(&mut *world.truth());
    let log = std::mem::take(&mut *world.log());
    for published in &log.publishes {
        let who = Who::connection(published.connection).channel(published.token);
        if let Err(error) = check_publish(published, &truth) {
            who.fault(world, format_args!("{error}: {published:?}"));
        }
    }
    check_arrivals(world, &log, &truth);
    let tokens: BTreeSet<u64> = log.publishes.iter().map(|one| one.token).collect();
    for token in tokens {
        check_numbers(world, token, &log);
        check_returns(world, token, &log, &truth);
    }
    check_deliveries(world, &log, &truth);
    check_transactions(world, &log, &truth);
}

/// What was not sent did not come, and nothing came twice.
fn check_arrivals(world: &World, log: &Log, truth: &Truth) {
    let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
    for published in &log.publishes {
        if let Some(id) = published.id
            && published.end != PublishEnd::NotSent
        {
            *sent.entry(id).or_default() += 1;
        }
    }
    for (id, came) in &truth.arrived {
        let sent = sent.get(id).copied().unwrap_or(0);
        if *came > sent {
            world.fault(format_args!(
                "message {id} came {came} times, and was sent {sent} times"
            ));
        }
    }
}

fn check_publish(published: &Published, truth: &Truth) -> Result<(), String> {
    let PublishEnd::Confirmed { seq, end } = published.end else {
        return Ok(());
    };
    let channel = truth
        .channel(published.token)
        .ok_or("the broker knows no such channel")?;
    let known = channel.publishes.get(seq as usize - 1);
    if let Some(known) = known
        && known.id != published.id
    {
        return Err(format!("the broker has another message there: {known:?}"));
    }
    check_outcome(end, known).map_err(|error| format!("{error}: {known:?}"))?;
    match end {
        ConfirmEnd::Unknown { written: false } if known.is_some() => {
            Err("no byte of it was written, and yet it came".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_outcome(end: ConfirmEnd, known: Option<&PublishTruth>) -> Result<(), String> {
    let Some(known) = known else {
        return match end {
            ConfirmEnd::TimedOut | ConfirmEnd::Unknown { .. } | ConfirmEnd::Dropped => Ok(()),
            ConfirmEnd::Acked | ConfirmEnd::Nacked | ConfirmEnd::Returned(_) => {
                Err("the broker never had it".to_owned())
            }
        };
    };
    let agrees = match end {
        ConfirmEnd::Acked => known.acked == Some(true) && !known.returned,
        ConfirmEnd::Nacked => known.acked == Some(false) && !known.returned,
        ConfirmEnd::Returned(Followed::Ack) => known.acked == Some(true) && known.returned,
        ConfirmEnd::Returned(Followed::Nack) => known.acked == Some(false) && known.returned,
        ConfirmEnd::Returned(Followed::Nothing) => known.returned,
        ConfirmEnd::TimedOut | ConfirmEnd::Unknown { .. } | ConfirmEnd::Dropped => true,
    };
    match agrees {
        true => Ok(()),
        false => Err("the broker says otherwise".to_owned()),
    }
}

/// The publishes of a channel are numbered from 1 on, each once, and counted once.
fn check_numbers(world: &World, token: u64, log: &Log) {
    let mut seqs = Vec::new();
    let mut least = Counts::default();
    let mut dropped = 0;
    let mut connection = 0;
    for published in log.publishes.iter().filter(|one| one.token == token) {
        connection = published.connection;
        if let PublishEnd::Confirmed { seq, end } = published.end {
            seqs.push(seq);
            match end {
                ConfirmEnd::Acked => least.acked += 1,
                ConfirmEnd::Nacked => least.nacked += 1,
                ConfirmEnd::Returned(_) => least.returned += 1,
                ConfirmEnd::TimedOut | ConfirmEnd::Unknown { .. } => least.unknown += 1,
                ConfirmEnd::Dropped => dropped += 1,
            }
        }
    }
    let who = Who::connection(connection).channel(token);
    seqs.sort_unstable();
    if !seqs.iter().copied().eq(1..=seqs.len() as u64) {
        who.fault(world, format_args!("publishes are numbered {seqs:?}"));
    }
    let Some(counts) = log.counts.get(&token) else {
        return;
    };
    let fits = counts.acked >= least.acked
        && counts.nacked >= least.nacked
        && counts.returned >= least.returned
        && counts.unknown >= least.unknown
        && counts.settled() == least.settled() + dropped;
    if !fits {
        who.fault(
            world,
            format_args!("counted {counts:?}, but seen {least:?} and {dropped} dropped"),
        );
    }
}

/// What comes back without a confirm was returned, once, and to nobody else.
fn check_returns(world: &World, token: u64, log: &Log, truth: &Truth) {
    let Some(channel) = truth.channel(token) else {
        return;
    };
    let returns = log.returns.get(&token).into_iter().flatten();
    let who = Who::connection(channel.connection).channel(token);
    let mut left: BTreeMap<u64, i64> = BTreeMap::new();
    let known = channel.publishes.iter().chain(&channel.unconfirmed);
    for known in known.filter(|known| known.returned) {
        if let Some(id) = known.id {
            *left.entry(id).or_default() += 1;
        }
    }
    let claimed = log.publishes.iter().filter(|one| one.token == token);
    for published in claimed {
        if let (
            Some(id),
            PublishEnd::Confirmed {
                end: ConfirmEnd::Returned(_),
                ..
            },
        ) = (published.id, published.end)
        {
            *left.entry(id).or_default() -= 1;
        }
    }
    for id in returns {
        let left = left.entry(*id).or_default();
        *left -= 1;
        if *left < 0 {
            who.fault(
                world,
                format_args!("message {id} is among the returns, more often than it came back"),
            );
        }
    }
    let lost = left.iter().find(|(_, left)| **left > 0);
    if let Some((id, _)) = lost.filter(|_| log.returns_read.contains(&token)) {
        who.fault(
            world,
            format_args!("message {id} came back, and nobody was told"),
        );
    }
}

fn check_deliveries(world: &World, log: &Log, truth: &Truth) {
    for ((token, consumer), received) in &log.received {
        let Some(channel) = truth.channel(*token) else {
            continue;
        };
        let who = Who::connection(channel.connection).channel(*token);
        let sent: Vec<_> = channel
            .deliveries
            .iter()
            .filter(|(_, delivery)| delivery.consumer == *consumer)
            .map(|(tag, delivery)| (*tag, delivery.id, delivery.redelivered))
            .collect();
        let got: Vec<_> = received
            .iter()
            .map(|one| (one.tag, one.id, one.redelivered))
            .collect();
        if !sent.starts_with(&got) {
            who.fault(
                world,
                format_args!("consumer {consumer} was sent {sent:?} and got {got:?}"),
            );
        }
    }
    for channel in &truth.channels {
        let Some(token) = channel.token else { continue };
        check_settling(world, token, channel, log);
    }
}

/// What the broker was told of a delivery is what the program said of it; of what the program did not get, the client
/// says that it goes back.
fn check_settling(world: &World, token: u64, channel: &ChannelTruth, log: &Log) {
    let who = Who::connection(channel.connection).channel(token);
    let through = log.settled_through.get(&token);
    for (tag, delivery) in &channel.deliveries {
        let asked = log.settled.get(&(token, *tag)).copied().or_else(|| {
            let mut through = through.into_iter().flatten();
            through.find(|(last, _)| last >= tag).map(|(_, how)| *how)
        });
        let fits = match (delivery.settled, asked) {
            (None, None) => true,
            (Some(told), Some(asked)) => told == asked,
            (Some(told), None) => told == Settle::Nack { requeue: true },
            // It was under way when the channel ended, unless the client closed that behind it. In a transaction
            // it is in effect when that is.
            (None, Some(_)) => {
                !channel.close_came
                    || delivery.in_transaction
                    || log.held_for_ever.contains(&(token, *tag))
            }
        };
        if !fits {
            who.fault(
                world,
                format_args!("delivery {tag} was to be settled as {asked:?}: {delivery:?}"),
            );
        }
        if delivery.no_ack && delivery.settled.is_some() {
            who.fault(
                world,
                format_args!("delivery {tag} needs no ack: {delivery:?}"),
            );
        }
    }
}

fn check_transactions(world: &World, log: &Log, truth: &Truth) {
    for transacted in &log.transactions {
        let Some(channel) = truth.channel(transacted.token) else {
            continue;
        };
        let who = Who::connection(channel.connection).channel(transacted.token);
        let committed = |id: &&u64| channel.committed.contains(*id);
        let count = transacted.ids.iter().filter(committed).count();
        let all = transacted.ids.len();
        let fits = match &transacted.end {
            TxEnd::Committed { returned } => count == all && *returned == transacted.unroutable,
            TxEnd::RolledBack { returned } => count == 0 && returned.is_empty(),
            TxEnd::NotCommitted => count == 0,
            TxEnd::Unknown => count == 0 || count == all,
        };
        if !fits {
            who.fault(
                world,
                format_args!("{count} of {all} messages are committed: {transacted:?}"),
            );
        }
    }
}
