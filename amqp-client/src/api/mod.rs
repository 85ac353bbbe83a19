//! The handles: cheap to clone or to move, safe to drop at any time.

mod channel;
mod confirm;
mod connection;
mod consume;
mod declare;
mod events;
mod methods;
mod request;
mod returns;
mod trace;
mod tx;

pub use channel::Channel;
pub use confirm::{Confirm, ConfirmChannel};
pub use connection::Connection;
pub(crate) use connection::ConnectionCore;
pub use consume::{Acker, Consume, Consumer, ConsumerError, Delivery, Got, Overflow};
pub use declare::{ExchangeDeclare, QueueDeclare, QueueDelete, QueueInfo};
pub use events::{Event, Events};
pub use methods::Methods;
pub use returns::{Missed, Returns};
pub use tx::{Committed, TxChannel};
