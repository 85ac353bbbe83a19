use amqp_codec::basic::{self, Properties};
use amqp_codec::field::Array;
use amqp_codec::{
    Assembler, EncodeError, Frame, Limits, ProtocolHeader, RawFrame, Table, Value, content, frame,
    short,
};
use arbitrary::{Arbitrary, Unstructured};

use crate::encoded;
use crate::tables::check_table;

#[derive(Debug, Arbitrary)]
enum Case<'a> {
    Frame(Frame<'a>),
    Raw(RawFrame<'a>, Limits),
    Header(ProtocolHeader),
    Table(Table<'a>),
    Value(Value<'a>),
    Array(Array<'a>),
    Content {
        channel: u16,
        publish: basic::Publish<'a>,
        properties: Properties<'a>,
        body: &'a [u8],
        frame_max: u16,
    },
}

/// Values of all types, valid as they are: encoded and decoded again they are the same, and the other way round.
pub fn round_trip(data: &[u8]) {
    // Whatever size the fuzzer's input has: nothing here is refused for its size.
    let limits = Limits {
        frame_max: u32::MAX,
        ..Limits::default()
    };
    let mut u = Unstructured::new(data);
    while !u.is_empty() {
        let Ok(case) = u.arbitrary() else { return };
        match case {
            Case::Frame(frame) => check_frame(&frame, &limits),
            Case::Raw(raw, limits) => check_raw(&raw, &limits),
            Case::Header(header) => check_header(header),
            Case::Table(table) => check_table(&table),
            Case::Value(value) => check_value(&value),
            Case::Array(array) => check_value(&array.into()),
            Case::Content {
                channel,
                publish,
                properties,
                body,
                frame_max,
            } => check_content(channel, &publish, &properties, body, frame_max, &limits),
        }
    }
}

fn check_frame(frame: &Frame<'_>, limits: &Limits) {
    let bytes = encoded(|bytes| frame.encode(bytes));
    assert_eq!(frame.encoded_len(), bytes.len());
    let (raw, len) = parsed(&bytes, limits);
    assert_eq!((raw.channel, len), (frame.channel(), bytes.len()));
    assert_eq!(raw.decode(limits).as_ref(), Ok(frame));
    assert_eq!(encoded(|bytes| raw.encode(bytes)), bytes);
    check_room(&bytes, |buffer| frame.encode(buffer));
    // Of a part of it nothing comes, and it is known how much is missing at least.
    let part = &bytes[..bytes.len() - 1];
    assert_eq!(RawFrame::parse(part, limits), Ok(None));
    assert_eq!(frame::needed(part), 1);
}

fn parsed<'a>(bytes: &'a [u8], limits: &Limits) -> (RawFrame<'a>, usize) {
    let parsed = RawFrame::parse(bytes, limits).expect("a frame");
    parsed.expect("a whole one")
}

/// A buffer of the right size is filled, and one that is too small by a byte is left as it is.
fn check_room(bytes: &[u8], encode: impl Fn(&mut &mut [u8]) -> Result<(), EncodeError>) {
    let mut right = vec![0; bytes.len()];
    assert_eq!(encode(&mut &mut right[..]), Ok(()));
    assert_eq!(right, bytes);
    let mut small = vec![0; bytes.len() - 1];
    let error = EncodeError::NoRoom {
        needed: bytes.len(),
        room: small.len(),
    };
    assert_eq!(encode(&mut &mut small[..]), Err(error));
    assert!(small.iter().all(|byte| *byte == 0));
}

/// A frame that may be nonsense: it is parsed as it is, or refused.
fn check_raw(raw: &RawFrame<'_>, limits: &Limits) {
    let bytes = encoded(|bytes| raw.encode(bytes));
    assert_eq!(raw.encoded_len(), bytes.len());
    check_room(&bytes, |buffer| raw.encode(buffer));
    match RawFrame::parse(&bytes, limits) {
        Ok(Some(parsed)) => assert_eq!(parsed, (*raw, bytes.len())),
        Ok(None) => panic!("{raw:?} is whole"),
        Err(error) => assert!(error.reply_code().is_hard(), "{error}"),
    }
    if let Ok(frame) = raw.decode(limits) {
        assert_eq!(encoded(|bytes| frame.encode(bytes)), bytes);
    }
}

fn check_header(header: ProtocolHeader) {
    let bytes = header.to_bytes();
    assert_eq!(ProtocolHeader::parse(&bytes), Some(header));
    for end in 0..bytes.len() {
        assert!(ProtocolHeader::is_prefix(&bytes[..end]));
        assert_eq!(ProtocolHeader::parse(&bytes[..end]), None);
    }
    assert!(RawFrame::parse(&bytes, &Limits::default()).is_err());
}

/// In a table; by what is encoded and shown, for what is not a number is not equal to itself.
fn check_value(value: &Value<'_>) {
    let table = Table::from([(short!("key"), value.clone())]);
    let bytes = table.as_bytes();
    let decoded = Table::decode(bytes, &Limits::default()).expect("one more level than eight");
    let found = decoded.get("key").expect("the only entry");
    assert_eq!(format!("{found:?}"), format!("{value:?}"));
    assert_eq!(Table::from([(short!("key"), found)]).as_bytes(), bytes);
    check_table(&decoded);
}

/// A message in frames: none is too large, and together they are the message.
fn check_content(
    channel: u16,
    publish: &basic::Publish<'_>,
    properties: &Properties<'_>,
    body: &[u8],
    frame_max: u16,
    limits: &Limits,
) {
    let frame_max = u32::from(frame_max);
    let mut bytes = Vec::new();
    let result = content::encode(channel, publish, properties, body, frame_max, &mut bytes);
    let head = frame::method_frame_len(publish).max(20 + properties.encoded_len());
    if head > frame_max as usize {
        let error = EncodeError::FrameTooLarge {
            size: head as u64,
            frame_max,
        };
        assert_eq!((result, bytes.len()), (Err(error), 0));
        return;
    }
    assert_eq!(result, Ok(()));
    let len = content::encoded_len(publish, properties, body.len(), frame_max);
    assert_eq!(bytes.len(), len);
    check_room(&bytes, |buffer| {
        content::encode(channel, publish, properties, body, frame_max, buffer)
    });

    let mut assembler = Assembler::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (raw, len) = parsed(rest, limits);
        assert!(len <= frame_max as usize && raw.channel == channel);
        rest = &rest[len..];
        let content = match raw.decode(limits).expect("valid") {
            Frame::Method { method, .. } => {
                assert_eq!(method, publish.clone().into());
                assembler.start((), &[]).map(|()| None)
            }
            Frame::Header { header, .. } => assembler.header(&header, raw.payload, limits),
            Frame::Body { payload, .. } => {
                assert!(!payload.is_empty());
                assembler.body(payload, None)
            }
            Frame::Heartbeat => panic!("a heartbeat in a content"),
        };
        if let Some(content) = content.expect("in order") {
            assert!(rest.is_empty());
            assert_eq!(content.properties(), *properties);
            assert_eq!(content.body(), body);
            return;
        }
    }
    panic!("the content is not complete");
}
