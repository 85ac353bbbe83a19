//! Synchronous methods that wait for their answers.

use std::collections::VecDeque;
use std::task::Waker;

use amqp_codec::MethodId;

use super::State;
use crate::proto::{ChannelId, ConsumerId, Reply, RequestError, RequestId};

pub(super) enum RequestSlot {
    Waiting(Option<Waker>),
    Done(Result<Reply, RequestError>),
}

impl State {
    /// Registers a request before it is sent.
    pub(crate) fn new_request(&mut self) -> RequestId {
        let request = self.conn.next_request();
        self.requests.insert(request, RequestSlot::Waiting(None));
        request
    }

    /// It was not sent after all.
    pub(crate) fn forget_request(&mut self, request: RequestId) {
        self.requests.remove(&request);
    }

    pub(crate) fn poll_request(
        &mut self,
        request: RequestId,
        waker: &Waker,
    ) -> Option<Result<Reply, RequestError>> {
        match self.requests.get_mut(&request)? {
            RequestSlot::Waiting(waiting) => {
                self.dead.extend(waiting.replace(waker.clone()));
                None
            }
            RequestSlot::Done(_) => match self.requests.remove(&request)? {
                RequestSlot::Done(result) => Some(result),
                RequestSlot::Waiting(_) => None,
            },
        }
    }

    /// A request that was sent cancels this consumer.
    pub(crate) fn add_cancel(&mut self, request: RequestId, consumer: ConsumerId) {
        self.cancels.insert(request, consumer);
        self.lift_budget(consumer);
    }

    /// The caller gave up: the answer goes to nobody, and what it brings, or has brought, is undone.
    pub(crate) fn abandon_request(&mut self, request: RequestId, channel: ChannelId) {
        let Some(mut slot) = self.requests.remove(&request) else {
            return;
        };
        if let RequestSlot::Waiting(waker) = &mut slot {
            self.dead.extend(waker.take());
        }
        if self.cancels.contains_key(&request) {
            return;
        }
        if let Ok(mut view) = self.conn.channel(channel) {
            match slot {
                RequestSlot::Waiting(_) => view.abandon(request),
                RequestSlot::Done(Err(_)) | RequestSlot::Done(Ok(Reply::Got(None))) => {}
                RequestSlot::Done(Ok(Reply::Got(Some((delivery, _))))) => {
                    view.give_back(&delivery);
                }
                RequestSlot::Done(Ok(
                    Reply::Channel(_) | Reply::Committed(_) | Reply::RolledBack(_),
                )) => {
                    view.close_when_settled(None);
                }
                RequestSlot::Done(Ok(Reply::Method(method))) => {
                    if let MethodId::CONFIRM_SELECT_OK | MethodId::TX_SELECT_OK = method.id() {
                        view.close_when_settled(None);
                    }
                }
            }
        }
        // If it was a consume: the consumer is cancelled, and what came for it goes back.
        self.drop_consumer(ConsumerId(request), &mut VecDeque::new());
    }
}
