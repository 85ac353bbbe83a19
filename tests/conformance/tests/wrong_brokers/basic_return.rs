use amqp_codec::{MethodId, ReplyCode, Table, basic, exchange, frame, short};
use amqp_conformance::event::OwnedFrame;
use bytes::Bytes;

use crate::broker::{
    WrongBroker, drops, duplicates, misreads, postpones, rewrites, rewrites_body,
    rewrites_properties, server, shows_copies, wrong,
};

type Return = basic::Return<'static>;

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong("basic.return/gives-another-reason", {
            rewrites(|it: &mut Return| it.reply_code = ReplyCode::NO_CONSUMERS)
        })
        .caught_by([
            "basic.return/says-why-and-where-to",
            "tx.commit/returns-come-before-commit-ok",
        ]),
        wrong(
            "basic.return/gives-no-text",
            rewrites(|it: &mut Return| it.reply_text = short!("")),
        )
        .caught_by(["basic.return/says-why-and-where-to"]),
        wrong(
            "basic.return/does-not-say-the-key",
            rewrites(|it: &mut Return| it.routing_key = short!("")),
        )
        .caught_by(["basic.return/says-why-and-where-to"]),
        wrong("basic.return/loses-headers", {
            rewrites_properties(MethodId::BASIC_RETURN, |it| it.headers = None)
        })
        .caught_by([
            "basic.return/properties-as-published",
            "basic.return/without-the-hidden-copies",
        ]),
        wrong("basic.return/shows-whom-it-copied", {
            rewrites_properties(MethodId::BASIC_RETURN, shows_copies)
        })
        .caught_by(["basic.return/without-the-hidden-copies"]),
        wrong("basic.return/body-frame-without-a-body", {
            server(MethodId::BASIC_RETURN, |mut unit, out| {
                unit.frames.push(OwnedFrame {
                    kind: frame::BODY,
                    channel: unit.channel,
                    payload: Bytes::new(),
                });
                out.tell_client(&unit);
            })
        })
        .caught_by(["basic.return/empty-body"]),
        wrong(
            "basic.return/garbles-bodies",
            rewrites_body(MethodId::BASIC_RETURN, |it| it.reverse()),
        )
        .caught_by(["basic.return/large-body"]),
        wrong(
            "basic.return/last-come-first-returned",
            postpones(MethodId::BASIC_RETURN),
        )
        .caught_by([
            "basic.return/in-the-order-of-publishing",
            "tx.commit/returns-come-before-commit-ok",
        ]),
        wrong("basic.return/all-on-channel-1", {
            server(MethodId::BASIC_RETURN, |mut unit, out| {
                for frame in &mut unit.frames {
                    frame.channel = 1;
                }
                out.tell_client(&unit);
            })
        })
        .caught_by(["basic.return/on-the-channel-of-the-publish"]),
        wrong("basic.return/acks-instead", drops(MethodId::BASIC_RETURN))
            .caught_by(["basic.return/acked-after-it"]),
        wrong(
            "basic.return/returns-twice",
            duplicates(MethodId::BASIC_RETURN),
        )
        .caught_by(["basic.return/channel-goes-on"]),
        wrong("basic.return/knows-no-alternate-exchange", {
            misreads(|it: &mut exchange::Declare<'static>| it.arguments = Table::EMPTY)
        })
        .caught_by(["basic.return/not-when-the-alternate-exchange-takes-it"]),
    ]
}
