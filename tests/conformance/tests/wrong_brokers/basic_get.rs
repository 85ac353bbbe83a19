use amqp_codec::{MethodId, ReplyCode, basic, channel};

use crate::broker::{
    Passing, Unit, WrongBroker, answers, duplicates, fault, misreads_properties, replaces,
    rewrites, rewrites_properties, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "basic.get/always-empty",
            replaces(MethodId::BASIC_GET_OK, basic::GetEmpty::default),
        )
        .caught_by(["basic.get/content-comes-back"]),
        wrong(
            "basic.get/never-empty",
            replaces(MethodId::BASIC_GET_EMPTY, basic::GetOk::default),
        )
        .caught_by(["basic.get/empty"]),
        wrong(
            "basic.get/loses-properties",
            rewrites_properties(MethodId::BASIC_GET_OK, |it| {
                it.content_type = None;
            }),
        )
        .caught_by(["basic.get/content-comes-back"]),
        wrong(
            "basic.get/empty-twice",
            duplicates(MethodId::BASIC_GET_EMPTY),
        )
        .caught_by(["basic.get/empty"]),
        wrong(
            "basic.get/looks-nowhere",
            answers(|_: basic::Get<'static>| basic::GetEmpty::default()),
        )
        .caught_by(["basic.get/content-comes-back", "basic.get/missing-queue"]),
        wrong(
            "basic.publish/loses-headers",
            misreads_properties(|it| it.headers = None),
        )
        .caught_by(["basic.get/content-comes-back"]),
        wrong(
            "basic.get/counts-nothing",
            rewrites(|it: &mut basic::GetOk<'static>| it.message_count = 0),
        )
        .caught_by(["basic.get/counts-what-is-left"]),
        wrong("basic.get/does-not-say-the-key", {
            rewrites(|it: &mut basic::GetOk<'static>| it.routing_key = amqp_codec::short!(""))
        })
        .caught_by(["basic.get/says-where-from"]),
        wrong("basic.get/gives-out-everything-twice", {
            fault(|| {
                let mut last: Option<Unit> = None;
                move |passing, out| match passing {
                    Passing::Server(unit) if unit.id() == Some(MethodId::BASIC_GET_OK) => {
                        out.tell_client(&unit);
                        last = Some(unit);
                    }
                    Passing::Server(unit) if unit.id() == Some(MethodId::BASIC_GET_EMPTY) => {
                        let mut again = last.take().unwrap_or_else(|| unit.clone());
                        again
                            .frames
                            .iter_mut()
                            .for_each(|it| it.channel = unit.channel);
                        out.tell_client(&again);
                    }
                    passing => out.pass(passing),
                }
            })
        })
        .caught_by(["basic.get/unacked-is-not-given-out-twice"]),
        wrong("basic.get/makes-a-consumer", {
            replaces(MethodId::QUEUE_DELETE_OK, || channel::Close {
                reply_code: ReplyCode::PRECONDITION_FAILED,
                ..Default::default()
            })
        })
        .caught_by(["basic.get/does-not-make-a-consumer"]),
    ]
}
