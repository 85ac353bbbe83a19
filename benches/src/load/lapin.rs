//! By lapin.

use std::collections::VecDeque;
use std::fs;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions,
};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{FieldTable, ShortString};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer,
    PublisherConfirm,
};
use tokio::time::timeout;

use super::{Client, Failure, Options, Work, not_done};
use crate::workload::{CONFIRM_TIMEOUT, Turns};

/// lapin under load.
pub struct Lapin {
    connection: Connection,
    channel: Channel,
    consumer: Option<Consumer>,
    options: Options,
    messages: Turns<(ShortString, Bytes)>,
    pending: VecDeque<PublisherConfirm>,
}

impl Client for Lapin {
    async fn connect(options: &Options) -> Result<Self, Failure> {
        let tls = OwnedTLSConfig {
            identity: None,
            cert_chain: options.ca.as_ref().map(fs::read_to_string).transpose()?,
        };
        let connection = Connection::connect_with_config(
            &options.uri(),
            ConnectionProperties::default(),
            tls,
            lapin::runtime::default_runtime()?,
        )
        .await?;
        let channel = connection.create_channel().await?;
        let mut consumer = None;
        match options.work {
            Work::Confirmed | Work::InTurn => {
                channel
                    .confirm_select(ConfirmSelectOptions::default())
                    .await?;
            }
            Work::Unconfirmed => {}
            Work::Consume => {
                let qos = BasicQosOptions::default();
                channel.basic_qos(options.prefetch()?, qos).await?;
                let consume = BasicConsumeOptions {
                    no_ack: options.ack_every == 0,
                    ..BasicConsumeOptions::default()
                };
                let (queue, arguments) = (options.delivering_queue().into(), FieldTable::default());
                let started = channel.basic_consume(queue, "".into(), consume, arguments);
                consumer = Some(started.await?);
            }
        }
        Ok(Lapin {
            connection,
            channel,
            consumer,
            options: options.clone(),
            messages: Turns::of(options.messages(), |(key, body)| (key.into(), body)),
            pending: VecDeque::with_capacity(options.window),
        })
    }

    async fn confirmed(&mut self, count: u64) -> Result<(), Failure> {
        if self.options.futures {
            return self.confirmed_by_futures(count).await;
        }
        for _ in 0..count {
            if self.pending.len() == self.options.window
                && let Some(confirm) = self.pending.pop_front()
            {
                check(confirm).await?;
            }
            let (key, body) = self.messages.next();
            let confirm = self
                .channel
                .basic_publish(
                    "".into(),
                    key.clone(),
                    BasicPublishOptions::default(),
                    body,
                    BasicProperties::default(),
                )
                .await?;
            self.pending.push_back(confirm);
        }
        for confirm in self.pending.drain(..) {
            check(confirm).await?;
        }
        Ok(())
    }

    async fn unconfirmed(&mut self, count: u64) -> Result<(), Failure> {
        for _ in 0..count {
            let (key, body) = self.messages.next();
            let confirm = self
                .channel
                .basic_publish(
                    "".into(),
                    key.clone(),
                    BasicPublishOptions::default(),
                    body,
                    BasicProperties::default(),
                )
                .await?;
            match confirm.await? {
                Confirmation::NotRequested => {}
                other => return Err(format!("a confirm nobody asked for: {other:?}").into()),
            }
        }
        // Its answer comes after all that was published before it.
        Ok(self
            .channel
            .basic_qos(0, BasicQosOptions::default())
            .await?)
    }

    async fn consume(&mut self, count: u64) -> Result<(), Failure> {
        let Some(consumer) = &mut self.consumer else {
            return not_done("without a consumer");
        };
        for number in 1..=count {
            let delivery = consumer.next().await.ok_or("the consumer has ended")??;
            self.options.check_body(&delivery.data)?;
            if self.options.acks(number, count) {
                delivery.ack(BasicAckOptions { multiple: true }).await?;
            }
        }
        Ok(())
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.connection.close(200, "".into()).await?)
    }
}

impl Lapin {
    /// As many futures as may be in flight, each of which publishes and awaits its confirm.
    async fn confirmed_by_futures(&mut self, count: u64) -> Result<(), Failure> {
        let channel = &self.channel;
        let messages = &mut self.messages;
        let publishes = (0..count).map(|_| {
            let (key, body) = messages.next().clone();
            async move {
                let (options, properties) = Default::default();
                let publish = channel.basic_publish("".into(), key, options, &body, properties);
                check(publish.await?).await
            }
        });
        stream::iter(publishes)
            .buffer_unordered(self.options.window)
            .try_for_each(|()| async { Ok(()) })
            .await
    }
}

async fn check(confirm: PublisherConfirm) -> Result<(), Failure> {
    match timeout(CONFIRM_TIMEOUT, confirm).await?? {
        Confirmation::Ack(None) => Ok(()),
        other => Err(format!("not acked: {other:?}").into()),
    }
}
