//! AMQP 0-9-1 as values: bytes to frames, methods, properties, field tables and content, and back again to the same
//! bytes, for both directions of the wire. No I/O, no clock, no allocation while decoding; `no_std` with `alloc`.
//!
//! ```
//! use amqp_codec::{Frame, Limits, RawFrame, basic, frame, short};
//!
//! let publish = basic::Publish {
//!     exchange: short!("orders"),
//!     routing_key: short!("order.created"),
//!     mandatory: true,
//!     ..Default::default()
//! };
//! let mut wire = Vec::new();
//! frame::encode_method(1, &publish, &mut wire).unwrap();
//!
//! let limits = Limits::default();
//! let (raw, consumed) = RawFrame::parse(&wire, &limits).unwrap().expect("the frame is complete");
//! assert_eq!(consumed, wire.len());
//! assert_eq!(raw.decode(&limits), Ok(Frame::Method { channel: 1, method: publish.into() }));
//! ```
//!
//! - [`frame`]: the envelope. [`RawFrame`] is any frame, [`Frame`] a valid one.
//! - [`connection`], [`channel`], [`exchange`], [`queue`], [`basic`], [`tx`], [`confirm`]: one struct a method;
//!   [`Method`] is any of them.
//! - [`field`]: tables, kept in their encoded form so that they are passed on untouched.
//! - [`content`]: a method, its header and its bodies put together to a message and taken apart to frames.
//! - [`Limits`]: what a peer may make us accept. [`DecodeError`] and [`ContentError`] know the reply code they call for.
//!
//! The feature `arbitrary`, off by default, makes values of all these types from a fuzzer's bytes (`arbitrary::Arbitrary`):
//! valid ones, raw tables and frames aside, and of a bounded size and depth. It needs `std`.
#![no_std]
#![forbid(unsafe_code)]
// What a peer sends can neither panic nor wrap. Where one of these cannot happen, an `expect` says why.
#![warn(
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
)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "arbitrary")]
mod arbitrary;
pub mod content;
mod error;
pub mod field;
pub mod frame;
// Formatted by its generator, whatever the toolchain.
#[rustfmt::skip]
#[expect(clippy::arithmetic_side_effects, reason = "encoded lengths are added up; decoding calculates nothing")]
mod generated;
mod limits;
mod method;
mod primitive;
mod string;

pub use content::{Assembler, Content, ContentError, ContentHeader};
pub use error::{DecodeError, DecodeErrorKind, EncodeError, ReplyCode};
pub use field::{Array, Decimal, RawTable, Table, Value};
pub use frame::{Frame, ProtocolHeader, RawFrame};
pub use generated::{Method, basic, channel, confirm, connection, exchange, queue, tx};
pub use limits::Limits;
pub use method::{Direction, MethodFields, MethodId};
pub use string::{LongStr, ShortStr, TooLong};
