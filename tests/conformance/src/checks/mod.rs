//! All checks, one file a group.
//!
//! # How to write a check
//!
//! A check is about ten lines in the file of its group:
//!
//! ```
//! # use amqp_codec::{basic, queue};
//! # use amqp_conformance::{Check, Source::Spec, check, ensure_eq};
//! # fn checks() -> Vec<Check> {
//! vec![
//!     check("queue.purge/removes-messages")
//!         .must(Spec("queue.purge"), "purge removes the messages of a queue that are not being acknowledged")
//!         .sends("3 messages, queue.purge")
//!         .expects("queue.purge-ok with 3 messages")
//!         .run(async |cx| {
//!             let queue = cx.name("purged");
//!             let mut client = cx.open_channel().await?;
//!             client.declare_queue(1, &queue).await?;
//!             for _ in 0..3 {
//!                 client.publish(1, "", &queue, "body").await?;
//!             }
//!             let purge = queue::Purge { queue, ..Default::default() };
//!             let purged = client.call::<queue::PurgeOk>(1, purge).await?;
//!             ensure_eq("messages purged", &purged.message_count, &3)
//!         }),
//! ]
//! # }
//! ```
//!
//! - **The name** never changes; `GROUP/what-holds`. GROUP is a class (`tx`) or a method (`basic.get`).
//! - **The rule** is the specification's (`.must(Spec("class.method.field or rule name"), "in our own words")`), a
//!   recommendation (`.should`), or RabbitMQ's (`.rabbitmq("title of the document", "...")`). The specification counts,
//!   not what a broker happens to do: what a broker does instead goes into its profile
//!   (`profiles/*.toml`), with what the report says was found, and the reason.
//! - **[`Connection`](crate::Connection)** sends anything (`send`, `send_content`, `send_frame`, `send_bytes`) and
//!   expects: `call`, `expect::<M>`, `expect_content::<M>`, `expect_channel_error(1, ReplyCode::NOT_FOUND)`,
//!   `expect_connection_error(..)`, `expect_end`, `barrier`. Codes may be several: `[ReplyCode::A, ReplyCode::B]`. All
//!   of them return a [`Failure`](crate::Failure); `?` is all there is to do about it. For what they do not cover:
//!   [`ensure`](crate::ensure), [`ensure_eq`](crate::ensure_eq), `Failure::unexpected(expected, &event)`.
//! - **What was found** is compared with the profile letter by letter: no names, times or ports in it.
//! - **Names** come from `cx`: `cx.name` for what goes with the connection (exclusive queues), `cx.queue` and
//!   `cx.exchange` for what is to be deleted after the check. Checks run side by side, and on shared brokers.
//! - **Nothing is slept for**: `barrier` is a round trip. `expect_silence` is for what may come at any time.
//! - Where the specification is silent, `cx.observe("what the broker does")`: informational. Where it allows something
//!   better than what came, `Failure::not_strict`. Extensions begin with `client.require_capability(..)?`.
//! - `.hurts()` is for what others on the broker would notice; `cx.control("raise-alarm")` asks the operator.
//! - Every check needs a wrong broker that it catches: one line in the file of its group under `tests/wrong_brokers`, run
//!   by `cargo test -p amqp-conformance --test wrong_brokers NAME`. A check that a real RabbitMQ does not pass has one.
//!   One that no RabbitMQ passes needs a mended broker that it passes: a line in `tests/wrong_brokers/mended.rs`.
//! - The lists of groups here and there, and the entries of a profile, are in alphabetical order.

mod authentication;
mod basic_ack;
mod basic_consume;
mod basic_get;
mod basic_publish;
mod basic_return;
mod channel;
mod closing;
mod confirm;
mod connection;
mod connection_open;
mod connection_tune;
mod content;
mod exchange;
mod field_table;
mod framing;
mod handshake;
mod heartbeat;
mod limits;
mod properties;
mod queue;
mod queue_arguments;
mod routing;
mod steps;
mod tx;

use crate::check::Check;

/// All checks, by group.
pub fn all() -> Vec<Check> {
    [
        authentication::checks(),
        basic_ack::checks(),
        basic_consume::checks(),
        basic_get::checks(),
        basic_publish::checks(),
        basic_return::checks(),
        channel::checks(),
        closing::checks(),
        confirm::checks(),
        connection::checks(),
        connection_open::checks(),
        connection_tune::checks(),
        content::checks(),
        exchange::checks(),
        field_table::checks(),
        framing::checks(),
        handshake::checks(),
        heartbeat::checks(),
        limits::checks(),
        properties::checks(),
        queue::checks(),
        queue_arguments::checks(),
        routing::checks(),
        tx::checks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
