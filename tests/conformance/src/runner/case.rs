//! One check, from its start to the last trace of it.

use std::rc::Rc;
use std::time::{Duration, Instant};

use amqp_codec::{exchange, queue};
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Run;
use crate::check::Check;
use crate::connection::Connection;
use crate::context::Context;
use crate::ending::{Ended, Ending};
use crate::failure::Failure;
use crate::profile::Profile;
use crate::record::{Leftover, Record};
use crate::report::CheckResult;
use crate::verdict::Verdict;

/// How long the connections of a check may take to close after it, and what it left behind to be deleted.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// One run of one check.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) order: usize,
    pub(super) check: Rc<Check>,
    pub(super) chop: bool,
}

impl Case {
    /// What is known of a case that was not run, and why it was not.
    pub(super) fn not_run(self, why: &str) -> CheckResult {
        let check = &self.check;
        CheckResult {
            order: self.order,
            check: check.name.to_owned(),
            chopped: self.chop,
            level: check.level,
            source: check.source.to_string(),
            rule: check.rule.to_owned(),
            verdict: Verdict::NotRun,
            expected: None,
            found: Some(why.to_owned()),
            detail: None,
            observed: None,
            reason: None,
            instead: None,
            endings: Vec::new(),
            seconds: 0.0,
            transcript: String::new(),
        }
    }
}

impl Run {
    /// Runs one check and cleans up after it.
    pub(super) fn case(&self, case: Case) -> impl Future<Output = Ran> + 'static {
        let target = Rc::clone(&self.target);
        let (control, factor) = (self.options.control.clone(), self.options.timeout_factor);
        let prefix = format!("amqp-conformance.{}.{}", self.id, case.order);
        async move {
            let began = Instant::now();
            let record = Rc::new(Record::new());
            let context = |chop| {
                let (target, control) = (Rc::clone(&target), control.clone());
                let record = Rc::clone(&record);
                Context::new(target, control, record, prefix.clone(), chop, factor)
            };
            let outcome = attempt(&case.check, context(case.chop), factor).await;
            close(&record, CLEAN_UP.mul_f64(factor)).await;
            let took = began.elapsed();
            // What cleaning up says to the broker is no part of the check.
            let (transcript, endings) = (record.transcript(), record.endings());
            let leftovers = record.leftovers.take();
            let left = timeout(CLEAN_UP.mul_f64(factor), delete(&context(false), leftovers)).await;
            let outcome = outcome.and(match left {
                Ok(Ok(())) => Ok(()),
                Ok(Err(failure)) => Err(not_cleaned(failure)),
                Err(elapsed) => Err(not_cleaned(elapsed)),
            });
            Ran {
                case,
                outcome,
                observed: record.observed(),
                transcript,
                endings,
                took,
            }
        }
    }
}

/// The check, in a task of its own so that its panic is its own failure.
async fn attempt(check: &Rc<Check>, mut context: Context, factor: f64) -> Result<(), Failure> {
    let deadline = check.deadline.mul_f64(factor);
    let check = Rc::clone(check);
    let mut task = JoinSet::new();
    task.spawn_local(async move {
        match timeout(deadline, check.run(&mut context)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let expected = format!("an end within {} s", deadline.as_secs_f64());
                Err(Failure::new(expected, "timeout"))
            }
        }
    });
    match task.join_next().await {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(Failure::new("a check without faults", PANIC).detail(error)),
        None => Ok(()),
    }
}

/// Closes in good order what the check left open.
async fn close(record: &Rc<Record>, patience: Duration) {
    let open = record.open.take();
    join_all(open.into_iter().map(async |wire| {
        let number = wire.number;
        let mut connection = Connection::new(wire, Rc::clone(record));
        if timeout(patience, connection.close_in_order())
            .await
            .is_err()
        {
            record.ended(number, 0, Ending::NotEnded);
        }
    }))
    .await;
}

/// Deletes what outlives the check's connections, over a connection of its own.
async fn delete(context: &Context, leftovers: Vec<Leftover>) -> Result<(), Failure> {
    if leftovers.is_empty() {
        return Ok(());
    }
    let mut connection = context.open().await?;
    // A channel for each: a broker may close it over what is not there.
    for (channel, leftover) in (1..).zip(leftovers) {
        connection.open_channel(channel).await?;
        match leftover {
            Leftover::Queue(queue) => {
                let delete = queue::Delete {
                    queue,
                    ..Default::default()
                };
                connection.send(channel, delete).await?;
            }
            Leftover::Exchange(exchange) => {
                let delete = exchange::Delete {
                    exchange,
                    ..Default::default()
                };
                connection.send(channel, delete).await?;
            }
        }
        // The answer, or the close of the channel.
        connection.next_on(channel).await;
    }
    connection.close().await
}

/// The check passed, but something of it is still there.
fn not_cleaned(why: impl std::fmt::Display) -> Failure {
    let expected = "the queues and exchanges of the check to be deleted after it";
    Failure::new(expected, NOT_CLEANED_UP).detail(why)
}

/// What is [found](Failure::found) of a check that passes, but cannot be cleaned up after.
pub const NOT_CLEANED_UP: &str = "not cleaned up";
/// What is [found](Failure::found) of a check that is wrong itself.
pub const PANIC: &str = "panic";

/// What became of a case.
pub(super) struct Ran {
    pub(super) case: Case,
    pub(super) outcome: Result<(), Failure>,
    observed: Option<String>,
    transcript: String,
    endings: Vec<Ended>,
    took: Duration,
}

impl Ran {
    pub(super) fn into_result(self, profile: Option<&Profile>) -> CheckResult {
        let check = &self.case.check;
        let deviation = profile.and_then(|profile| profile.deviation(check.name));
        let failure = self.outcome.err();
        let observed = self.observed.is_some();
        let verdict = Verdict::of(check, failure.as_ref(), observed, deviation);
        CheckResult {
            order: self.case.order,
            check: check.name.to_owned(),
            chopped: self.case.chop,
            level: check.level,
            source: check.source.to_string(),
            rule: check.rule.to_owned(),
            verdict,
            expected: failure.as_ref().map(|it| it.expected.clone()),
            found: failure.as_ref().map(|it| it.found.clone()),
            detail: failure.and_then(|it| it.detail),
            observed: self.observed,
            reason: deviation.map(|it| it.reason.clone()),
            instead: deviation.map(|it| it.instead.clone()),
            endings: self.endings,
            seconds: self.took.as_secs_f64(),
            transcript: self.transcript,
        }
    }
}
