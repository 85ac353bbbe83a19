//! The handshake step by step, for checks that leave the path in the middle of it.

use std::time::Duration;

use amqp_codec::connection;

use crate::{Connection, Context, Failure};

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

/// A connection opened with this tune-ok.
pub(super) async fn open_with(
    cx: &Context,
    tune_ok: connection::TuneOk,
) -> Result<Connection, Failure> {
    let mut login = cx.login();
    login.tune_ok = Some(tune_ok);
    cx.open_as(&login).await
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
