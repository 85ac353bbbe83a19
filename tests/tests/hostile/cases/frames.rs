//! The envelope: types, sizes, ends, channels.

use std::time::Duration;

use amqp_client::codec::{DecodeErrorKind, MethodId, ReplyCode, frame};
use amqp_client::error::Violation;

use crate::case::Act::{Drip, HalfClose, HangUp, Wait};
use crate::case::{Case, End, Lost, NEVER, ON, Scene, case};
use crate::wire::{ack, body, head, header, heartbeat, lying, method, method_bytes, raw, send};

/// What every peer here proposes.
const FRAME_MAX: u32 = 131_072;

pub(crate) fn cases() -> Vec<Case> {
    let too_large = |size: u64, max| DecodeErrorKind::FrameTooLarge { size, max };
    let gib = u64::from(u32::MAX) + 8;
    let declare_ok = method(ON, amqp_client::codec::queue::DeclareOk::default());
    vec![
        case(
            "frame/of_type_0",
            Scene::Confirming,
            [send(raw(0, ON, b""))],
        )
        .connection(ReplyCode::FRAME_ERROR, DecodeErrorKind::UnknownFrameType(0)),
        case(
            "frame/of_type_4",
            Scene::Declaring,
            [send(raw(4, ON, b"trace"))],
        )
        .connection(ReplyCode::FRAME_ERROR, DecodeErrorKind::UnknownFrameType(4)),
        case(
            "frame/of_type_255",
            Scene::Consuming,
            [send(raw(255, ON, b""))],
        )
        .connection(
            ReplyCode::FRAME_ERROR,
            DecodeErrorKind::UnknownFrameType(255),
        ),
        case(
            "frame/protocol_header_midway",
            Scene::Declaring,
            [send(&b"AMQP\0\0\x09\x01"[..])],
        )
        .connection(
            ReplyCode::FRAME_ERROR,
            DecodeErrorKind::UnknownFrameType(b'A'),
        ),
        case(
            "frame/http_midway",
            Scene::Committing,
            [send(&b"HTTP/1.1 502 Bad Gateway\r\n\r\n"[..]), HangUp],
        )
        .connection(
            ReplyCode::FRAME_ERROR,
            DecodeErrorKind::UnknownFrameType(b'H'),
        )
        .unheard(),
        case(
            "frame/bad_end",
            Scene::Getting,
            [send(
                [&declare_ok[..declare_ok.len() - 1], b"\xcd"].concat(),
            )],
        )
        .connection(ReplyCode::FRAME_ERROR, DecodeErrorKind::BadFrameEnd(0xcd)),
        case(
            "frame/says_less_than_it_has",
            Scene::Declaring,
            [send(lying(
                frame::METHOD,
                ON,
                5,
                &[0, 50, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ))],
        )
        .connection(ReplyCode::FRAME_ERROR, DecodeErrorKind::BadFrameEnd(0)),
        case(
            "frame/says_more_than_it_has",
            Scene::Declaring,
            [send(
                [
                    lying(
                        frame::METHOD,
                        ON,
                        14,
                        &[0, 50, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                    ),
                    heartbeat(),
                ]
                .concat(),
            )],
        )
        .connection(
            ReplyCode::FRAME_ERROR,
            DecodeErrorKind::BadFrameEnd(frame::HEARTBEAT),
        ),
        case(
            "frame/method_of_4_gib",
            Scene::Confirming,
            [send(head(frame::METHOD, ON, u32::MAX))],
        )
        .connection(ReplyCode::FRAME_ERROR, too_large(gib, 1 << 20)),
        case(
            "frame/header_of_4_gib",
            Scene::Confirming,
            [send(head(frame::HEADER, ON, u32::MAX))],
        )
        .connection(ReplyCode::FRAME_ERROR, too_large(gib, 1 << 20)),
        case(
            "frame/body_of_4_gib",
            Scene::Confirming,
            [send(head(frame::BODY, ON, u32::MAX))],
        )
        .connection(ReplyCode::FRAME_ERROR, too_large(gib, FRAME_MAX)),
        case(
            "frame/body_one_above_frame_max",
            Scene::Confirming,
            [send(head(frame::BODY, ON, FRAME_MAX - 7))],
        )
        .connection(
            ReplyCode::FRAME_ERROR,
            too_large(u64::from(FRAME_MAX) + 1, FRAME_MAX),
        ),
        case(
            "frame/method_one_above_its_limit",
            Scene::Confirming,
            [send(head(frame::METHOD, ON, (1 << 20) - 7))],
        )
        .connection(ReplyCode::FRAME_ERROR, too_large((1 << 20) + 1, 1 << 20)),
        case(
            "frame/heartbeat_with_a_payload",
            Scene::Declaring,
            [send(raw(frame::HEARTBEAT, 0, b"!"))],
        )
        .connection(ReplyCode::FRAME_ERROR, DecodeErrorKind::HeartbeatPayload),
        case(
            "frame/heartbeat_on_a_channel",
            Scene::Declaring,
            [send(raw(frame::HEARTBEAT, ON, b""))],
        )
        .connection(
            ReplyCode::UNEXPECTED_FRAME,
            DecodeErrorKind::HeartbeatChannel(ON),
        ),
        case(
            "frame/header_on_channel_0",
            Scene::Declaring,
            [send(header(0, 1))],
        )
        .connection(ReplyCode::CHANNEL_ERROR, Violation::ChannelNotOpen(0)),
        case(
            "frame/body_on_channel_0",
            Scene::Declaring,
            [send(body(0, b"x"))],
        )
        .connection(ReplyCode::CHANNEL_ERROR, Violation::ChannelNotOpen(0)),
        case(
            "frame/method_on_a_channel_that_never_was",
            Scene::Declaring,
            [send(ack(NEVER, 1, false))],
        )
        .connection(ReplyCode::CHANNEL_ERROR, Violation::ChannelNotOpen(NEVER)),
        case(
            "frame/header_on_a_channel_that_never_was",
            Scene::Idle,
            [send(header(NEVER, 1))],
        )
        .connection(ReplyCode::CHANNEL_ERROR, Violation::ChannelNotOpen(NEVER)),
        case(
            "frame/body_on_channel_65535",
            Scene::Idle,
            [send(body(u16::MAX, b"x"))],
        )
        .connection(
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(u16::MAX),
        ),
        case(
            "frame/method_without_its_id",
            Scene::Declaring,
            [send(raw(frame::METHOD, ON, [0, 50]))],
        )
        .connection(ReplyCode::SYNTAX_ERROR, DecodeErrorKind::Truncated),
        case(
            "frame/empty_method",
            Scene::Declaring,
            [send(raw(frame::METHOD, ON, b""))],
        )
        .connection(ReplyCode::SYNTAX_ERROR, DecodeErrorKind::Truncated),
        case(
            "frame/fault_and_the_answer_behind_it",
            Scene::Declaring,
            [send([raw(4, ON, b""), declare_ok.clone()].concat())],
        )
        .connection(ReplyCode::FRAME_ERROR, DecodeErrorKind::UnknownFrameType(4)),
        case(
            "frame/half_and_the_end",
            Scene::Declaring,
            [send(declare_ok[..9].to_vec()), HangUp],
        )
        .end(End::Lost(Lost::EndOfStream)),
        case(
            "frame/half_and_half_closed",
            Scene::Confirming,
            [send(ack(ON, 2, true)[..12].to_vec()), HalfClose],
        )
        .end(End::Lost(Lost::EndOfStream)),
        case(
            "frame/half_and_silence",
            Scene::Declaring,
            [
                send(declare_ok[..9].to_vec()),
                Wait(Duration::from_secs(29)),
                send(declare_ok[9..].to_vec()),
            ],
        )
        .answered()
        .within(30),
        case(
            "frame/drip",
            Scene::Declaring,
            [Drip(declare_ok.clone().into(), Duration::from_secs(1))],
        )
        .answered()
        .within(30),
        case(
            "frame/unknown_class",
            Scene::Declaring,
            [send(method_bytes(ON, 99, 1, b""))],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            DecodeErrorKind::UnknownMethod(MethodId {
                class: 99,
                method: 1,
            }),
        ),
        case(
            "frame/unknown_method",
            Scene::Declaring,
            [send(method_bytes(ON, 60, 99, b""))],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            DecodeErrorKind::UnknownMethod(MethodId {
                class: 60,
                method: 99,
            }),
        ),
    ]
}
