//! Runs seeds: one after the other on each of a few threads, and a failing one once more, with its trace.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, mpsc};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use super::plan::Plan;
use super::world::{Report, World};
use super::{checks, workload};

/// How long all may take, in virtual time. Each call has a deadline of seconds.
const LIMIT: Duration = Duration::from_secs(3600);

/// What follows the last call: connections that close in the background, and brokers that wait for them.
const AFTERMATH: Duration = Duration::from_secs(120);

/// How long a seed may take in real time: it takes milliseconds, unless somebody holds a lock that he waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many failures are told of.
const FAILURES: usize = 5;

/// How many of the last lines of a trace are shown.
const LINES: usize = 80;

/// What many seeds came to.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) seeds: u64,
    pub(crate) events: u64,
    /// What has been seen, and in how many seeds.
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

/// Simulates one seed. With `record`, the report has the trace in words.
pub(crate) fn simulate(seed: u64, record: bool) -> Report {
    simulate_plan(seed, Plan::of(seed), record)
}

/// The same by another plan than the seed's.
pub(crate) fn simulate_plan(seed: u64, plan: Plan, record: bool) -> Report {
    catch_panics();
    PANICS.with_borrow_mut(|panics| *panics = Some(Vec::new()));
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let world = runtime.block_on(async {
        let world = World::new(seed, plan, record);
        let work = tokio::spawn(workload::run(world.clone()));
        if tokio::time::timeout(LIMIT, work).await.is_err() {
            let waiting = world.waiting().join("\n    ");
            world.fault(format_args!(
                "after {LIMIT:?} there are calls that have not ended:\n    {waiting}"
            ));
        } else {
            tokio::time::sleep(AFTERMATH).await;
            let tasks = Handle::current().metrics().num_alive_tasks();
            if tasks > 0 {
                world.fault(format_args!("{tasks} tasks are left when all is done"));
            }
        }
        world
    });
    // Drops the tasks that are left, which may panic too.
    drop(runtime);
    let panics = PANICS.with_borrow_mut(Option::take).unwrap_or_default();
    for panic in panics {
        world.fault(format_args!("{panic}"));
    }
    checks::check(&world);
    world.report()
}

thread_local! {
    /// Panics on this thread, while it simulates.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// tokio catches panics of tasks; here they are faults.
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let simulating = PANICS.with_borrow_mut(|panics| match panics {
                Some(panics) => {
                    panics.push(info.to_string());
                    true
                }
                None => false,
            });
            if !simulating {
                usual(info);
            }
        }));
    });
}

/// Simulates all of these seeds.
///
/// # Panics
/// Some of them fail: with what is wrong, the commands that replay them, and the trace of the first.
pub(crate) fn run(seeds: Range<u64>) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let (results, reports) = mpsc::channel();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut summary = Summary::default();
    let mut failures: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut running: BTreeMap<usize, u64> = BTreeMap::new();
    // Not scoped: one that hangs must not keep the others from telling.
    let next = std::sync::Arc::new(next);
    for thread in 0..threads {
        let (results, next, end) = (results.clone(), next.clone(), seeds.end);
        std::thread::spawn(move || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end || results.send((thread, seed, None)).is_err() {
                    break;
                }
                let report = simulate(seed, false);
                if results.send((thread, seed, Some(report))).is_err() {
                    break;
                }
            }
        });
    }
    drop(results);
    loop {
        match reports.recv_timeout(PATIENCE) {
            Ok((thread, seed, None)) => {
                running.insert(thread, seed);
            }
            Ok((thread, seed, Some(report))) => {
                running.remove(&thread);
                summary.seeds += 1;
                summary.events += report.events;
                for what in report.seen.keys() {
                    *summary.seen.entry(what).or_default() += 1;
                }
                if !report.faults.is_empty() {
                    failures.insert(seed, report.faults);
                    if failures.len() >= FAILURES {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                for seed in running.values() {
                    let hung = format!(
                        "it has not ended after {PATIENCE:?} of real time: somebody waits for a lock, or goes round in \
                         circles"
                    );
                    failures.entry(*seed).or_default().push(hung);
                }
                // To replay such a seed would hang too.
                panic!("{}", describe(&seeds, &summary, &failures, None));
            }
        }
    }
    if let Some(first) = failures.keys().next() {
        let again = simulate(*first, true);
        panic!("{}", describe(&seeds, &summary, &failures, Some(&again)));
    }
    summary
}

/// What is wrong, and how to see it again.
fn describe(
    seeds: &Range<u64>,
    summary: &Summary,
    failures: &BTreeMap<u64, Vec<String>>,
    again: Option<&Report>,
) -> String {
    let mut text = format!(
        "{} of {} seeds of {seeds:?} failed\n",
        failures.len(),
        summary.seeds
    );
    for (seed, faults) in failures {
        let _ = writeln!(
            text,
            "\nseed {seed}: AMQP_SIM_SEED={seed} cargo test -p amqp-tests --test simulation truth -- --nocapture"
        );
        for fault in faults.iter().take(5) {
            let _ = writeln!(text, "    {fault}");
        }
        if faults.len() > 5 {
            let _ = writeln!(text, "    and {} more", faults.len() - 5);
        }
    }
    let Some(again) = again else { return text };
    let first = again.lines.iter().position(|line| line.contains("FAULT"));
    let until = first.map_or(again.lines.len(), |first| first + 1);
    let from = until.saturating_sub(LINES);
    let _ = writeln!(text, "\nthe first, up to its first fault:");
    for line in again.lines.iter().take(1).chain(&again.lines[from..until]) {
        let _ = writeln!(text, "{line}");
    }
    text
}
