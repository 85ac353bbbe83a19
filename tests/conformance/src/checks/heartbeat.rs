//! Signs of life.

use std::time::{Duration, Instant};

use amqp_codec::{channel, connection};

use super::steps::{open_with, tune_ok_sent};
use crate::check::Source::Text;
use crate::{Check, Connection, Context, Event, Failure, check, ensure};

const SECTION: &str = "4.2.7 Heartbeat Frames";

/// Long enough for checks that last some intervals, on a busy machine.
const DEADLINE: u64 = 60;
/// The shortest interval that there is.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("heartbeat/server-sends")
            .must(
                Text(SECTION),
                "a server with nothing else to say sends a heartbeat within each interval",
            )
            .sends("connection.tune-ok with a heartbeat of 1 second, and the rest of the handshake")
            .expects("three heartbeats, each within 2 seconds")
            .deadline(DEADLINE)
            .run(async |cx| {
                let mut client = open(cx, 1).await?;
                client.set_patience(2 * INTERVAL);
                for _ in 0..3 {
                    client.expect_heartbeat().await?;
                    client.send_heartbeat().await?;
                }
                Ok(())
            }),
        check("heartbeat/silent-client-dropped")
            .should(
                Text(SECTION),
                "a server that has heard nothing for two intervals or longer ends the connection, without a close",
            )
            .sends("connection.tune-ok with a heartbeat of 1 second, the rest of the handshake, and nothing more")
            .expects("heartbeats, and the end of the stream after 2 to 5 seconds")
            .deadline(DEADLINE)
            .run(async |cx| {
                let mut client = open(cx, 1).await?;
                client.set_patience(5 * INTERVAL);
                let began = Instant::now();
                client.expect_end().await?;
                let waited = began.elapsed();
                let expected = "the end after 2 seconds or more";
                ensure(waited >= 2 * INTERVAL - TOLERANCE, expected, "an earlier end")
                    .map_err(|it| it.detail(format_args!("after {waited:?}")))
            }),
        check("heartbeat/keeps-the-connection")
            .must(
                Text(SECTION),
                "a client that sends heartbeats is alive",
            )
            .sends("a heartbeat of 1 second; for 4 seconds nothing but heartbeats, one for each that comes")
            .expects("a connection that is alive after that")
            .deadline(DEADLINE)
            .run(async |cx| {
                let mut client = open(cx, 1).await?;
                answer_heartbeats(&mut client, Connection::send_heartbeat).await
            }),
        check("heartbeat/any-traffic-counts")
            .must(
                Text(SECTION),
                "any octet is as good as a heartbeat",
            )
            .sends("a heartbeat of 1 second; for 4 seconds no heartbeats, but a channel.flow for each that comes")
            .expects("a connection that is alive after that")
            .deadline(DEADLINE)
            .run(async |cx| {
                let mut client = open(cx, 1).await?;
                answer_heartbeats(&mut client, async |client: &mut Connection| {
                    let flow = channel::Flow { active: true, ..Default::default() };
                    client.send(1, flow).await
                })
                .await
            }),
        check("heartbeat/none-when-0")
            .must(
                Text(SECTION),
                "where 0 was agreed upon no heartbeats come, and silence is no reason to end the connection",
            )
            .sends("connection.tune-ok with a heartbeat of 0, the rest of the handshake, and nothing for 3 seconds")
            .expects("nothing for 3 seconds, and a connection that is alive after that")
            .deadline(DEADLINE)
            .run(async |cx| {
                let mut client = open(cx, 0).await?;
                match client.next_within(3 * INTERVAL).await {
                    Event::Silence(_) => client.barrier(1).await,
                    event => Err(Failure::unexpected("nothing for 3 seconds", &event)),
                }
            }),
        check("heartbeat/discarded-when-0")
            .must(
                Text(SECTION),
                "who does not want heartbeats discards them without an error",
            )
            .sends("a heartbeat of 0; then ten heartbeats and a channel.flow")
            .expects("channel.flow-ok")
            .run(async |cx| {
                let mut client = open(cx, 0).await?;
                for _ in 0..10 {
                    client.send_heartbeat().await?;
                }
                client.barrier(1).await
            }),
        check("heartbeat/before-open")
            .must(
                Text(SECTION),
                "heartbeats can be sent at any time; a client may begin after connection.tune",
            )
            .sends("a heartbeat between connection.tune-ok and connection.open")
            .expects("connection.open-ok")
            .run(async |cx| {
                let mut client = tune_ok_sent(cx).await?;
                client.send_heartbeat().await?;
                client.open_vhost(&cx.login().vhost).await
            }),
    ]
}

/// What two clocks, and the way between them, may make of two seconds.
const TOLERANCE: Duration = Duration::from_millis(100);

async fn open(cx: &Context, heartbeat: u16) -> Result<Connection, Failure> {
    let tune_ok = connection::TuneOk {
        channel_max: 10,
        frame_max: 131_072,
        heartbeat,
    };
    let mut client = open_with(cx, tune_ok).await?;
    client.open_channel(1).await?;
    Ok(client)
}

/// For four seconds `answer` is all that is said, once for each heartbeat that comes.
async fn answer_heartbeats(
    client: &mut Connection,
    answer: impl AsyncFn(&mut Connection) -> Result<(), Failure>,
) -> Result<(), Failure> {
    client.set_patience(2 * INTERVAL);
    let began = Instant::now();
    while began.elapsed() < 4 * INTERVAL {
        let event = client.next().await;
        if event.is_heartbeat() {
            answer(client).await?;
        } else if event.typed::<channel::FlowOk>().is_none() {
            return Err(Failure::unexpected("a heartbeat or an answer", &event));
        }
    }
    let end = client.next_within(Duration::ZERO).await;
    ensure(!end.is_end(), "a connection that is alive", end.found())?;
    client.open_channel(2).await
}
