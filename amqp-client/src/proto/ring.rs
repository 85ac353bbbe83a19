//! Places in a row: added at the back, given up at the front.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "places are counted that are in memory; no peer has a say in it"
)]

/// A queue of places, each of which holds a value or none.
///
/// A value is made in its place and dropped there: those of a hundred bytes and more are not moved about, as they would
/// be by the standard library's queue.
#[derive(Debug)]
pub(super) struct Ring<T> {
    /// A power of two of them, or none. Those that are not in the row are empty.
    places: Vec<Option<T>>,
    /// Which one is the first of the row.
    head: usize,
    len: usize,
}

/// How many places there are at least, once there are any.
const SMALLEST: usize = 4;

impl<T> Ring<T> {
    pub(super) fn new() -> Self {
        Ring {
            places: Vec::new(),
            head: 0,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many places are kept, in the row or not.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Adds a place with a value, which is made there.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "`at` stays within the places, of which there is one more now"
    )]
    pub(super) fn push_with(&mut self, make: impl FnOnce() -> T) {
        if self.len == self.places.len() {
            self.grow();
        }
        let at = self.at(self.len);
        let place = &mut self.places[at];
        *place = Some(make());
        self.len += 1;
    }

    /// Adds a place without a value.
    pub(super) fn push_empty(&mut self) {
        if self.len == self.places.len() {
            self.grow();
        }
        self.len += 1;
    }

    /// The place so far from the front, if it is in the row.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Option<T>> {
        match index < self.len {
            true => self.places.get(self.at(index)),
            false => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Option<T>> {
        let at = self.at(index);
        match index < self.len {
            true => self.places.get_mut(at),
            false => None,
        }
    }

    /// Gives up so many of the first places, each shown first; what is still in them then is dropped.
    #[inline]
    pub(super) fn drop_front(&mut self, places: usize, mut last_look: impl FnMut(&mut Option<T>)) {
        let places = places.min(self.len);
        let (wrapped, front) = self.places.split_at_mut(self.head);
        // What is beyond the end of the memory goes on at its start.
        for place in front.iter_mut().chain(wrapped).take(places) {
            last_look(place);
            *place = None;
        }
        self.head = self.at(places);
        self.len -= places;
    }

    /// The places from this one on.
    pub(super) fn iter_from(&self, index: usize) -> impl Iterator<Item = &Option<T>> {
        (index..self.len).filter_map(|index| self.get(index))
    }

    /// Where the place is that is so far from the front.
    #[inline]
    fn at(&self, index: usize) -> usize {
        self.head.wrapping_add(index) & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(SMALLEST);
        self.places.rotate_left(self.head);
        self.head = 0;
        self.places.resize_with(places, || None);
    }
}
