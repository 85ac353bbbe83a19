use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Plan;
use super::flow::Flow;
use crate::wire::DEADLINE;

/// How a connection is ended, on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The end of the stream, after all that was forwarded.
    Close,
    /// A TCP reset. On the loopback interface what was forwarded is with the receiver before it.
    Reset,
}

/// A connection through the proxy. Clones are handles to the same one; dropping them changes nothing.
#[derive(Debug, Clone)]
pub struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    to_server: Flow,
    to_client: Flow,
    cut: watch::Sender<Option<Ending>>,
    ended: watch::Sender<bool>,
}

impl Link {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Arc::new(Inner {
            to_server: Flow::new(plan.to_server),
            to_client: Flow::new(plan.to_client),
            cut: watch::Sender::new(None),
            ended: watch::Sender::new(false),
        }))
    }

    /// What the client sends.
    pub fn to_server(&self) -> &Flow {
        &self.0.to_server
    }

    /// What the server sends.
    pub fn to_client(&self) -> &Flow {
        &self.0.to_client
    }

    /// Ends the connection now.
    pub fn cut(&self, how: Ending) {
        self.0.cut.send_replace(Some(how));
    }

    /// Whether the connection is over.
    pub fn has_ended(&self) -> bool {
        *self.0.ended.borrow()
    }

    /// Waits until the connection is over.
    ///
    /// # Panics
    /// It is not within the deadline.
    pub async fn ended(&self) {
        let mut ended = self.0.ended.subscribe();
        if timeout(DEADLINE, ended.wait_for(|ended| *ended))
            .await
            .is_err()
        {
            panic!("the connection was not over within {DEADLINE:?}");
        }
    }

    pub(super) async fn run(self, mut client: TcpStream, target: SocketAddr) {
        match TcpStream::connect(target).await {
            Ok(mut server) => {
                // Bytes leave as they come: the test decides where the pauses are.
                let _ = client.set_nodelay(true);
                let _ = server.set_nodelay(true);
                let ending = self.forward(&mut client, &mut server).await;
                finish(client, server, ending).await;
            }
            // As near as a proxy gets to a server that is not there.
            Err(_) => {
                let _ = client.set_zero_linger();
            }
        }
        self.0.ended.send_replace(true);
    }

    async fn forward(&self, client: &mut TcpStream, server: &mut TcpStream) -> Ending {
        let mut cut = self.0.cut.subscribe();
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let flows = async {
            tokio::try_join!(
                self.0.to_server.run(from_client, to_server),
                self.0.to_client.run(from_server, to_client),
            )
        };
        tokio::select! {
            biased;
            how = cut.wait_for(Option::is_some) => how.ok().and_then(|how| *how).unwrap_or(Ending::Reset),
            ended = flows => ended.err().unwrap_or(Ending::Close),
        }
    }
}

async fn finish(mut client: TcpStream, mut server: TcpStream, ending: Ending) {
    match ending {
        Ending::Reset => {
            let _ = client.set_zero_linger();
            let _ = server.set_zero_linger();
        }
        Ending::Close => {
            let _ = client.shutdown().await;
            let _ = server.shutdown().await;
            // A socket that is closed with unread input is reset, and the receiver may not see the last bytes.
            let swallow = async { tokio::join!(swallow(&mut client), swallow(&mut server)) };
            let _ = timeout(Duration::from_secs(1), swallow).await;
        }
    }
}

async fn swallow(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}
