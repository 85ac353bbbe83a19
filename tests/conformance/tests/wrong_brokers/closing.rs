use amqp_codec::{MethodId, ReplyCode, basic, connection, short};

use crate::broker::{
    Passing, Unit, WrongBroker, client, drops, fault, method_frame, misreads, rewrites, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong("channel.close/forgets-what-is-still-to-do", {
            misreads(|it: &mut basic::Publish<'static>| it.routing_key = short!("nowhere"))
        })
        .caught_by(["channel.close/publishes-before-it-count"]),
        wrong("channel.close/delivers-after-close-ok", {
            fault(|| {
                let mut last: Option<Unit> = None;
                move |passing, out| {
                    if let Passing::Server(unit) = &passing {
                        if unit.id() == Some(MethodId::BASIC_DELIVER) {
                            last = Some(unit.clone());
                        } else if unit.id() == Some(MethodId::CHANNEL_CLOSE_OK) {
                            out.tell_client(unit);
                            return last.iter().for_each(|late| out.tell_client(late));
                        }
                    }
                    out.pass(passing);
                }
            })
        })
        .caught_by(["channel.close/nothing-after-close-ok"]),
        wrong(
            "connection.blocked/does-not-tell",
            drops(MethodId::CONNECTION_BLOCKED),
        )
        .caught_by(["connection.blocked/told-at-a-publish"]),
        wrong(
            "connection.blocked/does-not-tell-of-the-end",
            drops(MethodId::CONNECTION_UNBLOCKED),
        )
        .caught_by(["connection.blocked/told-at-a-publish"]),
        wrong("connection.blocked/blocks-consumers", {
            client(|channel, it: basic::Get<'static>, out| {
                let blocked = connection::Blocked {
                    reason: short!("low on memory"),
                };
                out.tell_client(&Unit::method(0, &blocked));
                out.tell_server(&method_frame(channel, &it));
            })
        })
        .caught_by(["connection.blocked/consumers-go-on"]),
        wrong("connection.close/does-not-say-it-was-forced", {
            rewrites(|it: &mut connection::Close<'static>| {
                it.reply_code = ReplyCode::INTERNAL_ERROR
            })
        })
        .caught_by(["connection.close/forced-by-the-operator"]),
    ]
}
