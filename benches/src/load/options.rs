//! The command line that all load programs have in common; `peers/load-rabbitmq-c.c` follows it.

use std::net::SocketAddr;
use std::path::PathBuf;

use bytes::Bytes;
use clap::{Parser, ValueEnum};

use crate::workload;

/// Does one kind of work with one client, checks all of it, and prints as a line of JSON what it cost.
#[derive(Debug, Clone, Parser)]
pub struct Options {
    /// What is done.
    #[arg(value_enum)]
    pub work: Work,
    /// Where the broker listens, as 127.0.0.1:5672. User and password are guest's.
    #[arg(long)]
    pub address: SocketAddr,
    /// Use TLS; the certificate is for localhost and signed by the authority in this PEM file.
    #[arg(long)]
    pub ca: Option<PathBuf>,
    /// Publish to this queue instead of with a thousand keys that lead nowhere, by the default exchange either way.
    #[arg(long)]
    pub queue: Option<String>,
    /// Messages.
    #[arg(long, default_value_t = 1_000_000)]
    pub count: u64,
    /// Messages before those, which are not in what is printed.
    #[arg(long, default_value_t = 10_000)]
    pub warm_up: u64,
    /// Octets of a body.
    #[arg(long, default_value_t = 16)]
    pub size: usize,
    /// Most publishes in flight, or the prefetch count.
    #[arg(long, default_value_t = 1_000)]
    pub window: usize,
    /// Deliveries per ack; 0 to consume without acks.
    #[arg(long, default_value_t = 100)]
    pub ack_every: u64,
    /// Publish from as many futures as may be in flight, each of which awaits its own confirm. For lapin, which is
    /// faster that way.
    #[arg(long)]
    pub futures: bool,
}

/// A kind of work. All of it is done by one task on one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Publish with confirms, and see that each message is acked.
    Confirmed,
    /// Publish without confirms; done when the broker has read all of it.
    Unconfirmed,
    /// Publish one message and await its confirm before the next, and say how long that takes.
    InTurn,
    /// Consume what the null broker delivers.
    Consume,
}

impl Work {
    /// As it is named on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().into())
    }
}

impl Options {
    /// The URI of the broker, for clients that take one.
    pub fn uri(&self) -> String {
        match self.ca {
            None => format!("amqp://guest:guest@{}/%2f", self.address),
            Some(_) => format!("amqps://guest:guest@localhost:{}/%2f", self.address.port()),
        }
    }

    /// What is published in turn.
    pub fn messages(&self) -> Vec<(String, Bytes)> {
        let mut messages = workload::messages(self.size);
        if let Some(queue) = &self.queue {
            for (key, _) in &mut messages {
                key.clone_from(queue);
            }
        }
        messages
    }

    /// A queue from which the null broker delivers all that is to be consumed.
    pub fn delivering_queue(&self) -> String {
        format!("deliver:{}:{}", self.warm_up + self.count, self.size)
    }

    /// Whether to ack the delivery of this number, counted from 1, or the last one.
    pub fn acks(&self, number: u64, last: u64) -> bool {
        self.ack_every != 0 && (number.is_multiple_of(self.ack_every) || number == last)
    }

    /// The window as a prefetch count.
    ///
    /// # Errors
    /// When it is too large for one.
    pub fn prefetch(&self) -> Result<u16, super::Failure> {
        Ok(self.window.try_into()?)
    }

    /// Whether a body is one that was to be delivered.
    ///
    /// # Errors
    /// When it is not.
    pub fn check_body(&self, body: &[u8]) -> Result<(), super::Failure> {
        if body.len() != self.size || body.last().is_some_and(|last| *last != b'x') {
            return Err(format!("not the body that was to come: {body:?}").into());
        }
        Ok(())
    }
}
