//! What brokers really do (docs/protocol.md), as far as no other module meets it.

mod confirms;
mod framing;
mod refusals;
mod semantics;
