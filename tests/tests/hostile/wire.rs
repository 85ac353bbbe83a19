//! Bytes that a server sends: frames right and wrong.

use amqp_client::codec::{MethodFields, RawFrame, ShortStr, basic, frame, short};
use bytes::Bytes;

use super::case::Act;

/// Sends this.
pub(crate) fn send(bytes: impl Into<Bytes>) -> Act {
    Act::Send(bytes.into())
}

/// A frame, whatever is in it.
pub(crate) fn raw(kind: u8, channel: u16, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let payload = payload.as_ref();
    let frame = RawFrame {
        kind,
        channel,
        payload,
    };
    frame.encode(&mut bytes).unwrap();
    bytes
}

/// A frame that says it has `size` bytes of payload, whatever it has.
pub(crate) fn lying(kind: u8, channel: u16, size: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = raw(kind, channel, payload);
    bytes[3..7].copy_from_slice(&size.to_be_bytes());
    bytes
}

/// A frame's first seven bytes.
pub(crate) fn head(kind: u8, channel: u16, size: u32) -> Vec<u8> {
    lying(kind, channel, size, b"")[..7].to_vec()
}

/// A method.
pub(crate) fn method(channel: u16, method: impl MethodFields) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::encode_method(channel, &method, &mut bytes).unwrap();
    bytes
}

/// A method frame with these bytes for class, method and arguments.
pub(crate) fn method_bytes(channel: u16, class: u16, id: u16, arguments: &[u8]) -> Vec<u8> {
    let payload = [&class.to_be_bytes()[..], &id.to_be_bytes(), arguments].concat();
    raw(frame::METHOD, channel, payload)
}

/// A content header: class, weight and body size, and what follows them: property flags and properties.
pub(crate) fn header_of(
    channel: u16,
    class: u16,
    weight: u16,
    size: u64,
    properties: &[u8],
) -> Vec<u8> {
    let payload = [
        &class.to_be_bytes()[..],
        &weight.to_be_bytes(),
        &size.to_be_bytes(),
        properties,
    ]
    .concat();
    raw(frame::HEADER, channel, payload)
}

/// A sound header without properties.
pub(crate) fn header(channel: u16, size: u64) -> Vec<u8> {
    header_of(channel, 60, 0, size, &[0, 0])
}

pub(crate) fn body(channel: u16, bytes: &[u8]) -> Vec<u8> {
    raw(frame::BODY, channel, bytes)
}

pub(crate) fn heartbeat() -> Vec<u8> {
    raw(frame::HEARTBEAT, 0, b"")
}

/// basic.deliver to this consumer, without its content.
pub(crate) fn deliver_to(channel: u16, consumer_tag: &[u8], delivery_tag: u64) -> Vec<u8> {
    let deliver = basic::Deliver {
        consumer_tag: ShortStr::try_from(consumer_tag).unwrap(),
        delivery_tag,
        exchange: short!("e"),
        routing_key: short!("k"),
        ..Default::default()
    };
    method(channel, deliver)
}

/// A whole message to this consumer.
pub(crate) fn delivery(
    channel: u16,
    consumer_tag: &[u8],
    delivery_tag: u64,
    content: &[u8],
) -> Vec<u8> {
    let mut bytes = deliver_to(channel, consumer_tag, delivery_tag);
    bytes.extend(header(channel, content.len() as u64));
    if !content.is_empty() {
        bytes.extend(body(channel, content));
    }
    bytes
}

/// A whole message that comes back.
pub(crate) fn returned(channel: u16, text: &[u8], content: &[u8]) -> Vec<u8> {
    let returned = basic::Return {
        reply_code: amqp_client::codec::ReplyCode::NO_ROUTE,
        reply_text: ShortStr::try_from(text).unwrap(),
        ..Default::default()
    };
    let mut bytes = method(channel, returned);
    bytes.extend(header(channel, content.len() as u64));
    if !content.is_empty() {
        bytes.extend(body(channel, content));
    }
    bytes
}

pub(crate) fn ack(channel: u16, delivery_tag: u64, multiple: bool) -> Vec<u8> {
    let ack = basic::Ack {
        delivery_tag,
        multiple,
        ..Default::default()
    };
    method(channel, ack)
}

pub(crate) fn nack(channel: u16, delivery_tag: u64, multiple: bool) -> Vec<u8> {
    let nack = basic::Nack {
        delivery_tag,
        multiple,
        ..Default::default()
    };
    method(channel, nack)
}

/// A table of this many arrays inside each other, as a field table without its length.
pub(crate) fn nested_arrays(depth: usize) -> Vec<u8> {
    let mut value = vec![b'V'];
    for _ in 0..depth {
        let len = u32::try_from(value.len()).unwrap().to_be_bytes();
        let mut outer = vec![b'A'];
        outer.extend(len);
        outer.append(&mut value);
        value = outer;
    }
    [&[1, b'n'][..], &value].concat()
}

/// Bytes under their 32-bit length.
pub(crate) fn long(bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&len[..], bytes].concat()
}

/// The header of a message of a stream.
pub(crate) fn of_stream(channel: u16, size: u64) -> Vec<u8> {
    let header = amqp_client::codec::content::ContentHeader {
        class_id: 60,
        body_size: size,
        properties: basic::Properties {
            headers: Some(amqp_client::table! { "x-stream-offset" => 7 }.into()),
            ..Default::default()
        },
    };
    let mut payload = Vec::new();
    header.encode(&mut payload).unwrap();
    raw(2, channel, &payload)
}
