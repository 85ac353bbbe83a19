//! The loads themselves, against the null broker: that they notice when they are not acked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use amqp_benches::blast;
use amqp_benches::floor::Floor;
use amqp_benches::load::scale::{self, Idle, Traffic};
use amqp_benches::load::{Client, Consumption};
use amqp_benches::null_broker::{Config, NullBroker};
use amqp_benches::wire::{self, method};
use amqp_benches::workload::Workload;

#[tokio::test]
async fn every_client_has_every_message_acked() {
    for ack_every in [1, 100] {
        for client in Client::ALL {
            let config = Config {
                ack_every,
                ..Config::default()
            };
            let broker = NullBroker::start(config).unwrap();
            let workload = Workload::new(5_000, 30, 16, 1_000);
            let report = client.publish(broker.address(), &workload).await.unwrap();
            assert_eq!(
                (report.acked, broker.published()),
                (5_000, 5_030),
                "{client:?} {ack_every}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_delivered_is_consumed() {
    let broker = NullBroker::start(Config::default()).unwrap();
    for (size, ack_every) in [(0, 1), (16, 100), (200_000, 7)] {
        let what = Consumption {
            count: 2_000,
            warm_up: 10,
            size,
            window: 100,
            ack_every,
        };
        assert_eq!(what.run(broker.address()).await.unwrap().acked, 2_000);
    }
}

#[tokio::test]
async fn channels_and_connections_may_be_many() {
    let broker = NullBroker::start(Config::default()).unwrap();
    let address = broker.address();
    let workload = Workload::new(3_000, 30, 16, 1_000);
    for traffic in [Traffic::OnLast, Traffic::OnAll] {
        let report = scale::publish(address, &workload, 20, traffic).await;
        assert_eq!(report.unwrap().acked, 3_000, "{traffic:?}");
    }
    assert_eq!(broker.published(), 2 * 3_030);
    let report = scale::consume(address, 2_000, 20).await.unwrap();
    assert_eq!(report.acked, 2_000);
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
