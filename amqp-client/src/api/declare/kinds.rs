//! Words of the protocol that a caller might misspell.

use amqp_codec::{ShortStr, Table, Value, short};

/// How an exchange routes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExchangeKind {
    /// To what is bound with the message's routing key.
    Direct,
    /// To everything that is bound.
    Fanout,
    /// To what is bound with a pattern of words that the routing key matches: words are separated by dots, `*` stands
    /// for one, `#` for any number.
    Topic,
    /// To what is bound with arguments that the headers match: [`HeadersMatch`].
    Headers,
    /// A type that a plugin brings. A type that the broker does not know is refused: the channel closes, on RabbitMQ
    /// before 4.0 the connection.
    Other(ShortStr<'static>),
}

impl From<ExchangeKind> for ShortStr<'static> {
    fn from(kind: ExchangeKind) -> Self {
        match kind {
            ExchangeKind::Direct => short!("direct"),
            ExchangeKind::Fanout => short!("fanout"),
            ExchangeKind::Topic => short!("topic"),
            ExchangeKind::Headers => short!("headers"),
            ExchangeKind::Other(name) => name,
        }
    }
}

/// By its name on the wire.
impl From<ShortStr<'static>> for ExchangeKind {
    fn from(name: ShortStr<'static>) -> Self {
        match name.as_bytes() {
            b"direct" => ExchangeKind::Direct,
            b"fanout" => ExchangeKind::Fanout,
            b"topic" => ExchangeKind::Topic,
            b"headers" => ExchangeKind::Headers,
            _ => ExchangeKind::Other(name),
        }
    }
}

macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)+ }
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$word_doc])* $variant,)+
        }

        impl $name {
            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }
    )+};
}

words! {
    /// How a queue keeps its messages (`x-queue-type`).
    QueueType {
        /// On one node.
        Classic = "classic",
        /// Replicated.
        Quorum = "quorum",
        /// A replicated log: messages stay when they are consumed, and are read from any place.
        Stream = "stream",
    }

    /// What happens to messages that a full queue has no room for (`x-overflow`).
    QueueOverflow {
        /// The oldest message is dropped or dead-lettered; what the broker does unless said.
        DropHead = "drop-head",
        /// The new message is refused: publishers in confirm mode get a nack, a transaction fails.
        RejectPublish = "reject-publish",
        /// The same, and the refused message is dead-lettered. Classic queues only.
        RejectPublishDlx = "reject-publish-dlx",
    }

    /// Whether dead letters of a quorum queue may be lost on their way (`x-dead-letter-strategy`).
    DeadLetterStrategy {
        /// They may; what the broker does unless said.
        AtMostOnce = "at-most-once",
        /// They stay until the queue they go to has them. Needs [`QueueOverflow::RejectPublish`].
        AtLeastOnce = "at-least-once",
    }

    /// On which node of a cluster the leader of a queue starts (`x-queue-leader-locator`).
    LeaderLocator {
        /// On the one that this client is connected to.
        ClientLocal = "client-local",
        /// On one with few leaders.
        Balanced = "balanced",
    }

    /// Which headers must match a binding to an exchange of type `headers` (`x-match`).
    HeadersMatch {
        /// All that the binding names; those that begin with `x-` are not looked at.
        All = "all",
        /// At least one; those that begin with `x-` are not looked at.
        Any = "any",
        /// All, whatever they begin with (RabbitMQ since 3.10).
        AllWithX = "all-with-x",
        /// At least one, whatever it begins with (RabbitMQ since 3.10).
        AnyWithX = "any-with-x",
    }
}

impl HeadersMatch {
    /// The arguments of a binding for messages with these headers. A header whose value is [`Value::Void`] only has to
    /// be there.
    ///
    /// ```no_run
    /// use amqp_client::{Channel, HeadersMatch, codec::table};
    ///
    /// # async fn example(channel: Channel) -> Result<(), amqp_client::error::Error> {
    /// let red_and_large = HeadersMatch::All.of(table! { "colour" => "red", "size" => 3 });
    /// channel.queue_bind("large", "paint", "", red_and_large).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of(self, headers: Table<'_>) -> Table<'static> {
        let how = (short!("x-match"), Value::from(self.as_str()));
        std::iter::once(how).chain(&headers).collect()
    }
}

/// Where a consumer of a stream begins (`x-stream-offset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamOffset {
    /// At the oldest message there is.
    First,
    /// At the last chunk of messages that was written.
    Last,
    /// With what is published from now on; what the broker does unless said.
    Next,
    /// At this place in the stream, counted from 0. At most `i64::MAX`.
    Offset(u64),
    /// At messages published from this time on, in seconds since 1970-01-01T00:00:00Z.
    Timestamp(u64),
}

impl StreamOffset {
    pub(in crate::api) fn value(self) -> Option<Value<'static>> {
        Some(match self {
            StreamOffset::First => "first".into(),
            StreamOffset::Last => "last".into(),
            StreamOffset::Next => "next".into(),
            StreamOffset::Offset(offset) => super::length(offset)?.into(),
            StreamOffset::Timestamp(seconds) => Value::Timestamp(seconds),
        })
    }
}
