//! The codec beside that of another client, amq-protocol.

use amq_protocol::frame::{AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::types::{AMQPValue, FieldTable};
use amqp_codec::field::Array;
use amqp_codec::{
    ContentHeader, DecodeErrorKind, Frame, Limits, Method, ProtocolHeader, RawFrame, Table, Value,
    basic, connection, exchange, frame, queue,
};

use crate::encoded;

/// More than this is cut off: the other codec calls itself for each table inside another.
const LONGEST: usize = 4096;

/// One frame by both codecs. Both accept it and mean the same, or both refuse it, or one of the differences in
/// [`EXPLAINED`] applies.
pub fn differential(data: &[u8]) {
    if let Difference::Unexplained(what) = explain(data) {
        panic!("{what}");
    }
}

/// Something the codecs do not agree about, and why.
#[derive(Debug)]
pub struct Explained {
    /// A name for it.
    pub name: &'static str,
    /// Why it is right as it is.
    pub why: &'static str,
    applies: fn(&Case<'_>) -> bool,
}

/// What a comparison found.
#[derive(Debug)]
pub enum Difference {
    /// None.
    None,
    /// One that is known.
    Explained(&'static Explained),
    /// One that is not.
    Unexplained(String),
}

/// All differences there are.
pub const EXPLAINED: &[Explained] = &[
    Explained {
        name: "limits",
        why: "what a peer may make us accept is bounded here: frames in size, tables in depth and entries",
        applies: |case| case.refused_here().is_some_and(is_limit),
    },
    Explained {
        name: "heartbeat with a payload",
        why: "the specification has none; RabbitMQ answers 501",
        applies: |case| matches!(case.refused_here(), Some(DecodeErrorKind::HeartbeatPayload)),
    },
    Explained {
        name: "heartbeat on a channel",
        why: "the specification has it on channel 0 alone; amq-protocol gives it a name of its own and lets it pass",
        applies: |case| {
            matches!(
                case.refused_here(),
                Some(DecodeErrorKind::HeartbeatChannel(_))
            )
        },
    },
    Explained {
        name: "weight",
        why: "the specification has 0 alone, RabbitMQ answers others with 505; amq-protocol does not look",
        applies: |case| matches!(case.refused_here(), Some(DecodeErrorKind::Weight(_))),
    },
    Explained {
        name: "undefined property flags",
        why: "there is no property for them; RabbitMQ ends the connection; amq-protocol does not look",
        applies: |case| matches!(case.refused_here(), Some(DecodeErrorKind::PropertyFlags(_))),
    },
    Explained {
        name: "field type U",
        why: "RabbitMQ does not know it and ends the connection; amq-protocol reads it as 16 bits",
        applies: |case| {
            let kind = case.refused_here();
            kind == Some(DecodeErrorKind::UnknownFieldType(b'U'))
        },
    },
    Explained {
        name: "class access",
        why: "0-9-1 has withdrawn it and RabbitMQ accepts it no more; amq-protocol still reads it",
        applies: |case| {
            matches!(
                case.refused_here(),
                Some(DecodeErrorKind::UnknownMethod(method)) if method.class == 30
            )
        },
    },
    Explained {
        name: "short string that is no text",
        why: "RabbitMQ relays any bytes in names, keys and properties; amq-protocol refuses what is not UTF-8",
        applies: |case| case.refused_there() && case.has_short_string_that_is_no_text(),
    },
    Explained {
        name: "headers that are no table",
        why: "a poison message can be acked and relayed: its headers are taken apart when somebody looks",
        applies: |case| case.refused_there() && case.headers_fault().is_some(),
    },
    Explained {
        name: "prefetch size",
        why: "brokers do not implement it, and say so; amq-protocol leaves it out, here it stays what it was",
        applies: |case| {
            let qos = case.accepted_by_both().then(|| case.frame()).flatten();
            matches!(
                qos,
                Some(Frame::Method { method: Method::BasicQos(qos), .. }) if qos.prefetch_size != 0
            )
        },
    },
    Explained {
        name: "repeated key",
        why: "tables keep their entries here and the first one counts, as in RabbitMQ; amq-protocol keeps the last",
        applies: |case| case.accepted_by_both() && case.has_repeated_key(),
    },
];

/// Compares what both codecs make of one frame: behind a first byte for its type the payload, or with a first byte from
/// 4 on the whole of it.
pub fn explain(data: &[u8]) -> Difference {
    let Some((kind, rest)) = data.split_first() else {
        return Difference::None;
    };
    let rest = &rest[..rest.len().min(LONGEST)];
    let envelope = |kind| {
        let raw = RawFrame {
            kind,
            channel: 1,
            payload: rest,
        };
        encoded(|bytes| raw.encode(bytes))
    };
    let bytes = match kind {
        0 => envelope(frame::METHOD),
        1 => envelope(frame::HEADER),
        2 => envelope(frame::BODY),
        3 => envelope(frame::HEARTBEAT),
        _ => rest.to_vec(),
    };
    let limits = Limits::default();
    let case = Case {
        bytes: &bytes,
        limits: &limits,
        here: Here::read(&bytes, &limits),
        there: There::read(&bytes),
    };
    let Some(difference) = case.difference() else {
        return Difference::None;
    };
    match EXPLAINED.iter().find(|known| (known.applies)(&case)) {
        Some(known) => Difference::Explained(known),
        None => Difference::Unexplained(difference),
    }
}

fn is_limit(kind: DecodeErrorKind) -> bool {
    matches!(
        kind,
        DecodeErrorKind::FrameTooLarge { .. }
            | DecodeErrorKind::TableTooDeep(_)
            | DecodeErrorKind::TableTooLong(_)
    )
}

struct Case<'a> {
    bytes: &'a [u8],
    limits: &'a Limits,
    here: Here<'a>,
    there: There,
}

/// What this codec makes of the bytes.
enum Here<'a> {
    Header(ProtocolHeader),
    Frame(Box<Frame<'a>>, usize),
    Refused(DecodeErrorKind),
    Incomplete,
}

/// What the other codec makes of them.
enum There {
    Frame(Box<AMQPFrame>, usize),
    /// Or incomplete, which it also says of a payload that ends early.
    Refused,
}

impl<'a> Here<'a> {
    fn read(bytes: &'a [u8], limits: &Limits) -> Self {
        if let Some(header) = ProtocolHeader::parse(bytes) {
            return Here::Header(header);
        }
        let raw = match RawFrame::parse(bytes, limits) {
            Ok(Some(raw)) => raw,
            Ok(None) => return Here::Incomplete,
            Err(error) => return Here::Refused(error.kind),
        };
        match raw.0.decode(limits) {
            Ok(frame) => Here::Frame(Box::new(frame), raw.1),
            Err(error) => Here::Refused(error.kind),
        }
    }
}

impl There {
    fn read(bytes: &[u8]) -> Self {
        match parse_frame(bytes) {
            Ok((rest, frame)) => There::Frame(Box::new(frame), bytes.len() - rest.len()),
            Err(_) => There::Refused,
        }
    }
}

impl Case<'_> {
    /// Why the frame, or the headers in it, are refused here and not there.
    fn refused_here(&self) -> Option<DecodeErrorKind> {
        match (&self.here, &self.there) {
            (Here::Refused(kind), There::Frame(..)) => Some(*kind),
            (Here::Frame(..), There::Frame(..)) => self.headers_fault(),
            _ => None,
        }
    }

    fn refused_there(&self) -> bool {
        matches!((&self.here, &self.there), (Here::Frame(..), There::Refused))
    }

    fn accepted_by_both(&self) -> bool {
        matches!(
            (&self.here, &self.there),
            (Here::Frame(..), There::Frame(..))
        )
    }

    /// What they do not agree about, if anything.
    fn difference(&self) -> Option<String> {
        let bytes = self.bytes;
        match (&self.here, &self.there) {
            (Here::Refused(_) | Here::Incomplete, There::Refused) => None,
            (Here::Header(_), There::Refused) if bytes[4] != 0 => {
                // It reads the id 0 alone, that of AMQP itself.
                None
            }
            (Here::Header(header), There::Frame(there, 8)) => {
                let version = [header.major, header.minor, header.revision];
                match &**there {
                    AMQPFrame::ProtocolHeader(theirs)
                        if version == [theirs.major, theirs.minor, theirs.revision] =>
                    {
                        None
                    }
                    theirs => Some(format!("{header:?} here, {theirs:?} there")),
                }
            }
            (Here::Frame(here, len), There::Frame(there, their_len)) => {
                if len != their_len {
                    return Some(format!("{len} bytes here, {their_len} there: {bytes:?}"));
                }
                if !same_headers_there(here, there, self.limits) {
                    return Some(format!("{here:?} here, {there:?} there"));
                }
                let rewritten = rewritten(there, bytes.len());
                match RawFrame::parse(&rewritten, self.limits) {
                    Ok(Some((raw, _))) => match raw.decode(self.limits) {
                        Ok(again) if same(here, &again, self.limits) => None,
                        other => Some(format!("{here:?} here, {there:?} there, written {other:?}")),
                    },
                    other => Some(format!("{there:?} is written {other:?}")),
                }
            }
            (Here::Header(header), _) => Some(format!("{header:?} here, refused there")),
            (Here::Frame(here, _), There::Refused) => Some(format!("{here:?} is refused there")),
            (Here::Refused(kind), There::Frame(there, _)) => {
                Some(format!("{there:?} there is refused here: {kind}"))
            }
            (Here::Incomplete, There::Frame(there, _)) => {
                Some(format!("{there:?} there is not complete here"))
            }
        }
    }

    fn frame(&self) -> Option<&Frame<'_>> {
        match &self.here {
            Here::Frame(frame, _) => Some(frame),
            Here::Header(_) | Here::Refused(_) | Here::Incomplete => None,
        }
    }

    /// The strings in the frame that are not in tables have no other mark than that they are shown with an escape for
    /// what is no text.
    fn has_short_string_that_is_no_text(&self) -> bool {
        let Some(frame) = self.frame() else {
            return false;
        };
        let fields = match frame {
            Frame::Method { method, .. } => {
                let (method, _) = without_table(method.clone());
                format!("{method:?}")
            }
            Frame::Header { header, .. } => {
                let properties = basic::Properties {
                    headers: None,
                    ..header.properties.clone()
                };
                format!("{properties:?}")
            }
            Frame::Body { .. } | Frame::Heartbeat => return false,
        };
        shows_no_text(&fields)
            || self
                .table()
                .is_some_and(|table| has_key_that_is_no_text(&table))
    }

    /// What is wrong with the headers of a message.
    fn headers_fault(&self) -> Option<DecodeErrorKind> {
        let Frame::Header { header, .. } = self.frame()? else {
            return None;
        };
        let headers = header.properties.headers(self.limits);
        headers.err().map(|error| error.kind)
    }

    fn has_repeated_key(&self) -> bool {
        self.table().is_some_and(|table| repeats_a_key(&table))
    }

    /// The frame's only table.
    fn table(&self) -> Option<Table<'static>> {
        match self.frame()? {
            Frame::Method { method, .. } => without_table(method.clone()).1,
            Frame::Header { header, .. } => {
                let headers = header.properties.headers(self.limits).ok()?;
                headers.map(Table::into_owned)
            }
            Frame::Body { .. } | Frame::Heartbeat => None,
        }
    }
}

/// The other codec's frame in its own encoding, which is not longer than what it was read from.
fn rewritten(frame: &AMQPFrame, room: usize) -> Vec<u8> {
    let mut buffer = vec![0; room];
    let context = WriteContext::from(&mut buffer[..]);
    let written = gen_frame(frame)(context).expect("there is room").position;
    buffer.truncate(written as usize);
    buffer
}

/// Whether two frames mean the same: fields without meaning aside, and tables compared as maps.
fn same(here: &Frame<'_>, there: &Frame<'_>, limits: &Limits) -> bool {
    match (here, there) {
        (
            Frame::Method { channel, method },
            Frame::Method {
                channel: their_channel,
                method: theirs,
            },
        ) => {
            let (method, table) = without_table(method.clone());
            let (theirs, their_table) = without_table(theirs.clone());
            channel == their_channel
                && meaning(&method) == meaning(&theirs)
                && same_tables(table, their_table)
        }
        (
            Frame::Header { channel, header },
            Frame::Header {
                channel: their_channel,
                header: theirs,
            },
        ) => channel == their_channel && same_headers(header, theirs, limits),
        (here, there) => here == there,
    }
}

/// Whether each header of a message has the same value in the other codec's own types.
fn same_headers_there(here: &Frame<'_>, there: &AMQPFrame, limits: &Limits) -> bool {
    let (Frame::Header { header, .. }, AMQPFrame::Header(_, theirs)) = (here, there) else {
        return true;
    };
    match (
        header.properties.headers(limits),
        theirs.properties.headers(),
    ) {
        (Ok(Some(table)), Some(theirs)) => same_as_there(&table, theirs),
        // What is wrong with them here is looked at elsewhere.
        (Err(_), Some(_)) | (Ok(None), None) => true,
        (Ok(None) | Err(_), _) | (Ok(Some(_)), None) => false,
    }
}

fn same_as_there(here: &Table<'_>, there: &FieldTable) -> bool {
    let mut theirs = there.inner().iter();
    theirs.all(|(key, value)| {
        let found = here.get(key.as_str());
        found.is_some_and(|found| same_value(&found, value))
    })
}

fn same_value(here: &Value<'_>, there: &AMQPValue) -> bool {
    match (here, there) {
        (Value::Bool(here), AMQPValue::Boolean(there)) => here == there,
        (Value::I8(here), AMQPValue::ShortShortInt(there)) => here == there,
        (Value::U8(here), AMQPValue::ShortShortUInt(there)) => here == there,
        (Value::I16(here), AMQPValue::ShortInt(there)) => here == there,
        (Value::U16(here), AMQPValue::ShortUInt(there)) => here == there,
        (Value::I32(here), AMQPValue::LongInt(there)) => here == there,
        (Value::U32(here), AMQPValue::LongUInt(there)) => here == there,
        (Value::I64(here), AMQPValue::LongLongInt(there)) => here == there,
        (Value::F32(here), AMQPValue::Float(there)) => here.to_bits() == there.to_bits(),
        (Value::F64(here), AMQPValue::Double(there)) => here.to_bits() == there.to_bits(),
        // Signed by the errata, unsigned there.
        (Value::Decimal(here), AMQPValue::DecimalValue(there)) => {
            (here.scale, here.value as u32) == (there.scale, there.value)
        }
        (Value::LongStr(here), AMQPValue::LongString(there)) => here.as_bytes() == there.as_bytes(),
        (Value::Bytes(here), AMQPValue::ByteArray(there)) => here.as_bytes() == there.as_slice(),
        (Value::Timestamp(here), AMQPValue::Timestamp(there)) => here == there,
        (Value::Void, AMQPValue::Void) => true,
        (Value::Table(here), AMQPValue::FieldTable(there)) => same_as_there(here, there),
        (Value::Array(here), AMQPValue::FieldArray(there)) => {
            let theirs = there.as_slice();
            here.len() == theirs.len()
                && here
                    .iter()
                    .zip(theirs)
                    .all(|(here, there)| same_value(&here, there))
        }
        _ => false,
    }
}

fn same_tables(here: Option<Table<'_>>, there: Option<Table<'_>>) -> bool {
    match (here, there) {
        (None, None) => true,
        (Some(here), Some(there)) => here.eq_as_map(&there),
        _ => false,
    }
}

fn same_headers(here: &ContentHeader<'_>, there: &ContentHeader<'_>, limits: &Limits) -> bool {
    let without_table = |header: &ContentHeader<'_>| {
        let mut header = header.clone().into_owned();
        let raw = header.properties.headers.take();
        (header, raw)
    };
    let (here, table) = without_table(here);
    let (there, their_table) = without_table(there);
    let tables = match (&table, &their_table) {
        (Some(table), Some(theirs)) if table == theirs => true,
        (Some(table), Some(theirs)) => match (table.decode(limits), theirs.decode(limits)) {
            (Ok(table), Ok(theirs)) => table.eq_as_map(&theirs),
            _ => false,
        },
        (None, None) => true,
        _ => false,
    };
    here == there && tables
}

/// What is shown of a method, less what has no meaning.
fn meaning(method: &Method<'_>) -> Vec<String> {
    let shown = format!("{method:#?}");
    let means = |line: &&str| !line.contains("reserved_") && !line.contains("undefined_bits");
    shown.lines().filter(means).map(str::to_owned).collect()
}

/// The method with an empty table, and the table.
fn without_table(mut method: Method<'_>) -> (Method<'static>, Option<Table<'static>>) {
    let table = match &mut method {
        Method::ConnectionStart(connection::Start {
            server_properties: table,
            ..
        })
        | Method::ConnectionStartOk(connection::StartOk {
            client_properties: table,
            ..
        })
        | Method::ExchangeDeclare(exchange::Declare {
            arguments: table, ..
        })
        | Method::ExchangeBind(exchange::Bind {
            arguments: table, ..
        })
        | Method::ExchangeUnbind(exchange::Unbind {
            arguments: table, ..
        })
        | Method::QueueDeclare(queue::Declare {
            arguments: table, ..
        })
        | Method::QueueBind(queue::Bind {
            arguments: table, ..
        })
        | Method::QueueUnbind(queue::Unbind {
            arguments: table, ..
        })
        | Method::BasicConsume(basic::Consume {
            arguments: table, ..
        }) => Some(std::mem::take(table).into_owned()),
        _ => None,
    };
    (method.into_owned(), table)
}

/// Whether `Debug` had to write a byte that is no text; backslashes of the text itself are doubled.
fn shows_no_text(shown: &str) -> bool {
    let mut characters = shown.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && characters.next() == Some('x') {
            return true;
        }
    }
    false
}

fn has_key_that_is_no_text(table: &Table<'_>) -> bool {
    table
        .iter()
        .any(|(key, value)| key.as_str().is_err() || within(&value, &has_key_that_is_no_text))
}

fn repeats_a_key(table: &Table<'_>) -> bool {
    let mut keys: Vec<_> = table.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
        || table
            .iter()
            .any(|(_, value)| within(&value, &repeats_a_key))
}

/// Whether it holds for a table in this value.
fn within(value: &Value<'_>, holds: &impl Fn(&Table<'_>) -> bool) -> bool {
    match value {
        Value::Table(table) => holds(table),
        Value::Array(array) => within_array(array, holds),
        _ => false,
    }
}

fn within_array(array: &Array<'_>, holds: &impl Fn(&Table<'_>) -> bool) -> bool {
    array.iter().any(|value| within(&value, holds))
}
