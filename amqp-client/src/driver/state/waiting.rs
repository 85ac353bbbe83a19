//! Waiting for room in flight, and for confirms.

use std::task::Waker;

use super::State;
use crate::error::NotSent;
use crate::proto::{ConfirmStatus, PublishSeq};

pub(super) struct SettleWaiter {
    pub(super) key: u64,
    pub(super) seq: PublishSeq,
    pub(super) waker: Waker,
}

pub(super) struct RoomWaiter {
    pub(super) key: u64,
    pub(super) body_len: usize,
    pub(super) waker: Waker,
}

impl State {
    /// Why a publish has to wait on this channel, if somebody waits for room there already.
    #[inline]
    pub(crate) fn why_queue(&self, slot: usize) -> Option<NotSent> {
        // Where nobody waits at all, the channel need not be looked up.
        if self.awaited.is_empty() {
            return None;
        }
        self.why_queue_on(slot)
    }

    fn why_queue_on(&self, slot: usize) -> Option<NotSent> {
        if self.channels[slot].waiters.is_empty() {
            return None;
        }
        Some(match self.conn.blocked() {
            Some(_) => NotSent::Blocked,
            None => NotSent::Full,
        })
    }

    /// Queues for room.
    pub(crate) fn add_room_waiter(&mut self, slot: usize, body_len: usize, waker: &Waker) -> u64 {
        let channel = &mut self.channels[slot];
        let key = channel.next_waiter;
        channel.next_waiter += 1;
        channel.waiters.push_back(RoomWaiter {
            key,
            body_len,
            waker: waker.clone(),
        });
        self.await_channel(slot);
        key
    }

    /// Whether this waiter may try: it is the first, or waiting is in vain. Otherwise it goes on waiting.
    pub(crate) fn may_try(&mut self, slot: usize, key: u64, waker: &Waker) -> bool {
        let waiters = &mut self.channels[slot].waiters;
        if let Some(waiter) = waiters.iter_mut().find(|waiter| waiter.key == key) {
            self.dead
                .push(std::mem::replace(&mut waiter.waker, waker.clone()));
        }
        waiters.front().is_some_and(|first| first.key == key)
            || self.channels[slot].closed.is_some()
    }

    /// The waiter has what it wanted, or gave up. The next one is looked after.
    pub(crate) fn remove_room_waiter(&mut self, slot: usize, key: u64) {
        let waiters = &mut self.channels[slot].waiters;
        if let Some(index) = waiters.iter().position(|waiter| waiter.key == key) {
            self.dead
                .extend(waiters.remove(index).map(|waiter| waiter.waker));
        }
    }

    /// Waits until every publish up to `seq` has its outcome; whether they have. The key names the waiter
    /// until [`forget_settle_waiter`](Self::forget_settle_waiter).
    pub(crate) fn poll_settled(
        &mut self,
        slot: usize,
        key: &mut Option<u64>,
        seq: PublishSeq,
        waker: &Waker,
    ) -> bool {
        let channel = &mut self.channels[slot];
        if channel.closed.is_some() || self.conn.settled_through(channel.id, seq) {
            return true;
        }
        let waker = waker.clone();
        match key.and_then(|key| {
            channel
                .settle_waiters
                .iter_mut()
                .find(|waiter| waiter.key == key)
        }) {
            Some(waiter) => self.dead.push(std::mem::replace(&mut waiter.waker, waker)),
            None => {
                let new = *key.get_or_insert(channel.next_waiter);
                channel.next_waiter += 1;
                channel.settle_waiters.push(SettleWaiter {
                    key: new,
                    seq,
                    waker,
                });
            }
        }
        self.await_channel(slot);
        false
    }

    /// It waits no more.
    pub(crate) fn forget_settle_waiter(&mut self, slot: usize, key: u64) {
        let waiters = &mut self.channels[slot].settle_waiters;
        let gone = waiters.extract_if(.., |waiter| waiter.key == key);
        self.dead.extend(gone.map(|waiter| waiter.waker));
    }

    /// How the publishes of a channel in confirm mode stand.
    pub(crate) fn confirm_status(&mut self, slot: usize) -> ConfirmStatus {
        let channel = &self.channels[slot];
        if channel.closed.is_some() {
            return ConfirmStatus {
                counts: channel.final_counts,
                ..ConfirmStatus::default()
            };
        }
        self.conn.confirm_status(channel.id).unwrap_or_default()
    }

    pub(super) fn await_channel(&mut self, slot: usize) {
        if !self.awaited.contains(&slot) {
            self.awaited.push(slot);
        }
    }

    /// Wakes the first of those who wait for room, where there is some or will be none any more, and those whose
    /// confirms are in.
    pub(super) fn wake_awaited(&mut self, wakes: &mut Vec<Waker>) {
        let State {
            conn,
            channels,
            awaited,
            ..
        } = self;
        awaited.retain(|slot| {
            let channel = &mut channels[*slot];
            let view = conn.channel(channel.id);
            if let Some(first) = channel.waiters.front() {
                let room = match &view {
                    Ok(view) => view
                        .check_open()
                        .map_err(NotSent::from)
                        .and_then(|()| view.room_for(first.body_len)),
                    Err(error) => Err(error.clone().into()),
                };
                // Who is told why not gives its place to the next.
                if !matches!(room, Err(NotSent::Full | NotSent::Blocked)) {
                    wakes.push(first.waker.clone());
                }
            }
            let id = channel.id;
            let settled = |waiter: &mut SettleWaiter| conn.settled_through(id, waiter.seq);
            wakes.extend(
                channel
                    .settle_waiters
                    .extract_if(.., settled)
                    .map(|waiter| waiter.waker),
            );
            !channel.waiters.is_empty() || !channel.settle_waiters.is_empty()
        });
    }
}
