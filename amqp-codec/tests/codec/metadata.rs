//! What the specification says about methods and codes.

use amqp_codec::{DecodeErrorKind, Direction, MethodId, ReplyCode};

#[test]
fn names() {
    assert_eq!(
        MethodId::BASIC_PUBLISH,
        MethodId {
            class: 60,
            method: 40
        }
    );
    assert_eq!(MethodId::BASIC_PUBLISH.name(), Some("basic.publish"));
    assert_eq!(
        MethodId::CONNECTION_UPDATE_SECRET.to_string(),
        "connection.update-secret"
    );
    assert_eq!(
        MethodId {
            class: 60,
            method: 99
        }
        .to_string(),
        "60.99"
    );
    assert_eq!(format!("{:?}", MethodId::TX_SELECT), "tx.select");
    for id in MethodId::ALL {
        assert!(id.name().is_some() && id.direction().is_some(), "{id}");
    }
}

#[test]
fn directions_and_replies() {
    assert_eq!(
        MethodId::BASIC_PUBLISH.direction(),
        Some(Direction::ToServer)
    );
    assert_eq!(
        MethodId::BASIC_DELIVER.direction(),
        Some(Direction::ToClient)
    );
    assert_eq!(MethodId::CHANNEL_CLOSE.direction(), Some(Direction::Both));
    assert_eq!(
        MethodId {
            class: 1,
            method: 1
        }
        .direction(),
        None
    );
    assert_eq!(
        MethodId::QUEUE_DECLARE.replies(),
        [MethodId::QUEUE_DECLARE_OK]
    );
    assert_eq!(
        MethodId::BASIC_GET.replies(),
        [MethodId::BASIC_GET_OK, MethodId::BASIC_GET_EMPTY]
    );
    assert!(MethodId::BASIC_PUBLISH.replies().is_empty());
    let with_content: Vec<_> = MethodId::ALL
        .iter()
        .filter(|id| id.carries_content())
        .collect();
    assert_eq!(
        with_content,
        [
            &MethodId::BASIC_PUBLISH,
            &MethodId::BASIC_RETURN,
            &MethodId::BASIC_DELIVER,
            &MethodId::BASIC_GET_OK
        ]
    );
}

#[test]
fn reply_codes() {
    assert_eq!(ReplyCode(312), ReplyCode::NO_ROUTE);
    assert_eq!(ReplyCode::NO_ROUTE.to_string(), "312 NO_ROUTE");
    assert_eq!(ReplyCode(999).to_string(), "999");
    assert_eq!(
        format!("{:?}", ReplyCode(541)),
        "ReplyCode(541 INTERNAL_ERROR)"
    );
    assert!(ReplyCode::FRAME_ERROR.is_hard() && !ReplyCode::FRAME_ERROR.is_soft());
    assert!(ReplyCode::NOT_FOUND.is_soft() && !ReplyCode::NOT_FOUND.is_hard());
}

/// Each kind of violation and the code it calls for: PROTOCOL numbers 35 to 38 where RabbitMQ and the specification
/// differ, else the specification.
#[test]
fn codes_of_violations() {
    use DecodeErrorKind::*;
    for (kind, code) in [
        (UnknownFrameType(0), 501),
        (FrameTooLarge { size: 9, max: 8 }, 501),
        (BadFrameEnd(0), 501),
        (HeartbeatPayload, 501),
        (HeartbeatChannel(1), 505),
        (Truncated, 502),
        (TrailingBytes, 502),
        (
            UnknownMethod(MethodId {
                class: 1,
                method: 1,
            }),
            503,
        ),
        (Weight(1), 505),
        (PropertyFlags(1), 502),
        (UnknownFieldType(b'U'), 502),
        (TableTooDeep(64), 506),
        (TableTooLong(64), 506),
    ] {
        assert_eq!(kind.reply_code(), ReplyCode(code), "{kind}");
        assert!(kind.reply_code().is_hard(), "{kind}");
    }
}
