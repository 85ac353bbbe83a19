//! Each check can pass: what no RabbitMQ does as the specification says is mended by the proxy, and the check passes.

use std::collections::BTreeSet;

use amqp_codec::{
    LongStr, MethodId, ReplyCode, basic, channel, connection, exchange, frame, queue, short,
};
use amqp_conformance::event::OwnedFrame;

use crate::broker::{
    Fault, Out, Passing, Unit, confuses_codes, cuts_instead_of, fault, frames, method_frame,
    misreads, rewrites, server, typed,
};

/// RabbitMQ, with this mended.
pub(crate) struct MendedBroker {
    pub(crate) name: &'static str,
    pub(crate) passes: Vec<&'static str>,
    pub(crate) fault: Fault,
}

pub(crate) fn brokers() -> Vec<MendedBroker> {
    vec![
        mended(
            "mended/says-503-out-of-sequence",
            confuses_codes(ReplyCode::CHANNEL_ERROR, ReplyCode::COMMAND_INVALID),
            [
                "connection.open/twice",
                "connection.close-ok/unsolicited-refused",
                "connection.start/from-client-refused",
                "connection.start-ok/again-refused",
                "connection.tune-ok/again-refused",
                "connection.secure-ok/unsolicited-refused",
            ],
        ),
        mended(
            "mended/ends-without-a-word",
            cuts_instead_of(MethodId::CONNECTION_CLOSE),
            [
                "framing/wrong-frame-end",
                "framing/size-below-the-payload",
                "framing/unknown-type-0",
                "framing/unknown-type-9",
                "framing/protocol-header-on-an-open-connection",
                "handshake/channel-before-open",
                "handshake/tune-ok-twice",
            ],
        ),
        mended(
            "mended/looks-for-the-channel-first",
            confuses_codes(ReplyCode::UNEXPECTED_FRAME, ReplyCode::CHANNEL_ERROR),
            [
                "channel/header-on-unopened-refused",
                "framing/header-on-channel-0",
                "framing/body-on-channel-0",
            ],
        ),
        mended(
            "mended/says-501-for-a-heartbeat",
            confuses_codes(ReplyCode::UNEXPECTED_FRAME, ReplyCode::FRAME_ERROR),
            ["framing/heartbeat-on-channel-1"],
        ),
        mended(
            "mended/says-502-for-what-does-not-decode",
            confuses_codes(ReplyCode::INTERNAL_ERROR, ReplyCode::SYNTAX_ERROR),
            [
                "field-table/array-beyond-the-table-refused",
                "field-table/key-without-value-refused",
                "field-table/string-beyond-the-table-refused",
                "field-table/unknown-type-refused",
                "field-table/value-cut-off-refused",
                "properties/flag-without-value-refused",
                "properties/octets-after-the-last-refused",
                "properties/string-beyond-the-frame-refused",
                "properties/table-beyond-the-frame-refused",
            ],
        ),
        mended(
            "mended/refuses-methods-that-it-does-not-know",
            refuses(ReplyCode::NOT_IMPLEMENTED, |it| {
                it.kind == frame::METHOD && it.method().is_none()
            }),
            ["framing/unknown-class", "framing/unknown-method"],
        ),
        mended(
            "mended/refuses-arguments-of-unknown-types",
            refuses(ReplyCode::SYNTAX_ERROR, |it| {
                it.kind == frame::METHOD && it.method().is_none()
            }),
            ["field-table/arguments-of-unknown-type-refused"],
        ),
        mended(
            "mended/counts-every-octet-of-a-frame",
            refuses(ReplyCode::FRAME_ERROR, |it| {
                it.payload.len() + frame::FRAME_OVERHEAD > 131_072
            }),
            ["framing/frame-above-frame-max"],
        ),
        mended(
            "mended/minds-the-numbers-of-channels",
            minds_numbers(),
            [
                "connection.tune/channel-above-channel-max-refused",
                "channel.open/above-the-highest-number-refused",
            ],
        ),
        mended(
            "mended/refuses-what-does-not-fit-a-frame",
            server(MethodId::BASIC_GET_OK, |unit, out| {
                match unit.frames[1].payload.len() {
                    0..8192 => out.tell_client(&unit),
                    _ => {
                        let close = channel::Close {
                            reply_code: ReplyCode::CONTENT_TOO_LARGE,
                            ..Default::default()
                        };
                        out.tell_client(&Unit::method(unit.channel, &close));
                    }
                }
            }),
            ["connection.tune/server-keeps-to-frame-max-in-headers"],
        ),
        mended(
            "mended/discards-between-close-and-close-ok",
            discards_until_close_ok(),
            ["channel.close/open-before-close-ok-ignored"],
        ),
        mended(
            "mended/can-stop-a-channel",
            stops(),
            ["channel.flow/inactive-stops-deliveries"],
        ),
        mended(
            "mended/says-little-of-long-names",
            misreads(|it: &mut queue::Declare<'static>| {
                if it.passive && it.queue.len() >= 254 {
                    it.queue = short!("amqp-conformance.missing");
                }
            }),
            ["limits/reply-text-about-255-octets-of-utf-8"],
        ),
        mended(
            "mended/names-its-host",
            rewrites(|it: &mut connection::Start<'static>| {
                let host = it
                    .server_properties
                    .insert("host", LongStr::from("localhost"));
                host.expect("a short key");
            }),
            ["handshake/server-properties-named"],
        ),
        mended(
            "mended/refuses-to-delete-what-is-missing",
            looks_for_what_is_missing(),
            [
                "exchange.delete/missing-refused",
                "queue.delete/missing-queue-refused",
                "queue.unbind/missing-queue-refused",
                "queue.unbind/missing-exchange-refused",
            ],
        ),
        mended(
            "mended/reads-the-grammar-of-tables",
            reads_the_grammar(),
            ["field-table/signed-16-by-the-grammar"],
        ),
        mended(
            "mended/returns-what-is-immediate",
            returns_immediate(),
            ["basic.publish/immediate-without-consumer-returned"],
        ),
        mended(
            "mended/keeps-a-client-from-its-own-messages",
            server(MethodId::BASIC_DELIVER, |unit, out| {
                // The proxy does not know whose a message is; its body says so.
                if unit
                    .frames
                    .last()
                    .is_none_or(|it| &it.payload[..] != b"own")
                {
                    out.tell_client(&unit);
                }
            }),
            ["basic.consume/no-local"],
        ),
        mended(
            "mended/recovers-to-the-consumer",
            misreads(|it: &mut basic::Recover| it.requeue = true),
            ["basic.recover/to-the-same-consumer"],
        ),
        mended(
            "mended/counts-octets-ahead",
            misreads(|it: &mut basic::Qos| {
                it.prefetch_count = u16::from(std::mem::take(&mut it.prefetch_size) > 0);
            }),
            ["basic.qos/prefetch-size"],
        ),
    ]
}

fn mended<const N: usize>(
    name: &'static str,
    fault: Fault,
    passes: [&'static str; N],
) -> MendedBroker {
    MendedBroker {
        name,
        passes: passes.to_vec(),
        fault,
    }
}

/// Such a frame of the client's is refused with this code, and what it says then is not heard.
fn refuses(
    code: ReplyCode,
    which: impl Fn(&OwnedFrame) -> bool + Send + Sync + Clone + 'static,
) -> Fault {
    fault(move || {
        let which = which.clone();
        let mut refused = false;
        move |passing, out: &mut Out| match passing {
            Passing::Client(_) if refused => {}
            Passing::Client(frame) if which(&frame) => {
                refused = true;
                tell_close(code, out);
            }
            passing => out.pass(passing),
        }
    })
}

fn tell_close(reply_code: ReplyCode, out: &mut Out) {
    let close = connection::Close {
        reply_code,
        ..Default::default()
    };
    out.tell_client(&Unit::method(0, &close));
}

/// No channel opens above the channel_max that was agreed upon.
fn minds_numbers() -> Fault {
    fault(|| {
        let mut highest = u16::MAX;
        let mut refused = false;
        move |passing, out: &mut Out| match passing {
            Passing::Client(_) if refused => {}
            Passing::Client(frame) => {
                if let Some(tune_ok) = typed::<connection::TuneOk>(&frame) {
                    highest = tune_ok.channel_max;
                }
                refused = frame.channel > highest;
                match refused {
                    true => tell_close(ReplyCode::CHANNEL_ERROR, out),
                    false => out.tell_server(&frame),
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// On a channel that the broker has closed, nothing but close and close-ok is heard.
fn discards_until_close_ok() -> Fault {
    fault(|| {
        let mut closing = BTreeSet::new();
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) if closing.contains(&frame.channel) => {
                let ok = typed::<channel::CloseOk>(&frame).is_some();
                if ok {
                    closing.remove(&frame.channel);
                }
                if ok || typed::<channel::Close<'static>>(&frame).is_some() {
                    out.tell_server(&frame);
                }
            }
            Passing::Server(unit) => {
                if unit.id() == Some(MethodId::CHANNEL_CLOSE) {
                    closing.insert(unit.channel);
                }
                out.tell_client(&unit);
            }
            passing => out.pass(passing),
        }
    })
}

/// Deliveries wait while the client has the channel stopped; there is one channel with consumers.
fn stops() -> Fault {
    fault(|| {
        let mut stopped = false;
        let mut held: Vec<Unit> = Vec::new();
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame)
                if typed::<channel::Flow>(&frame).is_some_and(|flow| !flow.active) =>
            {
                stopped = true;
                out.tell_client(&Unit::method(frame.channel, &channel::FlowOk::default()));
            }
            Passing::Server(unit) if stopped && unit.id() == Some(MethodId::BASIC_DELIVER) => {
                held.push(unit);
            }
            Passing::Server(unit) => {
                out.tell_client(&unit);
                if unit.id() == Some(MethodId::CHANNEL_FLOW_OK) {
                    stopped = false;
                    for unit in held.drain(..) {
                        out.tell_client(&unit);
                    }
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// What deletes or unbinds something asks for a queue that is missing instead.
fn looks_for_what_is_missing() -> Fault {
    frames(|frame, out| {
        let deletes = typed::<exchange::Delete<'static>>(&frame).is_some()
            || typed::<queue::Delete<'static>>(&frame).is_some()
            || typed::<queue::Unbind<'static>>(&frame).is_some();
        if !deletes {
            return out.tell_server(&frame);
        }
        let ask = queue::Declare {
            queue: short!("amqp-conformance.missing"),
            passive: true,
            ..Default::default()
        };
        out.tell_server(&method_frame(frame.channel, &ask));
    })
}

/// What is immediate goes nowhere, and comes back as if nobody was there to consume it.
fn returns_immediate() -> Fault {
    fault(|| {
        |passing, out: &mut Out| match passing {
            Passing::Client(frame) => match typed::<basic::Publish<'static>>(&frame) {
                Some(publish) if publish.immediate => {
                    let publish = basic::Publish {
                        routing_key: short!("amqp-conformance.nobody"),
                        mandatory: true,
                        immediate: false,
                        ..publish
                    };
                    out.tell_server(&method_frame(frame.channel, &publish));
                }
                _ => out.tell_server(&frame),
            },
            Passing::Server(mut unit) => {
                if let Some(mut returned) = unit.typed::<basic::Return<'static>>() {
                    returned.reply_code = ReplyCode::NO_CONSUMERS;
                    unit.frames[0] = method_frame(unit.channel, &returned);
                }
                out.tell_client(&unit);
            }
            passing => out.pass(passing),
        }
    })
}

/// The grammar's letter for 16 bits is known as that of practice on the way in, and put back on the way out.
fn reads_the_grammar() -> Fault {
    fn replace(frame: &mut OwnedFrame, from: [u8; 3], to: [u8; 3]) {
        let mut payload = frame.payload.to_vec();
        if frame.kind == frame::HEADER
            && let Some(at) = payload.windows(3).position(|it| it == from)
        {
            payload[at..at + 3].copy_from_slice(&to);
            frame.payload = payload.into();
        }
    }
    const GRAMMAR: [u8; 3] = *b"U\x80\x00";
    const PRACTICE: [u8; 3] = *b"s\x80\x00";
    fault(|| {
        |passing, out: &mut Out| match passing {
            Passing::Client(mut frame) => {
                replace(&mut frame, GRAMMAR, PRACTICE);
                out.tell_server(&frame);
            }
            Passing::Server(mut unit) => {
                for frame in &mut unit.frames {
                    replace(frame, PRACTICE, GRAMMAR);
                }
                out.tell_client(&unit);
            }
            passing => out.pass(passing),
        }
    })
}
