//! The connection cut at every byte of a session of 50 publishes, in both directions.

use super::*;
use amqp_codec::Method;

const PUBLISHES: u64 = 50;

/// A broker with one channel that returns, nacks or acks by the number of the publish.
#[derive(Default)]
struct Broker {
    input: Vec<u8>,
    output: Vec<u8>,
    header_seen: bool,
    /// Messages that came whole.
    received: u64,
    /// A publish whose content is under way, with how much is missing.
    current: Option<(basic::Publish<'static>, Option<u64>)>,
}

/// What the broker does with a publish.
fn verdict(publish: u64) -> &'static str {
    match publish % 10 {
        3 => "returned",
        7 => "nacked",
        _ => "acked",
    }
}

fn body(publish: u64) -> String {
    format!("message number {publish}")
}

fn nth(publish: u64) -> Publication {
    mandatory(body(publish))
}

impl Broker {
    fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        if !self.header_seen && self.input.len() >= 8 {
            self.header_seen = true;
            self.input.drain(..8);
            self.reply(0, start());
        }
        let input = std::mem::take(&mut self.input);
        let (limits, mut rest) = (Limits::default(), &input[..]);
        while self.header_seen
            && let Some((raw, len)) = RawFrame::parse(rest, &limits).expect("frames")
        {
            self.frame(&raw.decode(&limits).expect("decodable"));
            rest = &rest[len..];
        }
        self.input = rest.to_vec();
    }

    fn reply(&mut self, channel: u16, method: impl MethodFields) {
        self.output.extend(wire().method(channel, method).0);
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        match frame {
            Frame::Method { method, .. } => match method {
                Method::ConnectionStartOk(_) => self.reply(0, tune()),
                Method::ConnectionOpen(_) => self.reply(0, connection::OpenOk::default()),
                Method::ConnectionClose(_) => self.reply(0, connection::CloseOk {}),
                Method::ChannelOpen(_) => self.reply(1, channel::OpenOk::default()),
                Method::ConfirmSelect(_) => self.reply(1, confirm::SelectOk {}),
                Method::BasicPublish(publish) => {
                    self.current = Some((publish.clone().into_owned(), None))
                }
                _ => {}
            },
            Frame::Header { header, .. } => {
                let (_, missing) = self.current.as_mut().expect("a publish before it");
                *missing = Some(header.body_size);
            }
            Frame::Body { payload, .. } => {
                let (_, missing) = self.current.as_mut().expect("a publish before it");
                let missing = missing.as_mut().expect("a header before it");
                *missing -= payload.len() as u64;
                if *missing == 0 {
                    self.message();
                }
            }
            Frame::Heartbeat => {}
        }
    }

    fn message(&mut self) {
        self.received += 1;
        self.current = None;
        let tag = self.received;
        let answer = match verdict(tag) {
            "returned" => wire().returned(1, &nth(tag)),
            "nacked" => wire().nack(1, tag, false),
            // The rest in bursts, those that were returned with them.
            _ if tag.is_multiple_of(5) => wire().ack(1, tag, true),
            _ => wire(),
        };
        self.output.extend(answer.0);
    }
}

/// Where the stream ends.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Never,
    /// The transport takes so many bytes of the client's. What the server answers to them may still come.
    Client {
        at: u64,
        answered: bool,
    },
    /// So many bytes of the server's arrive.
    Server {
        at: usize,
    },
}

struct Report {
    session: Session,
    broker: Broker,
    /// All of the client's bytes.
    sent: Vec<u8>,
    server_bytes: usize,
    outcomes: Vec<(u64, Outcome)>,
    published: u64,
}

/// Plays the session: whoever has something to say says it, until the connection is over.
fn play(cut: Cut) -> Report {
    let mut report = Report {
        session: Session::new(options()),
        broker: Broker::default(),
        sent: Vec::new(),
        server_bytes: 0,
        outcomes: Vec::new(),
        published: 0,
    };
    let mut id = None;
    let mut turns = 0;
    while report.session.conn.closed().is_none() {
        turns += 1;
        assert!(turns < 1_000, "nobody has anything to say");
        report.exchange(cut);
        for event in report.session.events() {
            report.handle(event, &mut id);
        }
    }
    report
}

impl Report {
    fn exchange(&mut self, cut: Cut) {
        let session = &mut self.session;
        session.transmit();
        let mut bytes = std::mem::take(&mut session.client_bytes);
        let mut client_cut = None;
        if let Cut::Client { at, answered } = cut
            && (self.sent.len() + bytes.len()) as u64 >= at
        {
            bytes.truncate(at as usize - self.sent.len());
            client_cut = Some((at, answered));
        }
        self.sent.extend_from_slice(&bytes);
        self.broker.receive(&bytes);
        let mut answer = std::mem::take(&mut self.broker.output);
        if let Some((at, answered)) = client_cut {
            if answered {
                session.feed_bytes(&answer);
            }
            session
                .conn
                .handle_transport_end(at, CloseCause::EndOfStream);
            return;
        }
        let mut server_cut = false;
        if let Cut::Server { at } = cut
            && self.server_bytes + answer.len() >= at
        {
            answer.truncate(at - self.server_bytes);
            server_cut = true;
        }
        self.server_bytes += answer.len();
        session.feed_bytes(&answer);
        if server_cut {
            session.cut();
        }
    }

    fn handle(&mut self, event: Event<u64>, id: &mut Option<ChannelId>) {
        let session = &mut self.session;
        match event {
            Event::Opened => {
                let request = session.conn.next_request();
                // The connection may have gone with the same bytes.
                let _ = session.conn.open_channel(request);
            }
            Event::Reply(_, Ok(Reply::Channel(opened))) => {
                *id = Some(opened);
                let request = session.conn.next_request();
                if let Ok(mut view) = session.conn.channel(opened) {
                    view.select_confirms(request, ConfirmOptions::default())
                        .expect("plain");
                }
            }
            Event::Reply(_, Ok(Reply::Method(Method::ConfirmSelectOk(_)))) => {
                self.publish_some(*id)
            }
            Event::Settled(_, keep, outcome) => {
                self.outcomes.push((keep, outcome));
                let settled = self.outcomes.len() as u64;
                if settled == PUBLISHES {
                    let now = self.session.now;
                    self.session
                        .conn
                        .close(now, ReplyCode::REPLY_SUCCESS, text("bye"));
                } else if settled == self.published {
                    self.publish_some(*id);
                }
            }
            Event::Reply(_, Err(_))
            | Event::ChannelClosed(..)
            | Event::HandshakeFailed(_)
            | Event::Closed(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn publish_some(&mut self, id: Option<ChannelId>) {
        let id = id.expect("a channel");
        for publish in self.published + 1..=self.published + 10 {
            if self.session.try_publish(id, nth(publish)).is_err() {
                return;
            }
            self.published = publish;
        }
    }

    /// Each publish has one outcome, and it is the right one.
    fn check(&mut self, cut: Cut, starts: &[u64], ends: &[u64]) {
        self.session.assert_over();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; PUBLISHES as usize];
        for (keep, outcome) in std::mem::take(&mut self.outcomes) {
            let slot = &mut outcomes[keep as usize - 1];
            assert!(slot.is_none(), "{cut:?}: {keep} settled twice");
            *slot = Some(outcome);
        }
        let written = self.sent.len() as u64;
        for (publish, outcome) in (1..).zip(outcomes) {
            let index = publish as usize - 1;
            let received = publish <= self.broker.received;
            assert_eq!(received, ends[index] <= written, "{cut:?}: the double");
            if publish > self.published {
                assert!(
                    outcome.is_none() && !received,
                    "{cut:?}: {publish} was not sent"
                );
                continue;
            }
            let outcome = outcome.unwrap_or_else(|| panic!("{cut:?}: {publish} has no outcome"));
            match &outcome {
                Outcome::Unknown {
                    reason: UnknownReason::ConnectionClosed { written: known, .. },
                    ..
                } => {
                    assert_eq!(*known, starts[index] < written, "{cut:?}: {publish}");
                }
                other => {
                    assert!(received, "{cut:?}: {publish} {other:?}");
                    assert_eq!(name(other), verdict(publish), "{cut:?}: {publish}");
                }
            }
            if let Some(came_back) = outcome.into_publication() {
                assert_eq!(came_back, nth(publish));
            }
        }
    }
}

/// Where each publish begins and ends in the client's stream.
fn publish_offsets(sent: &[u8]) -> (Vec<u64>, Vec<u64>) {
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    let (limits, mut at) = (Limits::default(), 8);
    while let Some((raw, len)) = RawFrame::parse(&sent[at..], &limits).expect("frames") {
        match raw.decode(&limits).expect("decodable") {
            Frame::Method {
                method: Method::BasicPublish(_),
                ..
            } => starts.push(at as u64),
            Frame::Body { .. } => ends.push((at + len) as u64),
            _ => {}
        }
        at += len;
    }
    (starts, ends)
}

/// Whether each of two publishes counts as written, the second one behind a body of many frames, when the
/// transport took as many of the client's bytes as `written` makes of the first batch and of all.
fn large_and_behind_it(written: impl FnOnce(u64, u64) -> u64) -> Vec<bool> {
    let tune = connection::Tune {
        frame_max: 4096,
        ..tune()
    };
    let mut session = Session::open_with(options().outgoing_buffer(1 << 20), tune);
    let id = session.confirm_channel(ConfirmOptions::default());
    let before = session.written;
    session.publish(id, plain(vec![0; 600_000]));
    session.publish(id, plain("behind"));
    let mut batch = Batch::new();
    assert!(session.conn.poll_transmit(session.now, &mut batch));
    let first = batch.remaining() as u64;
    session.transmit();
    let all = first + session.written - before;
    assert!(first < all);
    let end = before + written(first, all);
    session
        .conn
        .handle_transport_end(end, CloseCause::EndOfStream);
    let written = |event: Event<u64>| match event {
        Event::Settled(
            _,
            _,
            Outcome::Unknown {
                reason: UnknownReason::ConnectionClosed { written, .. },
                ..
            },
        ) => Some(written),
        _ => None,
    };
    session.events().into_iter().filter_map(written).collect()
}

#[test]
fn what_waits_behind_a_large_body_is_not_written() {
    let behind = wire().content(
        1,
        basic::Publish {
            exchange: text("ex"),
            routing_key: text("key"),
            ..Default::default()
        },
        &Properties::EMPTY,
        b"behind",
    );
    let behind = behind.0.len() as u64;
    assert_eq!(large_and_behind_it(|_, _| 0), [false, false]);
    assert_eq!(large_and_behind_it(|_, _| 1), [true, false]);
    assert_eq!(large_and_behind_it(|first, _| first), [true, false]);
    assert_eq!(large_and_behind_it(|_, all| all - behind), [true, false]);
    assert_eq!(large_and_behind_it(|_, all| all - behind + 1), [true, true]);
}

#[test]
fn a_close_by_the_server_drops_what_waits_behind_a_large_body() {
    let tune = connection::Tune {
        frame_max: 4096,
        ..tune()
    };
    let mut session = Session::open_with(options().outgoing_buffer(1 << 20), tune);
    let id = session.confirm_channel(ConfirmOptions::default());
    session.publish(id, plain(vec![0; 600_000]));
    session.publish(id, plain("behind"));
    let mut batch = Batch::new();
    assert!(session.conn.poll_transmit(session.now, &mut batch));
    session.feed(wire().channel_close(1, ReplyCode::NOT_FOUND, "no"));
    assert_eq!(session.sent(), ["1 channel.close-ok"]);
    let unknown =
        |event: &Event<u64>| matches!(event, Event::Settled(_, _, Outcome::Unknown { .. }));
    assert_eq!(
        session
            .events()
            .iter()
            .filter(|event| unknown(event))
            .count(),
        2
    );
    assert_eq!(session.conn.footprint().waiting, 0);
}

#[test]
fn at_every_byte_each_publish_ends_in_one_outcome() {
    let mut whole = play(Cut::Never);
    let (starts, ends) = publish_offsets(&whole.sent);
    assert_eq!((starts.len(), ends.len()), (50, 50));
    for (keep, outcome) in &whole.outcomes {
        assert_eq!(name(outcome), verdict(*keep));
    }
    whole.check(Cut::Never, &starts, &ends);
    let (client_bytes, server_bytes) = (whole.sent.len() as u64, whole.server_bytes);
    for at in 0..client_bytes {
        for answered in [false, true] {
            let cut = Cut::Client { at, answered };
            play(cut).check(cut, &starts, &ends);
        }
    }
    for at in 0..server_bytes {
        let cut = Cut::Server { at };
        play(cut).check(cut, &starts, &ends);
    }
}
