//! Private nodes: they start, do what they are told, and end with the test, however it ends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use amqp_codec::{MethodId, basic, confirm, connection, table};
use amqp_tests::broker::{Certificates, ControlError};
use amqp_tests::wire::Event;
use amqp_tests::{Broker, RawClient, Version};

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

async fn starts_and_ends(version: Version) {
    let began = Instant::now();
    let broker = Broker::start(version).await;
    println!(
        "RabbitMQ {version} started in {} ms",
        began.elapsed().as_millis()
    );

    let running = broker
        .eval("{ok, Version} = application:get_key(rabbit, vsn), Version")
        .await;
    assert!(running.starts_with(&format!("\"{version}.")), "{running}");
    let addresses = broker
        .eval("lists:usort([A || P <- erlang:ports(), {name, \"tcp_inet\"} =:= erlang:port_info(P, name), \
               {ok, {A, _}} <- [inet:sockname(P)]])")
        .await;
    assert_eq!(
        addresses, "[{127,0,0,1}]",
        "the node is to be reached from this machine alone"
    );
    assert!(broker.ctl(&["list_vhosts", "--silent"]).await.contains('/'));

    let (pid, directory) = (broker.pid(), broker.directory().to_owned());
    assert!(exists(pid) && directory.exists());
    drop(broker);
    assert!(!exists(pid), "the node outlives its handle");
    assert!(!directory.exists(), "its directory does");
}

#[tokio::test]
async fn node_starts_and_ends_with_its_handle_3_10() {
    starts_and_ends(Version::V3_10).await;
}

#[tokio::test]
async fn node_starts_and_ends_with_its_handle_4_0() {
    starts_and_ends(Version::V4_0).await;
}

/// Only where `scripts/setup --with-4.3` was run: `AMQP_WITH_4_3=1 cargo test`.
#[tokio::test]
async fn node_starts_and_ends_with_its_handle_4_3() {
    if Version::all().contains(&Version::V4_3) {
        starts_and_ends(Version::V4_3).await;
    }
}

async fn keeps_its_queues(version: Version) {
    let broker = Broker::start(version).await;
    let mut client = RawClient::open(broker.address(), "/").await;
    client.open_confirm_channel(1).await;
    client.declare(1, "kept", table! {}).await;
    let publish = basic::Publish {
        routing_key: amqp_codec::short!("kept"),
        ..Default::default()
    };
    let persistent = basic::Properties {
        delivery_mode: Some(2),
        ..basic::Properties::EMPTY
    };
    client
        .send_content(1, publish, &persistent, b"message")
        .await;
    client.expect::<basic::Ack>(1).await;

    let (before, address) = (broker.pid(), broker.address());
    broker.sync().await;
    broker.kill().await;
    assert!(!broker.is_running() && !exists(before));
    client.expect_end().await;
    broker.start_again().await;
    broker.restart().await;
    assert!(broker.is_running() && broker.pid() != before);
    assert_eq!(broker.address(), address);
    let messages = amqp_tests::drain(broker.address(), "/", "kept").await;
    assert_eq!(messages.len(), 1);
    assert_eq!(&messages[0].body[..], b"message");
}

#[tokio::test]
async fn node_comes_back_on_its_files_and_ports_3_10() {
    keeps_its_queues(Version::V3_10).await;
}

#[tokio::test]
async fn node_comes_back_on_its_files_and_ports_4_0() {
    keeps_its_queues(Version::V4_0).await;
}

#[tokio::test]
async fn frozen_node_is_silent_until_it_is_resumed() {
    let broker = Broker::start(Version::V4_0).await;
    let mut client = RawClient::open(broker.address(), "/").await;
    client.open_channel(1).await;
    broker.pause();
    client.send(1, confirm::Select::default()).await;
    client.expect_silence(Duration::from_millis(500)).await;
    broker.resume();
    client.expect::<confirm::SelectOk>(1).await;
    // Frozen, it can still be killed.
    broker.pause();
    broker.kill().await;
    client.expect_end().await;
}

#[tokio::test]
async fn configuration_and_plugins_reach_the_node() {
    let broker = Broker::builder(Version::V4_0)
        .config("channel_max = 7")
        .plugin("rabbitmq_event_exchange")
        .start()
        .await;
    let mut client = RawClient::connect(broker.address()).await;
    assert_eq!(
        client.handshake(Default::default()).await.tune.channel_max,
        7
    );
    assert_eq!(
        broker
            .eval("lists:member(rabbitmq_event_exchange, rabbit_plugins:active())")
            .await,
        "true"
    );
}

#[tokio::test]
async fn node_that_cannot_start_says_why() {
    let broken = Broker::builder(Version::V4_0)
        .config("no_such_setting = 1")
        .try_start()
        .await;
    let error = broken
        .err()
        .expect("the configuration is wrong")
        .to_string();
    assert!(
        error.contains("RabbitMQ 4.0 ended while starting"),
        "{error}"
    );
    assert!(
        error.contains("no_such_setting"),
        "the log is part of it: {error}"
    );
}

async fn shared_node(version: Version) {
    let (one, other) = tokio::join!(Broker::shared(version), Broker::shared(version));
    assert_eq!(one.pid(), other.pid());

    let vhost = one.vhost("harness").await;
    let mut client = RawClient::open(one.address(), &vhost.name).await;
    assert!(vhost.uri.ends_with(&vhost.name));
    one.close_connections(&vhost.name, "the operator says so")
        .await;
    let close: connection::Close = client.expect(0).await;
    assert_eq!(close.reply_code.0, 320);
    assert!(
        close
            .reply_text
            .to_string_lossy()
            .contains("the operator says so")
    );

    let refused = one.try_eval("exit(because)").await;
    assert!(
        matches!(&refused, Err(ControlError::Exception { reason, .. }) if reason.contains("because")),
        "{refused:?}"
    );
    let no_erlang = one.try_eval("1 +").await;
    assert!(
        matches!(no_erlang, Err(ControlError::Exception { .. })),
        "{no_erlang:?}"
    );
    let unknown = one.try_ctl(&["no_such_command"]).await;
    assert!(
        matches!(unknown, Err(ControlError::Failed { .. })),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn shared_node_is_one_and_takes_orders_3_10() {
    shared_node(Version::V3_10).await;
}

#[tokio::test]
async fn shared_node_is_one_and_takes_orders_4_0() {
    shared_node(Version::V4_0).await;
}

#[tokio::test]
async fn alarm_blocks_publishers_until_it_is_cleared() {
    for &version in Version::all() {
        let broker = Broker::start(version).await;
        let mut client = RawClient::open(broker.address(), "/").await;
        client.open_channel(1).await;
        broker.raise_alarm().await;
        client.publish(1, "", "nowhere", b"x").await;
        client.expect::<connection::Blocked>(0).await;
        broker.clear_alarm().await;
        let unblocked = client.next_on(0).await;
        assert_eq!(
            unblocked.method().map(|method| method.id()),
            Some(MethodId::CONNECTION_UNBLOCKED)
        );
    }
}

/// Runs one of the `#[ignore]`d tests of this file in a process of its own.
fn helper(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "--ignored",
            "--nocapture",
            &format!("broker::{name}"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[tokio::test]
#[ignore = "started by node_ends_with_the_test_process"]
async fn helper_that_is_killed() {
    let broker = Broker::start(Version::V4_0).await;
    println!("\nnode {} {}", broker.pid(), broker.directory().display());
    tokio::time::sleep(Duration::from_secs(120)).await;
}

#[test]
fn node_ends_with_the_test_process() {
    let mut child = helper("helper_that_is_killed").spawn().unwrap();
    let line = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("node "))
        .expect("the node starts");
    let [_, pid, directory] = line.split(' ').collect::<Vec<_>>()[..] else {
        panic!("unexpected line {line}");
    };
    let (pid, directory) = (pid.parse().unwrap(), Path::new(directory));
    assert!(exists(pid) && directory.exists());

    // SIGKILL: no destructor runs.
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while exists(pid) || directory.exists() {
        assert!(
            Instant::now() < deadline,
            "the node or its directory outlives the test's process"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
#[ignore = "started by missing_server_names_the_command"]
async fn helper_without_a_server() {
    Broker::start(Version::V3_10).await;
}

#[test]
fn missing_server_names_the_command() {
    let empty = tempfile::tempdir().unwrap();
    let output = helper("helper_without_a_server")
        .env("AMQP_BROKERS_DIR", empty.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("there is no RabbitMQ 3.10") && said.contains("`scripts/setup`"),
        "{said}"
    );
}

#[tokio::test]
async fn killed_node_resets_its_connections() {
    let broker = Broker::start(Version::V3_10).await;
    let mut client = RawClient::open(broker.address(), "/").await;
    broker.kill().await;
    assert!(matches!(client.next().await, Event::Eof | Event::Reset(_)));
}

#[tokio::test]
async fn node_speaks_tls_under_a_private_authority() {
    let (known, unknown) = (Certificates::generate(), Certificates::generate());
    let broker = Broker::builder(Version::V3_10)
        .tls(&known.node(true))
        .start()
        .await;
    // Erlang's own client, in the node: TLS in the harness would be a second implementation of what is under test.
    let greeting = async |authority: &Certificates, client: &Certificates| {
        broker
            .try_eval(&format!(
                "{{ok, Socket}} = ssl:connect(\"localhost\", {}, [binary, {{active, false}}, {{verify, verify_peer}}, \
                 {{cacertfile, \"{}\"}}, {{certfile, \"{}\"}}, {{keyfile, \"{}\"}}]), \
                 ok = ssl:send(Socket, <<\"AMQP\",0,0,9,1>>), {{ok, Bytes}} = ssl:recv(Socket, 11, 5000), Bytes",
                broker.tls_address().port(),
                authority.ca().display(),
                client.client_certificate().display(),
                client.client_key().display()
            ))
            .await
    };
    // Frame type 1, channel 0, four bytes of size, connection.start.
    let start = greeting(&known, &known).await.unwrap();
    assert!(
        start.starts_with("<<1,0,0,") && start.ends_with(",0,10,0,10>>"),
        "{start}"
    );
    let refused = greeting(&unknown, &known).await.unwrap_err().to_string();
    assert!(refused.contains("unknown_ca"), "{refused}");
    let refused = greeting(&known, &unknown).await.unwrap_err().to_string();
    assert!(
        refused.contains("unknown_ca") || refused.contains("closed"),
        "{refused}"
    );
}
