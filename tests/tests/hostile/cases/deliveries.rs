//! Messages: their tags, and who they are for.

use amqp_client::codec::{MethodId, ReplyCode, basic, short};
use amqp_client::error::Violation;

use super::unexpected;
use crate::case::{Case, ON, Scene, case};
use crate::wire::{delivery, method, send};

pub(crate) fn cases() -> Vec<Case> {
    let tags = |name, tags: [u64; 2], bad| {
        let frames = tags.map(|tag| delivery(ON, b"d", tag, b"x"));
        // What is given back is settled: a tag comes twice when it is not above the one before all the same.
        case(name, Scene::Consuming, [send(frames.concat())])
            .channel(ReplyCode::PRECONDITION_FAILED, Violation::DeliveryTag(bad))
    };
    let cancel = |tag: &'static str, no_wait| {
        method(
            ON,
            basic::Cancel {
                consumer_tag: tag.try_into().unwrap(),
                no_wait,
                ..Default::default()
            },
        )
    };
    let got = |tag| {
        let ok = basic::GetOk {
            delivery_tag: tag,
            ..Default::default()
        };
        method(ON, ok)
    };
    vec![
        tags("delivery/tag_twice", [5, 5], 5).told(ON, MethodId::BASIC_NACK, 1),
        tags("delivery/tag_goes_back", [5, 4], 4).told(ON, MethodId::BASIC_NACK, 1),
        tags("delivery/tag_0", [0, 1], 0),
        tags("delivery/last_tag_there_is", [u64::MAX, 1], u64::MAX),
        case(
            "delivery/tag_far_ahead",
            Scene::Declaring,
            [send(
                [
                    delivery(ON, b"d", 1, b"x"),
                    delivery(ON, b"d", 1 << 60, b"x"),
                ]
                .concat(),
            )],
        )
        .told(ON, MethodId::BASIC_NACK, 2),
        case(
            "delivery/got_with_a_tag_that_was_used",
            Scene::Getting,
            [send([delivery(ON, b"d", 3, b"x"), got(3)].concat())],
        )
        .told(ON, MethodId::BASIC_NACK, 1)
        .channel(ReplyCode::PRECONDITION_FAILED, Violation::DeliveryTag(3)),
        // A message that nobody is for goes back to its queue: RabbitMQ 4.3 redelivers to tags that it has cancelled.
        case(
            "delivery/to_nobody",
            Scene::Idle,
            [send(delivery(ON, b"d", 1, b"x"))],
        )
        .told(ON, MethodId::BASIC_NACK, 1),
        case(
            "delivery/to_a_tag_of_255_bytes_not_utf_8",
            Scene::Declaring,
            [send(delivery(ON, &[0xff; 255], 1, b"x"))],
        )
        .told(ON, MethodId::BASIC_NACK, 1),
        case(
            "delivery/before_the_consumer_is_there",
            Scene::StartingConsumer,
            [send(delivery(ON, b"c", 1, b"x"))],
        )
        .told(ON, MethodId::BASIC_NACK, 1),
        case(
            "delivery/to_a_consumer_that_the_server_cancelled",
            Scene::Unread,
            [send(
                [cancel("c", true), delivery(ON, b"c", 1, b"x")].concat(),
            )],
        )
        .told(ON, MethodId::BASIC_NACK, 1),
        case(
            "delivery/cancel_of_nobody",
            Scene::Consuming,
            [send(cancel("d", false))],
        )
        .told(ON, MethodId::BASIC_CANCEL_OK, 1),
        case(
            "delivery/cancel_of_nobody_without_an_answer",
            Scene::Consuming,
            [send(cancel("d", true))],
        ),
        case(
            "delivery/cancel_twice",
            Scene::Unread,
            [send([cancel("c", false), cancel("c", false)].concat())],
        )
        .told(ON, MethodId::BASIC_CANCEL_OK, 2),
        case(
            "delivery/cancel_of_a_consumer_that_is_not_there_yet",
            Scene::StartingConsumer,
            [send(cancel("c", false))],
        )
        .told(ON, MethodId::BASIC_CANCEL_OK, 1),
        case(
            "delivery/consumer_started_again_by_the_server",
            Scene::Unread,
            [send(method(
                ON,
                basic::ConsumeOk {
                    consumer_tag: short!("c"),
                },
            ))],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::BASIC_CONSUME_OK, ON),
        ),
        case(
            "delivery/redelivered_while_it_recovers",
            Scene::Recovering,
            [send(delivery(ON, b"d", 1, b"x"))],
        ),
    ]
}
