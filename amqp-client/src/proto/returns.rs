//! Telling which publish a returned message is of.

use amqp_codec::basic::Properties;
use amqp_codec::{Limits, ReplyCode, ShortStr};

use crate::message::Publication;

/// The header that ties a return to its publish where [`ConfirmOptions::tag_returns`](super::ConfirmOptions::tag_returns)
/// asks for it. Its value is the publish's number on its channel, in decimal.
pub const RETURN_TAG: ShortStr<'static> = ShortStr::from_static("x-return-tag");

/// The broker strips this header from what it routes and returns (RabbitMQ's sender-selected distribution).
const BCC: &str = "BCC";

/// A basic.return with its content.
#[derive(Debug)]
pub(crate) struct IncomingReturn<'a> {
    pub(crate) code: ReplyCode,
    pub(crate) text: ShortStr<'a>,
    pub(crate) exchange: &'a [u8],
    pub(crate) routing_key: &'a [u8],
    pub(crate) properties: Properties<'a>,
    pub(crate) body: &'a [u8],
    /// Whether this channel tags its publishes.
    pub(crate) tagged: bool,
}

impl IncomingReturn<'_> {
    /// The publish's number, where the channel tags its publishes and the header came back.
    pub(crate) fn tag(&self) -> Option<u64> {
        if !self.tagged {
            return None;
        }
        let headers = self.properties.headers(&Limits::default()).ok()??;
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
        fit_of_headers(properties, &returned.properties)
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
fn fit_of_headers(sent: &Properties<'_>, returned: &Properties<'_>) -> Option<Added> {
    // Relayed byte for byte is the common case.
    if sent.headers == returned.headers {
        return Some(0);
    }
    let limits = Limits::default();
    let sent = sent.headers(&limits).ok()?.unwrap_or_default();
    let returned = returned.headers(&limits).ok()?.unwrap_or_default();
    let added = || {
        returned
            .iter()
            .filter(|(key, _)| !sent.contains_key(key.as_bytes()))
    };
    returned
        .contains_as_map(&sent, &[BCC])
        .then(|| added().count())
}
