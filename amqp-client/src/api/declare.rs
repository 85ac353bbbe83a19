//! What to declare and delete, and the arguments for it.

mod exchange;
mod kinds;
mod queue;

pub use exchange::ExchangeDeclare;
pub use kinds::{
    DeadLetterStrategy, ExchangeKind, HeadersMatch, LeaderLocator, QueueOverflow, QueueType,
    StreamOffset,
};
pub use queue::{QueueDeclare, QueueDelete, QueueInfo};

use std::time::Duration;

use amqp_codec::{ShortStr, Table, TooLong, Value};

use crate::error::UsageError;
use crate::message::MAX_TTL;

/// What a builder was told that cannot be sent: the first such thing, with which the call is refused.
#[derive(Debug, Clone, Default)]
pub(super) struct Refused(Option<UsageError>);

impl Refused {
    /// The name, or the empty one if it is too long.
    pub(super) fn name(
        &mut self,
        name: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
    ) -> ShortStr<'static> {
        name.try_into().unwrap_or_else(|error| {
            self.because(error.into().into());
            ShortStr::EMPTY
        })
    }

    /// Sets an argument, in place of one of the same name.
    pub(super) fn set<'v>(
        &mut self,
        arguments: &mut Table<'static>,
        name: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
        value: impl Into<Value<'v>>,
    ) {
        let set = match name.try_into() {
            Ok(name) => arguments.insert(name, value),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = set {
            self.because(error.into());
        }
    }

    /// Sets an argument to a value that may be beyond what brokers take.
    pub(super) fn set_checked<'v>(
        &mut self,
        arguments: &mut Table<'static>,
        name: ShortStr<'static>,
        value: Option<impl Into<Value<'v>>>,
    ) {
        match value {
            Some(value) => self.set(arguments, name, value),
            None => self.because(UsageError::InvalidArgument(name)),
        }
    }

    fn because(&mut self, error: UsageError) {
        self.0.get_or_insert(error);
    }

    /// # Errors
    /// What was remembered.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        match &self.0 {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

/// Whole milliseconds, as far as brokers take them.
fn millis(duration: Duration) -> Option<i64> {
    let millis = duration.as_millis();
    (duration <= MAX_TTL).then_some(millis as i64)
}

/// Counts and sizes are signed on the wire.
fn length(length: u64) -> Option<i64> {
    i64::try_from(length).ok()
}
