//! Each check can fail: brokers that are wrong on purpose, each caught by the checks that it names.
//!
//! A wrong broker is a real RabbitMQ behind a [proxy](proxy) that changes what is said: one file a group of checks says
//! which, in the words of [`WrongBroker`](broker::WrongBroker). For each of them a check that it names must pass through
//! the same proxy when nothing is changed, and fail when it is. And each check can pass: what no RabbitMQ does as the
//! specification says is [mended](mended). `cargo test --test wrong_brokers NAME` runs one.

mod broker;
mod mended;
#[path = "../common/operator.rs"]
mod operator;
mod proxy;
mod trial;

mod authentication;
mod basic_ack;
mod basic_consume;
mod basic_get;
mod basic_publish;
mod basic_return;
mod channel;
mod closing;
mod confirm;
mod connection;
mod connection_tune;
mod content;
mod exchange;
mod field_table;
mod framing;
mod handshake;
mod heartbeat;
mod limits;
mod properties;
mod queue;
mod queue_arguments;
mod routing;
mod tx;

use libtest_mimic::{Arguments, Trial};

use broker::WrongBroker;

/// How many wrong brokers there are at least.
const AT_LEAST: usize = 60;

fn main() {
    let mut arguments = Arguments::from_args();
    // They wait most of the time.
    arguments.test_threads.get_or_insert(12);
    let brokers = brokers();
    let mut trials = vec![
        Trial::test("all/checks-are-caught", {
            let caught = brokers.iter().flat_map(|it| it.caught_by.clone()).collect();
            move || trial::every_check_is_caught(&caught)
        }),
        Trial::test("all/distinct", {
            let names = brokers.iter().map(|it| it.name).collect();
            move || trial::distinct(names, AT_LEAST)
        }),
    ];
    trials.extend(
        brokers
            .into_iter()
            .map(|broker| Trial::test(broker.name, move || trial::is_caught(&broker))),
    );
    let mended = mended::brokers();
    trials.push(Trial::test("all/checks-can-pass", {
        let passed = mended.iter().flat_map(|it| it.passes.clone()).collect();
        move || trial::every_check_can_pass(&passed)
    }));
    trials.extend(
        mended
            .into_iter()
            .map(|broker| Trial::test(broker.name, move || trial::passes(&broker))),
    );
    libtest_mimic::run(&arguments, trials).exit();
}

fn brokers() -> Vec<WrongBroker> {
    [
        authentication::brokers(),
        basic_ack::brokers(),
        basic_consume::brokers(),
        basic_get::brokers(),
        basic_publish::brokers(),
        basic_return::brokers(),
        channel::brokers(),
        closing::brokers(),
        confirm::brokers(),
        connection::brokers(),
        connection_tune::brokers(),
        content::brokers(),
        exchange::brokers(),
        field_table::brokers(),
        framing::brokers(),
        handshake::brokers(),
        heartbeat::brokers(),
        limits::brokers(),
        properties::brokers(),
        queue::brokers(),
        queue_arguments::brokers(),
        routing::brokers(),
        tx::brokers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
