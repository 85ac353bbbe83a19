//! Values kept under consecutive tags, for publishes that wait for their confirm and deliveries that wait for theirs.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "counts of what is kept, and tags below `u64::MAX`, which is never kept"
)]

use std::collections::BTreeMap;

use super::ring::Ring;

/// Below this length a ring is never worth compacting.
const SMALL: usize = 64;
/// A jump in tags larger than this moves what is open out of the ring instead of filling the gap.
const LARGE_GAP: u64 = 1024;

/// A map from tags to values, made for tags that grow by one and mostly leave in order.
///
/// A ring indexed by `tag - base` holds them, so that adding, finding and removing one costs the same however many are
/// there. A tag that stays while the window moves on would pin the ring; such stragglers move to an ordered map, so
/// memory is bounded by a small multiple of what is open, not by the distance between the oldest and the newest tag.
#[derive(Debug)]
pub(crate) struct TagRing<T> {
    /// The tag of `ring[0]`, and of the next push when the ring is empty.
    base: u64,
    /// The front is always occupied (or the ring empty).
    ring: Ring<T>,
    /// How many places of the ring are occupied.
    live: usize,
    /// Open tags below `base`.
    stragglers: BTreeMap<u64, T>,
}

impl<T> TagRing<T> {
    /// An empty ring whose first tag will be 1.
    pub(crate) fn new() -> Self {
        TagRing {
            base: 1,
            ring: Ring::new(),
            live: 0,
            stragglers: BTreeMap::new(),
        }
    }

    /// How many tags are open.
    pub(crate) fn len(&self) -> usize {
        self.live + self.stragglers.len()
    }

    /// How many places are kept, holes and spare room included.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> usize {
        self.ring.capacity() + self.stragglers.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tag the next [`push`](Self::push) gives out.
    pub(crate) fn next_tag(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// The lowest open tag.
    pub(crate) fn first(&self) -> Option<u64> {
        match self.stragglers.first_key_value() {
            Some((tag, _)) => Some(*tag),
            None => (self.live > 0).then_some(self.base),
        }
    }

    /// Adds a value under the next tag, and returns that tag.
    #[inline]
    pub(crate) fn push_with(&mut self, make: impl FnOnce() -> T) -> u64 {
        let tag = self.next_tag();
        self.ring.push_with(make);
        self.live += 1;
        tag
    }

    /// Adds a value under a tag chosen by the peer. `false`, and nothing is kept, if that tag has been passed already.
    pub(crate) fn insert(&mut self, tag: u64, value: T) -> bool {
        let Some(gap) = tag.checked_sub(self.next_tag()) else {
            return false;
        };
        if tag == u64::MAX {
            return false;
        }
        if self.ring.is_empty() {
            self.base = tag;
        } else if gap > LARGE_GAP {
            self.move_ring_to_stragglers();
            self.base = tag;
        } else {
            (0..gap).for_each(|_| self.ring.push_empty());
        }
        self.ring.push_with(|| value);
        self.live += 1;
        self.compact();
        true
    }

    /// Puts a value back under a tag that was given out before and is not open.
    pub(crate) fn restore(&mut self, tag: u64, value: T) {
        match self.place(tag) {
            Some(place) => {
                let was_open = place.replace(value).is_some();
                self.live += usize::from(!was_open);
            }
            None => {
                self.stragglers.insert(tag, value);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, tag: u64) -> Option<&mut T> {
        // Not by `place`: the borrow would last.
        if tag >= self.base {
            return self.place(tag)?.as_mut();
        }
        match self.stragglers.is_empty() {
            true => None,
            false => self.straggler_mut(tag),
        }
    }

    #[cold]
    fn straggler_mut(&mut self, tag: u64) -> Option<&mut T> {
        self.stragglers.get_mut(&tag)
    }

    pub(crate) fn contains(&self, tag: u64) -> bool {
        match self.index(tag).and_then(|index| self.ring.get(index)) {
            Some(place) => place.is_some(),
            None => self.stragglers.contains_key(&tag),
        }
    }

    /// Takes one tag out.
    #[inline]
    pub(crate) fn remove(&mut self, tag: u64) -> Option<T> {
        let Some(place) = self.place(tag) else {
            return self.stragglers.remove(&tag);
        };
        let value = place.take();
        if value.is_some() {
            self.live -= 1;
            self.trim_front();
            self.compact();
        }
        value
    }

    /// Takes out every open tag up to and including `tag`, lowest first. Costs the length of that range.
    #[inline]
    pub(crate) fn remove_through(&mut self, tag: u64, mut each: impl FnMut(u64, T)) {
        self.clear_through(tag, |tag, place| {
            if let Some(value) = place.take() {
                each(tag, value);
            }
        });
    }

    /// The same, with every value first shown where it is: what is not taken is dropped there, which spares large values
    /// the way.
    #[inline]
    pub(crate) fn clear_through(
        &mut self,
        tag: u64,
        mut last_look: impl FnMut(u64, &mut Option<T>),
    ) {
        while let Some(entry) = self.stragglers.first_entry() {
            if *entry.key() > tag {
                return;
            }
            let (tag, value) = entry.remove_entry();
            last_look(tag, &mut Some(value));
        }
        let places = (tag + 1).saturating_sub(self.base);
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        self.ring.drop_front(places, |place| {
            if place.is_some() {
                last_look(self.base, place);
                self.live -= 1;
            }
            self.base += 1;
        });
        self.trim_front();
        self.compact();
    }

    /// Takes out everything, lowest tag first.
    pub(crate) fn remove_all(&mut self, each: impl FnMut(u64, T)) {
        self.remove_through(u64::MAX - 1, each);
    }

    /// The open tags above `after`, lowest first.
    pub(crate) fn iter_after(&self, after: u64) -> impl Iterator<Item = (u64, &T)> {
        let skip = usize::try_from((after + 1).saturating_sub(self.base)).unwrap_or(usize::MAX);
        let ring = self.ring.iter_from(skip).zip(self.base + skip as u64..);
        let ring = ring.filter_map(|(place, tag)| Some((tag, place.as_ref()?)));
        let old = self
            .stragglers
            .range(after.saturating_add(1)..)
            .map(|(tag, value)| (*tag, value));
        old.chain(ring)
    }

    /// How far the tag is from the front of the ring, if it is not before it.
    #[inline]
    fn index(&self, tag: u64) -> Option<usize> {
        usize::try_from(tag.checked_sub(self.base)?).ok()
    }

    /// The tag's place in the ring.
    #[inline]
    fn place(&mut self, tag: u64) -> Option<&mut Option<T>> {
        self.ring.get_mut(self.index(tag)?)
    }

    #[inline]
    fn drop_front(&mut self) {
        self.ring.drop_front(1, |_| {});
        self.base += 1;
    }

    #[inline]
    fn trim_front(&mut self) {
        while let Some(None) = self.ring.get(0) {
            self.drop_front();
        }
    }

    /// Moves open tags off the front while the ring is mostly holes.
    #[inline]
    fn compact(&mut self) {
        while self.ring.len() > SMALL && self.live * 4 < self.ring.len() {
            self.straggle_front();
        }
    }

    fn move_ring_to_stragglers(&mut self) {
        while !self.ring.is_empty() {
            self.straggle_front();
        }
    }

    #[cold]
    fn straggle_front(&mut self) {
        if let Some(value) = self.ring.get_mut(0).and_then(Option::take) {
            self.live -= 1;
            self.stragglers.insert(self.base, value);
        }
        self.drop_front();
        self.trim_front();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_open_tag_does_not_pin_the_ring() {
        let mut ring = TagRing::new();
        let pinned = ring.push_with(|| 0);
        for _ in 0..100_000 {
            let tag = ring.push_with(|| 1);
            assert_eq!(ring.remove(tag), Some(1));
        }
        assert!(
            ring.ring.len() <= SMALL && ring.ring.capacity() <= 4 * SMALL,
            "{}",
            ring.ring.capacity()
        );
        assert_eq!(ring.first(), Some(pinned));
        assert_eq!(ring.remove(pinned), Some(0));
        assert!(ring.is_empty());
        assert_eq!(ring.next_tag(), 100_002);
    }

    #[test]
    fn a_huge_jump_in_tags_costs_nothing() {
        let mut ring = TagRing::new();
        assert!(ring.insert(3, 'a'));
        assert!(ring.insert(1 << 60, 'b'));
        assert!(
            !ring.insert(u64::MAX, 'c'),
            "the tag after it could not be counted"
        );
        assert!(!ring.insert(5, 'd'), "tags only grow");
        assert_eq!(ring.remove(3), Some('a'));
        assert_eq!(ring.remove(1 << 60), Some('b'));
    }

    #[test]
    fn a_gap_in_tags_is_no_tag() {
        for gap in [1, 2, LARGE_GAP, LARGE_GAP + 1] {
            let mut ring = TagRing::new();
            let first = ring.push_with(|| 'a');
            let second = first + gap + 1;
            assert!(ring.insert(second, 'b'));
            assert_eq!(ring.next_tag(), second + 1);
            for tag in [first + 1, second - 1] {
                assert!(!ring.contains(tag));
                assert_eq!(ring.get_mut(tag), None);
                assert_eq!(ring.remove(tag), None);
            }
            assert_eq!((ring.len(), ring.get_mut(second)), (2, Some(&mut 'b')));
            assert_eq!(ring.remove(first), Some('a'));
            assert_eq!(ring.first(), Some(second));
        }
    }

    #[test]
    fn open_tags_stay_in_a_ring_that_is_short_or_a_quarter_full() {
        for (pushed, removed) in [(SMALL as u64, 2..=63), (128, 2..=97)] {
            let mut ring = TagRing::new();
            (0..pushed).for_each(|_| _ = ring.push_with(|| ()));
            for tag in removed {
                assert!(ring.remove(tag).is_some());
            }
            assert!(ring.stragglers.is_empty(), "{pushed}");
            // One more place, and one open tag less.
            let tag = ring.push_with(|| ());
            assert!(ring.remove(tag - 1).is_some());
            assert_eq!(ring.stragglers.len(), 1, "{pushed}");
            assert_eq!((ring.first(), ring.contains(1)), (Some(1), true));
        }
    }

    /// Tags are named by how far back from the next one they are.
    #[derive(Debug, Clone)]
    enum Step {
        Push,
        Insert(u64),
        Restore(u64),
        Remove(u64),
        Through(u64),
        All,
    }

    proptest! {
        /// The ring against the obvious model.
        #[test]
        fn behaves_like_an_ordered_map(steps in prop::collection::vec(
            prop_oneof![
                60 => Just(Step::Push),
                5 => (0u64..8).prop_map(Step::Insert),
                1 => (0u64..2 * LARGE_GAP).prop_map(Step::Insert),
                5 => (0u64..400).prop_map(Step::Restore),
                30 => (0u64..400).prop_map(Step::Remove),
                10 => (0u64..400).prop_map(Step::Through),
                1 => Just(Step::All),
            ],
            0..600,
        )) {
            let mut ring = TagRing::new();
            let mut model = BTreeMap::new();
            let mut next = 1;
            for step in steps {
                match step {
                    Step::Push => {
                        prop_assert_eq!(ring.push_with(|| next * 10), next);
                        model.insert(next, next * 10);
                        next += 1;
                    }
                    Step::Insert(gap) => {
                        let tag = next + gap;
                        prop_assert!(ring.insert(tag, tag * 10));
                        prop_assert!(!ring.insert(tag, 0), "it has been passed");
                        model.insert(tag, tag * 10);
                        next = tag + 1;
                    }
                    Step::Restore(back) => {
                        if let Some(tag) = next.checked_sub(back + 1).filter(|tag| *tag > 0) {
                            ring.restore(tag, tag * 10 + 1);
                            model.insert(tag, tag * 10 + 1);
                        }
                    }
                    Step::Remove(back) => {
                        let tag = next.saturating_sub(back);
                        prop_assert_eq!(ring.remove(tag), model.remove(&tag));
                        prop_assert!(!ring.contains(tag));
                    }
                    Step::Through(back) => {
                        let through = next.saturating_sub(back);
                        let mut taken = Vec::new();
                        ring.remove_through(through, |tag, value| taken.push((tag, value)));
                        let rest = model.split_off(&(through + 1));
                        prop_assert_eq!(taken, model.into_iter().collect::<Vec<_>>());
                        model = rest;
                    }
                    Step::All => {
                        let mut taken = Vec::new();
                        ring.remove_all(|tag, value| taken.push((tag, value)));
                        prop_assert_eq!(taken, model.into_iter().collect::<Vec<_>>());
                        model = BTreeMap::new();
                    }
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.is_empty(), model.is_empty());
                prop_assert_eq!(ring.next_tag(), next);
                prop_assert_eq!(ring.first(), model.keys().next().copied());
                prop_assert!(ring.ring.len() <= SMALL + 4 * ring.live);
                for after in [0, next / 2, next.saturating_sub(100), next - 1, next] {
                    prop_assert_eq!(
                        ring.iter_after(after).map(|(tag, value)| (tag, *value)).collect::<Vec<_>>(),
                        model.range(after + 1..).map(|(tag, value)| (*tag, *value)).collect::<Vec<_>>()
                    );
                    prop_assert_eq!(ring.contains(after), model.contains_key(&after));
                    prop_assert_eq!(ring.get_mut(after), model.get_mut(&after));
                }
            }
        }
    }
}
