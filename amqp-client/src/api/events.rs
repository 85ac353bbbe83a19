//! What happens on a connection, for those who watch it.

use std::sync::Arc;

use amqp_codec::{ReplyCode, ShortStr};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::error::Closed;
use crate::proto::ChannelId;

/// Something that happened on a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The broker has blocked the connection and takes no publishes: its reason. RabbitMQ says so at the first
    /// publish after an alarm, not at the alarm; that publish waits for its confirm until the alarm ends.
    Blocked(ShortStr<'static>),
    /// The broker takes publishes again.
    Unblocked,
    /// A channel ended: who ended it, with which code and text, at which method.
    ChannelClosed {
        /// The channel.
        channel: ChannelId,
        /// How it ended.
        closed: Arc<Closed>,
    },
    /// The server cancelled a consumer, as it does when the queue goes.
    ConsumerCancelled {
        /// Its channel.
        channel: ChannelId,
        /// Its tag.
        consumer_tag: ShortStr<'static>,
    },
    /// A message came back and belongs to no confirm. The message itself is in the channel's
    /// [`returns`](super::Methods::returns).
    Returned {
        /// Its channel.
        channel: ChannelId,
        /// Why it came back.
        code: ReplyCode,
        /// The reason in the broker's words.
        text: ShortStr<'static>,
        /// Where it was published to.
        exchange: ShortStr<'static>,
        /// And with which routing key.
        routing_key: ShortStr<'static>,
        /// The message's own id, if it has one.
        message_id: Option<ShortStr<'static>>,
    },
    /// The connection ended. Nothing follows.
    Closed(Arc<Closed>),
    /// So many events were lost because they were not read in time: see [`Limits::events`](crate::Limits::events).
    Lagged(u64),
}

/// A subscription to the events of a connection, from when it was made.
pub struct Events {
    receiver: broadcast::Receiver<Event>,
    /// Nothing follows any more.
    ended: bool,
}

impl Events {
    /// `ended`: of a connection that is over already.
    pub(super) fn new(receiver: broadcast::Receiver<Event>, ended: bool) -> Self {
        Events { receiver, ended }
    }

    /// The next event; `None` after the last one.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        match self.receiver.recv().await {
            Ok(event) => {
                self.ended = matches!(event, Event::Closed(_));
                Some(event)
            }
            Err(RecvError::Lagged(count)) => Some(Event::Lagged(count)),
            Err(RecvError::Closed) => None,
        }
    }
}
