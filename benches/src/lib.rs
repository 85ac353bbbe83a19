//! What the benchmarks share: a broker that costs next to nothing, a client that does as little as a client can, and
//! the machinery that measures what a message costs.
//!
//! | command | says |
//! |---|---|
//! | `cargo bench -p amqp-benches --bench cost` | cost of a confirmed publish and of a delivery, with targets |
//! | `cargo bench -p amqp-benches --bench scale` | what many channels and idle connections cost, with targets |
//! | `cargo bench -p amqp-benches --bench codec` | time to decode and encode each kind of frame |
//! | `cargo bench -p amqp-benches --bench codec_cost` | instructions and allocations of the same, with targets |
//! | `scripts/bench [PART...]` | the same work done with peers, into `results/` ([`side_by_side`]) |
//!
//! They start the binary `null-broker` and, as its child, one of the binaries whose names have a `load` in them under
//! the tools that count system calls and instructions. All can be run by hand.

pub mod blast;
pub mod codec;
pub mod floor;
pub mod load;
pub mod measure;
pub mod null_broker;
pub mod side_by_side;
pub mod wire;
pub mod workload;
