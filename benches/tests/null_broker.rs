//! The null broker, seen by a client that looks at every octet it gets.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use amqp_benches::null_broker::{Config, NullBroker, Plan};
use amqp_benches::wire::{self, kind, method};

/// A raw client. Frames are put together by hand where they are the point of the test.
struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    /// Connects and says nothing yet.
    fn connect(broker: &NullBroker) -> Client {
        let stream = TcpStream::connect(broker.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        Client {
            stream,
            input: Vec::new(),
        }
    }

    /// A client whose connection and channel 1 are open.
    fn open(broker: &NullBroker) -> Client {
        let mut client = Client::connect(broker);
        client.send(b"AMQP\0\0\x09\x01");
        assert_eq!(client.method(), (0, method::CONNECTION_START));
        client.send_method(
            0,
            method::CONNECTION_START_OK,
            b"\0\0\0\0\x05PLAIN\0\0\0\x04\0a\0b\x05en_US",
        );
        assert_eq!(client.method(), (0, method::CONNECTION_TUNE));
        client.send_method(0, method::CONNECTION_TUNE_OK, b"\x07\xff\0\x02\0\0\0\0");
        client.send_method(0, method::CONNECTION_OPEN, b"\x01/\0\0");
        assert_eq!(client.method(), (0, method::CONNECTION_OPEN_OK));
        client.send_method(1, method::CHANNEL_OPEN, b"\0");
        assert_eq!(client.method(), (1, method::CHANNEL_OPEN_OK));
        client
    }

    /// As [`Client::open`], and confirms are selected.
    fn confirming(broker: &NullBroker) -> Client {
        let mut client = Client::open(broker);
        client.send_method(1, method::CONFIRM_SELECT, b"\0");
        assert_eq!(client.method(), (1, method::CONFIRM_SELECT_OK));
        client
    }

    fn send(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).unwrap();
    }

    fn send_method(&mut self, channel: u16, id: u32, args: &[u8]) {
        let mut out = Vec::new();
        wire::put_method(&mut out, channel, id, |out| out.extend(args));
        self.send(&out);
    }

    /// Publishes to the exchange "" with the key "k".
    fn publish(&mut self, body: &[u8]) {
        let mut out = Vec::new();
        wire::put_publish(&mut out, 1, b"", b"k", body);
        self.send(&out);
    }

    /// The next frame: its type, its channel and its payload.
    fn frame(&mut self) -> (u8, u16, Vec<u8>) {
        loop {
            if let Some(frame) = wire::first_frame(&self.input).unwrap() {
                let taken = (frame.kind, frame.channel, frame.payload.to_vec());
                let len = frame.len();
                self.input.drain(..len);
                return taken;
            }
            let mut buffer = [0; 4096];
            let read = self.stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the broker ended the connection");
            self.input.extend(&buffer[..read]);
        }
    }

    /// The channel and the id of the next frame, which is a method's.
    fn method(&mut self) -> (u16, u32) {
        let (kind, channel, payload) = self.frame();
        assert_eq!(kind, 1);
        (
            channel,
            u32::from_be_bytes(payload[..4].try_into().unwrap()),
        )
    }

    /// The tag and the octet of bits of the next frame, which is an ack on channel 1.
    fn ack(&mut self) -> (u64, u8) {
        let (kind, channel, payload) = self.frame();
        assert_eq!((kind, channel), (1, 1));
        assert_eq!(payload[..4], [0, 60, 0, 80]);
        assert_eq!(payload.len(), 13);
        (
            u64::from_be_bytes(payload[4..12].try_into().unwrap()),
            payload[12],
        )
    }

    /// A delivery to the consumer "c" on channel 1: its tag and its body, in one frame.
    fn delivery(&mut self) -> (u64, Vec<u8>) {
        let (kind, channel, payload) = self.frame();
        assert_eq!((kind, channel), (1, 1));
        let (front, rest) = payload.split_at(6);
        assert_eq!(front, [0, 60, 0, 60, 1, b'c']);
        let (tag, rest) = rest.split_at(8);
        assert_eq!(rest, b"\0\0\x04null", "not redelivered, exchange, key");
        let (kind, channel, header) = self.frame();
        assert_eq!((kind, channel, header.len()), (2, 1, 14));
        let size = u64::from_be_bytes(header[4..12].try_into().unwrap());
        let body = if size == 0 {
            Vec::new()
        } else {
            self.frame().2
        };
        assert_eq!(body.len() as u64, size);
        (u64::from_be_bytes(tag.try_into().unwrap()), body)
    }

    fn consume(&mut self, queue: &str, bits: u8) {
        let mut args = vec![0, 0];
        wire::put_short(&mut args, queue.as_bytes());
        wire::put_short(&mut args, b"c");
        args.push(bits);
        args.extend([0; 4]);
        self.send_method(1, method::BASIC_CONSUME, &args);
        assert_eq!(self.frame(), (1, 1, b"\0\x3c\0\x15\x01c".to_vec()));
    }

    /// Whether nothing comes for a while.
    fn is_silent(&mut self) -> bool {
        assert!(self.input.is_empty());
        self.stream
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let read = self.stream.read(&mut [0]);
        self.stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        read.is_err()
    }

    fn assert_ended(&mut self) {
        assert!(self.input.is_empty());
        assert_eq!(self.stream.read(&mut [0]).unwrap(), 0);
    }

    /// The broker closes the connection for this reason.
    fn assert_closed_with(&mut self, code: u16) {
        let (kind, channel, payload) = self.frame();
        assert_eq!((kind, channel), (1, 0));
        assert_eq!(payload[..4], [0, 10, 0, 50]);
        assert_eq!(payload[4..6], code.to_be_bytes());
        self.assert_ended();
    }
}

fn broker(ack_every: u64) -> NullBroker {
    NullBroker::start(Config {
        ack_every,
        ..Config::default()
    })
    .unwrap()
}

/// Waits until the broker has counted this many publishes.
fn await_published(broker: &NullBroker, count: u64) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while broker.published() < count && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(broker.published(), count);
}

#[test]
fn another_protocol_is_answered_with_ours() {
    let mut client = Client::connect(&broker(1));
    client.send(b"AMQP\x03\x01\0\0");
    let mut answer = [0; 8];
    client.stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"AMQP\0\0\x09\x01");
    client.assert_ended();
}

#[test]
fn tune_names_the_limits_of_rabbitmq_and_no_heartbeat() {
    let mut client = Client::connect(&broker(1));
    client.send(b"AMQP\0\0\x09\x01");
    let (_, _, start) = client.frame();
    assert_eq!(start[..6], [0, 10, 0, 10, 0, 9]);
    let text = String::from_utf8_lossy(&start).into_owned();
    assert!(
        text.contains("\x12publisher_confirmst\x01") && text.contains("PLAIN"),
        "{text}"
    );
    client.send_method(0, method::CONNECTION_START_OK, b"");
    assert_eq!(
        client.frame(),
        (1, 0, b"\0\x0a\0\x1e\x07\xff\0\x02\0\0\0\0".to_vec())
    );
}

#[test]
fn each_publish_is_acked() {
    let broker = broker(1);
    let mut client = Client::confirming(&broker);
    // basic.publish to "" with the key "k"; a header for 2 octets; a body.
    let publish = b"\x01\0\x01\0\0\0\x0a\0\x3c\0\x28\0\0\0\x01k\0\xce\
        \x02\0\x01\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\x02\0\0\xce\
        \x03\0\x01\0\0\0\x02hi\xce";
    client.send(&publish.repeat(3));
    assert_eq!(
        [client.ack(), client.ack(), client.ack()],
        [(1, 0), (2, 0), (3, 0)]
    );
    // One octet at a time.
    for octet in publish {
        client.send(&[*octet]);
    }
    assert_eq!(client.ack(), (4, 0));
    // The message is not there before the end of its last frame.
    client.send(&publish[..publish.len() - 1]);
    assert!(client.is_silent());
    client.send(&publish[publish.len() - 1..]);
    assert_eq!(client.ack(), (5, 0));
    assert_eq!(broker.published(), 5);
}

#[test]
fn bodies_of_no_frame_and_of_many() {
    let broker = broker(1);
    let mut client = Client::confirming(&broker);
    client.publish(b"");
    assert_eq!(client.ack(), (1, 0));
    client.publish(&vec![7; 1_000_000]);
    assert_eq!(client.ack(), (2, 0));
    client.publish(b"x");
    assert_eq!(client.ack(), (3, 0));
    assert_eq!(broker.published(), 3);
}

#[test]
fn each_hundredth_publish_is_acked_and_after_a_silence_the_rest() {
    let broker = broker(100);
    let mut client = Client::confirming(&broker);
    let mut out = Vec::new();
    for _ in 0..250 {
        wire::put_publish(&mut out, 1, b"", b"k", b"body");
    }
    client.send(&out);
    assert_eq!(
        [client.ack(), client.ack(), client.ack()],
        [(100, 1), (200, 1), (250, 1)]
    );
    assert!(client.is_silent());
    client.publish(b"one more");
    assert_eq!(client.ack(), (251, 1));
}

#[test]
fn the_first_publish_can_stay_open() {
    let broker = NullBroker::start(Config {
        hold_first: true,
        ..Config::default()
    })
    .unwrap();
    let mut client = Client::confirming(&broker);
    for _ in 0..3 {
        client.publish(b"hi");
    }
    assert_eq!((client.ack(), client.ack()), ((2, 0), (3, 0)));
}

#[test]
fn without_confirms_publishes_are_counted_alone() {
    let broker = broker(1);
    let mut client = Client::open(&broker);
    client.publish(b"one");
    client.publish(b"two");
    await_published(&broker, 2);
    // What was published before the select has no number.
    client.send_method(1, method::CONFIRM_SELECT, b"\0");
    assert_eq!(client.method(), (1, method::CONFIRM_SELECT_OK));
    client.publish(b"three");
    assert_eq!(client.ack(), (1, 0));
}

#[test]
fn channels_count_for_themselves_and_anew_when_reopened() {
    let broker = broker(1);
    let mut client = Client::confirming(&broker);
    client.send_method(9, method::CHANNEL_OPEN, b"\0");
    assert_eq!(client.method(), (9, method::CHANNEL_OPEN_OK));
    client.send_method(9, method::CONFIRM_SELECT, b"\0");
    assert_eq!(client.method(), (9, method::CONFIRM_SELECT_OK));
    client.publish(b"");
    assert_eq!(client.ack(), (1, 0));
    let mut out = Vec::new();
    wire::put_publish(&mut out, 9, b"", b"k", b"");
    client.send(&out);
    assert_eq!(
        client.frame(),
        (1, 9, b"\0\x3c\0\x50\0\0\0\0\0\0\0\x01\0".to_vec())
    );

    client.send_method(1, method::CHANNEL_CLOSE, b"\0\xc8\0\0\0\0\0");
    assert_eq!(client.method(), (1, method::CHANNEL_CLOSE_OK));
    client.send_method(1, method::CHANNEL_OPEN, b"\0");
    assert_eq!(client.method(), (1, method::CHANNEL_OPEN_OK));
    client.send_method(1, method::CONFIRM_SELECT, b"\0");
    assert_eq!(client.method(), (1, method::CONFIRM_SELECT_OK));
    client.publish(b"");
    assert_eq!(client.ack(), (1, 0));
}

#[test]
fn what_is_no_frame_is_501() {
    let broker = broker(1);
    let mut client = Client::confirming(&broker);
    client.send(b"\x08\0\0\0\0\0\0\xcf");
    client.assert_closed_with(501);

    let mut client = Client::confirming(&broker);
    client.send(b"\x03\0\x01\xff\xff\xff\xff");
    client.assert_closed_with(501);
}

#[test]
fn contents_out_of_order_are_505() {
    let broker = broker(1);
    let publish = b"\x01\0\x01\0\0\0\x0a\0\x3c\0\x28\0\0\0\x01k\0\xce";
    let header = b"\x02\0\x01\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\x02\0\0\xce";
    let body = b"\x03\0\x01\0\0\0\x02hi\xce";
    let long = b"\x03\0\x01\0\0\0\x03hi!\xce";
    let wrong: [&[&[u8]]; 6] = [
        &[header],
        &[body],
        &[publish, body],
        &[publish, publish],
        &[publish, header, publish],
        &[publish, header, long],
    ];
    for frames in wrong {
        let mut client = Client::confirming(&broker);
        client.send(&frames.concat());
        client.assert_closed_with(505);
    }
    assert_eq!(broker.published(), 0);
}

#[test]
fn deliveries_are_numbered_and_as_many_and_as_large_as_the_queue_says() {
    for size in [0, 16, 70_000] {
        let mut client = Client::open(&broker(1));
        client.consume(&format!("deliver:2500:{size}"), 0);
        for tag in 1..=2_500 {
            assert_eq!(client.delivery(), (tag, vec![b'x'; size]));
        }
        assert!(client.is_silent());
    }
}

#[test]
fn declare_tells_what_there_is_to_deliver() {
    let plan = Plan { count: 7, size: 3 };
    let broker = NullBroker::start(Config {
        plan,
        ..Config::default()
    })
    .unwrap();
    let mut client = Client::open(&broker);
    client.send_method(1, method::QUEUE_DECLARE, b"\0\0\x01q\0\0\0\0\0");
    assert_eq!(
        client.frame(),
        (1, 1, b"\0\x32\0\x0b\x01q\0\0\0\x07\0\0\0\0".to_vec())
    );
    client.send_method(1, method::QUEUE_DECLARE, b"\0\0\x0cdeliver:90:1\0\0\0\0\0");
    let (_, _, payload) = client.frame();
    assert_eq!(payload[17..], [0, 0, 0, 90, 0, 0, 0, 0]);
    client.consume("q", 0);
    for tag in 1..=7 {
        assert_eq!(client.delivery(), (tag, b"xxx".to_vec()));
    }
}

#[test]
fn prefetch_is_kept_to() {
    let mut client = Client::open(&broker(1));
    client.send_method(1, method::BASIC_QOS, b"\0\0\0\0\0\x0a\0");
    assert_eq!(client.method(), (1, method::BASIC_QOS_OK));
    client.consume("deliver:35:16", 0);
    let mut next = 1;
    // The last ack settles 14 to 20, as 13 was settled before.
    let rounds = [
        (10, Some((0, 1))),
        (10, Some((13, 0))),
        (1, Some((12, 1))),
        (2, Some((20, 1))),
        (7, None),
    ];
    for (more, ack) in rounds {
        for _ in 0..more {
            assert_eq!(client.delivery().0, next);
            next += 1;
        }
        assert!(client.is_silent(), "before {ack:?}");
        if let Some((tag, multiple)) = ack {
            let mut args = u64::to_be_bytes(tag).to_vec();
            args.push(multiple);
            client.send_method(1, method::BASIC_ACK, &args);
        }
    }
}

#[test]
fn without_acks_prefetch_does_not_count() {
    let mut client = Client::open(&broker(1));
    client.send_method(1, method::BASIC_QOS, b"\0\0\0\0\0\x01\0");
    assert_eq!(client.method(), (1, method::BASIC_QOS_OK));
    client.consume("deliver:50:16", 2);
    for tag in 1..=50 {
        assert_eq!(client.delivery().0, tag);
    }
}

#[test]
fn cancel_ends_the_deliveries() {
    let mut client = Client::open(&broker(1));
    client.send_method(1, method::BASIC_QOS, b"\0\0\0\0\0\x02\0");
    assert_eq!(client.method(), (1, method::BASIC_QOS_OK));
    client.consume("deliver:1000:16", 0);
    assert_eq!([client.delivery().0, client.delivery().0], [1, 2]);
    client.send_method(1, method::BASIC_CANCEL, b"\x01c\0");
    assert_eq!(client.frame(), (1, 1, b"\0\x3c\0\x1f\x01c".to_vec()));
    client.send_method(1, method::BASIC_ACK, b"\0\0\0\0\0\0\0\0\x01");
    assert!(client.is_silent());
    client.consume("deliver:1:16", 0);
    assert_eq!(client.delivery().0, 3, "tags go on");
}

#[test]
fn no_name_is_given_to_two_consumers() {
    let mut client = Client::open(&broker(1));
    let consume = b"\0\0\x05queue\0\0\0\0\0\0";
    let mut named = || {
        client.send_method(1, method::BASIC_CONSUME, consume);
        let (_, _, payload) = client.frame();
        payload[4..].to_vec()
    };
    let [first, second] = [named(), named()];
    client.send_method(1, method::BASIC_CANCEL, &[&first[..], b"\0"].concat());
    assert_eq!(client.method(), (1, method::BASIC_CANCEL_OK));
    client.send_method(1, method::BASIC_CONSUME, consume);
    let (_, _, third) = client.frame();
    assert!(![first, second].contains(&third[4..].to_vec()));
}

#[test]
fn heartbeats_are_answered() {
    let mut client = Client::open(&broker(1));
    client.send(b"\x08\0\0\0\0\0\0\xce");
    assert_eq!(client.frame(), (kind::HEARTBEAT, 0, Vec::new()));
}

#[test]
fn close_is_answered_and_unknown_methods_are_540() {
    let broker = broker(1);
    let mut client = Client::open(&broker);
    client.send_method(0, method::CONNECTION_CLOSE, b"\0\xc8\0\0\0\0\0");
    assert_eq!(client.method(), (0, method::CONNECTION_CLOSE_OK));
    client.assert_ended();

    let mut client = Client::open(&broker);
    client.send_method(1, 0x005a_000a, b"");
    client.assert_closed_with(540);
}

#[test]
fn the_reason_arrives_although_the_client_goes_on_sending() {
    for _ in 0..20 {
        let mut client = Client::confirming(&broker(1));
        client.send(b"\x08\0\0\0\0\0\0\xcf");
        let mut rest = client.stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || rest.write_all(&vec![0; 4 << 20]));
        client.assert_closed_with(501);
        sender.join().unwrap().unwrap();
    }
}
