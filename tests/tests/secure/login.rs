//! Mechanisms of authentication, and replacing a secret.

use std::time::Duration;

use amqp_client::codec::{LongStr, ReplyCode, ShortStr, connection};
use amqp_client::error::{Error, ErrorKind, HandshakeError};
use amqp_client::{
    AuthError, ConnectOptions, Connection, Credentials, Login, Mechanism, Sasl, Secret,
};
use amqp_tests::peer::{Greeting, Peer};
use amqp_tests::{Broker, Version};

use crate::node::{Node, connect, exchange, soon, works};

on_each_broker!(
    every_mechanism_that_needs_no_certificate,
    external_without_a_certificate,
    a_challenge_and_its_answer,
    a_new_secret_for_a_user_with_a_password,
);

fn options(broker: &Broker) -> ConnectOptions {
    ConnectOptions::try_from(broker.uri().as_str()).unwrap()
}

async fn every_mechanism_that_needs_no_certificate(node: &'static Node) {
    node.add_user("someone", "sesame").await;
    let mut mechanisms = vec![(Sasl::Plain, "someone"), (Sasl::AmqPlain, "someone")];
    if node.broker.version() != Version::V3_10 {
        // By default, nobody in particular is guest.
        mechanisms.push((Sasl::Anonymous, "guest"));
    }
    for (mechanism, user) in mechanisms {
        let options = options(&node.broker).credentials("someone", "sesame");
        let options = options
            .mechanism(mechanism)
            .connection_name(mechanism.uri_name());
        let connection = works(options).await;
        let users = node.user_of(mechanism.uri_name()).await;
        assert_eq!(users, format!("[<<\"{user}\">>]"), "{mechanism:?}");
        connection.close().await.unwrap();
    }
}

async fn external_without_a_certificate(node: &'static Node) {
    let options = options(&node.broker).mechanism(Sasl::External);
    let error = connect(options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
    match error.handshake() {
        // RabbitMQ does not offer it where there is no certificate.
        Some(HandshakeError::Authentication(AuthError::NoCommonMechanism { wanted, offered })) => {
            assert_eq!(wanted, &["EXTERNAL"]);
            assert!(
                offered.contains("PLAIN") && !offered.contains("EXTERNAL"),
                "{offered}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// RabbitMQ's demonstration of a mechanism with a challenge.
#[derive(Debug)]
struct CrDemo;

struct CrDemoLogin(Credentials);

impl Mechanism for CrDemo {
    fn name(&self) -> &str {
        "RABBIT-CR-DEMO"
    }

    fn login(&self, credentials: &Credentials) -> Result<Box<dyn Login>, AuthError> {
        Ok(Box::new(CrDemoLogin(credentials.clone())))
    }
}

impl Login for CrDemoLogin {
    fn initial_response(&mut self) -> Result<Secret, AuthError> {
        Ok(Secret::from(self.0.username.as_str()))
    }

    fn respond(&mut self, challenge: &[u8]) -> Result<Secret, AuthError> {
        assert_eq!(challenge, b"Please tell me your password");
        Ok(Secret::from(
            [b"My password is ", self.0.password.reveal()].concat(),
        ))
    }
}

async fn a_challenge_and_its_answer(node: &'static Node) {
    node.add_user("challenged", "sesame").await;
    let options = options(&node.broker).mechanism(CrDemo);
    let right = options.clone().credentials("challenged", "sesame");
    let connection = works(right.connection_name("cr-demo")).await;
    assert_eq!(node.user_of("cr-demo").await, "[<<\"challenged\">>]");
    connection.close().await.unwrap();

    let error = connect(options.credentials("challenged", "wrong"))
        .await
        .unwrap_err();
    match error.handshake() {
        Some(HandshakeError::CredentialsRefused(closed)) => {
            assert!(
                closed.text.to_string_lossy().contains("RABBIT-CR-DEMO"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// A user with a password has no secret that could be replaced: RabbitMQ says yes, and nothing changes.
async fn a_new_secret_for_a_user_with_a_password(node: &'static Node) {
    let connection = works(options(&node.broker)).await;
    for secret in ["another", ""] {
        let update = connection.update_secret(secret, "because");
        soon("an answer", update).await.unwrap();
    }
    exchange(&connection).await;
    connection.close().await.unwrap();
    // The old one is good still.
    works(options(&node.broker)).await.close().await.unwrap();
    let new = options(&node.broker).credentials("guest", "another");
    let error = connect(new).await.unwrap_err();
    assert!(
        matches!(
            error.handshake(),
            Some(HandshakeError::CredentialsRefused(_))
        ),
        "{error}"
    );
}

// ----- against a scripted peer -----

/// A mechanism that answers each challenge by what it was and which one it was, and gives up at the fourth.
#[derive(Debug)]
struct Counting;

struct CountingLogin(u32);

impl Mechanism for Counting {
    fn name(&self) -> &str {
        "X-COUNTING"
    }

    fn login(&self, _: &Credentials) -> Result<Box<dyn Login>, AuthError> {
        Ok(Box::new(CountingLogin(0)))
    }
}

impl Login for CountingLogin {
    fn initial_response(&mut self) -> Result<Secret, AuthError> {
        Ok(Secret::from("first"))
    }

    fn respond(&mut self, challenge: &[u8]) -> Result<Secret, AuthError> {
        self.0 += 1;
        match self.0 {
            4 => Err(AuthError::Mechanism("three were enough".to_owned())),
            count => Ok(Secret::from(
                [challenge, format!(" {count}").as_bytes()].concat(),
            )),
        }
    }
}

async fn challenge(peer: &mut Peer, challenge: &str) {
    let challenge = LongStr::from(challenge);
    peer.send(0, connection::Secure { challenge }).await;
}

#[tokio::test]
async fn as_many_rounds_as_it_takes() {
    let listener = Peer::listen().await;
    let options = ConnectOptions::try_from(listener.uri())
        .unwrap()
        .mechanism(Counting);
    let client = tokio::spawn(Connection::open(options));
    let mut peer = listener.accept().await;
    let greeting = Greeting {
        mechanisms: "PLAIN X-COUNTING",
        ..Greeting::default()
    };
    let start_ok = peer.greet(&greeting).await;
    assert_eq!(start_ok.mechanism, "X-COUNTING");
    assert_eq!(start_ok.response.as_bytes(), b"first");
    for (question, answer) in [("a", "a 1"), ("", " 2"), ("\0\u{fc}", "\0\u{fc} 3")] {
        challenge(&mut peer, question).await;
        let secure_ok: connection::SecureOk = peer.expect(0).await;
        assert_eq!(secure_ok.response.as_bytes(), answer.as_bytes());
    }
    peer.tune(greeting.tune).await;
    let _: connection::Open = peer.reply(0, connection::OpenOk::default()).await;
    let connection = soon("a connection", client).await.unwrap().unwrap();
    let close = tokio::spawn(async move { connection.close().await });
    peer.accept_close().await;
    soon("the close", close).await.unwrap().unwrap();
}

/// What the client makes of this many challenges; the stream must have ended then.
async fn after_challenges(mechanism: impl Mechanism + 'static, answered: usize) -> Error {
    let listener = Peer::listen().await;
    let options = ConnectOptions::try_from(listener.uri())
        .unwrap()
        .mechanism(mechanism);
    let client = tokio::spawn(Connection::open(options));
    let mut peer = listener.accept().await;
    let greeting = Greeting {
        mechanisms: "PLAIN X-COUNTING",
        ..Greeting::default()
    };
    peer.greet(&greeting).await;
    for _ in 0..answered {
        challenge(&mut peer, "again").await;
        let _: connection::SecureOk = peer.expect(0).await;
    }
    challenge(&mut peer, "again").await;
    peer.expect_end().await;
    drop(peer);
    soon("an error", client).await.unwrap().unwrap_err()
}

#[tokio::test]
async fn a_mechanism_that_gives_up() {
    let error = after_challenges(Counting, 3).await;
    let reason = AuthError::Mechanism("three were enough".to_owned());
    assert_eq!(
        error.handshake(),
        Some(&HandshakeError::Authentication(reason)),
        "{error}"
    );
}

#[tokio::test]
async fn a_challenge_to_a_mechanism_without_any() {
    let error = after_challenges(Sasl::Plain, 0).await;
    let reason = AuthError::UnexpectedChallenge;
    assert_eq!(
        error.handshake(),
        Some(&HandshakeError::Authentication(reason)),
        "{error}"
    );
}

/// A connection to a scripted peer, with this deadline for replies.
async fn connected(rpc: Duration) -> (Peer, Connection) {
    let listener = Peer::listen().await;
    let options = ConnectOptions::try_from(listener.uri())
        .unwrap()
        .rpc_deadline(rpc);
    let client = tokio::spawn(Connection::open(options));
    let mut peer = listener.accept().await;
    peer.handshake(Greeting::default()).await;
    (peer, soon("a connection", client).await.unwrap().unwrap())
}

#[tokio::test]
async fn a_new_secret_goes_as_it_is_and_one_at_a_time() {
    let (mut peer, connection) = connected(Duration::from_secs(10)).await;
    let update = |secret: &'static str| {
        let connection = connection.clone();
        tokio::spawn(async move { connection.update_secret(secret, "it expires").await })
    };
    let (first, second) = (update("one"), update("two"));
    let mut secrets = Vec::new();
    for _ in 0..2 {
        let update: connection::UpdateSecret = peer.expect(0).await;
        assert_eq!(update.reason, "it expires");
        secrets.push(update.new_secret.to_string_lossy().into_owned());
        // The other one waits until this one is answered.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!(first.is_finished() && second.is_finished()));
        peer.send(0, connection::UpdateSecretOk {}).await;
    }
    secrets.sort();
    assert_eq!(secrets, ["one", "two"]);
    for update in [first, second] {
        soon("an answer", update).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_new_secret_that_is_not_answered_or_given_up() {
    let (mut peer, connection) = connected(Duration::from_millis(300)).await;
    let update = connection.update_secret("one", "");
    let update = tokio::time::timeout(Duration::from_secs(8), update).await;
    let error = update.expect("it ends by itself").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(
        error.to_string().contains("connection.update-secret"),
        "{error}"
    );
    let _: connection::UpdateSecret = peer.expect(0).await;

    // The late answer is for the one that gave up, not for the next.
    let next = connection.clone();
    let next = tokio::spawn(async move { next.update_secret("two", "").await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    peer.send(0, connection::UpdateSecretOk {}).await;
    let _: connection::UpdateSecret = peer.expect(0).await;
    assert!(!next.is_finished());
    peer.send(0, connection::UpdateSecretOk {}).await;
    soon("an answer", next).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_new_secret_that_is_refused() {
    let (mut peer, connection) = connected(Duration::from_secs(10)).await;
    let update = tokio::spawn({
        let connection = connection.clone();
        async move { connection.update_secret("one", "").await }
    });
    let _: connection::UpdateSecret = peer.expect(0).await;
    let close = connection::Close {
        reply_code: ReplyCode::NOT_ALLOWED,
        reply_text: ShortStr::from_static("New secret was refused by one of the backends"),
        ..Default::default()
    };
    peer.send(0, close).await;
    let error = soon("an error", update).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
    assert_eq!(error.closed().unwrap().code, ReplyCode::NOT_ALLOWED);
    let error = connection.update_secret("two", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
}

#[tokio::test]
async fn a_new_secret_that_fits_no_frame() {
    let (_peer, connection) = connected(Duration::from_secs(10)).await;
    let error = connection
        .update_secret("x".repeat(131_072), "")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    let error = connection
        .update_secret("x", "y".repeat(256))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert!(connection.is_open());
}
