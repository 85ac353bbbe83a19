//! No secret is ever in a log, an error or in `Debug`: not a password, not a token, not a key.

use std::io;
use std::sync::{Arc, Mutex};

use amqp_client::config::{Tls, Verify};
use amqp_client::{ConnectOptions, Connection, Sasl, Uri};
use amqp_tests::Version;
use tracing_subscriber::fmt::MakeWriter;

use crate::node::ClientCertificates::Wanted;
use crate::node::{Listener, Node, connect, exchange, node, soon, works};
use crate::pki::Validity;

/// What must not be seen. It is no word of anything else.
const SECRET: &str = "xyzzySesame";

/// All that is logged at any level, in this whole process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Log {
    /// For the whole process, as some things are done on other threads.
    fn of_everything() -> Self {
        let log = Log::default();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.clone())
            .init();
        log
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

#[track_caller]
fn is_clean(text: &str) {
    // As it is, in its bytes in decimal, and in its bytes in hexadecimal.
    let decimal = SECRET
        .bytes()
        .map(|byte| byte.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let lower = text.to_lowercase();
    for form in [SECRET.to_owned(), decimal, hex] {
        if let Some(at) = lower.find(&form.to_lowercase()) {
            let before = String::from_utf8_lossy(&lower.as_bytes()[at.saturating_sub(300)..at]);
            panic!("a secret is shown: {before}{form}");
        }
    }
}

/// All texts that an error has.
fn texts(error: &dyn std::error::Error) -> String {
    let own = format!("{error}\n{error:?}\n{error:#?}\n");
    match error.source() {
        Some(source) => own + &texts(source),
        None => own,
    }
}

async fn logins(node: &'static Node) {
    node.add_user("secretive", SECRET).await;
    let options = ConnectOptions::try_from(node.broker.uri()).unwrap();
    for mechanism in [Sasl::Plain, Sasl::AmqPlain] {
        let options = options.clone().mechanism(mechanism);
        // Right ones, and one that is refused.
        let right = options.clone().credentials("secretive", SECRET);
        is_clean(&format!("{right:?} {right:#?}"));
        let connection = works(right).await;
        soon(
            "an answer",
            connection.update_secret(format!("new {SECRET}"), "test"),
        )
        .await
        .unwrap();
        exchange(&connection).await;
        is_clean(&format!("{connection:?}"));
        connection.close().await.unwrap();
        let wrong = options.credentials("secretive", format!("not {SECRET}"));
        is_clean(&texts(&connect(wrong).await.unwrap_err()));
    }
}

async fn uris(node: &'static Node) {
    let address = node.broker.address();
    for uri in [
        format!("amqp://secretive:{SECRET}@{address}/%2f"),
        format!("amqp://secretive:{SECRET}@{address}/missing"),
        format!("amqp://secretive:{SECRET}@{address}/%2f?nonsense=1"),
        format!("amqp://secretive:{SECRET}/@{address}/%2f"),
        format!("amqp://secretive:{SECRET}@127.0.0.1:1/%2f"),
        format!("amqp://secretive:{SECRET}@[127.0.0.1/%2f"),
        format!("amqp://secretive:{SECRET} @{address}/%2f"),
    ] {
        if let Ok(uri) = uri.parse::<Uri>() {
            is_clean(&format!("{uri} {uri:?} {uri:#?}"));
        }
        match soon("a connection", Connection::open(uri.as_str())).await {
            Ok(connection) => connection.close().await.unwrap(),
            Err(error) => is_clean(&texts(&error)),
        }
    }
}

async fn keys(node: &'static Node) -> Vec<String> {
    let client = node.authority.client("guest");
    let key = std::fs::read_to_string(&client.key).unwrap();
    let certificate = std::fs::read(&client.certificate).unwrap();
    let server = node.authority.server(&["127.0.0.1"], Validity::Now);
    let address = node
        .listen(Listener::new(server).client_certificates(Wanted))
        .await;
    let tls = Tls::new().ca_file(node.authority.ca());
    let tls = tls.client_certificate_pem(certificate, key.as_str());
    let options = ConnectOptions::new()
        .address(address.ip().to_string(), address.port())
        .tls(tls);
    let options = options.mechanism(Sasl::External);
    let shown = format!("{options:?} {options:#?}");
    works(options).await.close().await.unwrap();
    let lines: Vec<_> = key
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    assert!(!lines.is_empty());
    for line in &lines {
        assert!(!shown.contains(line), "a key is shown: {shown}");
    }
    lines.into_iter().map(str::to_owned).collect()
}

async fn unverified(node: &'static Node) {
    let address = node.usual_listener().await;
    let options = ConnectOptions::new().address(address.ip().to_string(), address.port());
    let options = options.tls(Tls::new().verify(Verify::None));
    works(options).await.close().await.unwrap();
}

#[tokio::test]
async fn in_no_log_no_error_and_no_debug_output() {
    let log = Log::of_everything();
    let mut key_lines = Vec::new();
    for version in [Version::V3_10, Version::V4_0] {
        let node = node(version).await;
        logins(node).await;
        uris(node).await;
        key_lines.extend(keys(node).await);
    }
    unverified(node(Version::V4_0).await).await;
    let text = log.text();
    assert!(
        text.contains("certificate is not verified"),
        "not verifying is not warned of"
    );
    // It did hear something.
    for heard in [
        "connection.start-ok",
        "connection.update-secret",
        "TRACE",
        "amqp connection",
    ] {
        assert!(text.contains(heard), "nothing of {heard} in the log");
    }
    is_clean(&text);
    for line in key_lines {
        assert!(!text.contains(&line), "a key is in the log");
    }
}

/// The test above would see one.
#[test]
#[should_panic = "a secret is shown"]
fn a_secret_in_bytes_would_be_seen() {
    is_clean(&format!("{:?}", SECRET.as_bytes()));
}
