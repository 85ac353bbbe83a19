use amqp_codec::basic::Properties;
use amqp_codec::content::{Content, ContentError, Whole};
use amqp_codec::{Assembler, ContentHeader, Limits};
use arbitrary::{Arbitrary, Unstructured};
use bytes::Bytes;

use crate::encoded;

/// The class whose methods carry content.
const BASIC: u16 = 60;

/// What comes on one of a few channels.
#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Method,
    Start {
        strings: [&'a [u8]; 4],
    },
    /// As it should be.
    Header {
        size: u16,
        properties: Properties<'a>,
    },
    OddHeader(ContentHeader<'a>),
    Body {
        len: u16,
        fill: u8,
        shared: bool,
    },
    /// What is missing, and as many bytes too many.
    Rest {
        too_many: u8,
    },
}

/// Contents on several channels, interleaved: they come together, and break off, as on each channel alone.
pub fn content(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(body_max) = u.arbitrary::<u32>() else {
        return;
    };
    let limits = Limits {
        body_max: u64::from(body_max >> 8),
        ..Limits::default()
    };
    let mut channels: [Channel<'_>; 3] = Default::default();
    let mut starts = 0;
    while !u.is_empty() {
        let Ok((channel, step)) = u.arbitrary::<(u8, Step<'_>)>() else {
            return;
        };
        starts += 1;
        let index = usize::from(channel) % channels.len();
        channels[index].take(step, starts, &limits);
    }
}

/// An assembler, and what it should have.
#[derive(Default)]
struct Channel<'a> {
    assembler: Assembler<u32>,
    expected: Expected<'a>,
}

#[derive(Debug, Default)]
enum Expected<'a> {
    #[default]
    Method,
    Header(Started<'a>),
    Body {
        started: Started<'a>,
        /// The properties, encoded.
        properties: Vec<u8>,
        body: Vec<u8>,
        size: u64,
    },
}

#[derive(Debug)]
struct Started<'a> {
    method: u32,
    strings: [&'a [u8]; 4],
}

impl<'a> Channel<'a> {
    fn take(&mut self, step: Step<'a>, method: u32, limits: &Limits) {
        match step {
            Step::Method => {
                let expected = match self.expected {
                    Expected::Method => Ok(()),
                    Expected::Header(_) | Expected::Body { .. } => {
                        Err(ContentError::UnexpectedMethod)
                    }
                };
                assert_eq!(self.assembler.expect_method(), expected);
            }
            Step::Start { strings } => {
                let strings = strings.map(|string| &string[..string.len().min(255)]);
                self.start(Started { method, strings });
            }
            Step::Header { size, properties } => {
                let header = ContentHeader {
                    class_id: BASIC,
                    body_size: size.into(),
                    properties,
                };
                self.header(&header, limits);
            }
            Step::OddHeader(header) => self.header(&header, limits),
            Step::Body { len, fill, shared } => self.body(&vec![fill; len.into()], shared, limits),
            Step::Rest { too_many } => {
                if let Expected::Body { body, size, .. } = &self.expected
                    // As many bytes as may be in memory, to be sent at once.
                    && *size < 1 << 20
                {
                    let len = *size as usize - body.len() + usize::from(too_many);
                    self.body(&vec![too_many; len], true, limits);
                }
            }
        }
        assert_eq!(
            self.assembler.is_idle(),
            matches!(self.expected, Expected::Method)
        );
    }

    fn start(&mut self, started: Started<'a>) {
        let result = self.assembler.start(started.method, &started.strings);
        match self.expected {
            Expected::Method => {
                assert_eq!(result, Ok(()));
                self.expected = Expected::Header(started);
            }
            Expected::Header(_) | Expected::Body { .. } => {
                assert_eq!(result, Err(ContentError::UnexpectedMethod));
            }
        }
    }

    fn header(&mut self, header: &ContentHeader<'_>, limits: &Limits) {
        let payload = encoded(|bytes| header.encode(bytes));
        let result = self.assembler.header(header, &payload, limits);
        let size = header.body_size;
        let expected = match &self.expected {
            Expected::Method | Expected::Body { .. } => Err(ContentError::UnexpectedHeader),
            Expected::Header(_) if header.class_id != BASIC => {
                Err(ContentError::WrongClass(header.class_id))
            }
            Expected::Header(_) if size > limits.body_max => Err(ContentError::TooLarge {
                size,
                max: limits.body_max,
            }),
            Expected::Header(_) => Ok(()),
        };
        match (expected, std::mem::take(&mut self.expected)) {
            (Ok(()), Expected::Header(started)) => {
                self.expected = Expected::Body {
                    started,
                    properties: encoded(|bytes| header.properties.encode(bytes)),
                    body: Vec::new(),
                    size,
                };
                self.check(result, limits);
            }
            (expected, before) => {
                assert_eq!(result.err(), expected.err());
                self.expected = before;
            }
        }
    }

    fn body(&mut self, payload: &[u8], shared: bool, limits: &Limits) {
        let source = Bytes::copy_from_slice(payload);
        let result = match shared {
            true => self.assembler.body(&source, Some(&source)),
            false => self.assembler.body(payload, None),
        };
        let Expected::Body { body, size, .. } = &mut self.expected else {
            assert_eq!(result.err(), Some(ContentError::UnexpectedBody));
            return;
        };
        let received = body.len() as u64 + payload.len() as u64;
        if received > *size {
            let error = ContentError::BodyTooLong {
                size: received,
                announced: *size,
            };
            assert_eq!(result.err(), Some(error));
            return;
        }
        body.extend_from_slice(payload);
        self.check(result, limits);
    }

    /// The content is there if it is complete, and it is what was sent, also when it is taken whole.
    fn check(&mut self, result: Result<Option<Content<u32>>, ContentError>, limits: &Limits) {
        let found = result.expect("as announced");
        let complete = matches!(&self.expected, Expected::Body { body, size, .. } if body.len() as u64 == *size);
        assert_eq!(found.is_some(), complete);
        let Some(found) = found else { return };
        let Expected::Body {
            started,
            properties,
            body,
            size,
        } = std::mem::take(&mut self.expected)
        else {
            return;
        };
        is_as_sent(found, &started, &properties, &body);

        let mut header = [BASIC.to_be_bytes(), [0; 2]].concat();
        header.extend(size.to_be_bytes());
        header.extend(&properties);
        let whole = Whole::new(&header, &body, limits);
        let small = 1..=Assembler::<u32>::SMALL_BODY;
        assert_eq!(whole.is_some(), small.contains(&body.len()));
        if let Some(whole) = whole {
            let found = Content::from_whole(started.method, &started.strings, &whole);
            is_as_sent(found, &started, &properties, &body);
        }
    }
}

fn is_as_sent(found: Content<u32>, started: &Started<'_>, properties: &[u8], body: &[u8]) {
    assert_eq!(found.method, started.method);
    for (index, string) in started.strings.iter().enumerate() {
        assert_eq!(found.string(index), *string);
    }
    assert_eq!(found.encoded_properties(), properties);
    assert_eq!(Properties::decode(properties), Ok(found.properties()));
    assert_eq!(found.body(), body);
    assert_eq!(found.to_body(), body);
    let strings: usize = started.strings.iter().map(|string| string.len()).sum();
    assert_eq!(found.size(), strings + properties.len() + body.len());
    let _ = format!("{found:?}");
    let (method, owned, rest) = found.into_parts();
    assert_eq!((method, &rest[..]), (started.method, body));
    assert_eq!(encoded(|bytes| owned.encode(bytes)), properties);
}
