//! Assertions about what comes. Each is an ordinary function that returns a future, so that it knows who called it: a
//! failure names the line of the test.

use std::panic::Location;
use std::time::Duration;

use amqp_codec::{Frame, Method, ProtocolHeader, frame};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::{Content, Event, Typed, Wire};

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// The next frame on this channel, which must be this method: `expect::<basic::Ack>(1)`.
    #[track_caller]
    pub fn expect<M: Typed>(&mut self, channel: u16) -> impl Future<Output = M> {
        let caller = Location::caller();
        async move {
            let event = self.next_on(channel).await;
            self.typed(caller, &event, || format!("{} on channel {channel}", M::ID))
        }
    }

    /// The next frame on any channel, heartbeats left out, which must be this method.
    #[track_caller]
    pub fn expect_any<M: Typed>(&mut self) -> impl Future<Output = (u16, M)> {
        let caller = Location::caller();
        async move { self.any(caller).await }
    }

    /// The next frame on this channel, which must be a method that `accepts` likes; `what` says what that is.
    #[track_caller]
    pub fn expect_where(
        &mut self,
        channel: u16,
        what: &str,
        accepts: impl FnOnce(&Method<'static>) -> bool,
    ) -> impl Future<Output = Method<'static>> {
        let caller = Location::caller();
        async move {
            let event = self.next_on(channel).await;
            match event.method() {
                Some(method) if accepts(&method) => method,
                _ => self.fail(caller, &format!("{what} on channel {channel}"), &event),
            }
        }
    }

    /// The next frames on this channel, which must be this method with its content.
    #[track_caller]
    pub fn expect_content<M: Typed>(&mut self, channel: u16) -> impl Future<Output = Content<M>> {
        let caller = Location::caller();
        async move {
            let event = self.next_on(channel).await;
            let method = self.typed(caller, &event, || format!("{} on channel {channel}", M::ID));
            self.content(caller, channel, method).await
        }
    }

    /// The next frames on any channel, heartbeats left out, which must be this method with its content.
    #[track_caller]
    pub fn expect_any_content<M: Typed>(&mut self) -> impl Future<Output = Content<M>> {
        let caller = Location::caller();
        async move {
            let (channel, method) = self.any(caller).await;
            self.content(caller, channel, method).await
        }
    }

    /// The content that must follow this method, which came on this channel.
    #[track_caller]
    pub fn content_of<M: Typed>(
        &mut self,
        channel: u16,
        method: M,
    ) -> impl Future<Output = Content<M>> {
        let caller = Location::caller();
        self.content(caller, channel, method)
    }

    /// Leaves out what comes on this channel before this method.
    #[track_caller]
    pub fn skip_to<M: Typed>(&mut self, channel: u16) -> impl Future<Output = M> {
        let caller = Location::caller();
        async move {
            loop {
                match self.next_on(channel).await {
                    Event::Frame(frame) => {
                        if let Some(method) = frame.method().and_then(M::from_method) {
                            return method;
                        }
                    }
                    event => self.fail(
                        caller,
                        &format!("{} on channel {channel} at last", M::ID),
                        &event,
                    ),
                }
            }
        }
    }

    /// The next thing, which must be a heartbeat.
    #[track_caller]
    pub fn expect_heartbeat(&mut self) -> impl Future<Output = ()> {
        let caller = Location::caller();
        async move {
            let event = self.next().await;
            if !is_heartbeat(&event) {
                self.fail(caller, "a heartbeat", &event)
            }
        }
    }

    /// The next thing, which must be a protocol header.
    #[track_caller]
    pub fn expect_protocol(&mut self) -> impl Future<Output = ProtocolHeader> {
        let caller = Location::caller();
        async move {
            match self.next().await {
                Event::Protocol(header) => header,
                event => self.fail(caller, "a protocol header", &event),
            }
        }
    }

    /// The next thing, heartbeats left out, which must be the end of the connection, whichever way.
    #[track_caller]
    pub fn expect_end(&mut self) -> impl Future<Output = Event> {
        let caller = Location::caller();
        async move {
            loop {
                match self.next().await {
                    event if event.is_end() => return event,
                    event if is_heartbeat(&event) => {}
                    event => self.fail(caller, "the end of the connection", &event),
                }
            }
        }
    }

    /// Nothing but heartbeats must come for this long.
    #[track_caller]
    pub fn expect_silence(&mut self, duration: Duration) -> impl Future<Output = ()> {
        let caller = Location::caller();
        async move {
            let end = Instant::now() + duration;
            loop {
                match self
                    .next_within(end.saturating_duration_since(Instant::now()))
                    .await
                {
                    Event::Silence(_) => return,
                    event if is_heartbeat(&event) => {}
                    event => self.fail(caller, &format!("nothing for {duration:?}"), &event),
                }
            }
        }
    }

    /// Fails the test: `expected` says what should have come.
    pub(crate) fn fail(&self, caller: &Location<'_>, expected: &str, got: &Event) -> ! {
        panic!(
            "{caller}: expected {expected}, got {got}\n{}",
            self.transcript
        )
    }

    fn typed<M: Typed>(
        &self,
        caller: &Location<'_>,
        event: &Event,
        expected: impl FnOnce() -> String,
    ) -> M {
        match event.method().and_then(M::from_method) {
            Some(method) => method,
            None => self.fail(caller, &expected(), event),
        }
    }

    async fn any<M: Typed>(&mut self, caller: &Location<'_>) -> (u16, M) {
        loop {
            match self.next().await {
                event if is_heartbeat(&event) => {}
                event => {
                    let method = self.typed(caller, &event, || M::ID.to_string());
                    let channel = match event {
                        Event::Frame(frame) => frame.channel,
                        _ => 0,
                    };
                    return (channel, method);
                }
            }
        }
    }

    async fn content<M: Typed>(
        &mut self,
        caller: &Location<'_>,
        channel: u16,
        method: M,
    ) -> Content<M> {
        let event = self.next_on(channel).await;
        let (properties, body_size) = match &event {
            Event::Frame(frame) => match frame.decode() {
                Ok(Frame::Header { header, .. }) => {
                    let header = header.into_owned();
                    (header.properties, header.body_size)
                }
                _ => self.fail(caller, &format!("the header of {}", M::ID), &event),
            },
            _ => self.fail(caller, &format!("the header of {}", M::ID), &event),
        };
        let mut body = BytesMut::new();
        while (body.len() as u64) < body_size {
            match self.next_on(channel).await {
                // A body that is one frame is not copied.
                Event::Frame(frame)
                    if frame.kind == frame::BODY && frame.payload.len() as u64 == body_size =>
                {
                    return Content {
                        channel,
                        method,
                        properties,
                        body: frame.payload,
                    };
                }
                Event::Frame(frame) if frame.kind == frame::BODY => {
                    body.extend_from_slice(&frame.payload);
                }
                event => {
                    let missing = body_size - body.len() as u64;
                    self.fail(caller, &format!("{missing} more bytes of the body"), &event)
                }
            }
        }
        if body.len() as u64 > body_size {
            panic!(
                "{caller}: the body has {} bytes, announced were {body_size}\n{}",
                body.len(),
                self.transcript
            );
        }
        Content {
            channel,
            method,
            properties,
            body: Bytes::from(body),
        }
    }
}

fn is_heartbeat(event: &Event) -> bool {
    matches!(event, Event::Frame(frame) if frame.kind == frame::HEARTBEAT)
}
