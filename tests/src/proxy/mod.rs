//! A TCP proxy with faults: between a client and a broker it cuts the connection at any byte, holds, delays and
//! throttles, each direction on its own, as planned beforehand or as the test says while it runs.

mod flow;
mod link;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::wire::DEADLINE;

pub use flow::{Faults, Flow, Span};
pub use link::{Ending, Link};

/// What is to happen to a connection. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// To what the client sends.
    pub to_server: Faults,
    /// To what the server sends.
    pub to_client: Faults,
}

/// A proxy, listening on a free port of the loopback address. Dropped, it drops all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    target: Mutex<SocketAddr>,
    plans: Mutex<Plans>,
    links: watch::Sender<Vec<Link>>,
    refuse: watch::Sender<bool>,
    listening: watch::Sender<bool>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("links", &self.links.borrow())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Plans {
    next: VecDeque<Plan>,
    every: Option<Box<dyn FnMut(usize) -> Plan + Send>>,
}

impl Proxy {
    /// Forwards to `target`.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            plans: Mutex::default(),
            links: watch::Sender::new(Vec::new()),
            refuse: watch::Sender::new(false),
            listening: watch::Sender::new(true),
        });
        let task = tokio::spawn(accept(listener, address, Arc::clone(&shared)));
        Self {
            address,
            shared,
            task,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The user guest on a vhost behind the proxy, whose name must need no percent-encoding or have it.
    pub fn uri(&self, vhost: &str) -> String {
        format!("amqp://guest:guest@{}/{vhost}", self.address)
    }

    /// Plans the next connection that has no plan yet: called twice, it plans the next two.
    pub fn plan(&self, plan: Plan) {
        lock(&self.shared.plans).next.push_back(plan);
    }

    /// Plans every connection without a plan of its own; it is given the connection's number, 0 for the first.
    pub fn plan_every(&self, plan: impl FnMut(usize) -> Plan + Send + 'static) {
        lock(&self.shared.plans).every = Some(Box::new(plan));
    }

    /// Forwards later connections elsewhere.
    pub fn set_target(&self, target: SocketAddr) {
        *lock(&self.shared.target) = target;
    }

    /// Whether connections are refused, as by a machine on which nothing listens. Those that stand are left alone.
    ///
    /// # Panics
    /// The proxy does not follow within the deadline.
    pub async fn refuse(&self, refuse: bool) {
        self.shared.refuse.send_replace(refuse);
        let mut listening = self.shared.listening.subscribe();
        timeout(
            DEADLINE,
            listening.wait_for(|listening| *listening != refuse),
        )
        .await
        .expect("the proxy follows within the deadline")
        .expect("the sender lives as long as the proxy");
    }

    /// The connections so far, those that ended included.
    pub fn links(&self) -> Vec<Link> {
        self.shared.links.borrow().clone()
    }

    /// Connection number `index`, 0 being the first; waits until it is there.
    ///
    /// # Panics
    /// It does not come within the deadline.
    pub async fn link(&self, index: usize) -> Link {
        let mut links = self.shared.links.subscribe();
        let links = timeout(DEADLINE, links.wait_for(|links| links.len() > index))
            .await
            .unwrap_or_else(|_| {
                panic!("connection number {index} did not come within {DEADLINE:?}")
            })
            .expect("the sender lives as long as the proxy");
        links[index].clone()
    }

    /// Ends all connections that stand.
    pub fn cut_all(&self, how: Ending) {
        for link in self.links() {
            link.cut(how);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut refuse = shared.refuse.subscribe();
    let mut listener = Some(listener);
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        if *refuse.borrow_and_update() {
            listener = None;
        } else if listener.is_none() {
            listener = Some(
                TcpListener::bind(address)
                    .await
                    .expect("the port is still free"),
            );
        }
        shared.listening.send_replace(listener.is_some());
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = refuse.changed() => changed.expect("the sender is in scope"),
            Some(_) = connections.join_next() => {}
            accepted = accepted => {
                let Ok((client, _)) = accepted else { continue };
                let index = shared.links.borrow().len();
                let plan = {
                    let mut plans = lock(&shared.plans);
                    let planned = plans.next.pop_front();
                    planned.or_else(|| plans.every.as_mut().map(|plan| plan(index))).unwrap_or_default()
                };
                let link = Link::new(plan);
                let target = *lock(&shared.target);
                connections.spawn(link.clone().run(client, target));
                shared.links.send_modify(|links| links.push(link));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
