use amqp_codec::{MethodId, ReplyCode, channel, connection};

use crate::broker::{
    Out, Passing, Unit, WrongBroker, ends_at, ends_at_method, fault, misreads, rewrites, typed,
    wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "connection.tune/proposes-tiny-frames",
            rewrites(|it: &mut connection::Tune| it.frame_max = 1024),
        )
        .caught_by(["connection.tune/frame-max-at-least-4096"]),
        wrong(
            "connection.tune/overlooks-what-clients-say",
            misreads(|it: &mut connection::TuneOk| {
                (it.channel_max, it.frame_max) = (2047, 131_072);
            }),
        )
        .caught_by([
            "connection.tune/frame-max-below-4096-refused",
            "connection.tune/frame-max-above-proposal-refused",
            "connection.tune/channel-max-above-proposal-refused",
            "connection.tune/one-channel-too-many-refused",
            "connection.tune/server-keeps-to-frame-max",
        ]),
        wrong(
            "connection.tune/wants-more-than-the-minimum",
            ends_at_method(|it: &connection::TuneOk| it.frame_max <= 4096),
        )
        .caught_by(["connection.tune/frame-max-4096-accepted"]),
        wrong(
            "connection.tune/wants-its-own-heartbeat",
            ends_at_method(|it: &connection::TuneOk| it.heartbeat > 60),
        )
        .caught_by(["connection.tune/heartbeat-above-proposal-accepted"]),
        wrong(
            "connection.tune/counts-channels-from-0",
            ends_at(|frame| frame.channel == 2 && typed::<channel::Open<'static>>(frame).is_some()),
        )
        .caught_by(["connection.tune/channel-max-itself-opens"]),
        wrong(
            "connection.tune/counts-closed-channels",
            fault(|| {
                let mut opened = 0;
                move |passing, out: &mut Out| match passing {
                    Passing::Client(frame) if typed::<channel::Open<'static>>(&frame).is_some() => {
                        opened += 1;
                        if opened <= 2 {
                            return out.tell_server(&frame);
                        }
                        let close = connection::Close {
                            reply_code: ReplyCode::NOT_ALLOWED,
                            class_id: MethodId::CHANNEL_OPEN.class,
                            method_id: MethodId::CHANNEL_OPEN.method,
                            ..Default::default()
                        };
                        out.tell_client(&Unit::method(0, &close));
                    }
                    passing => out.pass(passing),
                }
            }),
        )
        .caught_by(["connection.tune/closed-channel-makes-room"]),
    ]
}
