//! What the handles and the task share.

mod consumers;
mod publishes;
mod requests;
mod returns;
mod waiting;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use slab::Slab;
use tokio::sync::{Notify, broadcast};

pub(crate) use self::consumers::ConsumerEnd;
use self::consumers::ConsumerSlot;
pub(crate) use self::publishes::Interest;
use self::requests::RequestSlot;
use self::returns::{Kept, ReturnsQueue};
use self::waiting::{RoomWaiter, SettleWaiter};
use super::ids::IdMap;
use crate::api;
use crate::error::{CloseCause, Closed, HandshakeError, OneLine, UsageError};
use crate::outcome::{Counts, Outcome};
use crate::proto::{ChannelId, Connection, ConsumerId, Delivery, Event, PublishId, RequestId};

/// The state of one connection, and how it ended once its task is gone.
pub(crate) struct Shared {
    state: Mutex<State>,
    ended: OnceLock<Arc<Closed>>,
    /// Those who wait for it are woken in their order; those of a `watch` in any, by chance.
    end: Notify,
}

impl Shared {
    pub(crate) fn new(conn: Connection<Interest>) -> Self {
        Shared {
            state: Mutex::new(State::new(conn)),
            ended: OnceLock::new(),
            end: Notify::new(),
        }
    }

    /// Locks the state for something that makes no events and needs nobody woken.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked(self.state.lock())
    }

    /// Does something with the state, then hands out the events that made, and wakes the task and whoever
    /// is concerned, after the lock is released.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        // Mostly the task is the only one.
        let mut wakes = Vec::new();
        let (result, task) = {
            let mut state = self.lock();
            let result = act(&mut state);
            state.hand_out_events(&mut wakes);
            (result, state.take_asleep())
        };
        wake_all(wakes.into_iter().chain(task));
        result
    }

    /// The same, for the task itself. `wakes` is empty before and after, and the task's to keep for its memory.
    pub(super) fn with_task<R>(
        &self,
        wakes: &mut Vec<Waker>,
        act: impl FnOnce(&mut State) -> R,
    ) -> R {
        let result = {
            let mut state = self.lock();
            let result = act(&mut state);
            state.hand_out_events(wakes);
            result
        };
        if !wakes.is_empty() {
            wake_all(wakes.drain(..));
        }
        result
    }

    /// The connection's task is gone.
    pub(super) fn end(&self, closed: Arc<Closed>) {
        // There is one task, and it goes once.
        let _ = self.ended.set(closed);
        self.end.notify_waiters();
    }

    /// How the connection ended, when its task is gone.
    pub(crate) async fn ended(&self) -> Arc<Closed> {
        loop {
            let end = self.end.notified();
            // Whoever ends it after this look, notifies.
            if let Some(closed) = self.ended.get() {
                return closed.clone();
            }
            end.await;
        }
    }
}

/// The state, locked. What it has no use for any more is dropped after it is unlocked: a waker may own a task, and the
/// task a handle whose drop locks the state again.
pub(crate) struct Locked<'a>(MutexGuard<'a, State>);

impl Deref for Locked<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.dead.is_empty() {
            self.drop_dead();
        }
    }
}

impl Locked<'_> {
    #[cold]
    fn drop_dead(&mut self) {
        let mut dead = std::mem::take(&mut self.0.dead);
        MutexGuard::unlocked(&mut self.0, || dead.clear());
        // Kept for its memory, where nobody has begun another one.
        if self.0.dead.is_empty() {
            self.0.dead = dead;
        }
    }
}

fn wake_all(wakes: impl Iterator<Item = Waker>) {
    for waker in wakes {
        waker.wake();
    }
}

pub(crate) struct State {
    pub(crate) conn: Connection<Interest>,
    /// Wakers to be dropped when the state is not locked any more.
    dead: Vec<Waker>,
    /// Empty, and kept for its memory: publishes that were settled, on the way to those who wait.
    settled: Vec<(PublishId, Interest, Outcome)>,
    /// Empty, and kept for its memory: messages on the way to their consumers.
    delivered: VecDeque<(ConsumerId, Delivery)>,
    /// The outcomes of publishes, other than acked, that were not asked for yet.
    outcomes: IdMap<PublishId, Outcome>,
    requests: IdMap<RequestId, RequestSlot>,
    /// The cancels that are not answered yet: they take effect whoever waits for their answer.
    cancels: IdMap<RequestId, ConsumerId>,
    pub(crate) channels: Slab<ChannelSlot>,
    /// The slots of the channels that are open, by number.
    by_number: IdMap<u16, usize>,
    consumers: IdMap<ConsumerId, ConsumerSlot>,
    /// What of returned messages waits for readers, on all channels.
    kept: Kept,
    /// Consumers over their budget that stop the reading until they are read.
    stalled: usize,
    /// One of them was read, or ended, since the task was last told.
    unstalled: bool,
    events: broadcast::Sender<api::Event>,
    handshake: Option<Result<(), HandshakeError>>,
    handshake_waker: Option<Waker>,
    /// Channels somebody waits on for room in flight or for confirms.
    awaited: Vec<usize>,
    /// Wakes the task.
    task: Option<Waker>,
    /// The task sleeps, and nobody has woken it since.
    asleep: bool,
}

/// What the handles of one channel share.
pub(crate) struct ChannelSlot {
    id: ChannelId,
    pub(crate) closed: Option<Arc<Closed>>,
    /// What became of the publishes of a channel that has closed.
    final_counts: Counts,
    /// Who waits for room, first come first served.
    waiters: VecDeque<RoomWaiter>,
    next_waiter: u64,
    /// Who waits for confirms.
    settle_waiters: Vec<SettleWaiter>,
    consumers: Vec<ConsumerId>,
    returns: ReturnsQueue,
}

impl State {
    fn new(conn: Connection<Interest>) -> Self {
        let events = broadcast::Sender::new(conn.limits().events);
        State {
            conn,
            dead: Vec::new(),
            settled: Vec::new(),
            delivered: VecDeque::new(),
            outcomes: IdMap::default(),
            requests: IdMap::default(),
            cancels: IdMap::default(),
            channels: Slab::new(),
            by_number: IdMap::default(),
            consumers: IdMap::default(),
            kept: Kept::default(),
            stalled: 0,
            unstalled: false,
            events,
            handshake: None,
            handshake_waker: None,
            awaited: Vec::new(),
            task: None,
            asleep: false,
        }
    }

    // ----- the task -----

    /// The task is awake: nobody needs to wake it.
    pub(super) fn set_awake(&mut self) {
        self.asleep = false;
    }

    /// The task goes to sleep. Its waker is mostly the one that is there.
    pub(super) fn set_asleep(&mut self, waker: &Waker) {
        self.asleep = true;
        if !self.task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            let old = self.task.replace(waker.clone());
            self.dead.extend(old);
        }
    }

    /// The task, if it sleeps: whoever puts something into the outgoing buffer wakes it.
    pub(crate) fn take_asleep(&mut self) -> Option<Waker> {
        if std::mem::take(&mut self.asleep) {
            self.task.clone()
        } else {
            None
        }
    }

    /// Whether the task may read: no consumer has too much already, and the peer takes what we owe it.
    pub(super) fn may_read(&self) -> bool {
        !self.conn.is_overfull() && !self.is_stalled() && self.conn.closed().is_none()
    }

    /// Hands out what has happened; whoever is to be woken goes into `wakes`.
    pub(super) fn hand_out_events(&mut self, wakes: &mut Vec<Waker>) {
        if self.conn.has_events() {
            self.hand_out_all(wakes);
        }
        if !self.awaited.is_empty() {
            self.wake_awaited(wakes);
        }
    }

    fn hand_out_all(&mut self, wakes: &mut Vec<Waker>) {
        self.conn.take_settled(&mut self.settled);
        self.hand_out_settled(wakes);
        self.conn.take_delivered(&mut self.delivered);
        self.hand_out_delivered(wakes);
        while let Some(event) = self.conn.poll_event() {
            self.hand_out(event, wakes);
        }
    }

    fn hand_out(&mut self, event: Event<Interest>, wakes: &mut Vec<Waker>) {
        match event {
            Event::Settled(id, interest, outcome) => self.settled(id, interest, outcome, wakes),
            Event::Delivered(consumer, delivery) => self.delivered(consumer, delivery, wakes),
            Event::Reply(request, result) => {
                if let (Some(consumer), Ok(_)) = (self.cancels.remove(&request), &result) {
                    self.end_consumer(consumer, ConsumerEnd::Cancelled, wakes);
                }
                if let Some(slot) = self.requests.get_mut(&request) {
                    let before = std::mem::replace(slot, RequestSlot::Done(result));
                    if let RequestSlot::Waiting(Some(waker)) = before {
                        wakes.push(waker);
                    }
                }
            }
            Event::Returned(id, returned) => {
                self.returned(id, *returned, wakes);
            }
            Event::ConsumerCancelled(channel, consumer, consumer_tag) => {
                self.end_consumer(consumer, ConsumerEnd::CancelledByServer, wakes);
                self.tell(|| api::Event::ConsumerCancelled {
                    channel,
                    consumer_tag,
                });
            }
            Event::ChannelClosed(id, closed, counts) => {
                self.channel_closed(id, &closed, counts, wakes)
            }
            Event::Opened => self.handshake_done(Ok(()), wakes),
            Event::HandshakeFailed(error) => self.handshake_done(Err(error), wakes),
            Event::Blocked(reason) => {
                tracing::warn!(reason = %OneLine(&reason), "the broker has blocked the connection");
                self.tell(|| api::Event::Blocked(reason));
            }
            Event::Unblocked => {
                tracing::info!("the broker has unblocked the connection");
                self.tell(|| api::Event::Unblocked);
            }
            Event::Closed(closed) => {
                tracing::debug!(%closed, "connection closed");
                self.tell(|| api::Event::Closed(closed));
            }
        }
    }

    /// Tells those who watch the connection, if any do.
    fn tell(&self, event: impl FnOnce() -> api::Event) {
        if self.events.receiver_count() > 0 {
            // Fails when the last receiver has just gone.
            let _ = self.events.send(event());
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<api::Event> {
        self.events.subscribe()
    }

    // ----- the handshake -----

    fn handshake_done(&mut self, result: Result<(), HandshakeError>, wakes: &mut Vec<Waker>) {
        self.handshake = Some(result);
        wakes.extend(self.handshake_waker.take());
    }

    pub(super) fn poll_handshake(&mut self, waker: &Waker) -> Option<Result<(), HandshakeError>> {
        if self.handshake.is_none() {
            self.handshake_waker = Some(waker.clone());
        }
        self.handshake.clone()
    }

    // ----- channels -----

    pub(crate) fn add_channel(&mut self, id: ChannelId) -> usize {
        let slot = self.channels.insert(ChannelSlot {
            id,
            closed: None,
            final_counts: Counts::default(),
            waiters: VecDeque::new(),
            next_waiter: 0,
            settle_waiters: Vec::new(),
            consumers: Vec::new(),
            returns: ReturnsQueue::default(),
        });
        self.by_number.insert(id.number, slot);
        slot
    }

    /// Where this incarnation of a channel is, unless it has closed or its handles are gone.
    fn slot_of(&self, id: ChannelId) -> Option<usize> {
        let slot = *self.by_number.get(&id.number)?;
        (self.channels[slot].id == id).then_some(slot)
    }

    /// The last handle of a channel is gone: it closes when its publishes are settled.
    pub(crate) fn drop_channel(&mut self, slot: usize) {
        let channel = self.channels.remove(slot);
        if self.by_number.get(&channel.id.number) == Some(&slot) {
            self.by_number.remove(&channel.id.number);
        }
        self.awaited.retain(|awaited| *awaited != slot);
        self.kept.forget(&channel.returns);
        self.dead.extend(channel.returns.wakers);
        for consumer in channel.consumers {
            self.unstall(consumer);
            self.consumers.remove(&consumer);
        }
        if let Ok(mut view) = self.conn.channel(channel.id) {
            view.close_when_settled(None);
        }
    }

    fn channel_closed(
        &mut self,
        id: ChannelId,
        closed: &Arc<Closed>,
        counts: Counts,
        wakes: &mut Vec<Waker>,
    ) {
        tracing::debug!(channel = id.number, %closed, "channel closed");
        self.tell(|| api::Event::ChannelClosed {
            channel: id,
            closed: closed.clone(),
        });
        let Some(slot) = self.slot_of(id) else { return };
        self.by_number.remove(&id.number);
        let channel = &mut self.channels[slot];
        channel.closed = Some(closed.clone());
        channel.final_counts = counts;
        wakes.extend(channel.waiters.iter().map(|waiter| waiter.waker.clone()));
        wakes.extend(channel.settle_waiters.drain(..).map(|waiter| waiter.waker));
        wakes.append(&mut channel.returns.wakers);
        for consumer in std::mem::take(&mut channel.consumers) {
            self.end_consumer(consumer, ConsumerEnd::ChannelClosed(closed.clone()), wakes);
        }
    }

    /// Why the channel cannot be used, in place of proto's "no such channel".
    pub(crate) fn explain(&self, slot: usize, error: UsageError) -> UsageError {
        match (&error, &self.channels[slot].closed) {
            (UsageError::NoChannel | UsageError::ConnectionClosed(_), Some(closed)) => {
                match &closed.cause {
                    Some(CloseCause::Connection(connection)) => {
                        UsageError::ConnectionClosed(connection.clone())
                    }
                    _ => UsageError::ChannelClosed(closed.clone()),
                }
            }
            _ => error,
        }
    }
}
