use amqp_codec::{ReplyCode, channel, frame};

use crate::broker::{
    Out, Passing, WrongBroker, confuses_codes, ends_at, fault, frames, overhears, typed, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong("framing/loses-frames-of-a-burst", loses_flows(50))
            .caught_by(["framing/many-frames-in-one-piece"]),
        wrong("framing/answers-no-flow", loses_flows(1))
            .caught_by(["framing/method-octet-by-octet"]),
        wrong(
            "framing/takes-frames-of-any-size",
            frames(|mut frame, out| {
                if frame.payload.len() > 131_072 - 8 {
                    let rest = frame.payload.split_off(100_000);
                    out.tell_server(&frame);
                    frame.payload = rest;
                }
                out.tell_server(&frame);
            }),
        )
        .caught_by(["framing/frame-far-above-frame-max"]),
        wrong("framing/overhears-what-is-no-frame", overhears_bytes()).caught_by([
            "framing/heartbeat-with-a-payload",
            "framing/size-of-four-gigabytes",
        ]),
        wrong(
            "framing/overhears-what-does-not-decode",
            overhears(|it| it.kind == frame::METHOD && it.method().is_none()),
        )
        .caught_by([
            "framing/empty-method-frame",
            "framing/truncated-arguments",
            "framing/string-longer-than-its-frame",
            "framing/table-longer-than-its-frame",
            "framing/octets-after-the-arguments",
        ]),
        wrong(
            "framing/confuses-501-with-541",
            confuses_codes(ReplyCode::FRAME_ERROR, ReplyCode::INTERNAL_ERROR),
        )
        .caught_by([
            "framing/frame-far-above-frame-max",
            "framing/size-of-four-gigabytes",
            "framing/heartbeat-with-a-payload",
            "framing/empty-method-frame",
            "framing/truncated-arguments",
            "framing/string-longer-than-its-frame",
            "framing/table-longer-than-its-frame",
            "content/header-cut-short",
        ]),
        wrong(
            "framing/ends-without-a-word",
            ends_at(|it| it.kind == frame::METHOD && it.method().is_none()),
        )
        .caught_by(["framing/truncated-arguments"]),
    ]
}

/// From this one on every channel.flow is lost.
fn loses_flows(from: u32) -> crate::broker::Fault {
    fault(move || {
        let mut flows = 0;
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) if typed::<channel::Flow>(&frame).is_some() => {
                flows += 1;
                if flows < from {
                    out.tell_server(&frame);
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// After the protocol header, what is no frame is no error.
fn overhears_bytes() -> crate::broker::Fault {
    fault(|| {
        |passing, out: &mut Out| match passing {
            Passing::ClientBytes(bytes) if !bytes.starts_with(b"AMQP") => {}
            passing => out.pass(passing),
        }
    })
}
