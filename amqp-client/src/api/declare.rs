//! What to declare and delete.

use amqp_codec::{ShortStr, Table, Value, exchange, queue};

/// A queue to declare (queue.declare): not durable, not exclusive, not deleted automatically unless said.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct QueueDeclare {
    pub(super) method: queue::Declare<'static>,
}

impl QueueDeclare {
    /// A queue of this name; for an empty one the server makes a name.
    pub fn new(name: ShortStr<'static>) -> Self {
        QueueDeclare {
            method: queue::Declare {
                queue: name,
                ..Default::default()
            },
        }
    }

    /// The queue survives a restart of the broker.
    pub fn durable(mut self) -> Self {
        self.method.durable = true;
        self
    }

    /// The queue is this connection's alone, and goes with it.
    pub fn exclusive(mut self) -> Self {
        self.method.exclusive = true;
        self
    }

    /// The queue goes when its last consumer does.
    pub fn auto_delete(mut self) -> Self {
        self.method.auto_delete = true;
        self
    }

    /// Only asks whether the queue exists; what else is said here is not looked at.
    pub fn passive(mut self) -> Self {
        self.method.passive = true;
        self
    }

    /// An argument such as `x-max-length`.
    pub fn argument<'v>(mut self, name: ShortStr<'static>, value: impl Into<Value<'v>>) -> Self {
        self.method.arguments.extend([(name, value.into())]);
        self
    }

    /// All arguments at once.
    pub fn arguments(mut self, arguments: Table<'static>) -> Self {
        self.method.arguments = arguments;
        self
    }
}

/// What queue.declare-ok says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueInfo {
    /// The queue's name, which the server may have made.
    pub name: ShortStr<'static>,
    /// Messages that are ready in it; those that wait for their ack are not counted.
    pub message_count: u32,
    /// Its consumers.
    pub consumer_count: u32,
}

/// A queue to delete (queue.delete), whatever is in it and whoever consumes from it unless said.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct QueueDelete {
    pub(super) method: queue::Delete<'static>,
}

impl QueueDelete {
    /// The queue of this name.
    pub fn new(name: ShortStr<'static>) -> Self {
        QueueDelete {
            method: queue::Delete {
                queue: name,
                ..Default::default()
            },
        }
    }

    /// Only if it has no consumers.
    pub fn if_unused(mut self) -> Self {
        self.method.if_unused = true;
        self
    }

    /// Only if it is empty.
    pub fn if_empty(mut self) -> Self {
        self.method.if_empty = true;
        self
    }
}

/// An exchange to declare (exchange.declare): not durable, not deleted automatically, not internal unless said.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ExchangeDeclare {
    pub(super) method: exchange::Declare<'static>,
}

impl ExchangeDeclare {
    /// An exchange of this name and type: `direct`, `fanout`, `topic`, `headers`, or one that a plugin brings.
    pub fn new(name: ShortStr<'static>, kind: ShortStr<'static>) -> Self {
        ExchangeDeclare {
            method: exchange::Declare {
                exchange: name,
                kind,
                ..Default::default()
            },
        }
    }

    /// The exchange survives a restart of the broker.
    pub fn durable(mut self) -> Self {
        self.method.durable = true;
        self
    }

    /// The exchange goes when the last thing bound to it does.
    pub fn auto_delete(mut self) -> Self {
        self.method.auto_delete = true;
        self
    }

    /// Only other exchanges publish to it.
    pub fn internal(mut self) -> Self {
        self.method.internal = true;
        self
    }

    /// Only asks whether the exchange exists; what else is said here is not looked at.
    pub fn passive(mut self) -> Self {
        self.method.passive = true;
        self
    }

    /// An argument such as `alternate-exchange`.
    pub fn argument<'v>(mut self, name: ShortStr<'static>, value: impl Into<Value<'v>>) -> Self {
        self.method.arguments.extend([(name, value.into())]);
        self
    }
}
