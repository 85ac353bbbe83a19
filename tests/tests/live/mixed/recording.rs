//! What a broker said about publishes, read off its recorded bytes, and what different rules make of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use amqp_client::codec::{Frame, Limits, Method, RawFrame, basic, frame};
use bytes::Bytes;

/// What was said of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Acked,
    Nacked,
    /// Returned, with this body, and acked.
    Returned(Bytes),
    /// Neither; why.
    Nothing(Arc<str>),
}

impl Said {
    pub(super) fn word(&self) -> &str {
        match self {
            Said::Acked => "acked",
            Said::Nacked => "nacked",
            Said::Returned(_) => "returned",
            Said::Nothing(why) => why,
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::Returned(body) => {
                let body = String::from_utf8_lossy(&body[..body.len().min(12)]);
                write!(f, "returned with the body {body}")
            }
            other => f.write_str(other.word()),
        }
    }
}

/// How a return is given to a publish.
pub(super) enum Rule<'a> {
    /// To the publish that the next ack names, as clients do that do not look at the content.
    NextAck,
    /// To the publish with this body; bodies are unique.
    Content(&'a HashMap<Bytes, u64>),
}

enum Event {
    Return(Bytes),
    Confirm { tag: u64, multiple: bool, ack: bool },
}

/// The returns and confirms of one channel, in their order.
pub(super) struct Recording(Vec<Event>);

/// Reads them off what the server sent.
pub(super) fn confirms(bytes: &[u8], channel: u16) -> Recording {
    let limits = Limits::default();
    let mut events = Vec::new();
    // The body of the return that is being read, and how much is missing.
    let mut returning: Option<(Vec<u8>, u64)> = None;
    let mut rest = bytes;
    while let Some((raw, len)) = RawFrame::parse(rest, &limits).unwrap() {
        rest = &rest[len..];
        if raw.channel != channel {
            continue;
        }
        match raw.decode(&limits).unwrap() {
            Frame::Method { method, .. } => match method {
                // The number may have had a channel before, with confirms of its own.
                Method::ConfirmSelectOk(_) => events.clear(),
                Method::BasicReturn(_) => returning = Some((Vec::new(), 0)),
                Method::BasicAck(basic::Ack {
                    delivery_tag: tag,
                    multiple,
                    ..
                }) => events.push(Event::Confirm {
                    tag,
                    multiple,
                    ack: true,
                }),
                Method::BasicNack(basic::Nack {
                    delivery_tag: tag,
                    multiple,
                    ..
                }) => events.push(Event::Confirm {
                    tag,
                    multiple,
                    ack: false,
                }),
                _ => {}
            },
            Frame::Header { header, .. } => {
                let (_, missing) = returning.as_mut().expect("only returns have content here");
                *missing = header.body_size;
            }
            Frame::Body { payload, .. } => {
                let (body, missing) = returning.as_mut().expect("a return");
                body.extend_from_slice(payload);
                *missing -= payload.len() as u64;
            }
            Frame::Heartbeat => {}
        }
        if let Some((body, 0)) = &mut returning
            && raw.kind != frame::METHOD
        {
            events.push(Event::Return(std::mem::take(body).into()));
            returning = None;
        }
    }
    Recording(events)
}

impl Recording {
    pub(super) fn returns(&self) -> usize {
        let returns = self.0.iter();
        returns
            .filter(|event| matches!(event, Event::Return(_)))
            .count()
    }

    /// How many returns have a confirm that does not cover their publish before the one that does.
    pub(super) fn overtaken(&self, numbers: &HashMap<Bytes, u64>) -> usize {
        let overtaken = |at: usize, body: &Bytes| {
            let own = numbers[body];
            self.0[at + 1..].iter().find_map(|event| match event {
                Event::Confirm { tag, multiple, .. } => {
                    Some(*tag != own && !(*multiple && *tag > own))
                }
                Event::Return(_) => None,
            })
        };
        let events = self.0.iter().enumerate();
        events
            .filter(|(at, event)| match event {
                Event::Return(body) => overtaken(*at, body) == Some(true),
                Event::Confirm { .. } => false,
            })
            .count()
    }

    /// What a client makes of it that gives returns to publishes by this rule.
    pub(super) fn attribute(&self, rule: Rule<'_>) -> HashMap<u64, Said> {
        let mut said = HashMap::new();
        let mut returned: BTreeMap<u64, Bytes> = BTreeMap::new();
        let mut waiting = Vec::new();
        let mut settled_through = 0;
        for event in &self.0 {
            match (event, &rule) {
                (Event::Return(body), Rule::NextAck) => waiting.push(body.clone()),
                (Event::Return(body), Rule::Content(numbers)) => {
                    returned.insert(numbers[body], body.clone());
                }
                (Event::Confirm { tag, multiple, ack }, _) => {
                    if let Some(body) = waiting.pop() {
                        returned.insert(*tag, body);
                    }
                    let from = if *multiple { settled_through + 1 } else { *tag };
                    for tag in from..=*tag {
                        // The first word on each counts.
                        said.entry(tag)
                            .or_insert_with(|| match (returned.remove(&tag), ack) {
                                (Some(body), _) => Said::Returned(body),
                                (None, true) => Said::Acked,
                                (None, false) => Said::Nacked,
                            });
                    }
                    if *multiple {
                        settled_through = settled_through.max(*tag);
                    }
                }
            }
        }
        said
    }
}

/// The check must find faults in the order of frames that brokers are known for: acks of others between a return and its
/// own, whether or not today's run has it.
#[test]
fn the_next_ack_is_the_wrong_one_when_others_come_between() {
    let body = |text: &'static str| Bytes::from_static(text.as_bytes());
    let single = |tag| Event::Confirm {
        tag,
        multiple: false,
        ack: true,
    };
    let recording = Recording(vec![
        single(1),
        Event::Return(body("four")),
        single(2),
        Event::Confirm {
            tag: 3,
            multiple: false,
            ack: false,
        },
        single(4),
        Event::Return(body("six")),
        Event::Confirm {
            tag: 6,
            multiple: true,
            ack: true,
        },
    ]);
    let numbers = HashMap::from([(body("four"), 4), (body("six"), 6)]);
    let right = HashMap::from([
        (1, Said::Acked),
        (2, Said::Acked),
        (3, Said::Nacked),
        (4, Said::Returned(body("four"))),
        (5, Said::Acked),
        (6, Said::Returned(body("six"))),
    ]);
    assert_eq!(recording.returns(), 2);
    assert_eq!(recording.overtaken(&numbers), 1);
    assert_eq!(recording.attribute(Rule::Content(&numbers)), right);
    let wrong = recording.attribute(Rule::NextAck);
    assert_eq!(wrong[&2], Said::Returned(body("four")));
    assert_eq!(wrong[&4], Said::Acked);
    assert_eq!(wrong[&6], right[&6]);
}
