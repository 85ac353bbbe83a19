//! How many messages a channel may still be given, and which it has settled.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One channel's deliveries: shared by the connection, which hears of acks, and the consumers' threads.
#[derive(Debug, Default)]
pub(super) struct Flow {
    state: Mutex<State>,
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Most messages outstanding; 0 for no limit.
    prefetch: u64,
    /// Messages promised to consumers; the first `tagged` of them have their tag.
    reserved: u64,
    tagged: u64,
    /// All tags up to this one are settled, and those in `settled` beyond it.
    settled_to: u64,
    settled: BTreeSet<u64>,
    stopped: BTreeSet<Vec<u8>>,
    closed: bool,
}

impl Flow {
    pub(super) fn set_prefetch(&self, count: u16) {
        self.lock().prefetch = count.into();
        self.room.notify_all();
    }

    /// Waits until at least one message may be sent and reserves up to `max`. Nothing when the consumer is to end.
    pub(super) fn reserve(&self, consumer: &[u8], no_ack: bool, max: u64) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.closed || state.stopped.contains(consumer) {
                return None;
            }
            let outstanding = state.reserved - state.settled_to - state.settled.len() as u64;
            let room = match state.prefetch {
                _ if no_ack => max,
                0 => max,
                prefetch => prefetch.saturating_sub(outstanding).min(max),
            };
            if room > 0 {
                state.reserved += room;
                return Some(room);
            }
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The tags of `count` reserved messages. Called in the order in which they go out.
    pub(super) fn tag(&self, count: u64, no_ack: bool) -> Range<u64> {
        let mut state = self.lock();
        let tags = state.tagged + 1..state.tagged + 1 + count;
        state.tagged += count;
        if no_ack {
            if state.settled_to + 1 == tags.start {
                state.settled_to += count;
            } else {
                state.settled.extend(tags.clone());
            }
        }
        tags
    }

    /// An ack, nack or reject. Tags that were never delivered are ignored.
    pub(super) fn settle(&self, tag: u64, multiple: bool) {
        let mut state = self.lock();
        let state = &mut *state;
        if tag > state.tagged {
            return;
        }
        if multiple {
            let to = if tag == 0 { state.tagged } else { tag };
            state.settled_to = state.settled_to.max(to);
            state.settled = state.settled.split_off(&(state.settled_to + 1));
        } else if tag > state.settled_to {
            state.settled.insert(tag);
        }
        while state.settled.remove(&(state.settled_to + 1)) {
            state.settled_to += 1;
        }
        self.room.notify_all();
    }

    /// Ends one consumer.
    pub(super) fn stop(&self, consumer: &[u8]) {
        self.lock().stopped.insert(consumer.to_vec());
        self.room.notify_all();
    }

    /// Lets a stopped consumer's name be used again.
    pub(super) fn forget(&self, consumer: &[u8]) {
        self.lock().stopped.remove(consumer);
    }

    /// Ends all consumers.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Flow;

    #[test]
    fn prefetch_bounds_what_is_outstanding() {
        let flow = Flow::default();
        flow.set_prefetch(10);
        assert_eq!(flow.reserve(b"c", false, 7), Some(7));
        assert_eq!(flow.tag(7, false), 1..8);
        assert_eq!(flow.reserve(b"c", false, 7), Some(3));
        assert_eq!(flow.tag(3, false), 8..11);
        flow.settle(4, false);
        flow.settle(2, false);
        assert_eq!(flow.reserve(b"c", false, 7), Some(2));
        flow.settle(3, true);
        assert_eq!(
            flow.reserve(b"c", false, 7),
            Some(2),
            "1 and 3, as 2 was settled before"
        );
        flow.settle(4, true);
        flow.settle(10, true);
        assert_eq!(flow.reserve(b"c", false, 7), Some(6), "5 to 10");
    }

    #[test]
    fn without_acks_nothing_is_outstanding() {
        let flow = Flow::default();
        flow.set_prefetch(1);
        for _ in 0..3 {
            assert_eq!(flow.reserve(b"c", true, 5), Some(5));
            flow.tag(5, true);
        }
        assert_eq!(flow.reserve(b"d", false, 5), Some(1));
    }

    #[test]
    fn stopped_and_closed_consumers_get_nothing() {
        let flow = Flow::default();
        flow.stop(b"c");
        assert_eq!(flow.reserve(b"c", false, 1), None);
        flow.forget(b"c");
        assert_eq!(flow.reserve(b"c", false, 1), Some(1));
        flow.close();
        assert_eq!(flow.reserve(b"c", false, 1), None);
    }
}
