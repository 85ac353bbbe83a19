//! Anything in any order, in pieces of any size.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Publish {
        mandatory: bool,
        len: usize,
        same: bool,
    },
    /// Of what is unconfirmed, by its place.
    Confirm {
        place: prop::sample::Index,
        multiple: bool,
        ack: bool,
    },
    Return {
        place: prop::sample::Index,
    },
    Pass {
        seconds: u64,
    },
    Transmit,
    CloseChannel,
    ServerClosesChannel,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = any::<prop::sample::Index>;
    let step = prop_oneof![
        12 => (any::<bool>(), 0..40usize, any::<bool>())
            .prop_map(|(mandatory, len, same)| Step::Publish { mandatory, len, same }),
        8 => (place(), any::<bool>(), any::<bool>())
            .prop_map(|(place, multiple, ack)| Step::Confirm { place, multiple, ack }),
        4 => place().prop_map(|place| Step::Return { place }),
        2 => (1..8u64).prop_map(|seconds| Step::Pass { seconds }),
        2 => Just(Step::Transmit),
        1 => Just(Step::CloseChannel),
        1 => Just(Step::ServerClosesChannel),
    ];
    prop::collection::vec(step, 0..120)
}

/// What the server has of one publish.
struct Sent {
    keep: u64,
    publication: Publication,
    at: Instant,
    returned: bool,
    settled: bool,
}

/// The obvious model of one channel in confirm mode: everything by its tag.
#[derive(Default)]
struct Model {
    sent: BTreeMap<u64, Sent>,
    /// Tags the server has not confirmed.
    unconfirmed: BTreeSet<u64>,
    expected: BTreeMap<u64, &'static str>,
}

const TIMEOUT: u64 = 10;

impl Model {
    fn publish(&mut self, tag: u64, sent: Sent) {
        self.sent.insert(tag, sent);
        self.unconfirmed.insert(tag);
    }

    fn settle(&mut self, tag: u64, name: &'static str) {
        let sent = self.sent.get_mut(&tag).expect("published");
        if !sent.settled {
            sent.settled = true;
            let name = if sent.returned { "returned" } else { name };
            self.expected.insert(sent.keep, name);
        }
    }

    fn confirm(&mut self, tag: u64, multiple: bool, name: &'static str) {
        let first = if multiple { 0 } else { tag };
        let covered: Vec<_> = self.unconfirmed.range(first..=tag).copied().collect();
        for tag in covered {
            self.unconfirmed.remove(&tag);
            self.settle(tag, name);
        }
    }

    fn expire(&mut self, now: Instant) {
        let late: Vec<_> = self
            .sent
            .iter()
            .filter(|(_, sent)| now >= sent.at + seconds(TIMEOUT))
            .map(|(tag, _)| *tag)
            .collect();
        for tag in late {
            self.settle(tag, "unknown");
        }
    }

    fn close(&mut self) {
        let all: Vec<_> = self.sent.keys().copied().collect();
        for tag in all {
            self.settle(tag, "unknown");
        }
        *self = Model {
            expected: std::mem::take(&mut self.expected),
            ..Model::default()
        };
    }

    fn open_bytes(&self) -> usize {
        let open = self.sent.values().filter(|sent| !sent.settled);
        open.map(|sent| sent.publication.message.body().len()).sum()
    }
}

impl Session {
    /// The server's bytes arrive in pieces of these sizes.
    fn feed_in_pieces(&mut self, wire: Wire, sizes: &mut impl Iterator<Item = usize>) {
        let mut rest = &wire.0[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
            self.feed_bytes(piece);
            rest = more;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Each publish ends in the outcome that the first word on it calls for, and in no other.
    #[test]
    fn one_outcome_for_each_publish(
        steps in steps(),
        sizes in prop::collection::vec(1..50usize, 1..8),
        unique in any::<bool>(),
        tag_returns in any::<bool>(),
    ) {
        let mut sizes = sizes.into_iter().cycle();
        let mut session = Session::open();
        let options = || {
            ConfirmOptions::default()
                .timeout(seconds(TIMEOUT))
                .max_in_flight(20)
                .max_bytes(200)
                .tag_returns(tag_returns)
        };
        let mut id = session.confirm_channel(options());
        let mut model = Model::default();
        let mut outcomes: BTreeMap<u64, Outcome> = BTreeMap::new();

        for step in steps {
            match step {
                Step::Publish { mandatory, len, same } => {
                    let body = match (same && !unique, session.published) {
                        (true, _) => "same".to_owned(),
                        (false, n) => format!("{n:0len$}"),
                    };
                    let mut message = Message::new(body);
                    if mandatory {
                        message = message.mandatory();
                    }
                    let publication = publication(message);
                    let in_flight = session.status(id).in_flight;
                    match session.try_publish(id, publication.clone()) {
                        Ok(keep) => {
                            prop_assert!(in_flight < 20);
                            let tag = session.status(id).last;
                            // Its time begins with the owner's next turn.
                            session.transmit();
                            let at = session.now;
                            model.publish(tag, Sent { keep, publication, at, returned: false, settled: false });
                        }
                        Err(error) => {
                            prop_assert_eq!(error, NotSent::Full);
                            prop_assert!(in_flight >= 20 || model.open_bytes() > 100);
                        }
                    }
                }
                Step::Confirm { place, multiple, ack } => {
                    let tags: Vec<_> = model.unconfirmed.iter().copied().collect();
                    if !tags.is_empty() {
                        let tag = *place.get(&tags);
                        let (server, name) = match ack {
                            true => (wire().ack(id.number, tag, multiple), "acked"),
                            false => (wire().nack(id.number, tag, multiple), "nacked"),
                        };
                        model.confirm(tag, multiple, name);
                        session.feed_in_pieces(server, &mut sizes);
                    }
                }
                Step::Return { place } => {
                    let can_return = |tag: &&u64| {
                        let sent = &model.sent[*tag];
                        sent.publication.message.is_mandatory() && !sent.returned && !sent.settled
                    };
                    let tags: Vec<_> = model.unconfirmed.iter().filter(can_return).copied().collect();
                    if !tags.is_empty() {
                        let tag = *place.get(&tags);
                        let sent = model.sent.get_mut(&tag).expect("published");
                        sent.returned = true;
                        let mut message = sent.publication.message.clone();
                        if tag_returns {
                            message = message.header(RETURN_TAG, tag.to_string());
                        }
                        let server = wire().returned_with(id.number, &sent.publication, message.properties());
                        session.feed_in_pieces(server, &mut sizes);
                    }
                }
                Step::Pass { seconds: by } => {
                    session.pass(seconds(by));
                    model.expire(session.now);
                }
                Step::Transmit => session.transmit(),
                Step::CloseChannel => {
                    session.view(id).close(None, ReplyCode::REPLY_SUCCESS, text(""));
                    model.close();
                    session.feed_in_pieces(wire().method(id.number, channel::CloseOk {}), &mut sizes);
                }
                Step::ServerClosesChannel => {
                    model.close();
                    let server = wire().channel_close(id.number, ReplyCode::NOT_FOUND, "no");
                    session.feed_in_pieces(server, &mut sizes);
                }
            }
            for event in session.events() {
                if let Event::Settled(_, keep, outcome) = event {
                    prop_assert!(outcomes.insert(keep, outcome).is_none(), "{} settled twice", keep);
                }
            }
            if session.conn.channel(id).is_err() {
                session.transmit();
                session.client_bytes.clear();
                id = session.confirm_channel(options());
            }
            session.client_bytes.clear();
            let status = session.status(id);
            prop_assert_eq!(status.in_flight, model.unconfirmed.len());
            prop_assert_eq!(status.bytes_in_flight, model.open_bytes());
            prop_assert!(session.conn.footprint().timers <= 1);
        }

        session.transmit();
        session.cut();
        model.close();
        for event in session.events() {
            if let Event::Settled(_, keep, outcome) = event {
                prop_assert!(outcomes.insert(keep, outcome).is_none(), "{} settled twice", keep);
            }
        }
        session.assert_over();
        prop_assert_eq!(outcomes.len() as u64, session.published);
        let names: BTreeMap<_, _> = outcomes.iter().map(|(keep, outcome)| (*keep, name(outcome))).collect();
        if unique || tag_returns {
            prop_assert_eq!(names, model.expected);
        } else {
            // Which of identical publishes came back, nobody can say; how many were settled, anybody.
            let keeps: Vec<_> = names.keys().collect();
            prop_assert_eq!(keeps, model.expected.keys().collect::<Vec<_>>());
        }
    }
}

/// Frames that make sense somewhere, and some that do not.
fn server_frames() -> impl Strategy<Value = Vec<u8>> {
    let tag = || prop_oneof![0..12u64, any::<u64>()];
    let channel = || 0..4u16;
    let confirm = (channel(), tag(), any::<bool>()).prop_map(|(channel, tag, multiple)| {
        wire()
            .ack(channel, tag, multiple)
            .nack(channel, tag / 2, multiple)
            .0
    });
    let content = (
        channel(),
        tag(),
        0..3u8,
        prop::collection::vec(any::<u8>(), 0..40),
    )
        .prop_map(|(channel, tag, kind, body)| {
            let of = publication(Message::new(body).mandatory());
            match kind {
                0 => wire().returned(channel, &of).0,
                1 => wire().deliver(channel, "c", tag).0,
                _ => {
                    let ok = basic::GetOk {
                        delivery_tag: tag,
                        ..Default::default()
                    };
                    wire().content(channel, ok, &Properties::EMPTY, b"got").0
                }
            }
        });
    let raw = (
        0..10u8,
        channel(),
        prop::collection::vec(any::<u8>(), 0..40),
    )
        .prop_map(|(kind, channel, payload)| wire().raw(kind, channel, &payload).0);
    let method = (channel(), 0..14usize).prop_map(|(channel, which)| {
        let ok = |tag| basic::ConsumeOk {
            consumer_tag: text(tag),
        };
        let server = match which {
            0 => wire().channel_close(channel, ReplyCode::NOT_FOUND, "no"),
            1 => wire().method(channel, channel::CloseOk {}),
            2 => wire().method(channel, channel::OpenOk::default()),
            3 => wire().method(channel, confirm::SelectOk {}),
            4 => wire().method(channel, ok("c")),
            5 => wire().method(
                channel,
                basic::CancelOk {
                    consumer_tag: text("c"),
                },
            ),
            6 => wire().method(channel, basic::GetEmpty::default()),
            7 => wire().method(channel, amqp_codec::tx::CommitOk {}),
            8 => wire().method(
                channel,
                channel::Flow {
                    active: false,
                    ..Default::default()
                },
            ),
            9 => wire().method(0, connection::Blocked { reason: text("no") }),
            10 => wire().method(0, connection::CloseOk {}),
            11 => wire().connection_close(ReplyCode::INTERNAL_ERROR, "no"),
            12 => wire().method(
                channel,
                basic::Cancel {
                    consumer_tag: text("c"),
                    ..Default::default()
                },
            ),
            _ => wire().method(channel, basic::RecoverOk {}),
        };
        server.0
    });
    let noise = prop::collection::vec(any::<u8>(), 0..30);
    prop_oneof![6 => confirm, 5 => content, 4 => method, 2 => raw, 1 => noise]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever the peer sends, nothing panics, each publish and request has one answer, and the end is the end.
    #[test]
    fn no_peer_breaks_the_accounts(
        frames in prop::collection::vec(server_frames(), 0..30),
        sizes in prop::collection::vec(1..60usize, 1..6),
        handshake in any::<bool>(),
    ) {
        let mut sizes = sizes.into_iter().cycle();
        let mut session = match handshake {
            true => Session::open(),
            false => Session::new(options()),
        };
        let mut requests = BTreeMap::new();
        if handshake {
            let confirming = session.confirm_channel(ConfirmOptions::default());
            let plain_channel = session.channel();
            let tx = session.channel();
            let mut ask = |session: &mut Session, ask: &dyn Fn(&mut ChannelView<'_, u64>, RequestId), id| {
                let request = session.conn.next_request();
                ask(&mut session.view(id), request);
                requests.insert(request, 0);
            };
            ask(&mut session, &|view, request| view.consume(request, &basic::Consume::default()).expect("open"), plain_channel);
            ask(&mut session, &|view, request| view.get(request, &basic::Get::default()).expect("open"), plain_channel);
            ask(&mut session, &|view, request| view.select_tx(request).expect("plain"), tx);
            for n in 0..5 {
                session.publish(confirming, mandatory(format!("{n}")));
                session.publish(confirming, plain("x"));
            }
        }
        let mut settled = BTreeMap::new();
        let mut over = false;
        for frame in frames {
            session.transmit();
            session.feed_in_pieces(Wire(frame), &mut sizes);
        }
        session.pass(seconds(200));
        session.cut();
        for event in session.events() {
            prop_assert!(!over, "after the end: {:?}", event);
            match event {
                Event::Settled(_, keep, _) => *settled.entry(keep).or_insert(0) += 1,
                Event::Reply(request, _) => *requests.entry(request).or_insert(0) += 1,
                Event::Closed(_) | Event::HandshakeFailed(_) => over = true,
                _ => {}
            }
        }
        prop_assert!(over);
        prop_assert_eq!(settled.len() as u64, session.published);
        prop_assert!(settled.values().chain(requests.values()).all(|count| *count == 1));
        session.assert_over_but_for_the_last_words();
    }
}

impl Session {
    /// A close or close-ok may still be to be written.
    fn assert_over_but_for_the_last_words(&mut self) {
        self.transmit();
        self.assert_over();
    }
}
