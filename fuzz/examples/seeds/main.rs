//! Writes the seeds of the corpora, of what was recorded and of what is made by hand: `cargo run --example seeds`, in
//! this folder. The targets that make up values of the fuzzer's bytes begin with what was found for them.

mod differences;
mod streams;
mod uris;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use amqp_codec::{
    Frame, Limits, Method, MethodFields, ProtocolHeader, RawFrame, basic, channel, connection,
    frame, short,
};

/// A stream of one direction, with a name.
type Named = (String, Vec<u8>);
type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let mut streams = recordings()?;
    for (name, stream) in [
        ("handshake", streams::handshake()?),
        ("server", streams::server()?),
        ("publish", streams::publish()?),
        ("poison", streams::poison()?),
    ] {
        streams.push((name.to_owned(), stream));
    }
    for (name, stream) in &streams {
        // How long the reads are: 1, 8, 31 and 256 bytes in turn.
        seed("frames", name, &[&[0, 7, 30, 255], &stream[..]])?;
    }
    payloads(&streams)?;
    for (name, input) in differences::all()? {
        seed("differential", &name.replace(' ', "-"), &[&input])?;
    }
    for (number, text) in uris::ALL.iter().enumerate() {
        seed("uri", &format!("{number:02}"), &[text.as_bytes()])?;
    }
    Ok(())
}

fn seed(target: &str, name: &str, parts: &[&[u8]]) -> Done {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), parts.concat())?;
    Ok(())
}

/// What RabbitMQ and the client said to each other: see the example `record` of `amqp-tests`.
fn recordings() -> Result<Vec<Named>, Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push((name, fs::read(entry.path())?));
    }
    found.sort();
    Ok(found)
}

/// What is in the frames of the streams: one method of each kind, and all headers and tables.
fn payloads(streams: &[Named]) -> Done {
    let mut methods = BTreeMap::new();
    let mut headers = Vec::new();
    let mut tables = Vec::new();
    let mut bytes = rare_methods()?;
    for (_, stream) in streams {
        let start = ProtocolHeader::parse(stream).map_or(0, |header| header.to_bytes().len());
        bytes.extend_from_slice(&stream[start..]);
    }
    let limits = Limits::default();
    let mut rest = &bytes[..];
    while let Some((raw, len)) = RawFrame::parse(rest, &limits)? {
        rest = &rest[len..];
        match raw.decode(&limits)? {
            Frame::Method { method, .. } => {
                methods.insert(method.id(), raw.payload);
                if let Method::ConnectionStart(start) = method {
                    tables.push(start.server_properties.as_bytes().to_vec());
                }
            }
            Frame::Header { header, .. } if !headers.contains(&raw.payload) => {
                headers.push(raw.payload);
                tables.extend(header.properties.headers.map(|raw| raw.as_bytes().to_vec()));
            }
            Frame::Header { .. } | Frame::Body { .. } | Frame::Heartbeat => {}
        }
    }
    for (id, payload) in methods {
        let name = id.to_string();
        seed("methods", &name, &[payload])?;
        seed("differential", &name, &[&[0], payload])?;
    }
    for (number, payload) in headers.iter().enumerate() {
        let name = format!("header-{number}");
        seed("properties", &name, &[payload])?;
        seed("differential", &name, &[&[1], payload])?;
    }
    tables.sort();
    tables.dedup();
    for (number, content) in tables.iter().enumerate() {
        // Up to 8 levels and 200 entries.
        seed("tables", &number.to_string(), &[&[8, 200], content])?;
    }
    // Of eight arrays inside each other the innermost one has no entry that would be a level, nor one to be counted.
    let nested = [b"\0", &streams::nested(8)[..]].concat();
    for (name, limits) in [
        ("as-deep-as-may-be", [8, 8]),
        ("too-deep", [7, 8]),
        ("too-long", [8, 7]),
    ] {
        seed("tables", name, &[&limits, &nested])?;
    }
    Ok(())
}

/// Methods that the recordings have not.
fn rare_methods() -> Result<Vec<u8>, amqp_codec::EncodeError> {
    let mut bytes = Vec::new();
    let challenge = "who is there?".into();
    put(&connection::Secure { challenge }, &mut bytes)?;
    let response = "guest".into();
    put(&connection::SecureOk { response }, &mut bytes)?;
    let reason = short!("low on memory");
    put(&connection::Blocked { reason }, &mut bytes)?;
    put(&connection::Unblocked {}, &mut bytes)?;
    put(&channel::Flow::default(), &mut bytes)?;
    put(&channel::FlowOk::default(), &mut bytes)?;
    put(&basic::Nack::default(), &mut bytes)?;
    put(&basic::RecoverAsync::default(), &mut bytes)?;
    Ok(bytes)
}

fn put(method: &impl MethodFields, bytes: &mut Vec<u8>) -> Result<(), amqp_codec::EncodeError> {
    frame::encode_method(1, method, bytes)
}
