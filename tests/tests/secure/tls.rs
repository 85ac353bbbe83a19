//! TLS with RabbitMQ: what works, and what is refused with the reason in the error.

use std::net::SocketAddr;
use std::path::Path;

use amqp_client::config::{Tls, TlsVersion, Verify};
use amqp_client::error::{Error, ErrorKind, HandshakeError, TlsReason};
use amqp_client::{ConnectOptions, Sasl, Uri};
use tempfile::TempDir;

use crate::node::ClientCertificates::{Required, Wanted};
use crate::node::{Listener, Node, connect, works};
use crate::pki::{Authority, Validity};

on_each_broker!(
    a_private_authority_and_the_right_name,
    both_versions_of_tls,
    by_uri,
    expired,
    not_yet_valid,
    wrong_name,
    another_name_than_the_hosts,
    unknown_authority,
    nothing_verified,
    client_certificate,
    client_certificate_missing,
    client_certificate_missing_in_tls_1_2,
    client_certificate_of_an_unknown_authority,
    plaintext_to_a_tls_port,
    tls_to_a_plaintext_port,
    versions_that_do_not_meet,
    over_a_stream_of_ones_own,
);

/// To this address, trusting the node's authority.
fn trusting(node: &Node, address: SocketAddr) -> (ConnectOptions, Tls) {
    let options = ConnectOptions::new().address(address.ip().to_string(), address.port());
    (options, Tls::new().ca_file(node.authority.ca()))
}

/// The error of a connection that TLS does not let come about, which must say all of this.
async fn refused(options: ConnectOptions, reason: TlsReason, says: &[&str]) -> Error {
    let error = connect(options).await.expect_err("this is refused");
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    let tls = error.tls().expect("TLS is why");
    assert_eq!(tls.reason(), reason, "{error}");
    let text = error.to_string();
    println!("{text}");
    for part in says {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    error
}

async fn a_private_authority_and_the_right_name(node: &'static Node) {
    let address = node.usual_listener().await;
    let (options, tls) = trusting(node, address);
    // The certificate is for both, the address and the name.
    works(options.tls(tls.clone())).await.close().await.unwrap();
    let by_name = ConnectOptions::new()
        .address("localhost", address.port())
        .tls(tls);
    works(by_name).await.close().await.unwrap();
    let in_memory = Tls::new().ca_pem(node.authority.ca_pem());
    let (options, _) = trusting(node, address);
    works(options.tls(in_memory)).await.close().await.unwrap();
}

async fn both_versions_of_tls(node: &'static Node) {
    let certified = node.authority.server(&["127.0.0.1"], Validity::Now);
    for version in ["['tlsv1.2']", "['tlsv1.3']"] {
        let address = node
            .listen(Listener::new(certified.clone()).versions(version))
            .await;
        let (options, tls) = trusting(node, address);
        works(options.tls(tls)).await.close().await.unwrap();
    }
}

async fn by_uri(node: &'static Node) {
    let certified = node.authority.server(&["rabbit.example"], Validity::Now);
    let listener = Listener::new(certified).client_certificates(Required);
    let address = node.listen(listener).await;
    let client = node.authority.client("guest");
    let path = |path: &Path| path.display().to_string().replace('/', "%2F");
    let uri = format!(
        "amqps://{address}/%2f?cacertfile={}&certfile={}&keyfile={}&verify=verify_peer\
         &server_name_indication=rabbit.example&auth_mechanism=external&heartbeat=7",
        path(&node.authority.ca()),
        path(&client.certificate),
        path(&client.key),
    );
    let options = ConnectOptions::try_from(uri.as_str()).unwrap();
    let connection = works(options).await;
    assert_eq!(connection.negotiated().unwrap().heartbeat, 7);
    connection.close().await.unwrap();

    let uri = uri.replace("rabbit.example", "other.example");
    let options = ConnectOptions::try_from(uri.as_str()).unwrap();
    refused(
        options,
        TlsReason::WrongName,
        &["other.example", "rabbit.example"],
    )
    .await;

    // Where the server must not be verified, its name does not matter.
    let uri = uri.replace("verify_peer", "verify_none");
    works(ConnectOptions::try_from(uri.as_str()).unwrap())
        .await
        .close()
        .await
        .unwrap();

    // Certificate and key in one file.
    let pem = std::fs::read_to_string(&client.certificate).unwrap()
        + &std::fs::read_to_string(&client.key).unwrap();
    std::fs::write(&client.certificate, pem).unwrap();
    let uri: Uri = uri.parse().unwrap();
    let uri = uri
        .to_string()
        .replace(&format!("&keyfile={}", path(&client.key)), "");
    assert!(!uri.contains("keyfile="), "{uri}");
    works(ConnectOptions::try_from(uri).unwrap())
        .await
        .close()
        .await
        .unwrap();
}

async fn expired(node: &'static Node) {
    let certified = node.authority.server(&["127.0.0.1"], Validity::Past);
    let (options, tls) = trusting(node, node.listen(Listener::new(certified)).await);
    refused(
        options.tls(tls),
        TlsReason::CertificateExpired,
        &["has expired"],
    )
    .await;
}

async fn not_yet_valid(node: &'static Node) {
    let certified = node.authority.server(&["127.0.0.1"], Validity::Future);
    let (options, tls) = trusting(node, node.listen(Listener::new(certified)).await);
    refused(
        options.tls(tls),
        TlsReason::CertificateNotYetValid,
        &["not valid yet"],
    )
    .await;
}

async fn wrong_name(node: &'static Node) {
    let certified = node.authority.server(&["rabbit.example"], Validity::Now);
    let (options, tls) = trusting(node, node.listen(Listener::new(certified)).await);
    let says = ["for another name", "127.0.0.1", "rabbit.example"];
    refused(options.tls(tls), TlsReason::WrongName, &says).await;
}

async fn another_name_than_the_hosts(node: &'static Node) {
    let certified = node.authority.server(&["rabbit.example"], Validity::Now);
    let (options, tls) = trusting(node, node.listen(Listener::new(certified)).await);
    let named = options
        .clone()
        .tls(tls.clone().server_name("rabbit.example"));
    works(named).await.close().await.unwrap();
    // Sending no name is not to verify none.
    let says = ["for another name", "127.0.0.1"];
    refused(
        options.tls(tls.without_server_name()),
        TlsReason::WrongName,
        &says,
    )
    .await;
}

async fn unknown_authority(node: &'static Node) {
    let address = node.usual_listener().await;
    let directory = TempDir::new().unwrap();
    let (options, _) = trusting(node, address);
    let says = ["from an authority that is not trusted", "UnknownIssuer"];
    let tls = Tls::new().ca_file(Authority::new("Strangers", directory.path()).ca());
    refused(options.clone().tls(tls), TlsReason::UnknownAuthority, &says).await;
    // Made anew, an authority is another one, whatever its name is.
    let says = ["not signed by the trusted authority of that name"];
    let tls = Tls::new().ca_file(Authority::new("The tests", directory.path()).ca());
    refused(options.clone().tls(tls), TlsReason::WrongSignature, &says).await;
    // Nor does the platform know a test's authority, if it knows any.
    let error = connect(options.tls(Tls::new())).await.unwrap_err();
    match error.tls() {
        Some(tls) => assert_eq!(tls.reason(), TlsReason::UnknownAuthority, "{error}"),
        None => assert!(
            error.to_string().contains("the platform has no usable"),
            "{error}"
        ),
    }
}

async fn nothing_verified(node: &'static Node) {
    let certified = node.authority.server(&["rabbit.example"], Validity::Past);
    let address = node.listen(Listener::new(certified)).await;
    let options = ConnectOptions::new().address(address.ip().to_string(), address.port());
    works(options.tls(Tls::new().verify(Verify::None)))
        .await
        .close()
        .await
        .unwrap();
}

async fn client_certificate(node: &'static Node) {
    let name = format!("client-{:?}", node.broker.version()).to_lowercase();
    node.add_user(&name, "not used").await;
    let certified = node.authority.server(&["127.0.0.1"], Validity::Now);
    let listener = Listener::new(certified).client_certificates(Required);
    let (options, tls) = trusting(node, node.listen(listener).await);
    let client = node.authority.client(&name);
    let files = tls
        .clone()
        .client_certificate_files(&client.certificate, &client.key);
    let read = |path| std::fs::read(path).unwrap();
    let memory = tls.client_certificate_pem(read(&client.certificate), read(&client.key));
    for (tls, connection_name) in [(files, "files"), (memory, "memory")] {
        let options = options.clone().tls(tls).mechanism(Sasl::External);
        let connection = works(options.connection_name(connection_name)).await;
        // The certificate's name is who we are, whatever the options say.
        assert_eq!(
            node.user_of(connection_name).await,
            format!("[<<\"{name}\">>]")
        );
        connection.close().await.unwrap();
    }
}

async fn client_certificate_missing(node: &'static Node) {
    let certified = node.authority.server(&["127.0.0.1"], Validity::Now);
    let listener = Listener::new(certified)
        .client_certificates(Required)
        .versions("['tlsv1.3']");
    let (options, tls) = trusting(node, node.listen(listener).await);
    // The alert comes after the handshake, and a reset may overtake it: often enough to see both.
    for _ in 0..10 {
        let says = ["asked for a client certificate, got none"];
        let options = options.clone().tls(tls.clone());
        refused(options, TlsReason::ClientCertificateRequired, &says).await;
    }
}

async fn client_certificate_missing_in_tls_1_2(node: &'static Node) {
    let certified = node.authority.server(&["127.0.0.1"], Validity::Now);
    let listener = Listener::new(certified)
        .client_certificates(Required)
        .versions("['tlsv1.2']");
    let (options, tls) = trusting(node, node.listen(listener).await);
    for _ in 0..10 {
        let says = ["asked for a client certificate, got none"];
        let options = options.clone().tls(tls.clone());
        refused(options, TlsReason::ClientCertificateRequired, &says).await;
    }
}

async fn client_certificate_of_an_unknown_authority(node: &'static Node) {
    let directory = TempDir::new().unwrap();
    let client = Authority::new("Strangers", directory.path()).client("guest");
    let certified = node.authority.server(&["127.0.0.1"], Validity::Now);
    let listener = Listener::new(certified).client_certificates(Wanted);
    let (options, tls) = trusting(node, node.listen(listener).await);
    let tls = tls.client_certificate_files(&client.certificate, &client.key);
    for _ in 0..10 {
        let says = ["ended the connection when it had it"];
        let options = options.clone().tls(tls.clone());
        refused(options, TlsReason::ClientCertificateRefused, &says).await;
    }
}

async fn plaintext_to_a_tls_port(node: &'static Node) {
    let address = node.usual_listener().await;
    let options = ConnectOptions::new().address(address.ip().to_string(), address.port());
    let error = connect(options).await.unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
    assert_eq!(
        error.handshake(),
        Some(&HandshakeError::TlsExpected),
        "{error}"
    );
    assert!(error.to_string().contains("expects TLS"), "{error}");
}

async fn tls_to_a_plaintext_port(node: &'static Node) {
    let (options, tls) = trusting(node, node.broker.address());
    let says = ["speaks AMQP without TLS"];
    refused(options.tls(tls), TlsReason::Plaintext, &says).await;
}

async fn versions_that_do_not_meet(node: &'static Node) {
    let certified = node.authority.server(&["127.0.0.1"], Validity::Now);
    let listener = Listener::new(certified).versions("['tlsv1.2']");
    let (options, tls) = trusting(node, node.listen(listener).await);
    let tls = tls.min_version(TlsVersion::V1_3);
    refused(
        options.tls(tls),
        TlsReason::NoCommonVersion,
        &["no version of TLS in common"],
    )
    .await;
}

async fn over_a_stream_of_ones_own(node: &'static Node) {
    let address = node.usual_listener().await;
    // The options' first address is the name to verify.
    for (host, ok) in [("localhost", true), ("rabbit.example", false)] {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let options = ConnectOptions::new().address(host, 1);
        let options = options.tls(Tls::new().ca_file(node.authority.ca()));
        match amqp_client::Connection::open_over(stream, options).await {
            Ok(connection) => {
                assert!(ok);
                crate::node::exchange(&connection).await;
                connection.close().await.unwrap();
            }
            Err(error) => {
                assert!(!ok, "{error}");
                assert_eq!(
                    error.tls().unwrap().reason(),
                    TlsReason::WrongName,
                    "{error}"
                );
            }
        }
    }
}
