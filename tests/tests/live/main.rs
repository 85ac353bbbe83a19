//! The client against real RabbitMQ nodes: 3.10 and 4.0, each started once for this program, a virtual host for each
//! test. What is in a queue is asked in raw frames, not through the client.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

/// Makes a test for each version of RabbitMQ out of each of these functions, which take the node.
macro_rules! on_each_broker {
    ($($name:ident),+ $(,)?) => { $(on_each_broker!(@ $name, #[tokio::test]);)+ };
    (in two threads: $($name:ident),+ $(,)?) => {
        $(on_each_broker!(@ $name, #[tokio::test(flavor = "multi_thread", worker_threads = 2)]);)+
    };
    (@ $name:ident, #[$($test:tt)+]) => {
        mod $name {
            use amqp_tests::Version;

            #[$($test)+]
            async fn v3_10() {
                crate::support::run(Version::V3_10, super::$name).await;
            }

            #[$($test)+]
            async fn v4_0() {
                crate::support::run(Version::V4_0, super::$name).await;
            }
        }
    };
}

mod acknowledgements;
mod blocked;
mod channel_errors;
mod concurrent;
mod cuts;
mod flow;
mod handshake;
mod large;
mod lifecycle;
mod methods;
mod mixed;
mod protocol;
mod returns;
mod support;
mod topology;
mod tx;
