//! By amqprs, whose confirms come to a callback: what is in flight is told from what is settled here.

use std::collections::VecDeque;

use amqprs::callbacks::ChannelCallback;
use amqprs::channel::{
    BasicAckArguments, BasicConsumeArguments, BasicPublishArguments, BasicQosArguments, Channel,
    ConfirmSelectArguments, ConsumerMessage,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use amqprs::{Ack, BasicProperties, Cancel, CloseChannel, Nack, Return};
use bytes::Bytes;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use super::{Client, Failure, Options, Work, not_done};
use crate::workload::{CONFIRM_TIMEOUT, Turns};

/// amqprs under load.
pub struct Amqprs {
    connection: Connection,
    channel: Channel,
    consumer: Option<UnboundedReceiver<ConsumerMessage>>,
    options: Options,
    messages: Turns<(String, Bytes)>,
    in_flight: InFlight,
}

impl Client for Amqprs {
    async fn connect(options: &Options) -> Result<Self, Failure> {
        if options.futures || options.ca.is_some() {
            return not_done("--futures, --ca");
        }
        let (host, port) = (options.address.ip().to_string(), options.address.port());
        let arguments = OpenConnectionArguments::new(&host, port, "guest", "guest");
        let connection = Connection::open(&arguments).await?;
        let channel = connection.open_channel(None).await?;
        let (settled, settlements) = mpsc::unbounded_channel();
        channel.register_callback(Callback { settled }).await?;
        let mut consumer = None;
        match options.work {
            Work::Confirmed | Work::InTurn => {
                channel
                    .confirm_select(ConfirmSelectArguments::default())
                    .await?;
            }
            Work::Unconfirmed => {}
            Work::Consume => {
                let qos = BasicQosArguments::new(0, options.prefetch()?, false);
                channel.basic_qos(qos).await?;
                let consume = BasicConsumeArguments::new(&options.delivering_queue(), "")
                    .manual_ack(options.ack_every != 0)
                    .finish();
                let (_, messages) = channel.basic_consume_rx(consume).await?;
                consumer = Some(messages);
            }
        }
        Ok(Amqprs {
            connection,
            channel,
            consumer,
            options: options.clone(),
            messages: Turns::of(options.messages(), |message| message),
            in_flight: InFlight {
                settlements,
                first: 1,
                settled: VecDeque::with_capacity(options.window),
            },
        })
    }

    async fn confirmed(&mut self, count: u64) -> Result<(), Failure> {
        for _ in 0..count {
            self.in_flight
                .wait_for_less_than(self.options.window)
                .await?;
            self.publish().await?;
            self.in_flight.settled.push_back(false);
        }
        self.in_flight.wait_for_less_than(1).await
    }

    async fn unconfirmed(&mut self, count: u64) -> Result<(), Failure> {
        for _ in 0..count {
            self.publish().await?;
        }
        // Its answer comes after all that was published before it.
        let qos = BasicQosArguments::new(0, 0, false);
        Ok(self.channel.basic_qos(qos).await?)
    }

    async fn consume(&mut self, count: u64) -> Result<(), Failure> {
        let Some(consumer) = &mut self.consumer else {
            return not_done("without a consumer");
        };
        for number in 1..=count {
            let message = consumer.recv().await.ok_or("the consumer has ended")?;
            let body = message.content.ok_or("a delivery without a body")?;
            self.options.check_body(&body)?;
            if self.options.acks(number, count) {
                let deliver = message.deliver.ok_or("a delivery without its method")?;
                let ack = BasicAckArguments::new(deliver.delivery_tag(), true);
                self.channel.basic_ack(ack).await?;
            }
        }
        Ok(())
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.connection.close().await?)
    }
}

impl Amqprs {
    async fn publish(&mut self) -> Result<(), Failure> {
        let (key, body) = self.messages.next();
        let arguments = BasicPublishArguments::new("", key);
        let body = body.to_vec();
        let publish = self
            .channel
            .basic_publish(BasicProperties::default(), body, arguments);
        Ok(publish.await?)
    }
}

/// Publishes that have been sent, from the first one without an ack.
struct InFlight {
    settlements: UnboundedReceiver<Settled>,
    first: u64,
    settled: VecDeque<bool>,
}

struct Settled {
    tag: u64,
    multiple: bool,
    acked: bool,
}

impl InFlight {
    async fn wait_for_less_than(&mut self, count: usize) -> Result<(), Failure> {
        // What has come is taken in any case, so that it does not gather.
        while let Ok(settled) = self.settlements.try_recv() {
            self.settle(&settled)?;
        }
        while self.settled.len() >= count {
            let settled = timeout(CONFIRM_TIMEOUT, self.settlements.recv()).await?;
            self.settle(&settled.ok_or("the channel is gone")?)?;
        }
        Ok(())
    }

    fn settle(&mut self, settled: &Settled) -> Result<(), Failure> {
        let at = settled.tag.checked_sub(self.first);
        let (Some(at), true) = (at, settled.acked) else {
            return Err(format!("not acked, or twice: {}", settled.tag).into());
        };
        let from = if settled.multiple { 0 } else { at as usize };
        for open in self.settled.range_mut(from..=at as usize) {
            *open = true;
        }
        while self.settled.front() == Some(&true) {
            self.settled.pop_front();
            self.first += 1;
        }
        Ok(())
    }
}

struct Callback {
    settled: UnboundedSender<Settled>,
}

impl Callback {
    fn settle(&self, tag: u64, multiple: bool, acked: bool) {
        // The load has ended where nobody receives.
        let _ = self.settled.send(Settled {
            tag,
            multiple,
            acked,
        });
    }
}

#[async_trait::async_trait]
impl ChannelCallback for Callback {
    async fn close(&mut self, _: &Channel, _: CloseChannel) -> Result<(), amqprs::error::Error> {
        Ok(())
    }
    async fn cancel(&mut self, _: &Channel, _: Cancel) -> Result<(), amqprs::error::Error> {
        Ok(())
    }
    async fn flow(&mut self, _: &Channel, _: bool) -> Result<bool, amqprs::error::Error> {
        Ok(true)
    }
    async fn publish_ack(&mut self, _: &Channel, ack: Ack) {
        self.settle(ack.delivery_tag(), ack.mutiple(), true);
    }
    async fn publish_nack(&mut self, _: &Channel, nack: Nack) {
        self.settle(nack.delivery_tag(), nack.multiple(), false);
    }
    async fn publish_return(&mut self, _: &Channel, _: Return, _: BasicProperties, _: Vec<u8>) {}
}
