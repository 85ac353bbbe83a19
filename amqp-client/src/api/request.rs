//! Waiting for the answer to a synchronous method.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::Instrument;

use super::trace::rpc_span;
use crate::driver::Shared;
use crate::error::{Closed, Error, Initiator, Operation, UsageError};
use crate::proto::{ChannelId, Reply, RequestError, RequestId};

/// A synchronous method that was sent, or waits for its turn. Dropped before it is answered, the answer goes
/// to nobody and what it brings is undone.
pub(super) struct Call {
    shared: Arc<Shared>,
    request: RequestId,
    channel: ChannelId,
    done: bool,
}

impl Call {
    pub(super) fn new(shared: Arc<Shared>, request: RequestId, channel: ChannelId) -> Self {
        Call {
            shared,
            request,
            channel,
            done: false,
        }
    }

    /// One on the connection itself, whose answer brings nothing that would have to be undone.
    pub(super) fn of_connection(shared: Arc<Shared>, request: RequestId) -> Self {
        // No channel has this number: there is none to undo anything on.
        let none = ChannelId {
            connection: 0,
            incarnation: 0,
            number: 0,
        };
        Call::new(shared, request, none)
    }

    /// The answer, taken apart by `pick`, within the deadline.
    pub(super) async fn within<R>(
        self,
        deadline: Duration,
        operation: Operation,
        pick: impl FnOnce(Reply) -> Option<R>,
    ) -> Result<R, Error> {
        let span = rpc_span(self.channel, operation);
        match tokio::time::timeout(deadline, self).instrument(span).await {
            // proto has matched the reply to its request.
            Ok(Ok(reply)) => pick(reply).ok_or_else(|| UsageError::WrongMode.into()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Error::timeout(operation, deadline)),
        }
    }
}

impl Future for Call {
    type Output = Result<Reply, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.shared.lock().poll_request(self.request, cx.waker());
        match answer {
            Some(result) => {
                self.done = true;
                Poll::Ready(result)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.done {
            self.shared
                .with(|state| state.abandon_request(self.request, self.channel));
        }
    }
}

/// A close of ours that ended as it should, or how it ended instead.
pub(super) fn closing(closed: Arc<Closed>) -> Result<(), Error> {
    match (closed.initiator, &closed.cause) {
        (Initiator::Client, None) => Ok(()),
        _ => Err(UsageError::ConnectionClosed(closed).into()),
    }
}
