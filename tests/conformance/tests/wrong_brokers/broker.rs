//! What a broker can do wrong, in the words of who writes one down:
//!
//! ```ignore
//! wrong("acks the next publish", rewrites(|ack: &mut basic::Ack| ack.delivery_tag += 1))
//!     .caught_by(["basic.publish/confirmed-when-routed"]),
//! ```

use std::sync::Arc;
use std::time::Duration;

use amqp_codec::basic::Properties;
use amqp_codec::{
    ContentHeader, Frame, Method, MethodFields, MethodId, ReplyCode, connection, frame,
};
use amqp_conformance::Typed;
use amqp_conformance::event::{LIMITS, OwnedFrame};

/// A broker that is wrong on purpose.
#[derive(Clone)]
pub(crate) struct WrongBroker {
    pub(crate) name: &'static str,
    pub(crate) caught_by: Vec<&'static str>,
    pub(crate) fault: Fault,
}

/// What is wrong; each connection has a state of its own.
pub(crate) type Fault = Arc<dyn Fn() -> Hook + Send + Sync>;

/// Sees all that goes over one connection, and says what becomes of it.
pub(crate) type Hook = Box<dyn FnMut(Passing, &mut Out) + Send>;

/// What goes by.
pub(crate) enum Passing {
    /// From the broker: a frame, or a method with its whole content.
    Server(Unit),
    /// From the broker: what is no frame, as a protocol header.
    ServerBytes(Vec<u8>),
    /// The broker ends the stream.
    ServerEnd,
    /// From the check.
    Client(OwnedFrame),
    /// From the check: what is no frame.
    ClientBytes(Vec<u8>),
}

/// What a broker says at once.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub(crate) channel: u16,
    /// One frame; or the method, the header and the bodies of a content.
    pub(crate) frames: Vec<OwnedFrame>,
}

/// What goes on from here.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) actions: Vec<Action>,
}

#[derive(Debug)]
pub(crate) enum Action {
    ToClient(Vec<u8>),
    ToServer(Vec<u8>),
    /// Nothing goes to the check for this long.
    Wait(Duration),
    /// Ends the stream to the check.
    Cut,
    /// Resets the connection to the check.
    Reset,
}

impl Out {
    pub(crate) fn pass(&mut self, passing: Passing) {
        match passing {
            Passing::Server(unit) => self.tell_client(&unit),
            Passing::ServerBytes(bytes) => self.act(Action::ToClient(bytes)),
            Passing::ServerEnd => self.act(Action::Cut),
            Passing::Client(frame) => self.tell_server(&frame),
            Passing::ClientBytes(bytes) => self.act(Action::ToServer(bytes)),
        }
    }

    pub(crate) fn tell_client(&mut self, unit: &Unit) {
        let bytes = unit.frames.iter().flat_map(bytes).collect();
        self.actions.push(Action::ToClient(bytes));
    }

    pub(crate) fn tell_server(&mut self, frame: &OwnedFrame) {
        self.actions.push(Action::ToServer(bytes(frame)));
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }
}

fn bytes(frame: &OwnedFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    let raw = amqp_codec::RawFrame {
        kind: frame.kind,
        channel: frame.channel,
        payload: &frame.payload,
    };
    raw.encode(&mut bytes).expect("it came in such a frame");
    bytes
}

impl Unit {
    /// A method without content.
    pub(crate) fn method(channel: u16, method: &impl MethodFields) -> Self {
        Self {
            channel,
            frames: vec![method_frame(channel, method)],
        }
    }

    pub(crate) fn id(&self) -> Option<MethodId> {
        self.frames.first()?.method().map(|method| method.id())
    }

    pub(crate) fn typed<M: Typed>(&self) -> Option<M> {
        M::try_from(self.frames.first()?.method()?).ok()
    }
}

pub(crate) fn method_frame(channel: u16, method: &impl MethodFields) -> OwnedFrame {
    let mut encoded = Vec::new();
    frame::encode_method(channel, method, &mut encoded).expect("the method fits a frame");
    OwnedFrame {
        kind: frame::METHOD,
        channel,
        payload: encoded[7..encoded.len() - 1].to_vec().into(),
    }
}

fn header_frame(channel: u16, header: &ContentHeader<'_>) -> OwnedFrame {
    let mut encoded = Vec::new();
    frame::encode_header(channel, header, &mut encoded).expect("the header fits a frame");
    OwnedFrame {
        kind: frame::HEADER,
        channel,
        payload: encoded[7..encoded.len() - 1].to_vec().into(),
    }
}

/// A broker with this fault. The name says what it does: `GROUP/what-it-does-wrong`.
pub(crate) fn wrong(name: &'static str, fault: Fault) -> WrongBroker {
    WrongBroker {
        name,
        caught_by: Vec::new(),
        fault,
    }
}

impl WrongBroker {
    /// The checks that must fail.
    pub(crate) fn caught_by<const N: usize>(mut self, checks: [&'static str; N]) -> Self {
        self.caught_by.extend(checks);
        self
    }
}

/// Any fault: the hook is made anew for each connection.
pub(crate) fn fault<H>(make: impl Fn() -> H + Send + Sync + 'static) -> Fault
where
    H: FnMut(Passing, &mut Out) + Send + 'static,
{
    Arc::new(move || Box::new(make()))
}

/// Nothing is wrong.
pub(crate) fn nothing() -> Fault {
    fault(|| |passing, out: &mut Out| out.pass(passing))
}

/// The broker never ends the stream.
pub(crate) fn never_ends() -> Fault {
    fault(|| {
        |passing, out: &mut Out| match passing {
            Passing::ServerEnd => {}
            passing => out.pass(passing),
        }
    })
}

/// What is done to each frame of the client's.
pub(crate) fn frames(act: impl Fn(OwnedFrame, &mut Out) + Send + Sync + Clone + 'static) -> Fault {
    fault(move || {
        let act = act.clone();
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) => act(frame, out),
            passing => out.pass(passing),
        }
    })
}

/// The broker ends the stream at such a frame of the client's.
pub(crate) fn ends_at(
    which: impl Fn(&OwnedFrame) -> bool + Send + Sync + Clone + 'static,
) -> Fault {
    frames(move |frame, out| match which(&frame) {
        true => out.act(Action::Cut),
        false => out.tell_server(&frame),
    })
}

/// The broker does not hear such a frame of the client's.
pub(crate) fn overhears(
    which: impl Fn(&OwnedFrame) -> bool + Send + Sync + Clone + 'static,
) -> Fault {
    frames(move |frame, out| {
        if !which(&frame) {
            out.tell_server(&frame);
        }
    })
}

/// The broker ends the stream at such a method of the client's.
pub(crate) fn ends_at_method<M: Typed>(
    which: impl Fn(&M) -> bool + Send + Sync + Clone + 'static,
) -> Fault {
    ends_at(move |frame| typed::<M>(frame).is_some_and(|it| which(&it)))
}

/// The method in a frame, if it is this one.
pub(crate) fn typed<M: Typed>(frame: &OwnedFrame) -> Option<M> {
    M::try_from(frame.method()?).ok()
}

/// The broker says another code in connection.close.
pub(crate) fn confuses_codes(from: ReplyCode, to: ReplyCode) -> Fault {
    rewrites(move |it: &mut connection::Close<'static>| {
        if it.reply_code == from {
            it.reply_code = to;
        }
    })
}

/// What is done to what the broker says, if it is this method; all else passes.
pub(crate) fn server(
    id: MethodId,
    act: impl Fn(Unit, &mut Out) + Send + Sync + Clone + 'static,
) -> Fault {
    fault(move || {
        let act = act.clone();
        move |passing, out: &mut Out| match passing {
            Passing::Server(unit) if unit.id() == Some(id) => act(unit, out),
            passing => out.pass(passing),
        }
    })
}

/// The broker never says this method, with its content if it has one.
pub(crate) fn drops(id: MethodId) -> Fault {
    server(id, |_, _| {})
}

/// The broker says this method twice.
pub(crate) fn duplicates(id: MethodId) -> Fault {
    server(id, |unit, out| {
        out.tell_client(&unit);
        out.tell_client(&unit);
    })
}

/// The broker says this method after what it says next on the channel.
pub(crate) fn postpones(id: MethodId) -> Fault {
    fault(move || {
        let mut held: Option<Unit> = None;
        move |passing, out: &mut Out| match passing {
            Passing::Server(unit) if unit.id() == Some(id) && held.is_none() => held = Some(unit),
            Passing::Server(unit) => {
                out.tell_client(&unit);
                if let Some(late) = held.take_if(|it| it.channel == unit.channel) {
                    out.tell_client(&late);
                }
            }
            passing => out.pass(passing),
        }
    })
}

/// The broker thinks for a while before it says this method; nothing overtakes it.
pub(crate) fn delays(id: MethodId, duration: Duration) -> Fault {
    server(id, move |unit, out| {
        out.act(Action::Wait(duration));
        out.tell_client(&unit);
    })
}

/// The broker ends the stream instead of saying this method.
pub(crate) fn cuts_instead_of(id: MethodId) -> Fault {
    server(id, |_, out| out.act(Action::Cut))
}

/// The broker resets the connection instead of saying this method.
pub(crate) fn resets_instead_of(id: MethodId) -> Fault {
    server(id, |_, out| out.act(Action::Reset))
}

/// The broker says another method instead.
pub(crate) fn replaces<M: MethodFields>(
    id: MethodId,
    by: impl Fn() -> M + Send + Sync + Clone + 'static,
) -> Fault {
    server(id, move |unit, out| {
        out.tell_client(&Unit::method(unit.channel, &by()));
    })
}

/// The broker says something else in this method.
pub(crate) fn rewrites<M: Typed>(
    rewrite: impl Fn(&mut M) + Send + Sync + Clone + 'static,
) -> Fault {
    server(M::ID, move |mut unit, out| {
        if let Some(mut method) = unit.typed::<M>() {
            rewrite(&mut method);
            unit.frames[0] = method_frame(unit.channel, &method);
        }
        out.tell_client(&unit);
    })
}

/// The broker changes the properties of the contents of this method.
pub(crate) fn rewrites_properties(
    id: MethodId,
    rewrite: impl Fn(&mut Properties<'static>) + Send + Sync + Clone + 'static,
) -> Fault {
    server(id, move |mut unit, out| {
        if let Some(at) = unit.frames.get(1)
            && let Ok(Frame::Header { channel, header }) = at.decode()
        {
            let mut header = header.into_owned();
            rewrite(&mut header.properties);
            unit.frames[1] = header_frame(channel, &header);
        }
        out.tell_client(&unit);
    })
}

/// Puts into the headers whom a message was copied to, as if the server had not taken it out.
pub(crate) fn shows_copies(properties: &mut Properties<'static>) {
    let headers = properties.headers.take().unwrap_or_default();
    let mut headers = headers
        .decode(&LIMITS)
        .expect("they are sound")
        .into_owned();
    headers.insert("BCC", "somebody").expect("a short key");
    properties.headers = Some(headers.into());
}

/// The broker changes the bodies of the contents of this method; their lengths must stay.
pub(crate) fn rewrites_body(
    id: MethodId,
    rewrite: impl Fn(&mut [u8]) + Send + Sync + Clone + 'static,
) -> Fault {
    server(id, move |mut unit, out| {
        for frame in unit.frames.iter_mut().skip(2) {
            let mut payload = frame.payload.to_vec();
            rewrite(&mut payload);
            frame.payload = payload.into();
        }
        out.tell_client(&unit);
    })
}

/// The broker understands something else by this method of the client's: a field that it ignores, for one.
pub(crate) fn misreads<M: Typed>(
    rewrite: impl Fn(&mut M) + Send + Sync + Clone + 'static,
) -> Fault {
    client::<M>(move |channel, mut method, out| {
        rewrite(&mut method);
        out.tell_server(&method_frame(channel, &method));
    })
}

/// The broker does not hear this method of the client's.
pub(crate) fn ignores<M: Typed>() -> Fault {
    client::<M>(|_, _, _| {})
}

/// The broker answers this method, and does nothing.
pub(crate) fn answers<M: Typed, A: MethodFields>(
    answer: impl Fn(M) -> A + Send + Sync + Clone + 'static,
) -> Fault {
    client::<M>(move |channel, method, out| {
        out.tell_client(&Unit::method(channel, &answer(method)));
    })
}

/// What is done to what the client says, if it is this method; all else passes.
pub(crate) fn client<M: Typed>(
    act: impl Fn(u16, M, &mut Out) + Send + Sync + Clone + 'static,
) -> Fault {
    fault(move || {
        let act = act.clone();
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) => match frame.method().map(M::try_from) {
                Some(Ok(method)) => act(frame.channel, method, out),
                _ => out.tell_server(&frame),
            },
            passing => out.pass(passing),
        }
    })
}

/// The broker understands something else by the content headers of the client's.
pub(crate) fn misreads_properties(
    rewrite: impl Fn(&mut Properties<'static>) + Send + Sync + Clone + 'static,
) -> Fault {
    fault(move || {
        let rewrite = rewrite.clone();
        move |passing, out: &mut Out| match passing {
            Passing::Client(frame) => match frame.decode() {
                Ok(Frame::Header { channel, header }) => {
                    let mut header = header.into_owned();
                    rewrite(&mut header.properties);
                    out.tell_server(&header_frame(channel, &header));
                }
                _ => out.tell_server(&frame),
            },
            passing => out.pass(passing),
        }
    })
}

/// Whether this is a method that a content follows, and how long its body is once the header is there.
pub(crate) fn content_left(frames: &[OwnedFrame]) -> Option<u64> {
    let method = frames.first()?.method()?;
    if !method.id().carries_content() || matches!(method, Method::BasicPublish(_)) {
        return None;
    }
    let Some(header) = frames.get(1) else {
        return Some(1);
    };
    match header.decode() {
        Ok(Frame::Header { header, .. }) => {
            let sent: usize = frames[2..].iter().map(|it| it.payload.len()).sum();
            Some(header.body_size.saturating_sub(sent as u64)).filter(|left| *left > 0)
        }
        _ => None,
    }
}
