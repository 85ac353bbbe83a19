//! Bytes on their way to the peer.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "lengths of what is kept here are added when it comes and taken off when it goes; no peer has a say in it"
)]

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;

use amqp_codec::basic::{self, Properties};
use amqp_codec::content;
use amqp_codec::frame::{self, FRAME_END, FRAME_OVERHEAD};
use bytes::{Buf, Bytes};

use crate::message::Publication;

/// Bodies of at least this many bytes are sent from where they are; smaller ones are copied.
const SPLICE_FROM: usize = 4096;
/// How many bytes of large bodies are put in front of the transport at a time.
const PUMP_TARGET: usize = 256 * 1024;
/// A buffer that has grown beyond this is given back when it has been sent.
const KEEP_CAPACITY: usize = 1 << 20;

/// A run of bytes to send: frames, with large bodies spliced in where they belong instead of copied.
///
/// It is a [`Buf`], so that a transport may take it in pieces, and vectored.
#[derive(Default)]
pub struct Batch {
    frames: Vec<u8>,
    /// How much of `frames` has been sent.
    sent: usize,
    /// Bodies, each with the place in `frames` it goes before; in order of their places.
    spliced: VecDeque<(usize, Bytes)>,
    remaining: usize,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Whether all has been sent.
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// The place where the next frame is written. [`grown`](Self::grown) must be told afterwards.
    fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.frames
    }

    fn grown(&mut self, by: usize) {
        self.remaining += by;
    }

    fn splice(&mut self, body: Bytes) {
        self.remaining += body.len();
        self.spliced.push_back((self.frames.len(), body));
    }

    /// Makes a batch that has been sent ready for use again.
    fn reset(&mut self) {
        self.frames.clear();
        self.frames.shrink_to(KEEP_CAPACITY);
        self.sent = 0;
    }

    /// What of `frames` goes out before the next spliced body.
    #[expect(
        clippy::indexing_slicing,
        reason = "bodies are spliced into `frames`, and sent from its start on"
    )]
    fn head(&self) -> &[u8] {
        let end = self
            .spliced
            .front()
            .map_or(self.frames.len(), |(at, _)| *at);
        &self.frames[self.sent..end]
    }
}

/// Without the bytes: they are messages and passwords.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("remaining", &self.remaining)
            .field("spliced", &self.spliced.len())
            .finish_non_exhaustive()
    }
}

impl Buf for Batch {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        match (self.head(), self.spliced.front()) {
            ([], Some((_, body))) => body,
            (head, _) => head,
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "bodies are spliced into `frames`, and sent from its start on"
    )]
    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut used = 0;
        let mut from = self.sent;
        let ends = self.spliced.iter().map(|(at, body)| (*at, &body[..]));
        for (end, body) in ends.chain([(self.frames.len(), &[][..])]) {
            for piece in [&self.frames[from..end], body] {
                if !piece.is_empty() {
                    let Some(slice) = slices.get_mut(used) else {
                        return used;
                    };
                    *slice = IoSlice::new(piece);
                    used += 1;
                }
            }
            from = end;
        }
        used
    }

    /// # Panics
    /// If `count` is more than what remains, as [`Buf`] asks for.
    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "advanced beyond the end");
        self.remaining -= count;
        while count > 0 {
            let of_head = count.min(self.head().len());
            self.sent += of_head;
            count -= of_head;
            if let Some((_, body)) = self.spliced.front_mut()
                && count > 0
            {
                let of_body = count.min(body.len());
                body.advance(of_body);
                count -= of_body;
                if body.is_empty() {
                    self.spliced.pop_front();
                }
            }
        }
    }
}

/// What one channel has to send that cannot go out at once: the frames of a body that takes several,
/// and all that was asked for after it.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// How many bytes of other things than messages were put in since it was empty.
    owed: usize,
}

#[derive(Debug)]
enum Piece {
    /// Whole frames; `mark` names the publish whose first byte is the first of them.
    Frames { bytes: Vec<u8>, mark: Option<u64> },
    /// A body to be cut into frames.
    Body(Bytes),
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    #[expect(clippy::unreachable, reason = "no peer has a say in it")]
    fn push_frames(&mut self, mark: Option<u64>) -> &mut Vec<u8> {
        let extends = mark.is_none() && matches!(self.pieces.back(), Some(Piece::Frames { .. }));
        if !extends {
            self.pieces.push_back(Piece::Frames {
                bytes: Vec::new(),
                mark,
            });
        }
        match self.pieces.back_mut() {
            Some(Piece::Frames { bytes, .. }) => bytes,
            _ => unreachable!("a piece of frames was just pushed"),
        }
    }
}

/// The stream of bytes to the peer, before the transport takes them.
///
/// Frames of all channels go into one batch in the order they are made. Bodies of several frames wait in
/// their channel's [`Backlog`] and are moved over one frame a channel at a time, so that one large message
/// does not hold up the other channels.
#[derive(Debug)]
pub(super) struct Outgoing {
    batch: Batch,
    /// Bytes that were handed out in earlier batches.
    handed_out: u64,
    /// Bytes in all backlogs.
    backlogged: usize,
    /// Bytes of other things than messages: of the batch, and of the backlogs.
    owed: usize,
    owed_backlogged: usize,
    /// Channels whose backlog may move, in turn.
    turns: VecDeque<u16>,
    /// Above this many waiting bytes, publishes have to wait.
    limit: usize,
    /// Above this many bytes of other things, the peer is not read from.
    owed_limit: usize,
    frame_max: usize,
    /// connection.close is in the stream: of methods, only what answers the peer's own close may follow.
    sealed: bool,
}

impl Outgoing {
    pub(super) fn new(limit: usize, owed_limit: usize) -> Self {
        Outgoing {
            batch: Batch::new(),
            handed_out: 0,
            backlogged: 0,
            owed: 0,
            owed_backlogged: 0,
            turns: VecDeque::new(),
            limit,
            owed_limit,
            frame_max: frame::FRAME_MIN_SIZE as usize,
            sealed: false,
        }
    }

    /// The largest frame the peer takes, as negotiated.
    pub(super) fn set_frame_max(&mut self, frame_max: u32) {
        self.frame_max = frame_max as usize;
    }

    /// Whether a publish may be added to what waits here. Other frames always may: what is owed to the peer
    /// must not wait behind publishes.
    ///
    /// What fits a frame does not wait for the bodies that other channels are sending: it goes in between.
    pub(super) fn has_room(&self, backlog: &Backlog, body_len: usize) -> bool {
        let goes_between = backlog.is_empty() && self.fits_a_frame(body_len);
        let waiting = if goes_between {
            self.batch.remaining
        } else {
            self.waiting()
        };
        waiting == 0 || waiting < self.limit
    }

    fn fits_a_frame(&self, body_len: usize) -> bool {
        body_len + FRAME_OVERHEAD <= self.frame_max
    }

    /// Whether the peer has made us owe it more than it takes: it is not to be read from until it does.
    /// Messages do not count, or a large one would keep its own confirm from being read.
    pub(super) fn is_overfull(&self) -> bool {
        self.owed + self.owed_backlogged > self.owed_limit
    }

    /// Whether nothing is ready to be handed out.
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Whether all bodies have moved from their channels' backlogs.
    pub(super) fn is_idle(&self) -> bool {
        self.turns.is_empty()
    }

    /// Bytes that wait here and in the backlogs.
    pub(super) fn waiting(&self) -> usize {
        self.batch.remaining + self.backlogged
    }

    /// How many bytes of the stream were handed out.
    pub(super) fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// The offset in the stream of the next byte that is put in.
    fn position(&self) -> u64 {
        self.handed_out + self.batch.remaining as u64
    }

    /// Puts whole frames of a channel in, behind the channel's backlog if it has one.
    pub(super) fn frames(&mut self, backlog: &mut Backlog, write: impl FnOnce(&mut Vec<u8>)) {
        if backlog.is_empty() {
            self.write(write);
        } else if !self.sealed {
            let grown = self.put_backlog(backlog, None, write);
            backlog.owed += grown;
            self.owed_backlogged += grown;
        }
    }

    /// Puts frames in that belong to no channel's order, such as those of channel 0.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.sealed {
            self.write_last(write);
        }
    }

    /// The same for what may come after connection.close too.
    pub(super) fn write_last(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.owed += self.put(write);
    }

    /// connection.close has been put in: what else is to be sent from now on is not.
    pub(super) fn seal(&mut self) {
        self.sealed = true;
    }

    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.batch.frames.len();
        write(self.batch.tail());
        let grown = self.batch.frames.len() - before;
        self.batch.grown(grown);
        grown
    }

    fn put_backlog(
        &mut self,
        backlog: &mut Backlog,
        mark: Option<u64>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let frames = backlog.push_frames(mark);
        let before = frames.len();
        write(frames);
        let grown = frames.len() - before;
        backlog.bytes += grown;
        self.backlogged += grown;
        grown
    }

    /// Puts a message in, with these properties, its body in as many frames as it takes. Returns the offset of its first
    /// byte, or [`u64::MAX`] if that is not known yet; `mark` comes back from [`pump`](Self::pump) with it then.
    ///
    /// That the method and the header fit a frame has been checked.
    pub(super) fn publish(
        &mut self,
        channel: u16,
        backlog: &mut Backlog,
        mark: Option<u64>,
        publication: &Publication,
        properties: Option<&Properties<'_>>,
    ) -> u64 {
        let body = publication.message.body();
        let in_place = body.len() < SPLICE_FROM && self.fits_a_frame(body.len());
        match properties {
            None if in_place && backlog.is_empty() => self.publish_small(channel, publication),
            _ => self.publish_any(channel, backlog, mark, publication, properties),
        }
    }

    /// What is published most, in the fewest steps: no properties, and all in one piece.
    #[inline]
    fn publish_small(&mut self, channel: u16, publication: &Publication) -> u64 {
        let Publication {
            exchange,
            routing_key,
            message,
        } = publication;
        let (mandatory, body) = (message.is_mandatory(), message.body());
        let start = self.position();
        self.put(|buf| {
            content::encode_publish(channel, exchange, routing_key, mandatory, body, buf);
        });
        start
    }

    #[inline(never)]
    fn publish_any(
        &mut self,
        channel: u16,
        backlog: &mut Backlog,
        mark: Option<u64>,
        publication: &Publication,
        properties: Option<&Properties<'_>>,
    ) -> u64 {
        let message = &publication.message;
        let publish = basic::Publish {
            exchange: publication.exchange.as_borrowed(),
            routing_key: publication.routing_key.as_borrowed(),
            mandatory: message.is_mandatory(),
            ..Default::default()
        };
        let properties = properties.unwrap_or(message.properties());
        let body = message.body();
        #[expect(clippy::expect_used, reason = "no peer has a say in it")]
        let head = |buf: &mut Vec<u8>| {
            content::encode_head(channel, &publish, properties, body.len() as u64, buf)
                .expect("headers were checked to fit a frame");
        };
        if !backlog.is_empty() {
            self.put_backlog(backlog, mark, head);
            self.backlog_body(backlog, body);
            return u64::MAX;
        }
        let start = self.position();
        self.put(head);
        if self.fits_a_frame(body.len()) {
            self.body_frame(channel, body);
        } else {
            self.turns.push_back(channel);
            self.backlog_body(backlog, body);
        }
        start
    }

    fn backlog_body(&mut self, backlog: &mut Backlog, body: &Bytes) {
        if !body.is_empty() {
            backlog.pieces.push_back(Piece::Body(body.clone()));
            backlog.bytes += body.len();
            self.backlogged += body.len();
        }
    }

    fn body_frame(&mut self, channel: u16, body: &Bytes) {
        if body.is_empty() {
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it fits a frame, and frame_max is 32 bits wide"
        )]
        let prefix = frame::body_frame_prefix(channel, body.len() as u32);
        if body.len() < SPLICE_FROM {
            self.put(|buf| {
                buf.extend_from_slice(&prefix);
                buf.extend_from_slice(body);
                buf.push(FRAME_END);
            });
        } else {
            self.put(|buf| buf.extend_from_slice(&prefix));
            self.batch.splice(body.clone());
            self.put(|buf| buf.push(FRAME_END));
        }
    }

    /// The channel is gone: what it still had to send is dropped.
    pub(super) fn drop_backlog(&mut self, channel: u16, backlog: &mut Backlog) {
        self.backlogged -= backlog.bytes;
        self.owed_backlogged -= backlog.owed;
        *backlog = Backlog::default();
        self.turns.retain(|other| *other != channel);
    }

    /// The next channel whose backlog may move: the first of a round in any case, so that a stream of small
    /// messages does not hold it up for ever, and more while the batch has room.
    pub(super) fn next_turn(&mut self, first: bool) -> Option<u16> {
        if self.batch.remaining >= PUMP_TARGET && !first {
            return None;
        }
        self.turns.pop_front()
    }

    /// Moves one piece of a channel's backlog, one frame of a body, into the batch. `started` is told the
    /// offset of each marked publish whose first byte moved.
    pub(super) fn pump(
        &mut self,
        channel: u16,
        backlog: &mut Backlog,
        started: impl FnOnce(u64, u64),
    ) {
        match backlog.pieces.pop_front() {
            Some(Piece::Frames { bytes, mark }) => {
                if let Some(mark) = mark {
                    started(mark, self.position());
                }
                backlog.bytes -= bytes.len();
                self.backlogged -= bytes.len();
                self.put(|buf| buf.extend_from_slice(&bytes));
            }
            Some(Piece::Body(mut body)) => {
                let chunk = body.split_to(body.len().min(self.frame_max - FRAME_OVERHEAD));
                backlog.bytes -= chunk.len();
                self.backlogged -= chunk.len();
                self.body_frame(channel, &chunk);
                if !body.is_empty() {
                    backlog.pieces.push_front(Piece::Body(body));
                }
            }
            None => {}
        }
        if backlog.is_empty() {
            self.owed += backlog.owed;
            self.owed_backlogged -= std::mem::take(&mut backlog.owed);
        } else {
            self.turns.push_back(channel);
        }
    }

    /// Drops what was not handed out: the connection is over, or will be when its close is written.
    pub(super) fn discard(&mut self) {
        self.batch = Batch::new();
        self.owed = 0;
    }

    /// Hands out all that has gathered, in exchange for a batch that has been sent.
    pub(super) fn hand_out(&mut self, sent: &mut Batch) {
        debug_assert!(
            sent.is_empty(),
            "a batch is exchanged when it has been sent"
        );
        self.handed_out += self.batch.remaining as u64;
        self.owed = 0;
        sent.reset();
        std::mem::swap(sent, &mut self.batch);
        let spliced = sent.spliced.iter().map(|(place, body)| (*place, &body[..]));
        super::trace::sent(&sent.frames, spliced);
    }
}

#[cfg(test)]
mod tests {
    use amqp_codec::frame::RawFrame;
    use amqp_codec::{Limits, ShortStr};

    use super::*;
    use crate::message::Message;

    /// Takes the batch apart in pieces of `step` bytes, as a slow transport would.
    fn drain(outgoing: &mut Outgoing, step: usize) -> Vec<u8> {
        let mut batch = Batch::new();
        outgoing.hand_out(&mut batch);
        let mut taken = Vec::new();
        while batch.has_remaining() {
            let mut slices = [IoSlice::new(&[]); 3];
            let used = batch.chunks_vectored(&mut slices);
            let flat: Vec<u8> = slices[..used]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            assert_eq!(&flat[..batch.chunk().len()], batch.chunk());
            let count = flat.len().min(step);
            taken.extend_from_slice(&flat[..count]);
            batch.advance(count);
        }
        taken
    }

    /// The bytes of a publish to the default exchange with an empty key and no properties, before its body.
    const HEAD: usize = (4 + 5) + 14 + 2 * FRAME_OVERHEAD;

    fn publish(
        outgoing: &mut Outgoing,
        channel: u16,
        backlog: &mut Backlog,
        mark: Option<u64>,
        body: &Bytes,
    ) -> u64 {
        let publication = Publication {
            exchange: ShortStr::EMPTY,
            routing_key: ShortStr::EMPTY,
            message: Message::new(body.clone()),
        };
        outgoing.publish(channel, backlog, mark, &publication, None)
    }

    fn frames(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let limits = Limits::default();
        let mut frames = Vec::new();
        while let Some((frame, used)) = RawFrame::parse(bytes, &limits).expect("valid frames") {
            frames.push((frame.channel, frame.payload.to_vec()));
            bytes = &bytes[used..];
        }
        assert!(bytes.is_empty());
        frames
    }

    #[test]
    fn large_bodies_take_turns() {
        let mut outgoing = Outgoing::new(1 << 20, 1 << 20);
        outgoing.set_frame_max(5008);
        let (mut one, mut two) = (Backlog::default(), Backlog::default());
        let bodies = [
            Bytes::from(vec![1u8; 12_000]),
            Bytes::from(vec![2u8; 7_000]),
        ];
        let [of_one, of_two] = &bodies;
        assert_eq!(publish(&mut outgoing, 1, &mut one, Some(1), of_one), 0);
        let start = HEAD as u64;
        assert_eq!(publish(&mut outgoing, 2, &mut two, Some(1), of_two), start);
        let small = Bytes::from_static(b"x");
        assert_eq!(
            publish(&mut outgoing, 1, &mut one, Some(7), &small),
            u64::MAX
        );

        let mut started = Vec::new();
        while let Some(channel) = outgoing.next_turn(false) {
            let backlog = if channel == 1 { &mut one } else { &mut two };
            outgoing.pump(channel, backlog, |mark, at| started.push((mark, at)));
        }
        let sizes = frames(&drain(&mut outgoing, 777));
        let sizes: Vec<_> = sizes
            .iter()
            .map(|(channel, payload)| (*channel, payload.len()))
            .collect();
        assert_eq!(
            sizes,
            [
                (1, 9),
                (1, 14),
                (2, 9),
                (2, 14),
                (1, 5000),
                (2, 5000),
                (1, 5000),
                (2, 2000),
                (1, 2000),
                (1, 9),
                (1, 14),
                (1, 1)
            ]
        );
        let before = 2 * HEAD + 12_000 + 7_000 + 5 * FRAME_OVERHEAD;
        assert_eq!(started, [(7, before as u64)]);
        assert!(outgoing.is_empty() && one.is_empty() && two.is_empty());
        assert_eq!(outgoing.backlogged, 0);
    }

    #[test]
    fn small_messages_pass_a_large_one_and_do_not_stop_it() {
        let mut outgoing = Outgoing::new(10_000, 10_000);
        outgoing.set_frame_max(5008);
        let (mut large, mut small) = (Backlog::default(), Backlog::default());
        let body = Bytes::from(vec![1u8; PUMP_TARGET]);
        assert!(outgoing.has_room(&large, body.len()));
        publish(&mut outgoing, 1, &mut large, None, &body);
        // Its own channel waits, and so does another body of several frames; what fits a frame does not.
        assert!(!outgoing.has_room(&large, 1));
        assert!(!outgoing.has_room(&small, 5_001));
        assert!(outgoing.has_room(&small, 5_000));
        while outgoing.has_room(&small, 1_000) {
            publish(&mut outgoing, 2, &mut small, None, &body.slice(..1_000));
        }
        assert!(outgoing.waiting() - large.bytes < 10_000 + HEAD + 1_008);

        // The batch is full of others, and still the large one has its turn, once a round.
        while outgoing.batch.remaining < PUMP_TARGET {
            publish(&mut outgoing, 2, &mut small, None, &body.slice(..4_000));
        }
        assert_eq!(outgoing.next_turn(false), None);
        assert_eq!(outgoing.next_turn(true), Some(1));
        outgoing.pump(1, &mut large, |_, _| {});
        assert_eq!(large.bytes, PUMP_TARGET - 5_000);
    }
}
