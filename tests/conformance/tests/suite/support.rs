use std::rc::Rc;

use amqp_conformance::report::CheckResult;
use amqp_conformance::runner::{self, Options};
use amqp_conformance::{Check, Profile, Target, checks, report};
use amqp_tests::Broker;

/// The profile of this node's version.
pub(crate) fn profile(broker: &Broker) -> Profile {
    let name = format!("rabbitmq-{}", broker.version());
    Profile::load(&name, &checks::all()).expect("a built-in profile")
}

/// The node, on a virtual host of its own.
pub(crate) async fn target(broker: &Broker) -> Target {
    let vhost = broker.vhost("conformance").await;
    Target::parse(&vhost.uri).expect("the harness makes URIs")
}

/// Runs the whole suite.
pub(crate) async fn run(target: &Target, profile: &Profile, options: &Options) -> Vec<CheckResult> {
    let checks: Vec<Rc<Check>> = checks::all().into_iter().map(Rc::new).collect();
    runner::run(checks, target, Some(profile), options, |_| {}).await
}

/// Fails with all about those that do not pass, SHOULDs and what is not implemented included.
pub(crate) fn assert_all_pass(results: &[CheckResult]) {
    let failures: Vec<String> = results
        .iter()
        .filter(|result| result.verdict.fails(true))
        .map(report::failure)
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
