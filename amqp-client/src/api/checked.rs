//! Methods made of what callers say, or why they are not: what every broker would refuse is refused here, before
//! anything is sent. Who wants to see a broker refuse speaks through [`proto`](crate::proto) or the codec.

use amqp_codec::{ShortStr, Table, TooLong, basic, exchange, queue, short};

use super::consume::DIRECT_REPLY_TO;
use super::{Consume, ExchangeDeclare, QueueDeclare};
use crate::error::UsageError;

/// A name or key that fits a short string.
pub(super) fn short<'a>(
    name: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
) -> Result<ShortStr<'a>, UsageError> {
    name.try_into()
        .map_err(|error| UsageError::StringTooLong(error.into()))
}

pub(super) fn exchange_declare(
    declare: &ExchangeDeclare,
) -> Result<exchange::Declare<'_>, UsageError> {
    let method = declare.method()?;
    not_default(&method.exchange)?;
    // What exists may be declared again: whether it is the same is for the broker to say.
    if !method.passive && !is_predefined(&method.exchange) {
        not_reserved(&method.exchange)?;
    }
    finite(&method.arguments)?;
    Ok(method.clone())
}

pub(super) fn exchange_delete<'a>(
    name: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    if_unused: bool,
) -> Result<exchange::Delete<'a>, UsageError> {
    let exchange = short(name)?;
    not_default(&exchange)?;
    not_reserved(&exchange)?;
    Ok(exchange::Delete {
        exchange,
        if_unused,
        ..Default::default()
    })
}

pub(super) fn exchange_bind<'a>(
    destination: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    source: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    arguments: Table<'a>,
) -> Result<exchange::Bind<'a>, UsageError> {
    let (destination, source) = (short(destination)?, short(source)?);
    not_default(&destination)?;
    not_default(&source)?;
    finite(&arguments)?;
    Ok(exchange::Bind {
        destination,
        source,
        routing_key: short(routing_key)?,
        arguments,
        ..Default::default()
    })
}

pub(super) fn exchange_unbind<'a>(
    destination: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    source: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    arguments: Table<'a>,
) -> Result<exchange::Unbind<'a>, UsageError> {
    let bind = exchange_bind(destination, source, routing_key, arguments)?;
    Ok(exchange::Unbind {
        destination: bind.destination,
        source: bind.source,
        routing_key: bind.routing_key,
        arguments: bind.arguments,
        ..Default::default()
    })
}

pub(super) fn queue_declare(declare: &QueueDeclare) -> Result<queue::Declare<'_>, UsageError> {
    let method = declare.method()?;
    if !method.passive {
        not_reserved(&method.queue)?;
    }
    finite(&method.arguments)?;
    Ok(method.clone())
}

pub(super) fn queue_bind<'a>(
    queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    exchange: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    arguments: Table<'a>,
) -> Result<queue::Bind<'a>, UsageError> {
    let exchange = short(exchange)?;
    not_default(&exchange)?;
    finite(&arguments)?;
    Ok(queue::Bind {
        queue: short(queue)?,
        exchange,
        routing_key: short(routing_key)?,
        arguments,
        ..Default::default()
    })
}

pub(super) fn queue_unbind<'a>(
    queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    exchange: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    arguments: Table<'a>,
) -> Result<queue::Unbind<'a>, UsageError> {
    let bind = queue_bind(queue, exchange, routing_key, arguments)?;
    Ok(queue::Unbind {
        queue: bind.queue,
        exchange: bind.exchange,
        routing_key: bind.routing_key,
        arguments: bind.arguments,
        ..Default::default()
    })
}

pub(super) fn queue_purge<'a>(
    queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
) -> Result<queue::Purge<'a>, UsageError> {
    Ok(queue::Purge {
        queue: short(queue)?,
        ..Default::default()
    })
}

pub(super) fn consume(consume: &Consume) -> Result<&basic::Consume<'static>, UsageError> {
    let method = consume.method()?;
    if method.queue == DIRECT_REPLY_TO && !method.no_ack {
        return Err(UsageError::ReplyToWithAcks);
    }
    finite(&method.arguments)?;
    Ok(method)
}

fn not_default(exchange: &ShortStr<'_>) -> Result<(), UsageError> {
    match exchange.is_empty() {
        true => Err(UsageError::DefaultExchange),
        false => Ok(()),
    }
}

/// spec: names that begin with "amq." are for predeclared and standardised exchanges and queues.
fn not_reserved(name: &ShortStr<'_>) -> Result<(), UsageError> {
    match name.as_bytes().starts_with(b"amq.") {
        true => Err(UsageError::ReservedName(name.clone().into_owned())),
        false => Ok(()),
    }
}

fn is_predefined(exchange: &ShortStr<'_>) -> bool {
    const PREDEFINED: [ShortStr<'static>; 6] = [
        short!("amq.direct"),
        short!("amq.fanout"),
        short!("amq.headers"),
        short!("amq.match"),
        short!("amq.rabbitmq.trace"),
        short!("amq.topic"),
    ];
    PREDEFINED.contains(exchange)
}

/// RabbitMQ ends the connection for a float that is none.
fn finite(arguments: &Table<'_>) -> Result<(), UsageError> {
    if !arguments.has_non_finite() {
        return Ok(());
    }
    let entry = arguments.iter().find(|(name, value)| {
        let alone = Table::from([(name.clone(), value.clone())]);
        alone.has_non_finite()
    });
    let name = entry.map(|(name, _)| name.into_owned());
    Err(UsageError::InvalidArgument(name.unwrap_or_default()))
}
