//! Private RabbitMQ nodes.
//!
//! Each has a directory, ports and a cookie of its own, listens on the loopback address alone, uses no epmd and no
//! system service, and ends with the [`Broker`] or with the test's process, however that ends.

mod config;
mod control;
mod install;
mod node;
mod ports;
mod shared;
mod tls;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use config::Builder;
pub use control::ControlError;
pub use install::{NotInstalled, Version};
pub use shared::Vhost;
pub use tls::{Certificates, Tls};

use install::Install;
use node::{Node, Signal};
use ports::Ports;

/// How long a node may take to start. It takes one to three seconds on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a node may take to stop in good order before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A private RabbitMQ node.
///
/// [`stop`](Self::stop), [`kill`](Self::kill), [`pause`](Self::pause) and the like take `&self`, so that a test can do
/// them while others of its tasks use the node. Dropped, the node is killed and its directory removed.
pub struct Broker(Arc<Inner>);

struct Inner {
    version: Version,
    install: Install,
    ports: Ports,
    plugins: bool,
    // Before the directory, so that a dropped node is gone before its files are.
    node: Mutex<Option<Node>>,
    directory: TempDir,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such RabbitMQ.
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    /// The system refused something.
    #[error("cannot set up a RabbitMQ node: {0}")]
    Io(#[from] std::io::Error),
    /// The node ended, or was not ready in time.
    #[error("RabbitMQ {version} {what}; from its log:\n{log}")]
    Node {
        /// The version.
        version: Version,
        /// What happened.
        what: String,
        /// The first error in its log, and the end of it.
        log: String,
    },
}

impl Broker {
    /// A node with the default configuration.
    ///
    /// # Panics
    /// It does not start within a minute, or is not installed; the message says why.
    pub async fn start(version: Version) -> Self {
        Self::builder(version).start().await
    }

    /// A node with further configuration, plugins or TLS.
    pub fn builder(version: Version) -> Builder {
        Builder::new(version)
    }

    /// The node of this version that all tests of this process share; started by the first who asks. Take a
    /// [`vhost`](Self::vhost) of your own, leave its policies and alarms alone, and do not stop it.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn shared(version: Version) -> &'static Self {
        shared::shared(version).await
    }

    /// Which RabbitMQ this is.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// Where it speaks AMQP without TLS.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.0.ports.amqp).into()
    }

    /// Where it speaks AMQP over TLS.
    ///
    /// # Panics
    /// It was built without [`Builder::tls`].
    pub fn tls_address(&self) -> SocketAddr {
        let port = self.0.ports.tls.expect("the node was built with TLS");
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// The user guest on the default vhost, `amqp://guest:guest@127.0.0.1:port/%2f`.
    pub fn uri(&self) -> String {
        self.uri_of("%2f")
    }

    /// The user guest on this vhost, whose name must need no percent-encoding or have it.
    fn uri_of(&self, vhost: &str) -> String {
        format!("amqp://guest:guest@{}/{vhost}", self.address())
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.0.directory.path()
    }

    /// All that it has logged, of all its starts.
    pub fn log(&self) -> String {
        self.0.log()
    }

    /// The process that is the node.
    ///
    /// # Panics
    /// It is not running.
    pub fn pid(&self) -> u32 {
        self.0.node().as_ref().expect("the node is running").pid()
    }

    /// Whether the node's process is there, frozen or not.
    pub fn is_running(&self) -> bool {
        self.0
            .node()
            .as_mut()
            .is_some_and(|node| node.exited().is_none())
    }

    /// Stops the node in good order, as an operator does; kills it when that takes longer than half a minute.
    pub async fn stop(&self) {
        self.end(Signal::Terminate, STOP_TIMEOUT).await;
    }

    /// Kills the node: nothing is flushed, no connection is closed in good order.
    pub async fn kill(&self) {
        self.end(Signal::Kill, Duration::ZERO).await;
    }

    async fn end(&self, signal: Signal, patience: Duration) {
        let node = self.0.node().take();
        if let Some(node) = node {
            blocking(move || node.end(signal, patience)).await;
        }
    }

    /// Freezes the node: its sockets stay open, the system goes on accepting and acknowledging, nobody answers.
    ///
    /// # Panics
    /// It is not running.
    pub fn pause(&self) {
        self.0
            .node()
            .as_mut()
            .expect("the node is running")
            .freeze(true);
    }

    /// Undoes [`pause`](Self::pause).
    ///
    /// # Panics
    /// It is not running.
    pub fn resume(&self) {
        self.0
            .node()
            .as_mut()
            .expect("the node is running")
            .freeze(false);
    }

    /// Starts the stopped or killed node again, on the same ports and files.
    ///
    /// # Panics
    /// It is running, or does not start within a minute.
    pub async fn start_again(&self) {
        assert!(!self.is_running(), "the node is running already");
        let inner = Arc::clone(&self.0);
        if let Err(error) = blocking(move || inner.launch()).await {
            panic!("{error}");
        }
    }

    /// [`stop`](Self::stop), then [`start_again`](Self::start_again).
    pub async fn restart(&self) {
        self.stop().await;
        self.start_again().await;
    }
}

impl Inner {
    /// Starts a node for `builder`; blocks until it is ready.
    fn start(builder: &Builder) -> Result<Self, StartError> {
        let install = Install::find(builder.version)?;
        let mut attempts = 3;
        loop {
            let inner = Self {
                version: builder.version,
                install: install.clone(),
                ports: Ports::choose(builder.tls.is_some())?,
                plugins: !builder.plugins.is_empty(),
                node: Mutex::new(None),
                directory: tempfile::Builder::new().prefix("amqp-broker-").tempdir()?,
            };
            builder.write_files(&inner.ports, inner.directory.path())?;
            attempts -= 1;
            match inner.launch() {
                Ok(()) => return Ok(inner),
                // Somebody else took one of the ports between their choice and their use.
                Err(StartError::Node { log, .. }) if attempts > 0 && log.contains("eaddrinuse") => {
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the node's process; blocks until it is ready.
    fn launch(&self) -> Result<(), StartError> {
        let deadline = Instant::now() + START_TIMEOUT;
        let before = self.log().len();
        let mut node = Node::spawn(
            &self.install,
            &self.ports,
            self.directory.path(),
            self.plugins,
        )?;
        loop {
            // The node's own word for it; a probe of its port would show up in its statistics.
            if self
                .log()
                .get(before..)
                .is_some_and(|log| log.contains("Server startup complete"))
            {
                *self.node() = Some(node);
                return Ok(());
            }
            let what = match node.exited() {
                Some(status) => format!("ended while starting ({status})"),
                None if Instant::now() > deadline => {
                    format!("was not ready within {} s", START_TIMEOUT.as_secs())
                }
                None => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            drop(node);
            return Err(StartError::Node {
                version: self.version,
                what,
                log: excerpt(self.log().get(before..).unwrap_or_default()),
            });
        }
    }

    fn log(&self) -> String {
        let bytes = fs::read(self.directory.path().join(node::LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn node(&self) -> MutexGuard<'_, Option<Node>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs what blocks where it may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// What a log says about a failure: the first error, and the end.
fn excerpt(log: &str) -> String {
    const FIRST: usize = 25;
    const LAST: usize = 15;
    let lines: Vec<&str> = log.lines().collect();
    let first = lines
        .iter()
        .position(|line| line.contains("[error]"))
        .unwrap_or(lines.len());
    let last = lines.len().saturating_sub(LAST);
    match first + FIRST < last {
        true => {
            let parts = [&lines[first..first + FIRST], &["..."], &lines[last..]];
            parts.concat().join("\n")
        }
        false => lines[first.min(last)..].join("\n"),
    }
}
