//! What the project's tests stand on:
//!
//! - [`broker`]: private RabbitMQ nodes, started, stopped, frozen and killed by the test.
//! - [`peer`]: a scripted server in raw frames, over TCP or in memory under virtual time.
//! - [`raw`]: a client in raw frames, so that a broker can be asked without trusting the client under test; with
//!   [`drain`] for what is in a queue.
//! - [`proxy`]: a TCP proxy that cuts, holds, delays and throttles at chosen bytes.
//! - [`wire`]: the framed connection that `peer` and `raw` share: sending, waiting with a deadline, the transcript.
//!
//! A test that fails here panics: what was expected, what came instead, and the last of the transcript.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a harness asserts: its panics are the tests' failures"
)]

pub mod broker;
pub mod peer;

pub mod proxy;
mod queue;
pub mod raw;
mod typed;
pub mod wire;

pub use broker::{Broker, Version};
pub use peer::Peer;

pub use proxy::Proxy;
pub use queue::{Got, drain};
pub use raw::RawClient;
