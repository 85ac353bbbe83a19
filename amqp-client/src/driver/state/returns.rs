//! Messages that came back and belong to no confirm.

use std::collections::VecDeque;
use std::task::Waker;

use super::State;
use crate::api;
use crate::error::OneLine;
use crate::message::Publication;
use crate::outcome::Returned;
use crate::proto::ChannelId;

/// How much waits for readers.
#[derive(Default, Clone, Copy)]
pub(super) struct Kept {
    messages: usize,
    bytes: usize,
}

impl Kept {
    /// The messages that wait in this queue are gone with it.
    pub(super) fn forget(&mut self, returns: &ReturnsQueue) {
        self.messages -= returns.queue.len();
        self.bytes -= returns.bytes;
    }
}

#[derive(Default)]
pub(super) struct ReturnsQueue {
    queue: VecDeque<Returned>,
    bytes: usize,
    missed: u64,
    wanted: bool,
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
        let Some(slot) = self.slot_of(channel) else {
            return;
        };
        self.kept.messages += 1;
        self.kept.bytes += size(&returned);
        self.channels[slot].returns.push(returned, wakes);
        while self.keeps_too_much() && self.give_up_returned() {}
    }

    fn keeps_too_much(&self) -> bool {
        let limits = self.conn.limits();
        let Kept { messages, bytes } = self.kept;
        messages > limits.returned_messages || (bytes > limits.returned_bytes && messages > 1)
    }

    /// The channel that keeps most loses the oldest: who reads is not to lose anything for who does not. Whether there
    /// was one.
    fn give_up_returned(&mut self) -> bool {
        let too_many = self.kept.messages > self.conn.limits().returned_messages;
        let share = |returns: &&mut ReturnsQueue| match too_many {
            true => returns.queue.len(),
            false => returns.bytes,
        };
        let channels = self.channels.iter_mut();
        let most = channels
            .map(|(_, channel)| &mut channel.returns)
            .max_by_key(share);
        let Some(most) = most.filter(|most| !most.queue.is_empty()) else {
            return false;
        };
        most.pop(&mut self.kept);
        most.missed += 1;
        true
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
        match returns.pop(&mut self.kept) {
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

/// How many bytes came with a returned message.
fn size(returned: &Returned) -> usize {
    let Publication {
        exchange,
        routing_key,
        message,
    } = &returned.publication;
    let address = exchange.len() + routing_key.len() + returned.text.len();
    address + message.body().len() + message.properties().encoded_len()
}

impl ReturnsQueue {
    fn pop(&mut self, kept: &mut Kept) -> Option<Returned> {
        let returned = self.queue.pop_front()?;
        let size = size(&returned);
        self.bytes -= size;
        kept.bytes -= size;
        kept.messages -= 1;
        Some(returned)
    }

    fn push(&mut self, returned: Returned, wakes: &mut Vec<Waker>) {
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
        wakes.append(&mut self.wakers);
    }
}
