//! Publishes a [`Workload`] with one client or another, and awaits and checks every outcome.

use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use cpu_time::ProcessTime;
use stats_alloc::INSTRUMENTED_SYSTEM;

use crate::floor::{Confirm, Floor};
use crate::workload::{Report, Workload};

/// Whatever went wrong: a load has nobody to tell the difference.
pub type Failure = Box<dyn Error>;

/// The client that does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    /// [`crate::floor`].
    Floor,
}

impl Client {
    /// All of them.
    pub const ALL: &[Client] = &[Client::Floor];

    /// As it is named on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Client::Floor => "floor",
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
            Client::Floor => floor(address, workload).await,
        }
    }
}

async fn floor(address: SocketAddr, workload: &Workload) -> Result<Report, Failure> {
    let floor = Floor::connect(address, workload.window).await?;
    let mut pending = VecDeque::with_capacity(workload.window);
    floor_publish(&floor, workload, workload.warm_up, &mut pending).await?;
    let start = Snapshot::take();
    let acked = floor_publish(&floor, workload, workload.count, &mut pending).await?;
    Ok(start.report(acked))
}

async fn floor_publish(
    floor: &Floor,
    workload: &Workload,
    count: u64,
    pending: &mut VecDeque<Confirm>,
) -> Result<u64, Failure> {
    let mut acked = 0;
    for (key, body) in workload.messages(count) {
        if pending.len() == workload.window
            && let Some(confirm) = pending.pop_front()
        {
            confirm.await?;
            acked += 1;
        }
        pending.push_back(floor.publish("", key, body).await?);
    }
    for confirm in pending.drain(..) {
        confirm.await?;
        acked += 1;
    }
    Ok(acked)
}

/// What the process had used up at one moment.
struct Snapshot {
    allocations: u64,
    cpu: ProcessTime,
    wall: Instant,
}

impl Snapshot {
    fn take() -> Snapshot {
        Snapshot {
            allocations: allocations(),
            cpu: ProcessTime::now(),
            wall: Instant::now(),
        }
    }

    fn report(&self, acked: u64) -> Report {
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
