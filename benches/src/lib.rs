//! What the benchmarks share: a broker that costs next to nothing, a client that does as little as a client can, and
//! the machinery that measures what a message costs.
//!
//! | command | says |
//! |---|---|
//! | `cargo bench -p amqp-benches --bench cost` | cost of a confirmed publish and of a delivery, with targets |
//! | `cargo bench -p amqp-benches --bench scale` | what many channels and idle connections cost, with targets |
//! | `cargo bench -p amqp-benches --bench codec` | time to decode and encode each kind of frame |
//!
//! `cost` starts the binary `null-broker` and, as its child, the binary `publish-load` under the tools that count
//! system calls and instructions. Both can be run by hand.

pub mod blast;
pub mod codec;
pub mod floor;
pub mod load;
pub mod measure;
pub mod null_broker;
pub mod wire;
pub mod workload;
