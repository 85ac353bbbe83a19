//! What the broker knows: the truth that the client's word is held against.

use std::collections::{BTreeMap, BTreeSet};

use amqp_client::proto::Settle;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) connections: Vec<ConnectionTruth>,
    pub(crate) channels: Vec<ChannelTruth>,
    /// Where the channel is that introduced itself by this token.
    pub(crate) by_token: BTreeMap<u64, usize>,
    /// How often a message with this number came, in a publish that was whole.
    pub(crate) arrived: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct ConnectionTruth {
    /// The network broke it, or the broker went.
    pub(crate) broken: bool,
    /// The code of a connection.close from the broker.
    pub(crate) closed: Option<u16>,
    /// The client's connection.close came.
    pub(crate) close_came: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ChannelTruth {
    pub(crate) connection: usize,
    pub(crate) token: Option<u64>,
    /// Publishes that were worked on, in their order. In confirm mode the first has number 1.
    pub(crate) publishes: Vec<PublishTruth>,
    /// Publishes before confirm.select.
    pub(crate) unconfirmed: Vec<PublishTruth>,
    /// By tag.
    pub(crate) deliveries: BTreeMap<u64, DeliveryTruth>,
    /// The code of a channel.close from the broker.
    pub(crate) closed: Option<u16>,
    /// The client's channel.close was answered.
    pub(crate) close_came: bool,
    /// Messages in a transaction that were committed, rolled back.
    pub(crate) committed: BTreeSet<u64>,
    pub(crate) rolled_back: BTreeSet<u64>,
    /// It is in transaction mode.
    pub(crate) transacted: bool,
    /// Requests that will not be answered, confirms that will not come.
    pub(crate) forgot: bool,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct PublishTruth {
    /// What is in the body; `None` where that is empty.
    pub(crate) id: Option<u64>,
    /// Whether it was acked (or else nacked), once that was sent.
    pub(crate) acked: Option<bool>,
    /// A return of it was sent.
    pub(crate) returned: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct DeliveryTruth {
    pub(crate) consumer: String,
    /// What is in the body.
    pub(crate) id: u64,
    pub(crate) redelivered: bool,
    pub(crate) no_ack: bool,
    /// When it was sent.
    pub(crate) at: Instant,
    /// What the client said of it.
    pub(crate) settled: Option<Settle>,
    /// The client said so in a transaction.
    pub(crate) in_transaction: bool,
}

impl Truth {
    /// The channel that introduced itself by this token.
    pub(crate) fn channel(&self, token: u64) -> Option<&ChannelTruth> {
        Some(&self.channels[*self.by_token.get(&token)?])
    }
}
