//! Answers to what was not asked, of another kind than was asked for, twice, and on the wrong channel.

use amqp_client::codec::{
    MethodFields, MethodId, ReplyCode, basic, channel, confirm, connection, queue, short, tx,
};
use amqp_client::error::Violation;

use super::unexpected;
use crate::case::{Case, End, NEVER, ON, Scene, WITNESS, case};
use crate::wire::{body, header, method, send};

pub(crate) fn cases() -> Vec<Case> {
    [unasked(), others(), twice(), elsewhere()]
        .into_iter()
        .flatten()
        .collect()
}

fn invalid<M: MethodFields>(name: &'static str, scene: Scene, channel: u16, sent: M) -> Case {
    case(name, scene, [send(method(channel, sent))])
        .connection(ReplyCode::COMMAND_INVALID, unexpected(M::ID, channel))
}

fn consume_ok(tag: &'static str) -> basic::ConsumeOk<'static> {
    basic::ConsumeOk {
        consumer_tag: tag.try_into().unwrap(),
    }
}

fn cancel_ok(tag: &'static str) -> basic::CancelOk<'static> {
    basic::CancelOk {
        consumer_tag: tag.try_into().unwrap(),
    }
}

fn unasked() -> Vec<Case> {
    vec![
        invalid(
            "unasked/connection_open_ok",
            Scene::Idle,
            0,
            connection::OpenOk::default(),
        ),
        invalid(
            "unasked/connection_start",
            Scene::Idle,
            0,
            connection::Start::default(),
        ),
        invalid(
            "unasked/connection_tune",
            Scene::Idle,
            0,
            connection::Tune::default(),
        ),
        invalid(
            "unasked/connection_secure",
            Scene::Idle,
            0,
            connection::Secure::default(),
        ),
        invalid(
            "unasked/connection_close_ok",
            Scene::Idle,
            0,
            connection::CloseOk {},
        ),
        invalid(
            "unasked/update_secret_ok",
            Scene::Idle,
            0,
            connection::UpdateSecretOk {},
        ),
        invalid(
            "unasked/channel_open_ok",
            Scene::Idle,
            ON,
            channel::OpenOk::default(),
        ),
        invalid(
            "unasked/channel_close_ok",
            Scene::Confirming,
            ON,
            channel::CloseOk {},
        ),
        invalid(
            "unasked/channel_flow_ok",
            Scene::Idle,
            ON,
            channel::FlowOk::default(),
        ),
        invalid(
            "unasked/declare_ok",
            Scene::Idle,
            ON,
            queue::DeclareOk::default(),
        ),
        invalid("unasked/qos_ok", Scene::Consuming, ON, basic::QosOk {}),
        invalid("unasked/consume_ok", Scene::Idle, ON, consume_ok("c")),
        invalid("unasked/cancel_ok", Scene::Consuming, ON, cancel_ok("c")),
        invalid("unasked/get_ok", Scene::Idle, ON, basic::GetOk::default()),
        invalid(
            "unasked/get_empty",
            Scene::Consuming,
            ON,
            basic::GetEmpty::default(),
        ),
        invalid(
            "unasked/recover_ok",
            Scene::Consuming,
            ON,
            basic::RecoverOk {},
        ),
        invalid(
            "unasked/confirm_select_ok",
            Scene::Idle,
            ON,
            confirm::SelectOk {},
        ),
        invalid(
            "unasked/tx_select_ok",
            Scene::Confirming,
            ON,
            tx::SelectOk {},
        ),
        invalid(
            "unasked/tx_commit_ok",
            Scene::Confirming,
            ON,
            tx::CommitOk {},
        ),
    ]
}

/// The answer to another question than the one that was asked.
fn others() -> Vec<Case> {
    vec![
        invalid(
            "other/delete_ok_to_a_declare",
            Scene::Declaring,
            ON,
            queue::DeleteOk::default(),
        ),
        invalid(
            "other/declare_ok_to_a_get",
            Scene::Getting,
            ON,
            queue::DeclareOk::default(),
        ),
        invalid(
            "other/get_empty_to_a_consume",
            Scene::StartingConsumer,
            ON,
            basic::GetEmpty::default(),
        ),
        invalid(
            "other/consumer_of_another_name",
            Scene::StartingConsumer,
            ON,
            consume_ok("d"),
        ),
        invalid(
            "other/cancelled_another_consumer",
            Scene::Cancelling,
            ON,
            cancel_ok("d"),
        ),
        invalid(
            "other/tx_mode_instead_of_confirms",
            Scene::Selecting,
            ON,
            tx::SelectOk {},
        ),
        invalid(
            "other/rolled_back_instead_of_committed",
            Scene::Committing,
            ON,
            tx::RollbackOk {},
        ),
        invalid(
            "other/selected_instead_of_committed",
            Scene::Committing,
            ON,
            tx::SelectOk {},
        ),
        invalid(
            "other/declare_ok_before_the_channel_is_open",
            Scene::Opening,
            ON,
            queue::DeclareOk::default(),
        ),
        // A content frame out of order comes before its being unasked for.
        case(
            "other/message_before_the_channel_is_open",
            Scene::Opening,
            [send(header(ON, 1))],
        )
        .connection(
            ReplyCode::UNEXPECTED_FRAME,
            amqp_client::codec::ContentError::UnexpectedHeader,
        ),
        // channel.close answered by a close of the connection.
        case(
            "other/connection_closed_instead_of_the_channel",
            Scene::ClosingChannel,
            [send(method(
                0,
                connection::Close {
                    reply_code: ReplyCode::INTERNAL_ERROR,
                    ..Default::default()
                },
            ))],
        )
        .end(End::ConnectionByServer(ReplyCode::INTERNAL_ERROR)),
    ]
}

fn twice() -> Vec<Case> {
    /// The answer is good the first time; what it was for has come about by the second.
    fn again<M: MethodFields + Clone>(name: &'static str, scene: Scene, sent: M) -> Case {
        let sent = method(ON, sent);
        case(name, scene, [send([sent.clone(), sent].concat())])
            .answered()
            .end(End::AnsweredThen(
                ReplyCode::COMMAND_INVALID,
                unexpected(M::ID, ON).into(),
            ))
    }
    vec![
        again(
            "twice/declare_ok",
            Scene::Declaring,
            queue::DeclareOk::default(),
        ),
        again(
            "twice/get_empty",
            Scene::Getting,
            basic::GetEmpty::default(),
        ),
        again("twice/consume_ok", Scene::StartingConsumer, consume_ok("c")),
        again("twice/cancel_ok", Scene::Cancelling, cancel_ok("c")),
        again("twice/recover_ok", Scene::Recovering, basic::RecoverOk {}),
        again(
            "twice/confirm_select_ok",
            Scene::Selecting,
            confirm::SelectOk {},
        ),
        again(
            "twice/channel_open_ok",
            Scene::Opening,
            channel::OpenOk::default(),
        ),
        case("twice/get_ok", Scene::Getting, {
            let got = |tag| {
                method(
                    ON,
                    basic::GetOk {
                        delivery_tag: tag,
                        routing_key: short!("k"),
                        ..Default::default()
                    },
                )
            };
            let content = [header(ON, 1), body(ON, b"x")].concat();
            [send([got(1), content.clone(), got(2), content].concat())]
        })
        .answered()
        .end(End::AnsweredThen(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::BASIC_GET_OK, ON).into(),
        )),
        // The number is free then, and 504 is what a frame on it calls for.
        case(
            "twice/channel_close_ok",
            Scene::ClosingChannel,
            [send(method(ON, channel::CloseOk {}).repeat(2))],
        )
        .answered()
        .end(End::AnsweredThen(
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(ON).into(),
        )),
        case(
            "twice/connection_close_ok",
            Scene::ClosingConnection,
            [send(method(0, connection::CloseOk {}).repeat(2))],
        )
        .answered()
        .end(End::ClosedByClient),
    ]
}

fn elsewhere() -> Vec<Case> {
    vec![
        invalid(
            "elsewhere/declare_ok_on_another_channel",
            Scene::Declaring,
            WITNESS,
            queue::DeclareOk::default(),
        ),
        invalid(
            "elsewhere/get_empty_on_another_channel",
            Scene::Getting,
            WITNESS,
            basic::GetEmpty::default(),
        ),
        invalid(
            "elsewhere/commit_ok_on_another_channel",
            Scene::Committing,
            WITNESS,
            tx::CommitOk {},
        ),
        invalid(
            "elsewhere/close_ok_on_another_channel",
            Scene::ClosingChannel,
            WITNESS,
            channel::CloseOk {},
        ),
        invalid(
            "elsewhere/connection_close_ok_on_a_channel",
            Scene::Idle,
            ON,
            connection::CloseOk {},
        ),
        case(
            "elsewhere/declare_ok_on_a_channel_that_never_was",
            Scene::Declaring,
            [send(method(NEVER, queue::DeclareOk::default()))],
        )
        .connection(ReplyCode::CHANNEL_ERROR, Violation::ChannelNotOpen(NEVER)),
        case(
            "elsewhere/open_ok_for_a_channel_that_never_was",
            Scene::Opening,
            [send(method(NEVER, channel::OpenOk::default()))],
        )
        .connection(ReplyCode::CHANNEL_ERROR, Violation::ChannelNotOpen(NEVER)),
        case(
            "elsewhere/update_secret_ok_on_a_channel",
            Scene::UpdatingSecret,
            [send(method(ON, connection::UpdateSecretOk {}))],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::CONNECTION_UPDATE_SECRET_OK, ON),
        ),
    ]
}
