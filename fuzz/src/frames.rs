use std::collections::HashMap;

use amqp_codec::{Assembler, Frame, Limits, ProtocolHeader, RawFrame, frame};

use crate::tables::check_table;

/// Any bytes, in any reads: frames come out the same however they were cut, what is valid encodes to the same bytes,
/// contents are put together, tables taken apart.
pub fn frames(data: &[u8]) {
    // The first four bytes say how long the reads are, in turn; the stream follows.
    let Some((cuts, stream)) = data.split_first_chunk::<4>() else {
        return;
    };
    let limits = Limits {
        frame_max: 4096,
        method_frame_max: 16_384,
        ..Limits::default()
    };
    let stream = match ProtocolHeader::parse(stream) {
        Some(header) => &stream[header.to_bytes().len()..],
        None => stream,
    };

    let whole = all_frames(stream, &limits);
    let (mut seen, mut from, mut until) = (0, 0, 0);
    for cut in cuts.iter().cycle() {
        until = stream.len().min(until + usize::from(*cut) + 1);
        let part = all_frames(&stream[from..until], &limits);
        for (found, expected) in part.frames.iter().zip(&whole.frames[seen..]) {
            assert_eq!(found, expected);
        }
        seen += part.frames.len();
        from += part.len;
        if part.failed || until == stream.len() {
            assert_eq!(seen, whole.frames.len());
            assert_eq!(part.failed, whole.failed);
            break;
        }
        assert!(frame::needed(&stream[from..until]) > 0);
    }

    let mut contents = HashMap::new();
    for raw in whole.frames {
        consume(&raw, &mut contents, &limits);
    }
}

struct Frames<'a> {
    frames: Vec<RawFrame<'a>>,
    /// The bytes that they take.
    len: usize,
    /// Whether what follows them is no frame.
    failed: bool,
}

fn all_frames<'a>(input: &'a [u8], limits: &Limits) -> Frames<'a> {
    let mut found = Frames {
        frames: Vec::new(),
        len: 0,
        failed: false,
    };
    loop {
        match RawFrame::parse(&input[found.len..], limits) {
            Ok(Some((raw, len))) => {
                found.frames.push(raw);
                found.len += len;
            }
            Ok(None) => return found,
            Err(error) => {
                assert!(error.offset <= (input.len() - found.len) as u64);
                found.failed = true;
                return found;
            }
        }
    }
}

fn consume(raw: &RawFrame<'_>, contents: &mut HashMap<u16, Assembler<()>>, limits: &Limits) {
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    raw.encode(&mut bytes).expect("a vector has room");
    let frame = match raw.decode(limits) {
        Ok(frame) => frame,
        Err(error) => {
            assert!(error.offset <= bytes.len() as u64);
            return;
        }
    };
    frame.encode(&mut again).expect("a vector has room");
    assert_eq!(again, bytes);
    assert_eq!(frame.encoded_len(), bytes.len());
    let _ = format!("{frame:?}");

    let content = contents.entry(frame.channel()).or_default();
    let done = match &frame {
        Frame::Method { method, .. } if method.id().carries_content() => {
            content.start((), &[]).map(|()| None)
        }
        Frame::Method { .. } => content.expect_method().map(|()| None),
        Frame::Header { header, .. } => {
            if let Ok(Some(headers)) = header.properties.headers(limits) {
                check_table(&headers);
            }
            let done = content.header(header, raw.payload, limits);
            if let Ok(Some(content)) = &done {
                assert_eq!(content.properties(), header.properties);
            }
            done
        }
        Frame::Body { payload, .. } => content.body(payload, None),
        Frame::Heartbeat => Ok(None),
    };
    if let Ok(Some(content)) = done {
        let _ = content.properties();
        assert_eq!(content.to_body(), content.into_body());
    }
}
