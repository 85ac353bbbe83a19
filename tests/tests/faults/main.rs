//! Nodes that are killed, stopped, frozen and alarmed under the client, and consumers that do not read: everything ends,
//! with an error that says what happened, and what was acked is there. One node of each version, for one test at a
//! time.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

/// Makes a test for each version of RabbitMQ out of each of these functions, which take the node.
macro_rules! on_each_broker {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            use amqp_tests::Version;

            #[tokio::test]
            async fn v3_10() {
                crate::node::run(Version::V3_10, async |node| super::$name(node).await).await;
            }

            #[tokio::test]
            async fn v4_0() {
                crate::node::run(Version::V4_0, async |node| super::$name(node).await).await;
            }
        }
    )+ };
}

mod alarm;
mod events;
mod limits;
mod lost;
mod node;
mod stalled;
#[path = "../live/support.rs"]
#[allow(dead_code, reason = "the live tests need all of it")]
mod support;
mod traffic;
