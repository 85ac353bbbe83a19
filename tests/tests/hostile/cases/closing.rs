//! Closes: without a reason, again and again, across ours, unanswered, on the wrong channel.

use std::time::Duration;

use amqp_client::codec::{
    DecodeErrorKind, MethodId, ReplyCode, basic, channel, connection, queue, short,
};
use amqp_client::error::{Operation, Violation};

use super::unexpected;
use crate::case::Act::{Flood, HalfClose, HangUp, Repeat, Wait};
use crate::case::{Case, End, Lost, NEVER, ON, Scene, case};
use crate::wire::{ack, body, deliver_to, delivery, header, heartbeat, method, raw, send};

fn close(code: u16) -> Vec<u8> {
    close_on(ON, code)
}

fn close_on(channel: u16, code: u16) -> Vec<u8> {
    let close = channel::Close {
        reply_code: ReplyCode(code),
        reply_text: short!("because"),
        // Any numbers at all may be named as the method at fault.
        class_id: 0xffff,
        method_id: 0xffff,
    };
    method(channel, close)
}

fn close_connection(code: u16) -> Vec<u8> {
    let close = connection::Close {
        reply_code: ReplyCode(code),
        reply_text: short!("because"),
        class_id: 0xffff,
        method_id: 0,
    };
    method(0, close)
}

pub(crate) fn cases() -> Vec<Case> {
    [channels(), connections(), ours()]
        .into_iter()
        .flatten()
        .collect()
}

fn channels() -> Vec<Case> {
    let by_server = |code| End::ChannelByServer(ReplyCode(code));
    vec![
        case(
            "close/channel_without_a_code",
            Scene::Confirming,
            [send(close(0))],
        )
        .end(by_server(0)),
        case(
            "close/channel_with_success",
            Scene::Declaring,
            [send(close(200))],
        )
        .end(by_server(200)),
        case(
            "close/channel_with_a_connections_code",
            Scene::Getting,
            [send(close(541))],
        )
        .end(by_server(541)),
        case(
            "close/channel_with_a_code_that_nobody_knows",
            Scene::Committing,
            [send(close(u16::MAX))],
        )
        .end(by_server(u16::MAX)),
        case(
            "close/channel_before_it_is_open",
            Scene::Opening,
            [send(close(504))],
        )
        .end(by_server(504)),
        // RabbitMQ 3.10 repeats a close until it is answered, and takes a second answer for a fault.
        case(
            "close/channel_again_and_again",
            Scene::Confirming,
            [send(close(404).repeat(100))],
        )
        .end(by_server(404)),
        case(
            "close/channel_and_frames_behind_it",
            Scene::Confirming,
            [send([close(404), ack(ON, 2, true)].concat())],
        )
        .end(End::ClosedThen(
            ReplyCode(404),
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(ON).into(),
        )),
        case(
            "close/channel_that_never_was",
            Scene::Idle,
            [send(close_on(NEVER, 404))],
        )
        .connection(ReplyCode::CHANNEL_ERROR, Violation::ChannelNotOpen(NEVER)),
        case("close/channel_0", Scene::Idle, [send(close_on(0, 404))]).connection(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::CHANNEL_CLOSE, 0),
        ),
    ]
}

fn connections() -> Vec<Case> {
    let by_server = |code| End::ConnectionByServer(ReplyCode(code));
    vec![
        case(
            "close/connection_without_a_code",
            Scene::Confirming,
            [send(close_connection(0))],
        )
        .end(by_server(0)),
        case(
            "close/connection_with_success",
            Scene::Declaring,
            [send(close_connection(200))],
        )
        .end(by_server(200)),
        case(
            "close/connection_with_a_channels_code",
            Scene::Consuming,
            [send(close_connection(404))],
        )
        .end(by_server(404)),
        case(
            "close/connection_twice",
            Scene::Consuming,
            [send(close_connection(320).repeat(2))],
        )
        .end(by_server(320)),
        case(
            "close/connection_and_frames_behind_it",
            Scene::Confirming,
            [send(
                [close_connection(320), ack(ON, 2, true), raw(4, 0, b"")].concat(),
            )],
        )
        .end(by_server(320)),
        case(
            "close/connection_on_a_channel",
            Scene::Idle,
            [send(method(ON, connection::Close::default()))],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::CONNECTION_CLOSE, ON),
        ),
        // The close-ok finds nobody.
        case(
            "close/connection_and_gone",
            Scene::Committing,
            [send(close_connection(320)), HangUp],
        )
        .end(by_server(320))
        .unheard(),
        case(
            "close/connection_and_half_closed",
            Scene::Declaring,
            [send(close_connection(320)), HalfClose],
        )
        .end(by_server(320)),
        case(
            "close/within_a_body",
            Scene::Consuming,
            [send(
                [
                    deliver_to(ON, b"c", 1),
                    header(ON, 9),
                    body(ON, b"x"),
                    close_connection(541),
                ]
                .concat(),
            )],
        )
        .end(by_server(541)),
    ]
}

/// The client closes, and the server has other ideas.
fn ours() -> Vec<Case> {
    let anything = || {
        [
            delivery(ON, b"d", 1, b"x"),
            ack(ON, 7, true),
            method(ON, queue::DeclareOk::default()),
            method(ON, basic::Publish::default()),
        ]
        .concat()
    };
    vec![
        // Both are answered; ours has then not been answered yet.
        case(
            "closing/channel_crossed",
            Scene::ClosingChannel,
            [send(close(404))],
        )
        .told(ON, MethodId::CHANNEL_CLOSE_OK, 1),
        case(
            "closing/channel_crossed_again_and_again",
            Scene::ClosingChannel,
            [send(close(404).repeat(100))],
        )
        .told(ON, MethodId::CHANNEL_CLOSE_OK, 1),
        case(
            "closing/channel_and_anything_before_its_answer",
            Scene::ClosingChannel,
            [send(anything())],
        ),
        case(
            "closing/channel_and_contents_out_of_order",
            Scene::ClosingChannel,
            [send(
                [body(ON, b"x"), header(ON, u64::MAX), body(ON, b"")].concat(),
            )],
        ),
        case(
            "closing/channel_never_answered",
            Scene::ClosingChannel,
            [Wait(Duration::from_secs(60))],
        )
        .end(End::Call(Operation::Reply(MethodId::CHANNEL_CLOSE)))
        .within(31),
        case(
            "closing/channel_answered_late",
            Scene::ClosingChannel,
            [Wait(Duration::from_secs(29))],
        )
        .within(30),
        case(
            "closing/connection_crossed",
            Scene::ClosingConnection,
            [send(close_connection(320))],
        )
        .told(0, MethodId::CONNECTION_CLOSE_OK, 1)
        .answered()
        .end(End::ClosedByClient),
        case(
            "closing/connection_never_answered",
            Scene::ClosingConnection,
            [Wait(Duration::from_secs(60))],
        )
        .end(End::NotClosed)
        .within(31),
        case(
            "closing/connection_answered_by_the_end",
            Scene::ClosingConnection,
            [HangUp],
        )
        .answered()
        .end(End::ClosedByClient),
        case(
            "closing/connection_answered_by_half_an_end",
            Scene::ClosingConnection,
            [HalfClose],
        )
        .answered()
        .end(End::ClosedByClient),
        case(
            "closing/connection_and_anything_before_its_answer",
            Scene::ClosingConnection,
            [send(anything())],
        )
        // Its stream is read until it ends, for a second at most.
        .within(2)
        .end(End::ClosedByClient),
        case(
            "closing/connection_answered_by_nonsense",
            Scene::ClosingConnection,
            [send(raw(4, 0, b""))],
        )
        .answered()
        .end(End::ClosedByClient),
        case(
            "closing/connection_and_heartbeats_for_good",
            Scene::ClosingConnection,
            [
                Flood(100, |_| heartbeat()),
                Repeat(heartbeat().into(), 1000),
            ],
        )
        .end(End::NotClosed)
        .within(31),
        case(
            "closing/connection_and_data_behind_its_answer",
            Scene::ClosingConnection,
            [send(
                [
                    method(0, connection::CloseOk {}),
                    raw(4, 0, b""),
                    vec![7; 10_000],
                ]
                .concat(),
            )],
        )
        .answered()
        .end(End::ClosedByClient),
        // The fault is ours to name, and the server does not care.
        case(
            "closing/our_complaint_never_answered",
            Scene::Confirming,
            [send(raw(4, ON, b""))],
        )
        .connection(ReplyCode::FRAME_ERROR, DecodeErrorKind::UnknownFrameType(4))
        .never_answers_close(),
        case(
            "closing/our_complaint_about_a_channel_never_answered",
            Scene::Confirming,
            [send(ack(ON, 3, false))],
        )
        .channel(
            ReplyCode::PRECONDITION_FAILED,
            Violation::UnknownConfirm { tag: 3, last: 2 },
        )
        .never_answers_close(),
        case(
            "closing/our_complaint_answered_by_a_close",
            Scene::Confirming,
            [
                send(header(ON, 1)),
                Wait(Duration::from_millis(10)),
                send(close_connection(541)),
            ],
        )
        .connection(
            ReplyCode::UNEXPECTED_FRAME,
            amqp_client::codec::ContentError::UnexpectedHeader,
        )
        .told_after(0, MethodId::CONNECTION_CLOSE_OK, 1)
        .never_answers_close(),
        case(
            "closing/connection_lost_instead",
            Scene::ClosingChannel,
            [HangUp],
        )
        .end(End::Lost(Lost::EndOfStream)),
    ]
}
