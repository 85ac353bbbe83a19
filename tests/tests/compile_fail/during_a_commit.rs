//! Any method on the channel while a commit is pending ends the connection (504).

use amqp_client::{Message, TxChannel};

pub async fn commit(channel: &mut TxChannel) {
    let first = channel.commit();
    let second = channel.commit(); //~ E0499
    let _ = (first.await, second.await);
}

pub async fn rollback(channel: &mut TxChannel) {
    let commit = channel.commit();
    let rollback = channel.rollback(); //~ E0499
    let _ = (commit.await, rollback.await);
}

pub async fn publish(channel: &mut TxChannel) {
    let commit = channel.commit();
    let publish = channel.publish("", "q", Message::new("late")); //~ E0499
    let _ = (commit.await, publish.await);
}
