//! Somebody who calls the client, and what all such have in common: names, choices, deadlines, changes of mind.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::random::Random;
use crate::world::World;

/// What a deadline may be missed by: clocks tick in milliseconds.
pub(crate) const SLACK: Duration = Duration::from_millis(50);

/// What nothing takes longer than in a calm simulation, where every deadline of the client's is longer. What takes
/// longer was not woken.
const CALM: Duration = Duration::from_secs(25);

/// Somebody who calls the client.
pub(crate) struct Actor {
    pub(crate) world: Arc<World>,
    pub(crate) random: Random,
    name: String,
}

impl Actor {
    pub(super) fn new(world: &Arc<World>, random: Random, name: String) -> Self {
        Actor {
            world: world.clone(),
            random,
            name,
        }
    }

    /// Somebody who does a part of the work, on a task of its own.
    pub(super) fn part(&mut self, name: String) -> Self {
        Actor::new(
            &self.world,
            self.random.fork(),
            format!("{}, {name}", self.name),
        )
    }

    /// Does the work on a task of its own, which now and then lets others go first.
    pub(super) fn spawn<F>(mut self, work: impl FnOnce(Actor) -> F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let hesitating = Hesitating {
            world: self.world.clone(),
            random: self.random.fork(),
            future: Box::pin(work(self)),
        };
        tokio::spawn(hesitating)
    }

    /// Waits some milliseconds, or not.
    pub(super) async fn pause(&mut self, most: u64) {
        if self.random.chance(600) {
            tokio::time::sleep(self.random.millis(most)).await;
        }
    }

    /// Waits for something that may last so long.
    pub(super) async fn wait<F: Future>(
        &mut self,
        what: String,
        bound: Duration,
        future: F,
    ) -> F::Output {
        let waiting = self.world.waits(format!("{}: {what}", self.name));
        let began = Instant::now();
        let output = future.await;
        drop(waiting);
        self.world.note(format_args!("{}: {what}: done", self.name));
        self.check_time(&what, bound, began.elapsed());
        output
    }

    /// The same, or drops it before it is ready.
    pub(super) async fn risky<F: Future>(
        &mut self,
        what: String,
        bound: Duration,
        future: F,
    ) -> Option<F::Output> {
        if !self.random.chance(self.world.plan.drops) {
            let moves = self.random.chance(200);
            return Some(self.wait(what, bound, after_a_move(moves, future)).await);
        }
        let polls = self.random.between(0, 3);
        let dropping = match self.random.between(0, 2) {
            0 => Dropping::Polled(polls),
            1 => Dropping::Woken(polls),
            _ => Dropping::After(self.random.millis(60)),
        };
        let what = format!("{what}, dropped when {dropping:?}");
        let output = self.wait(what, bound, drop_when(dropping, future)).await;
        if output.is_none() {
            self.world.saw("future dropped");
        }
        output
    }

    /// Waits for something that may come or not; `None` if it has not come after so long.
    ///
    /// What is there by then, and has not woken who waits for it, is a fault: nothing else would have either.
    pub(super) async fn patient<F: Future>(
        &mut self,
        what: String,
        patience: Duration,
        future: F,
    ) -> Option<F::Output> {
        let waiting = self.world.waits(format!("{}: {what}", self.name));
        let moves = self.random.chance(200);
        let mut future = pin!(after_a_move(moves, future));
        let mut sleep = pin!(tokio::time::sleep(patience));
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let output = poll_fn(|cx| {
            bell.pass_on_to(cx.waker());
            if bell.was_rung()
                && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Poll::Ready(Some(output));
            }
            sleep.as_mut().poll(cx).map(|()| None)
        })
        .await;
        drop(waiting);
        let late = match (&output, bell.is_rung()) {
            (None, false) => future.as_mut().poll(&mut Context::from_waker(&waker)),
            (None, true) | (Some(_), _) => Poll::Pending,
        };
        if late.is_ready() {
            let name = &self.name;
            self.world.fault(format_args!(
                "{name}: {what} was there, and who waited for it was not woken"
            ));
        }
        self.world
            .note(format_args!("{}: {what}: {}", self.name, output.is_some()));
        output
    }

    /// Does something as another thread would, amid a poll of the connection's task; `None` if that went before.
    pub(super) async fn meanwhile<R: Send + 'static>(
        &mut self,
        connection: usize,
        what: String,
        act: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (tell, told) = oneshot::channel();
        let act = move || {
            // Who asked waits for it.
            let _ = tell.send(act());
        };
        if let Err(act) = self.world.act_meanwhile(connection, Box::new(act)) {
            act();
        }
        // The task does not look while it waits for a consumer.
        let done = self.wait(what, Duration::MAX, told).await.ok();
        if done.is_some() {
            self.world.saw("done while the task was at work");
        }
        done
    }

    fn check_time(&self, what: &str, bound: Duration, took: Duration) {
        let bound = match bound {
            Duration::MAX => return,
            bound => bound + SLACK,
        };
        if took > bound {
            let name = &self.name;
            self.world.fault(format_args!(
                "{name}: {what} took {took:?}, where {bound:?} are the limit"
            ));
        } else if self.world.plan.calm && took > CALM {
            let name = &self.name;
            self.world.fault(format_args!(
                "{name}: {what} took {took:?}, though network and broker are fast: was somebody not woken?"
            ));
        }
    }
}

/// Polls it with the waker of somebody else first, as when a future moves from one task to another: from the next poll
/// on, the old waker is of no use.
async fn after_a_move<F: Future>(moves: bool, future: F) -> F::Output {
    let mut future = pin!(future);
    if moves {
        let mut elsewhere = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut elsewhere) {
            return output;
        }
    }
    future.await
}

/// Remembers that it was rung, and wakes somebody then.
struct Bell {
    rung: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Default for Bell {
    /// What was not polled yet is to be polled.
    fn default() -> Self {
        Bell {
            rung: AtomicBool::new(true),
            waker: Mutex::default(),
        }
    }
}

impl Bell {
    fn pass_on_to(&self, waker: &Waker) {
        *self.waker.lock().unwrap() = Some(waker.clone());
    }

    fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Relaxed)
    }

    fn was_rung(&self) -> bool {
        self.rung.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Relaxed);
        let waker = self.waker.lock().unwrap().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// When a future is dropped.
#[derive(Debug, Clone, Copy)]
enum Dropping {
    /// After it was polled so often.
    Polled(u64),
    /// When it is woken after it was polled so often.
    Woken(u64),
    After(Duration),
}

async fn drop_when<F: Future>(when: Dropping, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let (mut left, at_wake) = match when {
        Dropping::After(after) => return tokio::time::timeout(after, future).await.ok(),
        Dropping::Polled(polls) => (polls, false),
        Dropping::Woken(polls) => (polls + 1, true),
    };
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        if at_wake && left == 0 {
            // This is the wake.
            return Poll::Ready(None);
        }
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A task that lets others go first, now and then.
struct Hesitating {
    world: Arc<World>,
    random: Random,
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Future for Hesitating {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let yields = self.world.plan.yields;
        if self.random.chance(yields) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.future.as_mut().poll(cx)
    }
}
