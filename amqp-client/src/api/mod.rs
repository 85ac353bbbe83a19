//! The handles: cheap to clone or to move, safe to drop at any time.

mod channel;
mod checked;
mod confirm;
mod connection;
mod consume;
mod declare;
mod events;
mod methods;
mod no_wait;
mod request;
mod returns;
mod trace;
mod tx;

pub use channel::Channel;
pub use confirm::{Confirm, ConfirmChannel};
pub use connection::Connection;
pub(crate) use connection::ConnectionCore;
pub use consume::{
    Acker, Consume, Consumer, ConsumerError, DIRECT_REPLY_TO, Delivery, Got, Overflow,
};
pub use declare::{
    DeadLetterStrategy, ExchangeDeclare, ExchangeKind, HeadersMatch, LeaderLocator, QueueDeclare,
    QueueDelete, QueueInfo, QueueOverflow, QueueType, StreamOffset,
};
pub use events::{Event, Events};
pub use methods::Methods;
pub use no_wait::NoWait;
pub use returns::{Missed, Returns};
pub use tx::{Committed, TxChannel};
