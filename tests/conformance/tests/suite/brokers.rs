//! Every check passes or is a profiled deviation, with its bytes whole and one by one.

use std::sync::Arc;

use amqp_conformance::runner::Options;
use amqp_tests::{Broker, Version};

use crate::operator::operator;
use crate::support::{assert_all_pass, profile, run, target};

async fn conforms(version: Version) {
    // One of its own: some of the checks hurt.
    let broker = Arc::new(Broker::start(version).await);
    let options = Options {
        chop: true,
        hurt: true,
        control: Some(operator(Arc::clone(&broker))),
        ..Options::default()
    };
    let results = run(&target(&broker).await, &profile(&broker), &options).await;
    assert_all_pass(&results);
}

#[tokio::test]
async fn rabbitmq_3_10() {
    conforms(Version::V3_10).await;
}

#[tokio::test]
async fn rabbitmq_4_0() {
    conforms(Version::V4_0).await;
}
