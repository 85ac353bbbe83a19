//! Logins that the broker refuses: a typed error that says why, on every version.

use std::time::{Duration, Instant};

use amqp_client::codec::{ReplyCode, table};
use amqp_client::error::{CloseCause, Error, ErrorKind, HandshakeError, Initiator};
use amqp_client::{AuthError, ConnectOptions, Connection, Sasl};
use amqp_tests::Broker;

use crate::support::{no_connection_left, soon};

on_each_broker!(
    wrong_password,
    wrong_password_to_a_client_that_wants_no_close,
    a_mechanism_that_is_not_offered,
    amqplain_and_anonymous,
    missing_vhost,
    vhost_without_permission,
    vhost_with_a_name_that_needs_encoding,
);

fn options(broker: &Broker) -> ConnectOptions {
    ConnectOptions::try_from(broker.uri().as_str()).unwrap()
}

async fn refused(options: ConnectOptions) -> Error {
    let error = soon("a refusal", Connection::open(options))
        .await
        .expect_err("the broker refuses");
    assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
    error
}

async fn wrong_password(broker: &'static Broker) {
    let error = refused(options(broker).credentials("guest", "wrong-secret")).await;
    match error.handshake() {
        Some(HandshakeError::CredentialsRefused(closed)) => {
            assert_eq!(closed.initiator, Initiator::Server);
            assert_eq!(closed.code, ReplyCode::ACCESS_REFUSED);
            assert!(closed.text.to_string_lossy().contains("PLAIN"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let said = format!("{error} {error:?}");
    assert!(said.contains("refused the credentials"), "{said}");
    assert!(!said.contains("wrong-secret"), "{said}");
}

async fn wrong_password_to_a_client_that_wants_no_close(broker: &'static Broker) {
    // What is announced here takes the place of all that the client announces by itself.
    let silent = table! { "capabilities" => table! { "publisher_confirms" => true } };
    let began = Instant::now();
    let error = refused(
        options(broker)
            .client_properties(silent)
            .credentials("guest", "wrong"),
    )
    .await;
    match error.handshake() {
        Some(HandshakeError::CredentialsProbablyRefused(closed)) => {
            assert_eq!(closed.initiator, Initiator::Transport);
            assert!(
                matches!(
                    closed.cause,
                    Some(CloseCause::EndOfStream | CloseCause::Io(_))
                ),
                "{closed:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(error.to_string().contains("probably"), "{error}");
    // The broker takes its time, three seconds; the handshake's deadline is ten.
    assert!(began.elapsed() < Duration::from_secs(9));
}

async fn a_mechanism_that_is_not_offered(broker: &'static Broker) {
    let error = refused(options(broker).mechanism(Sasl::External)).await;
    match error.handshake() {
        Some(HandshakeError::Authentication(AuthError::NoCommonMechanism { wanted, offered })) => {
            assert_eq!(*wanted, ["EXTERNAL"]);
            assert!(
                offered.split(' ').any(|offer| offer == "PLAIN"),
                "{offered}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(error.to_string().contains("EXTERNAL"), "{error}");
}

async fn amqplain_and_anonymous(broker: &'static Broker) {
    let connection = soon(
        "a connection",
        Connection::open(options(broker).mechanism(Sasl::AmqPlain)),
    )
    .await
    .unwrap();
    let offered = connection
        .server()
        .mechanisms
        .to_string_lossy()
        .into_owned();
    connection.close().await.unwrap();

    let anonymous = soon(
        "an answer",
        Connection::open(options(broker).mechanism(Sasl::Anonymous)),
    )
    .await;
    if offered.split(' ').any(|offer| offer == "ANONYMOUS") {
        anonymous.unwrap().close().await.unwrap();
    } else {
        assert!(matches!(
            anonymous.unwrap_err().handshake(),
            Some(HandshakeError::Authentication(
                AuthError::NoCommonMechanism { .. }
            ))
        ));
    }
}

async fn missing_vhost(broker: &'static Broker) {
    let error = refused(options(broker).virtual_host("nowhere")).await;
    vhost_refused(&error, "vhost nowhere not found");
}

async fn vhost_without_permission(broker: &'static Broker) {
    let vhost = broker.vhost("forbidden").await;
    broker
        .eval(&format!(
            "rabbit_auth_backend_internal:clear_permissions(<<\"guest\">>, <<\"{}\">>, <<\"harness\">>)",
            vhost.name
        ))
        .await;
    let error = refused(ConnectOptions::try_from(vhost.uri.as_str()).unwrap()).await;
    vhost_refused(
        &error,
        &format!("access to vhost '{}' refused for user 'guest'", vhost.name),
    );
    no_connection_left(broker, &vhost).await;
}

#[track_caller]
fn vhost_refused(error: &Error, text: &str) {
    match error.handshake() {
        Some(HandshakeError::VirtualHostRefused(closed)) => {
            assert_eq!(closed.initiator, Initiator::Server);
            assert_eq!(closed.code, ReplyCode::NOT_ALLOWED);
            assert!(closed.text.to_string_lossy().contains(text), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(error.to_string().contains(text), "{error}");
}

async fn vhost_with_a_name_that_needs_encoding(broker: &'static Broker) {
    let name = format!("a/b %{}", broker.version());
    broker
        .eval(&format!(
            "ok = rabbit_vhost:add(<<\"{name}\">>, <<\"test\">>), \
             rabbit_auth_backend_internal:set_permissions(<<\"guest\">>, <<\"{name}\">>, <<\".*\">>, <<\".*\">>, \
             <<\".*\">>, <<\"test\">>)"
        ))
        .await;
    let encoded = name
        .replace('%', "%25")
        .replace('/', "%2F")
        .replace(' ', "%20");
    let uri = format!("amqp://guest:guest@{}/{encoded}", broker.address());
    let connection = soon("a connection", Connection::open(uri.as_str()))
        .await
        .unwrap();
    connection.close().await.unwrap();
}
