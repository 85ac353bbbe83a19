//! Prints a recorded stream of one direction, a line a frame, and stops at the first violation.
//!
//! ```text
//! $ cargo run -p amqp-codec --example decode -- recording.bin --reencode
//! offset 0  protocol header AMQP 0-9-1
//! offset 8  channel 0  connection.tune-ok channel_max=2047 frame_max=131072 heartbeat=60
//! ```

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use amqp_codec::{
    Assembler, ContentError, ContentHeader, DecodeError, EncodeError, Frame, Limits, Method,
    ProtocolHeader, RawFrame,
};
use clap::Parser;
use thiserror::Error;

/// Prints a recorded AMQP 0-9-1 byte stream of one direction, a line a frame.
#[derive(Parser)]
struct Arguments {
    /// The recording; standard input if there is none.
    file: Option<PathBuf>,
    /// Check that encoding each frame anew gives the same bytes.
    #[arg(long)]
    reencode: bool,
    /// The negotiated frame_max in bytes: the bound of body frames.
    #[arg(long, default_value_t = Limits::default().frame_max)]
    frame_max: u32,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Why it ended early. Offsets count from the start of the stream.
#[derive(Debug, Error)]
enum Failure {
    #[error("{0} ({code})", code = .0.reply_code())]
    Decode(DecodeError),
    #[error("{error} at offset {offset} on channel {channel} ({code})", code = .error.reply_code())]
    Content {
        error: ContentError,
        offset: u64,
        channel: u16,
    },
    #[error("the stream ends at offset {end} within the frame that begins at offset {start}")]
    EndInFrame { start: u64, end: u64 },
    #[error("the stream ends at offset {end} within a content on channel {channel}")]
    EndInContent { channel: u16, end: u64 },
    #[error("the frame at offset {offset} encodes to other bytes")]
    Mismatch { offset: u64 },
    #[error("the frame at offset {offset} cannot be encoded: {error}")]
    Encode { error: EncodeError, offset: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut input: Box<dyn Read> = match &arguments.file {
        Some(path) => Box::new(File::open(path)?),
        None => Box::new(io::stdin()),
    };
    let mut stream = Stream {
        limits: Limits {
            frame_max: arguments.frame_max,
            ..Limits::default()
        },
        reencode: arguments.reencode,
        offset: 0,
        frames: 0,
        contents: HashMap::new(),
        output: io::stdout().lock(),
    };
    let (mut buffer, mut read) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let len = input.read(&mut read)?;
        if len == 0 {
            return stream.end(&buffer);
        }
        buffer.extend_from_slice(&read[..len]);
        let taken = stream.take(&buffer)?;
        buffer.drain(..taken);
    }
}

struct Stream<W> {
    limits: Limits,
    reencode: bool,
    /// What has been taken so far, in bytes.
    offset: u64,
    frames: u64,
    contents: HashMap<u16, Assembler<()>>,
    output: W,
}

impl<W: Write> Stream<W> {
    /// Prints what is complete of `input`; the bytes it took.
    fn take(&mut self, input: &[u8]) -> Result<usize, Failure> {
        let mut rest = input;
        loop {
            let len = match ProtocolHeader::parse(rest) {
                Some(header) if self.offset == 0 => self.protocol_header(header)?,
                _ => match RawFrame::parse(rest, &self.limits) {
                    Ok(Some((raw, len))) => {
                        self.frame(&raw, &rest[..len])?;
                        len
                    }
                    Ok(None) => return Ok(input.len() - rest.len()),
                    // It may be the first bytes of a protocol header.
                    Err(_)
                        if self.offset == 0
                            && rest.len() < 8
                            && ProtocolHeader::is_prefix(rest) =>
                    {
                        return Ok(0);
                    }
                    Err(error) => return Err(Failure::Decode(error.shifted(self.offset))),
                },
            };
            self.offset += len as u64;
            rest = &rest[len..];
        }
    }

    fn protocol_header(&mut self, header: ProtocolHeader) -> Result<usize, Failure> {
        let ProtocolHeader {
            id,
            major,
            minor,
            revision,
        } = header;
        match header {
            ProtocolHeader::AMQP_0_9_1 => {
                writeln!(self.output, "offset 0  protocol header AMQP 0-9-1")?
            }
            _ => writeln!(
                self.output,
                "offset 0  protocol header AMQP {id} {major} {minor} {revision}"
            )?,
        }
        Ok(header.to_bytes().len())
    }

    fn frame(&mut self, raw: &RawFrame<'_>, bytes: &[u8]) -> Result<(), Failure> {
        let offset = self.offset;
        let frame = raw
            .decode(&self.limits)
            .map_err(|error| Failure::Decode(error.shifted(offset)))?;
        writeln!(
            self.output,
            "offset {offset}  channel {}  {}",
            raw.channel,
            Line(&frame)
        )?;
        self.frames += 1;
        if self.reencode {
            let mut again = Vec::with_capacity(bytes.len());
            frame
                .encode(&mut again)
                .map_err(|error| Failure::Encode { error, offset })?;
            if again != bytes {
                return Err(Failure::Mismatch { offset });
            }
        }
        self.follow(&frame, raw.payload)
            .map_err(|error| Failure::Content {
                error,
                offset,
                channel: raw.channel,
            })
    }

    /// Checks that method, header and bodies come in their order.
    fn follow(&mut self, frame: &Frame<'_>, payload: &[u8]) -> Result<(), ContentError> {
        let content = self.contents.entry(frame.channel()).or_default();
        match frame {
            Frame::Method { method, .. } if method.id().carries_content() => content.start((), &[]),
            Frame::Method { .. } => content.expect_method(),
            Frame::Header { header, .. } => content.header(header, payload, &self.limits).map(drop),
            Frame::Body { payload, .. } => content.body(payload, None).map(drop),
            Frame::Heartbeat => Ok(()),
        }
    }

    fn end(&mut self, rest: &[u8]) -> Result<(), Failure> {
        let (start, end) = (self.offset, self.offset + rest.len() as u64);
        if !rest.is_empty() {
            return Err(Failure::EndInFrame { start, end });
        }
        let unfinished = self
            .contents
            .iter()
            .filter(|(_, content)| !content.is_idle());
        if let Some(channel) = unfinished.map(|(channel, _)| *channel).min() {
            return Err(Failure::EndInContent { channel, end });
        }
        if self.reencode {
            let frames = self.frames;
            writeln!(
                self.output,
                "re-encoded {frames} frames: the same {end} bytes"
            )?;
        }
        Ok(())
    }
}

/// A frame as the rest of its line.
struct Line<'f>(&'f Frame<'f>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Frame::Method { method, .. } => method_line(f, method),
            Frame::Header { header, .. } => header_line(f, header),
            Frame::Body { payload, .. } => body_line(f, payload),
            Frame::Heartbeat => f.write_str("heartbeat"),
        }
    }
}

fn method_line(f: &mut fmt::Formatter<'_>, method: &Method<'_>) -> fmt::Result {
    write!(f, "{}", method.id())?;
    let debug = format!("{method:?}");
    for (name, value) in fields(&debug) {
        let reserved = name.starts_with("reserved_") || name == "undefined_bits";
        match value {
            "false" => {}
            "0" | r#""""# if reserved => {}
            _ => write!(f, " {name}={value}")?,
        }
    }
    Ok(())
}

fn header_line(f: &mut fmt::Formatter<'_>, header: &ContentHeader<'_>) -> fmt::Result {
    write!(
        f,
        "header class_id={} body_size={}",
        header.class_id, header.body_size
    )?;
    let debug = format!("{:?}", header.properties);
    for (name, value) in fields(&debug) {
        if let Some(value) = value
            .strip_prefix("Some(")
            .and_then(|it| it.strip_suffix(')'))
        {
            write!(f, " {name}={value}")?;
        }
    }
    Ok(())
}

/// The bytes of a body that are shown.
const PREVIEW: usize = 32;

fn body_line(f: &mut fmt::Formatter<'_>, payload: &[u8]) -> fmt::Result {
    let shown = &payload[..payload.len().min(PREVIEW)];
    write!(
        f,
        "body {} bytes \"{}\"",
        payload.len(),
        shown.escape_ascii()
    )?;
    if shown.len() < payload.len() {
        f.write_char('…')?;
    }
    Ok(())
}

/// Names and values of a struct in its `Debug` form: what is between its braces, cut at the commas that are in neither
/// quotes nor brackets.
fn fields(debug: &str) -> Vec<(&str, &str)> {
    let Some((start, end)) = debug.find('{').zip(debug.rfind('}')) else {
        return Vec::new();
    };
    let inside = &debug[start + 1..end];
    let (mut depth, mut quoted, mut escaped, mut from) = (0, false, false, 0);
    let mut fields = Vec::new();
    for (at, char) in inside.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                fields.push(&inside[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    fields.push(&inside[from..]);
    fields
        .into_iter()
        .filter_map(|field| field.trim().split_once(": "))
        .collect()
}
