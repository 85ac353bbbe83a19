//! An AMQP 0-9-1 client in which every publish has an outcome.

#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod api;
pub mod auth;
pub mod config;
#[cfg(feature = "tokio")]
mod driver;
pub mod error;
mod message;
pub mod negotiate;
mod outcome;
pub mod proto;
#[cfg(feature = "tokio")]
pub mod uri;

#[cfg(feature = "tokio")]
pub use api::{
    Acker, Channel, Committed, Confirm, ConfirmChannel, Connection, Consume, Consumer, ConsumerError, Delivery,
    Event,
    Events, ExchangeDeclare, Got, Methods, Missed, Overflow, QueueDeclare, QueueDelete, QueueInfo, Returns, TxChannel,
};
pub use amqp_codec as codec;
pub use auth::{AuthError, Credentials, Login, Mechanism, Sasl, Secret};
pub use config::ConnectOptions;
pub use message::{Message, Property, Publication};
pub use outcome::{Counts, Followed, Match, Outcome, Returned, UnknownReason};
pub use proto::ConfirmOptions;
/// The version of rustls that this crate uses, for [`Tls::from_rustls`](config::Tls::from_rustls).
#[cfg(feature = "rustls")]
pub use tokio_rustls::rustls;
#[cfg(feature = "tokio")]
pub use uri::{Uri, UriError};
