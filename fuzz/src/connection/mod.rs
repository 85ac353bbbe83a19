//! The client's connection as a state machine, between a user and a server that both do as the fuzzer likes, in virtual
//! time.

mod accounts;
mod server;
mod steps;
mod user;
mod wire;

use std::time::{Duration, Instant};

use amqp_client::ConnectOptions;
use amqp_client::error::CloseCause;
use amqp_client::proto::{Batch, ChannelId, Connection, Event, Input};
use amqp_codec::basic::{self, Properties};
use amqp_codec::{ContentHeader, Frame, ReplyCode, ShortStr, channel, connection, frame, short};
use arbitrary::Unstructured;

use self::accounts::{Accounts, Kept};
use self::server::{Server, message, method};
use self::steps::{Ask, Begin, Number, Say, Setup, Step};
use self::wire::ClientStream;
use crate::memory::Memory;

/// Whatever user and server do, each publish has one outcome, each request its own answer, each channel one end; what
/// is sent is in order; nothing goes on for ever; and memory stays below what was sent calls for.
pub fn connection(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(setup) = u.arbitrary::<Setup>() else {
        return;
    };
    // For whoever looks into what was found.
    let shown = std::env::var_os("FUZZ_SHOW").is_some();
    if shown {
        eprintln!("{setup:?}");
    }
    let mut session = Session::new(&setup);
    session.begin(setup.begin);
    while !u.is_empty() {
        let Ok(step) = u.arbitrary::<Step<'_>>() else {
            break;
        };
        if shown {
            eprintln!("{step:?}");
        }
        session.take(step);
        session.check_memory();
    }
    session.end();
}

/// More turns than any number of steps calls for.
const TURNS: usize = 20_000;

/// What a session may use that is not due to its bytes.
const MEMORY: usize = 1 << 20;
/// What it may keep for each thing the user asks for, and each byte that the server sends.
const MEMORY_A_STEP: usize = 8 << 10;
const MEMORY_A_BYTE: usize = 64;

struct Session {
    conn: Connection<Kept>,
    input: Input,
    now: Instant,
    /// The transport takes and brings no more.
    cut_off: bool,
    /// Bytes that the client has handed to its transport.
    written: u64,
    client: ClientStream,
    server: Server,
    /// What the server has said and the transport has not brought.
    on_the_way: Vec<u8>,
    /// How much of what comes next is held back.
    hold_back: usize,
    accounts: Accounts,
    memory: Memory,
    steps: usize,
    received: usize,
    published: usize,
}

impl Session {
    fn new(setup: &Setup) -> Self {
        let memory = Memory::now();
        let limits = setup.limits();
        let options = ConnectOptions::new().limits(limits);
        assert_eq!(options.validate(), Ok(()));
        let now = Instant::now();
        Session {
            input: Input::new(&limits),
            conn: Connection::new(1, options, now),
            now,
            cut_off: false,
            written: 0,
            client: ClientStream::default(),
            server: Server::new(setup),
            on_the_way: Vec::new(),
            hold_back: 0,
            accounts: Accounts::new(),
            memory,
            steps: 0,
            received: 0,
            published: 0,
        }
    }

    fn begin(&mut self, begin: Begin) {
        if begin == Begin::Nothing {
            return;
        }
        self.answer_all();
        if begin == Begin::Channels {
            let confirms = |tag_returns| Ask::SelectConfirms {
                max_in_flight: u8::MAX,
                timeout: Some(u16::MAX),
                tag_returns,
            };
            let modes = [
                None,
                Some(confirms(false)),
                Some(confirms(true)),
                Some(Ask::SelectTx),
            ];
            for (number, mode) in (1..).map(Number).zip(modes) {
                self.ask(number, Ask::OpenChannel);
                self.answer_all();
                if let Some(select) = mode {
                    self.ask(number, select);
                    self.answer_all();
                }
            }
        }
    }

    fn take(&mut self, step: Step<'_>) {
        self.steps += 1;
        match step {
            Step::Ask(number, ask) | Step::AskAgain(number, ask) => self.ask(number, ask),
            Step::Answer => {
                self.transmit();
                self.answer();
            }
            Step::AnswerAll => self.answer_all(),
            Step::Say(number, say) | Step::SayAgain(number, say) => self.say(number, &say),
            Step::Cut(bytes) => self.hold_back = bytes.into(),
            Step::Transmit => self.transmit(),
            Step::Pass(millis) => self.pass(Duration::from_millis(millis.into())),
            Step::EndOfStream { unsent } => self.end_of_stream(unsent.into()),
        }
        self.drain();
    }

    // ----- the server -----

    fn answer_all(&mut self) {
        for _ in 0..TURNS {
            self.transmit();
            if !self.answer() {
                return;
            }
        }
        panic!("the client asks without end");
    }

    fn answer(&mut self) -> bool {
        let Some(request) = self.client.requests.pop_front() else {
            return false;
        };
        let answer = self.server.answer(&request);
        self.arrive(&answer);
        true
    }

    fn say(&mut self, number: Number, say: &Say<'_>) {
        self.accounts.honest = false;
        let number = u16::from(number.0);
        let bytes = match say {
            Say::Ack { tag, multiple } => {
                let ack = basic::Ack {
                    delivery_tag: (*tag).into(),
                    multiple: *multiple,
                    ..Default::default()
                };
                method(number, &ack)
            }
            Say::Nack { tag, multiple } => {
                let nack = basic::Nack {
                    delivery_tag: (*tag).into(),
                    multiple: *multiple,
                    ..Default::default()
                };
                method(number, &nack)
            }
            Say::Return { which } => self.returned(number, *which),
            Say::Deliver {
                consumer,
                tag,
                size,
            } => {
                let delivery_tag = match tag {
                    0 => self.server.next_delivery(),
                    tag => (*tag).into(),
                };
                let deliver = basic::Deliver {
                    consumer_tag: name(*consumer),
                    delivery_tag,
                    routing_key: short!("q"),
                    ..Default::default()
                };
                let body = vec![*tag; (*size).into()];
                message(number, &deliver, &Properties::EMPTY, &body)
            }
            Say::Cancel { consumer, no_wait } => {
                let cancel = basic::Cancel {
                    consumer_tag: name(*consumer),
                    no_wait: *no_wait,
                    ..Default::default()
                };
                method(number, &cancel)
            }
            Say::Flow { active } => {
                let flow = channel::Flow {
                    active: *active,
                    ..Default::default()
                };
                method(number, &flow)
            }
            Say::CloseChannel { code } => {
                let close = channel::Close {
                    reply_code: ReplyCode(*code),
                    ..Default::default()
                };
                method(number, &close)
            }
            Say::ChannelCloseOk => method(number, &channel::CloseOk {}),
            Say::CloseConnection { code } => {
                let close = connection::Close {
                    reply_code: ReplyCode(*code),
                    ..Default::default()
                };
                method(0, &close)
            }
            Say::Blocked => method(0, &connection::Blocked::default()),
            Say::Unblocked => method(0, &connection::Unblocked {}),
            Say::Heartbeat => crate::encoded(frame::encode_heartbeat),
            Say::Method(method) => {
                let method = Frame::Method {
                    channel: number,
                    method: method.clone(),
                };
                crate::encoded(|bytes| method.encode(bytes))
            }
            Say::Header { size } => {
                let header = ContentHeader {
                    class_id: 60,
                    body_size: (*size).into(),
                    ..Default::default()
                };
                crate::encoded(|bytes| frame::encode_header(number, &header, bytes))
            }
            Say::Body { len } => {
                let body = vec![b'b'; (*len).into()];
                crate::encoded(|bytes| frame::encode_body(number, &body, bytes))
            }
            Say::Frame(frame) => crate::encoded(|bytes| frame.encode(bytes)),
            Say::Raw(raw) => crate::encoded(|bytes| raw.encode(bytes)),
            Say::Bytes(bytes) => bytes.to_vec(),
        };
        self.arrive(&bytes);
    }

    /// One of the messages that came on the channel goes back as it came; nothing where none came.
    fn returned(&self, number: u16, which: u8) -> Vec<u8> {
        let received = self.client.received.iter().rev();
        let mut on_channel = received.filter(|message| message.channel == number);
        let Some(message) = on_channel.nth(usize::from(which % 8)) else {
            return Vec::new();
        };
        let returned = basic::Return {
            reply_code: ReplyCode::NO_ROUTE,
            reply_text: short!("NO_ROUTE"),
            exchange: message.publish.exchange.as_borrowed(),
            routing_key: message.publish.routing_key.as_borrowed(),
        };
        self::message(number, &returned, &message.properties, &message.body)
    }

    // ----- the transport -----

    /// The server's bytes arrive, those before them first.
    fn arrive(&mut self, bytes: &[u8]) {
        self.on_the_way.extend_from_slice(bytes);
        let held_back = std::mem::take(&mut self.hold_back);
        let len = self.on_the_way.len().saturating_sub(held_back);
        if self.cut_off || len == 0 {
            return;
        }
        // That is when its owner is not to read.
        if self.conn.is_overfull() {
            self.transmit();
        }
        let rest = self.on_the_way.split_off(len);
        let arrived = std::mem::replace(&mut self.on_the_way, rest);
        self.received += arrived.len();
        self.accounts.words.hear(&arrived);
        self.input.buffer().extend_from_slice(&arrived);
        let memory = Memory::now();
        self.conn.handle_input(self.now, &mut self.input);
        let most = MEMORY + MEMORY_A_BYTE * self.received + self.published;
        assert!(
            memory.asked_for() <= most,
            "{} for {arrived:?}",
            memory.asked_for()
        );
        self.drain();
        self.accounts.words_before = self.accounts.words.len();
    }

    /// The transport takes all there is.
    fn transmit(&mut self) {
        let (mut batch, mut sent) = (Batch::new(), Vec::new());
        for _ in 0..TURNS {
            if !self.conn.poll_transmit(self.now, &mut batch) {
                self.sent(&sent);
                return;
            }
            assert!(!batch.is_empty());
            wire::drain(&mut batch, &mut sent);
        }
        panic!("the client sends without end");
    }

    fn sent(&mut self, bytes: &[u8]) {
        if self.cut_off {
            return;
        }
        self.written += bytes.len() as u64;
        let negotiated = self.conn.negotiated();
        let before = self.client.received.len();
        self.client
            .take(bytes, negotiated.map(|negotiated| negotiated.frame_max));
        if self.accounts.honest {
            self.client.check_turns();
        }
        for message in &self.client.received[before..] {
            self.accounts.received(message);
        }
    }

    /// The stream ends, and so much of what was handed out last was not taken.
    fn end_of_stream(&mut self, unsent: u64) {
        self.transmit();
        self.cut_off = true;
        self.conn
            .handle_transport_end(self.written.saturating_sub(unsent), CloseCause::EndOfStream);
    }

    // ----- the rest -----

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.transmit();
        for _ in 0..TURNS {
            let Some(at) = self.conn.poll_timeout().filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            self.conn.handle_timeout(self.now);
            self.transmit();
            self.drain();
        }
        panic!("nothing comes of a deadline");
    }

    fn drain(&mut self) {
        for _ in 0..TURNS {
            let Some(event) = self.conn.poll_event() else {
                return;
            };
            if let Event::Settled(id, ..) = &event {
                assert!(self.conn.kept(&id.channel, id.seq).is_none());
            }
            self.accounts.happened(event, self.now);
        }
        panic!("events without end");
    }

    /// Whatever is kept is due to what was sent and asked for.
    fn check_memory(&self) {
        let most = MEMORY
            + MEMORY_A_STEP * self.steps
            + MEMORY_A_BYTE * self.received
            + 4 * self.published;
        let grown = self.memory.grown();
        assert!(grown <= most, "{grown} bytes where {most} are enough");
    }

    /// Time passes, the stream ends, and then all is over.
    fn end(&mut self) {
        self.pass(Duration::from_secs(100));
        self.drain();
        self.end_of_stream(0);
        self.drain();
        assert!(self.accounts.is_over() && self.conn.closed().is_some());
        assert_eq!(self.conn.poll_timeout(), None);
        assert_eq!(self.conn.open_channels(), 0);
        self.transmit();
        self.conn.handle_timeout(self.now);
        assert!(self.conn.poll_event().is_none());
        assert!(!self.conn.poll_transmit(self.now, &mut Batch::new()));
    }

    fn channel_of(&self, number: Number) -> Option<ChannelId> {
        let number = u16::from(number.0);
        let opened = self.accounts.channels.iter().rev();
        let mut on_number = opened.map(|channel| channel.id);
        on_number.find(|id| id.number == number)
    }
}

/// The tag of a consumer.
fn name(number: Number) -> ShortStr<'static> {
    let names = [short!("a"), short!("b"), short!("c"), short!("d")];
    match names.get(usize::from(number.0)) {
        Some(name) => name.clone(),
        // One that the server makes.
        None => short!("made-1"),
    }
}
