use amqp_codec::{MethodId, basic};

use crate::broker::{
    WrongBroker, answers, duplicates, misreads_properties, replaces, rewrites_properties, wrong,
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
    ]
}
