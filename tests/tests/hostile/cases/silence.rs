//! Nothing comes, or nothing is read: every call has an end of its own.

use std::time::Duration;

use amqp_client::ConnectOptions;
use amqp_client::codec::{MethodId, connection, short};
use amqp_client::error::Operation;

use crate::case::Act::{Deaf, Drip, Wait};
use crate::case::{Case, End, Lost, ON, Scene, case};
use crate::wire::{heartbeat, method, send};

const LONG: Duration = Duration::from_secs(60);

/// The server's proposal of no heartbeat holds unless the client wants one.
fn with_heartbeat(options: ConnectOptions) -> ConnectOptions {
    options.heartbeat(10)
}

pub(crate) fn cases() -> Vec<Case> {
    let unanswered = |name, scene, method| {
        case(name, scene, [Wait(LONG)])
            .end(End::Call(Operation::Reply(method)))
            .within(31)
    };
    vec![
        unanswered(
            "silence/channel_not_opened",
            Scene::Opening,
            MethodId::CHANNEL_OPEN,
        ),
        unanswered(
            "silence/declare_not_answered",
            Scene::Declaring,
            MethodId::QUEUE_DECLARE,
        ),
        unanswered(
            "silence/get_not_answered",
            Scene::Getting,
            MethodId::BASIC_GET,
        ),
        unanswered(
            "silence/consumer_not_started",
            Scene::StartingConsumer,
            MethodId::BASIC_CONSUME,
        ),
        unanswered(
            "silence/consumer_not_cancelled",
            Scene::Cancelling,
            MethodId::BASIC_CANCEL,
        ),
        unanswered(
            "silence/recover_not_answered",
            Scene::Recovering,
            MethodId::BASIC_RECOVER,
        ),
        unanswered(
            "silence/secret_not_updated",
            Scene::UpdatingSecret,
            MethodId::CONNECTION_UPDATE_SECRET,
        ),
        // Whether the mode has changed remains unknown: the channel cannot be used any more.
        unanswered(
            "silence/mode_not_selected",
            Scene::Selecting,
            MethodId::CONFIRM_SELECT,
        )
        .told(ON, MethodId::CHANNEL_CLOSE, 1),
        case(
            "silence/commit_not_answered",
            Scene::Committing,
            [Wait(LONG)],
        )
        .told(ON, MethodId::CHANNEL_CLOSE, 1)
        .end(End::CommitUnknown)
        .within(31),
        case(
            "silence/publishes_not_confirmed",
            Scene::Confirming,
            [Wait(LONG)],
        )
        .end(End::Outcomes(["timed out", "timed out"]))
        .answered()
        .within(31),
        case("silence/message_not_read", Scene::Sending, [Deaf(LONG)])
            // What the pipe held.
            .told(ON, MethodId::BASIC_PUBLISH, 1)
            .end(End::Call(Operation::Confirms))
            .within(61),
        case("silence/no_heartbeat", Scene::Consuming, [Wait(LONG)])
            .options(with_heartbeat)
            .end(End::Lost(Lost::Heartbeat))
            .within(21),
        case(
            "silence/no_heartbeat_while_a_message_is_not_read",
            Scene::Sending,
            [Deaf(LONG)],
        )
        .options(with_heartbeat)
        // What the pipe held.
        .told(ON, MethodId::BASIC_PUBLISH, 1)
        .end(End::Lost(Lost::Heartbeat))
        .within(61),
        // A byte now and then is a sign of life; the answer is not there for all that.
        case(
            "silence/half_a_heartbeat_now_and_then",
            Scene::Declaring,
            [Drip(heartbeat().repeat(5).into(), Duration::from_secs(1))],
        )
        .options(with_heartbeat)
        .end(End::Call(Operation::Reply(MethodId::QUEUE_DECLARE)))
        .within(41),
        case(
            "silence/blocked_for_good",
            Scene::Declaring,
            [
                send(method(
                    0,
                    connection::Blocked {
                        reason: short!("low on memory"),
                    },
                )),
                Wait(LONG),
            ],
        )
        .end(End::Call(Operation::Reply(MethodId::QUEUE_DECLARE)))
        .within(31),
    ]
}
