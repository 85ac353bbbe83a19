//! The frames that are coded, made by amqp-codec.

use amqp_codec::{ContentHeader, Frame, Method, RawTable, ShortStr, basic, short, table};

use super::Work;
use crate::workload;

pub(super) const CHANNEL: u16 = 1;
pub(super) const EXCHANGE: &str = "orders";
pub(super) const CONSUMER_TAG: &str = "amq.ctag-DmWGwH8rbvBr4nTxmTQ1uA";
pub(super) const DELIVERY_TAG: u64 = 1_000_000;

/// The encoded frames of a work.
#[derive(Debug)]
pub struct Frames {
    /// One after the other.
    pub wire: Vec<u8>,
    /// How many.
    pub count: usize,
}

impl Frames {
    /// What the work is done with, or results in.
    pub fn of(work: Work) -> Frames {
        let keys = keys();
        let headers = headers();
        let (large, small) = ([7; 1024], [7; 256]);
        let mut frames = Frames {
            wire: Vec::new(),
            count: 0,
        };
        for key in &keys {
            match work {
                Work::DecodeDeliver | Work::EncodeDeliver => frames.push(method(deliver(key))),
                Work::DecodePublish | Work::EncodePublish => frames.push(method(publish(key))),
                Work::DecodeAck => frames.push(method(ack(key))),
                Work::DecodePlainHeader => frames.push(plain_header(small.len())),
                Work::DecodeRichHeader | Work::ReadRichHeader | Work::EncodeRichHeader => {
                    frames.push(rich_header(&headers, key, small.len()));
                }
                Work::DecodeBody => frames.push(body(&large)),
                Work::DecodePlainStream => {
                    frames.push(method(deliver(key)));
                    frames.push(plain_header(small.len()));
                    frames.push(body(&small));
                }
                Work::DecodeRichStream | Work::ReadRichStream => {
                    frames.push(method(deliver(key)));
                    frames.push(rich_header(&headers, key, small.len()));
                    frames.push(body(&small));
                }
            }
        }
        frames
    }

    fn push(&mut self, frame: Frame<'_>) {
        let encoded = frame.encode(&mut self.wire);
        assert_eq!(encoded, Ok(()), "the benchmark's own frames can be encoded");
        self.count += 1;
    }
}

/// A thousand routing keys.
pub fn keys() -> Vec<ShortStr<'static>> {
    workload::messages(0)
        .iter()
        .filter_map(|(key, _)| ShortStr::try_from(key).ok())
        .collect()
}

pub(super) fn deliver<'a>(key: &'a ShortStr<'static>) -> basic::Deliver<'a> {
    basic::Deliver {
        consumer_tag: short!(CONSUMER_TAG),
        delivery_tag: DELIVERY_TAG,
        exchange: short!(EXCHANGE),
        routing_key: key.as_borrowed(),
        ..Default::default()
    }
}

pub(super) fn publish<'a>(key: &'a ShortStr<'static>) -> basic::Publish<'a> {
    basic::Publish {
        exchange: short!(EXCHANGE),
        routing_key: key.as_borrowed(),
        mandatory: true,
        ..Default::default()
    }
}

pub(super) fn rich_header<'a>(
    headers: &'a RawTable<'static>,
    key: &'a ShortStr<'static>,
    body_size: usize,
) -> Frame<'a> {
    header(
        body_size,
        basic::Properties {
            content_type: Some(short!("application/json")),
            headers: Some(headers.as_borrowed()),
            delivery_mode: Some(2),
            message_id: Some(key.as_borrowed()),
            timestamp: Some(1_700_000_000),
            ..Default::default()
        },
    )
}

pub(super) fn headers() -> RawTable<'static> {
    table! {
        "x-attempt" => 3,
        "x-tenant" => "acme",
        "x-trace" => "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "x-urgent" => true,
    }
    .into()
}

fn plain_header(body_size: usize) -> Frame<'static> {
    header(
        body_size,
        basic::Properties {
            content_type: Some(short!("application/json")),
            delivery_mode: Some(2),
            ..Default::default()
        },
    )
}

fn header(body_size: usize, properties: basic::Properties<'_>) -> Frame<'_> {
    Frame::Header {
        channel: CHANNEL,
        header: ContentHeader {
            class_id: 60,
            body_size: body_size as u64,
            properties,
        },
    }
}

fn ack(key: &ShortStr<'_>) -> basic::Ack {
    basic::Ack {
        delivery_tag: key.len() as u64,
        multiple: true,
        ..Default::default()
    }
}

fn method<'a>(method: impl Into<Method<'a>>) -> Frame<'a> {
    Frame::Method {
        channel: CHANNEL,
        method: method.into(),
    }
}

fn body(payload: &[u8]) -> Frame<'_> {
    Frame::Body {
        channel: CHANNEL,
        payload,
    }
}
