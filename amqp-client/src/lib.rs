//! An AMQP 0-9-1 client in which every publish has an [`Outcome`].
//!
//! ```no_run
//! use amqp_client::{Connection, Message, Outcome};
//!
//! # async fn example() -> Result<(), amqp_client::error::Error> {
//! let connection = Connection::open("amqp://guest:guest@localhost:5672/%2f").await?;
//! let channel = connection.open_channel().await?.confirm_select().await?;
//!
//! let order = Message::new("{}").persistent().message_id("01J").mandatory();
//! match channel.publish("orders", "order.created", order).await?.await {
//!     Outcome::Acked => {}
//!     Outcome::Returned(returned) => eprintln!("no queue for {:?}", returned.publication),
//!     Outcome::Nacked(publication) => eprintln!("retry later: {publication:?}"),
//!     Outcome::Unknown { publication, .. } => eprintln!("retry with the same id: {publication:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - [`Connection`], its [`Channel`]s and what they turn into: [`ConfirmChannel`] (every publish has an outcome) and
//!   [`TxChannel`] (server transactions). Mixing the modes does not compile. What a channel can do in any mode is in
//!   [`Methods`].
//! - [`Consumer`] is a stream of [`Delivery`]s, which are acked, nacked or rejected by themselves or by their
//!   [`Acker`].
//! - [`error`]: errors in layers, with their causes typed.
//! - [`proto`]: the connection as a state machine without I/O, for those who bring their own. It is all that is left
//!   without the feature `tokio`.
//!
//! Names, keys and properties are bytes, [`ShortStr`](codec::ShortStr), of which there are at most 255. What is sent
//! later takes `&'static str` (free), `String` or `&String`, or a `ShortStr` that was made once and is cheap to clone;
//! [`short!`] makes one from a constant. What is sent at once takes any `&str` as well.
//!
//! What was published is on its way when its outcome is known, or [`Connection::close`] has returned: a program that
//! ends before leaves in the buffer what is there.
//!
//! All of it wants a tokio runtime with time enabled, and the futures are to be polled in one: outside, a call that has
//! to wait panics, as tokio's timers do.
//!
//! Every call ends: there are deadlines for connecting, replies, confirms and closing ([`config::Deadlines`]). Every
//! future can be dropped: each says under "Cancel safety" what that means.
//!
//! Spans and events go to `tracing`. Spans, by the names of OpenTelemetry's messaging conventions: a connection, a
//! channel, an RPC until its answer, a publish until its outcome (target `amqp_client::publish`), and for whoever
//! processes a delivery [`Consumer::process_span`]. Each frame is an event at `TRACE` (target `amqp_client::frames`).
//! None of them ever holds a payload, a header's value or a secret. Some are told of while the connection's state is
//! locked: a subscriber must not call into the connection that it hears of, but hand on what it has to send.

#![forbid(unsafe_code)]
// What a peer sends or a URI says can neither panic nor wrap. Where one of these cannot happen, an `expect` says why.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::todo,
        clippy::unimplemented,
        clippy::unreachable
    )
)]

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(feature = "tokio")]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "keys and counts of its own; what a peer sends is judged in `proto`"
)]
mod api;
pub mod auth;
pub mod config;
#[cfg(feature = "tokio")]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "keys and counts of its own; what a peer sends is judged in `proto`"
)]
mod driver;
pub mod error;
mod message;
pub mod negotiate;
mod outcome;
pub mod proto;
#[cfg(feature = "tokio")]
pub mod uri;

pub use amqp_codec as codec;
pub use amqp_codec::{short, table};
#[cfg(feature = "tokio")]
pub use api::{
    Acker, Channel, Committed, Confirm, ConfirmChannel, Connection, Consume, Consumer,
    ConsumerError, DIRECT_REPLY_TO, DeadLetterStrategy, Delivery, Event, Events, ExchangeDeclare,
    ExchangeKind, Got, HeadersMatch, LeaderLocator, Methods, Missed, NoWait, Overflow,
    QueueDeclare, QueueDelete, QueueInfo, QueueOverflow, QueueType, Returns, StreamOffset,
    TxChannel,
};
pub use auth::{AuthError, Credentials, Login, Mechanism, Sasl, Secret};
pub use config::{ConnectOptions, Limits};
pub use message::{Message, Property, Publication};
pub use outcome::{Counts, Followed, Match, Outcome, Returned, UnknownReason};
pub use proto::ConfirmOptions;
/// The version of rustls that this crate uses, for [`Tls::from_rustls`](config::Tls::from_rustls).
#[cfg(feature = "rustls")]
pub use tokio_rustls::rustls;
#[cfg(feature = "tokio")]
pub use uri::{Uri, UriError};
