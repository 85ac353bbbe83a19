//! More of something than anybody wants, read or unread.

use amqp_client::codec::{MethodId, ReplyCode, basic, channel, connection, short};
use amqp_client::{ConnectOptions, Limits};

use crate::case::Act::{DeafFlood, Flood, HangUp, Repeat};
use crate::case::{Case, End, Lost, ON, Reason, Scene, WITNESS, case};
use crate::wire::{ack, body, deliver_to, delivery, heartbeat, method, of_stream, returned};

const MIB: usize = 1 << 20;

fn flow(active: bool) -> Vec<u8> {
    let flow = channel::Flow {
        active,
        ..Default::default()
    };
    method(ON, flow)
}

fn cancel() -> Vec<u8> {
    let cancel = basic::Cancel {
        consumer_tag: short!("d"),
        ..Default::default()
    };
    method(ON, cancel)
}

fn owes_little(options: ConnectOptions) -> ConnectOptions {
    options.limits(Limits {
        owed_bytes: 64 * 1024,
        ..Limits::default()
    })
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case(
            "flood/heartbeats",
            Scene::Declaring,
            [Repeat(heartbeat().into(), 100_000)],
        ),
        case(
            "flood/acks_of_the_same",
            Scene::Confirming,
            [Repeat(ack(ON, 1, false).into(), 50_000), send_ack()],
        )
        .answered()
        .end(End::Outcomes(["acked", "acked"])),
        case(
            "flood/flow",
            Scene::Consuming,
            [Repeat([flow(false), flow(true)].concat().into(), 10_000)],
        )
        .told(ON, MethodId::CHANNEL_FLOW_OK, 20_000),
        case(
            "flood/cancels_of_nobody",
            Scene::Declaring,
            [Repeat(cancel().into(), 20_000)],
        )
        .told(ON, MethodId::BASIC_CANCEL_OK, 20_000),
        case(
            "flood/messages_to_nobody",
            Scene::Declaring,
            [Flood(20_000, |tag| delivery(ON, b"d", tag, b"x"))],
        )
        .told(ON, MethodId::BASIC_NACK, 20_000),
        // They are not given back, and nobody settles them.
        case(
            "flood/messages_of_a_stream_to_nobody",
            Scene::Declaring,
            [Flood(200_000, |tag| {
                [
                    deliver_to(ON, b"d", tag * 2000),
                    of_stream(ON, 1),
                    body(ON, b"x"),
                ]
                .concat()
            })],
        ),
        case(
            "flood/blocked_and_unblocked",
            Scene::Confirming,
            [Repeat(
                [
                    method(
                        0,
                        connection::Blocked {
                            reason: short!("again"),
                        },
                    ),
                    method(0, connection::Unblocked {}),
                ]
                .concat()
                .into(),
                10_000,
            )],
        ),
        case(
            "flood/closes_of_a_channel_that_is_closed",
            Scene::Confirming,
            [Repeat(
                method(
                    ON,
                    channel::Close {
                        reply_code: ReplyCode::NOT_FOUND,
                        ..Default::default()
                    },
                )
                .into(),
                20_000,
            )],
        )
        .end(End::ChannelByServer(ReplyCode::NOT_FOUND)),
        case(
            "flood/anything_on_a_channel_that_closes",
            Scene::ClosingChannel,
            [Flood(20_000, |tag| delivery(ON, b"d", tag, &[7; 100]))],
        ),
        case(
            "flood/messages_that_are_not_read",
            Scene::Unread,
            [Flood(20_000, |tag| delivery(ON, b"c", tag, b"x"))],
        )
        .never_answers_close()
        .end(End::Channel(ReplyCode::RESOURCE_ERROR, Reason::Overflow)),
        case(
            "flood/large_messages_that_are_not_read",
            Scene::Unread,
            [Flood(1000, |tag| delivery(ON, b"c", tag, &[7; 10_000]))],
        )
        .never_answers_close()
        .end(End::Channel(ReplyCode::RESOURCE_ERROR, Reason::Overflow)),
        // 1,024 of them are kept for whoever might ask, and at most 16 MiB.
        case(
            "flood/returns_that_are_not_read",
            Scene::Idle,
            [Flood(20_000, |_| returned(ON, b"NO_ROUTE", b"x"))],
        ),
        case(
            "flood/large_returns_that_are_not_read",
            Scene::Idle,
            [Flood(500, |_| returned(ON, b"NO_ROUTE", &[7; 100_000]))],
        )
        // What is kept may be half of the memory that it lies in.
        .memory(33 * MIB),
        case(
            "flood/messages_that_keep_buffers",
            Scene::Idle,
            [Flood(2000, |_| {
                // Alone in what is read at once, but for what is worth nothing.
                [
                    returned(ON, b"NO_ROUTE", &[7; 9000]),
                    heartbeat().repeat(7000),
                ]
                .concat()
            })],
        )
        .memory(17 * MIB),
        case(
            "flood/messages_while_a_consumer_starts",
            Scene::StartingConsumer,
            [Flood(5000, |tag| delivery(ON, b"c", tag, &[7; 100]))],
        )
        .told(ON, MethodId::BASIC_NACK, 5000),
        // Answers wait for that of the commit, and no more than 4 MiB of them: which costs the channel's connection.
        case(
            "flood/returns_in_a_transaction",
            Scene::Committing,
            [Flood(5000, |_| returned(ON, b"NO_ROUTE", &[7; 100]))],
        ),
        case(
            "flood/unread_answers_to_flow",
            Scene::Declaring,
            [DeafFlood(1_000_000, |_| flow(true)), HangUp],
        )
        .options(owes_little)
        .end(End::Lost(Lost::EndOfStream))
        .within(10),
        case(
            "flood/unread_answers_to_messages",
            Scene::Declaring,
            [
                DeafFlood(1_000_000, |tag| delivery(ON, b"d", tag, b"")),
                HangUp,
            ],
        )
        .options(owes_little)
        .end(End::Lost(Lost::EndOfStream))
        .within(10),
        case(
            "flood/unread_answers_to_cancels",
            Scene::Declaring,
            [DeafFlood(1_000_000, |_| cancel()), HangUp],
        )
        .options(owes_little)
        .end(End::Lost(Lost::EndOfStream))
        .within(10),
        case(
            "flood/messages_on_the_other_channel",
            Scene::Confirming,
            [Flood(10_000, |tag| delivery(WITNESS, b"d", tag, b"x"))],
        )
        .told(WITNESS, MethodId::BASIC_NACK, 10_000),
    ]
}

fn send_ack() -> crate::case::Act {
    crate::wire::send(ack(ON, 2, false))
}
