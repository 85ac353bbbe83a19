use std::collections::BTreeSet;

use amqp_codec::{MethodId, ReplyCode, ShortStr, basic, channel, queue};

use crate::broker::{
    Action, Fault, Out, Passing, Unit, WrongBroker, answers, drops, ends_at_method, fault, ignores,
    rewrites, server, typed, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "channel/never-closes-in-answer",
            drops(MethodId::CHANNEL_CLOSE_OK),
        )
        .caught_by(["channel.close/number-can-be-used-again"]),
        wrong(
            "channel/refused-for-everything",
            rewrites(|it: &mut channel::Close| {
                it.reply_code = ReplyCode::ACCESS_REFUSED;
            }),
        )
        .caught_by(["basic.publish/missing-exchange", "basic.get/missing-queue"]),
        wrong("channel/does-not-open", ignores::<channel::Open<'static>>())
            .caught_by(["channel.close/number-can-be-used-again"]),
        wrong("channel.open/in-their-order-alone", opens_in_order()).caught_by([
            "channel.open/numbers-with-gaps",
            "channel.open/highest-number",
        ]),
        wrong(
            "channel.open/always-ok",
            answers(|_: channel::Open<'static>| channel::OpenOk::default()),
        )
        .caught_by(["channel.open/on-channel-0-refused", "channel.open/twice"]),
        wrong(
            "channel.open/reads-reserved-fields",
            ends_at_method(|it: &channel::Open<'static>| !it.reserved_1.is_empty()),
        )
        .caught_by(["channel.open/reserved-field-ignored"]),
        wrong("channel.open/fifty-times-at-most", opens_fifty_times()).caught_by([
            "channel.open/many-in-a-row",
            "channel.open/many-side-by-side",
        ]),
        wrong(
            "channel/answers-all-on-channel-1",
            server(MethodId::QUEUE_DECLARE_OK, |mut unit, out| {
                for frame in &mut unit.frames {
                    frame.channel = 1;
                }
                out.tell_client(&unit);
            }),
        )
        .caught_by(["channel/answers-on-their-own-channels"]),
        wrong("channel/overhears-what-is-not-open", overhears_unopened()).caught_by([
            "channel/method-on-unopened-refused",
            "channel/publish-on-unopened-refused",
            "channel.close/on-unopened-refused",
            "channel.close/ends-the-channel",
        ]),
        wrong(
            "channel/declares-wherever-it-is-asked",
            answers(|_: queue::Declare<'static>| queue::DeclareOk::default()),
        )
        .caught_by([
            "channel/method-on-unopened-refused",
            "framing/channel-method-on-channel-0",
        ]),
        wrong(
            "channel.close/never-answered",
            drops(MethodId::CHANNEL_CLOSE_OK),
        )
        .caught_by(["channel.close/answered", "channel.close/crossing-an-error"]),
        wrong(
            "channel.close/never-reopens-after-an-error",
            after_error(|failed, passing, out| match passing {
                Passing::Client(frame)
                    if failed && typed::<channel::Open<'static>>(&frame).is_some() => {}
                passing => out.pass(passing),
            }),
        )
        .caught_by(["channel.close/number-can-be-used-again-after-an-error"]),
        wrong(
            "channel.close/stops-deliveries-elsewhere",
            after_error(|failed, passing, out| match passing {
                Passing::Server(unit) if failed && unit.id() == Some(MethodId::BASIC_DELIVER) => {}
                passing => out.pass(passing),
            }),
        )
        .caught_by(["channel.close/error-leaves-other-channels-alone"]),
        wrong(
            "channel.close/names-no-method",
            rewrites(|it: &mut channel::Close<'static>| {
                (it.class_id, it.method_id) = (0, 0);
            }),
        )
        .caught_by(["channel.close/names-the-method"]),
        wrong(
            "channel.close/gives-no-text",
            rewrites(|it: &mut channel::Close<'static>| it.reply_text = ShortStr::EMPTY),
        )
        .caught_by(["channel.close/gives-a-text"]),
        wrong(
            "channel.close/answers-before-close-ok",
            after_error(|failed, passing, out| match passing {
                Passing::Client(frame)
                    if failed && typed::<basic::Get<'static>>(&frame).is_some() =>
                {
                    out.tell_client(&Unit::method(frame.channel, &basic::GetEmpty::default()));
                }
                passing => out.pass(passing),
            }),
        )
        .caught_by(["channel.close/nothing-counts-before-close-ok"]),
        wrong(
            "channel.close-ok/taken-at-any-time",
            ignores::<channel::CloseOk>(),
        )
        .caught_by(["channel.close-ok/unsolicited-refused"]),
        wrong(
            "channel.flow/never-active",
            rewrites(|it: &mut channel::FlowOk| it.active = false),
        )
        .caught_by(["channel.flow/active-answered"]),
    ]
}

/// A channel's number must be the one after the last.
fn opens_in_order() -> Fault {
    fault(|| {
        let mut opened = 0;
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) if typed::<channel::Open<'static>>(&frame).is_some() => {
                if frame.channel != opened + 1 {
                    return out.act(Action::Cut);
                }
                opened += 1;
                out.tell_server(&frame);
            }
            passing => out.pass(passing),
        }
    })
}

fn opens_fifty_times() -> Fault {
    fault(|| {
        let mut opened = 0;
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) if typed::<channel::Open<'static>>(&frame).is_some() => {
                opened += 1;
                if opened <= 50 {
                    out.tell_server(&frame);
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// What is said on a channel that is not open is no error.
fn overhears_unopened() -> Fault {
    fault(|| {
        let mut open = BTreeSet::from([0]);
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) => {
                if typed::<channel::Open<'static>>(&frame).is_some() {
                    open.insert(frame.channel);
                }
                if open.contains(&frame.channel) {
                    out.tell_server(&frame);
                }
                if typed::<channel::Close<'static>>(&frame).is_some() {
                    open.remove(&frame.channel);
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// What is done to what goes by, told whether the broker has closed a channel.
fn after_error(act: impl Fn(bool, Passing, &mut Out) + Send + Sync + Clone + 'static) -> Fault {
    fault(move || {
        let act = act.clone();
        let mut failed = false;
        move |passing, out: &mut Out| {
            if let Passing::Server(unit) = &passing {
                failed |= unit.id() == Some(MethodId::CHANNEL_CLOSE);
            }
            act(failed, passing, out);
        }
    })
}
