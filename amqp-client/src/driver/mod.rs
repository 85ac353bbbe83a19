//! One task a connection: the only place that knows a socket and asks the clock.
//!
//! The handles of the `api` and the task share one [`State`] behind one short lock. A handle puts what it
//! wants to send into the outgoing buffer itself and wakes the task if that sleeps; the task writes what
//! has gathered, reads, and tells the handles what came of it.

mod connect;
mod ids;
mod state;
mod task;
#[cfg_attr(not(feature = "rustls"), path = "no_tls.rs")]
mod tls;

pub(crate) use connect::{connect, open_over};
pub(crate) use state::{ConsumerEnd, Interest, Shared, State};
