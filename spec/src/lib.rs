//! AMQP 0-9-1 and RabbitMQ's extensions as data, and the generator of `amqp-codec`'s method types.
//!
//! The data is `amqp-0-9-1.toml`, the specification alone, and `rabbitmq.toml`, a layer over it in which every deviation
//! has its reason. [`load()`] reads and checks both, [`emit()`] turns them into Rust source and [`dictionary()`] into words
//! for fuzzers; the program of this package writes that to `amqp-codec/src/generated` and `fuzz/dictionaries`, or with
//! `--check` tells whether what is there is up to date.

mod emit;
mod load;
pub mod model;

pub use emit::{File, dictionary, emit};
pub use load::{LoadError, apply, check, load, parse_base, parse_layer};

/// The specification, as TOML.
pub const BASE: &str = include_str!("../amqp-0-9-1.toml");

/// RabbitMQ's layer over it, as TOML.
pub const RABBITMQ: &str = include_str!("../rabbitmq.toml");
