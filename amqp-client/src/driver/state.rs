//! What the handles and the task share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use amqp_codec::{MethodId, ReplyCode};
use parking_lot::{Mutex, MutexGuard};
use slab::Slab;
use tokio::sync::{broadcast, watch};

use super::ids::IdMap;
use crate::api::{self, Overflow};
use crate::error::{CloseCause, Closed, HandshakeError, NotSent, UsageError};
use crate::message::Publication;
use crate::outcome::{Counts, Outcome, Returned};
use crate::proto::{
    ChannelId, ConfirmStatus, Connection, ConsumerId, Delivery, Event, PublishSeq, Reply,
    RequestError, RequestId,
};

/// How many returned messages wait for a reader before the oldest are given up, and how many bytes of bodies.
const RETURNS_KEPT: usize = 1024;
const RETURNED_BYTES_KEPT: usize = 16 << 20;

/// How many events wait for a subscriber that does not read before it is told that it lags.
const EVENTS_KEPT: usize = 256;

/// What a delivery that waits takes beside its bytes: its place in the queue, and what an allocation costs. Without it,
/// small messages would take several times the budget.
const DELIVERY_OVERHEAD: usize = size_of::<Delivery>() + 16;

/// The state of one connection, and how it ended once its task is gone.
pub(crate) struct Shared {
    state: Mutex<State>,
    ended: watch::Sender<Option<Arc<Closed>>>,
}

impl Shared {
    pub(crate) fn new(conn: Connection<PublishKey>) -> Self {
        Shared {
            state: Mutex::new(State::new(conn)),
            ended: watch::Sender::new(None),
        }
    }

    /// Locks the state for something that makes no events and needs nobody woken.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Does something with the state, then hands out the events that made, and wakes the task and whoever
    /// is concerned, after the lock is released.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut wakes = Vec::new();
        let result = {
            let mut state = self.state.lock();
            let result = act(&mut state);
            state.hand_out_events(&mut wakes);
            wakes.extend(state.parked.take());
            result
        };
        wake_all(wakes);
        result
    }

    /// The same, for the task itself.
    pub(super) fn with_task<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut wakes = Vec::new();
        let result = {
            let mut state = self.state.lock();
            let result = act(&mut state);
            state.hand_out_events(&mut wakes);
            result
        };
        wake_all(wakes);
        result
    }

    /// The connection's task is gone.
    pub(crate) fn end(&self, closed: Arc<Closed>) {
        self.ended.send_replace(Some(closed));
    }

    /// How the connection ended; resolves when its task is gone.
    pub(crate) fn ended(&self) -> watch::Receiver<Option<Arc<Closed>>> {
        self.ended.subscribe()
    }
}

fn wake_all(wakes: Vec<Waker>) {
    for waker in wakes {
        waker.wake();
    }
}

/// Where the outcome of a publish is waited for.
pub(crate) type PublishKey = usize;

pub(crate) struct State {
    pub(crate) conn: Connection<PublishKey>,
    publishes: Slab<PublishSlot>,
    /// Empty, and kept for its memory: publishes that were settled, on the way to their slots.
    settled: Vec<(PublishKey, Outcome)>,
    requests: IdMap<RequestId, RequestSlot>,
    /// The cancels that are not answered yet: they take effect whoever waits for their answer.
    cancels: IdMap<RequestId, ConsumerId>,
    pub(crate) channels: Slab<ChannelSlot>,
    /// The slots of the channels that are open, by number.
    by_number: IdMap<u16, usize>,
    consumers: IdMap<ConsumerId, ConsumerSlot>,
    /// Consumers over their budget that stop the reading until they are read.
    stalled: usize,
    events: broadcast::Sender<api::Event>,
    handshake: Option<Result<(), HandshakeError>>,
    handshake_waker: Option<Waker>,
    /// Channels somebody waits on for room in flight or for confirms.
    awaited: Vec<usize>,
    /// Set while the task sleeps.
    parked: Option<Waker>,
}

/// What becomes of one publish.
enum PublishSlot {
    /// No outcome yet; who waits for it, if somebody does by now.
    Waiting(Option<Waker>),
    Settled(Outcome),
    /// Nobody waits for the outcome any more; should the message come back, this is its channel.
    Dropped(ChannelId),
}

enum RequestSlot {
    Waiting(Option<Waker>),
    Done(Result<Reply, RequestError>),
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

struct SettleWaiter {
    key: u64,
    seq: PublishSeq,
    waker: Waker,
}

struct RoomWaiter {
    key: u64,
    body_len: usize,
    waker: Waker,
}

#[derive(Default)]
struct ReturnsQueue {
    queue: VecDeque<Returned>,
    bytes: usize,
    missed: u64,
    wanted: bool,
    /// Those who wait for the next one.
    wakers: Vec<Waker>,
}

#[derive(Default)]
struct ConsumerSlot {
    channel: usize,
    queue: VecDeque<Delivery>,
    /// The size of what is in `queue`.
    buffered: usize,
    /// How much of it there may be.
    budget: usize,
    overflow: Overflow,
    /// Counted in [`State::stalled`].
    stalls: bool,
    waker: Option<Waker>,
    end: Option<ConsumerEnd>,
}

/// Why a consumer gets nothing more.
#[derive(Debug, Clone)]
pub(crate) enum ConsumerEnd {
    Cancelled,
    CancelledByServer,
    ChannelClosed(Arc<Closed>),
}

impl State {
    fn new(conn: Connection<PublishKey>) -> Self {
        State {
            conn,
            publishes: Slab::new(),
            settled: Vec::new(),
            requests: IdMap::default(),
            cancels: IdMap::default(),
            channels: Slab::new(),
            by_number: IdMap::default(),
            consumers: IdMap::default(),
            stalled: 0,
            events: broadcast::Sender::new(EVENTS_KEPT),
            handshake: None,
            handshake_waker: None,
            awaited: Vec::new(),
            parked: None,
        }
    }

    // ----- the task -----

    /// The task goes to sleep, or `None`: is awake.
    pub(super) fn set_parked(&mut self, waker: Option<Waker>) {
        self.parked = waker;
    }

    /// The task, if it sleeps: whoever puts something into the outgoing buffer wakes it.
    pub(crate) fn take_parked(&mut self) -> Option<Waker> {
        self.parked.take()
    }

    /// Hands out what has happened; whoever is to be woken goes into `wakes`.
    pub(super) fn hand_out_events(&mut self, wakes: &mut Vec<Waker>) {
        self.conn.take_settled(&mut self.settled);
        self.hand_out_settled(wakes);
        while let Some(event) = self.conn.poll_event() {
            self.hand_out(event, wakes);
        }
        self.wake_awaited(wakes);
    }

    fn hand_out(&mut self, event: Event<PublishKey>, wakes: &mut Vec<Waker>) {
        match event {
            Event::Settled(key, outcome) => {
                self.settled.push((key, outcome));
                self.hand_out_settled(wakes);
            }
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
                tracing::warn!(%reason, "the broker has blocked the connection");
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

    /// A message came back that belongs to no confirm.
    fn returned(&mut self, channel: ChannelId, returned: Returned, wakes: &mut Vec<Waker>) {
        self.tell(|| api::Event::Returned {
            channel,
            returned: Arc::new(returned.clone()),
        });
        if let Some(slot) = self.slot_of(channel) {
            self.channels[slot].returns.push(returned, wakes);
        }
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

    // ----- requests -----

    /// Registers a request before it is sent.
    pub(crate) fn new_request(&mut self) -> RequestId {
        let request = self.conn.next_request();
        self.requests.insert(request, RequestSlot::Waiting(None));
        request
    }

    /// It was not sent after all.
    pub(crate) fn forget_request(&mut self, request: RequestId) {
        self.requests.remove(&request);
    }

    pub(crate) fn poll_request(
        &mut self,
        request: RequestId,
        waker: &Waker,
    ) -> Option<Result<Reply, RequestError>> {
        match self.requests.get_mut(&request)? {
            RequestSlot::Waiting(waiting) => {
                *waiting = Some(waker.clone());
                None
            }
            RequestSlot::Done(_) => match self.requests.remove(&request)? {
                RequestSlot::Done(result) => Some(result),
                RequestSlot::Waiting(_) => None,
            },
        }
    }

    /// A request that was sent cancels this consumer.
    pub(crate) fn add_cancel(&mut self, request: RequestId, consumer: ConsumerId) {
        self.cancels.insert(request, consumer);
    }

    /// The caller gave up: the answer goes to nobody, and what it brings, or has brought, is undone.
    pub(crate) fn abandon_request(&mut self, request: RequestId, channel: ChannelId) {
        let Some(slot) = self.requests.remove(&request) else {
            return;
        };
        if self.cancels.contains_key(&request) {
            return;
        }
        if let Ok(mut view) = self.conn.channel(channel) {
            match slot {
                RequestSlot::Waiting(_) => view.abandon(request),
                RequestSlot::Done(Err(_)) | RequestSlot::Done(Ok(Reply::Got(None))) => {}
                RequestSlot::Done(Ok(Reply::Got(Some((delivery, _))))) => {
                    view.give_back(&delivery);
                }
                RequestSlot::Done(Ok(
                    Reply::Channel(_) | Reply::Committed(_) | Reply::RolledBack(_),
                )) => {
                    view.close_when_settled(None);
                }
                RequestSlot::Done(Ok(Reply::Method(method))) => {
                    if let MethodId::CONFIRM_SELECT_OK | MethodId::TX_SELECT_OK = method.id() {
                        view.close_when_settled(None);
                    }
                }
            }
        }
        // If it was a consume: the consumer is cancelled, and what came for it goes back.
        self.drop_consumer(ConsumerId(request), &mut VecDeque::new());
    }

    // ----- publishes -----

    /// Publishes a message that is to be confirmed. It is taken when it was sent, and stays where it is otherwise.
    #[inline]
    pub(crate) fn publish(
        &mut self,
        slot: usize,
        unsent: &mut Option<Publication>,
    ) -> Result<(PublishKey, PublishSeq), NotSent> {
        let key = self.publishes.vacant_key();
        let seq = self.send(slot, unsent, key)?;
        self.publishes.insert(PublishSlot::Waiting(None));
        // A channel of this type is in confirm mode: its publishes have numbers.
        Ok((key, seq.unwrap_or(PublishSeq(0))))
    }

    /// Publishes a message that is not confirmed. It is taken when it was sent, and stays where it is otherwise.
    pub(crate) fn publish_unconfirmed(
        &mut self,
        slot: usize,
        unsent: &mut Option<Publication>,
    ) -> Result<(), NotSent> {
        self.send(slot, unsent, PublishKey::MAX).map(|_| ())
    }

    #[inline]
    fn send(
        &mut self,
        slot: usize,
        unsent: &mut Option<Publication>,
        key: PublishKey,
    ) -> Result<Option<PublishSeq>, NotSent> {
        let sent = match self.conn.channel(self.channels[slot].id) {
            Ok(mut view) => view.publish(unsent, key),
            Err(error) => Err(error.into()),
        };
        sent.map_err(|reason| self.explain_not_sent(slot, reason))
    }

    #[cold]
    fn explain_not_sent(&self, slot: usize, reason: NotSent) -> NotSent {
        match reason {
            NotSent::Usage(error) => NotSent::Usage(self.explain(slot, error)),
            NotSent::Full | NotSent::Blocked => reason,
        }
    }

    fn hand_out_settled(&mut self, wakes: &mut Vec<Waker>) {
        let mut settled = std::mem::take(&mut self.settled);
        for (key, outcome) in settled.drain(..) {
            self.settled(key, outcome, wakes);
        }
        self.settled = settled;
    }

    #[inline]
    fn settled(&mut self, key: PublishKey, outcome: Outcome, wakes: &mut Vec<Waker>) {
        let Some(slot) = self.publishes.get_mut(key) else {
            return;
        };
        match slot {
            PublishSlot::Waiting(waker) => {
                if let Some(waker) = waker.take() {
                    wakes.push(waker);
                }
                *slot = PublishSlot::Settled(outcome);
            }
            PublishSlot::Dropped(channel) => {
                let channel = *channel;
                self.publishes.remove(key);
                if let Outcome::Returned(returned) = outcome {
                    self.returned(channel, *returned, wakes);
                }
            }
            // proto settles each publish once.
            PublishSlot::Settled(_) => {}
        }
    }

    #[inline]
    pub(crate) fn poll_outcome(&mut self, key: PublishKey, waker: &Waker) -> Option<Outcome> {
        match self.publishes.get_mut(key)? {
            PublishSlot::Settled(_) => match self.publishes.remove(key) {
                PublishSlot::Settled(outcome) => Some(outcome),
                PublishSlot::Waiting(_) | PublishSlot::Dropped(_) => None,
            },
            PublishSlot::Waiting(known) => {
                if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                    *known = Some(waker.clone());
                }
                None
            }
            PublishSlot::Dropped(_) => None,
        }
    }

    /// Nobody waits for the outcome any more. Should the message come back, it goes to the returns stream.
    pub(crate) fn drop_confirm(&mut self, key: PublishKey, channel: ChannelId) -> Option<Waker> {
        let slot = self.publishes.get_mut(key)?;
        if let PublishSlot::Waiting(_) = slot {
            *slot = PublishSlot::Dropped(channel);
            return None;
        }
        let mut wakes = Vec::new();
        if let PublishSlot::Settled(Outcome::Returned(returned)) = self.publishes.remove(key) {
            self.returned(channel, *returned, &mut wakes);
        }
        wakes.pop()
    }

    // ----- waiting for room and for confirms -----

    /// Why a publish has to wait on this channel, if somebody waits for room there already.
    #[inline]
    pub(crate) fn why_queue(&self, slot: usize) -> Option<NotSent> {
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
            waiter.waker.clone_from(waker);
        }
        waiters.front().is_some_and(|first| first.key == key)
            || self.channels[slot].closed.is_some()
    }

    /// The waiter has what it wanted, or gave up. The next one is looked after.
    pub(crate) fn remove_room_waiter(&mut self, slot: usize, key: u64) {
        self.channels[slot]
            .waiters
            .retain(|waiter| waiter.key != key);
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
        if channel.closed.is_some() {
            return true;
        }
        // While the connection closes there is no view: the channel's end is waited for.
        if let Ok(view) = self.conn.channel(channel.id)
            && view.settled_through(seq)
        {
            return true;
        }
        let waker = waker.clone();
        match key.and_then(|key| {
            channel
                .settle_waiters
                .iter_mut()
                .find(|waiter| waiter.key == key)
        }) {
            Some(waiter) => waiter.waker = waker,
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
        self.channels[slot]
            .settle_waiters
            .retain(|waiter| waiter.key != key);
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

    fn await_channel(&mut self, slot: usize) {
        if !self.awaited.contains(&slot) {
            self.awaited.push(slot);
        }
    }

    /// Wakes the first of those who wait for room, where there is some or will be none any more, and those whose
    /// confirms are in.
    fn wake_awaited(&mut self, wakes: &mut Vec<Waker>) {
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
            if let Ok(view) = view {
                let settled = |waiter: &mut SettleWaiter| view.settled_through(waiter.seq);
                wakes.extend(
                    channel
                        .settle_waiters
                        .extract_if(.., settled)
                        .map(|waiter| waiter.waker),
                );
            }
            !channel.waiters.is_empty() || !channel.settle_waiters.is_empty()
        });
    }

    // ----- returns -----

    /// The next returned message that no confirm is about, or how many were given up before it.
    pub(crate) fn poll_returned(
        &mut self,
        slot: usize,
        waker: &Waker,
    ) -> Option<Option<Result<Returned, u64>>> {
        let channel = &mut self.channels[slot];
        let returns = &mut channel.returns;
        returns.wanted = true;
        if returns.missed > 0 {
            return Some(Some(Err(std::mem::take(&mut returns.missed))));
        }
        match returns.pop() {
            Some(returned) => Some(Some(Ok(returned))),
            None if channel.closed.is_some() => Some(None),
            None => {
                if !returns.wakers.iter().any(|known| known.will_wake(waker)) {
                    returns.wakers.push(waker.clone());
                }
                None
            }
        }
    }

    // ----- consumers -----

    /// Registers a consumer before it is asked for: its first message may come with the answer.
    pub(crate) fn add_consumer(
        &mut self,
        slot: usize,
        consumer: ConsumerId,
        budget: usize,
        overflow: Overflow,
    ) {
        let new = ConsumerSlot {
            channel: slot,
            budget,
            overflow,
            ..ConsumerSlot::default()
        };
        self.consumers.insert(consumer, new);
        self.channels[slot].consumers.push(consumer);
    }

    /// Whether reading from the connection has to wait for a consumer.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled > 0
    }

    fn delivered(&mut self, consumer: ConsumerId, delivery: Delivery, wakes: &mut Vec<Waker>) {
        let tag = delivery.tag();
        let Some(slot) = self.consumers.get_mut(&consumer) else {
            // The consumer was dropped and its cancel is on the way: back into the queue.
            if let Ok(mut view) = self.conn.channel(tag.channel()) {
                view.give_back(&delivery);
            }
            return;
        };
        slot.buffered += delivery.size() + DELIVERY_OVERHEAD;
        slot.queue.push_back(delivery);
        wakes.extend(slot.waker.take());
        if slot.buffered <= slot.budget {
            return;
        }
        match slot.overflow {
            Overflow::StallConnection if !slot.stalls => {
                slot.stalls = true;
                self.stalled += 1;
            }
            Overflow::StallConnection => {}
            Overflow::CloseChannel => {
                let cause = CloseCause::ConsumerOverflow {
                    budget: slot.budget,
                };
                if let Ok(mut view) = self.conn.channel(tag.channel()) {
                    view.close_because(ReplyCode::RESOURCE_ERROR, cause);
                }
            }
        }
    }

    /// The consumer's messages were taken, or it is gone: the connection may be read from again.
    fn unstall(&mut self, consumer: ConsumerId) {
        if let Some(slot) = self.consumers.get_mut(&consumer)
            && std::mem::take(&mut slot.stalls)
        {
            self.stalled -= 1;
        }
    }

    fn end_consumer(&mut self, consumer: ConsumerId, end: ConsumerEnd, wakes: &mut Vec<Waker>) {
        if let Some(slot) = self.consumers.get_mut(&consumer) {
            slot.end.get_or_insert(end);
            wakes.extend(slot.waker.take());
        }
    }

    /// Takes all deliveries there are, in exchange for an empty queue. `Some(Err)` when there is none and will be
    /// none any more.
    pub(crate) fn poll_deliveries(
        &mut self,
        consumer: ConsumerId,
        queue: &mut VecDeque<Delivery>,
        waker: &Waker,
    ) -> Option<Result<(), ConsumerEnd>> {
        let Some(slot) = self.consumers.get_mut(&consumer) else {
            return Some(Err(ConsumerEnd::Cancelled));
        };
        if !slot.queue.is_empty() {
            std::mem::swap(&mut slot.queue, queue);
            slot.buffered = 0;
            self.unstall(consumer);
            return Some(Ok(()));
        }
        if let Some(end) = &slot.end {
            return Some(Err(end.clone()));
        }
        slot.waker = Some(waker.clone());
        None
    }

    /// It has said that it is over.
    pub(crate) fn forget_consumer(&mut self, consumer: ConsumerId) {
        self.consumers.remove(&consumer);
    }

    /// The consumer was dropped: it is cancelled, and what it has not handed out goes back to its queue.
    pub(crate) fn drop_consumer(&mut self, consumer: ConsumerId, taken: &mut VecDeque<Delivery>) {
        self.unstall(consumer);
        let Some(dropped) = self.consumers.remove(&consumer) else {
            return;
        };
        let Some(channel) = self.channels.get_mut(dropped.channel) else {
            return;
        };
        channel.consumers.retain(|other| *other != consumer);
        if let Ok(mut view) = self.conn.channel(channel.id) {
            if dropped.end.is_none() {
                view.forget_consumer(consumer);
            }
            for delivery in taken.drain(..).chain(dropped.queue) {
                view.give_back(&delivery);
            }
        }
    }
}

impl ReturnsQueue {
    fn pop(&mut self) -> Option<Returned> {
        let returned = self.queue.pop_front()?;
        self.bytes -= returned.publication.message.body().len();
        Some(returned)
    }

    fn push(&mut self, returned: Returned, wakes: &mut Vec<Waker>) {
        if !self.wanted {
            let Publication {
                exchange,
                routing_key,
                ..
            } = &returned.publication;
            tracing::warn!(%exchange, %routing_key, code = returned.code.0, "message returned; nobody asked for returns");
        }
        self.bytes += returned.publication.message.body().len();
        self.queue.push_back(returned);
        while self.queue.len() > RETURNS_KEPT
            || (self.bytes > RETURNED_BYTES_KEPT && self.queue.len() > 1)
        {
            self.pop();
            self.missed += 1;
        }
        wakes.append(&mut self.wakers);
    }
}
