//! Method, header and bodies of a message: their order, and what they say of each other.

use amqp_client::ConnectOptions;
use amqp_client::codec::{
    ContentError, DecodeErrorKind, MethodId, ReplyCode, basic, channel, frame, queue, short,
};
use amqp_client::error::Operation;

use super::unexpected;
use crate::case::Act::Repeat;
use crate::case::{Case, End, ON, Scene, WITNESS, case};
use crate::wire::{
    ack, body, deliver_to, delivery, header, header_of, heartbeat, lying, method, nested_arrays,
    raw, returned, send,
};

/// Property flags for the headers' table alone.
const HEADERS: [u8; 2] = [0x20, 0];

pub(crate) fn cases() -> Vec<Case> {
    [order(), sizes(), properties(), odd()]
        .into_iter()
        .flatten()
        .collect()
}

/// Begins a message to the consumer, of which these frames follow.
fn message(frames: &[Vec<u8>]) -> Vec<u8> {
    [deliver_to(ON, b"c", 1), frames.concat()].concat()
}

fn order() -> Vec<Case> {
    let case = |name, frames: &[Vec<u8>]| case(name, Scene::Consuming, [send(frames.concat())]);
    let fault =
        |case: Case, error: ContentError| case.connection(ReplyCode::UNEXPECTED_FRAME, error);
    let deliver = || deliver_to(ON, b"c", 1);
    vec![
        fault(
            case("content/header_without_method", &[header(ON, 1)]),
            ContentError::UnexpectedHeader,
        ),
        fault(
            case("content/body_without_header", &[body(ON, b"x")]),
            ContentError::UnexpectedBody,
        ),
        fault(
            case(
                "content/body_instead_of_header",
                &[deliver(), body(ON, b"x")],
            ),
            ContentError::UnexpectedBody,
        ),
        fault(
            case(
                "content/second_header",
                &[deliver(), header(ON, 9), header(ON, 9)],
            ),
            ContentError::UnexpectedHeader,
        ),
        fault(
            case(
                "content/header_within_the_body",
                &[deliver(), header(ON, 9), body(ON, b"x"), header(ON, 9)],
            ),
            ContentError::UnexpectedHeader,
        ),
        fault(
            case("content/second_method", &[deliver(), deliver()]),
            ContentError::UnexpectedMethod,
        ),
        fault(
            case(
                "content/method_within_the_body",
                &[deliver(), header(ON, 9), body(ON, b"x"), deliver()],
            ),
            ContentError::UnexpectedMethod,
        ),
        fault(
            case(
                "content/ack_within_the_body",
                &[deliver(), header(ON, 9), body(ON, b"x"), ack(ON, 1, false)],
            ),
            ContentError::UnexpectedMethod,
        ),
        fault(
            case(
                "content/flow_before_the_header",
                &[
                    deliver(),
                    method(
                        ON,
                        channel::Flow {
                            active: true,
                            ..Default::default()
                        },
                    ),
                ],
            ),
            ContentError::UnexpectedMethod,
        ),
        fault(
            case(
                "content/channel_close_within_the_body",
                &[
                    deliver(),
                    header(ON, 9),
                    method(ON, channel::Close::default()),
                ],
            ),
            ContentError::UnexpectedMethod,
        ),
        fault(
            case(
                "content/return_within_a_delivery",
                &[deliver(), returned(ON, b"", b"x")],
            ),
            ContentError::UnexpectedMethod,
        ),
        fault(
            case(
                "content/more_body_after_the_last_byte",
                &[delivery(ON, b"d", 1, b"x"), body(ON, b"y")],
            ),
            ContentError::UnexpectedBody,
        ),
        fault(
            case(
                "content/body_after_an_empty_one",
                &[delivery(ON, b"d", 1, b""), body(ON, b"")],
            ),
            ContentError::UnexpectedBody,
        ),
        fault(
            case(
                "content/body_on_another_channel",
                &[deliver(), header(ON, 1), body(WITNESS, b"x")],
            ),
            ContentError::UnexpectedBody,
        ),
        fault(
            case(
                "content/header_on_another_channel",
                &[deliver(), header(WITNESS, 1)],
            ),
            ContentError::UnexpectedHeader,
        ),
    ]
}

fn sizes() -> Vec<Case> {
    let case = |name, frames: &[Vec<u8>]| case(name, Scene::Consuming, [send(message(frames))]);
    vec![
        case(
            "content/more_body_than_announced",
            &[header(ON, 3), body(ON, b"four")],
        )
        .connection(
            ReplyCode::FRAME_ERROR,
            ContentError::BodyTooLong {
                size: 4,
                announced: 3,
            },
        ),
        case(
            "content/more_body_in_the_second_frame",
            &[header(ON, 9), body(ON, b"12345"), body(ON, b"67890")],
        )
        .connection(
            ReplyCode::FRAME_ERROR,
            ContentError::BodyTooLong {
                size: 10,
                announced: 9,
            },
        ),
        // Larger than this side takes: the channel's fault alone, known before any of it came.
        case("content/body_of_16_eib", &[header(ON, u64::MAX)]).channel(
            ReplyCode::CONTENT_TOO_LARGE,
            ContentError::TooLarge {
                size: u64::MAX,
                max: 128 << 20,
            },
        ),
        case(
            "content/body_one_above_the_limit",
            &[header(ON, (128 << 20) + 1), body(ON, b"x")],
        )
        .channel(
            ReplyCode::CONTENT_TOO_LARGE,
            ContentError::TooLarge {
                size: (128 << 20) + 1,
                max: 128 << 20,
            },
        ),
        crate::case::case(
            "content/returned_body_above_the_limit",
            Scene::Confirming,
            [send(
                [method(ON, basic::Return::default()), header(ON, 1001)].concat(),
            )],
        )
        .channel(
            ReplyCode::CONTENT_TOO_LARGE,
            ContentError::TooLarge {
                size: 1001,
                max: 1000,
            },
        )
        .options(|options: ConnectOptions| {
            options.limits(amqp_client::Limits {
                message_bytes: 1000,
                ..Default::default()
            })
        }),
        // What was announced is not reserved.
        crate::case::case(
            "content/body_of_128_mib_that_does_not_come",
            Scene::Declaring,
            [send(
                [
                    deliver_to(ON, b"d", 1),
                    header(ON, 128 << 20),
                    body(ON, &[1; 1000]),
                ]
                .concat(),
            )],
        )
        .end(End::Call(Operation::Reply(MethodId::QUEUE_DECLARE)))
        .within(31),
    ]
}

fn properties() -> Vec<Case> {
    let case = |name, rest: &[u8]| {
        case(
            name,
            Scene::Consuming,
            [send(message(&[header_of(ON, 60, 0, 1, rest)]))],
        )
    };
    let syntax = |case: Case, kind: DecodeErrorKind| case.connection(ReplyCode::SYNTAX_ERROR, kind);
    let wrong = |name, class, weight| {
        crate::case::case(
            name,
            Scene::Consuming,
            [send(message(&[header_of(ON, class, weight, 1, &[0, 0])]))],
        )
    };
    vec![
        wrong("header/of_another_class", 50, 0)
            .connection(ReplyCode::UNEXPECTED_FRAME, ContentError::WrongClass(50)),
        wrong("header/with_a_weight", 60, 1)
            .connection(ReplyCode::UNEXPECTED_FRAME, DecodeErrorKind::Weight(1)),
        syntax(
            case("header/without_flags", b""),
            DecodeErrorKind::Truncated,
        ),
        syntax(
            case("header/flags_and_no_property", &[0x80, 0]),
            DecodeErrorKind::Truncated,
        ),
        syntax(
            case(
                "header/property_longer_than_its_frame",
                &[0x80, 0, 200, b'x'],
            ),
            DecodeErrorKind::Truncated,
        ),
        syntax(
            case(
                "header/table_of_4_gib",
                &[&HEADERS[..], &[0xff; 4]].concat(),
            ),
            DecodeErrorKind::Truncated,
        ),
        syntax(
            case("header/flags_that_go_on", &[0, 1, 0, 0]),
            DecodeErrorKind::PropertyFlags(1),
        ),
        syntax(
            case("header/flag_of_no_property", &[0, 2]),
            DecodeErrorKind::PropertyFlags(2),
        ),
        syntax(
            case("header/bytes_behind_the_properties", &[0, 0, 7]),
            DecodeErrorKind::TrailingBytes,
        ),
        crate::case::case(
            "header/shorter_than_it_must_be",
            Scene::Consuming,
            [send(message(&[raw(
                frame::HEADER,
                ON,
                [0, 60, 0, 0, 0, 0],
            )]))],
        )
        .connection(ReplyCode::SYNTAX_ERROR, DecodeErrorKind::Truncated),
    ]
}

/// What looks wrong and is not, or is the business of whoever looks into a message.
fn odd() -> Vec<Case> {
    let long = |table: &[u8]| crate::wire::long(table);
    let poison = |table: &[u8]| {
        let header = header_of(ON, 60, 0, 1, &[&HEADERS[..], &long(table)].concat());
        message(&[header, body(ON, b"x")])
    };
    let whole = |name, frames: Vec<u8>| case(name, Scene::Consuming, [send(frames)]).answered();
    vec![
        whole(
            "odd/headers_nested_10000_deep",
            poison(&nested_arrays(10_000)),
        ),
        whole("odd/headers_of_an_unknown_type", poison(b"\x01nZ")),
        whole(
            "odd/headers_that_lie_about_their_length",
            poison(b"\x01nS\xff\xff\xff\xff"),
        ),
        whole(
            "odd/headers_not_utf_8",
            poison(b"\x02\xff\xfeS\0\0\0\x01\x80"),
        ),
        whole(
            "odd/empty_body_frames_within_the_body",
            message(&[
                header(ON, 2),
                body(ON, b""),
                body(ON, b"a"),
                body(ON, b""),
                body(ON, b"b"),
            ]),
        ),
        whole(
            "odd/heartbeats_within_the_body",
            message(&[heartbeat(), header(ON, 1), heartbeat(), body(ON, b"x")]),
        ),
        // Contents of two channels may alternate. The witness gets one that nobody is for, and gives it back.
        whole(
            "odd/contents_of_two_channels_alternate",
            [
                deliver_to(ON, b"c", 1),
                deliver_to(WITNESS, b"d", 1),
                header(WITNESS, 2),
                header(ON, 2),
                body(ON, b"a"),
                body(WITNESS, b"a"),
                body(WITNESS, b"b"),
                body(ON, b"b"),
            ]
            .concat(),
        )
        .told(WITNESS, MethodId::BASIC_NACK, 1),
        case(
            "odd/body_of_10000_frames",
            Scene::Consuming,
            [
                send(message(&[header(ON, 10_000)])),
                Repeat(body(ON, b"x").into(), 10_000),
            ],
        )
        .answered(),
        case(
            "odd/empty_body_frames_without_end",
            Scene::Declaring,
            [
                send([deliver_to(ON, b"d", 1), header(ON, 1)].concat()),
                Repeat(body(ON, b"").into(), 100_000),
                send(body(ON, b"x")),
            ],
        )
        .told(ON, MethodId::BASIC_NACK, 1),
        case(
            "odd/body_frame_of_a_wrong_size_midway",
            Scene::Consuming,
            [send(message(&[
                header(ON, 4),
                lying(frame::BODY, ON, 3, b"abcd"),
            ]))],
        )
        .connection(ReplyCode::FRAME_ERROR, DecodeErrorKind::BadFrameEnd(b'd')),
        case(
            "odd/got_while_a_delivery_is_under_way",
            Scene::Getting,
            [send(
                [
                    deliver_to(ON, b"d", 1),
                    header(ON, 9),
                    method(
                        ON,
                        basic::GetOk {
                            delivery_tag: 2,
                            ..Default::default()
                        },
                    ),
                ]
                .concat(),
            )],
        )
        .connection(ReplyCode::UNEXPECTED_FRAME, ContentError::UnexpectedMethod),
        case(
            "odd/answer_while_a_delivery_is_under_way",
            Scene::Declaring,
            [send(
                [
                    deliver_to(ON, b"d", 1),
                    method(
                        ON,
                        queue::DeclareOk {
                            queue: short!("q"),
                            ..Default::default()
                        },
                    ),
                ]
                .concat(),
            )],
        )
        .connection(ReplyCode::UNEXPECTED_FRAME, ContentError::UnexpectedMethod),
        case(
            "odd/got_nothing_with_a_content",
            Scene::Getting,
            [send(
                [method(ON, basic::GetEmpty::default()), header(ON, 1)].concat(),
            )],
        )
        .answered()
        .end(End::AnsweredThen(
            ReplyCode::UNEXPECTED_FRAME,
            ContentError::UnexpectedHeader.into(),
        )),
        case(
            "odd/return_outside_confirm_mode",
            Scene::Idle,
            [send(returned(ON, b"NO_ROUTE", b"x"))],
        ),
        case(
            "odd/return_of_what_was_not_mandatory",
            Scene::Confirming,
            [send(returned(ON, b"\xff\n\0", b"1"))],
        ),
        case(
            "odd/got_of_a_stranger",
            Scene::Declaring,
            [send(method(ON, basic::GetOk::default()))],
        )
        .connection(
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::BASIC_GET_OK, ON),
        ),
    ]
}
