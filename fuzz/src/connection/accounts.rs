//! What the client owes its user, and whether it pays: each publish one outcome, each request its own answer, each
//! channel one end, in an order that makes sense.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use amqp_client::error::CloseCause;
use amqp_client::proto::{
    ChannelId, ConsumerId, Delivery, Event, Keep, PublishSeq, Reply, RequestError, RequestId,
};
use amqp_client::{Counts, Followed, Outcome, Publication, UnknownReason};
use amqp_codec::{Method, MethodId};

use super::server::{Verdict, Words};
use super::wire::Received;

#[derive(Default)]
pub(super) struct Accounts {
    pub(super) publishes: Vec<Published>,
    pub(super) requests: BTreeMap<RequestId, Asked>,
    pub(super) channels: Vec<Opened>,
    pub(super) consumers: Vec<Consumer>,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) words: Words,
    /// How many words there were before the last bytes that arrived.
    pub(super) words_before: usize,
    /// The server has said nothing yet but honest answers.
    pub(super) honest: bool,
    opened: bool,
    over: bool,
}

/// A publish that was taken.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) channel: ChannelId,
    /// Outside confirm mode there is none, and no outcome.
    pub(super) seq: Option<PublishSeq>,
    pub(super) publication: Publication,
    pub(super) at: Instant,
    /// How many words of the server's came before it.
    pub(super) words: usize,
    /// An ack need not be told.
    pub(super) quiet: bool,
    pub(super) settled: bool,
}

/// What the connection keeps for a publish: its place in the list.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) index: usize,
    pub(super) quiet: bool,
}

impl Keep for Kept {
    fn wants_ack(&self) -> bool {
        !self.quiet
    }
}

/// A request without an answer, or with one.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: MethodId,
    /// None for channel 0.
    pub(super) channel: Option<ChannelId>,
    pub(super) waiting: bool,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) id: ChannelId,
    pub(super) closed: bool,
    /// Which time the number is used.
    pub(super) opening: usize,
    pub(super) confirm_timeout: Option<Duration>,
    /// It closes when all is settled.
    pub(super) draining: bool,
    counts: Counts,
    publishes: u64,
    /// How many came at the server.
    received: usize,
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) id: ConsumerId,
    pub(super) channel: ChannelId,
    pub(super) ended: bool,
}

impl Accounts {
    pub(super) fn new() -> Self {
        Accounts {
            honest: true,
            ..Default::default()
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn asked(
        &mut self,
        request: RequestId,
        method: MethodId,
        channel: Option<ChannelId>,
    ) {
        let asked = Asked {
            method,
            channel,
            waiting: true,
        };
        assert!(self.requests.insert(request, asked).is_none());
    }

    pub(super) fn opening(&mut self, id: ChannelId, opening: usize) {
        self.channels.push(Opened {
            id,
            closed: false,
            opening,
            confirm_timeout: None,
            draining: false,
            counts: Counts::default(),
            publishes: 0,
            received: 0,
        });
    }

    pub(super) fn channel(&mut self, id: ChannelId) -> &mut Opened {
        let mut channels = self.channels.iter_mut();
        channels
            .find(|channel| channel.id == id)
            .expect("one of ours")
    }

    /// A publish was taken: on its channel it has the number after that of the last one.
    pub(super) fn published(&mut self, published: Published) {
        if let Some(seq) = published.seq {
            let channel = self.channel(published.channel);
            channel.publishes += 1;
            assert_eq!(seq.0, channel.publishes, "numbers in order");
        }
        self.publishes.push(published);
    }

    pub(super) fn happened(&mut self, event: Event<Kept>, now: Instant) {
        assert!(!self.over, "after the end: {event:?}");
        match event {
            Event::Opened => {
                assert!(!self.opened);
                self.opened = true;
            }
            Event::HandshakeFailed(_) => {
                assert!(!self.opened && self.channels.is_empty());
                self.over = true;
            }
            Event::Closed(_) => {
                self.over = true;
                self.nothing_is_left();
            }
            Event::Blocked(_) | Event::Unblocked => assert!(self.opened),
            Event::ChannelClosed(id, closed, counts) => {
                self.channel_closed(id, counts, &closed.cause)
            }
            Event::Reply(request, result) => self.replied(request, result),
            Event::Settled(id, kept, outcome) => {
                let publish = &self.publishes[kept.index];
                assert_eq!((id.channel, Some(id.seq)), (publish.channel, publish.seq));
                self.settled(kept.index, outcome, now);
            }
            Event::Returned(id, returned) => {
                assert!(!self.channel(id).closed);
                assert_eq!(returned.followed, Followed::Nothing);
                assert!(!self.honest);
            }
            Event::Delivered(consumer, delivery) => self.delivered(consumer, delivery),
            Event::ConsumerCancelled(id, consumer, _) => {
                assert!(!self.channel(id).closed);
                let consumer = self.consumer(consumer);
                assert!(!consumer.ended && consumer.channel == id);
                consumer.ended = true;
            }
        }
    }

    fn nothing_is_left(&self) {
        let unsettled = |publish: &&Published| publish.seq.is_some() && !publish.settled;
        assert_eq!(
            self.publishes
                .iter()
                .find(unsettled)
                .map(|publish| publish.seq),
            None
        );
        let unanswered = self.requests.iter().find(|(_, asked)| asked.waiting);
        assert!(unanswered.is_none(), "{unanswered:?}");
        assert!(self.channels.iter().all(|channel| channel.closed));
    }

    // ----- publishes -----

    fn settled(&mut self, keep: usize, outcome: Outcome, now: Instant) {
        let publish = &mut self.publishes[keep];
        assert!(!publish.settled, "settled twice");
        publish.settled = true;
        let publish = &self.publishes[keep];
        let seq = publish
            .seq
            .expect("outside confirm mode there is no outcome")
            .0;
        let number = publish.channel.number;
        let since = publish.words..self.words.len();
        let verdict = self.words.verdict(number, seq, since.clone());
        // What arrived before the last bytes was acted on before them.
        let earlier = publish.words..self.words_before.max(publish.words);
        let earlier = self.words.verdict(number, seq, earlier);
        assert_eq!(earlier, None, "{seq} has been settled before: {outcome:?}");
        match &outcome {
            Outcome::Acked => assert_eq!(verdict, Some(Verdict::Ack)),
            Outcome::Nacked(_) => assert_eq!(verdict, Some(Verdict::Nack)),
            Outcome::Returned(returned) => {
                assert!(self.words.returned(number, since));
                match returned.followed {
                    Followed::Ack => assert_eq!(verdict, Some(Verdict::Ack)),
                    Followed::Nack => assert_eq!(verdict, Some(Verdict::Nack)),
                    Followed::Nothing => {}
                }
            }
            Outcome::Unknown { .. } => {}
        }
        self.count(keep, &outcome, now);
        if let Some(publication) = outcome.into_publication() {
            assert_eq!(publication, self.publishes[keep].publication);
        }
    }

    /// At the end of a channel: of what was not told, each publish has been acked.
    fn settle_quietly(&mut self, id: ChannelId) {
        let heard = self.words.len();
        for publish in &mut self.publishes {
            if let Some(seq) = publish.seq
                && publish.channel == id
                && publish.quiet
                && !publish.settled
            {
                let verdict = self.words.verdict(id.number, seq.0, publish.words..heard);
                assert_eq!(verdict, Some(Verdict::Ack), "{seq:?} has no outcome");
                publish.settled = true;
                let mut channels = self.channels.iter_mut();
                let channel = channels.find(|channel| channel.id == id);
                channel.expect("one of ours").counts.acked += 1;
            }
        }
    }

    fn count(&mut self, keep: usize, outcome: &Outcome, now: Instant) {
        let (id, at) = (self.publishes[keep].channel, self.publishes[keep].at);
        let channel = self.channel(id);
        assert!(!channel.closed, "after the end of its channel");
        match outcome {
            Outcome::Acked => channel.counts.acked += 1,
            Outcome::Nacked(_) => channel.counts.nacked += 1,
            Outcome::Returned(_) => channel.counts.returned += 1,
            Outcome::Unknown { reason, .. } => {
                channel.counts.unknown += 1;
                if *reason == UnknownReason::TimedOut {
                    let timeout = channel.confirm_timeout.expect("a timeout was set");
                    assert!(now >= at + timeout, "too early");
                }
            }
        }
    }

    /// A message has come at the server: the next one that was published on its channel, as it was published.
    pub(super) fn received(&mut self, message: &Received) {
        let mut channels = self.channels.iter_mut();
        let channel = channels
            .find(|channel| {
                channel.id.number == message.channel && channel.opening == message.opening
            })
            .expect("one of ours");
        let (id, nth) = (channel.id, channel.received);
        channel.received += 1;
        let mut published = self
            .publishes
            .iter()
            .filter(|publish| publish.channel == id);
        let publish = published.nth(nth).expect("as many were published");
        let publication = &publish.publication;
        assert_eq!(message.publish.exchange, publication.exchange);
        assert_eq!(message.publish.routing_key, publication.routing_key);
        assert_eq!(
            message.publish.mandatory,
            publication.message.is_mandatory()
        );
        assert_eq!(message.body, publication.message.body());
    }

    // ----- requests -----

    fn replied(&mut self, request: RequestId, result: Result<Reply, RequestError>) {
        let asked = self.requests.get_mut(&request).expect("a request of ours");
        assert!(asked.waiting, "answered twice, or given up");
        asked.waiting = false;
        let (method, id) = (asked.method, asked.channel);
        let Ok(reply) = result else { return };
        let expected = match &reply {
            Reply::Method(reply) => method.replies().contains(&reply.id()),
            Reply::Channel(opened) => method == MethodId::CHANNEL_OPEN && id == Some(*opened),
            Reply::Committed(_) => method == MethodId::TX_COMMIT,
            Reply::RolledBack(_) => method == MethodId::TX_ROLLBACK,
            Reply::Got(_) => method == MethodId::BASIC_GET,
        };
        assert!(expected, "{reply:?} to {method}");
        self.replied_in_order(request, method, id);
        match reply {
            Reply::Method(Method::QueueDeclareOk(ok)) if self.honest => {
                assert_eq!(ok.queue, queue_of(request).as_str(), "another's answer");
            }
            Reply::Method(Method::BasicConsumeOk(_)) => {
                let channel = id.expect("on a channel");
                self.started(ConsumerId(request), channel);
            }
            Reply::Got(Some((delivery, _))) => self.deliveries.push(delivery),
            _ => {}
        }
    }

    /// What was asked before on the channel has its answer; closes wait apart.
    fn replied_in_order(&self, request: RequestId, method: MethodId, id: Option<ChannelId>) {
        let is_close = |method| method == MethodId::CHANNEL_CLOSE;
        if !is_close(method) {
            let before = self.requests.range(..request);
            let mut before = before.filter(|(_, asked)| asked.channel == id);
            let waiting = before.find(|(_, asked)| asked.waiting && !is_close(asked.method));
            assert!(waiting.is_none(), "{waiting:?} was asked before {method}");
        }
    }

    // ----- channels and consumers -----

    fn channel_closed(&mut self, id: ChannelId, counts: Counts, cause: &Option<CloseCause>) {
        self.settle_quietly(id);
        let mut publishes = self.publishes.iter();
        let unsettled = publishes
            .find(|publish| publish.channel == id && publish.seq.is_some() && !publish.settled);
        assert!(unsettled.is_none(), "{unsettled:?} at {cause:?}");
        let mut requests = self.requests.values();
        let unanswered = requests.find(|asked| {
            asked.channel == Some(id) && asked.waiting && asked.method != MethodId::CHANNEL_CLOSE
        });
        assert!(unanswered.is_none(), "{unanswered:?} at {cause:?}");
        let channel = self.channel(id);
        assert!(!channel.closed, "closed twice");
        channel.closed = true;
        // Confirms that came too late are the client's own count.
        let late = counts.late;
        assert_eq!(
            counts,
            Counts {
                late,
                ..channel.counts
            }
        );
        for consumer in &mut self.consumers {
            consumer.ended |= consumer.channel == id;
        }
    }

    pub(super) fn started(&mut self, id: ConsumerId, channel: ChannelId) {
        if self.consumers.iter().all(|consumer| consumer.id != id) {
            self.consumers.push(Consumer {
                id,
                channel,
                ended: false,
            });
        }
    }

    fn consumer(&mut self, id: ConsumerId) -> &mut Consumer {
        let mut consumers = self.consumers.iter_mut();
        consumers
            .find(|consumer| consumer.id == id)
            .expect("one of ours")
    }

    fn delivered(&mut self, id: ConsumerId, delivery: Delivery) {
        // What came with the answer to its consume is told of before that.
        let ConsumerId(request) = id;
        if let Some(asked) = self.requests.get(&request)
            && asked.waiting
            && asked.method == MethodId::BASIC_CONSUME
        {
            let channel = asked.channel.expect("on a channel");
            self.started(id, channel);
        }
        let consumer = self.consumer(id);
        assert!(!consumer.ended, "to a consumer that has ended");
        assert_eq!(delivery.tag().channel(), consumer.channel);
        self.deliveries.push(delivery);
    }
}

/// The name of the queue that this request declares.
pub(super) fn queue_of(request: RequestId) -> String {
    format!("queue-{}", request.0)
}
