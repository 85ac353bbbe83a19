//! The codec from outside: vectors made by hand, properties, hostile input.
#![allow(clippy::unwrap_used)]

mod content;
mod hostile;
mod metadata;
mod roundtrip;
mod strategies;
mod strings;
mod tables;
mod values;
mod vectors;
