use std::io;
use std::net::{Ipv4Addr, TcpListener};

use rand::Rng;

/// The ports of one node.
pub(super) struct Ports {
    pub(super) amqp: u16,
    pub(super) tls: Option<u16>,
    pub(super) distribution: u16,
}

impl Ports {
    pub(super) fn choose(tls: bool) -> io::Result<Self> {
        // Held until all are chosen, so that they differ.
        let (amqp, _hold_amqp) = free_port()?;
        let (distribution, _hold_distribution) = free_port()?;
        let held = tls.then(free_port).transpose()?;
        Ok(Self {
            amqp,
            tls: held.map(|(port, _hold)| port),
            distribution,
        })
    }
}

/// A port that nobody uses and that the system gives to nobody else: below its range for outgoing connections, so that
/// a node finds it free when it comes back after a restart.
fn free_port() -> io::Result<(u16, TcpListener)> {
    let mut rng = rand::rng();
    let mut last = None;
    for _ in 0..100 {
        let port = rng.random_range(10_000..32_000);
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok((port, listener)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("a hundred attempts were made"))
}
