//! By the floor client, which can do one thing.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Client, Failure, Options, not_done};
use crate::floor::{Confirm, Floor};
use crate::workload::Turns;

/// The floor client under load.
#[derive(Debug)]
pub struct FloorClient {
    floor: Floor,
    messages: Turns<(String, Bytes)>,
    window: usize,
    pending: VecDeque<Confirm>,
}

impl Client for FloorClient {
    async fn connect(options: &Options) -> Result<Self, Failure> {
        if options.futures || options.ca.is_some() {
            return not_done("--futures, --ca");
        }
        Ok(FloorClient {
            floor: Floor::connect(options.address, options.window).await?,
            messages: Turns::of(options.messages(), |message| message),
            window: options.window,
            pending: VecDeque::with_capacity(options.window),
        })
    }

    async fn confirmed(&mut self, count: u64) -> Result<(), Failure> {
        for (key, body) in self.messages.take(count) {
            if self.pending.len() == self.window
                && let Some(confirm) = self.pending.pop_front()
            {
                confirm.await?;
            }
            self.pending
                .push_back(self.floor.publish("", key, body).await?);
        }
        for confirm in self.pending.drain(..) {
            confirm.await?;
        }
        Ok(())
    }

    async fn unconfirmed(&mut self, _: u64) -> Result<(), Failure> {
        not_done("unconfirmed")
    }

    async fn consume(&mut self, _: u64) -> Result<(), Failure> {
        not_done("consume")
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(())
    }
}
