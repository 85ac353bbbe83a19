//! A server that misbehaves in many named ways, before, during and after the handshake. Each case is data: what the
//! client is doing, what the server does, and what has to come of it: which error with which code, what the server is
//! told, what survives, how long it takes at most and how much memory.
//!
//! The harness is not the usual one: cases run one after the other, each on a runtime of one thread, so that what an
//! allocator counts is one case's; and each has its own line in the result. Time is virtual but where sockets matter.
#![allow(clippy::unwrap_used, reason = "tests")]

mod case;
mod cases;
mod handshake;
mod memory;
mod open;
mod peer;
mod stage;
mod wire;

use std::sync::mpsc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use case::{Case, Scene};

/// How many ways there have to be.
const AT_LEAST: usize = 120;
/// How long a case may take by the clock on the wall: a loop without end must not be one of this suite.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let cases = cases::all();
    let names: Vec<_> = cases.iter().map(|case| case.name).collect();
    let mut trials = vec![Trial::test("suite/names", move || check_names(names))];
    trials.extend(
        cases
            .into_iter()
            .map(|case| Trial::test(case.name, move || watched(case))),
    );
    libtest_mimic::run(&arguments, trials).exit();
}

fn check_names(mut names: Vec<&str>) -> Result<(), Failed> {
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each name stands for one case");
    assert!(count >= AT_LEAST, "{count} cases");
    Ok(())
}

/// Runs a case, and ends everything if it does not end by itself.
fn watched(case: Case) -> Result<(), Failed> {
    let (done, waits) = mpsc::channel::<()>();
    let name = case.name;
    let watchdog = std::thread::spawn(move || {
        if waits.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name} does not end");
            std::process::exit(101);
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()?;
    runtime.block_on(async {
        match case.scene {
            Scene::Handshake(step) => handshake::run(case, step).await,
            _ => open::run(case).await,
        }
    });
    drop(done);
    watchdog.join().map_err(|_| "the watchdog")?;
    Ok(())
}
