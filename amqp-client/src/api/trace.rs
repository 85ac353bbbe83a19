//! Spans and their attributes, by the names of OpenTelemetry's messaging conventions.
//!
//! A span is a child of the caller's, so that a trace goes on through the publish and the RPC. No attribute
//! holds a payload, a header's value or a secret.

use std::fmt;

use amqp_codec::ShortStr;
use tracing::field::Empty;
use tracing::{Level, Span};

use super::channel::ChannelCore;
use crate::error::{OneLine, Operation};
use crate::message::Publication;
use crate::outcome::Outcome;
use crate::proto::{self, ChannelId, PublishSeq};

/// The target of spans and events about single messages.
macro_rules! message_target {
    () => {
        "amqp_client::publish"
    };
}

/// From the publish to its outcome. Costs a pointer where nobody listens.
pub(super) struct PublishSpan(Option<Box<Span>>);

impl PublishSpan {
    /// None, unless somebody listens: the rest is then not looked at.
    #[inline]
    pub(super) fn begin(core: &ChannelCore, unsent: Option<&Publication>) -> Self {
        if !tracing::level_enabled!(Level::DEBUG) {
            return PublishSpan(None);
        }
        PublishSpan(unsent.and_then(|unsent| begin_publish(core, unsent)))
    }

    /// The publish has its outcome.
    #[inline]
    pub(super) fn end(self, core: &ChannelCore, seq: PublishSeq, outcome: &Outcome) {
        if self.0.is_some() || tracing::level_enabled!(Level::TRACE) {
            end_publish(self.0, core, seq, outcome);
        }
    }

    /// It was not sent.
    pub(super) fn refused(self) {
        if let Some(span) = self.0 {
            span.record("outcome", "refused");
            span.record("error.type", "refused");
        }
    }
}

#[cold]
fn begin_publish(core: &ChannelCore, publication: &Publication) -> Option<Box<Span>> {
    let Publication {
        exchange,
        routing_key,
        message,
    } = publication;
    let properties = message.properties();
    tracing::trace!(
        target: message_target!(),
        channel = core.id.number,
        %exchange,
        %routing_key,
        message_id = ?properties.message_id,
        mandatory = message.is_mandatory(),
        body_size = message.body().len(),
        "publish"
    );
    if !tracing::enabled!(target: message_target!(), Level::DEBUG) {
        return None;
    }
    let destination = Destination {
        exchange,
        routing_key,
    };
    let span = tracing::debug_span!(
        target: message_target!(),
        "publish",
        otel.name = %format_args!("publish {destination}"),
        otel.kind = "producer",
        messaging.system = "rabbitmq",
        messaging.operation.name = "publish",
        messaging.operation.r#type = "send",
        messaging.destination.name = %destination,
        messaging.rabbitmq.destination.routing_key = %routing_key,
        messaging.message.id = properties.message_id.as_ref().map(tracing::field::display),
        messaging.message.conversation_id = properties.correlation_id.as_ref().map(tracing::field::display),
        messaging.message.body.size = message.body().len(),
        channel = core.id.number,
        mandatory = message.is_mandatory(),
        outcome = Empty,
        error.r#type = Empty,
    );
    Some(Box::new(span))
}

#[cold]
fn end_publish(span: Option<Box<Span>>, core: &ChannelCore, seq: PublishSeq, outcome: &Outcome) {
    let name = match outcome {
        Outcome::Acked => "acked",
        Outcome::Returned(_) => "returned",
        Outcome::Nacked(_) => "nacked",
        Outcome::Unknown { .. } => "unknown",
    };
    if let Some(span) = span {
        span.record("outcome", name);
        if !outcome.is_acked() {
            span.record("error.type", name);
        }
    }
    let (channel, seq) = (core.id.number, seq.0);
    tracing::trace!(target: message_target!(), channel, seq, outcome = name, "settled");
}

/// One incarnation of a channel, within its connection's span.
pub(super) fn channel_span(connection: &Span, channel: ChannelId) -> Span {
    tracing::debug_span!(
        parent: connection,
        "channel",
        messaging.system = "rabbitmq",
        channel = channel.number,
        incarnation = channel.incarnation,
    )
}

/// From a synchronous method to its answer.
pub(super) fn rpc_span(channel: ChannelId, operation: Operation) -> Span {
    let name: &dyn fmt::Display = match &operation {
        Operation::Reply(method) => method,
        operation => operation,
    };
    tracing::debug_span!(
        "rpc",
        otel.name = %name,
        otel.kind = "client",
        messaging.system = "rabbitmq",
        channel = channel.number,
    )
}

/// A delivery, for whoever processes it.
pub(super) fn process_span(delivery: &proto::Delivery, queue: &ShortStr<'_>) -> Span {
    let (exchange, routing_key) = (delivery.exchange(), delivery.routing_key());
    let source = Source {
        destination: Destination {
            exchange: &exchange,
            routing_key: &routing_key,
        },
        queue,
    };
    let properties = delivery.properties();
    let id = |id| tracing::field::display(OneLine(id));
    tracing::debug_span!(
        "process",
        otel.name = %format_args!("process {source}"),
        otel.kind = "consumer",
        messaging.system = "rabbitmq",
        messaging.operation.name = "process",
        messaging.operation.r#type = "process",
        messaging.destination.name = %source,
        messaging.rabbitmq.destination.routing_key = %OneLine(&routing_key),
        messaging.rabbitmq.message.delivery_tag = delivery.tag().number(),
        messaging.message.id = properties.message_id.as_ref().map(id),
        messaging.message.conversation_id = properties.correlation_id.as_ref().map(id),
        messaging.message.body.size = delivery.body().len(),
        channel = delivery.tag().channel().number,
    )
}

/// Where a message was published to: exchange and routing key, empty ones left out.
struct Destination<'a> {
    exchange: &'a ShortStr<'a>,
    routing_key: &'a ShortStr<'a>,
}

impl fmt::Display for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Destination {
            exchange,
            routing_key,
        } = self;
        match (exchange.is_empty(), routing_key.is_empty()) {
            (false, false) => write!(f, "{}:{}", OneLine(exchange), OneLine(routing_key)),
            (false, true) => OneLine(exchange).fmt(f),
            (true, false) => OneLine(routing_key).fmt(f),
            (true, true) => f.write_str("amq.default"),
        }
    }
}

/// The same, with the queue it came from unless that is the routing key.
struct Source<'a> {
    destination: Destination<'a>,
    queue: &'a ShortStr<'a>,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source { destination, queue } = self;
        let published_to = [destination.exchange, destination.routing_key];
        if queue.is_empty() || *queue == destination.routing_key {
            destination.fmt(f)
        } else if published_to.iter().all(|part| part.is_empty()) {
            OneLine(queue).fmt(f)
        } else {
            write!(f, "{destination}:{}", OneLine(queue))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_leave_out_what_is_empty() {
        let name = |exchange: &'static str, routing_key: &'static str, queue: &'static str| {
            let (exchange, routing_key, queue) = (
                ShortStr::from_static(exchange),
                ShortStr::from_static(routing_key),
                ShortStr::from_static(queue),
            );
            let destination = Destination {
                exchange: &exchange,
                routing_key: &routing_key,
            };
            Source {
                destination,
                queue: &queue,
            }
            .to_string()
        };
        assert_eq!(name("ex", "key", ""), "ex:key");
        assert_eq!(name("ex", "", ""), "ex");
        assert_eq!(name("", "q", "q"), "q");
        assert_eq!(name("", "", ""), "amq.default");
        assert_eq!(name("ex", "key", "q"), "ex:key:q");
        assert_eq!(name("ex", "", "q"), "ex:q");
        assert_eq!(name("", "", "q"), "q");
        // Whoever publishes chooses the key, and does nothing to a log by it.
        assert_eq!(name("", "a\nb\x1b[2J", "q"), "a\\nb\\u{1b}[2J:q");
    }
}
