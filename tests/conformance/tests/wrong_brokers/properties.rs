use amqp_codec::basic::Properties;
use amqp_codec::{MethodId, short};

use crate::broker::{
    Fault, WrongBroker, drops, misreads_properties, rewrites_properties, shows_copies, wrong,
};

/// What is got has other properties than what was published.
fn got(rewrite: fn(&mut Properties<'static>)) -> Fault {
    rewrites_properties(MethodId::BASIC_GET_OK, rewrite)
}

pub(crate) fn brokers() -> Vec<WrongBroker> {
    [relays(), looks_at()].into_iter().flatten().collect()
}

fn relays() -> Vec<WrongBroker> {
    vec![
        wrong(
            "properties/says-who-published",
            got(|it| it.user_id = Some(short!("guest"))),
        )
        .caught_by(["properties/none", "properties/all-at-once"]),
        wrong(
            "properties/loses-content-type",
            got(|it| it.content_type = None),
        )
        .caught_by(["properties/content-type", "properties/empty-strings"]),
        wrong(
            "properties/loses-content-encoding",
            got(|it| it.content_encoding = None),
        )
        .caught_by(["properties/content-encoding"]),
        wrong("properties/loses-headers", got(|it| it.headers = None))
            .caught_by(["properties/headers", "properties/headers-empty"]),
        wrong(
            "properties/makes-all-persistent",
            got(|it| it.delivery_mode = Some(2)),
        )
        .caught_by(["properties/delivery-mode-transient", "properties/none"]),
        wrong(
            "properties/makes-all-transient",
            got(|it| it.delivery_mode = Some(1)),
        )
        .caught_by(["properties/delivery-mode-persistent"]),
        wrong("properties/takes-priority-0-for-none", {
            got(|it| it.priority = it.priority.filter(|priority| *priority > 0))
        })
        .caught_by(["properties/priority-zero"]),
        wrong("properties/priorities-up-to-4", {
            got(|it| it.priority = it.priority.map(|priority| priority.min(4)))
        })
        .caught_by(["properties/priority"]),
        wrong("properties/correlation-ids-in-capitals", {
            got(|it| {
                let capitals =
                    |id: amqp_codec::ShortStr<'_>| id.to_string().to_uppercase().try_into();
                it.correlation_id = it.correlation_id.take().and_then(|id| capitals(id).ok());
            })
        })
        .caught_by(["properties/correlation-id"]),
        wrong("properties/answers-to-nobody", got(|it| it.reply_to = None))
            .caught_by(["properties/reply-to"]),
        wrong(
            "properties/loses-expiration",
            got(|it| it.expiration = None),
        )
        .caught_by(["properties/expiration"]),
        wrong(
            "properties/makes-its-own-message-ids",
            got(|it| it.message_id = Some(short!("17"))),
        )
        .caught_by(["properties/message-id", "properties/255-octets"]),
        wrong("properties/timestamps-of-32-bits", {
            got(|it| it.timestamp = it.timestamp.map(|time| time & 0xffff_ffff))
        })
        .caught_by(["properties/timestamp-largest"]),
        wrong(
            "properties/stamps-the-time-itself",
            got(|it| it.timestamp = Some(1)),
        )
        .caught_by(["properties/timestamp"]),
        wrong("properties/loses-type", got(|it| it.kind = None)).caught_by(["properties/type"]),
        wrong("properties/loses-app-id", got(|it| it.app_id = None))
            .caught_by(["properties/app-id"]),
        wrong(
            "properties/loses-cluster-id",
            got(|it| it.cluster_id = None),
        )
        .caught_by(["properties/cluster-id", "properties/all-at-once"]),
    ]
}

fn looks_at() -> Vec<WrongBroker> {
    vec![
        wrong(
            "properties/does-not-look-at-user-id",
            misreads_properties(|it| it.user_id = None),
        )
        .caught_by([
            "properties/user-id-of-somebody-else-refused",
            "properties/user-id-of-the-connection",
        ]),
        wrong(
            "properties/does-not-look-at-expiration",
            misreads_properties(|it| it.expiration = None),
        )
        .caught_by([
            "properties/expiration-that-is-no-number-refused",
            "properties/negative-expiration-refused",
            "queue.arguments/expiration-of-a-message",
        ]),
        wrong(
            "properties/hangs-after-a-message",
            drops(MethodId::BASIC_QOS_OK),
        )
        .caught_by(["properties/delivery-mode-unknown"]),
        wrong(
            "properties/knows-no-copies",
            misreads_properties(|it| it.headers = None),
        )
        .caught_by([
            "properties/cc-routes-further-copies",
            "properties/cc-that-is-no-array-refused",
            "properties/bcc-routes-and-is-taken-out",
        ]),
        wrong("properties/shows-whom-it-copied", got(shows_copies))
            .caught_by(["properties/bcc-routes-and-is-taken-out"]),
    ]
}
