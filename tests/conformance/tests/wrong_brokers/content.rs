use std::time::Duration;

use amqp_codec::{MethodId, ReplyCode, basic, channel, connection, frame};
use amqp_conformance::event::OwnedFrame;

use crate::broker::{
    Action, Fault, Out, Passing, WrongBroker, answers, confuses_codes, ends_at, fault, frames,
    server, typed, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "content/confuses-505-with-504",
            confuses_codes(ReplyCode::UNEXPECTED_FRAME, ReplyCode::CHANNEL_ERROR),
        )
        .caught_by([
            "content/header-without-method",
            "content/body-without-method",
            "content/body-without-header",
            "content/method-instead-of-header",
            "content/method-instead-of-body",
            "content/method-amid-bodies",
            "content/header-twice",
            "content/header-of-another-class",
            "content/header-with-a-weight",
            "content/body-after-an-empty-one",
        ]),
        wrong(
            "content/answers-amid-a-content",
            answers(|it: channel::Flow| channel::FlowOk {
                active: it.active,
                undefined_bits: 0,
            }),
        )
        .caught_by([
            "content/method-instead-of-header",
            "content/method-instead-of-body",
            "content/method-amid-bodies",
            "content/body-larger-than-announced",
        ]),
        wrong(
            "content/overhears-what-belongs-to-nothing",
            overhears_strays(),
        )
        .caught_by([
            "content/header-without-method",
            "content/body-without-method",
            "content/body-after-an-empty-one",
        ]),
        wrong(
            "content/overlooks-class-and-weight",
            rewrites_header(|header| header[..4].copy_from_slice(&[0, 60, 0, 0])),
        )
        .caught_by([
            "content/header-of-another-class",
            "content/header-with-a-weight",
        ]),
        wrong("content/takes-what-there-is", takes_what_there_is())
            .caught_by(["content/incomplete-at-the-end-is-none"]),
        wrong("content/mixes-up-bodies", mixes_up_bodies()).caught_by([
            "content/in-frames-of-one-octet",
            "content/of-two-channels-interleaved",
        ]),
        wrong(
            "content/ends-at-an-empty-body",
            ends_at(|it| it.kind == frame::BODY && it.payload.is_empty()),
        )
        .caught_by(["content/empty-frames-amid-bodies"]),
        wrong(
            "content/sends-an-empty-body",
            server(MethodId::BASIC_GET_OK, |mut unit, out| {
                if unit.frames.len() == 2 {
                    unit.frames.push(OwnedFrame {
                        kind: frame::BODY,
                        channel: unit.channel,
                        payload: Vec::new().into(),
                    });
                }
                out.tell_client(&unit);
            }),
        )
        .caught_by(["content/empty-has-no-body-frame"]),
        wrong("content/one-channel-at-a-time", one_at_a_time())
            .caught_by(["content/another-channel-works-meanwhile"]),
        wrong("content/suffers-no-heartbeat-amid-it", no_heartbeat_amid())
            .caught_by(["content/heartbeats-amid-frames"]),
    ]
}

/// A content of 8 octets is whole with its first 4, and is published before the end that the client asks for.
fn takes_what_there_is() -> Fault {
    let publishes = rewrites_header(|header| {
        if header.len() == 14 && header[11] == 8 {
            header[11] = 4;
        }
    });
    fault(move || {
        let mut publishes = publishes();
        move |passing, out: &mut Out| {
            if let Passing::Client(frame) = &passing
                && typed::<connection::Close<'static>>(frame).is_some()
            {
                // A node that ends a connection may forget what its channels have not looked at yet.
                out.act(Action::Wait(Duration::from_millis(300)));
            }
            publishes(passing, out);
        }
    })
}

fn rewrites_header(rewrite: impl Fn(&mut [u8]) + Send + Sync + Clone + 'static) -> Fault {
    frames(move |mut frame, out| {
        if frame.kind == frame::HEADER {
            let mut payload = frame.payload.to_vec();
            rewrite(&mut payload);
            frame.payload = payload.into();
        }
        out.tell_server(&frame);
    })
}

/// Whether a client's frame is amid a content, on one channel at a time.
#[derive(Default)]
struct Amid {
    channel: u16,
    method: bool,
    left: u64,
}

impl Amid {
    fn take(&mut self, frame: &OwnedFrame) {
        match frame.kind {
            frame::METHOD if typed::<basic::Publish<'static>>(frame).is_some() => {
                (self.channel, self.method) = (frame.channel, true);
            }
            frame::HEADER if self.method => {
                let size = frame.payload.get(4..12).and_then(|it| it.try_into().ok());
                (self.method, self.left) = (false, size.map_or(0, u64::from_be_bytes));
            }
            frame::BODY => self.left = self.left.saturating_sub(frame.payload.len() as u64),
            _ => {}
        }
    }

    fn is_amid(&self) -> bool {
        self.method || self.left > 0
    }
}

/// Headers and bodies that belong to no content are no error.
fn overhears_strays() -> Fault {
    fault(|| {
        let mut amid = Amid::default();
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) => {
                let stray = frame.kind != frame::METHOD && !amid.is_amid();
                amid.take(&frame);
                if !stray {
                    out.tell_server(&frame);
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// The first two bodies that come change places.
fn mixes_up_bodies() -> Fault {
    fault(|| {
        let mut first: Option<OwnedFrame> = None;
        let mut done = false;
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) if frame.kind == frame::BODY && !done => match first.take() {
                None => first = Some(frame),
                Some(mut earlier) => {
                    let mut frame = frame;
                    std::mem::swap(&mut earlier.payload, &mut frame.payload);
                    out.tell_server(&earlier);
                    out.tell_server(&frame);
                    done = true;
                }
            },
            passing => out.pass(passing),
        }
    })
}

/// While a content comes, nothing is heard on other channels.
fn one_at_a_time() -> Fault {
    fault(|| {
        let mut amid = Amid::default();
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) => {
                if amid.is_amid() && frame.channel != amid.channel {
                    return;
                }
                amid.take(&frame);
                out.tell_server(&frame);
            }
            passing => out.pass(passing),
        }
    })
}

fn no_heartbeat_amid() -> Fault {
    fault(|| {
        let mut amid = Amid::default();
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) if amid.is_amid() && frame.kind == frame::HEARTBEAT => {
                out.act(Action::Cut);
            }
            Passing::Client(frame) => {
                amid.take(&frame);
                out.tell_server(&frame);
            }
            passing => out.pass(passing),
        }
    })
}
