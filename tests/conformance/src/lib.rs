//! A conformance suite for AMQP 0-9-1 brokers: named checks in raw frames, aimed at any address.
//!
//! - [`mod@check`]: what a check is; [`checks`] has all of them, one file a group, and says how to write one.
//! - [`context`] and [`connection`]: what a check is given to talk to the broker with.
//! - [`verify`]: what is right and what is not, said of [events](event) alone.
//! - [`profile`]: the known deviations of a broker, as data; [`verdict`] what an outcome counts as, [`ending`] how
//!   connections and channels ended.
//! - [`runner`] and [`preflight`]: run them; [`report`] what was found.

pub mod check;
pub mod checks;
pub mod cli;
pub mod connection;
pub mod context;
pub mod control;
pub mod ending;
pub mod event;
pub mod failure;
pub mod preflight;
pub mod profile;
mod record;
pub mod report;
pub mod runner;
pub mod target;
pub mod verdict;
pub mod verify;
mod wire;

pub use check::{Check, Level, Source, check};
pub use connection::{Confirm, Connection, Login};
pub use context::Context;
pub use event::{Content, Event, Typed};
pub use failure::{Failure, ensure, ensure_eq};
pub use profile::Profile;
pub use target::Target;
pub use verdict::Verdict;
