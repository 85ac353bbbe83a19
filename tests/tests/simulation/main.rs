//! A deterministic simulation: the client, its driver included, against a model of a broker over a simulated network,
//! all from one seed and in virtual time.
//!
//! - The client is the real one: [`Connection::open_over`](amqp_client::Connection::open_over) one end of a stream that
//!   [`network`] makes. Client, broker and programs are tasks of one runtime with a single thread and a paused clock.
//! - [`plan`] draws from the seed what the simulation is like, [`workload`] what the programs do, [`broker`] what the
//!   broker does. Nothing else decides anything, so that a seed that fails does so again.
//! - [`truth`] is what the broker knows, [`log`] what the programs were told; [`checks`] compares them at the end, and
//!   [`explain`] looks for the reason of each failure when it happens.
//! - There is no second thread. What one could do between a connection's task having found nothing to do and its going to
//!   sleep, a program does from within the poll of its stream
//!   ([`World::act_meanwhile`](world::World::act_meanwhile)).
//! - Some seeds are *calm*: network and broker are fast, and no deadline of the client's is. There a call that takes long
//!   was not woken, for which no deadline and no heartbeat is allowed to make up. In seeds that are *faultless* too,
//!   nobody ends anything, and every call has to succeed.
//!
//! Not turmoil: that simulates hosts and sockets by name and brings TCP of its own, while the client takes any stream; a
//! stream of our own breaks at a chosen byte, writes in part, and tells how often it is polled.
//!
//! `AMQP_SIM_SEEDS=0..100000` chooses the seeds, `AMQP_SIM_SEED=17` replays one and prints its trace.

#![allow(clippy::unwrap_used, reason = "tests")]

mod broker;
mod checks;
mod explain;
mod log;
mod network;
mod plan;
mod random;
mod runner;
mod truth;
mod workload;
mod world;

use std::ops::Range;

use self::plan::{Lie, Plan};

/// How many seeds are simulated unless said.
const SEEDS: u64 = 1000;

fn seeds() -> Range<u64> {
    let Ok(range) = std::env::var("AMQP_SIM_SEEDS") else {
        return 0..SEEDS;
    };
    let range = range
        .split_once("..")
        .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.expect("AMQP_SIM_SEEDS is FROM..TO")
}

#[test]
fn the_client_tells_the_truth_and_ends_every_call() {
    if let Ok(seed) = std::env::var("AMQP_SIM_SEED") {
        return replay(seed.parse().expect("AMQP_SIM_SEED is a number"));
    }
    let summary = runner::run(seeds());
    eprintln!("{} seeds, {} events", summary.seeds, summary.events);
    for (what, seeds) in &summary.seen {
        eprintln!("{seeds:>7} seeds: {what}");
    }
    // What the simulation is for does happen in it.
    for what in world::REACHED {
        assert!(
            summary.seen.contains_key(what) || summary.seeds < SEEDS,
            "in no seed: {what}"
        );
    }
}

/// Simulates one seed and prints its trace.
fn replay(seed: u64) {
    let report = runner::simulate(seed, true);
    for line in &report.lines {
        eprintln!("{line}");
    }
    assert!(report.faults.is_empty(), "{:#?}", report.faults);
}

/// The checks can fail: a broker that lies is found out.
#[test]
fn every_lie_of_the_broker_is_found() {
    for lie in Lie::ALL {
        let found = (0..200).find(|seed| {
            let mut plan = Plan::of(*seed);
            plan.broker.lie = Some(lie);
            let report = runner::simulate_plan(*seed, plan, false);
            !report.faults.is_empty()
        });
        assert!(found.is_some(), "{lie:?} is not found");
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in (0..40).chain(1_000_000..1_000_040) {
        let (once, again) = (runner::simulate(seed, true), runner::simulate(seed, true));
        let differs = once.lines.iter().zip(&again.lines).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(
            (once.hash, once.events),
            (again.hash, again.events),
            "seed {seed}"
        );
    }
}
