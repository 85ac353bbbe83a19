//! Channels in confirm mode: every publish has an outcome.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use amqp_codec::{ShortStr, TooLong};

use super::Methods;
use super::channel::{ChannelCore, addressed};
use super::trace::PublishSpan;
use crate::driver::State;
use crate::error::{Error, NotSent, Operation, PublishError};
use crate::message::{Message, Publication};
use crate::outcome::{Counts, Outcome};
use crate::proto::{ChannelId, ConfirmStatus, PublishId, PublishSeq};

/// A channel on which every publish has an [`Outcome`].
///
/// Clones are the same channel, for many tasks: each publish is numbered, registered and put into the
/// outgoing buffer in one step, so that none gets another's confirm. It derefs to [`Methods`].
///
/// Dropping the last handle, [`Confirm`]s included, closes the channel when its publishes are settled.
pub struct ConfirmChannel {
    methods: Methods,
    /// How long a publish waits for room.
    wait: Duration,
    /// What [`wait_for_confirms`](Self::wait_for_confirms) has told before.
    told: Mutex<Counts>,
}

impl Clone for ConfirmChannel {
    fn clone(&self) -> Self {
        let told = Mutex::new(*self.told.lock().unwrap_or_else(PoisonError::into_inner));
        ConfirmChannel {
            methods: self.methods.clone(),
            wait: self.wait,
            told,
        }
    }
}

impl ConfirmChannel {
    pub(super) fn new(methods: Methods, wait: Duration) -> Self {
        ConfirmChannel {
            methods,
            wait,
            told: Mutex::default(),
        }
    }

    /// Publishes a message, waiting for room in flight if there is none (at most as long as
    /// [`ConfirmOptions::wait`](crate::ConfirmOptions::wait) says). Those who wait are served in turn.
    ///
    /// What comes back at once is the promise of an outcome: await it now, or later, or keep many.
    ///
    /// # Errors
    /// Nothing was sent, and the message is in the error: the channel or connection is closed, the message
    /// cannot be sent, or there was no room in time.
    ///
    /// # Cancel safety
    /// Dropped while it waits for room, nothing is sent. Once it has returned, the message is in the outgoing
    /// buffer, whole.
    pub fn publish<E, K>(
        &self,
        exchange: E,
        routing_key: K,
        message: Message,
    ) -> impl Future<Output = Result<Confirm, PublishError>>
    where
        E: TryInto<ShortStr<'static>>,
        K: TryInto<ShortStr<'static>>,
        TooLong: From<E::Error> + From<K::Error>,
    {
        // Made where it stays until it is sent: as an `async fn`, this would move message and address once more.
        let mut addressed = addressed(exchange, routing_key, message).map(Some);
        async move {
            match addressed {
                Ok(ref mut unsent) => self.publish_or_wait(unsent).await,
                Err(error) => Err(error),
            }
        }
    }

    /// Publishes what came back, or was not sent, to where it was to go.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn publish_again(&self, publication: Publication) -> Result<Confirm, PublishError> {
        self.publish_or_wait(&mut Some(publication)).await
    }

    #[inline]
    async fn publish_or_wait(
        &self,
        unsent: &mut Option<Publication>,
    ) -> Result<Confirm, PublishError> {
        let core = self.methods.core();
        let span = PublishSpan::begin(core, unsent.as_ref());
        match try_once(core, unsent, &State::publish) {
            Ok(seq) => Ok(Confirm::new(core, seq, span)),
            Err(reason) => self.publish_when_room(reason, unsent.take(), span).await,
        }
    }

    async fn publish_when_room(
        &self,
        reason: NotSent,
        unsent: Option<Publication>,
        span: PublishSpan,
    ) -> Result<Confirm, PublishError> {
        let core = self.methods.core();
        match wait_for_room(core, reason, unsent, self.wait, State::publish).await {
            Ok(seq) => Ok(Confirm::new(core, seq, span)),
            Err(error) => {
                span.refused();
                Err(error)
            }
        }
    }

    /// Publishes a message if there is room in flight, and nobody waits for some already.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), without waiting: [`NotSent::Full`] or [`NotSent::Blocked`] at once.
    pub fn try_publish<E, K>(
        &self,
        exchange: E,
        routing_key: K,
        message: Message,
    ) -> Result<Confirm, PublishError>
    where
        E: TryInto<ShortStr<'static>>,
        K: TryInto<ShortStr<'static>>,
        TooLong: From<E::Error> + From<K::Error>,
    {
        let mut unsent = Some(addressed(exchange, routing_key, message)?);
        let core = self.methods.core();
        let span = PublishSpan::begin(core, unsent.as_ref());
        match try_once(core, &mut unsent, &State::publish) {
            Ok(seq) => Ok(Confirm::new(core, seq, span)),
            Err(reason) => {
                span.refused();
                Err(PublishError::new(reason, unsent))
            }
        }
    }

    /// Waits until everything that was published on the channel before this call has its outcome, and says
    /// what became of all that settled since this handle last told (since it was made, the first time).
    /// Others may go on publishing. Outcomes stay with their [`Confirm`]s.
    ///
    /// # Errors
    /// Not all settled within the deadline. The counts are told next time.
    ///
    /// # Cancel safety
    /// Nothing is lost: the counts are told next time.
    pub async fn wait_for_confirms(&self, deadline: Duration) -> Result<Counts, Error> {
        let core = self.methods.core();
        let seq = PublishSeq(self.status().last);
        let mut waiter = SettleWaiter { core, key: None };
        let settled = poll_fn(|cx| {
            let mut state = core.shared().lock();
            match state.poll_settled(core.slot, &mut waiter.key, seq, cx.waker()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        match tokio::time::timeout(deadline, settled).await {
            Ok(()) => {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                // Looked at under this lock: others who wait on this handle may have told some since.
                let counts = self.status().counts;
                let new = counts.since(&told);
                *told = counts;
                Ok(new)
            }
            Err(_) => Err(Error::timeout(Operation::Confirms, deadline)),
        }
    }

    /// How many publishes are in flight, and what became of those that are settled. All zero once the channel
    /// is closed, except for the counts.
    pub fn status(&self) -> ConfirmStatus {
        let core = self.methods.core();
        core.shared().lock().confirm_status(core.slot)
    }
}

/// The promise of an outcome. Awaiting it gives the [`Outcome`]; it always settles, at the latest when the
/// confirm timeout or the connection ends it.
///
/// Dropping it forgets the answer, and with it whether the message arrived, not the accounting: the publish keeps its place in flight until it is settled.
/// Should its message come back, it is in [`returns`](Methods::returns).
///
/// # Cancel safety
/// Polled in part and dropped, it is dropped. Polled by reference, nothing is lost.
#[must_use = "only the outcome says whether the broker has the message"]
pub struct Confirm {
    /// `None` once the outcome was taken.
    waiting: Option<Waiting>,
    seq: PublishSeq,
}

/// For an outcome.
struct Waiting {
    core: Arc<ChannelCore>,
    span: PublishSpan,
}

impl Confirm {
    #[inline]
    fn new(core: &Arc<ChannelCore>, seq: PublishSeq, span: PublishSpan) -> Self {
        let core = core.clone();
        Confirm {
            waiting: Some(Waiting { core, span }),
            seq,
        }
    }

    /// The publish's number on its channel: 1 for the first after confirm.select.
    pub fn sequence_number(&self) -> u64 {
        self.seq.0
    }
}

impl Future for Confirm {
    type Output = Outcome;

    /// # Panics
    /// If polled again after it was ready.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let Waiting { core, .. } = self
            .waiting
            .as_ref()
            .expect("a confirm is not polled after it was ready");
        let polled = core
            .shared()
            .lock()
            .poll_outcome(&core.id, self.seq, cx.waker());
        if let Poll::Ready(outcome) = &polled
            && let Some(Waiting { core, span }) = self.waiting.take()
        {
            span.end(&core, self.seq, outcome);
        }
        polled
    }
}

impl Drop for Confirm {
    #[inline]
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.forget(self.seq);
        }
    }
}

impl Waiting {
    /// Nobody waits for the outcome any more.
    #[cold]
    fn forget(self, seq: PublishSeq) {
        let id = PublishId {
            channel: self.core.id,
            seq,
        };
        let wakes = self.core.shared().lock().drop_confirm(id);
        wakes.into_iter().for_each(Waker::wake);
    }
}

/// Puts a message into the outgoing buffer with `put`, unless somebody waits for room already.
#[inline]
pub(super) fn try_once<R>(
    core: &ChannelCore,
    unsent: &mut Option<Publication>,
    put: &impl Fn(&mut State, ChannelId, usize, &mut Option<Publication>) -> Result<R, NotSent>,
) -> Result<R, NotSent> {
    let mut state = core.shared().lock();
    if let Some(reason) = state.why_queue(core.slot) {
        return Err(reason);
    }
    let result = put(&mut state, core.id, core.slot, unsent)?;
    let task = state.take_asleep();
    drop(state);
    if let Some(task) = task {
        task.wake();
    }
    Ok(result)
}

/// Puts a message that was refused for this reason into the outgoing buffer with `put` if it had to wait: after those who
/// waited before, when there is room.
pub(super) async fn wait_for_room<R>(
    core: &Arc<ChannelCore>,
    mut reason: NotSent,
    mut unsent: Option<Publication>,
    wait: Duration,
    put: impl Fn(&mut State, ChannelId, usize, &mut Option<Publication>) -> Result<R, NotSent>,
) -> Result<R, PublishError> {
    if let NotSent::Usage(_) = reason {
        return Err(PublishError::new(reason, unsent));
    }
    let mut waiter = RoomWaiter { core, key: None };
    let room = poll_fn(|cx| waiter.poll(cx, &mut reason, &mut unsent, &put));
    match tokio::time::timeout(wait, room).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(reason)) => Err(PublishError::new(reason, unsent)),
        Err(_) => Err(PublishError::new(reason, unsent)),
    }
}

/// A place in the queue for room.
struct RoomWaiter<'a> {
    core: &'a ChannelCore,
    key: Option<u64>,
}

impl RoomWaiter<'_> {
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        reason: &mut NotSent,
        unsent: &mut Option<Publication>,
        put: &impl Fn(&mut State, ChannelId, usize, &mut Option<Publication>) -> Result<R, NotSent>,
    ) -> Poll<Result<R, NotSent>> {
        let slot = self.core.slot;
        self.core.shared().with(|state| {
            let key = *self.key.get_or_insert_with(|| {
                let body_len = unsent
                    .as_ref()
                    .map_or(0, |unsent| unsent.message.body().len());
                state.add_room_waiter(slot, body_len, cx.waker())
            });
            if !state.may_try(slot, key, cx.waker()) {
                if let Some(why) = state.why_queue(slot) {
                    *reason = why;
                }
                return Poll::Pending;
            }
            match put(state, self.core.id, slot, unsent) {
                Err(why @ (NotSent::Full | NotSent::Blocked)) => {
                    *reason = why;
                    Poll::Pending
                }
                result => Poll::Ready(result),
            }
        })
    }
}

impl Drop for RoomWaiter<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // The next one in the queue is looked after by `with`.
            self.core
                .shared()
                .with(|state| state.remove_room_waiter(self.core.slot, key));
        }
    }
}

/// A place among those who wait for confirms.
struct SettleWaiter<'a> {
    core: &'a ChannelCore,
    key: Option<u64>,
}

impl Drop for SettleWaiter<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut state = self.core.shared().lock();
            state.forget_settle_waiter(self.core.slot, key);
        }
    }
}

impl Deref for ConfirmChannel {
    type Target = Methods;

    fn deref(&self) -> &Methods {
        &self.methods
    }
}

impl fmt::Debug for ConfirmChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfirmChannel")
            .field(&self.methods.core().id.number)
            .finish()
    }
}

impl fmt::Debug for Confirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Confirm").field(&self.seq.0).finish()
    }
}
