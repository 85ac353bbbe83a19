//! Steps that several groups share: the handshake one by one, for checks that leave the path in the middle of it, and
//! what comes back when a channel is closed.

use std::time::Duration;

use amqp_codec::{ShortStr, basic, connection};

use crate::{Connection, Context, Failure, ensure};

/// A server may take its time to end a connection: to hold up who guesses passwords, or because it reads no more of one
/// that is broken. Checks that wait for it need a longer [`deadline`](SLOW_DEADLINE).
pub(super) const SLOW: Duration = Duration::from_secs(8);
/// The deadline, in seconds, of checks that wait for such an end.
pub(super) const SLOW_DEADLINE: u64 = 40;

/// A connection whose start-ok was accepted, and what the server proposes.
pub(super) async fn tuned(cx: &Context) -> Result<(Connection, connection::Tune), Failure> {
    let mut client = cx.connect().await?;
    client.greet().await?;
    client.send_start_ok(&cx.login()).await?;
    let tune = client.expect(0).await?;
    Ok((client, tune))
}

/// A connection on which tune-ok has been sent, with what the server proposed.
pub(super) async fn tune_ok_sent(cx: &Context) -> Result<Connection, Failure> {
    let (mut client, tune) = tuned(cx).await?;
    client.send_tune_ok(tune, None).await?;
    Ok(client)
}

/// A connection opened with this tune-ok, less where the server proposes less.
pub(super) async fn open_with(
    cx: &Context,
    wish: connection::TuneOk,
) -> Result<Connection, Failure> {
    let (mut client, tune) = tuned(cx).await?;
    let tune_ok = connection::TuneOk {
        channel_max: match tune.channel_max {
            0 => wish.channel_max,
            limit => wish.channel_max.min(limit),
        },
        frame_max: match tune.frame_max {
            0 => wish.frame_max,
            limit => wish.frame_max.min(limit),
        },
        heartbeat: wish.heartbeat,
    };
    client.send_tune_ok(tune, Some(tune_ok)).await?;
    client.open_vhost(&cx.login().vhost).await?;
    Ok(client)
}

/// The stream must end, with nothing before its end.
pub(super) async fn expect_end_without_a_word(client: &mut Connection) -> Result<(), Failure> {
    let event = client.next_within(SLOW).await;
    if !event.is_end() {
        let expected = "the end of the stream, and nothing before it";
        return Err(Failure::unexpected(expected, &event));
    }
    client.expect_end().await
}

/// What comes back to a queue when channel 1 is closed, in order. When that happens is up to the broker: a last message
/// that is got on channel 1 and comes back after the others says that all have come. Channel 2 is open, and plain.
pub(super) async fn comes_back(
    client: &mut Connection,
    queue: &ShortStr<'static>,
) -> Result<Vec<String>, Failure> {
    client.publish(2, "", queue, "last").await?;
    client.barrier(2).await?;
    let get = basic::Get {
        queue: queue.clone(),
        ..Default::default()
    };
    let got = client.get_with(1, get).await?;
    let last = got.is_some_and(|got| &got.body[..] == b"last");
    ensure(last, "the last message", "another message, or none")?;
    client.close_channel(1).await?;
    client.consume(2, queue, "what comes back", true).await?;
    let mut bodies = Vec::new();
    loop {
        let delivery = client.expect_delivery(2).await?;
        if &delivery.body[..] == b"last" {
            return Ok(bodies);
        }
        bodies.push(String::from_utf8_lossy(&delivery.body).into_owned());
    }
}

/// A connection with channel 1 open, and a queue with these messages.
pub(super) async fn filled(
    cx: &Context,
    bodies: &[&str],
) -> Result<(Connection, ShortStr<'static>), Failure> {
    let queue = cx.name("filled");
    let mut client = cx.open_channel().await?;
    client.declare_queue(1, &queue).await?;
    for body in bodies {
        client.publish(1, "", &queue, body).await?;
    }
    Ok((client, queue))
}
