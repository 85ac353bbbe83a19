//! Field tables: the typed key-value lists in arguments, headers and capabilities.
//!
//! A table is kept in its encoded form. Reading takes it apart on the way, building appends to it, and encoding copies
//! it: order, duplicate keys, the tags `l` and `L`, odd booleans and bytes that are not UTF-8 all stay as they came.
//!
//! ```
//! use amqp_codec::{Limits, RawTable, Value, table};
//!
//! let arguments = table! {
//!     "x-max-length" => 10,
//!     "x-overflow" => "reject-publish",
//!     "nested" => table! { "on" => true },
//! };
//! assert_eq!(arguments.get_i64("x-max-length"), Some(10));
//! assert_eq!(arguments.get("x-overflow"), Some(Value::from("reject-publish")));
//!
//! // What comes from a peer is unchecked bytes until it is decoded under limits.
//! let raw = RawTable::from_bytes(arguments.as_bytes());
//! assert_eq!(raw.decode(&Limits::default()), Ok(arguments.clone()));
//! ```

#[cfg(feature = "arbitrary")]
mod arbitrary;
mod array;
mod check;
mod compare;
mod finite;
mod table;
mod value;

pub use array::{Array, ArrayIter};
pub use compare::TableMap;
pub use table::{RawTable, Table, TableIter};
pub use value::{Decimal, Value};
