//! Stands between the checks and a real node, takes what is said apart into frames, and lets a fault at it.
//!
//! What is no frame, and everything after it, is bytes to the fault.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use amqp_codec::{ProtocolHeader, RawFrame};
use amqp_conformance::event::{LIMITS, OwnedFrame};
use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::broker::{Action, Fault, Hook, Out, Passing, Unit, content_left};

/// Listens on a free port; ends with the runtime.
pub(crate) async fn start(node: SocketAddr, fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port is free");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    tokio::spawn(async move {
        let mut links = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let hook = fault();
            links.spawn(async move {
                // Its end is the end of the connection for both sides.
                let _ = link(client, node, hook).await;
            });
        }
    });
    address
}

async fn link(mut client: TcpStream, node: SocketAddr, mut hook: Hook) -> io::Result<()> {
    let mut server = TcpStream::connect(node).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut from_server) = (Input::default(), Input::default());
    let mut contents = HashMap::new();
    let (mut client_ended, mut server_ended) = (false, false);
    while !(client_ended && server_ended) {
        let mut out = Out::default();
        tokio::select! {
            read = client.read_buf(&mut from_client.bytes), if !client_ended => {
                client_ended = read? == 0;
                while let Some(piece) = from_client.next() {
                    let passing = match piece {
                        Piece::Frame(frame) => Passing::Client(frame),
                        Piece::Bytes(bytes) => Passing::ClientBytes(bytes),
                    };
                    hook(passing, &mut out);
                }
            }
            read = server.read_buf(&mut from_server.bytes), if !server_ended => {
                // A reset is an end too.
                server_ended = read.unwrap_or(0) == 0;
                while let Some(piece) = from_server.next() {
                    let passing = match piece {
                        Piece::Frame(frame) => match whole(&mut contents, frame) {
                            Some(unit) => Passing::Server(unit),
                            None => continue,
                        },
                        Piece::Bytes(bytes) => Passing::ServerBytes(bytes),
                    };
                    hook(passing, &mut out);
                }
                if server_ended {
                    hook(Passing::ServerEnd, &mut out);
                }
            }
        }
        for action in out.actions {
            match action {
                Action::ToClient(bytes) => client.write_all(&bytes).await?,
                // That the node does not read any more is seen by its end.
                Action::ToServer(bytes) => _ = server.write_all(&bytes).await,
                Action::Wait(duration) => tokio::time::sleep(duration).await,
                Action::Cut => return client.shutdown().await,
                Action::Reset => return client.set_zero_linger(),
            }
        }
        if client_ended && !server_ended {
            _ = server.shutdown().await;
        }
    }
    // The fault has not passed the end on.
    std::future::pending().await
}

/// A frame that is a unit, or completes one.
fn whole(contents: &mut HashMap<u16, Vec<OwnedFrame>>, frame: OwnedFrame) -> Option<Unit> {
    let channel = frame.channel;
    let mut frames = contents.remove(&channel).unwrap_or_default();
    frames.push(frame);
    match content_left(&frames) {
        Some(_) => {
            contents.insert(channel, frames);
            None
        }
        None => Some(Unit { channel, frames }),
    }
}

#[derive(Default)]
struct Input {
    bytes: BytesMut,
    garbled: bool,
}

enum Piece {
    Frame(OwnedFrame),
    Bytes(Vec<u8>),
}

/// What is larger than any frame that was agreed upon is not waited for.
impl Input {
    fn next(&mut self) -> Option<Piece> {
        if self.bytes.is_empty() {
            return None;
        }
        if self.garbled {
            return Some(Piece::Bytes(self.take(self.bytes.len())));
        }
        if ProtocolHeader::is_prefix(&self.bytes) {
            return (self.bytes.len() >= 8).then(|| Piece::Bytes(self.take(8)));
        }
        match RawFrame::parse(&self.bytes, &LIMITS) {
            Ok(None) => None,
            Ok(Some((raw, len))) => {
                let frame = OwnedFrame {
                    kind: raw.kind,
                    channel: raw.channel,
                    payload: raw.payload.to_vec().into(),
                };
                self.bytes.advance(len);
                Some(Piece::Frame(frame))
            }
            Err(_) => {
                self.garbled = true;
                self.next()
            }
        }
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        self.bytes.split_to(len).to_vec()
    }
}
