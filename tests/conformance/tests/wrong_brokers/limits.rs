use amqp_codec::{MethodId, ShortStr, Table, basic, frame, queue};

use crate::broker::{
    WrongBroker, ends_at, ends_at_method, misreads, misreads_properties, rewrites_body, server,
    wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "limits/counts-the-framing-twice",
            ends_at(|it| it.payload.len() + frame::FRAME_OVERHEAD >= 131_072),
        )
        .caught_by([
            "limits/body-of-one-full-frame",
            "limits/body-of-many-full-frames",
            "limits/header-of-one-full-frame",
            "limits/method-of-one-full-frame",
        ]),
        wrong(
            "limits/sends-frames-of-any-size",
            server(MethodId::BASIC_GET_OK, |mut unit, out| {
                let bodies = unit.frames.split_off(2);
                if let Some(first) = bodies.first() {
                    let payloads: Vec<&[u8]> = bodies.iter().map(|it| &it.payload[..]).collect();
                    let mut whole = first.clone();
                    whole.payload = payloads.concat().into();
                    unit.frames.push(whole);
                }
                out.tell_client(&unit);
            }),
        )
        .caught_by([
            "limits/body-of-one-octet-more-than-a-frame",
            "limits/body-of-many-full-frames",
            "limits/body-of-4-mib",
            "connection.tune/server-keeps-to-frame-max",
        ]),
        wrong(
            "limits/spoils-the-last-octet-of-a-frame",
            rewrites_body(MethodId::BASIC_GET_OK, |body| {
                if let Some(last) = body.last_mut() {
                    *last ^= 1;
                }
            }),
        )
        .caught_by(["limits/body-of-one-octet-less-than-a-frame"]),
        wrong(
            "limits/keeps-100-entries",
            misreads_properties(|it| {
                if let Some(headers) = it.headers.take() {
                    let mut kept = Table::EMPTY;
                    let limits = amqp_codec::Limits::default();
                    if let Ok(headers) = headers.decode(&limits) {
                        for (key, value) in headers.iter().take(100) {
                            kept.insert(key, value).expect("a key that was one");
                        }
                    }
                    it.headers = Some(kept.into());
                }
            }),
        )
        .caught_by(["field-table/many-entries"]),
        wrong(
            "limits/cuts-properties",
            misreads_properties(|it| it.message_id = it.message_id.take().map(cut)),
        )
        .caught_by(["properties/255-octets"]),
        wrong(
            "limits/cuts-consumer-tags",
            misreads(|it: &mut basic::Consume<'static>| {
                it.consumer_tag = cut(std::mem::take(&mut it.consumer_tag));
            }),
        )
        .caught_by(["limits/consumer-tag-of-255-octets"]),
        wrong(
            "limits/cuts-names",
            misreads(|it: &mut queue::Declare<'static>| {
                it.queue = cut(std::mem::take(&mut it.queue));
            }),
        )
        .caught_by(["limits/queue-name-of-255-octets"]),
        wrong(
            "limits/cannot-tell-of-a-long-name",
            ends_at_method(|it: &queue::Declare<'static>| it.passive && it.queue.len() == 255),
        )
        .caught_by(["limits/reply-text-about-255-octets"]),
    ]
}

/// 127 octets are enough for everybody.
fn cut(text: ShortStr<'static>) -> ShortStr<'static> {
    let kept = text
        .as_bytes()
        .iter()
        .copied()
        .take(127)
        .collect::<Vec<_>>();
    ShortStr::try_from(kept).expect("127 octets fit")
}
