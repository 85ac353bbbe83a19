//! The loads themselves, against the null broker: that they notice when they are not acked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::pin::Pin;
use std::thread;

use amqp_benches::blast;
use amqp_benches::floor::Floor;
use amqp_benches::load::amqp_client::AmqpClient;
use amqp_benches::load::floor::FloorClient;
use amqp_benches::load::scale::{self, Amount, Idle, Traffic};
use amqp_benches::load::socket::Socket;
use amqp_benches::load::{self, Failure, Options, Work};
use amqp_benches::null_broker::{Config, NullBroker, tls};
use amqp_benches::wire::{self, method};
use amqp_benches::workload::Report;
use amqp_tests::broker::Certificates;

#[tokio::test]
async fn every_client_has_every_message_acked() {
    for ack_every in [1, 100] {
        let config = Config {
            ack_every,
            ..Config::default()
        };
        for (client, run) in clients() {
            for work in [Work::Confirmed, Work::InTurn] {
                let broker = NullBroker::start(config).unwrap();
                let options = options(&broker, work);
                // One by one, each waits until the broker sees that no more is coming.
                let count = if work == Work::InTurn { 20 } else { 5_000 };
                let options = Options { count, ..options };
                let report = run(options).await.unwrap();
                let published = (report.acked, broker.published());
                assert_eq!(
                    published,
                    (count, count + 30),
                    "{client} {work:?} {ack_every}"
                );
                assert_eq!(report.latency.is_some(), work == Work::InTurn);
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_confirmed_arrives_as_well() {
    for (client, run) in clients()
        .into_iter()
        .filter(|(client, _)| *client != "floor")
    {
        let broker = NullBroker::start(Config::default()).unwrap();
        for size in [16, 200_000] {
            let before = broker.published();
            let options = Options {
                size,
                count: 200,
                ..options(&broker, Work::Unconfirmed)
            };
            assert_eq!(run(options).await.unwrap().acked, 200, "{client} {size}");
            assert_eq!(broker.published() - before, 230, "{client} {size}");
        }
    }
}

#[tokio::test]
async fn what_is_delivered_is_consumed() {
    let broker = NullBroker::start(Config::default()).unwrap();
    for (client, run) in clients()
        .into_iter()
        .filter(|(client, _)| !["floor", "socket"].contains(client))
    {
        for (size, ack_every) in [(0, 1), (16, 100), (200_000, 7), (16, 0)] {
            let options = Options {
                size,
                ack_every,
                window: 100,
                count: 2_000,
                ..options(&broker, Work::Consume)
            };
            assert_eq!(run(options).await.unwrap().acked, 2_000, "{client} {size}");
        }
    }
}

type Run = fn(Options) -> Pin<Box<dyn Future<Output = Result<Report, Failure>>>>;

/// Those of peers too, where they are built.
fn clients() -> Vec<(&'static str, Run)> {
    vec![
        ("amqp-client", |options| {
            Box::pin(async move { load::run::<AmqpClient>(&options).await })
        }),
        ("floor", |options| {
            Box::pin(async move { load::run::<FloorClient>(&options).await })
        }),
        ("socket", |options| {
            Box::pin(async move { load::run::<Socket>(&options).await })
        }),
        #[cfg(feature = "peers")]
        ("lapin", |options| {
            Box::pin(async move { load::run::<load::lapin::Lapin>(&options).await })
        }),
        #[cfg(feature = "peers")]
        ("lapin, a future each", |options| {
            let options = Options {
                futures: true,
                ..options
            };
            Box::pin(async move { load::run::<load::lapin::Lapin>(&options).await })
        }),
        #[cfg(feature = "peers")]
        ("amqprs", |options| {
            Box::pin(async move { load::run::<load::amqprs::Amqprs>(&options).await })
        }),
    ]
}

fn options(broker: &NullBroker, work: Work) -> Options {
    Options {
        work,
        address: broker.address(),
        ca: None,
        queue: None,
        count: 5_000,
        warm_up: 30,
        size: 16,
        window: 1_000,
        ack_every: 100,
        futures: false,
    }
}

#[tokio::test]
async fn channels_and_connections_may_be_many() {
    let broker = NullBroker::start(Config::default()).unwrap();
    let address = broker.address();
    let amount = Amount {
        warm_up: 30,
        count: 3_000,
    };
    for traffic in [Traffic::OnLast, Traffic::OnAll] {
        let report = scale::publish(address, amount, 20, traffic).await;
        assert_eq!(report.unwrap().acked, 3_000, "{traffic:?}");
    }
    assert_eq!(broker.published(), 2 * 3_030);
    let report = scale::consume(address, 2_000, 20).await.unwrap();
    assert_eq!(report.acked, 2_000);
}

#[tokio::test]
async fn consumers_tasks_and_a_stuck_tag_are_all_served() {
    let broker = NullBroker::start(Config::default()).unwrap();
    let address = broker.address();
    let amount = Amount {
        warm_up: 30,
        count: 3_001,
    };
    let taken = scale::share(address, 2_003, 20).await.unwrap();
    assert_eq!(taken.acked, 2_003);
    scale::tasks(address, amount, 7).await.unwrap();
    assert_eq!(broker.published(), 3_031);

    let broker = NullBroker::start(Config {
        hold_first: true,
        ..Config::default()
    })
    .unwrap();
    scale::stuck(broker.address(), amount).await.unwrap();
    assert_eq!(broker.published(), 1 + 3_031);
}

#[tokio::test]
async fn tls_in_front_of_the_broker_hides_nothing() {
    let broker = NullBroker::start(Config::default()).unwrap();
    let certificates = Certificates::generate();
    let node = certificates.node(false);
    let front = tls::in_front_of(broker.address(), &node.certificate, &node.key).unwrap();
    let options = Options {
        address: front,
        ca: Some(node.ca),
        ..options(&broker, Work::Confirmed)
    };
    let report = load::run::<AmqpClient>(&options).await.unwrap();
    assert_eq!((report.acked, broker.published()), (5_000, 5_030));
}

#[test]
fn what_idle_connections_cost_is_read_as_it_is_written() {
    let idle = Idle {
        memory: 1234.5,
        cpu: 0.25,
        threads: -1,
    };
    assert_eq!(Idle::parse(&idle.to_line()), Some(idle));
    assert_eq!(Idle::parse("memory=1 cpu=2"), None);
}

#[test]
fn a_blast_is_acked_to_the_last() {
    let broker = NullBroker::start(Config {
        ack_every: 100,
        ..Config::default()
    })
    .unwrap();
    assert!(blast::publish(broker.address(), 20_000, 16).unwrap() > 0.0);
    assert_eq!(broker.published(), 20_000);
}

#[tokio::test]
async fn the_floor_does_not_take_the_end_of_a_connection_for_an_ack() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let broker = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut answers = Vec::new();
        for (channel, id) in [
            (0, method::CONNECTION_START),
            (0, method::CONNECTION_TUNE),
            (0, method::CONNECTION_OPEN_OK),
            (1, method::CHANNEL_OPEN_OK),
            (1, method::CONFIRM_SELECT_OK),
        ] {
            wire::put_method(&mut answers, channel, id, |_| ());
        }
        stream.write_all(&answers).unwrap();
        let mut received: Vec<u8> = Vec::new();
        while received.windows(3).filter(|at| at == b"hi\xce").count() < 2 {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap();
            received.extend(&buffer[..read]);
        }
        stream.write_all(&wire::ack(1, 1, false)).unwrap();
    });
    let floor = Floor::connect(address, 10).await.unwrap();
    let first = floor.publish("", "k", b"hi").await.unwrap();
    let second = floor.publish("", "k", b"hi").await.unwrap();
    assert!(first.await.is_ok());
    assert!(second.await.is_err());
    assert!(floor.publish("", "k", b"hi").await.is_err());
    broker.join().unwrap();
}
