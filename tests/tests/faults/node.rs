//! The node of each version, which one test at a time may do anything to.

use std::time::Duration;

use amqp_tests::{Broker, Version};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::timeout;

/// How long one test may take, others' turns aside; this is for one that hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(240);

/// Runs a test on the node of this version.
pub(crate) async fn run(version: Version, test: impl AsyncFnOnce(&Broker)) {
    // They end with the process.
    static NODES: [OnceCell<Mutex<Broker>>; 2] = [const { OnceCell::const_new() }; 2];
    let slot = match version {
        Version::V3_10 => &NODES[0],
        Version::V4_0 => &NODES[1],
        Version::V4_3 => unreachable!("not tested here"),
    };
    let node = slot.get_or_init(|| async { Mutex::new(Broker::start(version).await) });
    let node = node.await.lock().await;
    heal(&node).await;
    if timeout(TEST_TIMEOUT, test(&node)).await.is_err() {
        panic!("not over after {TEST_TIMEOUT:?}");
    }
}

/// Undoes what the test before may have left when it failed.
async fn heal(node: &Broker) {
    if node.is_running() {
        node.resume();
        node.clear_alarm().await;
    } else {
        node.start_again().await;
    }
    for (name, value) in [
        ("consumer_timeout", "1800000"),
        ("channel_tick_interval", "60000"),
        ("handshake_timeout", "10000"),
        ("max_message_size", "16777216"),
    ] {
        set(node, name, value).await;
    }
}

/// Sets one of the node's own settings, for connections and channels from now on.
pub(crate) async fn set(node: &Broker, name: &str, value: &str) {
    // Where 4.x keeps what it looks at for each message.
    let persistent = match name {
        "max_message_size" => "persistent_term:put(max_message_size, V)",
        _ => "ok",
    };
    node.eval(&format!(
        "V = {value}, ok = application:set_env(rabbit, {name}, V), {persistent}"
    ))
    .await;
}
