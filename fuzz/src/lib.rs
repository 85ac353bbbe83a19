//! What the fuzz targets do with a fuzzer's bytes. Each is a function that panics when something is not as it should be:
//! libFuzzer calls it without end (`fuzz_targets/`), and the tests with all that is in `corpus/` and `regressions/`.

mod connection;
mod content;
mod differential;
mod frames;
mod memory;
mod methods;
mod properties;
mod round_trip;
mod tables;
mod uri;

pub use connection::connection;
pub use content::content;
pub use differential::{Difference, EXPLAINED, Explained, differential, explain};
pub use frames::frames;
pub use methods::methods;
pub use properties::properties;
pub use round_trip::round_trip;
pub use tables::tables;
pub use uri::uri;

/// A fuzz target's name and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 9] = [
    ("frames", frames),
    ("methods", methods),
    ("properties", properties),
    ("tables", tables),
    ("content", content),
    ("round_trip", round_trip),
    ("uri", uri),
    ("connection", connection),
    ("differential", differential),
];

/// What `encode` writes.
fn encoded<E: std::fmt::Debug>(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes).expect("a vector has room, and nothing here is above 4 GiB");
    bytes
}
