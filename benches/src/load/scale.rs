//! Loads on many channels, and on many connections that do nothing.

use std::collections::VecDeque;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use amqp_client::codec::ShortStr;
use amqp_client::{
    Channel, Confirm, ConfirmChannel, ConnectOptions, Connection, Consume, Consumer, Message,
};
use bytes::Bytes;
use cpu_time::ProcessTime;

use super::client::{check, open};
use super::{Failure, Snapshot};
use crate::workload::{Report, Workload};

/// Which of the open channels carry the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Traffic {
    /// The one that was opened last.
    OnLast,
    /// All of them in turn, one message each.
    OnAll,
}

/// Publishes all of the workload, on one task, over `channels` channels in confirm mode.
///
/// # Errors
/// When any publish has another outcome than acked.
pub async fn publish(
    address: SocketAddr,
    workload: &Workload,
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
    let messages = messages(workload)?;
    publish_some(in_use, &messages, workload.window, workload.warm_up).await?;
    let start = Snapshot::take();
    let acked = publish_some(in_use, &messages, workload.window, workload.count).await?;
    let report = start.report(acked);
    connection.close().await?;
    Ok(report)
}

type Messages = Vec<(ShortStr<'static>, Bytes)>;

fn messages(workload: &Workload) -> Result<Messages, Failure> {
    let mut messages = Vec::new();
    for (key, body) in workload.keys.iter().zip(&workload.bodies) {
        messages.push((ShortStr::try_from(key)?, Bytes::from(body.clone())));
    }
    Ok(messages)
}

async fn publish_some(
    channels: &[ConfirmChannel],
    messages: &Messages,
    window: usize,
    count: u64,
) -> Result<u64, Failure> {
    let mut pending = VecDeque::<Confirm>::with_capacity(window);
    let mut acked = 0;
    let messages = messages.iter().cycle().take(count as usize);
    for ((key, body), channel) in messages.zip(channels.iter().cycle()) {
        if pending.len() == window
            && let Some(confirm) = pending.pop_front()
        {
            check(confirm.await)?;
            acked += 1;
        }
        let message = Message::new(body.clone());
        pending.push_back(channel.publish("", key.clone(), message).await?);
    }
    for confirm in pending {
        check(confirm.await)?;
        acked += 1;
    }
    Ok(acked)
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
