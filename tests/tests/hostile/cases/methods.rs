//! What is in a method: lengths, texts, and methods that only clients send.

use amqp_client::codec::{
    DecodeErrorKind, MethodFields, MethodId, ReplyCode, basic, channel, confirm, connection,
    exchange, queue, short, tx,
};

use super::unexpected;
use crate::case::{Case, End, ON, Scene, case};
use crate::wire::{deliver_to, header, method, method_bytes, send};

pub(crate) fn cases() -> Vec<Case> {
    [arguments(), of_clients()].into_iter().flatten().collect()
}

fn arguments() -> Vec<Case> {
    let cut_off = |case: Case| case.connection(ReplyCode::SYNTAX_ERROR, DecodeErrorKind::Truncated);
    let too_much =
        |case: Case| case.connection(ReplyCode::SYNTAX_ERROR, DecodeErrorKind::TrailingBytes);
    vec![
        cut_off(case(
            "method/without_arguments",
            Scene::Declaring,
            [send(method_bytes(ON, 50, 11, b""))],
        )),
        cut_off(case(
            "method/arguments_cut_off",
            Scene::Confirming,
            [send(method_bytes(ON, 60, 80, &[0, 0, 0]))],
        )),
        too_much(case(
            "method/bytes_behind_the_arguments",
            Scene::Declaring,
            [send(method_bytes(ON, 50, 21, b"x"))],
        )),
        cut_off(case(
            "method/name_longer_than_its_frame",
            Scene::Declaring,
            [send(method_bytes(ON, 50, 11, b"\xffq\0\0\0\0\0\0\0\0"))],
        )),
        cut_off(case(
            "method/consumer_tag_longer_than_its_frame",
            Scene::Consuming,
            [send(method_bytes(ON, 60, 60, b"\xc8c"))],
        )),
        cut_off(case(
            "method/long_text_of_4_gib",
            Scene::Opening,
            [send(method_bytes(ON, 20, 11, &[0xff; 4]))],
        )),
        cut_off(case(
            "method/close_text_longer_than_its_frame",
            Scene::Confirming,
            [send(method_bytes(ON, 20, 40, &[1, 0x94, 100, b'x']))],
        )),
        cut_off(case(
            "method/connection_close_cut_off",
            Scene::Confirming,
            [send(method_bytes(0, 10, 50, &[1, 0x40]))],
        )),
        cut_off(case(
            "method/blocked_without_its_reason",
            Scene::Declaring,
            [send(method_bytes(0, 10, 60, b""))],
        )),
        too_much(case(
            "method/unblocked_with_a_reason",
            Scene::Declaring,
            [send(method_bytes(0, 10, 61, b"\x03why"))],
        )),
        // All bits of the octet are set: multiple is the first of them.
        case(
            "method/bits_that_mean_nothing",
            Scene::Confirming,
            [send(method_bytes(
                ON,
                60,
                120,
                &[0, 0, 0, 0, 0, 0, 0, 2, 0xff],
            ))],
        )
        .end(End::Outcomes(["nacked", "nacked"]))
        .answered(),
        case(
            "method/name_not_utf_8",
            Scene::Declaring,
            [send(method_bytes(
                ON,
                50,
                11,
                b"\x02\xff\xfe\0\0\0\0\0\0\0\0",
            ))],
        )
        .answered(),
        case(
            "method/close_text_not_utf_8",
            Scene::Confirming,
            [send(method_bytes(
                ON,
                20,
                40,
                b"\x01\x94\x03\xf0\x9f\n\0\0\0\0",
            ))],
        )
        .end(End::ChannelByServer(ReplyCode::NOT_FOUND)),
        case(
            "method/connection_close_text_not_utf_8",
            Scene::Confirming,
            [send(method_bytes(
                0,
                10,
                50,
                b"\x02\x1d\x03\xc3\0\xff\0\0\0\0",
            ))],
        )
        .end(End::ConnectionByServer(ReplyCode::INTERNAL_ERROR)),
        case(
            "method/blocked_for_a_reason_not_utf_8",
            Scene::Declaring,
            [
                send(method_bytes(0, 10, 60, b"\x02\xf0\x9f")),
                send(method(0, connection::Unblocked {})),
            ],
        ),
        case(
            "method/connections_method_on_a_channel",
            Scene::Declaring,
            [send(method(ON, connection::Blocked::default()))],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::CONNECTION_BLOCKED, ON),
        ),
        case(
            "method/channels_method_on_channel_0",
            Scene::Declaring,
            [send(method(0, queue::DeclareOk::default()))],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::QUEUE_DECLARE_OK, 0),
        ),
        case(
            "method/message_on_channel_0",
            Scene::Consuming,
            [send([deliver_to(0, b"c", 1), header(0, 0)].concat())],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::BASIC_DELIVER, 0),
        ),
    ]
}

/// A server that believes to be a client.
fn of_clients() -> Vec<Case> {
    fn one<M: MethodFields>(name: &'static str, scene: Scene, channel: u16, sent: M) -> Case {
        case(name, scene, [send(method(channel, sent))])
            .connection(ReplyCode::COMMAND_INVALID, unexpected(M::ID, channel))
    }
    vec![
        one(
            "client/connection_start_ok",
            Scene::Idle,
            0,
            connection::StartOk::default(),
        ),
        one(
            "client/connection_open",
            Scene::Idle,
            0,
            connection::Open::default(),
        ),
        one(
            "client/connection_update_secret",
            Scene::UpdatingSecret,
            0,
            connection::UpdateSecret::default(),
        ),
        one(
            "client/channel_open",
            Scene::Idle,
            ON,
            channel::Open::default(),
        ),
        one(
            "client/exchange_declare",
            Scene::Declaring,
            ON,
            exchange::Declare::default(),
        ),
        one(
            "client/queue_declare",
            Scene::Declaring,
            ON,
            queue::Declare::default(),
        ),
        one(
            "client/queue_delete",
            Scene::Declaring,
            ON,
            queue::Delete::default(),
        ),
        one("client/qos", Scene::Consuming, ON, basic::Qos::default()),
        one(
            "client/consume",
            Scene::StartingConsumer,
            ON,
            basic::Consume::default(),
        ),
        one(
            "client/publish",
            Scene::Confirming,
            ON,
            basic::Publish {
                routing_key: short!("q"),
                ..Default::default()
            },
        ),
        one("client/get", Scene::Getting, ON, basic::Get::default()),
        one(
            "client/reject",
            Scene::Consuming,
            ON,
            basic::Reject::default(),
        ),
        one(
            "client/recover",
            Scene::Recovering,
            ON,
            basic::Recover::default(),
        ),
        one(
            "client/confirm_select",
            Scene::Selecting,
            ON,
            confirm::Select::default(),
        ),
        one("client/tx_commit", Scene::Committing, ON, tx::Commit {}),
    ]
}
