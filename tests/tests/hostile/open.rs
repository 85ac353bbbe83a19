//! Cases of a connection that is open, or is being closed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use amqp_client::codec::{DecodeError, MethodId};
use amqp_client::error::{CloseCause, Closed, Initiator, Violation};
use amqp_client::{ConnectOptions, Connection, Event, Events, Outcome};
use amqp_tests::peer::Peer;
use futures_util::future::poll_immediate;
use tokio::io::DuplexStream;
use tokio::time::{Instant, sleep};

use super::case::{Case, End, Lost, ON, Reason, Scene, Told, WITNESS};
use super::memory::Memory;
use super::peer::Server;
use super::stage::{Fate, Stage, finish, nothing_but, set, word};

pub(crate) async fn run(case: Case) {
    let Case {
        name,
        scene,
        acts,
        end,
        mut told,
        told_after,
        hears,
        answers_close,
        answered,
        within,
        memory,
        options,
    } = case;
    let Stage {
        peer,
        connection,
        witness,
        kept,
        mut events,
        mut waiting,
    } = set(scene, options(ConnectOptions::new())).await;
    let mut server = Server::new(peer, answers_close);
    let goes_on = matches!(end, End::Nothing | End::Outcomes(_) | End::ClosedByClient);
    let memory = Memory::begin(memory);
    let began = Instant::now();

    let acting = async {
        for act in acts {
            server.act(act).await;
        }
    };
    // What the client waits for may end meanwhile.
    let (early, ()) = {
        let mut early = None;
        let mut acting = std::pin::pin!(acting);
        loop {
            tokio::select! {
                biased;
                ended = &mut waiting.fate, if early.is_none() => {
                    early = Some((ended, began.elapsed()));
                }
                () = &mut acting => break (early, ()),
            }
        }
    };
    if goes_on && !answered {
        attend(&mut server, settle()).await;
        let early = match &early {
            Some(((fate, _), _)) => Some(format!("{fate:?}")),
            None => poll_immediate(&mut waiting.fate)
                .await
                .map(|(fate, _)| format!("{fate:?}")),
        };
        assert!(early.is_none(), "{name}: it ended, {early:?}");
        finish(scene, server.peer()).await;
    }
    let ((fate, _brought), took) = match early {
        Some(early) => early,
        // Nobody waits for anything.
        None if goes_on && matches!(scene, Scene::Idle | Scene::Unread) => {
            (nothing_but(Fate::Fine), began.elapsed())
        }
        None => {
            let waiting = tokio::time::timeout(2 * within, &mut waiting.fate);
            let ended = attend(&mut server, waiting).await;
            let ended = ended.unwrap_or_else(|_| panic!("{name}: it has no end"));
            (ended, began.elapsed())
        }
    };
    attend(&mut server, settle()).await;
    memory.end(name);
    assert!(took <= within, "{name}: it took {took:?}");

    match &end {
        End::Nothing => match (scene, &fate) {
            (Scene::Confirming, Fate::Outcomes(["acked", "acked"])) | (_, Fate::Fine) => {}
            (_, fate) => panic!("{name}: {fate:?}"),
        },
        End::Outcomes(expected) => {
            assert!(
                matches!(&fate, Fate::Outcomes(words) if words == expected),
                "{name}: {fate:?}"
            );
        }
        End::Call(expected) => {
            assert!(
                matches!(&fate, Fate::TimedOut(operation) if operation == expected),
                "{name}: {fate:?}"
            );
        }
        End::NotClosed => assert!(matches!(fate, Fate::Ended), "{name}: {fate:?}"),
        End::CommitUnknown => assert!(matches!(fate, Fate::Ended), "{name}: {fate:?}"),
        End::ClosedByClient | End::AnsweredThen(..) => {
            assert!(matches!(fate, Fate::Fine), "{name}: {fate:?}");
        }
        End::Channel(..)
        | End::ChannelByServer(_)
        | End::Connection(..)
        | End::ConnectionByServer(_)
        | End::ClosedThen(..)
        | End::Lost(_) => {
            assert!(
                matches!(fate, Fate::Ended | Fate::Outcomes(["ended", "ended"])),
                "{name}: {fate:?}"
            );
        }
        End::NotOpened(_) => panic!("{name}: it is open"),
    }
    if scene == Scene::Consuming && matches!(fate, Fate::Fine) {
        told.push(Told {
            channel: ON,
            method: MethodId::BASIC_ACK,
            times: 1,
        });
    }
    told.extend(of_end(&end));
    told.extend(told_after);
    if !hears {
        told.clear();
    }
    check_told(name, &server, &told);
    check_end(name, &end, &connection, &mut events, &server, hears).await;
    match end {
        End::Nothing
        | End::Outcomes(_)
        | End::Call(_)
        | End::Channel(..)
        | End::ChannelByServer(_)
        | End::CommitUnknown
            if scene != Scene::ClosingConnection =>
        {
            others_go_on(name, server.peer(), &connection, kept).await;
        }
        _ => {
            if let Some(kept) = kept {
                let outcome = kept.await;
                assert_eq!(word(&outcome), "ended", "{name}: {outcome:?}");
            }
            assert!(!connection.is_open(), "{name}");
        }
    }
    drop((server, waiting, witness, events, connection));
    no_task_left(name).await;
}

/// Does this, with the server listening meanwhile.
pub(crate) async fn attend<T>(server: &mut Server, work: impl Future<Output = T>) -> T {
    tokio::select! {
        result = work => result,
        () = server.listen() => unreachable!("it never ends"),
    }
}

/// Long enough in virtual time for whatever is under way.
pub(crate) async fn settle() {
    sleep(Duration::from_millis(10)).await;
}

/// Channels that have nothing to do with it: a confirm comes, and a new one opens.
async fn others_go_on(
    name: &str,
    peer: &mut Peer<DuplexStream>,
    connection: &Connection,
    kept: Option<amqp_client::Confirm>,
) {
    assert!(connection.is_open(), "{name}");
    peer.set_deadline(Duration::from_secs(10));
    peer.send_ack(WITNESS, 1, false).await;
    if let Some(kept) = kept {
        let outcome = tokio::time::timeout(Duration::from_secs(1), kept).await;
        assert_eq!(outcome.ok(), Some(Outcome::Acked), "{name}");
    }
    let (next, _) = tokio::join!(connection.open_channel(), peer.open_channel());
    assert!(next.is_ok(), "{name}");
}

/// The close or close-ok that belongs to an end.
fn of_end(end: &End) -> Vec<Told> {
    let one = |channel, method| Told {
        channel,
        method,
        times: 1,
    };
    let (channel, method) = match end {
        End::ClosedThen(..) => {
            // What was not on its way yet goes no more: the close-ok neither.
            return vec![one(0, MethodId::CONNECTION_CLOSE)];
        }
        End::Channel(..) => (ON, MethodId::CHANNEL_CLOSE),
        End::Connection(..) | End::AnsweredThen(..) => (0, MethodId::CONNECTION_CLOSE),
        End::ChannelByServer(_) => (ON, MethodId::CHANNEL_CLOSE_OK),
        End::ConnectionByServer(_) => (0, MethodId::CONNECTION_CLOSE_OK),
        End::Nothing
        | End::Outcomes(_)
        | End::Call(_)
        | End::Lost(_)
        | End::NotOpened(_)
        | End::ClosedByClient
        | End::NotClosed
        | End::CommitUnknown => return Vec::new(),
    };
    vec![one(channel, method)]
}

pub(crate) fn check_told(name: &str, server: &Server, told: &[Told]) {
    assert_eq!(server.heard, told, "{name}: what the server was told");
}

/// How the channel or connection ended, by its own word, and what the server was told of it.
async fn check_end(
    name: &str,
    end: &End,
    connection: &Connection,
    events: &mut Events,
    server: &Server,
    hears: bool,
) {
    let (closed, code, reason, initiator) = match end {
        End::Nothing | End::Outcomes(_) | End::Call(_) | End::NotOpened(_) | End::CommitUnknown => {
            return;
        }
        End::NotClosed => {
            let closed = connection.closed().await;
            assert_eq!(closed.initiator, Initiator::Client, "{name}");
            assert_eq!(closed.cause, Some(CloseCause::CloseTimeout), "{name}");
            return;
        }
        End::ClosedThen(first, second, reason) => {
            let closed = channel_end(name, events).await;
            assert_eq!(
                (closed.initiator, closed.code),
                (Initiator::Server, *first),
                "{name}"
            );
            (
                connection.closed().await,
                second,
                Some(reason),
                Initiator::Library,
            )
        }
        End::ClosedByClient => {
            let closed = connection.closed().await;
            assert_eq!(closed.initiator, Initiator::Client, "{name}");
            return;
        }
        End::Lost(expected) => {
            let closed = connection.closed().await;
            let cause = closed
                .cause
                .as_ref()
                .unwrap_or_else(|| panic!("{name}: {closed}"));
            assert_eq!(lost(cause), *expected, "{name}");
            return;
        }
        End::Channel(code, reason) => (
            channel_end(name, events).await,
            code,
            Some(reason),
            Initiator::Library,
        ),
        End::ChannelByServer(code) => (
            channel_end(name, events).await,
            code,
            None,
            Initiator::Server,
        ),
        End::Connection(code, reason) | End::AnsweredThen(code, reason) => (
            connection.closed().await,
            code,
            Some(reason),
            Initiator::Library,
        ),
        End::ConnectionByServer(code) => (connection.closed().await, code, None, Initiator::Server),
    };
    assert_eq!(
        (closed.initiator, closed.code),
        (initiator, *code),
        "{name}: {closed}"
    );
    let Some(reason) = reason else { return };

    let cause = match closed.cause.clone() {
        Some(CloseCause::Violation(violation)) => Reason::Violation(plain(violation)),
        Some(CloseCause::ConsumerOverflow { .. }) => Reason::Overflow,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(cause, *reason, "{name}");
    let Some(told) = server.closes.last() else {
        assert!(!hears, "{name}: no close");
        return;
    };
    assert_eq!((told.code, &told.text), (*code, &closed.text), "{name}");
    assert!(
        told.text.as_str().is_ok_and(|text| !text.is_empty()),
        "{name}"
    );
}

async fn channel_end(name: &str, events: &mut Events) -> Arc<Closed> {
    let end = async {
        loop {
            match events.next().await {
                Some(Event::ChannelClosed { channel, closed }) => {
                    assert_eq!(channel.number, ON, "{name}");
                    return closed;
                }
                Some(_) => {}
                None => panic!("{name}: nothing was told of it"),
            }
        }
    };
    let end = tokio::time::timeout(Duration::from_secs(1), end).await;
    end.unwrap_or_else(|_| panic!("{name}: the channel has not ended"))
}

/// The violation without where it was.
pub(crate) fn plain(violation: Violation) -> Violation {
    match violation {
        Violation::Decode(DecodeError { kind, .. }) => DecodeError { kind, offset: 0 }.into(),
        other => other,
    }
}

pub(crate) fn lost(cause: &CloseCause) -> Lost {
    match cause {
        CloseCause::EndOfStream | CloseCause::Io(_) => Lost::EndOfStream,
        CloseCause::HeartbeatTimeout(_) => Lost::Heartbeat,
        CloseCause::CloseTimeout => Lost::CloseTimeout,
        CloseCause::HandshakeTimeout(_) => Lost::HandshakeTimeout,
        other => panic!("{other:?}"),
    }
}

/// Fails if a task is left on this runtime.
pub(crate) async fn no_task_left(name: &str) {
    // A last goodbye takes a second at most.
    sleep(Duration::from_secs(2)).await;
    let alive = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    assert_eq!(alive, 0, "{name}: tasks are left");
}
