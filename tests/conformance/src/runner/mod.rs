//! Runs checks side by side, each in a task of its own and under its own deadline, and cleans up after each.

mod case;

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};
use tokio::time::Instant;

use crate::check::Check;
use crate::control::Control;
use crate::preflight;
use crate::profile::Profile;
use crate::report::CheckResult;
use crate::target::Target;
#[cfg(doc)]
use crate::verdict::Verdict;

use case::{Case, Ran};

pub use case::{NOT_CLEANED_UP, PANIC};

/// What is [found](CheckResult::found) of checks that were not run because the broker did not come back.
pub const BROKER_GONE: &str = "the broker went away";
/// What is [found](CheckResult::found) of checks that were not run because the user asked for the end.
pub const INTERRUPTED: &str = "interrupted";

/// How checks are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many at once.
    pub jobs: usize,
    /// What every deadline is multiplied with.
    pub timeout_factor: f64,
    /// Whether each check runs a second time with its bytes sent one by one.
    pub chop: bool,
    /// Whether checks that hurt a shared broker run too.
    pub hurt: bool,
    /// Who does to the broker what no client can.
    pub control: Option<Control>,
    /// How long a broker that has gone away may take to come back, before `timeout_factor`.
    pub restart: Duration,
    /// Once set, no further check is begun, and a broker that has gone away is not waited for.
    pub interrupted: Rc<Cell<bool>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            jobs: 16,
            timeout_factor: 1.0,
            chop: false,
            hurt: false,
            control: None,
            restart: Duration::from_secs(15),
            interrupted: Rc::default(),
        }
    }
}

/// Runs the checks and returns what became of them, in their order; `done` is told of each as it ends.
///
/// Checks that hurt run after all others, one at a time. When the broker goes away, those that ran at the time run again,
/// one at a time and once it is back: whose doing it was shows then. When it does not come back within
/// [`restart`](Options::restart), the run ends, and what was not run has the verdict [`Verdict::NotRun`].
///
/// There is an end to it whatever the broker does. A broker that falls silent for good is given up after the longest
/// deadline of the checks that run (10 s each unless they say otherwise), 10 s to clean up, 5 s to see that it is gone, and
/// `restart` with at most 5 s more to see that it is not back: 45 s. One that goes away again and again and always comes
/// back costs each check at most twice that. `timeout_factor` multiplies all of these.
pub async fn run(
    checks: Vec<Rc<Check>>,
    target: &Target,
    profile: Option<&Profile>,
    options: &Options,
    mut done: impl FnMut(&CheckResult),
) -> Vec<CheckResult> {
    let run = Run {
        id: format!("{:08x}", rand::random::<u32>()),
        target: Rc::new(target.clone()),
        options: options.clone(),
        gone: Cell::new(false),
    };
    let mut results = Vec::new();
    let mut finished = |ran: Ran| {
        let result = ran.into_result(profile);
        done(&result);
        results.push(result);
    };
    let (mut hurting, mut others): (VecDeque<Case>, VecDeque<Case>) = cases(checks, options)
        .into_iter()
        .partition(|case| case.check.hurts);
    let all = async {
        run.all(&mut others, options.jobs.max(1), &mut finished)
            .await;
        run.all(&mut hurting, 1, &mut finished).await;
    };
    LocalSet::new().run_until(all).await;
    let why = match run.gone.get() {
        true => BROKER_GONE,
        false => INTERRUPTED,
    };
    results.extend(others.into_iter().chain(hurting).map(|it| it.not_run(why)));
    results.sort_by_key(|result| result.order);
    results
}

/// How many cases there are: checks, twice those that are chopped too.
pub fn count(checks: &[Rc<Check>], options: &Options) -> usize {
    cases(checks.to_vec(), options).len()
}

fn cases(checks: Vec<Rc<Check>>, options: &Options) -> Vec<Case> {
    let chops: &[bool] = if options.chop {
        &[false, true]
    } else {
        &[false]
    };
    checks
        .into_iter()
        .filter(|check| options.hurt || !check.hurts)
        .flat_map(|check| chops.iter().map(move |chop| (Rc::clone(&check), *chop)))
        .enumerate()
        .map(|(order, (check, chop))| Case { order, check, chop })
        .collect()
}

/// What the cases of a run have in common.
struct Run {
    id: String,
    target: Rc<Target>,
    options: Options,
    /// The broker went away and has not come back: nothing is run any more.
    gone: Cell<bool>,
}

impl Run {
    /// Runs cases, `jobs` at once, until there are no more or the run [ends early](Self::ends): the rest stays in `cases`.
    async fn all(&self, cases: &mut VecDeque<Case>, jobs: usize, finished: &mut dyn FnMut(Ran)) {
        while !cases.is_empty() && !self.ends() {
            let suspects = self.until_lost(cases, jobs, finished).await;
            let lost = !suspects.is_empty();
            for suspect in suspects {
                finished(match self.broker_is_back().await {
                    true => self.case(suspect.case).await,
                    // There is no second time: what it found the first time counts.
                    false => suspect,
                });
            }
            if lost {
                self.broker_is_back().await;
            }
        }
    }

    /// Runs cases until there are no more, or the broker goes away: then returns those that failed with it.
    async fn until_lost(
        &self,
        cases: &mut VecDeque<Case>,
        jobs: usize,
        finished: &mut dyn FnMut(Ran),
    ) -> Vec<Ran> {
        let mut running = JoinSet::new();
        let mut suspects = Vec::new();
        loop {
            while suspects.is_empty()
                && running.len() < jobs
                && !self.ends()
                && let Some(case) = cases.pop_front()
            {
                running.spawn_local(self.case(case));
            }
            match running.join_next().await {
                None => return suspects,
                Some(Ok(ran)) => {
                    let lost = ran.outcome.is_err()
                        && !self.ends()
                        && (!suspects.is_empty() || !self.alive().await);
                    match lost {
                        true => suspects.push(ran),
                        false => finished(ran),
                    }
                }
                // The check itself runs in a task within this one: there is nothing of it that could panic here.
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            }
        }
    }

    /// Nothing more is begun.
    fn ends(&self) -> bool {
        self.gone.get() || self.options.interrupted.get()
    }

    /// Whether the broker is there.
    async fn alive(&self) -> bool {
        preflight::answers(&self.target, self.options.timeout_factor).await
    }

    /// Waits until the broker is there again, no longer than it may take to restart; not at all once the run ends.
    async fn broker_is_back(&self) -> bool {
        let restart = self.options.restart.mul_f64(self.options.timeout_factor);
        let deadline = Instant::now() + restart;
        while !self.ends() {
            if self.alive().await {
                return true;
            }
            if Instant::now() >= deadline {
                self.gone.set(true);
            }
            // Nobody tells when a port is open: it has to be asked for again and again.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        false
    }
}
