//! Telling which publish a returned message is of.

use std::hash::{DefaultHasher, Hash, Hasher};

use amqp_codec::basic::Properties;
use amqp_codec::field::TableMap;
use amqp_codec::{Limits, ReplyCode, ShortStr};

use crate::message::Publication;
use crate::outcome::Match;

/// The header that ties a return to its publish where [`ConfirmOptions::tag_returns`](super::ConfirmOptions::tag_returns)
/// asks for it. Its value is the publish's number on its channel, in decimal.
pub const RETURN_TAG: ShortStr<'static> = ShortStr::from_static("x-return-tag");

/// The broker strips this header from what it routes and returns (RabbitMQ's sender-selected distribution).
const BCC: &str = "BCC";

/// How much longer headers may come back, in bytes: so many times what was sent, as integers may take more room, and so
/// much that was added. Each open publish is held against them, so that they must not be as long as a server likes.
const GROWN_AT_MOST: (usize, usize) = (8, 1024);

/// A basic.return with its content.
#[derive(Debug)]
pub(crate) struct IncomingReturn<'a> {
    pub(crate) code: ReplyCode,
    /// It is of a publish with a number below this.
    pub(crate) before: u64,
    pub(crate) text: ShortStr<'a>,
    pub(crate) exchange: &'a [u8],
    pub(crate) routing_key: &'a [u8],
    pub(crate) properties: Properties<'a>,
    /// Its headers; `None` where they are malformed.
    pub(crate) headers: Option<TableMap<'a>>,
    pub(crate) body: &'a [u8],
    /// Whether this channel tags its publishes.
    pub(crate) tagged: bool,
    pub(crate) limits: &'a Limits,
}

impl IncomingReturn<'_> {
    /// The publish's number, where the channel tags its publishes and the header came back.
    pub(crate) fn tag(&self) -> Option<u64> {
        if !self.tagged {
            return None;
        }
        let headers = self.properties.headers(self.limits).ok()??;
        headers.get_str(RETURN_TAG.as_bytes())?.parse().ok()
    }
}

/// How many headers were added to what was sent. The fewer, the better a return fits a publish: another one
/// may have been sent with a part of the same headers.
pub(crate) type Added = usize;

/// Whether a return can be of this publish: mandatory, and equal in all that a broker echoes. The bodies
/// are left to the caller.
pub(crate) fn fit(returned: &IncomingReturn<'_>, sent: &Publication) -> Option<Added> {
    let address = sent.message.is_mandatory()
        && sent.routing_key.as_bytes() == returned.routing_key
        && sent.exchange.as_bytes() == returned.exchange;
    let properties = sent.message.properties();
    if address && same_properties(properties, &returned.properties) {
        fit_of_headers(properties, returned)
    } else {
        None
    }
}

/// Whether every property that was sent came back, headers apart.
fn same_properties(sent: &Properties<'_>, returned: &Properties<'_>) -> bool {
    sent.content_type == returned.content_type
        && sent.content_encoding == returned.content_encoding
        && sent.delivery_mode == returned.delivery_mode
        && sent.priority == returned.priority
        && sent.correlation_id == returned.correlation_id
        && sent.reply_to == returned.reply_to
        && sent.expiration == returned.expiration
        && sent.message_id == returned.message_id
        && sent.timestamp == returned.timestamp
        && sent.kind == returned.kind
        && sent.user_id == returned.user_id
        && sent.app_id == returned.app_id
        && sent.cluster_id == returned.cluster_id
}

/// Headers are compared as maps: brokers re-encode them (sorted, duplicates dropped, integers and
/// booleans in another form), strip BCC, and may add some of their own.
fn fit_of_headers(sent: &Properties<'_>, returned: &IncomingReturn<'_>) -> Option<Added> {
    // Relayed byte for byte is the common case.
    if sent.headers == returned.properties.headers {
        return Some(0);
    }
    let len = |properties: &Properties<'_>| {
        let headers = properties.headers.as_ref();
        headers.map_or(0, |headers| headers.as_bytes().len())
    };
    let (times, more) = GROWN_AT_MOST;
    if len(&returned.properties) > len(sent).saturating_mul(times).saturating_add(more) {
        return None;
    }
    let sent = sent.headers(returned.limits).ok()?.unwrap_or_default();
    returned.headers.as_ref()?.beyond(&sent, &[BCC])
}

/// A publication without its body, of which a digest is left.
#[derive(Debug)]
pub(crate) struct Remains {
    publication: Publication,
    body: BodyDigest,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BodyDigest {
    len: usize,
    hash: u64,
}

impl Remains {
    pub(crate) fn of(publication: &Publication) -> Self {
        let Publication {
            exchange,
            routing_key,
            message,
        } = publication;
        Remains {
            publication: Publication {
                exchange: exchange.clone(),
                routing_key: routing_key.clone(),
                message: message.without_body(),
            },
            body: BodyDigest::of(message.body()),
        }
    }

    /// As [`fit`], the body included.
    pub(crate) fn fit(&self, returned: &IncomingReturn<'_>, body: &BodyDigest) -> Option<Added> {
        if self.body != *body {
            return None;
        }
        fit(returned, &self.publication)
    }
}

impl BodyDigest {
    pub(crate) fn of(body: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        BodyDigest {
            len: body.len(),
            hash: hasher.finish(),
        }
    }
}

/// The best of the publishes that a return can be of: those with the fewest headers added on the way, of
/// them the first after the last returned one.
pub(crate) struct Search {
    last_returned: u64,
    before: u64,
    added: Added,
    count: usize,
    first: Option<u64>,
    first_after_last: Option<u64>,
}

impl Search {
    pub(crate) fn new(last_returned: u64, before: u64) -> Self {
        Search {
            last_returned,
            before,
            added: Added::MAX,
            count: 0,
            first: None,
            first_after_last: None,
        }
    }

    pub(crate) fn consider(&mut self, tag: u64, fit: Option<Added>) {
        if tag >= self.before {
            return;
        }
        let Some(added) = fit.filter(|added| *added <= self.added) else {
            return;
        };
        if added < self.added {
            *self = Search {
                added,
                ..Search::new(self.last_returned, self.before)
            };
        }
        self.count = self.count.saturating_add(1);
        self.first = Some(self.first.map_or(tag, |first| first.min(tag)));
        if tag > self.last_returned {
            let first = self.first_after_last;
            self.first_after_last = Some(first.map_or(tag, |first| first.min(tag)));
        }
    }

    /// The publish, and whether there was more than one to choose from.
    pub(crate) fn result(&self) -> (Option<u64>, Match) {
        let matched = if self.count > 1 {
            Match::Order
        } else {
            Match::Unique
        };
        (self.first_after_last.or(self.first), matched)
    }
}
