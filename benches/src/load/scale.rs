//! Loads on many channels, and on many connections that do nothing.

use std::collections::VecDeque;
use std::fs;
use std::net::SocketAddr;
use std::slice;
use std::time::Duration;

use amqp_client::codec::ShortStr;
use amqp_client::{
    Channel, Confirm, ConfirmChannel, ConnectOptions, Connection, Consume, Consumer, Message,
};
use cpu_time::ProcessTime;
use tokio::task::JoinSet;

use super::amqp_client::{Messages, check, in_turn, open};
use super::{Failure, Snapshot};
use crate::workload::{self, Report};

/// Which of the open channels carry the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Traffic {
    /// The one that was opened last.
    OnLast,
    /// All of them in turn, one message each.
    OnAll,
}

/// How many messages of 16 octets, with at most a thousand in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Messages before those that are measured.
    pub warm_up: u64,
    /// Messages that are measured.
    pub count: u64,
}

const SIZE: usize = 16;
const WINDOW: usize = 1_000;

/// Publishes on one task, over `channels` channels in confirm mode.
///
/// # Errors
/// When any publish has another outcome than acked.
pub async fn publish(
    address: SocketAddr,
    amount: Amount,
    channels: usize,
    traffic: Traffic,
) -> Result<Report, Failure> {
    let connection = open(address).await?;
    let mut open_channels = Vec::new();
    for _ in 0..channels {
        open_channels.push(connection.open_channel().await?.confirm_select().await?);
    }
    let in_use = match traffic {
        Traffic::OnLast => &open_channels[channels - 1..],
        Traffic::OnAll => &open_channels[..],
    };
    let mut messages = in_turn(workload::messages(SIZE))?;
    publish_some(in_use, &mut messages, WINDOW, amount.warm_up).await?;
    let start = Snapshot::take();
    publish_some(in_use, &mut messages, WINDOW, amount.count).await?;
    let report = start.report(amount.count);
    connection.close().await?;
    Ok(report)
}

async fn publish_some(
    channels: &[ConfirmChannel],
    messages: &mut Messages,
    window: usize,
    count: u64,
) -> Result<(), Failure> {
    let mut pending = VecDeque::<Confirm>::with_capacity(window);
    for channel in channels.iter().cycle().take(count as usize) {
        if pending.len() == window
            && let Some(confirm) = pending.pop_front()
        {
            check(confirm.await)?;
        }
        let (key, body) = messages.next();
        let message = Message::new(body.clone());
        pending.push_back(channel.publish("", key.clone(), message).await?);
    }
    for confirm in pending {
        check(confirm.await)?;
    }
    Ok(())
}

/// Consumes and acks `count` messages of 16 octets on the last of `channels` channels, all of which have a consumer.
///
/// # Errors
/// When the connection or the consumer ends.
pub async fn consume(address: SocketAddr, count: u64, channels: usize) -> Result<Report, Failure> {
    let connection = open(address).await?;
    let mut idle = Vec::new();
    for _ in 1..channels {
        idle.push(consumer(&connection, 0).await?);
    }
    let (_channel, mut busy) = consumer(&connection, count).await?;
    let start = Snapshot::take();
    for number in 1..=count {
        let delivery = busy.next().await.ok_or("the consumer has ended")??;
        if number % 100 == 0 || number == count {
            delivery.acker().ack_multiple()?;
        }
    }
    let report = start.report(count);
    connection.close().await?;
    Ok(report)
}

async fn consumer(connection: &Connection, count: u64) -> Result<(Channel, Consumer), Failure> {
    let channel = connection.open_channel().await?;
    channel.qos(1_000, false).await?;
    let queue = ShortStr::try_from(format!("deliver:{count}:16"))?;
    let consumer = channel.consume(Consume::new(queue)).await?;
    Ok((channel, consumer))
}

/// Consumes and acks `count` messages of 16 octets with `consumers` consumers on one channel, each on a task of its own
/// and with its part of the messages.
///
/// # Errors
/// When the connection or a consumer ends.
pub async fn share(address: SocketAddr, count: u64, consumers: u64) -> Result<Report, Failure> {
    let connection = open(address).await?;
    let channel = connection.open_channel().await?;
    channel.qos(WINDOW as u16, false).await?;
    let mut subscribed = Vec::new();
    for number in 0..consumers {
        let part = part(number, consumers, count);
        let queue = ShortStr::try_from(format!("deliver:{part}:{SIZE}"))?;
        subscribed.push((channel.consume(Consume::new(queue)).await?, part));
    }
    // A prefetch count of messages has come meanwhile, and no more.
    let start = Snapshot::take();
    let mut tasks = JoinSet::new();
    for (consumer, part) in subscribed {
        tasks.spawn(take(consumer, part));
    }
    while let Some(taken) = tasks.join_next().await {
        taken??;
    }
    let report = start.report(count);
    connection.close().await?;
    Ok(report)
}

/// What is left for one of `many` when a count is divided among them.
fn part(number: u64, many: u64, count: u64) -> u64 {
    let rest = if number == 0 { count % many } else { 0 };
    count / many + rest
}

async fn take(mut consumer: Consumer, count: u64) -> Result<(), Failure> {
    for _ in 0..count {
        let delivery = consumer.next().await.ok_or("the consumer has ended")??;
        delivery.ack()?;
    }
    Ok(())
}

/// Publishes from `tasks` tasks on one channel; what may be in flight is divided among them.
///
/// # Errors
/// When any publish has another outcome than acked.
pub async fn tasks(address: SocketAddr, amount: Amount, tasks: u64) -> Result<Report, Failure> {
    let connection = open(address).await?;
    let channel = connection.open_channel().await?.confirm_select().await?;
    let messages = in_turn(workload::messages(SIZE))?;
    let mut publishers = vec![messages; tasks as usize];
    publish_from_tasks(&channel, amount.warm_up, &mut publishers).await?;
    let start = Snapshot::take();
    publish_from_tasks(&channel, amount.count, &mut publishers).await?;
    let report = start.report(amount.count);
    connection.close().await?;
    Ok(report)
}

/// One task for each of `publishers`, which get their messages back.
async fn publish_from_tasks(
    channel: &ConfirmChannel,
    count: u64,
    publishers: &mut Vec<Messages>,
) -> Result<(), Failure> {
    let tasks = publishers.len() as u64;
    let window = (WINDOW as u64 / tasks).max(1) as usize;
    let mut running = JoinSet::new();
    for (number, mut messages) in publishers.drain(..).enumerate() {
        let channel = channel.clone();
        let part = part(number as u64, tasks, count);
        running.spawn(async move {
            publish_some(slice::from_ref(&channel), &mut messages, window, part).await?;
            Ok::<_, Failure>(messages)
        });
    }
    while let Some(done) = running.join_next().await {
        publishers.push(done??);
    }
    Ok(())
}

/// Publishes one message, and all others while its confirm may still be open. It is never awaited.
///
/// # Errors
/// When any other publish has another outcome than acked.
pub async fn stuck(address: SocketAddr, amount: Amount) -> Result<Report, Failure> {
    let connection = open(address).await?;
    let channel = connection.open_channel().await?.confirm_select().await?;
    let mut messages = in_turn(workload::messages(SIZE))?;
    let stuck = channel.publish("", "stuck", Message::new("")).await?;
    let channels = slice::from_ref(&channel);
    publish_some(channels, &mut messages, WINDOW, amount.warm_up).await?;
    let start = Snapshot::take();
    publish_some(channels, &mut messages, WINDOW, amount.count).await?;
    let report = start.report(amount.count);
    drop(stuck);
    connection.close().await?;
    Ok(report)
}

/// What connections cost that do nothing but show that they are alive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// Bytes of resident memory for each.
    pub memory: f64,
    /// The part of one processor that all of them take.
    pub cpu: f64,
    /// Threads that are there with them and were not without.
    pub threads: i64,
}

impl Idle {
    /// One line, which [`Idle::parse`] reads.
    pub fn to_line(self) -> String {
        format!(
            "memory={} cpu={} threads={}",
            self.memory, self.cpu, self.threads
        )
    }

    /// Reads what [`Idle::to_line`] wrote. Nothing when it is not all there.
    pub fn parse(line: &str) -> Option<Idle> {
        let field = |name: &str| {
            line.split_whitespace()
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        Some(Idle {
            memory: field("memory")?.parse().ok()?,
            cpu: field("cpu")?.parse().ok()?,
            threads: field("threads")?.parse().ok()?,
        })
    }
}

/// How often either side of an idle connection shows that it is alive, in seconds: the client after half of it.
const HEARTBEAT: u16 = 4;
/// How long idleness is watched: each connection sends some heartbeats meanwhile, and gets as many.
const WATCHED: Duration = Duration::from_secs(6);

/// Opens `connections` connections and watches them do nothing.
///
/// # Errors
/// When one is not opened or does not last.
pub async fn idle(address: SocketAddr, connections: usize) -> Result<Idle, Failure> {
    let uri = format!("amqp://guest:guest@{address}/%2f");
    let options = ConnectOptions::try_from(uri.as_str())?.heartbeat(HEARTBEAT);
    // The first one brings what they share.
    let first = Connection::open(options.clone()).await?;
    let before = ProcessStatus::read()?;
    let mut open = vec![first];
    for _ in 0..connections {
        open.push(Connection::open(options.clone()).await?);
    }
    let cpu = ProcessTime::now();
    tokio::time::sleep(WATCHED).await;
    let cpu = cpu.elapsed();
    let after = ProcessStatus::read()?;
    for connection in open {
        connection.close().await?;
    }
    Ok(Idle {
        memory: (after.resident - before.resident) * 1024.0 / connections as f64,
        cpu: cpu.as_secs_f64() / WATCHED.as_secs_f64(),
        threads: after.threads - before.threads,
    })
}

/// What Linux says of this process.
struct ProcessStatus {
    /// Resident memory in KiB.
    resident: f64,
    threads: i64,
}

impl ProcessStatus {
    fn read() -> Result<ProcessStatus, Failure> {
        let text = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
                .ok_or_else(|| format!("/proc/self/status without {name}"))
        };
        Ok(ProcessStatus {
            resident: field("VmRSS:")?.parse()?,
            threads: field("Threads:")?.parse()?,
        })
    }
}
