//! By amqp-client, through its public interface, as its users write it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use amqp_client::codec::ShortStr;
use amqp_client::config::Tls;
use amqp_client::{
    Channel, Confirm, ConfirmChannel, ConfirmOptions, ConnectOptions, Connection, Consume,
    Consumer, Message, Outcome, Overflow,
};
use bytes::Bytes;

use super::{Client, Failure, Options, Work, not_done};
use crate::workload::{CONFIRM_TIMEOUT, Turns};

/// The most bytes that wait for a consumer without acks.
const BUDGET: usize = 1 << 20;

/// A connection, and the channel that works.
pub struct AmqpClient {
    connection: Connection,
    role: Role,
}

enum Role {
    Confirms(Confirms),
    Unconfirmed(Channel, Messages),
    Consumer(Consumption),
}

struct Confirms {
    channel: ConfirmChannel,
    messages: Messages,
    window: usize,
    pending: VecDeque<Confirm>,
}

struct Consumption {
    consumer: Consumer,
    /// Kept open.
    _channel: Channel,
    options: Options,
}

pub(super) type Messages = Turns<(ShortStr<'static>, Bytes)>;

pub(super) fn in_turn(messages: Vec<(String, Bytes)>) -> Result<Messages, Failure> {
    Turns::try_of(messages, |(key, body)| Ok((ShortStr::try_from(key)?, body)))
}

impl Client for AmqpClient {
    async fn connect(options: &Options) -> Result<Self, Failure> {
        if options.futures {
            return not_done("--futures");
        }
        let mut connect = ConnectOptions::try_from(options.uri().as_str())?;
        if let Some(ca) = &options.ca {
            connect = connect.tls(Tls::new().ca_file(ca));
        }
        let connection = Connection::open(connect).await?;
        let channel = connection.open_channel().await?;
        let role = match options.work {
            Work::Confirmed | Work::InTurn => {
                let confirms = ConfirmOptions::default()
                    .max_in_flight(options.window)
                    .timeout(CONFIRM_TIMEOUT);
                Role::Confirms(Confirms {
                    channel: channel.confirm_select_with(confirms).await?,
                    messages: in_turn(options.messages())?,
                    window: options.window,
                    pending: VecDeque::with_capacity(options.window),
                })
            }
            Work::Unconfirmed => Role::Unconfirmed(channel, in_turn(options.messages())?),
            Work::Consume => {
                channel.qos(options.prefetch()?, false).await?;
                let mut consume = Consume::new(options.delivering_queue());
                if options.ack_every == 0 {
                    // Without acks nothing bounds what comes but not reading it.
                    consume = consume.no_ack().budget(BUDGET, Overflow::StallConnection);
                }
                Role::Consumer(Consumption {
                    consumer: channel.consume(consume).await?,
                    _channel: channel,
                    options: options.clone(),
                })
            }
        };
        Ok(AmqpClient { connection, role })
    }

    async fn confirmed(&mut self, count: u64) -> Result<(), Failure> {
        let Role::Confirms(confirms) = &mut self.role else {
            return not_done("without confirm mode");
        };
        let Confirms {
            channel,
            messages,
            window,
            pending,
        } = confirms;
        for (key, body) in messages.take(count) {
            if pending.len() == *window
                && let Some(confirm) = pending.pop_front()
            {
                check(confirm.await)?;
            }
            let message = Message::new(body.clone());
            let confirm = channel.publish("", key.clone(), message).await?;
            pending.push_back(confirm);
        }
        for confirm in pending.drain(..) {
            check(confirm.await)?;
        }
        Ok(())
    }

    async fn unconfirmed(&mut self, count: u64) -> Result<(), Failure> {
        let Role::Unconfirmed(channel, messages) = &mut self.role else {
            return not_done("in another mode");
        };
        for (key, body) in messages.take(count) {
            let message = Message::new(body.clone());
            channel.publish("", key.clone(), message).await?;
        }
        // Its answer comes after all that was published before it.
        channel.qos(0, false).await?;
        Ok(())
    }

    async fn consume(&mut self, count: u64) -> Result<(), Failure> {
        let Role::Consumer(Consumption {
            consumer, options, ..
        }) = &mut self.role
        else {
            return not_done("without a consumer");
        };
        for number in 1..=count {
            let delivery = consumer.next().await.ok_or("the consumer has ended")??;
            options.check_body(delivery.body())?;
            if options.acks(number, count) {
                delivery.acker().ack_multiple()?;
            }
        }
        Ok(())
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.connection.close().await?)
    }
}

pub(super) fn check(outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Acked => Ok(()),
        other => Err(format!("not acked: {other:?}").into()),
    }
}

pub(super) async fn open(address: SocketAddr) -> Result<Connection, Failure> {
    Ok(Connection::open(format!("amqp://guest:guest@{address}/%2f").as_str()).await?)
}
