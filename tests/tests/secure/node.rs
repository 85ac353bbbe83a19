//! A node of each version, with all the mechanisms there are, and TLS listeners to each test's liking.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use amqp_client::error::Error;
use amqp_client::{ConnectOptions, Connection, Message, Outcome, QueueDeclare};
use amqp_tests::{Broker, Version};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::timeout;

use crate::pki::{Authority, Certified, Validity};

/// A node, and the authority whose certificates it has and trusts.
pub(crate) struct Node {
    pub(crate) broker: Broker,
    pub(crate) authority: Authority,
    one_at_a_time: Mutex<()>,
}

/// A TLS listener to be.
pub(crate) struct Listener {
    certified: Certified,
    client_certificates: ClientCertificates,
    versions: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    Ignored,
    Wanted,
    Required,
}

/// The node of this version that all tests of this program share. It ends with the process.
pub(crate) async fn node(version: Version) -> &'static Node {
    static NODES: [OnceCell<Node>; 2] = [const { OnceCell::const_new() }; 2];
    let slot = match version {
        Version::V3_10 => &NODES[0],
        Version::V4_0 => &NODES[1],
        Version::V4_3 => unreachable!("not tested here"),
    };
    slot.get_or_init(|| start(version)).await
}

async fn start(version: Version) -> Node {
    let mut mechanisms = vec!["PLAIN", "AMQPLAIN", "EXTERNAL", "RABBIT-CR-DEMO"];
    if version == Version::V4_0 {
        mechanisms.push("ANONYMOUS");
    }
    let mechanisms = mechanisms.iter().enumerate();
    let mechanisms: Vec<_> = mechanisms
        .map(|(index, name)| format!("auth_mechanisms.{} = {name}", index + 1))
        .collect();
    let broker = Broker::builder(version)
        .plugin("rabbitmq_auth_mechanism_ssl")
        .config(&mechanisms.join("\n"))
        .config("ssl_cert_login_from = common_name")
        // EXTERNAL is refused where the node's own options do not insist on certificates.
        .config("ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true")
        .start()
        .await;
    // The listeners have the application's options to begin with, and TLS must have been started.
    broker.eval("application:ensure_all_started(ssl)").await;
    let authority = Authority::new("The tests", broker.directory());
    let one_at_a_time = Mutex::new(());
    Node {
        broker,
        authority,
        one_at_a_time,
    }
}

impl Node {
    /// Evaluates an Erlang expression. Two of the programs that do it, started at once, may take the same name, and
    /// the node then lets in one of them only.
    pub(crate) async fn eval(&self, expression: &str) -> String {
        let _turn = self.one_at_a_time.lock().await;
        self.broker.eval(expression).await
    }

    /// A listener with a certificate for localhost and 127.0.0.1, of TLS 1.2 and 1.3.
    pub(crate) async fn usual_listener(&self) -> SocketAddr {
        let names = ["localhost", "127.0.0.1"];
        self.listen(Listener::new(self.authority.server(&names, Validity::Now)))
            .await
    }

    /// Opens a listener.
    pub(crate) async fn listen(&self, listener: Listener) -> SocketAddr {
        let path = |path: &Path| path.display().to_string();
        let Listener {
            certified,
            client_certificates,
            versions,
        } = listener;
        let (verify, required) = match client_certificates {
            ClientCertificates::Ignored => ("verify_none", false),
            ClientCertificates::Wanted => ("verify_peer", false),
            ClientCertificates::Required => ("verify_peer", true),
        };
        let port = free_port();
        let options = format!(
            "[{{cacertfile, \"{}\"}}, {{certfile, \"{}\"}}, {{keyfile, \"{}\"}}, {{verify, {verify}}}, \
              {{fail_if_no_peer_cert, {required}}}, {{versions, {versions}}}]",
            path(&self.authority.ca()),
            path(&certified.certificate),
            path(&certified.key),
        );
        self.eval(&format!(
            "ok = rabbit_networking:start_ssl_listener({{\"127.0.0.1\", {port}}}, {options}, 1)"
        ))
        .await;
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// Adds a user with these rights on the virtual host `/`.
    pub(crate) async fn add_user(&self, name: &str, password: &str) {
        self.eval(&format!(
                "ok = rabbit_auth_backend_internal:add_user(<<\"{name}\">>, <<\"{password}\">>, <<\"tests\">>), \
                 ok = rabbit_auth_backend_internal:set_permissions(<<\"{name}\">>, <<\"/\">>, <<\".*\">>, <<\".*\">>, \
                 <<\".*\">>, <<\"tests\">>)"
            ))
            .await;
    }

    /// As whom somebody is connected, by the name of the connection.
    pub(crate) async fn user_of(&self, connection_name: &str) -> String {
        self.eval(&format!(
            "[U || [{{user, U}}, {{client_properties, P}}] <- \
                 rabbit_networking:connection_info_all([user, client_properties]), is_list(P), \
                 {{<<\"connection_name\">>, longstr, <<\"{connection_name}\">>}} <- P]"
        ))
        .await
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl Listener {
    pub(crate) fn new(certified: Certified) -> Self {
        Listener {
            certified,
            client_certificates: ClientCertificates::Ignored,
            versions: "['tlsv1.2', 'tlsv1.3']",
        }
    }

    pub(crate) fn client_certificates(mut self, client_certificates: ClientCertificates) -> Self {
        self.client_certificates = client_certificates;
        self
    }

    /// As Erlang writes them.
    pub(crate) fn versions(mut self, versions: &'static str) -> Self {
        self.versions = versions;
        self
    }
}

/// What must come soon; a test that waits for it in vain says for what.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(Duration::from_secs(30), future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within 30 s"),
    }
}

pub(crate) async fn connect(options: ConnectOptions) -> Result<Connection, Error> {
    soon("a connection or an error", Connection::open(options)).await
}

/// Opens a connection, and publishes a message that comes back in a get: bytes go both ways.
pub(crate) async fn works(options: ConnectOptions) -> Connection {
    let connection = match connect(options).await {
        Ok(connection) => connection,
        Err(error) => panic!("{error}"),
    };
    exchange(&connection).await;
    connection
}

/// Publishes a message of several frames to a queue of its own, and gets it.
pub(crate) async fn exchange(connection: &Connection) {
    let body: Vec<u8> = (0..400_000_u32).map(|n| n as u8 ^ (n >> 8) as u8).collect();
    let channel = soon("a channel", connection.open_channel()).await.unwrap();
    let channel = soon("confirms", channel.confirm_select()).await.unwrap();
    let declare = QueueDeclare::default().exclusive();
    let queue = soon("a queue", channel.queue_declare(declare))
        .await
        .unwrap()
        .name;
    let message = Message::new(body.clone()).mandatory();
    let confirm = channel.publish("", queue.clone(), message).await.unwrap();
    assert_eq!(soon("the confirm", confirm).await, Outcome::Acked);
    let got = soon("the message", channel.get(queue, true)).await.unwrap();
    let (got, _) = got.unwrap().delivery.into_parts();
    assert!(got == body, "the body is not what was sent");
}
