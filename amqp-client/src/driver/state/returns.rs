//! Messages that came back and belong to no confirm.

use std::collections::VecDeque;
use std::task::Waker;

use super::State;
use crate::api;
use crate::error::OneLine;
use crate::message::Publication;
use crate::outcome::Returned;
use crate::proto::ChannelId;

/// How many returned messages wait for a reader before the oldest are given up, and how many bytes of them.
const RETURNS_KEPT: usize = 1024;
const RETURNED_BYTES_KEPT: usize = 16 << 20;

#[derive(Default)]
pub(super) struct ReturnsQueue {
    pub(super) queue: VecDeque<Returned>,
    pub(super) bytes: usize,
    pub(super) missed: u64,
    pub(super) wanted: bool,
    /// Those who wait for the next one.
    pub(super) wakers: Vec<Waker>,
}

impl State {
    /// A message came back that belongs to no confirm.
    pub(super) fn returned(
        &mut self,
        channel: ChannelId,
        returned: Returned,
        wakes: &mut Vec<Waker>,
    ) {
        self.tell(|| {
            let Publication {
                exchange,
                routing_key,
                message,
            } = &returned.publication;
            api::Event::Returned {
                channel,
                code: returned.code,
                text: returned.text.clone(),
                exchange: exchange.clone(),
                routing_key: routing_key.clone(),
                message_id: message.properties().message_id.clone(),
            }
        });
        if let Some(slot) = self.slot_of(channel) {
            self.channels[slot].returns.push(returned, wakes);
        }
    }

    /// The next returned message that no confirm is about, or how many were given up before it.
    pub(crate) fn poll_returned(
        &mut self,
        slot: usize,
        waker: &Waker,
    ) -> Option<Option<Result<Returned, u64>>> {
        let channel = &mut self.channels[slot];
        let returns = &mut channel.returns;
        returns.wanted = true;
        if returns.missed > 0 {
            return Some(Some(Err(std::mem::take(&mut returns.missed))));
        }
        match returns.pop() {
            Some(returned) => Some(Some(Ok(returned))),
            None if channel.closed.is_some() => Some(None),
            None => {
                if !returns.wakers.iter().any(|known| known.will_wake(waker)) {
                    returns.wakers.push(waker.clone());
                }
                None
            }
        }
    }
}

/// What of a returned message can be large.
fn size(returned: &Returned) -> usize {
    let message = &returned.publication.message;
    message.body().len() + message.properties().encoded_len()
}

impl ReturnsQueue {
    pub(super) fn pop(&mut self) -> Option<Returned> {
        let returned = self.queue.pop_front()?;
        self.bytes -= size(&returned);
        Some(returned)
    }

    pub(super) fn push(&mut self, returned: Returned, wakes: &mut Vec<Waker>) {
        if !self.wanted {
            let Publication {
                exchange,
                routing_key,
                ..
            } = &returned.publication;
            let (exchange, routing_key) = (OneLine(exchange), OneLine(routing_key));
            tracing::warn!(%exchange, %routing_key, code = returned.code.0, "message returned; nobody asked for returns");
        }
        self.bytes += size(&returned);
        self.queue.push_back(returned);
        while self.queue.len() > RETURNS_KEPT
            || (self.bytes > RETURNED_BYTES_KEPT && self.queue.len() > 1)
        {
            self.pop();
            self.missed += 1;
        }
        wakes.append(&mut self.wakers);
    }
}
