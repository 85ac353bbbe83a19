//! The loads by amqp-client, through its public interface, as its users write them.

use std::collections::VecDeque;
use std::net::SocketAddr;

use amqp_client::codec::ShortStr;
use amqp_client::{
    Confirm, ConfirmChannel, ConfirmOptions, Connection, Consume, Consumer, Message, Outcome,
};
use bytes::Bytes;

use super::{Consumption, Failure, Snapshot};
use crate::workload::{CONFIRM_TIMEOUT, Report, Workload};

pub(super) async fn publish(address: SocketAddr, workload: &Workload) -> Result<Report, Failure> {
    let connection = open(address).await?;
    let options = ConfirmOptions::default()
        .max_in_flight(workload.window)
        .timeout(CONFIRM_TIMEOUT);
    let channel = connection
        .open_channel()
        .await?
        .confirm_select_with(options)
        .await?;
    let keys = workload
        .keys
        .iter()
        .map(ShortStr::try_from)
        .collect::<Result<Vec<_>, _>>()?;
    let bodies = workload.bodies.iter().cloned().map(Bytes::from).collect();
    let mut publisher = Publisher {
        channel,
        keys,
        bodies,
        window: workload.window,
        pending: VecDeque::with_capacity(workload.window),
    };
    publisher.publish(workload.warm_up).await?;
    let start = Snapshot::take();
    let acked = publisher.publish(workload.count).await?;
    let report = start.report(acked);
    connection.close().await?;
    Ok(report)
}

struct Publisher {
    channel: ConfirmChannel,
    keys: Vec<ShortStr<'static>>,
    bodies: Vec<Bytes>,
    window: usize,
    pending: VecDeque<Confirm>,
}

impl Publisher {
    /// Says how many were acked, which is all or an error.
    async fn publish(&mut self, count: u64) -> Result<u64, Failure> {
        let mut acked = 0;
        let messages = self
            .keys
            .iter()
            .zip(&self.bodies)
            .cycle()
            .take(count as usize);
        for (key, body) in messages {
            if self.pending.len() == self.window
                && let Some(confirm) = self.pending.pop_front()
            {
                check(confirm.await)?;
                acked += 1;
            }
            let message = Message::new(body.clone());
            let confirm = self.channel.publish("", key.clone(), message).await?;
            self.pending.push_back(confirm);
        }
        for confirm in self.pending.drain(..) {
            check(confirm.await)?;
            acked += 1;
        }
        Ok(acked)
    }
}

pub(super) fn check(outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Acked => Ok(()),
        other => Err(format!("not acked: {other:?}").into()),
    }
}

pub(super) async fn consume(address: SocketAddr, what: Consumption) -> Result<Report, Failure> {
    let connection = open(address).await?;
    let channel = connection.open_channel().await?;
    channel.qos(what.window, false).await?;
    let queue = format!("deliver:{}:{}", what.warm_up + what.count, what.size);
    let mut consumer = channel.consume(Consume::new(queue)).await?;
    take(&mut consumer, what.warm_up, what).await?;
    let start = Snapshot::take();
    take(&mut consumer, what.count, what).await?;
    let report = start.report(what.count);
    connection.close().await?;
    Ok(report)
}

/// Takes and acks this many deliveries.
async fn take(consumer: &mut Consumer, count: u64, what: Consumption) -> Result<(), Failure> {
    for number in 1..=count {
        let delivery = consumer.next().await.ok_or("the consumer has ended")??;
        let body = delivery.body();
        if body.len() != what.size || body.last().is_some_and(|last| *last != b'x') {
            return Err(format!("not the body that was to come: {body:?}").into());
        }
        if number % what.ack_every == 0 || number == count {
            delivery.acker().ack_multiple()?;
        }
    }
    Ok(())
}

pub(super) async fn open(address: SocketAddr) -> Result<Connection, Failure> {
    Ok(Connection::open(format!("amqp://guest:guest@{address}/%2f").as_str()).await?)
}
