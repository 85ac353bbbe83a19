//! What all parts of one simulation share: its plan, its trace, what is wrong, and who waits for what.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use tokio::time::Instant;

use super::log::Log;
use super::network::{Cut, Ending};
use super::plan::Plan;
use super::truth::Truth;

/// What some hundred seeds have [seen](World::saw).
pub(crate) const REACHED: [&str; 23] = [
    "acked",
    "all channels opened",
    "blocked event",
    "channel closed",
    "channel closed by the broker",
    "channel.flow",
    "committed",
    "connection closed by the broker",
    "consumer cancelled by the broker",
    "delivery",
    "done while the task was at work",
    "future dropped",
    "handshake failed",
    "nacked",
    "not sent: blocked",
    "not sent: full",
    "request forgotten",
    "return without a confirm",
    "returned",
    "rolled back",
    "unknown: channel closed",
    "unknown: connection closed, unwritten",
    "unknown: timed out",
];

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    began: Instant,
    trace: Mutex<Trace>,
    truth: Mutex<Truth>,
    log: Mutex<Log>,
    faults: Mutex<Vec<String>>,
    /// What is being waited for, and since when.
    waiting: Mutex<BTreeMap<u64, (String, Instant)>>,
    next: Mutex<u64>,
    /// What other threads do while the task of a connection is at work.
    meanwhile: Mutex<BTreeMap<usize, Meanwhile>>,
    /// What has been seen to happen, to tell whether the simulation reaches what it is for.
    seen: Mutex<BTreeMap<&'static str, u64>>,
}

/// Something that is done amid a poll of a connection's task.
pub(crate) type Act = Box<dyn FnOnce() + Send>;

/// What is done when the task of one connection has looked for work, and goes to sleep.
#[derive(Default)]
struct Meanwhile {
    acts: Vec<Act>,
    task: Option<Waker>,
}

/// Everything that happened, in a number that is the same only if it was the same.
struct Trace {
    hash: u64,
    events: u64,
    line: String,
    /// Kept where somebody wants to read them.
    lines: Option<Vec<String>>,
}

/// What is left of a simulation.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) hash: u64,
    pub(crate) events: u64,
    pub(crate) faults: Vec<String>,
    pub(crate) lines: Vec<String>,
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

/// Names somebody who waits, until it is dropped.
pub(crate) struct Waiting {
    world: Arc<World>,
    key: u64,
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan, record: bool) -> Arc<Self> {
        let world = Arc::new(World {
            seed,
            plan,
            began: Instant::now(),
            trace: Mutex::new(Trace {
                hash: 0xCBF2_9CE4_8422_2325,
                events: 0,
                line: String::new(),
                lines: record.then(Vec::new),
            }),
            truth: Mutex::default(),
            log: Mutex::default(),
            faults: Mutex::default(),
            waiting: Mutex::default(),
            next: Mutex::new(1),
            meanwhile: Mutex::default(),
            seen: Mutex::default(),
        });
        world.note(format_args!("seed {seed}: {:?}", world.plan));
        world
    }

    /// Something happened.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let at = self.began.elapsed().as_millis();
        let mut trace = self.trace.lock().unwrap();
        let Trace {
            hash,
            events,
            line,
            lines,
        } = &mut *trace;
        line.clear();
        let _ = write!(line, "{at:>7} {what}");
        for byte in line.bytes() {
            *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        *events += 1;
        if let Some(lines) = lines {
            lines.push(line.clone());
        }
    }

    /// Something is wrong.
    pub(crate) fn fault(&self, what: fmt::Arguments<'_>) {
        self.note(format_args!("FAULT: {what}"));
        let at = self.began.elapsed().as_millis();
        self.faults
            .lock()
            .unwrap()
            .push(format!("after {at} ms: {what}"));
    }

    pub(crate) fn saw(&self, what: &'static str) {
        *self.seen.lock().unwrap().entry(what).or_default() += 1;
    }

    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap()
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    /// A number that nothing else in this simulation has.
    pub(crate) fn number(&self) -> u64 {
        let mut next = self.next.lock().unwrap();
        *next += 1;
        *next
    }

    /// Somebody begins to wait.
    pub(crate) fn waits(self: &Arc<Self>, what: String) -> Waiting {
        self.note(format_args!("{what}"));
        let key = self.number();
        self.waiting
            .lock()
            .unwrap()
            .insert(key, (what, Instant::now()));
        Waiting {
            world: self.clone(),
            key,
        }
    }

    /// Who waits, and for how long.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let waiting = self.waiting.lock().unwrap();
        waiting
            .values()
            .map(|(what, since)| format!("{what}, for {:?}", since.elapsed()))
            .collect()
    }

    /// Does it as another thread would: when the task of the connection has found nothing to do, and before it sleeps.
    /// Given back if there is no such task.
    pub(crate) fn act_meanwhile(&self, connection: usize, act: Act) -> Result<(), Act> {
        let mut all = self.meanwhile.lock().unwrap();
        let Some(meanwhile) = all.get_mut(&connection) else {
            return Err(act);
        };
        meanwhile.acts.push(act);
        let task = meanwhile.task.take();
        drop(all);
        task.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// The task of the connection finds nothing to read: others act.
    pub(crate) fn finds_nothing(&self, connection: usize, task: &Waker) {
        let mut all = self.meanwhile.lock().unwrap();
        let meanwhile = all.entry(connection).or_default();
        meanwhile.task = Some(task.clone());
        let acts = std::mem::take(&mut meanwhile.acts);
        drop(all);
        for act in acts {
            act();
        }
    }

    /// The task of the connection is gone, and nobody waits for it.
    pub(crate) fn task_is_gone(&self, connection: usize) {
        let gone = self.meanwhile.lock().unwrap().remove(&connection);
        // Outside the lock.
        drop(gone);
    }

    /// The network broke a connection.
    pub(crate) fn cut(&self, connection: usize, cut: Cut) {
        self.note(format_args!("{connection}: CUT {cut:?}"));
        self.saw(match cut.how {
            Ending::Reset => "reset",
            Ending::Closed => "end of stream",
            Ending::Silence => "silence",
        });
        self.truth().connections[connection].broken = true;
    }

    pub(crate) fn report(&self) -> Report {
        let mut trace = self.trace.lock().unwrap();
        Report {
            hash: trace.hash,
            events: trace.events,
            faults: self.faults.lock().unwrap().clone(),
            lines: trace.lines.take().unwrap_or_default(),
            seen: self.seen.lock().unwrap().clone(),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.world.waiting.lock().unwrap().remove(&self.key);
    }
}
