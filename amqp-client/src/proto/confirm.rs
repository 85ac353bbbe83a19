//! Publishes that wait for their confirm.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "counts and lengths of what was published: added once, taken off once. A tag of the peer's is first \
              looked up among those given out"
)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp_codec::basic::Properties;
use amqp_codec::{ReplyCode, ShortStr};

use super::after;
use super::event::Keep;
use super::returns::{self, BodyDigest, IncomingReturn, Remains, Search};
use super::tags::TagRing;
use crate::error::{Closed, Violation};
use crate::message::{Message, Publication};
use crate::outcome::{Counts, Followed, Match, Outcome, Returned, UnknownReason};

/// The number of a publish on its channel: 1 for the first after `confirm.select`. The broker's acks
/// carry it as their delivery tag; it is no [`DeliveryTag`](super::DeliveryTag), which names a delivery to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublishSeq(pub u64);

/// How a channel in confirm mode bounds what it has in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmOptions {
    pub(crate) max_in_flight: usize,
    pub(crate) max_bytes: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tag_returns: bool,
    pub(crate) wait: Duration,
}

/// How long a publish waits for room unless said.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);

impl Default for ConfirmOptions {
    fn default() -> Self {
        ConfirmOptions {
            max_in_flight: 1024,
            max_bytes: 64 << 20,
            timeout: Some(Duration::from_secs(30)),
            tag_returns: false,
            wait: DEFAULT_WAIT,
        }
    }
}

impl ConfirmOptions {
    /// At most this many publishes wait for their confirm; at least 1. Default: 1,024.
    #[must_use]
    pub fn max_in_flight(mut self, messages: usize) -> Self {
        self.max_in_flight = messages.max(1);
        self
    }

    /// At most this many bytes of bodies wait for their confirm. A larger message is admitted when nothing
    /// else is in flight. Default: 64 MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How long a publish waits for its confirm before its outcome is
    /// [`Unknown`](Outcome::Unknown); `None` waits as long as the channel lives. Default: 30 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// How long a publish waits for room in flight, or for the broker to unblock the connection, before the
    /// message is given back unsent. Default: 30 seconds.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Adds the header [`RETURN_TAG`](super::RETURN_TAG) to each mandatory message, so that a return is
    /// tied to its publish exactly even where several outstanding messages are equal. Default: off.
    #[must_use]
    pub fn tag_returns(mut self, on: bool) -> Self {
        self.tag_returns = on;
        self
    }
}

/// Whether the broker took responsibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ack,
    Nack,
}

/// How many deadlines are never worth tidying up.
const DEADLINES_KEPT: usize = 64;

/// Everything that waits for a confirm on one channel, and the bounds it keeps.
///
/// `P` is what the caller keeps for a publish until it has its outcome.
#[derive(Debug)]
pub(crate) struct ConfirmTracker<P> {
    options: ConfirmOptions,
    /// Publishes without an outcome.
    open: TagRing<Pending<P>>,
    /// The returns of publishes that are open.
    returned: BTreeMap<u64, ReturnNote>,
    /// Publishes whose outcome was "unknown" for lack of a confirm, which may still come: they keep their
    /// place in flight.
    late: BTreeMap<u64, Late>,
    /// Body bytes of what is open.
    bytes: usize,
    /// Up to which publish each deadline holds, oldest first. One entry covers all publishes of a turn.
    deadlines: VecDeque<(u64, Instant)>,
    /// The last publish that has a deadline.
    stamped: u64,
    /// The last publish a return was tied to: brokers return in publish order.
    last_returned: u64,
    counts: Counts,
}

#[derive(Debug)]
pub(super) struct Pending<P> {
    publication: Publication,
    keep: P,
    /// Where in the outgoing stream its first byte is; `u64::MAX` until that is known.
    start: u64,
}

#[derive(Debug)]
struct ReturnNote {
    code: ReplyCode,
    text: ShortStr<'static>,
    matched: Match,
}

/// What is kept of a publish that timed out.
#[derive(Debug)]
struct Late {
    /// What tells its return from those of others, if it can have one.
    returnable: Option<Remains>,
}

/// What a return was tied to.
pub(crate) enum ReturnMatch {
    /// To an open publish: its outcome comes with its ack.
    Open,
    /// To a publish that timed out, or to none.
    None,
}

impl<P: Keep> ConfirmTracker<P> {
    pub(crate) fn new(options: ConfirmOptions) -> Self {
        ConfirmTracker {
            options,
            open: TagRing::new(),
            returned: BTreeMap::new(),
            late: BTreeMap::new(),
            bytes: 0,
            deadlines: VecDeque::new(),
            stamped: 0,
            last_returned: 0,
            counts: Counts::default(),
        }
    }

    pub(crate) fn options(&self) -> &ConfirmOptions {
        &self.options
    }

    /// Whether a message with a body of this many bytes may be published now. One above the bound goes
    /// when no other bytes are in flight.
    #[inline]
    pub(crate) fn has_room(&self, body_len: usize) -> bool {
        let bytes = self.bytes.saturating_add(body_len);
        self.in_flight() < self.options.max_in_flight
            && (self.bytes == 0 || bytes <= self.options.max_bytes)
    }

    /// Publishes that hold a place, those that timed out without a confirm included.
    pub(crate) fn in_flight(&self) -> usize {
        self.open.len() + self.late.len()
    }

    /// Body bytes that wait for a confirm.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.bytes
    }

    /// How many entries are kept, holes and spare room included.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> usize {
        self.open.footprint() + self.late.len() + self.deadlines.capacity()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The number the next publish gets.
    pub(crate) fn next_seq(&self) -> PublishSeq {
        PublishSeq(self.open.next_tag())
    }

    /// Whether the return of this message, should there be one, is to carry its number.
    #[inline]
    pub(crate) fn tags(&self, message: &Message) -> bool {
        self.options.tag_returns && message.is_mandatory()
    }

    /// The message's properties with the number it gets when it is published next.
    #[cold]
    pub(crate) fn tagged_properties(&self, message: &Message) -> Properties<'static> {
        let number = self.next_seq().0.to_string();
        let tagged = message.clone().header(super::RETURN_TAG, number);
        match tagged.invalid_property() {
            None => tagged.properties().clone(),
            // Headers that cannot be taken apart are sent as they are.
            Some(_) => message.properties().clone(),
        }
    }

    /// Whether every publish up to this one has its outcome.
    pub(crate) fn settled_through(&self, seq: PublishSeq) -> bool {
        self.open.first().is_none_or(|first| first > seq.0)
    }

    /// Whether every publish has its outcome.
    pub(crate) fn all_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes a publish whose first byte is at `start` of the outgoing stream.
    #[inline]
    pub(crate) fn publish(
        &mut self,
        unsent: &mut Option<Publication>,
        start: u64,
        keep: P,
    ) -> Option<PublishSeq> {
        self.bytes += unsent.as_ref()?.message.body().len();
        #[expect(clippy::expect_used, reason = "no peer has a say in it")]
        let seq = self.open.push_with(|| Pending {
            publication: unsent.take().expect("it was looked at just now"),
            keep,
            start,
        });
        Some(PublishSeq(seq))
    }

    /// What the caller keeps for a publish, if that has no outcome yet.
    #[inline]
    pub(crate) fn kept(&mut self, seq: PublishSeq) -> Option<&mut P> {
        Some(&mut self.open.get_mut(seq.0)?.keep)
    }

    /// The publish has reached the outgoing stream at this offset.
    pub(crate) fn set_start(&mut self, seq: PublishSeq, start: u64) {
        if let Some(pending) = self.open.get_mut(seq.0) {
            pending.start = start;
        }
    }

    /// The broker acked or nacked one publish, or all up to it. The first word on each tag counts:
    /// `multiple` may cover tags that were acked or nacked one by one (seen from RabbitMQ).
    #[inline]
    pub(crate) fn recv_confirm(
        &mut self,
        tag: u64,
        multiple: bool,
        verdict: Verdict,
        settled: impl FnMut(PublishSeq, P, Outcome),
    ) -> Result<(), Violation> {
        let last = self.open.next_tag() - 1;
        // spec: basic.ack, a tag of 0 with multiple stands for everything outstanding.
        let tag = if tag == 0 && multiple { last } else { tag };
        if tag > last || (tag == 0 && !multiple) {
            return Err(Violation::UnknownConfirm { tag, last });
        }
        let first = self.open.first().unwrap_or(u64::MAX);
        // One that is the oldest settles nothing before it either.
        if multiple || (tag == first && self.late.is_empty()) {
            self.recv_confirms_through(tag, verdict, settled);
        } else {
            self.recv_confirm_of(tag, verdict, settled);
        }
        self.drop_settled_deadlines();
        Ok(())
    }

    fn recv_confirms_through(
        &mut self,
        tag: u64,
        verdict: Verdict,
        mut settled: impl FnMut(PublishSeq, P, Outcome),
    ) {
        let ConfirmTracker {
            open,
            returned,
            bytes,
            counts,
            ..
        } = self;
        let plain = verdict == Verdict::Ack && returned.is_empty();
        open.clear_through(tag, |tag, place| {
            let Some(pending) = place else { return };
            *bytes -= pending.publication.message.body().len();
            // The usual way to settle many: nothing is to be told, and the message is dropped where it is.
            if plain && !pending.keep.wants_ack() {
                counts.acked += 1;
            } else if let Some(pending) = place.take() {
                let (keep, outcome) = pending.confirm(returned.remove(&tag), verdict, counts);
                if keep.wants_ack() || !outcome.is_acked() {
                    settled(PublishSeq(tag), keep, outcome);
                }
            }
        });
        if !self.late.is_empty() {
            let still_late = self.late.split_off(&(tag + 1));
            self.counts.late += self.late.len() as u64;
            self.late = still_late;
        }
    }

    fn recv_confirm_of(
        &mut self,
        tag: u64,
        verdict: Verdict,
        mut settled: impl FnMut(PublishSeq, P, Outcome),
    ) {
        if let Some(pending) = self.open.remove(tag) {
            self.bytes -= pending.publication.message.body().len();
            let returned = self.returned.remove(&tag);
            let (keep, outcome) = pending.confirm(returned, verdict, &mut self.counts);
            if keep.wants_ack() || !outcome.is_acked() {
                settled(PublishSeq(tag), keep, outcome);
            }
        } else if self.late.remove(&tag).is_some() {
            self.counts.late += 1;
        }
    }

    /// The broker returned a message: ties it to its publish.
    ///
    /// A return carries no tag. It is tied by the opt-in header, else by equality of everything a broker
    /// echoes. Returns come in publish order, so the search goes forward from the last returned publish,
    /// then over the rest.
    pub(crate) fn recv_return(&mut self, returned: &IncomingReturn<'_>) -> ReturnMatch {
        let (tag, matched) = match returned.tag() {
            Some(tag) => (Some(tag), Match::Header),
            None => self.find_by_content(returned),
        };
        let Some(tag) = tag.filter(|tag| *tag < returned.before) else {
            return ReturnMatch::None;
        };
        if let Some(late) = self.late.get_mut(&tag) {
            late.returnable = None;
            self.last_returned = tag;
            return ReturnMatch::None;
        }
        if !self.open.contains(tag) || self.returned.contains_key(&tag) {
            return ReturnMatch::None;
        }
        let note = ReturnNote {
            code: returned.code,
            text: returned.text.clone().into_owned(),
            matched,
        };
        self.returned.insert(tag, note);
        self.last_returned = tag;
        ReturnMatch::Open
    }

    fn find_by_content(&self, returned: &IncomingReturn<'_>) -> (Option<u64>, Match) {
        let mut search = Search::new(self.last_returned, returned.before);
        for (tag, pending) in self.open.iter_after(0) {
            let publication = &pending.publication;
            if publication.message.body() == returned.body && !self.returned.contains_key(&tag) {
                search.consider(tag, returns::fit(returned, publication));
            }
        }
        let body = (!self.late.is_empty()).then(|| BodyDigest::of(returned.body));
        for (tag, late) in &self.late {
            if let (Some(remains), Some(body)) = (&late.returnable, &body) {
                search.consider(*tag, remains.fit(returned, body));
            }
        }
        search.result()
    }

    /// Gives every publish that has no deadline yet one, counted from `now`. Called once a turn.
    pub(crate) fn stamp(&mut self, now: Instant) {
        let last = self.open.next_tag() - 1;
        if last > self.stamped {
            self.stamped = last;
            if let Some(timeout) = self.options.timeout {
                self.deadlines.push_back((last, after(now, timeout)));
                self.compact_deadlines();
            }
        }
    }

    /// Forgets the deadlines that hold for no open publish, where they have become many: behind one publish
    /// that stays open they would gather.
    fn compact_deadlines(&mut self) {
        if self.deadlines.len() <= DEADLINES_KEPT + 2 * self.open.len() {
            return;
        }
        let mut open = self.open.iter_after(0).map(|(tag, _)| tag).peekable();
        self.deadlines.retain(|(through, _)| {
            let mut needed = false;
            while open.next_if(|tag| tag <= through).is_some() {
                needed = true;
            }
            needed
        });
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(_, at)| *at)
    }

    /// Gives up on publishes whose deadline has passed. They give back their bytes and keep their place
    /// in flight until the broker settles them.
    pub(crate) fn expire(&mut self, now: Instant, mut settled: impl FnMut(PublishSeq, P, Outcome)) {
        while let Some(&(through, _)) = self.deadlines.front().filter(|(_, at)| *at <= now) {
            self.deadlines.pop_front();
            let ConfirmTracker {
                open,
                returned,
                late,
                bytes,
                counts,
                ..
            } = self;
            open.remove_through(through, |tag, pending| {
                *bytes -= pending.publication.message.body().len();
                let note = returned.remove(&tag);
                let can_return = pending.publication.message.is_mandatory() && note.is_none();
                let returnable = can_return.then(|| Remains::of(&pending.publication));
                late.insert(tag, Late { returnable });
                let (keep, outcome) = pending.give_up(note, counts, || UnknownReason::TimedOut);
                settled(PublishSeq(tag), keep, outcome);
            });
        }
    }

    /// The channel closed: nothing more will be confirmed.
    pub(crate) fn channel_closed(
        &mut self,
        closed: &Arc<Closed>,
        mut settled: impl FnMut(PublishSeq, P, Outcome),
    ) {
        self.fail_all(
            |_| UnknownReason::ChannelClosed(closed.clone()),
            &mut settled,
        );
    }

    /// The connection went after `written` bytes of the outgoing stream had been given to the transport.
    pub(crate) fn connection_closed(
        &mut self,
        closed: &Arc<Closed>,
        written: u64,
        mut settled: impl FnMut(PublishSeq, P, Outcome),
    ) {
        let reason = |start| UnknownReason::ConnectionClosed {
            closed: closed.clone(),
            written: start < written,
        };
        self.fail_all(reason, &mut settled);
    }

    fn fail_all(
        &mut self,
        reason: impl Fn(u64) -> UnknownReason,
        settled: &mut impl FnMut(PublishSeq, P, Outcome),
    ) {
        let (returned, counts) = (&mut self.returned, &mut self.counts);
        self.open.remove_all(|tag, pending| {
            let (start, note) = (pending.start, returned.remove(&tag));
            let (keep, outcome) = pending.give_up(note, counts, || reason(start));
            settled(PublishSeq(tag), keep, outcome);
        });
        self.bytes = 0;
        self.late.clear();
        self.deadlines.clear();
    }

    fn drop_settled_deadlines(&mut self) {
        let first_open = self.open.first().unwrap_or(u64::MAX);
        while self
            .deadlines
            .front()
            .is_some_and(|(through, _)| *through < first_open)
        {
            self.deadlines.pop_front();
        }
    }
}

impl<P> Pending<P> {
    /// With a confirm, after this return if there was one.
    fn confirm(
        self,
        returned: Option<ReturnNote>,
        verdict: Verdict,
        counts: &mut Counts,
    ) -> (P, Outcome) {
        let outcome = match (returned, verdict) {
            (Some(note), _) => {
                counts.returned += 1;
                let followed = match verdict {
                    Verdict::Ack => Followed::Ack,
                    Verdict::Nack => Followed::Nack,
                };
                note.into_outcome(self.publication, followed)
            }
            (None, Verdict::Ack) => {
                counts.acked += 1;
                Outcome::Acked
            }
            (None, Verdict::Nack) => {
                counts.nacked += 1;
                Outcome::Nacked(Box::new(self.publication))
            }
        };
        (self.keep, outcome)
    }

    /// Without a confirm: returned if the broker said that much, else unknown.
    fn give_up(
        self,
        returned: Option<ReturnNote>,
        counts: &mut Counts,
        reason: impl FnOnce() -> UnknownReason,
    ) -> (P, Outcome) {
        let outcome = match returned {
            Some(note) => {
                counts.returned += 1;
                note.into_outcome(self.publication, Followed::Nothing)
            }
            None => {
                counts.unknown += 1;
                Outcome::Unknown {
                    publication: Box::new(self.publication),
                    reason: reason(),
                }
            }
        };
        (self.keep, outcome)
    }
}

impl ReturnNote {
    fn into_outcome(self, publication: Publication, followed: Followed) -> Outcome {
        let ReturnNote {
            code,
            text,
            matched,
        } = self;
        Outcome::Returned(Box::new(Returned {
            code,
            text,
            publication,
            followed,
            matched,
        }))
    }
}
