//! The load by the floor client.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::{Failure, Snapshot};
use crate::floor::{Confirm, Floor};
use crate::workload::{Report, Workload};

pub(super) async fn publish(address: SocketAddr, workload: &Workload) -> Result<Report, Failure> {
    let floor = Floor::connect(address, workload.window).await?;
    let mut pending = VecDeque::with_capacity(workload.window);
    publish_some(&floor, workload, workload.warm_up, &mut pending).await?;
    let start = Snapshot::take();
    let acked = publish_some(&floor, workload, workload.count, &mut pending).await?;
    Ok(start.report(acked))
}

async fn publish_some(
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
