//! What the user does.

use std::time::Duration;

use amqp_client::error::{CloseCause, UsageError};
use amqp_client::proto::{ChannelId, ChannelView, ConsumerId, RequestId, Settle};
use amqp_client::{ConfirmOptions, Message, Publication, table};
use amqp_codec::{MethodId, ReplyCode, ShortStr, basic, queue, short};

use super::accounts::{Accounts, Kept, Published, queue_of};
use super::steps::{Ask, How, Number};
use super::{Session, name};

impl Session {
    pub(super) fn ask(&mut self, number: Number, ask: Ask) {
        match ask {
            Ask::OpenChannel => self.open_channel(),
            Ask::UpdateSecret => {
                let request = self.conn.next_request();
                if self
                    .conn
                    .update_secret(request, b"new", short!("it is time"))
                    .is_ok()
                {
                    self.accounts
                        .asked(request, MethodId::CONNECTION_UPDATE_SECRET, None);
                }
            }
            Ask::CloseConnection => {
                self.conn
                    .close(self.now, ReplyCode::REPLY_SUCCESS, short!("bye"));
            }
            ask => {
                if let Some(id) = self.channel_of(number) {
                    self.ask_channel(id, ask);
                }
            }
        }
    }

    fn open_channel(&mut self) {
        let request = self.conn.next_request();
        let id = match self.conn.open_channel(request) {
            Ok(id) => id,
            Err(UsageError::TooManyChannels { max }) => {
                assert_eq!(
                    self.conn.open_channels(),
                    usize::from(max),
                    "a number is lost"
                );
                return;
            }
            Err(_) => return,
        };
        let before = self.accounts.channels.iter();
        let opening = 1 + before
            .filter(|channel| channel.id.number == id.number)
            .count();
        self.accounts.opening(id, opening);
        self.accounts
            .asked(request, MethodId::CHANNEL_OPEN, Some(id));
    }

    fn ask_channel(&mut self, id: ChannelId, ask: Ask) {
        match ask {
            Ask::OpenChannel | Ask::UpdateSecret | Ask::CloseConnection => {}
            Ask::SelectConfirms {
                max_in_flight,
                timeout,
                tag_returns,
            } => {
                let timeout = timeout.map(|millis| Duration::from_millis(millis.into()));
                let options = ConfirmOptions::default()
                    .max_in_flight(max_in_flight.into())
                    .timeout(timeout)
                    .tag_returns(tag_returns);
                let asked = self.request(id, MethodId::CONFIRM_SELECT, |view, request| {
                    view.select_confirms(request, options)
                });
                if asked {
                    self.accounts.channel(id).confirm_timeout = timeout;
                }
            }
            Ask::SelectTx => {
                self.request(id, MethodId::TX_SELECT, |view, request| {
                    view.select_tx(request)
                });
            }
            Ask::Publish {
                mandatory,
                size,
                alike,
                headers,
                quiet,
            } => {
                let message = self.message(size.into(), alike, headers);
                let message = match mandatory {
                    true => message.mandatory(),
                    false => message,
                };
                self.publish(id, message, quiet);
            }
            Ask::DeclareQueue => {
                self.request(id, MethodId::QUEUE_DECLARE, |view, request| {
                    let declare = queue::Declare {
                        queue: ShortStr::try_from(queue_of(request))?,
                        ..Default::default()
                    };
                    view.call(request, &declare)
                });
            }
            Ask::DeclareQueueNoWait => {
                let declare = queue::Declare {
                    no_wait: true,
                    ..Default::default()
                };
                if let Ok(mut view) = self.conn.channel(id) {
                    let _ = view.send(&declare);
                }
            }
            Ask::Consume {
                tag,
                no_ack,
                no_wait,
            } => {
                let consume = basic::Consume {
                    consumer_tag: tag.map(name).unwrap_or_default(),
                    no_ack,
                    ..Default::default()
                };
                match no_wait {
                    true => self.consume_no_wait(id, &consume),
                    false => {
                        self.request(id, MethodId::BASIC_CONSUME, |view, request| {
                            view.consume(request, &consume)
                        });
                    }
                }
            }
            Ask::Cancel { tag } => {
                self.request(id, MethodId::BASIC_CANCEL, |view, request| {
                    view.cancel(request, name(tag))
                });
            }
            Ask::Get { no_ack } => {
                let get = basic::Get {
                    no_ack,
                    ..Default::default()
                };
                self.request(id, MethodId::BASIC_GET, |view, request| {
                    view.get(request, &get)
                });
            }
            Ask::Recover => {
                self.request(id, MethodId::BASIC_RECOVER, |view, request| {
                    let requeue = true;
                    view.call(
                        request,
                        &basic::Recover {
                            requeue,
                            ..Default::default()
                        },
                    )
                });
            }
            Ask::Commit => {
                self.request(id, MethodId::TX_COMMIT, |view, request| {
                    view.commit(request)
                });
            }
            Ask::Rollback => {
                self.request(id, MethodId::TX_ROLLBACK, |view, request| {
                    view.rollback(request)
                });
            }
            Ask::Settle {
                which,
                multiple,
                how,
            } => self.settle(id, which, multiple, how),
            Ask::GiveBack { which } => {
                let (conn, accounts) = (&mut self.conn, &self.accounts);
                if let Some(delivery) = recent(&accounts.deliveries, which)
                    && let Ok(mut view) = conn.channel(id)
                {
                    view.give_back(&accounts.deliveries[delivery]);
                }
            }
            Ask::ForgetConsumer { which } => self.forget_consumer(id, which),
            Ask::Abandon { which } => self.abandon(id, which),
            Ask::Close => {
                self.request(id, MethodId::CHANNEL_CLOSE, |view, request| {
                    view.close(Some(request), ReplyCode::REPLY_SUCCESS, short!("bye"));
                    Ok(())
                });
            }
            Ask::CloseWhenSettled => {
                let asked = self.request(id, MethodId::CHANNEL_CLOSE, |view, request| {
                    view.close_when_settled(Some(request));
                    Ok(())
                });
                self.accounts.channel(id).draining |= asked;
            }
            Ask::CloseForOverflow => {
                if let Ok(mut view) = self.conn.channel(id) {
                    let cause = CloseCause::ConsumerOverflow { budget: 1 };
                    view.close_because(ReplyCode::RESOURCE_ERROR, cause);
                }
            }
        }
    }

    /// Asks for something that will be answered, if the channel takes it.
    fn request(
        &mut self,
        id: ChannelId,
        method: MethodId,
        ask: impl FnOnce(&mut ChannelView<'_, Kept>, RequestId) -> Result<(), UsageError>,
    ) -> bool {
        let request = self.conn.next_request();
        let Ok(mut view) = self.conn.channel(id) else {
            return false;
        };
        let asked = ask(&mut view, request).is_ok();
        if asked {
            self.accounts.asked(request, method, Some(id));
        }
        asked
    }

    fn message(&self, size: usize, alike: bool, headers: bool) -> Message {
        let mut body = vec![b'p'; size];
        if !alike {
            body.extend_from_slice(&self.accounts.publishes.len().to_be_bytes());
        }
        let message = Message::new(body);
        match headers {
            true => message.headers(table! { "b" => 1, "a" => "text" }),
            false => message,
        }
    }

    fn publish(&mut self, id: ChannelId, message: Message, quiet: bool) {
        let index = self.accounts.publishes.len();
        let publication = Publication {
            exchange: short!("x"),
            routing_key: short!("key"),
            message,
        };
        let mut unsent = Some(publication.clone());
        let Ok(mut view) = self.conn.channel(id) else {
            return;
        };
        let result = view.publish(&mut unsent, Kept { index, quiet });
        assert_eq!(
            result.is_ok(),
            unsent.is_none(),
            "taken if and only if it is sent"
        );
        if let Ok(seq) = result {
            self.published += publication.message.body().len();
            self.accounts.published(Published {
                channel: id,
                seq,
                publication,
                at: self.now,
                words: self.accounts.words.len(),
                quiet,
                settled: false,
            });
        }
    }

    fn consume_no_wait(&mut self, id: ChannelId, consume: &basic::Consume<'_>) {
        let consumer = ConsumerId(self.conn.next_request());
        if let Ok(mut view) = self.conn.channel(id)
            && view.consume_no_wait(consumer, consume).is_ok()
        {
            self.accounts.started(consumer, id);
        }
    }

    fn settle(&mut self, id: ChannelId, which: u8, multiple: bool, how: How) {
        let Some(index) = recent(&self.accounts.deliveries, which) else {
            return;
        };
        let tag = self.accounts.deliveries[index].tag();
        let how = match how {
            How::Ack => Settle::Ack,
            How::Nack => Settle::Nack { requeue: true },
            How::Reject => Settle::Reject { requeue: false },
        };
        let Ok(mut view) = self.conn.channel(id) else {
            return;
        };
        let first = view.settle(tag, multiple, how);
        if first.is_ok() {
            assert_eq!(tag.channel(), id, "through another channel");
            assert!(view.settle(tag, multiple, how).is_err(), "settled twice");
        }
    }

    fn forget_consumer(&mut self, id: ChannelId, which: u8) {
        let Some(index) = recent(&self.accounts.consumers, which) else {
            return;
        };
        let Accounts {
            consumers,
            channels,
            ..
        } = &mut self.accounts;
        let consumer = &mut consumers[index];
        let on_channel = consumer.channel == id;
        let draining = channels
            .iter()
            .any(|channel| channel.id == id && channel.draining);
        if let Ok(mut view) = self.conn.channel(id)
            && on_channel
        {
            view.forget_consumer(consumer.id);
            // A channel that will close can no longer be asked for anything.
            consumer.ended |= !draining;
        }
    }

    fn abandon(&mut self, id: ChannelId, which: u8) {
        let requests = self.accounts.requests.iter_mut().rev();
        let mut waiting = requests.filter(|(_, asked)| asked.waiting && asked.channel == Some(id));
        let Some((request, asked)) = waiting.nth(usize::from(which % 4)) else {
            return;
        };
        if let Ok(mut view) = self.conn.channel(id) {
            view.abandon(*request);
            asked.waiting = false;
        }
    }
}

/// The place of one of the last.
fn recent<T>(all: &[T], which: u8) -> Option<usize> {
    all.len().checked_sub(1 + usize::from(which % 8))
}
