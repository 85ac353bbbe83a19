//! TLS without a broker: settings that cannot work, and servers that are scripted.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp_client::config::{ConfigError, Tls, TlsConfigError, TlsVersion, Verify};
use amqp_client::error::{AttemptError, Error, ErrorKind, Phase, TlsReason};
use amqp_client::rustls::{self, ClientConfig, RootCertStore, ServerConfig, crypto};
use amqp_client::{ConnectOptions, Connection};
use amqp_tests::peer::{Greeting, Peer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::node::{connect, soon};
use crate::pki::{Authority, Certified, Validity};

const KEY: &str = "MC4CAQAwBQYDK2VwBCIEIP0secret0secret0secret0secret0secret0secre";

fn options(tls: Tls) -> ConnectOptions {
    // Nobody is there: the options are at fault before anybody is looked for.
    ConnectOptions::new().address("127.0.0.1", 1).tls(tls)
}

async fn config_error(tls: Tls) -> (TlsConfigError, String) {
    let error = connect(options(tls)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let text = format!("{error}");
    let source = std::error::Error::source(&error).unwrap();
    match source.downcast_ref::<ConfigError>() {
        Some(ConfigError::Tls(error)) => (error.clone(), text),
        _ => panic!("{error}"),
    }
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[tokio::test]
async fn files_that_are_not_there_or_not_what_they_should_be() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new("The tests", directory.path());
    let client = authority.client("guest");
    let missing = directory.path().join("missing.pem");
    let missing_says = missing.display().to_string();
    let trusting = || Tls::new().ca_pem(authority.ca_pem());

    for tls in [
        Tls::new().ca_file(&missing),
        trusting().client_certificate_files(&missing, &client.key),
        trusting().client_certificate_files(&client.certificate, &missing),
    ] {
        let (error, text) = config_error(tls).await;
        assert!(matches!(error, TlsConfigError::File { .. }), "{text}");
        says(&text, &["cannot read", &missing_says]);
    }
    for tls in [
        Tls::new().ca_file(&client.key),
        Tls::new().ca_pem(""),
        trusting().client_certificate_files(&client.key, &client.key),
    ] {
        let (error, text) = config_error(tls).await;
        assert!(
            matches!(error, TlsConfigError::NoCertificate { .. }),
            "{text}"
        );
    }
    let tls = trusting().client_certificate_files(&client.certificate, &client.certificate);
    let (error, text) = config_error(tls).await;
    assert!(matches!(error, TlsConfigError::NoKey { .. }), "{text}");
    says(
        &text,
        &[
            "no unencrypted private key",
            &client.certificate.display().to_string(),
        ],
    );

    let other = authority.client("other");
    let tls = trusting().client_certificate_files(&client.certificate, &other.key);
    let (error, text) = config_error(tls).await;
    assert!(
        matches!(error, TlsConfigError::ClientCertificate { .. }),
        "{text}"
    );
}

/// A key that is not quite PEM must not be quoted in the error about it.
#[tokio::test]
async fn a_malformed_key_stays_secret() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new("The tests", directory.path());
    let certificate = std::fs::read(authority.client("guest").certificate).unwrap();
    for key in [
        // As it comes out of a variable that has lost its line ends.
        format!("-----BEGIN PRIVATE KEY-----{KEY}-----END PRIVATE KEY-----"),
        format!("-----BEGIN PRIVATE KEY {KEY}\n-----END PRIVATE KEY-----\n"),
        format!("-----BEGIN PRIVATE KEY-----\n{KEY}\n"),
        format!("-----BEGIN PRIVATE KEY-----\n{KEY}!\n-----END PRIVATE KEY-----\n"),
        format!("-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n"),
        KEY.to_owned(),
    ] {
        let tls = Tls::new().ca_pem(authority.ca_pem());
        let tls = tls.client_certificate_pem(certificate.clone(), key.as_str());
        assert!(!format!("{tls:?}").contains("secret"), "{tls:?}");
        let error = connect(options(tls)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        for text in [
            format!("{error}"),
            format!("{error:?}"),
            all_sources(&error),
        ] {
            assert!(!text.contains("secret"), "{text}");
            let bytes = format!("{:?}", b"secret");
            assert!(!text.contains(bytes.trim_matches(['[', ']'])), "{text}");
        }
    }
}

fn all_sources(error: &dyn std::error::Error) -> String {
    let own = format!("{error} {error:?}");
    match error.source() {
        Some(source) => own + &all_sources(source),
        None => own,
    }
}

#[tokio::test]
async fn settings_that_do_not_go_together() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new("The tests", directory.path());
    let ready = || Tls::from_rustls(ready_config(&authority));
    for tls in [
        ready().ca_file("ca.pem"),
        ready().verify(Verify::None),
        ready().min_version(TlsVersion::V1_3),
        ready().client_certificate_files("c", "k"),
    ] {
        assert_eq!(config_error(tls).await.0, TlsConfigError::ReadyAndMore);
    }
    let uri = "amqps://127.0.0.1:1?keyfile=client.key";
    let error = connect(ConnectOptions::try_from(uri).unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    says(
        &error.to_string(),
        &["a client key needs a client certificate"],
    );
}

#[tokio::test]
async fn a_name_that_is_none() {
    let tls = Tls::new().verify(Verify::None).server_name("not a name");
    let (error, text) = config_error(tls).await;
    assert_eq!(
        error,
        TlsConfigError::ServerName {
            name: "not a name".to_owned()
        }
    );
    says(&text, &["`not a name`"]);
}

// ----- servers -----

fn der(files: &Certified) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_file_iter(&files.certificate).unwrap();
    (
        chain.map(Result::unwrap).collect(),
        PrivateKeyDer::from_pem_file(&files.key).unwrap(),
    )
}

fn provider() -> Arc<crypto::CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}

fn ready_config(authority: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).unwrap();
    roots.add(ca).unwrap();
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A scripted peer behind TLS, by this library's version of rustls, and the name the client asked for.
async fn tls_peer(listener: &TcpListener, files: &Certified) -> (Peer<TlsServer>, Option<String>) {
    let (chain, key) = der(files);
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let stream = tokio_rustls::TlsAcceptor::from(Arc::new(config))
        .accept(stream)
        .await
        .unwrap();
    let (_, session) = stream.get_ref();
    assert_eq!(session.alpn_protocol(), None);
    let name = session.server_name().map(str::to_owned);
    (Peer::new(stream), name)
}

type TlsServer = tokio_rustls::server::TlsStream<TcpStream>;

/// Opens a connection to a scripted TLS server, closes it, and tells which name was asked for.
async fn name_asked_for(host: &str, files: &Certified, tls: Tls) -> Option<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = tokio::spawn(Connection::open(
        ConnectOptions::new().address(host, port).tls(tls),
    ));
    let (mut peer, name) = soon("a client", tls_peer(&listener, files)).await;
    peer.handshake(Greeting::default()).await;
    let connection = soon("a connection", client).await.unwrap().unwrap();
    let close = tokio::spawn(async move { connection.close().await });
    peer.accept_close().await;
    drop(peer);
    soon("the close", close).await.unwrap().unwrap();
    name
}

#[tokio::test]
async fn a_ready_configuration_and_the_name_that_is_sent() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new("The tests", directory.path());
    let server = authority.server(&["localhost", "127.0.0.1", "rabbit.example"], Validity::Now);
    let ready = || Tls::from_rustls(ready_config(&authority));
    let usual = || Tls::new().ca_file(authority.ca());
    for tls in [usual(), ready()] {
        assert_eq!(
            name_asked_for("localhost", &server, tls).await.as_deref(),
            Some("localhost")
        );
    }
    for tls in [usual(), ready()] {
        // An address is no name that could be sent (RFC 6066).
        assert_eq!(name_asked_for("127.0.0.1", &server, tls).await, None);
    }
    for tls in [usual(), ready()] {
        let tls = tls.server_name("rabbit.example");
        let name = name_asked_for("127.0.0.1", &server, tls).await;
        assert_eq!(name.as_deref(), Some("rabbit.example"));
    }
    for tls in [usual(), ready()] {
        let tls = tls.without_server_name();
        assert_eq!(name_asked_for("localhost", &server, tls).await, None);
    }
}

/// A renewed certificate, or another authority, is used from the next connection on.
#[tokio::test]
async fn files_are_read_for_each_connection() {
    let directory = TempDir::new().unwrap();
    let old = Authority::new("Old", directory.path());
    let tls = Tls::new().ca_file(old.ca());
    let server = old.server(&["localhost"], Validity::Now);
    name_asked_for("localhost", &server, tls.clone()).await;
    let new = Authority::new("New", directory.path());
    assert_eq!(new.ca(), old.ca());
    let server = new.server(&["localhost"], Validity::Now);
    name_asked_for("localhost", &server, tls).await;
}

/// The platform's authorities are those that `SSL_CERT_FILE` names, where it names some; so that only a process with
/// that variable can tell.
#[tokio::test]
async fn the_platforms_authorities() {
    const CHILD: &str = "AMQP_TESTS_PLATFORM_CHILD";
    match std::env::var_os(CHILD) {
        None => {
            let directory = TempDir::new().unwrap();
            let authority = Authority::new("The tests", directory.path());
            authority.server(&["localhost"], Validity::Now);
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tls_settings::the_platforms_authorities"])
                .env(CHILD, directory.path())
                .env("SSL_CERT_FILE", authority.ca())
                .env_remove("SSL_CERT_DIR")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            assert!(
                child.status.success() && said.contains("1 passed"),
                "{said}"
            );
        }
        Some(directory) => {
            let file = |end: &str| {
                let files = std::fs::read_dir(Path::new(&directory)).unwrap();
                let mut files = files.map(|file| file.unwrap().path());
                let is_it = |path: &std::path::PathBuf| {
                    path.to_string_lossy().ends_with(end) && !path.ends_with("ca.pem")
                };
                files.find(is_it).unwrap()
            };
            let server = Certified {
                certificate: file(".pem"),
                key: file(".key"),
            };
            // Twice: they are kept for the second time.
            name_asked_for("localhost", &server, Tls::new()).await;
            name_asked_for("localhost", &server, Tls::new()).await;
        }
    }
}

/// A server that does this with each connection, and what a client with TLS makes of it.
async fn attempt<F>(act: impl Fn(TcpStream) -> F + Send + 'static) -> (Error, Duration)
where
    F: Future<Output = ()> + Send,
{
    let directory = TempDir::new().unwrap();
    let authority = Authority::new("The tests", directory.path());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        act(stream).await;
    });
    let options = ConnectOptions::new().address("127.0.0.1", port);
    let options = options.tls(Tls::new().ca_file(authority.ca()));
    let began = Instant::now();
    let error = connect(options.handshake_deadline(Duration::from_millis(700)))
        .await
        .unwrap_err();
    (error, began.elapsed())
}

#[tokio::test]
async fn a_server_that_is_silent_in_the_tls_handshake() {
    let (error, took) = attempt(async |stream| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(stream);
    })
    .await;
    assert!(
        took >= Duration::from_millis(700) && took < Duration::from_secs(3),
        "{took:?}"
    );
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    match &error.attempts()[0].error {
        AttemptError::Timeout {
            phase: Phase::Tls,
            after,
        } => {
            assert_eq!(*after, Duration::from_millis(700));
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_server_that_ends_the_tls_handshake() {
    let (error, _) = attempt(async |mut stream| drop(stream.read(&mut [0; 16]).await)).await;
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    assert_eq!(
        error.tls().unwrap().reason(),
        TlsReason::Transport,
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_speaks_something_else() {
    let (error, _) = attempt(async |mut stream| {
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    assert_eq!(error.tls().unwrap().reason(), TlsReason::NotTls, "{error}");
    says(&error.to_string(), &["does not speak TLS on this port"]);
}
