//! Publishes whose ack nobody waits for: it is counted, and not told.

use amqp_codec::field::TableMap;

use super::*;
use crate::outcome::Counts;
use crate::proto::confirm::{ConfirmTracker, Verdict};
use crate::proto::returns::IncomingReturn;

/// What is kept for a publish: its number, and whether its ack is to be told.
#[derive(Debug)]
struct Kept {
    number: u64,
    wants_ack: bool,
}

impl Keep for Kept {
    fn wants_ack(&self) -> bool {
        self.wants_ack
    }
}

/// Publishes of one byte each, from 1 on; the ack of every third is to be told.
struct Publishes {
    tracker: ConfirmTracker<Kept>,
    told: Vec<(u64, &'static str)>,
}

impl Publishes {
    fn new(count: u64) -> Self {
        let mut publishes = Publishes {
            tracker: ConfirmTracker::new(ConfirmOptions::default()),
            told: Vec::new(),
        };
        for number in 1..=count {
            publishes.publish(number, number % 3 == 0);
        }
        publishes
    }

    fn publish(&mut self, number: u64, wants_ack: bool) {
        let kept = Kept { number, wants_ack };
        let seq = self.tracker.publish(&mut Some(mandatory("x")), 0, kept);
        assert_eq!(seq, Some(PublishSeq(number)));
    }

    fn confirm(&mut self, tag: u64, multiple: bool, verdict: Verdict) {
        let told = &mut self.told;
        let recv = self
            .tracker
            .recv_confirm(tag, multiple, verdict, |seq, kept, outcome| {
                assert_eq!(seq, PublishSeq(kept.number));
                told.push((kept.number, name(&outcome)));
            });
        assert_eq!(recv, Ok(()));
    }

    fn ack(&mut self, tag: u64, multiple: bool) {
        self.confirm(tag, multiple, Verdict::Ack);
    }

    fn nack(&mut self, tag: u64, multiple: bool) {
        self.confirm(tag, multiple, Verdict::Nack);
    }

    /// The oldest that is open comes back.
    fn returned(&mut self) {
        let sent = mandatory("x");
        self.tracker.recv_return(&IncomingReturn {
            code: ReplyCode::NO_ROUTE,
            before: u64::MAX,
            text: ShortStr::EMPTY,
            exchange: sent.exchange.as_bytes(),
            routing_key: sent.routing_key.as_bytes(),
            properties: sent.message.properties().clone(),
            headers: Some(TableMap::default()),
            body: b"x",
            tagged: false,
            limits: &Limits::default(),
        });
    }

    fn expect(&mut self, told: &[(u64, &str)], counts: Counts, bytes_in_flight: usize) {
        assert_eq!(self.told, told);
        assert_eq!(self.tracker.counts(), counts);
        assert_eq!(self.tracker.bytes_in_flight(), bytes_in_flight);
        assert_eq!(self.tracker.in_flight(), bytes_in_flight);
        assert_eq!(self.tracker.all_settled(), bytes_in_flight == 0);
    }
}

fn counts(acked: u64, returned: u64, nacked: u64) -> Counts {
    Counts {
        acked,
        returned,
        nacked,
        ..Counts::default()
    }
}

#[test]
fn acks_of_many() {
    let mut publishes = Publishes::new(8);
    publishes.ack(7, true);
    publishes.expect(&[(3, "acked"), (6, "acked")], counts(7, 0, 0), 1);
    publishes.ack(0, true);
    publishes.expect(&[(3, "acked"), (6, "acked")], counts(8, 0, 0), 0);
}

#[test]
fn acks_of_one_each_in_order_and_out_of_it() {
    let mut publishes = Publishes::new(4);
    publishes.ack(1, false);
    publishes.expect(&[], counts(1, 0, 0), 3);
    publishes.ack(4, false);
    publishes.expect(&[], counts(2, 0, 0), 2);
    publishes.ack(3, false);
    publishes.expect(&[(3, "acked")], counts(3, 0, 0), 1);
    publishes.ack(2, false);
    publishes.expect(&[(3, "acked")], counts(4, 0, 0), 0);
}

#[test]
fn nacks_are_told_to_everybody() {
    let mut publishes = Publishes::new(6);
    publishes.nack(5, false);
    publishes.expect(&[(5, "nacked")], counts(0, 0, 1), 5);
    publishes.nack(2, true);
    let told = [(5, "nacked"), (1, "nacked"), (2, "nacked")];
    publishes.expect(&told, counts(0, 0, 3), 3);
}

#[test]
fn returns_are_told_to_everybody() {
    for multiple in [false, true] {
        let mut publishes = Publishes::new(2);
        publishes.returned();
        publishes.expect(&[], counts(0, 0, 0), 2);
        publishes.ack(1, multiple);
        publishes.expect(&[(1, "returned")], counts(0, 1, 0), 1);
        publishes.ack(2, multiple);
        publishes.expect(&[(1, "returned")], counts(1, 1, 0), 0);
    }
    // Beside others that were not returned, and out of turn.
    let mut publishes = Publishes::new(5);
    publishes.returned();
    publishes.ack(5, true);
    publishes.expect(&[(1, "returned"), (3, "acked")], counts(4, 1, 0), 0);
    let mut publishes = Publishes::new(2);
    publishes.ack(1, false);
    publishes.returned();
    publishes.ack(2, false);
    publishes.expect(&[(2, "returned")], counts(1, 1, 0), 0);
}

#[test]
fn what_is_kept_can_be_changed_until_the_outcome() {
    let mut publishes = Publishes::new(2);
    let kept = publishes.tracker.kept(PublishSeq(1)).expect("open");
    kept.wants_ack = true;
    publishes.ack(2, true);
    publishes.expect(&[(1, "acked")], counts(2, 0, 0), 0);
    assert!(publishes.tracker.kept(PublishSeq(1)).is_none());
    assert!(publishes.tracker.kept(PublishSeq(3)).is_none());
}

/// The late confirm of one that timed out, which is not the oldest.
#[test]
fn late_confirms_are_counted() {
    let now = Instant::now();
    for (tag, multiple, late) in [(2, false, 1), (2, true, 2), (3, true, 3)] {
        let mut publishes = Publishes::new(3);
        publishes.tracker.stamp(now);
        let mut unknown = 0;
        publishes
            .tracker
            .expire(now + seconds(30), |_, _, outcome| {
                assert_eq!(name(&outcome), "unknown");
                unknown += 1;
            });
        assert_eq!(unknown, 3);
        assert_eq!(publishes.tracker.in_flight(), 3);
        publishes.ack(tag, multiple);
        assert!(publishes.told.is_empty());
        assert_eq!(publishes.tracker.counts().late, late);
        assert_eq!(publishes.tracker.in_flight(), 3 - late as usize);
        // The second word on it is none.
        publishes.ack(tag, multiple);
        assert_eq!(publishes.tracker.counts().late, late);
    }
}

/// One that stays open keeps its deadline, and does not make those of all after it stay.
#[test]
fn deadlines_are_tidied_up() {
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let mut publishes = Publishes::new(1);
    publishes.tracker.stamp(start);
    for turn in 1..=10_000 {
        publishes.publish(turn + 1, false);
        // A turn without a publish makes no deadline.
        publishes.tracker.stamp(at(turn));
        publishes.tracker.stamp(at(turn + 20_000));
        if turn < 10_000 {
            publishes.ack(turn + 1, false);
        }
    }
    let footprint = publishes.tracker.footprint();
    assert!(footprint < 500, "{footprint}");

    let mut expired = |milliseconds| {
        let mut expired = Vec::new();
        let tracker = &mut publishes.tracker;
        tracker.expire(at(milliseconds), |seq, _, _| expired.push(seq.0));
        (expired, tracker.next_deadline())
    };
    assert_eq!(expired(29_999), (vec![], Some(at(30_000))));
    assert_eq!(expired(30_000).0, [1]);
    assert_eq!(expired(39_999), (vec![], Some(at(40_000))));
    assert_eq!(expired(40_000), (vec![10_001], None));
}

/// Of publishes that have their outcome no deadline is left to wake up for.
#[test]
fn what_is_settled_has_no_deadline() {
    let start = Instant::now();
    let mut publishes = Publishes::new(0);
    for number in 1..=3 {
        publishes.publish(number, false);
        publishes.tracker.stamp(start + seconds(number));
    }
    for (tag, next) in [(1, Some(32)), (3, Some(32)), (2, None)] {
        publishes.ack(tag, false);
        let next = next.map(|after| start + seconds(after));
        assert_eq!(publishes.tracker.next_deadline(), next);
    }
}

/// The same where many were open at once, and all but the first are settled.
#[test]
fn deadlines_of_a_burst_are_tidied_up() {
    let now = Instant::now();
    let mut publishes = Publishes::new(0);
    for number in 1..=1_000 {
        publishes.publish(number, false);
        publishes.tracker.stamp(now);
    }
    for number in 2..=1_000 {
        publishes.ack(number, false);
    }
    for number in 1_001..=20_000 {
        publishes.publish(number, false);
        publishes.tracker.stamp(now);
        publishes.ack(number, false);
    }
    let footprint = publishes.tracker.footprint();
    assert!(footprint < 5_000, "{footprint}");
}
