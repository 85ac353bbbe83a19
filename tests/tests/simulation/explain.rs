//! Why something failed: each end of a channel or connection that the client tells of must have a cause that the other
//! parts of the simulation know.

use amqp_client::error::{CloseCause, Closed, Error, ErrorKind, Initiator, UsageError};

use super::world::World;

/// Whom something happens to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who {
    pub(crate) connection: usize,
    /// The channel, by what it introduced itself with.
    pub(crate) token: Option<u64>,
}

impl Who {
    pub(crate) fn connection(connection: usize) -> Self {
        Who {
            connection,
            token: None,
        }
    }

    pub(crate) fn channel(self, token: u64) -> Self {
        Who {
            token: Some(token),
            ..self
        }
    }

    pub(crate) fn fault(self, world: &World, what: std::fmt::Arguments<'_>) {
        match self.token {
            Some(token) => world.fault(format_args!(
                "connection {}, channel {token}: {what}",
                self.connection
            )),
            None => world.fault(format_args!("connection {}: {what}", self.connection)),
        }
    }

    /// Whether this side has closed the channel, or its connection.
    fn is_closing(self, world: &World) -> bool {
        let log = world.log();
        log.connections_closing.contains(&self.connection)
            || self.token.is_none_or(|token| log.closing.contains(&token))
    }

    /// Why a channel or connection ended.
    pub(crate) fn explain(self, world: &World, what: &str, closed: &Closed) {
        if let Some(CloseCause::Connection(connection)) = &closed.cause {
            return Who::connection(self.connection).explain(world, what, connection);
        }
        let truth = world.truth();
        let connection = &truth.connections[self.connection];
        let channel = self.token.and_then(|token| truth.channel(token));
        let (broken, calm) = (connection.broken, world.plan.calm);
        let connection_closed = connection.closed;
        let channel_closed = channel.and_then(|channel| channel.closed);
        // It may be closed before it has introduced itself.
        let mut unknown = truth.channels.iter();
        let unknown_closed = channel.is_none()
            && unknown.any(|channel| {
                channel.connection == self.connection
                    && channel.token.is_none()
                    && channel.closed == Some(closed.code.0)
            });
        drop(truth);
        let code = Some(closed.code.0);
        let explained = match (closed.initiator, &closed.cause) {
            (Initiator::Client, None) => self.is_closing(world),
            (Initiator::Server, _) => {
                code == connection_closed || code == channel_closed || unknown_closed
            }
            (Initiator::Transport, Some(CloseCause::EndOfStream | CloseCause::Io(_))) => {
                broken || connection_closed.is_some()
            }
            (
                Initiator::Transport | Initiator::Client,
                Some(
                    CloseCause::HeartbeatTimeout(_)
                    | CloseCause::HandshakeTimeout(_)
                    | CloseCause::CloseTimeout,
                ),
            ) => !calm,
            (Initiator::Client, Some(CloseCause::EndOfStream | CloseCause::Io(_))) => broken,
            (Initiator::Library, Some(CloseCause::ConsumerOverflow { .. })) => self
                .token
                .is_some_and(|token| world.log().overflowing.contains(&token)),
            _ => false,
        };
        if !explained {
            self.fault(
                world,
                format_args!("{what}: there is no reason for this end: {closed} ({closed:?})"),
            );
        }
    }

    /// Why a call failed.
    pub(crate) fn explain_error(self, world: &World, what: &str, error: &Error) {
        if let Some(closed) = error.closed() {
            return self.explain(world, what, closed);
        }
        let source = std::error::Error::source(error);
        if let Some(usage) = source.and_then(|source| source.downcast_ref()) {
            return self.explain_usage(world, what, usage);
        }
        let explained = match error.kind() {
            ErrorKind::Timeout => !world.plan.calm,
            _ => false,
        };
        if !explained {
            self.fault(world, format_args!("{what} failed: {error} ({error:?})"));
        }
    }

    /// Why something was refused.
    pub(crate) fn explain_usage(self, world: &World, what: &str, error: &UsageError) {
        match error {
            UsageError::ConnectionClosed(closed) | UsageError::ChannelClosed(closed) => {
                self.explain(world, what, closed);
            }
            UsageError::NoChannel if self.is_closing(world) => {}
            error => self.fault(world, format_args!("{what} was refused: {error}")),
        }
    }

    /// Why a connection was not opened.
    pub(crate) fn explain_handshake(self, world: &World, error: &Error) {
        let broken = world.truth().connections[self.connection].broken;
        let stopped = world.plan.broker.handshake.is_some() && self.connection == 0;
        let explained = match error.closed() {
            Some(closed) => return self.explain(world, "opening", closed),
            None => broken || stopped,
        };
        if !explained {
            self.fault(world, format_args!("opening failed: {error} ({error:?})"));
        }
    }
}
