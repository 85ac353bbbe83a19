//! Uses many channels, or many connections, and prints what it cost: the process that `scale` measures.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::net::SocketAddr;

use amqp_benches::load::Failure;
use amqp_benches::load::scale::{self, Amount, Traffic};
use clap::{Parser, Subcommand};

/// Many channels, or many connections.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Publishes over channels in confirm mode.
    Publish {
        /// Channels to open.
        #[arg(long)]
        channels: usize,
        /// Which of them carry the messages.
        #[arg(long, value_enum)]
        traffic: Traffic,
        /// Where the null broker listens, as 127.0.0.1:5672.
        #[arg(long)]
        address: SocketAddr,
        /// Messages.
        #[arg(long)]
        count: u64,
    },
    /// Consumes on the last of some channels with a consumer each.
    Consume {
        /// Channels to open.
        #[arg(long)]
        channels: usize,
        /// Where the null broker listens, as 127.0.0.1:5672.
        #[arg(long)]
        address: SocketAddr,
        /// Messages.
        #[arg(long)]
        count: u64,
    },
    /// Consumes with some consumers on one channel.
    Share {
        /// Consumers.
        #[arg(long)]
        consumers: u64,
        /// Where the null broker listens, as 127.0.0.1:5672.
        #[arg(long)]
        address: SocketAddr,
        /// Messages.
        #[arg(long)]
        count: u64,
    },
    /// Publishes from some tasks on one channel.
    Tasks {
        /// Tasks.
        #[arg(long)]
        tasks: u64,
        /// Where the null broker listens, as 127.0.0.1:5672.
        #[arg(long)]
        address: SocketAddr,
        /// Messages.
        #[arg(long)]
        count: u64,
    },
    /// Publishes while the first publish may not be confirmed.
    Stuck {
        /// Where the null broker listens, as 127.0.0.1:5672.
        #[arg(long)]
        address: SocketAddr,
        /// Messages.
        #[arg(long)]
        count: u64,
    },
    /// Opens connections and does nothing with them for some seconds.
    Idle {
        /// Connections to open.
        #[arg(long)]
        connections: usize,
        /// Where the null broker listens, as 127.0.0.1:5672.
        #[arg(long)]
        address: SocketAddr,
    },
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let line = match Options::parse().load {
        Load::Publish {
            channels,
            traffic,
            address,
            count,
        } => {
            let publish = scale::publish(address, amount(count), channels, traffic);
            runtime.block_on(publish)?.to_line()
        }
        Load::Consume {
            channels,
            address,
            count,
        } => runtime
            .block_on(scale::consume(address, count, channels))?
            .to_line(),
        Load::Share {
            consumers,
            address,
            count,
        } => runtime
            .block_on(scale::share(address, count, consumers))?
            .to_line(),
        Load::Tasks {
            tasks,
            address,
            count,
        } => runtime
            .block_on(scale::tasks(address, amount(count), tasks))?
            .to_line(),
        Load::Stuck { address, count } => runtime
            .block_on(scale::stuck(address, amount(count)))?
            .to_line(),
        Load::Idle {
            connections,
            address,
        } => runtime
            .block_on(scale::idle(address, connections))?
            .to_line(),
    };
    println!("{line}");
    Ok(())
}

fn amount(count: u64) -> Amount {
    Amount {
        warm_up: 10_000,
        count,
    }
}
