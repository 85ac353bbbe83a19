//! The same result each time, and side by side with others.

use std::collections::BTreeMap;

use amqp_conformance::Verdict;
use amqp_conformance::report::CheckResult;
use amqp_conformance::runner::Options;
use amqp_tests::{Broker, Version};
use futures_util::future::join_all;

use crate::support::{assert_all_pass, profile, run, target};

/// What must be the same.
type Outcomes = BTreeMap<String, (Verdict, Option<String>)>;

fn outcomes(results: &[CheckResult]) -> Outcomes {
    assert_all_pass(results);
    let outcome = |it: &CheckResult| (it.label(), (it.verdict, it.found.clone()));
    results.iter().map(outcome).collect()
}

/// How many runs; more are for a person with time: `AMQP_CONFORMANCE_RUNS=10`.
fn runs() -> usize {
    let runs = std::env::var("AMQP_CONFORMANCE_RUNS").ok();
    runs.map_or(3, |runs| runs.parse().expect("a number of runs"))
}

#[tokio::test]
async fn in_a_row() {
    let broker = Broker::shared(Version::V4_0).await;
    let (target, profile) = (target(broker).await, profile(broker));
    let first = outcomes(&run(&target, &profile, &Options::default()).await);
    for _ in 1..runs() {
        let again = outcomes(&run(&target, &profile, &Options::default()).await);
        assert_eq!(again, first);
    }
}

#[tokio::test]
async fn three_at_once() {
    let broker = Broker::shared(Version::V3_10).await;
    let (target, profile) = (target(broker).await, profile(broker));
    let options = Options::default();
    let results = join_all((0..3).map(|_| run(&target, &profile, &options))).await;
    let results: Vec<Outcomes> = results.iter().map(|it| outcomes(it)).collect();
    assert_eq!(results[1], results[0]);
    assert_eq!(results[2], results[0]);
}

/// After a run there is no queue, exchange or connection of it on the virtual host.
#[tokio::test]
async fn nothing_is_left_behind() {
    let broker = Broker::shared(Version::V4_0).await;
    let vhost = broker.vhost("clean").await;
    let target = amqp_conformance::Target::parse(&vhost.uri).expect("the harness makes URIs");
    outcomes(&run(&target, &profile(broker), &Options::default()).await);
    for (what, command) in [("queues", "list_queues"), ("exchanges", "list_exchanges")] {
        let names = broker
            .ctl(&["-q", command, "-p", &vhost.name, "name"])
            .await;
        let left: Vec<&str> = names
            .lines()
            .filter(|it| it.contains("conformance"))
            .collect();
        assert!(left.is_empty(), "{what} left behind: {left:?}");
    }
}
