//! An AMQP 0-9-1 client in which every publish has an outcome.

#![forbid(unsafe_code)]

pub mod auth;
pub mod config;
pub mod error;
mod message;
pub mod negotiate;
mod outcome;
pub mod proto;
#[cfg(feature = "tokio")]
pub mod uri;

pub use amqp_codec as codec;
pub use auth::{AuthError, Credentials, Login, Mechanism, Sasl, Secret};
pub use config::ConnectOptions;
pub use message::{Message, Property, Publication};
pub use outcome::{Counts, Followed, Match, Outcome, Returned, UnknownReason};
pub use proto::ConfirmOptions;
#[cfg(feature = "tokio")]
pub use uri::{Uri, UriError};
