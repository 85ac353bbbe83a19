//! Whether there is a broker to run checks against: one clear report instead of two hundred failures.

use std::rc::Rc;
use std::time::Duration;

use amqp_codec::{MethodId, ProtocolHeader, Table, connection};

use crate::connection::Connection;
use crate::context::Context;
use crate::event::Event;
use crate::failure::Failure;
use crate::record::Record;
use crate::target::Target;

/// The broker's name for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Product and version: `RabbitMQ 4.0.5`.
    pub name: String,
}

/// Why no check can be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Nobody listens, or no connection comes about.
    #[error("no connection: {0}")]
    NoConnection(String),
    /// A connection, and not a word.
    #[error("the port is open, but whoever listens there does not answer an AMQP 0-9-1 header")]
    Silent,
    /// The stream ends instead of an answer.
    #[error("whoever listens there ends the connection at an AMQP 0-9-1 header, without a word")]
    Hangs,
    /// A web server.
    #[error(
        "whoever listens there speaks HTTP (\"{0}\"), not AMQP: RabbitMQ's port for AMQP is usually 5672"
    )]
    Http(String),
    /// A TLS server.
    #[error("whoever listens there speaks TLS: the checks need the port without it, usually 5672")]
    Tls,
    /// Another protocol of the family.
    #[error("the broker does not speak AMQP 0-9-1, it offers {0}")]
    OtherProtocol(String),
    /// Something else.
    #[error("whoever listens there does not speak AMQP: {0}")]
    Unknown(String),
    /// The user or password is wrong.
    #[error("the broker refuses the user {user}: {found}")]
    Credentials {
        /// Who was refused.
        user: String,
        /// In which way.
        found: String,
    },
    /// The virtual host is missing, or closed to the user.
    #[error("the broker refuses the virtual host {vhost} to the user {user}: {found}")]
    Vhost {
        /// Which one.
        vhost: String,
        /// Who was refused.
        user: String,
        /// In which way.
        found: String,
    },
    /// Something else than a refusal comes, or nothing: whoever the user is.
    #[error("the broker does not get through {step}: {failure}")]
    Stuck {
        /// At what.
        step: &'static str,
        /// What should have come, and what came.
        failure: String,
    },
    /// The user may not do what every check does.
    #[error(
        "the user {user} has not the rights on the virtual host {vhost} that the checks need (configure, write and \
         read on every name): {found}"
    )]
    Rights {
        /// Where.
        vhost: String,
        /// Who.
        user: String,
        /// What was refused, and how.
        found: String,
    },
}

/// How long each answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens a connection and does once what every check does.
///
/// # Errors
/// There is no broker, or none that lets us.
pub async fn preflight(target: &Target, timeout_factor: f64) -> Result<Broker, Unfit> {
    let context = context(target, timeout_factor);
    let patience = PATIENCE.mul_f64(timeout_factor);
    let mut connection = connect(&context, patience).await?;
    let start = greet(&context, &mut connection, patience).await?;
    log_in(target, &context, &mut connection).await?;
    rights(&context, &mut connection).await.map_err(|failure| {
        refused(failure, "declare, bind, publish and get", |found| {
            Unfit::Rights {
                vhost: target.vhost.to_string(),
                user: target.user.clone(),
                found,
            }
        })
    })?;
    // A broker that cannot close in order is what the checks are for.
    let _ = connection.close().await;
    Ok(Broker {
        name: name(&start.server_properties),
    })
}

/// Whether a broker opens a connection there, all of it within [`PATIENCE`]: one that has just started answers the
/// header before it is ready.
pub(crate) async fn answers(target: &Target, timeout_factor: f64) -> bool {
    let context = context(target, timeout_factor);
    let patience = PATIENCE.mul_f64(timeout_factor);
    let opened = async {
        let mut connection = connect(&context, patience).await.ok()?;
        connection.handshake(&context.login()).await.ok()?;
        connection.close().await.ok()
    };
    // A broker that drips could take its time with each step.
    tokio::time::timeout(patience, opened)
        .await
        .is_ok_and(|opened| opened.is_some())
}

fn context(target: &Target, timeout_factor: f64) -> Context {
    let prefix = format!("amqp-conformance.{:08x}", rand::random::<u32>());
    let record = Rc::new(Record::new());
    Context::new(
        Rc::new(target.clone()),
        None,
        record,
        prefix,
        false,
        timeout_factor,
    )
}

async fn connect(context: &Context, patience: Duration) -> Result<Connection, Unfit> {
    let mut connection = context
        .connect()
        .await
        .map_err(|failure| Unfit::NoConnection(failure.detail.unwrap_or(failure.found)))?;
    connection.set_patience(patience);
    Ok(connection)
}

/// The protocol header, answered by connection.start; otherwise finds out what is spoken there.
async fn greet(
    context: &Context,
    connection: &mut Connection,
    patience: Duration,
) -> Result<connection::Start<'static>, Unfit> {
    let sent = connection.send_protocol(ProtocolHeader::AMQP_0_9_1).await;
    sent.map_err(|failure| Unfit::Unknown(what(&failure)))?;
    let event = connection.next().await;
    let reason = match &event {
        Event::Frame(_) => match event.typed::<connection::Start>() {
            Some(start) => return Ok(start),
            None => Unfit::Unknown(event.to_string()),
        },
        Event::Malformed(_, bytes) => foreign(bytes)
            .unwrap_or_else(|| Unfit::Unknown(format!("\"{}\"", bytes.escape_ascii()))),
        Event::Protocol(it) => Unfit::OtherProtocol(format!(
            "protocol {} version {}.{}.{}",
            it.id, it.major, it.minor, it.revision
        )),
        Event::Silence(_) => Unfit::Silent,
        Event::End | Event::Reset(_) => Unfit::Hangs,
    };
    Err(match reason {
        // A server of lines waits for the end of one, and a TLS server may end without its alert.
        Unfit::Silent | Unfit::Hangs => ask_otherwise(context, patience).await.unwrap_or(reason),
        reason => reason,
    })
}

/// What speaks another protocol answers a request of HTTP, if only to refuse it.
async fn ask_otherwise(context: &Context, patience: Duration) -> Option<Unfit> {
    let mut connection = connect(context, patience).await.ok()?;
    connection
        .send_bytes(b"GET / HTTP/1.0\r\n\r\n")
        .await
        .ok()?;
    match connection.next().await {
        Event::Malformed(_, bytes) => foreign(&bytes),
        _ => None,
    }
}

/// What else is spoken, by the first bytes of it.
fn foreign(bytes: &[u8]) -> Option<Unfit> {
    match bytes {
        [b'H', b'T', b'T', b'P', b'/', ..] => {
            let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or(bytes);
            Some(Unfit::Http(String::from_utf8_lossy(line).into_owned()))
        }
        // An alert or a handshake record.
        [0x15 | 0x16, 3, ..] => Some(Unfit::Tls),
        _ => None,
    }
}

async fn log_in(
    target: &Target,
    context: &Context,
    connection: &mut Connection,
) -> Result<(), Unfit> {
    let login = context.login();
    let credentials = |failure| {
        refused(failure, "the login", |found| Unfit::Credentials {
            user: target.user.clone(),
            found,
        })
    };
    connection
        .send_start_ok(&login)
        .await
        .map_err(credentials)?;
    let tune: connection::Tune = connection.expect(0).await.map_err(credentials)?;
    let opened = async {
        connection.send_tune_ok(tune, None).await?;
        connection.open_vhost(&login.vhost).await
    };
    opened.await.map_err(|failure| {
        refused(failure, "opening the virtual host", |found| Unfit::Vhost {
            vhost: target.vhost.to_string(),
            user: target.user.clone(),
            found,
        })
    })
}

/// Configure, write and read.
async fn rights(context: &Context, connection: &mut Connection) -> Result<(), Failure> {
    let queue = context.name("preflight");
    connection.open_channel(1).await?;
    connection.declare_queue(1, &queue).await?;
    connection
        .bind_queue(1, &queue, "amq.direct", &queue)
        .await?;
    connection
        .publish(1, "amq.direct", &queue, "preflight")
        .await?;
    connection.get(1, &queue).await.map(drop)
}

/// A refusal is what the codes for it say: access-refused, not-allowed, invalid-path. Anything else has other causes.
fn refused(failure: Failure, step: &'static str, refusal: impl FnOnce(String) -> Unfit) -> Unfit {
    let code = ["connection.close ", "channel.close "]
        .into_iter()
        .find_map(|close| failure.found.strip_prefix(close));
    match code {
        Some("403" | "530" | "402") => refusal(what(&failure)),
        _ => Unfit::Stuck {
            step,
            failure: failure.to_string(),
        },
    }
}

/// The broker's own words where it has any.
fn what(failure: &Failure) -> String {
    match &failure.detail {
        Some(detail) => format!("{} ({detail})", failure.found),
        None => failure.found.clone(),
    }
}

fn name(properties: &Table<'_>) -> String {
    let of = |key| properties.get_str(key).unwrap_or_default().to_owned();
    let name = format!("{} {}", of("product"), of("version"));
    match name.trim() {
        "" => format!("a broker without a name in {}", MethodId::CONNECTION_START),
        name => name.to_owned(),
    }
}
