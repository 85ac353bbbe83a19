//! The harness's own tests: what other tests believe must be true.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod broker;
mod peer;
mod proxy;
mod raw;
