//! A peer that answers everything as a broker would, with replies derived from what was asked, and keeps a record.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{
    Method, MethodId, ShortStr, basic, channel, confirm, connection, exchange, queue, tx,
};
use amqp_tests::peer::Publish;
use amqp_tests::wire::Event;
use tokio::task::JoinHandle;

use super::support::MemoryPeer;

/// A broker on a task of its own, until its connection ends.
pub(crate) struct AutoBroker {
    record: Arc<Mutex<Record>>,
    task: JoinHandle<MemoryPeer>,
}

/// What a broker has seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Record {
    /// Methods with their channels, in their order; publishes are in `publishes` too.
    pub(crate) methods: Vec<(u16, Method<'static>)>,
    /// Publishes whose content came whole.
    pub(crate) publishes: Vec<Publish>,
}

impl Record {
    /// How often this method came.
    pub(crate) fn count(&self, id: MethodId) -> usize {
        self.methods
            .iter()
            .filter(|(_, method)| method.id() == id)
            .count()
    }
}

/// How a broker behaves.
pub(crate) struct Rules {
    /// Methods that get no answer.
    pub(crate) mute: Vec<MethodId>,
    /// How long it takes for each answer.
    pub(crate) delay: Duration,
    /// How many messages come right behind each consume-ok.
    pub(crate) deliver: u64,
    /// What follows each publish on a channel in confirm mode.
    pub(crate) verdict: fn(u64) -> Verdict,
}

/// What a broker says to a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Silent,
    Ack,
    Nack,
    /// A return and an ack.
    Return,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            mute: Vec::new(),
            delay: Duration::ZERO,
            deliver: 0,
            verdict: |_| Verdict::Ack,
        }
    }
}

/// What the broker derives from a name: its length, and its digits as a number.
pub(crate) fn number_in(name: &ShortStr<'_>) -> u32 {
    let digits: String = name
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or(0)
}

impl AutoBroker {
    /// Takes the connection over, after its handshake.
    pub(crate) fn start(peer: MemoryPeer, rules: Rules) -> Self {
        let record = Arc::new(Mutex::new(Record::default()));
        let serving = Serving {
            peer,
            rules,
            record: record.clone(),
            confirms: HashMap::new(),
            deliveries: HashMap::new(),
        };
        AutoBroker {
            record,
            task: tokio::spawn(serving.run()),
        }
    }

    /// Waits for the end of the connection, and tells all that came.
    pub(crate) async fn ended(self) -> Record {
        self.task.await.unwrap();
        Arc::into_inner(self.record).unwrap().into_inner().unwrap()
    }
}

struct Serving {
    peer: MemoryPeer,
    rules: Rules,
    record: Arc<Mutex<Record>>,
    /// The last publish of each channel in confirm mode.
    confirms: HashMap<u16, u64>,
    /// The last delivery tag of each channel.
    deliveries: HashMap<u16, u64>,
}

impl Serving {
    async fn run(mut self) -> MemoryPeer {
        self.peer.set_deadline(Duration::from_secs(1_000_000));
        loop {
            let (channel, method) = match self.peer.next().await {
                Event::Eof | Event::Reset(_) => return self.peer,
                Event::Frame(frame) if frame.kind == amqp_client::codec::frame::HEARTBEAT => {
                    continue;
                }
                Event::Frame(frame) => match frame.method() {
                    Some(method) => (frame.channel, method),
                    None => panic!("half a frame: {frame}\n{}", self.peer.transcript()),
                },
                event => panic!("half a frame: {event}\n{}", self.peer.transcript()),
            };
            let content = match &method {
                Method::BasicPublish(publish) => {
                    Some(self.peer.content_of(channel, publish.clone()).await)
                }
                _ => None,
            };
            {
                let mut record = self.record.lock().unwrap();
                record.methods.push((channel, method.clone()));
                record.publishes.extend(content.clone());
            }
            if self.rules.mute.contains(&method.id()) {
                continue;
            }
            if !self.rules.delay.is_zero() {
                tokio::time::sleep(self.rules.delay).await;
            }
            self.answer(channel, method, content).await;
        }
    }

    async fn answer(&mut self, on: u16, method: Method<'static>, content: Option<Publish>) {
        let peer = &mut self.peer;
        match method {
            Method::ConnectionClose(_) => peer.send(0, connection::CloseOk {}).await,
            Method::ConnectionUpdateSecret(_) => peer.send(0, connection::UpdateSecretOk {}).await,
            Method::ChannelOpen(_) => peer.send(on, channel::OpenOk::default()).await,
            Method::ChannelClose(_) => {
                self.confirms.remove(&on);
                self.deliveries.remove(&on);
                peer.send(on, channel::CloseOk {}).await;
            }
            Method::ExchangeDeclare(_) => peer.send(on, exchange::DeclareOk {}).await,
            Method::ExchangeDelete(_) => peer.send(on, exchange::DeleteOk {}).await,
            Method::ExchangeBind(_) => peer.send(on, exchange::BindOk {}).await,
            Method::ExchangeUnbind(_) => peer.send(on, exchange::UnbindOk {}).await,
            Method::QueueDeclare(declare) => {
                let message_count = number_in(&declare.queue);
                let ok = queue::DeclareOk {
                    queue: declare.queue,
                    message_count,
                    consumer_count: message_count + 1,
                };
                peer.send(on, ok).await;
            }
            Method::QueueBind(_) => peer.send(on, queue::BindOk {}).await,
            Method::QueueUnbind(_) => peer.send(on, queue::UnbindOk {}).await,
            Method::QueuePurge(purge) => {
                let message_count = number_in(&purge.queue);
                peer.send(on, queue::PurgeOk { message_count }).await;
            }
            Method::QueueDelete(delete) => {
                let message_count = number_in(&delete.queue);
                peer.send(on, queue::DeleteOk { message_count }).await;
            }
            Method::BasicQos(_) => peer.send(on, basic::QosOk {}).await,
            Method::BasicConsume(consume) => self.consume(on, consume).await,
            Method::BasicCancel(cancel) => {
                let consumer_tag = cancel.consumer_tag;
                peer.send(on, basic::CancelOk { consumer_tag }).await;
            }
            Method::BasicGet(get) => self.get(on, get).await,
            Method::BasicRecover(_) => peer.send(on, basic::RecoverOk {}).await,
            Method::ConfirmSelect(_) => {
                self.confirms.insert(on, 0);
                peer.send(on, confirm::SelectOk {}).await;
            }
            Method::TxSelect(_) => peer.send(on, tx::SelectOk {}).await,
            Method::TxCommit(_) => peer.send(on, tx::CommitOk {}).await,
            Method::TxRollback(_) => peer.send(on, tx::RollbackOk {}).await,
            Method::BasicPublish(_) => {
                if let (Some(tag), Some(publish)) = (self.confirms.get_mut(&on), content) {
                    *tag += 1;
                    let tag = *tag;
                    match (self.rules.verdict)(tag) {
                        Verdict::Silent => {}
                        Verdict::Ack => peer.send_ack(on, tag, false).await,
                        Verdict::Nack => peer.send_nack(on, tag, false).await,
                        Verdict::Return => {
                            let code = amqp_client::codec::ReplyCode::NO_ROUTE;
                            peer.send_return(&publish, code, "NO_ROUTE").await;
                            peer.send_ack(on, tag, false).await;
                        }
                    }
                }
            }
            Method::ChannelCloseOk(_)
            | Method::ConnectionCloseOk(_)
            | Method::BasicAck(_)
            | Method::BasicNack(_)
            | Method::BasicReject(_) => {}
            method => panic!("no rule for {method:?}"),
        }
    }

    fn next_delivery(&mut self, on: u16) -> u64 {
        let tag = self.deliveries.entry(on).or_default();
        *tag += 1;
        *tag
    }

    async fn consume(&mut self, on: u16, consume: basic::Consume<'static>) {
        let consumer_tag = match consume.consumer_tag.is_empty() {
            true => consume.queue,
            false => consume.consumer_tag,
        };
        let ok = basic::ConsumeOk {
            consumer_tag: consumer_tag.clone(),
        };
        self.peer.send(on, ok).await;
        for _ in 0..self.rules.deliver {
            let tag = self.next_delivery(on);
            let consumer = consumer_tag.to_string_lossy();
            let peer = &mut self.peer;
            peer.send_deliver(on, &consumer, tag, &Properties::EMPTY, consumer.as_bytes())
                .await;
        }
    }

    async fn get(&mut self, on: u16, get: basic::Get<'static>) {
        if get.queue.to_string_lossy().starts_with("empty") {
            return self.peer.send(on, basic::GetEmpty::default()).await;
        }
        let ok = basic::GetOk {
            delivery_tag: self.next_delivery(on),
            message_count: number_in(&get.queue),
            ..Default::default()
        };
        let body = get.queue.as_bytes();
        self.peer
            .send_content(on, ok, &Properties::EMPTY, body)
            .await;
    }
}
