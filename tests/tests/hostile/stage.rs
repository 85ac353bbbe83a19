//! What the client does before a case begins, and what it waits for.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use amqp_client::codec::{basic, channel, confirm, connection, queue, short, tx};
use amqp_client::error::{CommitError, Error, ErrorKind, Operation};
use amqp_client::{
    ConfirmChannel, ConfirmOptions, ConnectOptions, Connection, Consume, Event, Events, Message,
    Outcome, Overflow, QueueDeclare, UnknownReason,
};
use amqp_tests::peer::{Greeting, Peer};
use futures_util::future::poll_immediate;
use tokio::io::DuplexStream;

use super::case::{ON, Scene, WITNESS};

/// How much a pipe holds in each direction.
pub(super) const PIPE: usize = 64 * 1024;
/// The size of the message in [`Scene::Sending`].
const LARGE: usize = 4 << 20;
/// What the consumer of [`Scene::Unread`] may keep.
const BUDGET: usize = 64 * 1024;

/// How what the client waits for ends.
#[derive(Debug)]
pub(super) enum Fate {
    Fine,
    Outcomes([&'static str; 2]),
    TimedOut(Operation),
    /// The channel or the connection ended.
    Ended,
    /// Something else, which says what it is.
    #[expect(dead_code, reason = "it is shown where it was not expected")]
    Other(String),
}

/// How it ended, and what it brought, which is to stay.
pub(super) type Ended = (Fate, Box<dyn Any>);

/// What the client waits for.
pub(super) struct Waiting {
    pub(super) fate: Pin<Box<dyn Future<Output = Ended>>>,
    /// Handles that are to stay.
    _keep: Vec<Box<dyn Any>>,
}

impl Waiting {
    fn new(fate: impl Future<Output = Ended> + 'static) -> Self {
        Waiting {
            fate: Box::pin(fate),
            _keep: Vec::new(),
        }
    }

    fn keep(mut self, handle: impl Any) -> Self {
        self._keep.push(Box::new(handle));
        self
    }
}

fn fate<T: 'static>(result: Result<T, Error>) -> Ended {
    let error = match result {
        Ok(brought) => return (Fate::Fine, Box::new(brought)),
        Err(error) => error,
    };
    let fate = match (error.kind(), error.operation()) {
        (ErrorKind::ChannelClosed | ErrorKind::ConnectionClosed, _) => Fate::Ended,
        (ErrorKind::Timeout, Some(operation)) => Fate::TimedOut(operation),
        _ => Fate::Other(error.to_string()),
    };
    (fate, Box::new(error))
}

pub(super) fn nothing_but(fate: Fate) -> Ended {
    (fate, Box::new(()))
}

pub(super) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Acked => "acked",
        Outcome::Returned(_) => "returned",
        Outcome::Nacked(_) => "nacked",
        Outcome::Unknown {
            reason: UnknownReason::TimedOut,
            ..
        } => "timed out",
        Outcome::Unknown { .. } => "ended",
    }
}

/// The client and its server at the moment when the case begins.
pub(super) struct Stage {
    pub(super) peer: Peer<DuplexStream>,
    pub(super) connection: Connection,
    pub(super) witness: ConfirmChannel,
    pub(super) kept: Option<amqp_client::Confirm>,
    pub(super) events: Events,
    pub(super) waiting: Waiting,
}

pub(super) async fn set(scene: Scene, options: ConnectOptions) -> Stage {
    let (mut peer, stream) = Peer::in_memory(PIPE);
    // A heartbeat for those cases that are silent for long; RPCs give up before it.
    let (connection, _) = tokio::join!(
        Connection::open_over(stream, options),
        peer.handshake(Greeting::default())
    );
    let connection = connection.unwrap();
    let on = match scene {
        Scene::Opening => None,
        _ => Some(
            tokio::join!(connection.open_channel(), peer.open_channel())
                .0
                .unwrap(),
        ),
    };
    let opening = match scene {
        // Its number is the next one, so that it has to be asked for first.
        Scene::Opening => {
            let connection = connection.clone();
            let mut opening = Box::pin(async move { connection.open_channel().await });
            assert!(poll_immediate(&mut opening).await.is_none());
            peer.expect::<channel::Open>(ON).await;
            Some(opening)
        }
        _ => None,
    };
    let (witness, number) = tokio::join!(
        async {
            let channel = connection.open_channel().await.unwrap();
            // However long a case takes, its confirm may still come.
            let options = ConfirmOptions::default().timeout(None);
            channel.confirm_select_with(options).await.unwrap()
        },
        peer.open_confirm_channel()
    );
    assert_eq!(number, WITNESS);
    let kept = match scene {
        // Such a close would wait for it.
        Scene::ClosingConnection => None,
        _ => {
            let kept = witness
                .publish("", "q", Message::new("kept"))
                .await
                .unwrap();
            peer.expect_publish().await;
            Some(kept)
        }
    };
    let events = connection.events();
    let waiting = match (on, opening) {
        (_, Some(opening)) => Waiting::new(async move { fate(opening.await) }),
        (None, None) => unreachable!("one or the other"),
        (Some(channel), None) => begin(scene, channel, &connection, &mut peer).await,
    };
    Stage {
        peer,
        connection,
        witness,
        kept,
        events,
        waiting,
    }
}

/// Starts what the client waits for, up to the server's having seen it.
async fn begin(
    scene: Scene,
    channel: amqp_client::Channel,
    connection: &Connection,
    peer: &mut Peer<DuplexStream>,
) -> Waiting {
    /// Polls it once, so that it is on its way.
    async fn start(mut waiting: Waiting) -> Waiting {
        assert!(poll_immediate(&mut waiting.fate).await.is_none());
        waiting
    }
    match scene {
        Scene::Handshake(_) | Scene::Opening => unreachable!("there is no channel yet"),
        Scene::Idle => {
            let mut events = connection.events();
            let id = channel.id();
            let over = async move {
                loop {
                    match events.next().await {
                        Some(Event::ChannelClosed { channel, .. }) if channel == id => break,
                        Some(Event::Closed(_)) | None => break,
                        Some(_) => {}
                    }
                }
                nothing_but(Fate::Ended)
            };
            Waiting::new(over).keep(channel)
        }
        Scene::Confirming => {
            let select = tokio::join!(
                channel.confirm_select(),
                peer.reply::<confirm::Select>(ON, confirm::SelectOk {})
            );
            let channel = select.0.unwrap();
            let first = channel.publish("", "q", Message::new("1")).await.unwrap();
            let second = channel.publish("", "q", Message::new("2")).await.unwrap();
            peer.expect_publish().await;
            peer.expect_publish().await;
            let outcomes = async move {
                let (first, second) = tokio::join!(first, second);
                nothing_but(Fate::Outcomes([word(&first), word(&second)]))
            };
            Waiting::new(outcomes).keep(channel)
        }
        Scene::Selecting => {
            let select = async move { fate(channel.confirm_select().await) };
            let waiting = start(Waiting::new(select)).await;
            peer.expect::<confirm::Select>(ON).await;
            waiting
        }
        Scene::Declaring => {
            let channel = Arc::new(channel);
            let handle = channel.clone();
            let declare = async move { fate(channel.queue_declare(QueueDeclare::new("q")).await) };
            let waiting = start(Waiting::new(declare).keep(handle)).await;
            peer.expect::<queue::Declare>(ON).await;
            waiting
        }
        Scene::Getting => {
            let channel = Arc::new(channel);
            let handle = channel.clone();
            let get = async move { fate(channel.get("q", false).await) };
            let waiting = start(Waiting::new(get).keep(handle)).await;
            peer.expect::<basic::Get>(ON).await;
            waiting
        }
        Scene::StartingConsumer => {
            let channel = Arc::new(channel);
            let handle = channel.clone();
            let consume = async move { fate(channel.consume(Consume::new("q").tag("c")).await) };
            let waiting = start(Waiting::new(consume).keep(handle)).await;
            peer.expect::<basic::Consume>(ON).await;
            waiting
        }
        Scene::Consuming | Scene::Unread | Scene::Cancelling => {
            let consume = Consume::new("q").tag("c");
            let consume = match scene {
                Scene::Unread => consume.budget(BUDGET, Overflow::CloseChannel),
                _ => consume,
            };
            let ok = basic::ConsumeOk {
                consumer_tag: short!("c"),
            };
            let (consumer, _) = tokio::join!(
                channel.consume(consume),
                peer.reply::<basic::Consume>(ON, ok)
            );
            let mut consumer = consumer.unwrap();
            let mut events = connection.events();
            match scene {
                Scene::Consuming => {
                    let next = async move {
                        match consumer.next().await {
                            Some(Ok(delivery)) => {
                                delivery.ack().unwrap();
                                let goes_on: Box<dyn Any> = Box::new(consumer);
                                (Fate::Fine, goes_on)
                            }
                            Some(Err(_)) => nothing_but(Fate::Ended),
                            None => nothing_but(Fate::Other("cancelled".to_owned())),
                        }
                    };
                    start(Waiting::new(next).keep(channel)).await
                }
                Scene::Unread => {
                    let over = async move {
                        loop {
                            match events.next().await {
                                Some(Event::ChannelClosed { .. } | Event::Closed(_)) | None => {
                                    break;
                                }
                                Some(_) => {}
                            }
                        }
                        nothing_but(Fate::Ended)
                    };
                    Waiting::new(over).keep(channel).keep(consumer)
                }
                _ => {
                    let cancel = async move { fate(consumer.cancel().await) };
                    let waiting = start(Waiting::new(cancel).keep(channel)).await;
                    peer.expect::<basic::Cancel>(ON).await;
                    waiting
                }
            }
        }
        Scene::Recovering => {
            let channel = Arc::new(channel);
            let handle = channel.clone();
            let recover = async move { fate(channel.recover().await) };
            let waiting = start(Waiting::new(recover).keep(handle)).await;
            peer.expect::<basic::Recover>(ON).await;
            waiting
        }
        Scene::Committing => {
            let select = tokio::join!(
                channel.tx_select(),
                peer.reply::<tx::Select>(ON, tx::SelectOk {})
            );
            let mut channel = select.0.unwrap();
            channel.publish("", "q", Message::new("x")).await.unwrap();
            peer.expect_publish().await;
            let commit = async move {
                let fate = match channel.commit().await {
                    Ok(_) => Fate::Fine,
                    Err(CommitError::Unknown(_)) => Fate::Ended,
                    Err(error) => Fate::Other(error.to_string()),
                };
                let channel: Box<dyn Any> = Box::new(channel);
                (fate, channel)
            };
            let waiting = start(Waiting::new(commit)).await;
            peer.expect::<tx::Commit>(ON).await;
            waiting
        }
        Scene::ClosingChannel => {
            let close = async move { fate(channel.close().await) };
            let waiting = start(Waiting::new(close)).await;
            peer.expect::<channel::Close>(ON).await;
            waiting
        }
        Scene::ClosingConnection => {
            let connection = connection.clone();
            let close = async move { fate(connection.close().await) };
            let waiting = start(Waiting::new(close).keep(channel)).await;
            peer.expect::<connection::Close>(0).await;
            waiting
        }
        Scene::UpdatingSecret => {
            let connection = connection.clone();
            let update = async move { fate(connection.update_secret("new", "expired").await) };
            let waiting = start(Waiting::new(update).keep(channel)).await;
            peer.expect::<connection::UpdateSecret>(0).await;
            waiting
        }
        Scene::Sending => {
            let select = tokio::join!(
                channel.confirm_select(),
                peer.reply::<confirm::Select>(ON, confirm::SelectOk {})
            );
            let channel = select.0.unwrap();
            let message = Message::new(vec![7; LARGE]);
            let confirm = channel.publish("", "q", message).await.unwrap();
            let outcome = async move {
                nothing_but(match word(&confirm.await) {
                    "acked" => Fate::Fine,
                    "timed out" => Fate::TimedOut(Operation::Confirms),
                    "ended" => Fate::Ended,
                    other => Fate::Other(other.to_owned()),
                })
            };
            Waiting::new(outcome).keep(channel)
        }
    }
}

/// The server does at last what the client waits for.
pub(super) async fn finish(scene: Scene, peer: &mut Peer<DuplexStream>) {
    match scene {
        Scene::Handshake(_) => unreachable!("cases of the handshake are run elsewhere"),
        // Nothing is waited for.
        Scene::Idle | Scene::Unread => {}
        Scene::Opening => peer.send(ON, channel::OpenOk::default()).await,
        Scene::Confirming => peer.send_ack(ON, 2, true).await,
        Scene::Selecting => peer.send(ON, confirm::SelectOk {}).await,
        Scene::Declaring => peer.send(ON, queue::DeclareOk::default()).await,
        Scene::Getting => peer.send(ON, basic::GetEmpty::default()).await,
        Scene::StartingConsumer => {
            let ok = basic::ConsumeOk {
                consumer_tag: short!("c"),
            };
            peer.send(ON, ok).await;
        }
        Scene::Consuming => {
            peer.send_deliver(ON, "c", 1 << 62, &basic::Properties::EMPTY, b"at last")
                .await;
        }
        Scene::Cancelling => {
            let ok = basic::CancelOk {
                consumer_tag: short!("c"),
            };
            peer.send(ON, ok).await;
        }
        Scene::Recovering => peer.send(ON, basic::RecoverOk {}).await,
        Scene::Committing => peer.send(ON, tx::CommitOk {}).await,
        Scene::ClosingChannel => peer.send(ON, channel::CloseOk {}).await,
        Scene::ClosingConnection => peer.send(0, connection::CloseOk {}).await,
        Scene::UpdatingSecret => peer.send(0, connection::UpdateSecretOk {}).await,
        Scene::Sending => peer.send_ack(ON, 1, false).await,
    }
}
