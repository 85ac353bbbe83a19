//! Content: a method that carries a message, the message's header and its body, as they follow each other on a channel.
//!
//! [`Assembler`] puts them together, [`encode`] takes them apart into frames.

mod assembler;
mod encode;
mod header;
mod whole;

pub use assembler::{Assembler, Content, ContentError};
pub use encode::{body_chunks, encode, encode_head, encode_publish, encoded_len};
pub use header::{Announced, ContentHeader};
pub use whole::Whole;

/// The longest body in bytes that shares one allocation with the rest of its content.
const SMALL_BODY: usize = 8 << 10;
