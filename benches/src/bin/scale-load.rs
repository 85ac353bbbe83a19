//! Uses many channels, or many connections, and prints what it cost: the process that `scale` measures.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::net::SocketAddr;

use amqp_benches::load::Failure;
use amqp_benches::load::scale::{self, Traffic};
use amqp_benches::workload::Workload;
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
            let workload = Workload::new(count, 10_000, 16, 1_000);
            let publish = scale::publish(address, &workload, channels, traffic);
            runtime.block_on(publish)?.to_line()
        }
        Load::Consume {
            channels,
            address,
            count,
        } => runtime
            .block_on(scale::consume(address, count, channels))?
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
