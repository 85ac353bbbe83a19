use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amqp_codec::{MethodId, ReplyCode, ShortStr, basic, channel, connection, queue};

use crate::broker::{
    Action, Fault, Out, Passing, Unit, WrongBroker, confuses_codes, drops, ends_at_method, fault,
    frames, ignores, never_ends, rewrites, typed, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "connection.open/reads-reserved-fields",
            ends_at_method(|it: &connection::Open<'static>| it.reserved_2),
        )
        .caught_by(["connection.open/reserved-fields-ignored"]),
        wrong(
            "connection.close/never-answered",
            drops(MethodId::CONNECTION_CLOSE_OK),
        )
        .caught_by([
            "connection.close/answered",
            "connection.close/crossing-an-error",
        ]),
        wrong("connection.close/never-ends-the-stream", never_ends()).caught_by([
            "connection.close/answered",
            "connection/half-closed-stream-ends",
        ]),
        wrong(
            "connection.close/channel-by-channel",
            frames(|frame, out| {
                if typed::<connection::Close<'static>>(&frame).is_some() {
                    out.tell_client(&Unit::method(1, &channel::Close::default()));
                }
                out.tell_server(&frame);
            }),
        )
        .caught_by(["connection.close/with-channels-open"]),
        wrong(
            "connection.close/wants-a-reason-it-likes",
            ends_at_method(|it: &connection::Close<'static>| {
                it.reply_code != ReplyCode::REPLY_SUCCESS
            }),
        )
        .caught_by(["connection.close/with-any-code-and-text"]),
        wrong("connection.close/reads-on-after-it", reads_on())
            .caught_by(["connection.close/what-follows-is-ignored"]),
        wrong(
            "connection.close/forgets-what-went-before",
            loses_a_publish(),
        )
        .caught_by(["connection.close/what-went-before-counts"]),
        wrong(
            "connection.close/names-no-method",
            rewrites(|it: &mut connection::Close<'static>| {
                (it.class_id, it.method_id) = (0, 0);
            }),
        )
        .caught_by(["connection.close/names-the-method"]),
        wrong(
            "connection.close/gives-no-text",
            rewrites(|it: &mut connection::Close<'static>| it.reply_text = ShortStr::EMPTY),
        )
        .caught_by(["connection.close/gives-a-text"]),
        wrong(
            "connection.close/answers-after-its-own",
            answers_after_close(),
        )
        .caught_by(["connection.close/nothing-counts-after-an-error"]),
        wrong("connection.close/takes-all-with-it", takes_all_with_it()).caught_by([
            "connection.close/error-leaves-other-connections-alone",
            "framing/error-leaves-other-connections-alone",
        ]),
        wrong(
            "connection/confuses-503-with-541",
            confuses_codes(ReplyCode::COMMAND_INVALID, ReplyCode::INTERNAL_ERROR),
        )
        .caught_by([
            "connection.close/on-channel-1-refused",
            "queue.declare-ok/from-client-refused",
            "exchange.declare-ok/from-client-refused",
            "basic.consume-ok/from-client-refused",
            "basic.deliver/from-client-refused",
            "channel.open-ok/from-client-refused",
            "channel.close-ok/unsolicited-refused",
        ]),
        wrong(
            "connection/overhears-answers-from-clients",
            ignores::<queue::DeclareOk<'static>>(),
        )
        .caught_by(["queue.declare-ok/from-client-refused"]),
        wrong(
            "connection.update-secret/never-answered",
            ignores::<connection::UpdateSecret<'static>>(),
        )
        .caught_by(["connection.update-secret/answered"]),
    ]
}

/// What follows a close is read before it.
fn reads_on() -> Fault {
    fault(|| {
        let mut close = None;
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) if typed::<connection::Close<'static>>(&frame).is_some() => {
                close = Some(frame);
            }
            Passing::Client(frame) => {
                out.tell_server(&frame);
                if frame.kind == amqp_codec::frame::BODY
                    && let Some(close) = close.take()
                {
                    out.tell_server(&close);
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// The hundredth publish on a connection is lost, with its content.
fn loses_a_publish() -> Fault {
    fault(|| {
        let mut published = 0;
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) => {
                let publish = typed::<basic::Publish<'static>>(&frame).is_some();
                published += u32::from(publish);
                let content = publish || frame.kind != amqp_codec::frame::METHOD;
                if !(content && published == 100) {
                    out.tell_server(&frame);
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// After its own close it still answers.
fn answers_after_close() -> Fault {
    fault(|| {
        let mut closed = false;
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame)
                if closed && typed::<queue::Declare<'static>>(&frame).is_some() =>
            {
                out.tell_client(&Unit::method(frame.channel, &queue::DeclareOk::default()));
            }
            Passing::Server(unit) => {
                closed |= unit.typed::<connection::Close<'static>>().is_some();
                out.tell_client(&unit);
            }
            passing => out.pass(passing),
        }
    })
}

/// An error on one connection ends all others.
fn takes_all_with_it() -> Fault {
    let failed = Arc::new(AtomicBool::new(false));
    fault(move || {
        let failed = Arc::clone(&failed);
        let mut own = false;
        move |passing, out: &mut Out| {
            let error = match &passing {
                Passing::Server(unit) => unit.typed::<connection::Close<'static>>().is_some(),
                _ => false,
            };
            own |= error;
            if error {
                failed.store(true, Ordering::Relaxed);
            }
            match failed.load(Ordering::Relaxed) && !own {
                true => out.act(Action::Cut),
                false => out.pass(passing),
            }
        }
    })
}
