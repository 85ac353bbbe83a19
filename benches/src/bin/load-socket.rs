//! The loads by a blocking socket.

use std::alloc::System;

use amqp_benches::load::{self, Failure};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<(), Failure> {
    load::program::<load::socket::Socket>()
}
