//! A model of a broker, small and by the rules, that remembers what it did.
//!
//! Each connection is a task of its own. What comes on a channel is worked on in its order, each item some time after
//! the one before; what that leads to later (confirms, deliveries, heartbeats, the end) is on an agenda. All it does is
//! allowed by the protocol, however unusual; what the client does that is not allowed is a fault.

mod channel;
mod content;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{
    Frame, Limits, LongStr, Method, MethodFields, ProtocolHeader, RawFrame, ReplyCode, ShortStr,
    connection, content as codec_content, frame, table,
};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use self::channel::{Channel, Next};
use super::network::{End, Ending};
use super::plan::{End as HowItEnds, Lie, Stop};
use super::random::Random;
use super::world::World;

pub(crate) use self::content::{body, finds_no_queue, number_of};

/// How long a broker waits for the client to end the stream.
const PATIENCE: Duration = Duration::from_secs(3);

/// One connection of the broker.
pub(crate) struct Broker {
    end: End,
    input: BytesMut,
    limits: Limits,
    stage: Stage,
    /// When the client was heard last.
    heard: Instant,
    /// Until when nothing is read.
    deaf_until: Option<Instant>,
    channels: BTreeMap<u16, Channel>,
    timer: Pin<Box<Sleep>>,
    desk: Desk,
}

/// What the channels work with that belongs to the connection.
struct Desk {
    world: Arc<World>,
    number: usize,
    random: Random,
    now: Instant,
    output: BytesMut,
    frame_max: u32,
    agenda: BTreeMap<(Instant, u64), Job>,
    jobs: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    Header,
    StartOk,
    TuneOk,
    Open,
    Running,
    /// connection.close is sent.
    Closing,
    /// close-ok is sent or came: the stream is ended when all is written.
    Over,
}

/// Something to be done later, on the channel that was opened as this one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Job {
    Work(u16, usize),
    Confirm(u16, usize),
    Deliver(u16, usize, String),
    StartFlow(u16, usize),
    Beat,
    Block,
    Unblock,
    End,
    GiveUp,
}

impl Desk {
    fn later(&mut self, after: Duration, job: Job) {
        self.jobs += 1;
        self.agenda.insert((self.now + after, self.jobs), job);
    }

    fn send<M: MethodFields>(&mut self, channel: u16, method: &M) {
        self.world.note(format_args!(
            "{}: broker: {} on {channel}",
            self.number,
            M::ID
        ));
        frame::encode_method(channel, method, &mut self.output).unwrap();
    }

    fn send_content<M: MethodFields>(
        &mut self,
        channel: u16,
        method: &M,
        properties: &Properties<'_>,
        body: &[u8],
    ) {
        self.world.note(format_args!(
            "{}: broker: {} on {channel} with {} bytes",
            self.number,
            M::ID,
            body.len()
        ));
        let frame_max = self.frame_max;
        codec_content::encode(
            channel,
            method,
            properties,
            body,
            frame_max,
            &mut self.output,
        )
        .unwrap();
    }

    /// Whether this is one of the times that it lies so.
    fn lies(&mut self, lie: Lie) -> bool {
        self.world.plan.broker.lie == Some(lie) && self.random.chance(300)
    }

    fn fault(&self, what: std::fmt::Arguments<'_>) {
        self.world
            .fault(format_args!("connection {}: {what}", self.number));
    }
}

impl Broker {
    pub(crate) fn new(world: Arc<World>, number: usize, end: End, random: Random) -> Self {
        let now = Instant::now();
        let limits = Limits {
            frame_max: frame::FRAME_MIN_SIZE,
            method_frame_max: frame::FRAME_MIN_SIZE,
            ..Limits::default()
        };
        Broker {
            end,
            input: BytesMut::new(),
            limits,
            stage: Stage::Header,
            heard: now,
            deaf_until: None,
            channels: BTreeMap::new(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            desk: Desk {
                world,
                number,
                random,
                now,
                output: BytesMut::new(),
                frame_max: frame::FRAME_MIN_SIZE,
                agenda: BTreeMap::new(),
                jobs: 0,
            },
        }
    }

    /// Serves the client until the connection is over.
    pub(crate) async fn serve(mut self) {
        if let Some((after, _)) = self.desk.world.plan.broker.end
            && self.desk.random.chance(700)
        {
            self.desk.later(Duration::from_millis(after), Job::End);
        }
        poll_fn(|cx| self.poll(cx)).await;
        self.desk
            .world
            .note(format_args!("{}: broker: done", self.desk.number));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.desk.now = Instant::now();
            while let Some(entry) = self.desk.agenda.first_entry()
                && entry.key().0 <= self.desk.now
            {
                let job = entry.remove();
                if self.run(job).is_break() {
                    return Poll::Ready(());
                }
            }
            let wrote = match self.poll_write(cx) {
                Poll::Ready(Ok(())) => true,
                // What the client said before is of no interest to anybody.
                Poll::Ready(Err(())) => return Poll::Ready(()),
                Poll::Pending => false,
            };
            if self.stage == Stage::Over && self.desk.output.is_empty() {
                let _ = Pin::new(&mut self.end).poll_shutdown(cx);
            }
            let read = match self.poll_read(cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(())) => return Poll::Ready(()),
                Poll::Pending => false,
            };
            if wrote || read {
                continue;
            }
            let next = self.desk.agenda.keys().next().map(|(at, _)| *at);
            let next = next.into_iter().chain(self.deaf_until).min();
            let Some(next) = next else {
                return Poll::Pending;
            };
            self.timer.as_mut().reset(next);
            ready!(self.timer.as_mut().poll(cx));
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        if self.desk.output.is_empty() {
            return Poll::Pending;
        }
        let written = ready!(Pin::new(&mut self.end).poll_write(cx, &self.desk.output));
        Poll::Ready(match written {
            Ok(count) => {
                self.desk.output.advance(count);
                Ok(())
            }
            Err(_) => Err(()),
        })
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        if let Some(until) = self.deaf_until {
            if until > self.desk.now {
                return Poll::Pending;
            }
            self.deaf_until = None;
            self.heard = self.desk.now;
        }
        let mut bytes = [0; 4096];
        let mut buffer = ReadBuf::new(&mut bytes);
        let result = ready!(Pin::new(&mut self.end).poll_read(cx, &mut buffer));
        if result.is_err() || buffer.filled().is_empty() {
            return Poll::Ready(Err(()));
        }
        self.heard = self.desk.now;
        self.input.extend_from_slice(buffer.filled());
        self.take_apart();
        Poll::Ready(Ok(()))
    }

    fn take_apart(&mut self) {
        if self.stage == Stage::Header {
            if let Some(header) = ProtocolHeader::parse(&self.input) {
                self.input.advance(8);
                self.greet(header);
            }
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        let mut done = 0;
        loop {
            match RawFrame::parse(&input[done..], &self.limits) {
                Ok(None) => break,
                Ok(Some((raw, count))) => {
                    done += count;
                    self.receive(raw);
                }
                Err(error) => {
                    self.desk
                        .fault(format_args!("the client sent no frame: {error}"));
                    done = input.len();
                }
            }
        }
        input.advance(done);
        self.input = input;
    }

    fn receive(&mut self, raw: RawFrame<'_>) {
        let frame = match raw.decode(&self.limits) {
            Ok(frame) => frame,
            Err(error) => {
                return self
                    .desk
                    .fault(format_args!("the client sent a bad frame: {error}"));
            }
        };
        match (self.stage, frame) {
            (_, Frame::Heartbeat) => {}
            (Stage::Over, frame) => self
                .desk
                .fault(format_args!("behind the end of the connection: {frame:?}")),
            (Stage::Closing, Frame::Method { channel: 0, method }) => match method {
                Method::ConnectionCloseOk(_) => self.end_stream(),
                // Both closed at once.
                Method::ConnectionClose(_) => {
                    self.close_came();
                    self.desk.send(0, &connection::CloseOk {});
                }
                _ => {}
            },
            (Stage::Closing, _) => {}
            (_, Frame::Method { channel: 0, method }) => self.receive_method(method),
            (Stage::Running, frame) => self.receive_on_channel(frame, raw.payload),
            (stage, frame) => self
                .desk
                .fault(format_args!("at stage {stage:?} came {frame:?}")),
        }
    }

    fn close_came(&mut self) {
        self.desk.world.truth().connections[self.desk.number].close_came = true;
    }

    fn end_stream(&mut self) {
        self.stage = Stage::Over;
        self.channels.clear();
        self.desk.agenda.clear();
        self.desk.later(PATIENCE, Job::GiveUp);
    }

    // ----- the handshake and channel 0 -----

    fn greet(&mut self, header: ProtocolHeader) {
        if header != ProtocolHeader::AMQP_0_9_1 {
            self.desk
                .fault(format_args!("the client began with {header:?}"));
        }
        self.stage = Stage::StartOk;
        let capabilities = table! {
            "publisher_confirms" => true,
            "basic.nack" => true,
            "consumer_cancel_notify" => true,
            "connection.blocked" => true,
        };
        let start = connection::Start {
            version_minor: 9,
            server_properties: table! { "capabilities" => capabilities },
            mechanisms: LongStr::from("PLAIN"),
            locales: LongStr::from("en_US"),
            ..Default::default()
        };
        self.desk.send(0, &start);
    }

    fn stop(&self) -> Option<Stop> {
        // The first connection alone; there are others to tell of that this one failed.
        let stop = self.desk.world.plan.broker.handshake;
        stop.filter(|_| self.desk.number == 0)
    }

    fn receive_method(&mut self, method: Method<'_>) {
        let plan = &self.desk.world.plan;
        match (self.stage, method) {
            (Stage::StartOk, Method::ConnectionStartOk(_)) => match self.stop() {
                Some(Stop::Refused) => self.close(ReplyCode::ACCESS_REFUSED),
                Some(Stop::GoneAtStart) => self.desk.later(Duration::ZERO, Job::End),
                Some(Stop::GoneAtOpen | Stop::SilentAtTune) | None => {
                    self.stage = Stage::TuneOk;
                    let tune = connection::Tune {
                        channel_max: plan.channel_max,
                        frame_max: plan.frame_max,
                        heartbeat: plan.heartbeat,
                    };
                    self.desk.send(0, &tune);
                }
            },
            (Stage::TuneOk, Method::ConnectionTuneOk(ok)) => {
                if (ok.channel_max, ok.frame_max) != (plan.channel_max, plan.frame_max) {
                    self.desk.fault(format_args!("tune was answered by {ok:?}"));
                }
                self.limits.frame_max = ok.frame_max;
                self.limits.method_frame_max = ok.frame_max;
                self.desk.frame_max = ok.frame_max;
                self.stage = Stage::Open;
            }
            (Stage::Open, Method::ConnectionOpen(_)) => match self.stop() {
                Some(Stop::GoneAtOpen) => self.desk.later(Duration::ZERO, Job::End),
                Some(Stop::SilentAtTune) => {}
                Some(Stop::Refused | Stop::GoneAtStart) | None => self.open(),
            },
            (Stage::Running, Method::ConnectionUpdateSecret(_)) => {
                self.desk.send(0, &connection::UpdateSecretOk {});
            }
            (_, Method::ConnectionClose(_)) => {
                self.close_came();
                self.desk.send(0, &connection::CloseOk {});
                self.end_stream();
            }
            (stage, method) => self
                .desk
                .fault(format_args!("at stage {stage:?} came {}", method.id())),
        }
    }

    fn open(&mut self) {
        self.stage = Stage::Running;
        self.desk.send(0, &connection::OpenOk::default());
        let world = self.desk.world.clone();
        if world.plan.heartbeat > 0 {
            self.desk.later(self.beat(), Job::Beat);
        }
        for _ in 0..world.plan.broker.blocks {
            let after = self.desk.random.millis(400);
            self.desk.later(after, Job::Block);
        }
    }

    fn beat(&self) -> Duration {
        Duration::from_secs(u64::from(self.desk.world.plan.heartbeat)) / 2
    }

    /// Closes the connection.
    fn close(&mut self, code: ReplyCode) {
        self.desk.world.truth().connections[self.desk.number].closed = Some(code.0);
        self.desk.world.saw("connection closed by the broker");
        let close = connection::Close {
            reply_code: code,
            reply_text: ShortStr::from_static("simulated"),
            ..Default::default()
        };
        self.desk.send(0, &close);
        self.stage = Stage::Closing;
        self.channels.clear();
        self.desk.agenda.clear();
        self.desk.later(PATIENCE * 20, Job::GiveUp);
    }

    fn run(&mut self, job: Job) -> std::ops::ControlFlow<()> {
        use std::ops::ControlFlow::{Break, Continue};
        match job {
            Job::Work(number, at) => {
                let Some(channel) = self.channels.get_mut(&number).filter(|it| it.at == at) else {
                    return Continue(());
                };
                if let Next::Free = channel.work(&mut self.desk) {
                    self.channels.remove(&number);
                }
            }
            Job::Confirm(number, at) => {
                if let Some(channel) = self.channels.get_mut(&number).filter(|it| it.at == at) {
                    channel.confirm(&mut self.desk);
                }
            }
            Job::Deliver(number, at, consumer) => {
                if let Some(channel) = self.channels.get_mut(&number).filter(|it| it.at == at) {
                    channel.deliver(&consumer, &mut self.desk);
                }
            }
            Job::StartFlow(number, at) => {
                if let Some(channel) = self.channels.get_mut(&number).filter(|it| it.at == at) {
                    channel.set_flow(true, &mut self.desk);
                }
            }
            Job::Beat => {
                let interval = 2 * self.beat();
                let silence = self.desk.now - self.heard;
                if silence > 2 * interval && self.desk.world.plan.roads.stall == 0 {
                    self.desk
                        .fault(format_args!("the client was silent for {silence:?}"));
                }
                frame::encode_heartbeat(&mut self.desk.output).unwrap();
                self.desk.later(self.beat(), Job::Beat);
            }
            Job::Block => {
                self.desk.world.saw("blocked");
                let reason = ShortStr::from_static("simulated");
                self.desk.send(0, &connection::Blocked { reason });
                let after = self.desk.random.millis(900);
                if self.desk.random.chance(500) {
                    self.deaf_until = Some(self.desk.now + after);
                }
                self.desk.later(after, Job::Unblock);
            }
            Job::Unblock => {
                // Another alarm may last longer.
                if !self.desk.agenda.values().any(|job| *job == Job::Unblock) {
                    self.desk.send(0, &connection::Unblocked {});
                }
            }
            Job::End => {
                let how = self.desk.world.plan.broker.end.map(|(_, how)| how);
                match how {
                    Some(HowItEnds::Close) if self.stage == Stage::Running => {
                        self.close(ReplyCode::CONNECTION_FORCED);
                    }
                    Some(HowItEnds::Silence) => return self.leave(Ending::Silence),
                    Some(HowItEnds::Close | HowItEnds::Gone) | None => {
                        let how = self.desk.random.pick(&[Ending::Closed, Ending::Reset]);
                        return self.leave(how);
                    }
                }
            }
            Job::GiveUp => {
                // In a calm simulation the client is there, and ends the stream.
                if self.desk.world.plan.calm {
                    self.desk.fault(format_args!(
                        "the client neither answers the close nor ends the stream"
                    ));
                }
                return Break(());
            }
        }
        Continue(())
    }

    /// The broker is gone, whatever the client was about.
    fn leave(&mut self, how: Ending) -> std::ops::ControlFlow<()> {
        let Desk { world, number, .. } = &self.desk;
        world.saw("the broker went");
        world.note(format_args!("{number}: broker: gone, {how:?}"));
        world.truth().connections[*number].broken = true;
        self.end.break_off(how);
        std::ops::ControlFlow::Break(())
    }

    // ----- channels -----

    fn receive_on_channel(&mut self, frame: Frame<'_>, payload: &[u8]) {
        let number = frame.channel();
        if let Frame::Method {
            method: Method::ChannelOpen(_),
            ..
        } = frame
        {
            if self.channels.contains_key(&number) {
                return self
                    .desk
                    .fault(format_args!("channel {number} was opened twice"));
            }
            if number > self.desk.world.plan.channel_max {
                self.desk
                    .fault(format_args!("channel {number} is above channel_max"));
            }
            let channel = Channel::open(number, &mut self.desk);
            self.channels.insert(number, channel);
            return;
        }
        let Some(channel) = self.channels.get_mut(&number) else {
            return self.desk.fault(format_args!(
                "on channel {number}, which is not open: {frame:?}"
            ));
        };
        if let Next::Free = channel.receive(frame, payload, &self.limits, &mut self.desk) {
            self.channels.remove(&number);
        }
    }
}
