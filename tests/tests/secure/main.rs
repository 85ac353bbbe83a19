//! TLS, authentication and addresses: the client against RabbitMQ 3.10 and 4.0, against itself in TLS, and against
//! scripted peers. Each version's node is started once for this program.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

/// Makes a test for each version of RabbitMQ out of each of these functions, which take the node.
macro_rules! on_each_broker {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            use amqp_tests::Version;

            #[tokio::test]
            async fn v3_10() {
                super::$name(crate::node::node(Version::V3_10).await).await;
            }

            #[tokio::test]
            async fn v4_0() {
                super::$name(crate::node::node(Version::V4_0).await).await;
            }
        }
    )+ };
}

mod addresses;
mod login;
mod node;
mod pki;
mod secrets;
mod tls;
mod tls_settings;
mod transports;
