//! A broker that keeps nothing: it counts what is published, acks it, and delivers made-up messages.
//!
//! It exists to be faster than every client, so that what is measured is the client. It looks at no more of a frame
//! than it must, takes any credentials and any names, and answers every `declare` and `bind` with success. It does
//! check that frames are whole and that contents come in order: a client that is fast because it is wrong is closed
//! with 501 or 505.
//!
//! - Confirms: [`Config::ack_every`].
//! - Consuming from a queue named `deliver:COUNT:SIZE` brings COUNT messages of SIZE octets, as fast as the socket and
//!   basic.qos (whose prefetch count holds for the channel as a whole) allow.
//! - Nothing is ever returned, nacked, blocked or cancelled from its side.
//! - Heartbeats are answered by heartbeats and otherwise not sent.

mod connection;
mod deliver;
mod flow;
pub mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub use deliver::Plan;

/// How a null broker behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// 0 or 1: each publish is confirmed by an ack of its own. N: each Nth by one with `multiple`; those that are left
    /// when the client has been silent for a few milliseconds are acked then.
    pub ack_every: u64,
    /// Never acks the first publish of a channel; for acks of single publishes.
    pub hold_first: bool,
    /// What a consumer gets from a queue whose name does not say it.
    pub plan: Plan,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            ack_every: 1,
            hold_first: false,
            plan: Plan { count: 0, size: 0 },
        }
    }
}

/// A running null broker. It listens for as long as the process lives.
#[derive(Debug)]
pub struct NullBroker {
    address: SocketAddr,
    counts: Arc<Counts>,
}

impl NullBroker {
    /// Listens on a free port of 127.0.0.1. Each connection gets a thread, and each consumer.
    ///
    /// # Errors
    /// When there is no port or no thread to be had.
    pub fn start(config: Config) -> io::Result<NullBroker> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        thread::Builder::new()
            .name("accept".into())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    let counts = Arc::clone(&shared);
                    thread::spawn(move || connection::serve(stream, config, &counts));
                }
            })?;
        Ok(NullBroker { address, counts })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many messages have been published to it. Brought up to date after each read of a socket.
    pub fn published(&self) -> u64 {
        self.counts.published.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
struct Counts {
    published: AtomicU64,
}
