use amqp_codec::{ShortStr, Table, TooLong, Value, exchange, short};

use super::{ExchangeKind, Refused};
use crate::error::UsageError;

/// An exchange to declare (exchange.declare): not durable, not deleted automatically, not internal unless said.
///
/// What is wrong with it is remembered, and the call that declares it is refused.
///
/// ```
/// use amqp_client::{ExchangeDeclare, ExchangeKind};
///
/// // What this exchange cannot route goes to another one, instead of being dropped or returned.
/// let orders = ExchangeDeclare::new("orders", ExchangeKind::Topic)
///     .durable()
///     .alternate_exchange("unrouted");
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ExchangeDeclare {
    method: exchange::Declare<'static>,
    refused: Refused,
}

impl ExchangeDeclare {
    /// An exchange of this name and type. The name has up to 255 bytes; the empty one is the default exchange, which
    /// cannot be declared.
    pub fn new(
        name: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
        kind: impl Into<ExchangeKind>,
    ) -> Self {
        let mut refused = Refused::default();
        let method = exchange::Declare {
            exchange: refused.name(name),
            kind: kind.into().into(),
            ..Default::default()
        };
        ExchangeDeclare { method, refused }
    }

    /// The exchange survives a restart of the broker.
    pub fn durable(mut self) -> Self {
        self.method.durable = true;
        self
    }

    /// The exchange goes when the last thing bound to it does; not before it had one.
    pub fn auto_delete(mut self) -> Self {
        self.method.auto_delete = true;
        self
    }

    /// Only other exchanges publish to it: RabbitMQ closes the channel (403) for a publish of a client's.
    pub fn internal(mut self) -> Self {
        self.method.internal = true;
        self
    }

    /// Only asks whether the exchange exists; what else is said here is not looked at.
    pub fn passive(mut self) -> Self {
        self.method.passive = true;
        self
    }

    /// Where messages go that this exchange cannot route (RabbitMQ: `alternate-exchange`). A mandatory message that
    /// goes there counts as routed.
    pub fn alternate_exchange(
        mut self,
        name: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
    ) -> Self {
        let name = self.refused.name(name);
        self.argument(short!("alternate-exchange"), name)
    }

    /// Any other argument, such as one that a plugin knows. Replaces one of the same name.
    pub fn argument<'v>(
        mut self,
        name: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
        value: impl Into<Value<'v>>,
    ) -> Self {
        self.refused.set(&mut self.method.arguments, name, value);
        self
    }

    /// All arguments at once, in place of those set before.
    pub fn arguments(mut self, arguments: Table<'static>) -> Self {
        self.method.arguments = arguments;
        self
    }

    /// The method, unless something cannot be sent.
    pub(in crate::api) fn method(&self) -> Result<&exchange::Declare<'static>, UsageError> {
        self.refused.check()?;
        Ok(&self.method)
    }
}
