//! All cases, by what is wrong.

mod answers;
mod closing;
mod confirms;
mod contents;
mod deliveries;
mod floods;
mod frames;
mod handshake;
mod methods;
mod silence;

use amqp_client::codec::MethodId;
use amqp_client::error::Violation;

use super::case::Case;

pub(crate) fn all() -> Vec<Case> {
    [
        handshake::cases(),
        frames::cases(),
        methods::cases(),
        answers::cases(),
        contents::cases(),
        confirms::cases(),
        deliveries::cases(),
        closing::cases(),
        floods::cases(),
        silence::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn unexpected(method: MethodId, channel: u16) -> Violation {
    Violation::UnexpectedMethod { method, channel }
}
