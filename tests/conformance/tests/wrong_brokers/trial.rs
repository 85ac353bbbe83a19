//! What each wrong broker is put to.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use amqp_conformance::control::Control;
use amqp_conformance::report::{self, CheckResult};
use amqp_conformance::runner::{self, NOT_CLEANED_UP, Options, PANIC};
use amqp_conformance::{Profile, Target, Verdict, checks};
use amqp_tests::{Broker, Version};
use futures_util::{StreamExt as _, stream};
use libtest_mimic::Failed;
use tokio::sync::{Mutex, MutexGuard};

use crate::broker::{Fault, WrongBroker, nothing};
use crate::mended::MendedBroker;
use crate::operator::operator;
use crate::proxy;

/// Short, because a wrong broker is often one that says nothing; and for a machine that is busy otherwise.
const TIMEOUT_FACTORS: [f64; 2] = [0.25, 1.0];

/// How many of a broker's checks are run side by side.
const AT_ONCE: usize = 6;

/// The nodes, in the order in which they are asked; a check is held against the first that passes it.
const NODES: [Version; 2] = [Version::V4_0, Version::V3_10];

/// Each check that it names passes behind the proxy when nothing is changed, and fails when it is.
pub(crate) fn is_caught(wrong: &WrongBroker) -> Result<(), Failed> {
    if wrong.caught_by.is_empty() {
        return Err("no check is named".into());
    }
    side_by_side(&wrong.caught_by, async |check: &'static str| {
        holds(check, &wrong.fault).await
    })
}

fn side_by_side(
    checks: &[&'static str],
    trial: impl AsyncFn(&'static str) -> Result<(), String>,
) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let complaints: Vec<String> = stream::iter(checks)
            .map(|check| trial(check))
            .buffer_unordered(AT_ONCE)
            .filter_map(async |held| held.err())
            .collect()
            .await;
        match complaints.is_empty() {
            true => Ok(()),
            false => Err(complaints.join("\n").into()),
        }
    })
}

/// The check passes without the fault and fails with it, at the same patience.
async fn holds(check: &str, fault: &Fault) -> Result<(), String> {
    let Some(version) = conforming(check) else {
        return Err(format!("{check}: no node is known to pass it"));
    };
    let node = &Node::of(check, version).await;
    let mut complaint = String::new();
    for factor in TIMEOUT_FACTORS {
        let right = run(check, node, nothing(), factor).await;
        if right.verdict.fails(true) {
            complaint = format!("without the fault:\n{}", report::failure(&right));
            continue;
        }
        let result = run(check, node, Arc::clone(fault), factor).await;
        return match not_caught(&result) {
            None => Ok(()),
            Some(why) => Err(format!("{why}:\n{}", report::failure(&result))),
        };
    }
    Err(complaint)
}

/// Each check that it names passes behind the proxy; that no node passes it without is what the profiles say.
pub(crate) fn passes(mended: &MendedBroker) -> Result<(), Failed> {
    side_by_side(&mended.passes, async |check: &'static str| {
        if conforming(check).is_some() {
            return Err(format!("{check}: a node passes it as it is"));
        }
        let node = &Node::of(check, NODES[0]).await;
        let mut complaint = String::new();
        for factor in TIMEOUT_FACTORS {
            let result = run(check, node, Arc::clone(&mended.fault), factor).await;
            if result.verdict == Verdict::Passed {
                return Ok(());
            }
            complaint = report::failure(&result);
        }
        Err(complaint)
    })
}

/// The first node whose profile has no deviation from the check.
fn conforming(check: &str) -> Option<Version> {
    let all = checks::all();
    all.iter().find(|it| it.name == check)?;
    NODES.into_iter().find(|version| {
        let profile = Profile::load(&format!("rabbitmq-{version}"), &all);
        profile.is_ok_and(|profile| profile.deviation(check).is_none())
    })
}

/// What a check is held against.
enum Node {
    Shared(SocketAddr),
    /// For checks that hurt, one at a time.
    Hurt(MutexGuard<'static, Option<Arc<Broker>>>),
}

impl Node {
    async fn of(check: &str, version: Version) -> Self {
        static HURT: [Mutex<Option<Arc<Broker>>>; NODES.len()] =
            [const { Mutex::const_new(None) }; NODES.len()];
        let hurts = checks::all().iter().any(|it| it.name == check && it.hurts);
        match NODES.iter().position(|it| *it == version) {
            Some(at) if hurts => {
                let mut node = HURT[at].lock().await;
                if node.is_none() {
                    *node = Some(Arc::new(Broker::start(version).await));
                }
                Self::Hurt(node)
            }
            _ => Self::Shared(Broker::shared(version).await.address()),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Shared(address) => *address,
            Self::Hurt(node) => node.as_ref().expect("it was just started").address(),
        }
    }

    fn operator(&self) -> Option<Control> {
        match self {
            Self::Shared(_) => None,
            Self::Hurt(node) => node.as_ref().map(Arc::clone).map(operator),
        }
    }
}

async fn run(name: &str, node: &Node, fault: Fault, factor: f64) -> CheckResult {
    let address = proxy::start(node.address(), fault).await;
    let target = Target::parse(&format!("amqp://{address}")).expect("an address makes a URL");
    let check = checks::all().into_iter().find(|it| it.name == name);
    let check = Rc::new(check.expect("it was found before"));
    let options = Options {
        timeout_factor: factor,
        hurt: true,
        control: node.operator(),
        // It is not gone, it is wrong.
        restart: Duration::ZERO,
        ..Options::default()
    };
    let mut results = runner::run(vec![check], &target, None, &options, |_| {}).await;
    results.pop().expect("a result for the check")
}

/// Why this is not how a check catches a wrong broker.
fn not_caught(result: &CheckResult) -> Option<&'static str> {
    let found = result.found.as_deref();
    if !matches!(result.verdict, Verdict::Failed | Verdict::NonStrict) {
        Some("the check does not fail")
    } else if found == Some(PANIC) || found == Some(NOT_CLEANED_UP) {
        Some("the check fails for another reason")
    } else if result.rule.is_empty() || !report::failure(result).contains(&result.rule) {
        Some("the rule is not named")
    } else {
        None
    }
}

/// A check that nothing makes fail says nothing. What a real RabbitMQ does not pass is caught by that.
pub(crate) fn every_check_is_caught(caught: &BTreeSet<&str>) -> Result<(), Failed> {
    let all = checks::all();
    let missing: Vec<&str> = all
        .iter()
        .map(|check| check.name)
        .filter(|name| !caught.contains(name) && !NODES.iter().any(|it| deviates(*it, name)))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("no wrong broker is caught by {}", missing.join(", ")).into()),
    }
}

/// A check that nothing passes asks for what cannot be. What some node passes can be.
pub(crate) fn every_check_can_pass(passed: &BTreeSet<&str>) -> Result<(), Failed> {
    let all = checks::all();
    let missing: Vec<&str> = all
        .iter()
        .map(|check| check.name)
        .filter(|name| !passed.contains(name) && NODES.iter().all(|it| deviates(*it, name)))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("no mended broker passes {}", missing.join(", ")).into()),
    }
}

fn deviates(version: Version, check: &str) -> bool {
    Profile::load(&format!("rabbitmq-{version}"), &checks::all())
        .is_ok_and(|profile| profile.deviation(check).is_some())
}

/// There are enough of them, and no two have a name in common.
pub(crate) fn distinct(names: Vec<&str>, at_least: usize) -> Result<(), Failed> {
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    if distinct.len() != names.len() {
        return Err("two wrong brokers have the same name".into());
    }
    match names.len() >= at_least {
        true => Ok(()),
        false => Err(format!("{} wrong brokers, not {at_least}", names.len()).into()),
    }
}
