//! Acks, nacks and returns for publishes: two wait, of the numbers 1 and 2.

use amqp_client::codec::ReplyCode;
use amqp_client::error::Violation;

use crate::case::{Case, End, ON, Scene, WITNESS, case};
use crate::wire::{ack, nack, returned, send};

pub(crate) fn cases() -> Vec<Case> {
    let unknown = |name, scene, bytes, tag, last| {
        case(name, scene, [send(bytes)]).channel(
            ReplyCode::PRECONDITION_FAILED,
            Violation::UnknownConfirm { tag, last },
        )
    };
    let outcomes = |name, frames: &[Vec<u8>], outcomes| {
        case(name, Scene::Confirming, [send(frames.concat())])
            .answered()
            .end(End::Outcomes(outcomes))
    };
    vec![
        unknown(
            "confirm/ack_of_what_was_not_sent",
            Scene::Confirming,
            ack(ON, 3, false),
            3,
            2,
        ),
        unknown(
            "confirm/nack_of_what_was_not_sent",
            Scene::Confirming,
            nack(ON, 3, false),
            3,
            2,
        ),
        unknown(
            "confirm/ack_through_what_was_not_sent",
            Scene::Confirming,
            ack(ON, 3, true),
            3,
            2,
        ),
        unknown(
            "confirm/ack_of_the_last_number_there_is",
            Scene::Confirming,
            ack(ON, u64::MAX, false),
            u64::MAX,
            2,
        ),
        unknown(
            "confirm/nack_through_the_last_number_there_is",
            Scene::Confirming,
            nack(ON, u64::MAX, true),
            u64::MAX,
            2,
        ),
        unknown(
            "confirm/ack_of_number_0",
            Scene::Confirming,
            ack(ON, 0, false),
            0,
            2,
        ),
        unknown(
            "confirm/ack_outside_confirm_mode",
            Scene::Idle,
            ack(ON, 1, false),
            1,
            0,
        ),
        unknown(
            "confirm/ack_to_a_consumer",
            Scene::Consuming,
            ack(ON, 1, false),
            1,
            0,
        ),
        unknown(
            "confirm/nack_before_confirm_mode",
            Scene::Selecting,
            nack(ON, 0, true),
            0,
            0,
        ),
        unknown(
            "confirm/ack_in_a_transaction",
            Scene::Committing,
            ack(ON, 1, false),
            1,
            0,
        ),
        outcomes(
            "confirm/ack_twice",
            &[ack(ON, 1, false).repeat(3), ack(ON, 2, false)],
            ["acked", "acked"],
        ),
        outcomes(
            "confirm/ack_and_then_nack",
            &[ack(ON, 1, false), nack(ON, 2, true)],
            ["acked", "nacked"],
        ),
        outcomes(
            "confirm/nack_and_then_ack",
            &[nack(ON, 1, false), ack(ON, 2, true)],
            ["nacked", "acked"],
        ),
        outcomes(
            "confirm/backwards",
            &[ack(ON, 2, false), nack(ON, 1, false)],
            ["nacked", "acked"],
        ),
        outcomes(
            "confirm/ack_of_all_by_number_0",
            &[ack(ON, 0, true)],
            ["acked", "acked"],
        ),
        outcomes(
            "confirm/return_of_nothing_that_was_sent",
            &[returned(ON, b"NO_ROUTE", b"other"), ack(ON, 2, true)],
            ["acked", "acked"],
        ),
        // On the other channel one publish waits; what is acked there is not for this one.
        case(
            "confirm/ack_on_the_wrong_channel",
            Scene::Confirming,
            [send(ack(WITNESS, 1, false))],
        ),
    ]
}
