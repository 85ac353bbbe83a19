use std::collections::BTreeMap;

use amqp_codec::basic::Properties;
use amqp_codec::{Frame, Method, ShortStr, basic, confirm, frame, tx};
use bytes::BytesMut;

use super::Connection;
use crate::event::{Content, Event, Typed};
use crate::failure::Failure;

/// What a broker says of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirm {
    /// basic.ack.
    Ack,
    /// basic.nack.
    Nack,
}

/// Messages.
impl Connection {
    /// Publishes without properties: neither mandatory nor immediate.
    ///
    /// # Errors
    /// The broker does not read it, or a name is too long.
    pub async fn publish(
        &mut self,
        channel: u16,
        exchange: impl AsRef<[u8]>,
        routing_key: impl AsRef<[u8]>,
        body: impl AsRef<[u8]>,
    ) -> Result<(), Failure> {
        let publish = basic::Publish {
            exchange: ShortStr::try_from(exchange.as_ref())?,
            routing_key: ShortStr::try_from(routing_key.as_ref())?,
            ..Default::default()
        };
        self.send_content(channel, publish, &Properties::EMPTY, body.as_ref())
            .await
    }

    /// The next frames on this channel, which must be this method with its content.
    ///
    /// # Errors
    /// Something else comes, or nothing; or the content does not keep to what its header says.
    pub async fn expect_content<M: Typed>(&mut self, channel: u16) -> Result<Content<M>, Failure> {
        let method = self.expect(channel).await?;
        self.content_of(channel, method).await
    }

    /// The content that must follow this method, which came on this channel.
    ///
    /// # Errors
    /// Something else comes, or nothing; or the content does not keep to what its header says.
    pub async fn content_of<M: Typed>(
        &mut self,
        channel: u16,
        method: M,
    ) -> Result<Content<M>, Failure> {
        let event = self.next_on(channel).await;
        let (properties, size) = match &event {
            Event::Frame(frame) => match frame.decode() {
                Ok(Frame::Header { header, .. }) => {
                    let header = header.into_owned();
                    (header.properties, header.body_size)
                }
                _ => return Err(header_missing::<M>(&event)),
            },
            _ => return Err(header_missing::<M>(&event)),
        };
        let mut body = BytesMut::new();
        while (body.len() as u64) < size {
            let event = self.next_on(channel).await;
            match &event {
                Event::Frame(frame) if frame.kind == frame::BODY => {
                    body.extend_from_slice(&frame.payload);
                }
                _ => {
                    let missing = size - body.len() as u64;
                    let expected = format_args!("{missing} more bytes of the body of {}", M::ID);
                    return Err(Failure::unexpected(expected, &event));
                }
            }
        }
        if body.len() as u64 > size {
            return Err(Failure::new(
                format_args!("the {size} bytes of body that were announced"),
                format_args!("{} bytes", body.len()),
            ));
        }
        Ok(Content {
            channel,
            method,
            properties,
            body: body.freeze(),
        })
    }

    /// Gets one message, acknowledged by that; `None` if the queue is empty.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn get(
        &mut self,
        channel: u16,
        queue: impl AsRef<[u8]>,
    ) -> Result<Option<Content<basic::GetOk<'static>>>, Failure> {
        let get = basic::Get {
            queue: ShortStr::try_from(queue.as_ref())?,
            no_ack: true,
            ..Default::default()
        };
        self.get_with(channel, get).await
    }

    /// Gets one message; `None` if the queue is empty.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn get_with(
        &mut self,
        channel: u16,
        get: basic::Get<'_>,
    ) -> Result<Option<Content<basic::GetOk<'static>>>, Failure> {
        self.send(channel, get).await?;
        let event = self.next_on(channel).await;
        match event.method() {
            Some(Method::BasicGetEmpty(_)) => Ok(None),
            Some(Method::BasicGetOk(method)) => self.content_of(channel, method).await.map(Some),
            _ => Err(Failure::unexpected(
                "basic.get-ok or basic.get-empty",
                &event,
            )),
        }
    }

    /// Gets all messages of a queue, acknowledged by that: their bodies in order, as text.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn drain(
        &mut self,
        channel: u16,
        queue: impl AsRef<[u8]>,
    ) -> Result<Vec<String>, Failure> {
        let mut bodies = Vec::new();
        while let Some(got) = self.get(channel, queue.as_ref()).await? {
            bodies.push(String::from_utf8_lossy(&got.body).into_owned());
        }
        Ok(bodies)
    }

    /// Consumes from a queue under this tag. With `no_ack` the broker wants no acknowledgements.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn consume(
        &mut self,
        channel: u16,
        queue: impl AsRef<[u8]>,
        consumer_tag: &str,
        no_ack: bool,
    ) -> Result<(), Failure> {
        let consume = basic::Consume {
            queue: ShortStr::try_from(queue.as_ref())?,
            consumer_tag: ShortStr::try_from(consumer_tag)?,
            no_ack,
            ..Default::default()
        };
        self.call::<basic::ConsumeOk>(channel, consume)
            .await
            .map(drop)
    }

    /// The next frames on this channel must be a delivery.
    ///
    /// # Errors
    /// Something else comes, or nothing.
    pub async fn expect_delivery(
        &mut self,
        channel: u16,
    ) -> Result<Content<basic::Deliver<'static>>, Failure> {
        self.expect_content(channel).await
    }

    /// The next frames on this channel must be a return.
    ///
    /// # Errors
    /// Something else comes, or nothing.
    pub async fn expect_return(
        &mut self,
        channel: u16,
    ) -> Result<Content<basic::Return<'static>>, Failure> {
        self.expect_content(channel).await
    }

    /// Acknowledges one delivery, or all up to it.
    ///
    /// # Errors
    /// The broker does not read it.
    pub async fn ack(
        &mut self,
        channel: u16,
        delivery_tag: u64,
        multiple: bool,
    ) -> Result<(), Failure> {
        let ack = basic::Ack {
            delivery_tag,
            multiple,
            ..Default::default()
        };
        self.send(channel, ack).await
    }
}

/// Confirms and transactions.
impl Connection {
    /// Puts the channel into confirm mode.
    ///
    /// # Errors
    /// The broker refuses; unimplemented if it does not announce confirms.
    pub async fn confirm_select(&mut self, channel: u16) -> Result<(), Failure> {
        self.require_capability("publisher_confirms")?;
        self.call::<confirm::SelectOk>(channel, confirm::Select::default())
            .await
            .map(drop)
    }

    /// Reads acks and nacks until the publishes 1 to `last` each have one, whatever their order. Those that a `multiple`
    /// covers after their own are left alone.
    ///
    /// # Errors
    /// Something else comes, or nothing; or a confirm for what was not published.
    pub async fn expect_confirms(
        &mut self,
        channel: u16,
        last: u64,
    ) -> Result<BTreeMap<u64, Confirm>, Failure> {
        self.expect_confirms_after(channel, 0, last).await
    }

    /// As [`expect_confirms`](Self::expect_confirms), where the publishes up to `settled` had theirs before.
    ///
    /// # Errors
    /// As there.
    pub async fn expect_confirms_after(
        &mut self,
        channel: u16,
        settled: u64,
        last: u64,
    ) -> Result<BTreeMap<u64, Confirm>, Failure> {
        let mut confirms = BTreeMap::new();
        while (confirms.len() as u64) < last - settled {
            let event = self.next_on(channel).await;
            let (tag, multiple, confirm) = match event.method() {
                Some(Method::BasicAck(it)) => (it.delivery_tag, it.multiple, Confirm::Ack),
                Some(Method::BasicNack(it)) => (it.delivery_tag, it.multiple, Confirm::Nack),
                _ => {
                    let missing = last - settled - confirms.len() as u64;
                    let expected = format_args!("{missing} more confirms of {last}");
                    return Err(Failure::unexpected(expected, &event));
                }
            };
            if tag <= settled || tag > last {
                let expected = format_args!("confirms for the publishes {} to {last}", settled + 1);
                return Err(Failure::unexpected(expected, &event));
            }
            for tag in if multiple { settled + 1 } else { tag }..=tag {
                confirms.entry(tag).or_insert(confirm);
            }
        }
        Ok(confirms)
    }

    /// As [`expect_confirms`](Self::expect_confirms), and all must be acks.
    ///
    /// # Errors
    /// As there, or a nack.
    pub async fn expect_acks(&mut self, channel: u16, last: u64) -> Result<(), Failure> {
        let confirms = self.expect_confirms(channel, last).await?;
        match confirms.values().find(|it| **it == Confirm::Nack) {
            None => Ok(()),
            Some(_) => Err(Failure::new("acks alone", "basic.nack")),
        }
    }

    /// Makes the channel transactional.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn tx_select(&mut self, channel: u16) -> Result<(), Failure> {
        self.call::<tx::SelectOk>(channel, tx::Select::default())
            .await
            .map(drop)
    }

    /// Commits.
    ///
    /// # Errors
    /// The broker refuses, or something comes before commit-ok.
    pub async fn tx_commit(&mut self, channel: u16) -> Result<(), Failure> {
        self.call::<tx::CommitOk>(channel, tx::Commit::default())
            .await
            .map(drop)
    }

    /// Rolls back.
    ///
    /// # Errors
    /// The broker refuses, or something comes before rollback-ok.
    pub async fn tx_rollback(&mut self, channel: u16) -> Result<(), Failure> {
        self.call::<tx::RollbackOk>(channel, tx::Rollback::default())
            .await
            .map(drop)
    }
}

fn header_missing<M: Typed>(event: &Event) -> Failure {
    Failure::unexpected(format_args!("the content header of {}", M::ID), event)
}
