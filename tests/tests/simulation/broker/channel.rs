//! One channel of the broker.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::content::Assembler;
use amqp_client::codec::{
    Frame, Limits, Method, MethodId, ReplyCode, ShortStr, basic, channel, confirm, exchange, queue,
    tx,
};
use amqp_client::proto::Settle;
use bytes::Bytes;
use tokio::time::Instant;

use super::content::{body, finds_no_queue, number_of};
use super::{Desk, Job};
use crate::plan::Lie;
use crate::truth::{ChannelTruth, DeliveryTruth, PublishTruth};

/// Above so much that waits to be written, nothing is delivered.
const OUTPUT_ENOUGH: usize = 32 * 1024;

/// Within this, a calm client has given back what nobody wants, and the broker, which may be deaf for a second or two, has
/// heard of it.
const ENOUGH: Duration = Duration::from_secs(4);

pub(super) struct Channel {
    number: u16,
    /// Where it is among all channels of the truth.
    pub(super) at: usize,
    mode: Mode,
    /// channel.close is sent: all is ignored but a close and its answer.
    closing: bool,
    inbox: VecDeque<Item>,
    worked: Instant,
    assembler: Assembler<basic::Publish<'static>>,
    /// A synchronous method has come and is not answered.
    asked: Option<MethodId>,
    flow: bool,
    last_tag: u64,
    unacked: BTreeMap<u64, Unacked>,
    consumers: BTreeMap<String, Consumer>,
    /// When the client was told of the end of a consumer.
    ended: BTreeMap<String, Instant>,
    prefetch: u16,
    /// For all consumers together.
    prefetch_all: u16,
}

enum Mode {
    Plain,
    Confirm {
        last: u64,
        /// What waits for its ack or nack.
        open: BTreeMap<u64, Open>,
    },
    Tx {
        published: Vec<Publish>,
        settled: Vec<(u64, Unacked, Settle)>,
    },
}

/// A publish that is to be confirmed.
struct Open {
    ack: bool,
    /// No confirm will come.
    forgotten: bool,
    len: usize,
    /// To be returned first.
    publish: Option<Publish>,
}

enum Item {
    Method(Method<'static>),
    Publish(Box<Publish>),
}

struct Publish {
    method: basic::Publish<'static>,
    properties: Properties<'static>,
    body: Bytes,
    id: Option<u64>,
}

impl Publish {
    /// Whether it comes back: it is mandatory and no queue takes it.
    fn returns(&self) -> bool {
        self.method.mandatory && finds_no_queue(self.method.routing_key.as_bytes(), self.id)
    }
}

#[derive(Clone)]
struct Unacked {
    from: From,
    message: Message,
}

/// How a delivery was asked for.
#[derive(Clone)]
enum From {
    Consumer(String),
    Get {
        number: u32,
        /// A method that is answered has come since the caller gave up: the next one was sent when the message was here,
        /// and nobody wanted it.
        passed: bool,
    },
}

impl From {
    fn consumer(&self) -> Option<&String> {
        match self {
            From::Consumer(tag) => Some(tag),
            From::Get { .. } => None,
        }
    }
}

#[derive(Clone)]
struct Message {
    id: u64,
    len: usize,
    redelivered: bool,
}

struct Consumer {
    no_ack: bool,
    /// How many messages there are that were not delivered before.
    left: u64,
    again: VecDeque<Message>,
    unacked: u16,
    prefetch: u16,
    /// A delivery is on the agenda.
    busy: bool,
}

/// What remains of a channel.
pub(super) enum Next {
    Stays,
    Free,
}

impl Channel {
    /// The client asks for the channel.
    pub(super) fn open(number: u16, desk: &mut Desk) -> Self {
        let at = {
            let mut truth = desk.world.truth();
            truth.channels.push(ChannelTruth {
                connection: desk.number,
                ..ChannelTruth::default()
            });
            truth.channels.len() - 1
        };
        let mut channel = Channel {
            number,
            at,
            mode: Mode::Plain,
            closing: false,
            inbox: VecDeque::new(),
            worked: desk.now,
            assembler: Assembler::new(),
            asked: None,
            flow: true,
            last_tag: 0,
            unacked: BTreeMap::new(),
            consumers: BTreeMap::new(),
            ended: BTreeMap::new(),
            prefetch: 0,
            prefetch_all: 0,
        };
        channel.put(Item::Method(channel::Open::default().into()), desk);
        channel
    }

    fn with_truth<R>(&self, desk: &Desk, act: impl FnOnce(&mut ChannelTruth) -> R) -> R {
        act(&mut desk.world.truth().channels[self.at])
    }

    // ----- what comes -----

    pub(super) fn receive(
        &mut self,
        frame: Frame<'_>,
        payload: &[u8],
        limits: &Limits,
        desk: &mut Desk,
    ) -> Next {
        let content = match frame {
            Frame::Method { method, .. } => {
                // A content that the broker's close has cut short is of no interest.
                if self.closing {
                    self.assembler.reset();
                }
                if !self.assembler.is_idle() {
                    desk.fault(format_args!("{} amid a content", method.id()));
                }
                return self.receive_method(method, desk);
            }
            Frame::Header { header, .. } => self.assembler.header(&header, payload, limits),
            Frame::Body { payload, .. } => self.assembler.body(payload, None),
            Frame::Heartbeat => return Next::Stays,
        };
        match content {
            Ok(None) => {}
            Ok(Some(content)) if self.closing => drop(content),
            Ok(Some(content)) => {
                let (method, properties, body) = content.into_parts();
                let id = match body.is_empty() {
                    true => None,
                    false => match number_of(&body) {
                        Ok(id) => Some(id),
                        Err(error) => {
                            desk.fault(format_args!("{error}"));
                            None
                        }
                    },
                };
                if let Some(id) = id {
                    let times = 1 + u64::from(desk.lies(Lie::Arrival));
                    *desk.world.truth().arrived.entry(id).or_default() += times;
                }
                let publish = Publish {
                    method,
                    properties,
                    body,
                    id,
                };
                self.put(Item::Publish(Box::new(publish)), desk);
            }
            Err(error) => desk.fault(format_args!("channel {}: {error}", self.number)),
        }
        Next::Stays
    }

    fn receive_method(&mut self, method: Method<'_>, desk: &mut Desk) -> Next {
        let id = method.id();
        desk.world.note(format_args!(
            "{}: {id} came on {}",
            desk.number, self.number
        ));
        if let Method::BasicPublish(publish) = method {
            self.check_not_committing(id, desk);
            if let Err(error) = self.assembler.start(publish.into_owned(), &[]) {
                desk.fault(format_args!("{error}"));
            }
            return Next::Stays;
        }
        match method {
            Method::ChannelCloseOk(_) if self.closing => return Next::Free,
            Method::ChannelCloseOk(_) => desk.fault(format_args!("{id} without a close")),
            // Both closed at once; the client still owes its answer.
            Method::ChannelClose(_) if self.closing => {
                desk.world.saw("channel closes crossed");
                desk.send(self.number, &channel::CloseOk {});
            }
            _ if self.closing => {}
            method => {
                if !matches!(method, Method::ChannelClose(_)) {
                    self.check_not_committing(id, desk);
                    if is_answered(&method)
                        && let Some(before) = self.asked.replace(id)
                    {
                        desk.fault(format_args!("{id} while {before} is not answered"));
                    }
                }
                self.put(Item::Method(method.into_owned()), desk);
            }
        }
        Next::Stays
    }

    /// Nothing may be sent on a channel while a commit or rollback is not answered.
    fn check_not_committing(&self, id: MethodId, desk: &Desk) {
        if let Some(asked @ (MethodId::TX_COMMIT | MethodId::TX_ROLLBACK)) = self.asked {
            desk.fault(format_args!("{id} while {asked} is not answered"));
        }
    }

    fn put(&mut self, item: Item, desk: &mut Desk) {
        let idle = self.inbox.is_empty();
        self.inbox.push_back(item);
        if idle {
            self.work_later(desk);
        }
    }

    fn work_later(&mut self, desk: &mut Desk) {
        let after = desk.random.millis(desk.world.plan.broker.work);
        desk.later(after, Job::Work(self.number, self.at));
    }

    /// Works on the first item.
    pub(super) fn work(&mut self, desk: &mut Desk) -> Next {
        let Some(item) = self.inbox.pop_front() else {
            return Next::Stays;
        };
        if !self.inbox.is_empty() {
            self.work_later(desk);
        }
        self.worked = desk.now;
        let close = desk.world.plan.broker.close_channel;
        match item {
            Item::Method(Method::ChannelClose(_)) => return self.close_by_client(desk),
            _ if desk.random.chance(close) => {
                self.close(ReplyCode::PRECONDITION_FAILED, MethodId::BASIC_ACK, desk);
            }
            Item::Publish(publish) => self.publish(*publish, desk),
            Item::Method(method) => self.answer(method, desk),
        }
        Next::Stays
    }

    // ----- closing -----

    fn close(&mut self, code: ReplyCode, fault: MethodId, desk: &mut Desk) {
        if self.closing {
            return;
        }
        self.closing = true;
        let crossed = self
            .inbox
            .drain(..)
            .any(|item| matches!(item, Item::Method(Method::ChannelClose(_))));
        self.consumers.clear();
        self.mode = Mode::Plain;
        self.with_truth(desk, |truth| truth.closed = Some(code.0));
        desk.world.saw("channel closed by the broker");
        let close = channel::Close {
            reply_code: code,
            reply_text: ShortStr::from_static("simulated"),
            class_id: fault.class,
            method_id: fault.method,
        };
        let close = match desk.lies(Lie::Code) {
            true => channel::Close {
                reply_code: ReplyCode::ACCESS_REFUSED,
                ..close
            },
            false => close,
        };
        desk.send(self.number, &close);
        if crossed {
            desk.send(self.number, &channel::CloseOk {});
        }
    }

    fn close_by_client(&mut self, desk: &mut Desk) -> Next {
        self.check_nothing_kept(desk);
        self.with_truth(desk, |truth| truth.close_came = true);
        if !desk.lies(Lie::CloseOk) {
            desk.send(self.number, &channel::CloseOk {});
        }
        Next::Free
    }

    /// What was delivered to a consumer that has ended, its program got, or it was given back.
    fn check_nothing_kept(&self, desk: &Desk) {
        let Some(token) = self.with_truth(desk, |truth| truth.token) else {
            return;
        };
        let long_ago = |consumer: &&String| {
            let ended = self.ended.get(*consumer);
            ended.is_some_and(|at| desk.now - *at > ENOUGH)
        };
        let log = desk.world.log();
        let kept = self.unacked.iter().find(|(tag, unacked)| {
            let Some(consumer) = unacked.from.consumer().filter(long_ago) else {
                return false;
            };
            let received = log.received.get(&(token, consumer.clone()));
            !received.into_iter().flatten().any(|one| one.tag == **tag)
        });
        let kept = kept.map(|(tag, unacked)| (*tag, unacked.from.consumer().cloned()));
        drop(log);
        if let (Some((tag, consumer)), true) = (kept, desk.world.plan.calm) {
            desk.fault(format_args!(
                "channel {token}: delivery {tag} to {consumer:?} was neither handed out nor given back"
            ));
        }
    }

    /// What basic.get brought for a caller who had given up was given back before the next method.
    fn check_no_get_kept(&mut self, desk: &Desk) {
        // A rollback makes what was given back outstanding again.
        if let Mode::Tx { .. } = self.mode {
            return;
        }
        let Some(token) = self.with_truth(desk, |truth| truth.token) else {
            return;
        };
        for (tag, unacked) in &mut self.unacked {
            let From::Get { number, passed } = &mut unacked.from else {
                continue;
            };
            let key = (token, u64::from(*number));
            if !desk.world.log().given_up.contains(&key) {
                continue;
            }
            if std::mem::replace(passed, true) {
                desk.fault(format_args!(
                    "channel {token}: delivery {tag}, of a get that was given up, was not given back"
                ));
            }
        }
    }

    // ----- publishing -----

    fn publish(&mut self, publish: Publish, desk: &mut Desk) {
        if publish.method.exchange.as_bytes() == b"missing" {
            return self.close(ReplyCode::NOT_FOUND, MethodId::BASIC_PUBLISH, desk);
        }
        let manners = desk.world.plan.broker;
        if self.flow && desk.random.chance(manners.flows) {
            self.set_flow(false, desk);
            let after = desk.random.millis(600);
            desk.later(after, Job::StartFlow(self.number, self.at));
        }
        let known = PublishTruth {
            id: publish.id,
            ..PublishTruth::default()
        };
        match &mut self.mode {
            Mode::Plain => {
                let returns = publish.returns();
                let known = PublishTruth {
                    returned: returns,
                    ..known
                };
                self.with_truth(desk, |truth| truth.unconfirmed.push(known));
                if returns {
                    self.send_return(&publish, desk);
                }
            }
            Mode::Tx { published, .. } => published.push(publish),
            Mode::Confirm { last, open } => {
                *last += 1;
                let forgotten = desk.random.chance(manners.forget);
                open.insert(
                    *last,
                    Open {
                        ack: !desk.random.chance(manners.nack),
                        forgotten,
                        len: publish.body.len(),
                        publish: publish.returns().then_some(publish),
                    },
                );
                let seq = *last;
                self.with_truth(desk, |truth| {
                    truth.publishes.push(known);
                    truth.forgot |= forgotten;
                });
                self.check_in_flight(desk);
                // Some come back at once, others right before their confirm.
                if desk.random.chance(500) {
                    self.return_through(seq, desk);
                }
                let after = desk.random.millis(manners.confirm);
                desk.later(after, Job::Confirm(self.number, self.at));
            }
        }
    }

    /// The client keeps to what was set for the channel. What it gave up waiting for keeps its place; its bytes it may
    /// use anew.
    fn check_in_flight(&self, desk: &Desk) {
        let Mode::Confirm { open, .. } = &self.mode else {
            return;
        };
        let token = self.with_truth(desk, |truth| truth.token);
        let bounds = token.and_then(|token| desk.world.log().bounds.get(&token).copied());
        let Some((most, most_bytes)) = bounds else {
            return;
        };
        let lens = open.values().map(|open| open.len);
        let bytes: usize = lens.clone().sum();
        // One that is larger than the bound goes when no other bytes are in flight.
        let together = lens.filter(|len| *len > 0).count() > 1;
        if open.len() > most || (desk.world.plan.calm && together && bytes > most_bytes) {
            let count = open.len();
            desk.fault(format_args!(
                "channel {token:?}: {count} publishes of {bytes} bytes are not confirmed, where {most} of {most_bytes} may be"
            ));
        }
    }

    fn send_return(&self, publish: &Publish, desk: &mut Desk) {
        let returned = basic::Return {
            reply_code: ReplyCode::NO_ROUTE,
            reply_text: ShortStr::from_static("NO_ROUTE"),
            exchange: publish.method.exchange.clone(),
            routing_key: publish.method.routing_key.clone(),
        };
        desk.send_content(self.number, &returned, &publish.properties, &publish.body);
    }

    /// Sends the returns of all publishes up to this one, in publish order.
    fn return_through(&mut self, through: u64, desk: &mut Desk) {
        let Mode::Confirm { open, .. } = &mut self.mode else {
            return;
        };
        let mut returns = Vec::new();
        for (seq, open) in open.range_mut(..=through) {
            returns.extend(open.publish.take().map(|publish| (*seq, publish)));
        }
        for (seq, publish) in returns {
            let known = !desk.lies(Lie::Return);
            self.with_truth(desk, |truth| {
                truth.publishes[seq as usize - 1].returned = known;
            });
            self.send_return(&publish, desk);
        }
    }

    /// Confirms some of what waits for it: one, or all up to one.
    pub(super) fn confirm(&mut self, desk: &mut Desk) {
        let Mode::Confirm { open, .. } = &self.mode else {
            return;
        };
        let waiting: Vec<u64> = open
            .iter()
            .filter(|(_, open)| !open.forgotten)
            .map(|(seq, _)| *seq)
            .collect();
        let Some(first) = waiting.first() else {
            return;
        };
        // All up to a tag can be confirmed at once if they are to be confirmed alike.
        let verdict = open[first].ack;
        let alike = open
            .iter()
            .take_while(|(_, open)| !open.forgotten && open.ack == verdict);
        let alike: Vec<u64> = alike.map(|(seq, _)| *seq).collect();
        let (seq, multiple) = match alike.is_empty() || desk.random.chance(500) {
            true => (desk.random.pick(&waiting), false),
            false => (desk.random.pick(&alike), true),
        };
        self.return_through(seq, desk);
        let Mode::Confirm { open, .. } = &mut self.mode else {
            return;
        };
        let acked = open[&seq].ack;
        let settled = match multiple {
            true => {
                let rest = open.split_off(&(seq + 1));
                std::mem::replace(open, rest).into_keys().collect()
            }
            false => {
                open.remove(&seq);
                vec![seq]
            }
        };
        self.with_truth(desk, |truth| {
            for seq in settled {
                truth.publishes[seq as usize - 1].acked = Some(acked);
            }
        });
        desk.world.note(format_args!(
            "{}: confirm of {seq}, acked: {acked}, multiple: {multiple}",
            desk.number
        ));
        if desk.lies(Lie::Confirm) {
            return;
        }
        match acked != desk.lies(Lie::Verdict) {
            true => {
                let ack = basic::Ack {
                    delivery_tag: seq,
                    multiple,
                    ..Default::default()
                };
                desk.send(self.number, &ack);
            }
            false => {
                let nack = basic::Nack {
                    delivery_tag: seq,
                    multiple,
                    // RabbitMQ sets it.
                    requeue: desk.random.chance(300),
                    ..Default::default()
                };
                desk.send(self.number, &nack);
            }
        }
    }

    pub(super) fn set_flow(&mut self, active: bool, desk: &mut Desk) {
        if self.closing {
            return;
        }
        desk.world.saw("channel.flow");
        self.flow = active;
        let flow = channel::Flow {
            active,
            ..Default::default()
        };
        desk.send(self.number, &flow);
    }

    // ----- requests -----

    fn answer(&mut self, method: Method<'static>, desk: &mut Desk) {
        if is_answered(&method) {
            self.check_no_get_kept(desk);
            if desk.random.chance(desk.world.plan.broker.forget) {
                desk.world.saw("request forgotten");
                return self.with_truth(desk, |truth| truth.forgot = true);
            }
            self.asked = None;
        }
        let on = self.number;
        match method {
            Method::ChannelOpen(_) => desk.send(on, &channel::OpenOk::default()),
            Method::ExchangeDeclare(_) => desk.send(on, &exchange::DeclareOk {}),
            Method::ExchangeDelete(_) => desk.send(on, &exchange::DeleteOk {}),
            Method::QueueDeclare(declare) => self.declare(declare, desk),
            Method::QueueBind(_) => desk.send(on, &queue::BindOk {}),
            Method::QueueUnbind(_) => desk.send(on, &queue::UnbindOk {}),
            Method::QueuePurge(purge) => {
                let message_count = digits(&purge.queue);
                desk.send(on, &queue::PurgeOk { message_count });
            }
            Method::QueueDelete(delete) => {
                let message_count = digits(&delete.queue);
                desk.send(on, &queue::DeleteOk { message_count });
            }
            Method::BasicQos(qos) => {
                match qos.global {
                    true => self.prefetch_all = qos.prefetch_count,
                    false => self.prefetch = qos.prefetch_count,
                }
                desk.send(on, &basic::QosOk {});
            }
            Method::BasicConsume(consume) => self.consume(consume, desk),
            Method::BasicCancel(cancel) => {
                self.consumers.remove(&name(&cancel.consumer_tag));
                self.ended.insert(name(&cancel.consumer_tag), desk.now);
                let consumer_tag = cancel.consumer_tag;
                desk.send(on, &basic::CancelOk { consumer_tag });
            }
            Method::BasicGet(get) => self.get(get, desk),
            Method::BasicRecover(_) => {
                desk.send(on, &basic::RecoverOk {});
                let all = std::mem::take(&mut self.unacked);
                for (_, unacked) in all {
                    self.requeue(unacked);
                }
                self.deliver_to_all(desk);
            }
            Method::BasicAck(ack) => {
                self.settle(ack.delivery_tag, ack.multiple, Settle::Ack, desk);
            }
            Method::BasicNack(nack) => {
                let how = Settle::Nack {
                    requeue: nack.requeue,
                };
                self.settle(nack.delivery_tag, nack.multiple, how, desk);
            }
            Method::BasicReject(reject) => {
                let how = Settle::Reject {
                    requeue: reject.requeue,
                };
                self.settle(reject.delivery_tag, false, how, desk);
            }
            Method::ConfirmSelect(_) => {
                self.mode = Mode::Confirm {
                    last: 0,
                    open: BTreeMap::new(),
                };
                desk.send(on, &confirm::SelectOk {});
            }
            Method::TxSelect(_) => {
                self.mode = Mode::Tx {
                    published: Vec::new(),
                    settled: Vec::new(),
                };
                self.with_truth(desk, |truth| truth.transacted = true);
                desk.send(on, &tx::SelectOk {});
            }
            Method::TxCommit(_) => self.commit(desk),
            Method::TxRollback(_) => self.rollback(desk),
            Method::ChannelFlowOk(_) => {}
            method => desk.fault(format_args!("{} came, which nobody sends", method.id())),
        }
    }

    fn declare(&mut self, declare: queue::Declare<'static>, desk: &mut Desk) {
        let asked = name(&declare.queue);
        if let Some(token) = asked.strip_prefix("channel-") {
            // The channel says who it is.
            let token = token.parse().unwrap();
            let mut truth = desk.world.truth();
            truth.channels[self.at].token = Some(token);
            truth.by_token.insert(token, self.at);
        }
        if asked.starts_with("absent-") {
            return self.close(ReplyCode::NOT_FOUND, MethodId::QUEUE_DECLARE, desk);
        }
        let ok = queue::DeclareOk {
            message_count: digits(&declare.queue) + u32::from(desk.lies(Lie::Reply)),
            consumer_count: digits(&declare.queue).wrapping_add(1),
            queue: declare.queue,
        };
        desk.send(self.number, &ok);
    }

    // ----- transactions -----

    fn commit(&mut self, desk: &mut Desk) {
        let Mode::Tx { published, settled } = &mut self.mode else {
            return desk.fault(format_args!("tx.commit on a channel without transactions"));
        };
        let (published, settled) = (std::mem::take(published), std::mem::take(settled));
        for publish in &published {
            if publish.returns() {
                self.send_return(publish, desk);
            }
        }
        let committed = !desk.lies(Lie::Commit);
        self.with_truth(desk, |truth| {
            let ids = published.iter().filter_map(|publish| publish.id);
            truth.committed.extend(ids.filter(|_| committed));
            for (tag, _, how) in &settled {
                truth.settled(*tag, *how);
            }
        });
        for (_, unacked, how) in settled {
            self.after_settling(unacked, how);
        }
        desk.send(self.number, &tx::CommitOk {});
        self.deliver_to_all(desk);
    }

    fn rollback(&mut self, desk: &mut Desk) {
        let Mode::Tx { published, settled } = &mut self.mode else {
            return desk.fault(format_args!(
                "tx.rollback on a channel without transactions"
            ));
        };
        let (published, settled) = (std::mem::take(published), std::mem::take(settled));
        self.with_truth(desk, |truth| {
            truth
                .rolled_back
                .extend(published.iter().filter_map(|publish| publish.id));
        });
        for (tag, unacked, _) in settled {
            self.unacked.insert(tag, unacked);
        }
        desk.send(self.number, &tx::RollbackOk {});
    }

    // ----- consuming -----

    fn consume(&mut self, consume: basic::Consume<'static>, desk: &mut Desk) {
        let mut tag = name(&consume.consumer_tag);
        if tag.is_empty() {
            tag = format!("server-{}", desk.world.number());
        }
        if self.consumers.contains_key(&tag) {
            desk.fault(format_args!(
                "a second consumer {tag} on channel {}",
                self.number
            ));
        }
        let consumer = Consumer {
            no_ack: consume.no_ack,
            left: desk.world.plan.broker.deliveries,
            again: VecDeque::new(),
            unacked: 0,
            prefetch: self.prefetch,
            busy: false,
        };
        self.consumers.insert(tag.clone(), consumer);
        if !consume.no_wait {
            let ok = basic::ConsumeOk {
                consumer_tag: short(&tag),
            };
            desk.send(self.number, &ok);
        }
        self.deliver_later(&tag, desk);
    }

    fn deliver_later(&mut self, tag: &str, desk: &mut Desk) {
        let Some(consumer) = self.consumers.get_mut(tag) else {
            return;
        };
        if !std::mem::replace(&mut consumer.busy, true) {
            let after = desk.random.millis(5);
            desk.later(after, Job::Deliver(self.number, self.at, tag.to_owned()));
        }
    }

    fn deliver_to_all(&mut self, desk: &mut Desk) {
        for tag in self.consumers.keys().cloned().collect::<Vec<_>>() {
            self.deliver_later(&tag, desk);
        }
    }

    /// Delivers the next message to this consumer, if it may get one.
    pub(super) fn deliver(&mut self, tag: &str, desk: &mut Desk) {
        let of_all = self.unacked.len();
        let Some(consumer) = self.consumers.get_mut(tag) else {
            return;
        };
        consumer.busy = false;
        if desk.output.len() > OUTPUT_ENOUGH {
            return self.deliver_later(tag, desk);
        }
        let full = (consumer.prefetch > 0 && consumer.unacked >= consumer.prefetch)
            || (self.prefetch_all > 0 && of_all >= usize::from(self.prefetch_all));
        if full && !consumer.no_ack {
            return;
        }
        let message = match consumer.again.pop_front() {
            Some(message) => message,
            None if consumer.left > 0 => {
                consumer.left -= 1;
                Message {
                    id: desk.world.number(),
                    len: desk.random.pick(&[8, 20, 100, 100, 6000, 20_000]),
                    redelivered: false,
                }
            }
            None => return,
        };
        let no_ack = consumer.no_ack;
        if !no_ack {
            consumer.unacked += 1;
        }
        self.last_tag += 1;
        let delivery_tag = self.last_tag;
        self.deliver_message(tag, delivery_tag, &message, no_ack, desk);
        if !no_ack {
            let from = From::Consumer(tag.to_owned());
            self.unacked.insert(delivery_tag, Unacked { from, message });
        }
        if desk.random.chance(desk.world.plan.broker.cancel) {
            desk.world.saw("consumer cancelled by the broker");
            self.consumers.remove(tag);
            let cancel = basic::Cancel {
                consumer_tag: short(tag),
                no_wait: true,
                ..Default::default()
            };
            return desk.send(self.number, &cancel);
        }
        self.deliver_later(tag, desk);
    }

    fn deliver_message(
        &self,
        tag: &str,
        delivery_tag: u64,
        message: &Message,
        no_ack: bool,
        desk: &mut Desk,
    ) {
        self.record_delivery(tag, delivery_tag, message, no_ack, desk);
        let deliver = basic::Deliver {
            consumer_tag: short(tag),
            delivery_tag,
            redelivered: message.redelivered,
            exchange: ShortStr::from_static("e"),
            routing_key: ShortStr::from_static("k"),
            ..Default::default()
        };
        if desk.lies(Lie::Delivery) {
            return;
        }
        let body = body(message.id + u64::from(desk.lies(Lie::Body)), message.len);
        desk.send_content(self.number, &deliver, &Properties::EMPTY, &body);
    }

    fn record_delivery(
        &self,
        consumer: &str,
        delivery_tag: u64,
        message: &Message,
        no_ack: bool,
        desk: &Desk,
    ) {
        let delivery = DeliveryTruth {
            consumer: consumer.to_owned(),
            id: message.id,
            redelivered: message.redelivered,
            no_ack,
            at: desk.now,
            settled: None,
            in_transaction: false,
        };
        self.with_truth(desk, |truth| {
            truth.deliveries.insert(delivery_tag, delivery);
        });
    }

    fn get(&mut self, get: basic::Get<'static>, desk: &mut Desk) {
        let number = digits(&get.queue);
        if number.is_multiple_of(3) {
            return desk.send(self.number, &basic::GetEmpty::default());
        }
        self.last_tag += 1;
        let delivery_tag = self.last_tag;
        let message = Message {
            id: desk.world.number(),
            len: desk.random.pick(&[8, 100, 6000]),
            redelivered: false,
        };
        self.record_delivery("get", delivery_tag, &message, get.no_ack, desk);
        let ok = basic::GetOk {
            delivery_tag,
            message_count: number,
            ..Default::default()
        };
        let body = body(message.id, message.len);
        desk.send_content(self.number, &ok, &Properties::EMPTY, &body);
        if !get.no_ack {
            let passed = false;
            let from = From::Get { number, passed };
            self.unacked.insert(delivery_tag, Unacked { from, message });
        }
    }

    fn settle(&mut self, tag: u64, multiple: bool, how: Settle, desk: &mut Desk) {
        let tags: Vec<u64> = match multiple {
            true => self.unacked.range(..=tag).map(|(tag, _)| *tag).collect(),
            false => self
                .unacked
                .contains_key(&tag)
                .then_some(tag)
                .into_iter()
                .collect(),
        };
        if tags.is_empty() {
            // RabbitMQ closes the channel for it.
            return desk.fault(format_args!(
                "channel {}: {how:?} of the unknown delivery tag {tag}",
                self.number
            ));
        }
        for tag in tags {
            let Some(unacked) = self.unacked.remove(&tag) else {
                continue;
            };
            match &mut self.mode {
                Mode::Tx { settled, .. } => {
                    settled.push((tag, unacked, how));
                    self.with_truth(desk, |truth| truth.settled_in_transaction(tag));
                }
                Mode::Plain | Mode::Confirm { .. } => {
                    let done = match desk.lies(Lie::Settling) {
                        true => Settle::Reject { requeue: true },
                        false => how,
                    };
                    self.with_truth(desk, |truth| truth.settled(tag, done));
                    self.after_settling(unacked, how);
                }
            }
        }
        self.deliver_to_all(desk);
    }

    fn after_settling(&mut self, unacked: Unacked, how: Settle) {
        match how {
            Settle::Nack { requeue: true } | Settle::Reject { requeue: true } => {
                self.requeue(unacked);
            }
            Settle::Ack | Settle::Nack { .. } | Settle::Reject { .. } => self.release(&unacked),
        }
    }

    fn release(&mut self, unacked: &Unacked) {
        let consumer = unacked.from.consumer();
        if let Some(consumer) = consumer.and_then(|tag| self.consumers.get_mut(tag)) {
            // A consumer of the same tag as an earlier one did not get the earlier one's messages.
            consumer.unacked = consumer.unacked.saturating_sub(1);
        }
    }

    fn requeue(&mut self, unacked: Unacked) {
        self.release(&unacked);
        let consumer = unacked.from.consumer();
        if let Some(consumer) = consumer.and_then(|tag| self.consumers.get_mut(tag)) {
            consumer.again.push_back(Message {
                redelivered: true,
                ..unacked.message
            });
        }
    }
}

impl ChannelTruth {
    fn settled_in_transaction(&mut self, tag: u64) {
        if let Some(delivery) = self.deliveries.get_mut(&tag) {
            delivery.in_transaction = true;
        }
    }

    fn settled(&mut self, tag: u64, how: Settle) {
        if let Some(delivery) = self.deliveries.get_mut(&tag) {
            delivery.settled = Some(how);
        }
    }
}

/// Whether the client waits for an answer to this method.
fn is_answered(method: &Method<'_>) -> bool {
    match method {
        Method::BasicAck(_)
        | Method::BasicNack(_)
        | Method::BasicReject(_)
        | Method::ChannelFlowOk(_)
        | Method::ChannelClose(_) => false,
        Method::BasicConsume(consume) => !consume.no_wait,
        Method::QueueDeclare(declare) => !declare.no_wait,
        _ => true,
    }
}

/// The number that a name ends with.
fn digits(name: &ShortStr<'_>) -> u32 {
    let name = name.to_string_lossy();
    let number = name.rsplit('-').next().and_then(|last| last.parse().ok());
    number.unwrap_or(0)
}

fn name(name: &ShortStr<'_>) -> String {
    name.to_string_lossy().into_owned()
}

fn short(name: &str) -> ShortStr<'_> {
    ShortStr::try_from(name).unwrap()
}
