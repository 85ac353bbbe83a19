//! What the server says: honest answers, and a record of its words on publishes.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{
    Limits, LongStr, Method, MethodFields, RawFrame, ShortStr, channel, confirm, connection,
    content, frame, queue, short, table, tx,
};

use super::steps::{FrameMax, Setup};
use super::wire::Request;

/// The largest frame that holds whatever is said here.
const WHOLE: u32 = 1 << 20;

/// A server that answers as it should.
pub(super) struct Server {
    tune: connection::Tune,
    next_delivery: u64,
    next_consumer: u64,
}

impl Server {
    pub(super) fn new(setup: &Setup) -> Self {
        Server {
            tune: connection::Tune {
                channel_max: setup.channel_max.into(),
                frame_max: match setup.frame_max {
                    FrameMax::Unlimited => 0,
                    FrameMax::Smallest => frame::FRAME_MIN_SIZE,
                    FrameMax::Usual => 131_072,
                    FrameMax::Any(bytes) => bytes,
                },
                heartbeat: setup.heartbeat.into(),
            },
            next_delivery: 0,
            next_consumer: 0,
        }
    }

    /// The next delivery tag, above all before it on every channel.
    pub(super) fn next_delivery(&mut self) -> u64 {
        self.next_delivery += 1;
        self.next_delivery
    }

    /// The answer; none to what wants none.
    pub(super) fn answer(&mut self, request: &Request) -> Vec<u8> {
        let (number, method) = match request {
            Request::Header => return method(0, &start()),
            Request::Method(number, method) => (*number, method),
        };
        match method {
            Method::ConnectionStartOk(_) => self::method(0, &self.tune),
            Method::ConnectionOpen(_) => self::method(0, &connection::OpenOk::default()),
            Method::ConnectionClose(_) => self::method(0, &connection::CloseOk {}),
            Method::ConnectionUpdateSecret(_) => self::method(0, &connection::UpdateSecretOk {}),
            Method::ChannelOpen(_) => self::method(number, &channel::OpenOk::default()),
            Method::ChannelClose(_) => self::method(number, &channel::CloseOk {}),
            Method::QueueDeclare(declare) => {
                let ok = queue::DeclareOk {
                    queue: declare.queue.as_borrowed(),
                    ..Default::default()
                };
                self::method(number, &ok)
            }
            Method::BasicConsume(consume) => {
                let consumer_tag = match consume.consumer_tag.is_empty() {
                    true => self.make_consumer_tag(),
                    false => consume.consumer_tag.as_borrowed(),
                };
                self::method(number, &basic::ConsumeOk { consumer_tag })
            }
            Method::BasicCancel(cancel) => {
                let consumer_tag = cancel.consumer_tag.as_borrowed();
                self::method(number, &basic::CancelOk { consumer_tag })
            }
            Method::BasicGet(_) => self.get(number),
            Method::BasicRecover(_) => self::method(number, &basic::RecoverOk {}),
            Method::ConfirmSelect(_) => self::method(number, &confirm::SelectOk {}),
            Method::TxSelect(_) => self::method(number, &tx::SelectOk {}),
            Method::TxCommit(_) => self::method(number, &tx::CommitOk {}),
            Method::TxRollback(_) => self::method(number, &tx::RollbackOk {}),
            _ => Vec::new(),
        }
    }

    fn make_consumer_tag(&mut self) -> ShortStr<'static> {
        self.next_consumer += 1;
        ShortStr::try_from(format!("made-{}", self.next_consumer)).expect("short")
    }

    /// Every other time there is a message.
    fn get(&mut self, number: u16) -> Vec<u8> {
        let delivery_tag = self.next_delivery();
        if delivery_tag.is_multiple_of(2) {
            return method(number, &basic::GetEmpty::default());
        }
        let ok = basic::GetOk {
            delivery_tag,
            routing_key: short!("q"),
            ..Default::default()
        };
        message(number, &ok, &Properties::EMPTY, b"got")
    }
}

fn start() -> connection::Start<'static> {
    connection::Start {
        version_major: 0,
        version_minor: 9,
        server_properties: table! { "capabilities" => table! { "basic.nack" => true } },
        mechanisms: LongStr::from("PLAIN"),
        locales: LongStr::from("en_US"),
    }
}

pub(super) fn method(channel: u16, method: &impl MethodFields) -> Vec<u8> {
    crate::encoded(|bytes| frame::encode_method(channel, method, bytes))
}

pub(super) fn message(
    channel: u16,
    method: &impl MethodFields,
    properties: &Properties<'_>,
    body: &[u8],
) -> Vec<u8> {
    crate::encoded(|bytes| content::encode(channel, method, properties, body, WHOLE, bytes))
}

/// What the server said of publishes, whoever made it say so, in order.
#[derive(Default)]
pub(super) struct Words {
    /// Half a frame.
    rest: Vec<u8>,
    failed: bool,
    words: Vec<Word>,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    channel: u16,
    said: Said,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Ack { tag: u64, multiple: bool },
    Nack { tag: u64, multiple: bool },
    Return,
}

/// The first word on a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ack,
    Nack,
}

impl Words {
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        if self.failed {
            return;
        }
        let limits = Limits {
            frame_max: u32::MAX,
            ..Limits::default()
        };
        let mut input = std::mem::take(&mut self.rest);
        input.extend_from_slice(bytes);
        let mut rest = &input[..];
        loop {
            match RawFrame::parse(rest, &limits) {
                Ok(Some((raw, len))) => {
                    self.hear_frame(&raw, &limits);
                    rest = &rest[len..];
                }
                Ok(None) => break,
                Err(_) => {
                    self.failed = true;
                    return;
                }
            }
        }
        self.rest = rest.to_vec();
    }

    fn hear_frame(&mut self, raw: &RawFrame<'_>, limits: &Limits) {
        if raw.kind != frame::METHOD {
            return;
        }
        let said = match Method::decode(raw.payload, limits) {
            Ok(Method::BasicAck(ack)) => Said::Ack {
                tag: ack.delivery_tag,
                multiple: ack.multiple,
            },
            Ok(Method::BasicNack(nack)) => Said::Nack {
                tag: nack.delivery_tag,
                multiple: nack.multiple,
            },
            Ok(Method::BasicReturn(_)) => Said::Return,
            Ok(_) | Err(_) => return,
        };
        self.words.push(Word {
            channel: raw.channel,
            said,
        });
    }

    /// How many there were.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// The first word on a publish of this number, of those that are said in `range`.
    pub(super) fn verdict(
        &self,
        channel: u16,
        seq: u64,
        range: std::ops::Range<usize>,
    ) -> Option<Verdict> {
        let covers = |tag, multiple| tag == seq || (multiple && (tag > seq || tag == 0));
        self.on(channel, range).find_map(|said| match said {
            Said::Ack { tag, multiple } if covers(tag, multiple) => Some(Verdict::Ack),
            Said::Nack { tag, multiple } if covers(tag, multiple) => Some(Verdict::Nack),
            _ => None,
        })
    }

    /// Whether a message came back on the channel.
    pub(super) fn returned(&self, channel: u16, range: std::ops::Range<usize>) -> bool {
        self.on(channel, range).any(|said| said == Said::Return)
    }

    fn on(&self, channel: u16, range: std::ops::Range<usize>) -> impl Iterator<Item = Said> {
        let words = self.words[range].iter();
        words
            .filter(move |word| word.channel == channel)
            .map(|word| word.said)
    }
}
