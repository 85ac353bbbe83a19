//! The client against a peer that misbehaves: everything that a broker, or something that is none, can do to it, in
//! memory and in virtual time where no socket is needed.
#![allow(clippy::unwrap_used, reason = "tests")]

mod broker;
mod cancel;
mod closing;
mod concurrent;
mod confirms;
mod consuming;
mod cuts;
mod flood;
mod handles;
mod handshake;
mod heartbeat;
mod refusals;
mod secrets;
mod support;
mod tx;
mod unread;
mod violations;
mod waiting;
mod wakeups;
