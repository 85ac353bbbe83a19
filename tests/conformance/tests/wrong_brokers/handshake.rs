use amqp_codec::{LongStr, MethodId, ProtocolHeader, ReplyCode, connection, table};

use crate::broker::{
    Action, Out, Passing, WrongBroker, answers, cuts_instead_of, drops, ends_at, ends_at_method,
    fault, frames, misreads, never_ends, replaces, resets_instead_of, rewrites, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "handshake/speaks-another-version",
            rewrites(|it: &mut connection::Start| {
                it.version_minor = 8;
            }),
        )
        .caught_by(["handshake/start-after-header"]),
        wrong(
            "handshake/knows-no-english",
            rewrites(|it: &mut connection::Start| {
                it.locales = LongStr::from("en_GB");
            }),
        )
        .caught_by(["handshake/offers-en-us"]),
        wrong(
            "connection/wrong-code-for-credentials",
            rewrites(|it: &mut connection::Close| {
                it.reply_code = ReplyCode::INTERNAL_ERROR;
            }),
        )
        .caught_by([
            "handshake/wrong-password-refused-with-403",
            "handshake/missing-vhost-refused",
            "channel.open/twice",
        ]),
        wrong(
            "connection/cuts-instead-of-closing",
            cuts_instead_of(MethodId::CONNECTION_CLOSE),
        )
        .caught_by(["channel.open/twice"]),
        wrong("handshake/never-tunes", drops(MethodId::CONNECTION_TUNE))
            .caught_by(["handshake/heartbeat-proposal"]),
        wrong(
            "connection/resets-instead-of-closing",
            resets_instead_of(MethodId::CONNECTION_CLOSE),
        )
        .caught_by(["channel.open/twice"]),
        wrong("handshake/serves-any-header", serves_any_header()).caught_by([
            "handshake/wrong-revision-answered-by-own-header",
            "handshake/wrong-literal-answered-by-own-header",
            "handshake/wrong-id-answered-by-own-header",
            "handshake/wrong-major-answered-by-own-header",
            "handshake/wrong-minor-answered-by-own-header",
            "handshake/version-0-10",
        ]),
        wrong(
            "handshake/answers-no-header-by-its-own",
            rewrites_header(|_, _| {}),
        )
        .caught_by([
            "handshake/wrong-revision-answered-by-own-header",
            "handshake/http-answered-by-own-header",
            "handshake/frame-before-header-answered-by-own-header",
            "handshake/version-0-8",
        ]),
        wrong(
            "handshake/takes-itself-for-another-revision",
            rewrites_header(|mut bytes, out| {
                if let Some(revision) = bytes.last_mut() {
                    *revision = 2;
                }
                out.act(Action::ToClient(bytes));
            }),
        )
        .caught_by(["handshake/wrong-revision-answered-by-own-header"]),
        wrong(
            "handshake/begins-with-tune",
            replaces(MethodId::CONNECTION_START, connection::Tune::default),
        )
        .caught_by([
            "handshake/header-octet-by-octet",
            "handshake/version-0-9",
            "handshake/offers-plain",
        ]),
        wrong(
            "handshake/offers-no-mechanism",
            rewrites(|it: &mut connection::Start<'static>| it.mechanisms = LongStr::EMPTY),
        )
        .caught_by(["handshake/mechanisms-not-empty", "handshake/offers-plain"]),
        wrong(
            "handshake/offers-no-locale",
            rewrites(|it: &mut connection::Start<'static>| it.locales = LongStr::EMPTY),
        )
        .caught_by(["handshake/mechanisms-not-empty"]),
        wrong(
            "handshake/hides-a-capability",
            rewrites(|it: &mut connection::Start<'static>| {
                it.server_properties = table! {
                    "capabilities" => table! { "publisher_confirms" => true, "basic.nack" => false },
                };
            }),
        )
        .caught_by(["handshake/capabilities-announced"]),
        wrong(
            "handshake/challenges-everybody",
            replaces(MethodId::CONNECTION_TUNE, connection::Secure::default),
        )
        .caught_by(["handshake/locale-not-offered"]),
        wrong(
            "handshake/wants-to-know-its-clients",
            ends_at_method(|it: &connection::StartOk<'static>| it.client_properties.is_empty()),
        )
        .caught_by(["handshake/client-properties-empty"]),
        wrong(
            "handshake/takes-known-properties-alone",
            ends_at_method(|it: &connection::StartOk<'static>| {
                it.client_properties.contains_key("unknown")
            }),
        )
        .caught_by(["handshake/client-properties-unknown"]),
        wrong(
            "handshake/takes-small-frames-alone",
            ends_at(|frame| frame.payload.len() > 2048),
        )
        .caught_by(["handshake/frame-of-4096-octets"]),
        wrong(
            "handshake/takes-frames-of-any-size",
            misreads(|it: &mut connection::StartOk<'static>| {
                it.client_properties.remove("padding");
            }),
        )
        .caught_by(["handshake/frame-far-above-4096-octets"]),
        wrong(
            "handshake/opens-to-everybody",
            answers(|_: connection::Open<'static>| connection::OpenOk::default()),
        )
        .caught_by([
            "handshake/open-instead-of-start-ok",
            "handshake/open-instead-of-tune-ok",
            "connection.open/name-of-255-octets-refused",
            "connection.open/name-not-utf-8-refused",
            "connection.open/name-with-odd-characters-refused",
            "connection.open/empty-name-refused",
        ]),
        wrong(
            "handshake/haggles-about-tune",
            answers(|it: connection::TuneOk| connection::Tune {
                channel_max: it.channel_max,
                frame_max: it.frame_max,
                heartbeat: it.heartbeat,
            }),
        )
        .caught_by([
            "handshake/tune-ok-instead-of-start-ok",
            "connection.tune/channel-max-0",
            "connection.tune/frame-max-0",
        ]),
        wrong(
            "handshake/answers-as-a-client",
            answers(|it: connection::Tune| connection::TuneOk {
                channel_max: it.channel_max,
                frame_max: it.frame_max,
                heartbeat: it.heartbeat,
            }),
        )
        .caught_by(["handshake/server-method-from-client"]),
        wrong(
            "handshake/overlooks-channels",
            frames(|mut frame, out| {
                if frame.payload.starts_with(&[0, 10]) {
                    frame.channel = 0;
                }
                out.tell_server(&frame);
            }),
        )
        .caught_by([
            "handshake/start-ok-on-channel-1",
            "connection.close/on-channel-1-refused",
        ]),
        wrong("handshake/waits-for-ever-for-a-header", never_ends())
            .caught_by(["handshake/silent-before-header"]),
        wrong("handshake/waits-for-ever-for-start-ok", never_ends())
            .caught_by(["handshake/silent-after-start"]),
    ]
}

/// What the broker says instead of a protocol header.
fn rewrites_header(
    act: impl Fn(Vec<u8>, &mut Out) + Send + Sync + Clone + 'static,
) -> crate::broker::Fault {
    fault(move || {
        let act = act.clone();
        move |passing, out: &mut Out| match passing {
            Passing::ServerBytes(bytes) => act(bytes, out),
            passing => out.pass(passing),
        }
    })
}

/// Whatever the client begins with is taken for the right header.
fn serves_any_header() -> crate::broker::Fault {
    fault(|| {
        |passing, out: &mut Out| match passing {
            Passing::ClientBytes(_) => {
                let header = ProtocolHeader::AMQP_0_9_1.to_bytes();
                out.act(Action::ToServer(header.to_vec()));
            }
            passing => out.pass(passing),
        }
    })
}
