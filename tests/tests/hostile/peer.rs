//! The server's side of a case: does what it is to do, and keeps what it is told.

use std::time::Duration;

use amqp_client::codec::{Method, MethodId, ReplyCode, ShortStr, channel, connection, frame};
use amqp_tests::peer::Peer;
use amqp_tests::wire::{Event, OwnedFrame};
use bytes::Bytes;
use tokio::io::DuplexStream;
use tokio::time::{sleep, timeout};

use super::case::{Act, Told};

/// How much is sent before what came meanwhile is read.
const CHUNK: usize = 16 * 1024;
/// After how long nothing more is believed to be taken.
const STUCK: Duration = Duration::from_secs(5);

/// A server that misbehaves.
pub(crate) struct Server {
    /// Gone once it has hung up.
    pub(crate) peer: Option<Peer<DuplexStream>>,
    /// What it was told, in order; the same again is counted.
    pub(crate) heard: Vec<Told>,
    /// The closes among that.
    pub(crate) closes: Vec<Close>,
    /// Whether the client has ended the stream.
    pub(crate) ended: bool,
    answers_close: bool,
}

/// A close that the server got.
#[derive(Debug, Clone)]
pub(crate) struct Close {
    pub(crate) code: ReplyCode,
    pub(crate) text: ShortStr<'static>,
}

impl Server {
    pub(crate) fn new(mut peer: Peer<DuplexStream>, answers_close: bool) -> Self {
        // Waits are bounded by the case.
        peer.set_deadline(Duration::from_secs(24 * 3600));
        peer.forget_transcript();
        Server {
            peer: Some(peer),
            heard: Vec::new(),
            closes: Vec::new(),
            ended: false,
            answers_close,
        }
    }

    pub(crate) fn peer(&mut self) -> &mut Peer<DuplexStream> {
        self.peer.as_mut().expect("the server has not hung up")
    }

    pub(crate) async fn act(&mut self, act: Act) {
        match act {
            Act::Send(bytes) => self.peer().send_bytes(bytes).await,
            Act::Repeat(bytes, times) => {
                let at_once = (CHUNK / bytes.len()).clamp(1, times);
                let chunk = Bytes::from(bytes.repeat(at_once));
                for _ in 0..times / at_once {
                    self.peer().send_bytes(chunk.clone()).await;
                    self.catch_up().await;
                }
                for _ in 0..times % at_once {
                    self.peer().send_bytes(bytes.clone()).await;
                }
            }
            Act::Flood(times, next) => {
                let mut chunk = Vec::new();
                for number in 1..=times as u64 {
                    chunk.append(&mut next(number));
                    if chunk.len() >= CHUNK {
                        self.peer().send_bytes(std::mem::take(&mut chunk)).await;
                        self.catch_up().await;
                    }
                }
                self.peer().send_bytes(chunk).await;
            }
            Act::DeafFlood(times, next) => {
                for number in 1..=times as u64 {
                    let sending = self.peer().send_bytes(next(number));
                    if timeout(STUCK, sending).await.is_err() {
                        return;
                    }
                }
            }
            Act::Drip(bytes, pause) => {
                for at in 0..bytes.len() {
                    self.peer().send_bytes(bytes.slice(at..=at)).await;
                    self.listen_for(pause).await;
                }
            }
            Act::Wait(duration) => self.listen_for(duration).await,
            Act::Deaf(duration) => sleep(duration).await,
            // That the client is gone already is no failure.
            Act::HalfClose => drop(self.peer().half_close().await),
            Act::HangUp => self.peer = None,
        }
    }

    /// Reads what is there.
    async fn catch_up(&mut self) {
        tokio::task::yield_now().await;
        self.listen_for(Duration::ZERO).await;
    }

    async fn listen_for(&mut self, duration: Duration) {
        let end = tokio::time::Instant::now() + duration;
        while !self.ended && self.peer.is_some() {
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            match self.peer().next_within(left).await {
                Event::Silence(_) => return,
                event => self.hear(event).await,
            }
        }
        tokio::time::sleep_until(end).await;
    }

    /// Reads for as long as anything may come. Never ends.
    pub(crate) async fn listen(&mut self) {
        loop {
            self.listen_for(Duration::from_secs(3600)).await;
        }
    }

    async fn hear(&mut self, event: Event) {
        let frame = match event {
            Event::Frame(frame) if frame.kind == frame::HEARTBEAT => return,
            Event::Frame(frame) => frame,
            event if event.is_end() => {
                self.ended = true;
                return;
            }
            event => panic!("the client sent what is no frame: {event}"),
        };
        let Some(method) = frame.method() else {
            // A part of a message.
            return;
        };
        self.keep(&frame, method.id());
        match method {
            Method::ConnectionClose(close) => {
                self.keep_close(close.reply_code, close.reply_text);
                self.answer_close(0, connection::CloseOk {}).await;
            }
            Method::ChannelClose(close) => {
                self.keep_close(close.reply_code, close.reply_text);
                self.answer_close(frame.channel, channel::CloseOk {}).await;
            }
            _ => {}
        }
    }

    fn keep(&mut self, frame: &OwnedFrame, method: MethodId) {
        match self.heard.last_mut() {
            Some(last) if last.channel == frame.channel && last.method == method => {
                last.times += 1;
            }
            _ => self.heard.push(Told {
                channel: frame.channel,
                method,
                times: 1,
            }),
        }
    }

    fn keep_close(&mut self, code: ReplyCode, text: ShortStr<'static>) {
        self.closes.push(Close { code, text });
    }

    async fn answer_close(&mut self, channel: u16, ok: impl amqp_client::codec::MethodFields) {
        if self.answers_close {
            self.peer().send(channel, ok).await;
        }
    }
}
