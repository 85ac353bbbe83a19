//! Before the connection is open. Specification 2.2.4: who finds a fault before open is sent closes the socket and
//! sends nothing; from then on a close says what it is.

use std::time::Duration;

use amqp_client::codec::{
    DecodeErrorKind, LongStr, MethodId, ProtocolHeader, ReplyCode, Table, basic, channel,
    connection, frame, short, table,
};
use amqp_client::error::{Step, Violation};
use amqp_tests::peer::Greeting;

use super::unexpected;
use crate::case::Act::{Drip, HalfClose, HangUp, Repeat, Wait};
use crate::case::{Case, Failure, Lost, NEVER, Scene, case};
use crate::wire::{
    body, head, header, heartbeat, long, lying, method, method_bytes, nested_arrays, raw, send,
};

const START: Scene = Scene::Handshake(Step::Start);
const CREDENTIALS: Scene = Scene::Handshake(Step::Credentials);
const OPEN: Scene = Scene::Handshake(Step::Open);

pub(crate) fn cases() -> Vec<Case> {
    [start(), credentials(), open()]
        .into_iter()
        .flatten()
        .collect()
}

fn start_of(mechanisms: &'static [u8]) -> connection::Start<'static> {
    connection::Start {
        version_minor: 9,
        server_properties: table! { "product" => "Hostile" },
        mechanisms: LongStr::from(mechanisms),
        locales: LongStr::from("en_US"),
        ..Default::default()
    }
}

fn sound_start() -> Vec<u8> {
    method(0, start_of(b"PLAIN AMQPLAIN"))
}

/// connection.start with this for its table of server properties, as it goes over the wire.
fn start_with_properties(properties: &[u8]) -> Vec<u8> {
    let arguments = [&[0, 9][..], properties, &long(b"PLAIN"), &long(b"en_US")].concat();
    method_bytes(0, 10, 10, &arguments)
}

fn tune(channel_max: u16, frame_max: u32, heartbeat: u16) -> Vec<u8> {
    let tune = connection::Tune {
        channel_max,
        frame_max,
        heartbeat,
    };
    method(0, tune)
}

fn sound_tune() -> Vec<u8> {
    method(0, Greeting::default().tune)
}

fn open_ok() -> Vec<u8> {
    method(0, connection::OpenOk::default())
}

fn close(code: ReplyCode, text: &'static [u8]) -> Vec<u8> {
    let close = connection::Close {
        reply_code: code,
        reply_text: text.try_into().unwrap(),
        ..Default::default()
    };
    method(0, close)
}

fn broken(step: Step, code: ReplyCode, reason: impl Into<crate::case::Reason>) -> Failure {
    Failure::Violation(step, code, reason.into())
}

fn start() -> Vec<Case> {
    let of_start = |code, reason: DecodeErrorKind| broken(Step::Start, code, reason);
    let header_of = |id, major, minor, revision| ProtocolHeader {
        id,
        major,
        minor,
        revision,
    };
    vec![
        case(
            "start/protocol_header_of_0_8",
            START,
            [send(&b"AMQP\x01\x01\x08\0"[..])],
        )
        .not_opened(Failure::Protocol(header_of(1, 1, 8, 0))),
        case(
            "start/protocol_header_of_1_0",
            START,
            [send(&b"AMQP\x03\x01\0\0"[..])],
        )
        .not_opened(Failure::Protocol(header_of(3, 1, 0, 0))),
        case(
            "start/http",
            START,
            [send(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]), HangUp],
        )
        .not_opened(Failure::NotAmqp),
        case(
            "start/ssh_banner",
            START,
            [send(&b"SSH-2.0-OpenSSH_9.2\r\n"[..])],
        )
        .not_opened(Failure::NotAmqp),
        case(
            "start/tls_alert",
            START,
            [send(&b"\x15\x03\x03\0\x02\x02\x46"[..])],
        )
        .not_opened(Failure::Tls),
        case("start/zeros", START, [send(vec![0; 4096])]).not_opened(Failure::NotAmqp),
        case(
            "start/half_a_protocol_header_and_the_end",
            START,
            [send(&b"AMQP\0\0"[..]), HangUp],
        )
        .not_opened(Failure::Lost(Step::Start, Lost::EndOfStream)),
        case("start/end_of_the_stream", START, [HangUp])
            .not_opened(Failure::Lost(Step::Start, Lost::EndOfStream)),
        case("start/half_closed", START, [HalfClose])
            .not_opened(Failure::Lost(Step::Start, Lost::EndOfStream)),
        case(
            "start/half_a_frame_and_the_end",
            START,
            [send(sound_start()[..40].to_vec()), HangUp],
        )
        .not_opened(Failure::Lost(Step::Start, Lost::EndOfStream)),
        case("start/silence", START, [Wait(Duration::from_secs(60))])
            .not_opened(Failure::Lost(Step::Start, Lost::HandshakeTimeout))
            .within(11),
        case(
            "start/half_a_frame_and_silence",
            START,
            [send(sound_start()[..40].to_vec())],
        )
        .not_opened(Failure::Lost(Step::Start, Lost::HandshakeTimeout))
        .within(11),
        case(
            "start/drip",
            START,
            [Drip(sound_start().into(), Duration::from_secs(1))],
        )
        .not_opened(Failure::Lost(Step::Start, Lost::HandshakeTimeout))
        .within(11),
        case(
            "start/heartbeat_now_and_then",
            START,
            [Drip(
                heartbeat().repeat(20).into(),
                Duration::from_millis(200),
            )],
        )
        .not_opened(Failure::Lost(Step::Start, Lost::HandshakeTimeout))
        .within(11),
        case(
            "start/version_0_8",
            START,
            [send(method(
                0,
                connection::Start {
                    version_major: 8,
                    version_minor: 0,
                    ..start_of(b"PLAIN")
                },
            ))],
        )
        .not_opened(Failure::Version(8, 0)),
        case(
            "start/frame_of_4_gib",
            START,
            [send(head(frame::METHOD, 0, u32::MAX))],
        )
        .not_opened(of_start(
            ReplyCode::FRAME_ERROR,
            DecodeErrorKind::FrameTooLarge {
                size: u64::from(u32::MAX) + 8,
                max: 64 << 10,
            },
        )),
        case(
            "start/without_frame_end",
            START,
            [send(
                [&sound_start()[..sound_start().len() - 1], b"\0"].concat(),
            )],
        )
        .not_opened(of_start(
            ReplyCode::FRAME_ERROR,
            DecodeErrorKind::BadFrameEnd(0),
        )),
        case(
            "start/fields_cut_off",
            START,
            [send(method_bytes(0, 10, 10, &[0, 9, 0]))],
        )
        .not_opened(of_start(
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::Truncated,
        )),
        case(
            "start/bytes_behind_the_fields",
            START,
            [send(raw(
                frame::METHOD,
                0,
                [&sound_start()[7..sound_start().len() - 1], b"more"].concat(),
            ))],
        )
        .not_opened(of_start(
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::TrailingBytes,
        )),
        case(
            "start/table_longer_than_its_frame",
            START,
            [send(start_with_properties(&[0xff; 4]))],
        )
        .not_opened(of_start(
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::Truncated,
        )),
        case(
            "start/value_longer_than_its_table",
            START,
            [send(start_with_properties(&long(
                b"\x01nS\xff\xff\xff\xff",
            )))],
        )
        .not_opened(of_start(
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::Truncated,
        )),
        case(
            "start/key_longer_than_its_table",
            START,
            [send(start_with_properties(&long(b"\xffn")))],
        )
        .not_opened(of_start(
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::Truncated,
        )),
        case(
            "start/unknown_field_type",
            START,
            [send(start_with_properties(&long(b"\x01nZ")))],
        )
        .not_opened(of_start(
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::UnknownFieldType(b'Z'),
        )),
        case(
            "start/arrays_nested_500_deep",
            START,
            [send(start_with_properties(&long(&nested_arrays(500))))],
        )
        .not_opened(of_start(
            ReplyCode::RESOURCE_ERROR,
            DecodeErrorKind::TableTooDeep(64),
        )),
        case(
            "start/no_mechanism",
            START,
            [send(method(0, start_of(b"")))],
        )
        .not_opened(Failure::Authentication),
        case(
            "start/mechanism_in_part",
            START,
            [send(method(0, start_of(b"PLAINER XPLAIN plain")))],
        )
        .not_opened(Failure::Authentication),
        case(
            "start/texts_not_utf_8",
            START,
            [
                send(method(
                    0,
                    connection::Start {
                        server_properties: Table::from_iter([(
                            short!("product"),
                            LongStr::from(b"\xff\xfe"),
                        )]),
                        locales: LongStr::from(b"\x80"),
                        ..start_of(b"\xff PLAIN \xc3")
                    },
                )),
                send(sound_tune()),
                send(open_ok()),
            ],
        )
        .answered(),
        case(
            "start/all_answers_at_once",
            START,
            [send([sound_start(), sound_tune(), open_ok()].concat())],
        )
        .answered(),
        case("start/tune_first", START, [send(sound_tune())]).not_opened(broken(
            Step::Start,
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::CONNECTION_TUNE, 0),
        )),
        case("start/open_ok_first", START, [send(open_ok())]).not_opened(broken(
            Step::Start,
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::CONNECTION_OPEN_OK, 0),
        )),
        case(
            "start/on_channel_1",
            START,
            [send(method(1, start_of(b"PLAIN")))],
        )
        .not_opened(broken(
            Step::Start,
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(1),
        )),
        case("start/body_first", START, [send(body(0, b"x"))]).not_opened(broken(
            Step::Start,
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(0),
        )),
        case(
            "start/closed_by_the_server",
            START,
            [send(close(ReplyCode::CONNECTION_FORCED, b"shutdown"))],
        )
        .not_opened(Failure::ByServer(Step::Start, ReplyCode::CONNECTION_FORCED)),
    ]
}

fn credentials() -> Vec<Case> {
    let step = Step::Credentials;
    let invalid = |method| {
        broken(
            Step::Credentials,
            ReplyCode::COMMAND_INVALID,
            unexpected(method, 0),
        )
    };
    vec![
        case(
            "credentials/silence",
            CREDENTIALS,
            [Wait(Duration::from_secs(60))],
        )
        .not_opened(Failure::Lost(step, Lost::HandshakeTimeout))
        .within(11),
        case("credentials/end_of_the_stream", CREDENTIALS, [HangUp])
            .not_opened(Failure::CredentialsProbablyRefused),
        case("credentials/half_closed", CREDENTIALS, [HalfClose])
            .not_opened(Failure::CredentialsProbablyRefused),
        case(
            "credentials/refused_in_text_not_utf_8",
            CREDENTIALS,
            [send(close(ReplyCode::ACCESS_REFUSED, b"\xff\xfe\n\0"))],
        )
        .not_opened(Failure::CredentialsRefused),
        case(
            "credentials/closed_without_a_code",
            CREDENTIALS,
            [send(close(ReplyCode(0), b""))],
        )
        .not_opened(Failure::ByServer(step, ReplyCode(0))),
        case(
            "credentials/start_again",
            CREDENTIALS,
            [send(sound_start())],
        )
        .not_opened(invalid(MethodId::CONNECTION_START)),
        case(
            "credentials/open_ok_before_tune",
            CREDENTIALS,
            [send(open_ok())],
        )
        .not_opened(invalid(MethodId::CONNECTION_OPEN_OK)),
        case(
            "credentials/blocked_before_open",
            CREDENTIALS,
            [send(method(0, connection::Blocked::default()))],
        )
        .not_opened(invalid(MethodId::CONNECTION_BLOCKED)),
        case(
            "credentials/start_ok_from_the_server",
            CREDENTIALS,
            [send(method(0, connection::StartOk::default()))],
        )
        .not_opened(invalid(MethodId::CONNECTION_START_OK)),
        case(
            "credentials/close_ok_to_no_close",
            CREDENTIALS,
            [send(method(0, connection::CloseOk {}))],
        )
        .not_opened(invalid(MethodId::CONNECTION_CLOSE_OK)),
        case(
            "credentials/channel_before_open",
            CREDENTIALS,
            [send(method(1, channel::OpenOk::default()))],
        )
        .not_opened(broken(
            step,
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(1),
        )),
        case(
            "credentials/challenge_that_plain_cannot_answer",
            CREDENTIALS,
            [send(method(
                0,
                connection::Secure {
                    challenge: LongStr::from("more?"),
                },
            ))],
        )
        .not_opened(Failure::Authentication),
        case(
            "credentials/challenge_longer_than_its_frame",
            CREDENTIALS,
            [send(method_bytes(0, 10, 20, &[0xff, 0xff, 0xff, 0xff, 1]))],
        )
        .not_opened(broken(
            step,
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::Truncated,
        )),
        case(
            "credentials/frame_longer_than_it_says",
            CREDENTIALS,
            [send(lying(
                frame::METHOD,
                0,
                10,
                &[0, 10, 0, 30, 7, 0xff, 0, 2, 0, 0, 0, 0],
            ))],
        )
        .not_opened(broken(
            step,
            ReplyCode::FRAME_ERROR,
            DecodeErrorKind::BadFrameEnd(0),
        )),
        case(
            "tune/frames_of_1_byte",
            CREDENTIALS,
            [send(tune(2047, 1, 60))],
        )
        .not_opened(Failure::Tune),
        case(
            "tune/frames_just_below_the_minimum",
            CREDENTIALS,
            [send(tune(2047, 4095, 60))],
        )
        .not_opened(Failure::Tune),
        case(
            "tune/all_zero",
            CREDENTIALS,
            [send(tune(0, 0, 0)), send(open_ok())],
        )
        .answered(),
        case(
            "tune/all_ones",
            CREDENTIALS,
            [send(tune(u16::MAX, u32::MAX, u16::MAX)), send(open_ok())],
        )
        .answered(),
        case(
            "tune/twice",
            CREDENTIALS,
            [send(sound_tune()), send(sound_tune())],
        )
        .told(0, MethodId::CONNECTION_TUNE_OK, 1)
        .told(0, MethodId::CONNECTION_OPEN, 1)
        .not_opened(broken(
            Step::Open,
            ReplyCode::COMMAND_INVALID,
            unexpected(MethodId::CONNECTION_TUNE, 0),
        )),
        case(
            "tune/cut_off",
            CREDENTIALS,
            [send(method_bytes(0, 10, 30, &[7, 0xff, 0]))],
        )
        .not_opened(broken(
            step,
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::Truncated,
        )),
        case(
            "tune/tune_ok_from_the_server",
            CREDENTIALS,
            [send(method(0, connection::TuneOk::default()))],
        )
        .not_opened(invalid(MethodId::CONNECTION_TUNE_OK)),
    ]
}

fn open() -> Vec<Case> {
    let step = Step::Open;
    let invalid = |method| {
        broken(
            Step::Open,
            ReplyCode::COMMAND_INVALID,
            unexpected(method, 0),
        )
    };
    vec![
        case("open/silence", OPEN, [Wait(Duration::from_secs(60))])
            .not_opened(Failure::Lost(step, Lost::HandshakeTimeout))
            .within(11),
        case("open/end_of_the_stream", OPEN, [HangUp])
            .not_opened(Failure::Lost(step, Lost::EndOfStream)),
        case(
            "open/virtual_host_refused",
            OPEN,
            [send(close(
                ReplyCode::NOT_ALLOWED,
                b"NOT_ALLOWED - vhost / not found",
            ))],
        )
        .not_opened(Failure::VirtualHostRefused),
        case(
            "open/closed_and_open_ok_behind_it",
            OPEN,
            [send(
                [close(ReplyCode::INTERNAL_ERROR, b""), open_ok()].concat(),
            )],
        )
        .not_opened(Failure::ByServer(step, ReplyCode::INTERNAL_ERROR)),
        case("open/start_again", OPEN, [send(sound_start())])
            .not_opened(invalid(MethodId::CONNECTION_START)),
        case(
            "open/open_from_the_server",
            OPEN,
            [send(method(0, connection::Open::default()))],
        )
        .not_opened(invalid(MethodId::CONNECTION_OPEN)),
        case(
            "open/update_secret_ok",
            OPEN,
            [send(method(0, connection::UpdateSecretOk {}))],
        )
        .not_opened(invalid(MethodId::CONNECTION_UPDATE_SECRET_OK)),
        case(
            "open/delivery_before_open_ok",
            OPEN,
            [send(method(1, basic::Deliver::default()))],
        )
        .not_opened(broken(
            step,
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(1),
        )),
        case("open/header_before_open_ok", OPEN, [send(header(NEVER, 1))]).not_opened(broken(
            step,
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(NEVER),
        )),
        case(
            "open/open_ok_on_channel_1",
            OPEN,
            [send(method(1, connection::OpenOk::default()))],
        )
        .not_opened(broken(
            step,
            ReplyCode::CHANNEL_ERROR,
            Violation::ChannelNotOpen(1),
        )),
        case(
            "open/open_ok_longer_than_its_frame",
            OPEN,
            [send(method_bytes(0, 10, 41, &[0xff]))],
        )
        .not_opened(broken(
            step,
            ReplyCode::SYNTAX_ERROR,
            DecodeErrorKind::Truncated,
        )),
        case(
            "open/text_not_utf_8",
            OPEN,
            [send(method_bytes(0, 10, 41, b"\x02\xff\xfe"))],
        )
        .answered(),
        case(
            "open/some_heartbeats",
            OPEN,
            [Repeat(heartbeat().into(), 100), send(open_ok())],
        )
        .answered(),
    ]
}
