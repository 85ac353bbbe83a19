//! Messages that came back and belong to no confirm.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::channel::ChannelCore;
use crate::outcome::Returned;

/// How many returned messages were given up because nobody read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} returned messages were given up, nobody read them")]
pub struct Missed(pub u64);

/// The messages of a channel that came back and belong to no confirm: those published outside confirm mode,
/// and those whose [`Confirm`](super::Confirm) was dropped or had timed out. Ends with the channel.
///
/// What is not read is kept within [`Limits::returned_messages`](crate::Limits::returned_messages) and
/// [`Limits::returned_bytes`](crate::Limits::returned_bytes); where more came, the oldest are given up, and an `Err` says
/// how many are missing.
pub struct Returns {
    pub(super) core: Arc<ChannelCore>,
}

impl Stream for Returns {
    type Item = Result<Returned, Missed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self
            .core
            .shared()
            .lock()
            .poll_returned(self.core.slot, cx.waker())
        {
            Some(item) => Poll::Ready(item.map(|item| item.map_err(Missed))),
            None => Poll::Pending,
        }
    }
}
