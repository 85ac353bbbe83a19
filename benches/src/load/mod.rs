//! Publishes a [`Workload`] with one client or another, and awaits and checks every outcome; or consumes what the null
//! broker delivers.

mod client;
mod floor;
pub mod scale;

use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use cpu_time::ProcessTime;
use stats_alloc::INSTRUMENTED_SYSTEM;

use crate::workload::{Report, Workload};

/// Whatever went wrong: a load has nobody to tell the difference.
pub type Failure = Box<dyn Error>;

/// The client that does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    /// [`crate::floor`].
    Floor,
    /// The one that all of this is about.
    AmqpClient,
}

impl Client {
    /// All of them.
    pub const ALL: &[Client] = &[Client::Floor, Client::AmqpClient];

    /// As it is named on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Client::Floor => "floor",
            Client::AmqpClient => "amqp-client",
        }
    }

    /// Publishes all of the workload, on one task, on one channel. What is reported excludes the warm-up.
    ///
    /// # Errors
    /// When any publish has another outcome than acked.
    pub async fn publish(
        self,
        address: SocketAddr,
        workload: &Workload,
    ) -> Result<Report, Failure> {
        match self {
            Client::Floor => floor::publish(address, workload).await,
            Client::AmqpClient => client::publish(address, workload).await,
        }
    }
}

/// Consumes, with amqp-client: on one task, with a prefetch count of `window`, and an ack with `multiple` for every
/// `ack_every`th delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consumption {
    /// Messages to consume.
    pub count: u64,
    /// Messages before those, which are not in the report.
    pub warm_up: u64,
    /// Octets of a body.
    pub size: usize,
    /// The prefetch count.
    pub window: u16,
    /// Deliveries per ack.
    pub ack_every: u64,
}

impl Consumption {
    /// Consumes all of it. The report counts as acked what was delivered with the body that was to be expected.
    ///
    /// # Errors
    /// When the connection ends, or a body is another.
    pub async fn run(self, address: SocketAddr) -> Result<Report, Failure> {
        client::consume(address, self).await
    }
}

/// What the process had used up at one moment.
#[derive(Debug)]
pub struct Snapshot {
    allocations: u64,
    cpu: ProcessTime,
    wall: Instant,
}

impl Snapshot {
    /// This moment.
    pub fn take() -> Snapshot {
        Snapshot {
            allocations: allocations(),
            cpu: ProcessTime::now(),
            wall: Instant::now(),
        }
    }

    /// What has been used up since.
    pub fn report(&self, acked: u64) -> Report {
        Report {
            acked,
            allocations: allocations() - self.allocations,
            cpu: self.cpu.elapsed(),
            wall: self.wall.elapsed(),
        }
    }
}

/// Zero, unless the program has stats_alloc for its allocator.
fn allocations() -> u64 {
    let stats = INSTRUMENTED_SYSTEM.stats();
    (stats.allocations + stats.reallocations) as u64
}
