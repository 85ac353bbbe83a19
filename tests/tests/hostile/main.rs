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
mod limits;
mod memory;
mod open;
mod peer;
mod play;
mod sockets;
mod stage;
mod wire;

use std::sync::mpsc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use case::Scene;

/// How many ways there have to be.
const AT_LEAST: usize = 120;
/// How long a case may take by the clock on the wall: a loop without end must not be one of this suite.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let mut trials = Vec::new();
    for case in cases::all() {
        let name = case.name;
        trials.push(trial(name, true, || async move {
            match case.scene {
                Scene::Handshake(step) => handshake::run(case, step).await,
                _ => open::run(case).await,
            }
        }));
    }
    for play in limits::all() {
        trials.push(trial(play.name, true, || play::run(play)));
    }
    for play in sockets::all() {
        trials.push(trial(play.name, false, || play::run(play)));
    }
    let names: Vec<_> = trials.iter().map(|trial| trial.name().to_owned()).collect();
    trials.push(Trial::test("suite/names", move || check_names(names)));
    libtest_mimic::run(&arguments, trials).exit();
}

fn check_names(mut names: Vec<String>) -> Result<(), Failed> {
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each name stands for one case");
    assert!(count >= AT_LEAST, "{count} cases");
    Ok(())
}

/// A case on a runtime of its own, in virtual time or not. Should it not end by itself, everything ends.
fn trial<F: Future<Output = ()>>(
    name: &'static str,
    virtual_time: bool,
    case: impl FnOnce() -> F + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let (done, waits) = mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if waits.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{name} does not end");
                std::process::exit(101);
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(virtual_time)
            .build()?;
        runtime.block_on(case());
        drop(done);
        watchdog.join().map_err(|_| "the watchdog")?;
        Ok(())
    })
}
