//! Peers that read nothing, or little: what waits to be sent is bounded, in turn, and every call ends.

use std::time::Duration;

use amqp_client::codec::{Frame, MethodId, RawFrame, connection, frame, short};
use amqp_client::error::{CloseCause, ErrorKind, NotSent};
use amqp_client::{
    ConfirmOptions, ConnectOptions, Connection, Message, Outcome, QueueDeclare, UnknownReason,
};
use amqp_tests::peer::Greeting;
use amqp_tests::wire::Event as Seen;

use super::support::{
    MemoryPeer, confirm_channel, connected_with, no_task_left, plain_channel, settle, timed,
};

/// A small pipe, so that what is not read stays with the client.
const NARROW: usize = 4096;

async fn narrow(options: ConnectOptions) -> (MemoryPeer, Connection) {
    connected_with(NARROW, Greeting::default(), options).await
}

/// What is published waits here up to the bound, then publishing waits, then the message comes back.
#[tokio::test(start_paused = true)]
async fn publishes_wait_and_come_back_when_nothing_is_read() {
    let bound = 256 * 1024;
    let (mut peer, connection) = narrow(ConnectOptions::new().outgoing_buffer(bound)).await;
    let wait = Duration::from_secs(5);
    let options = ConfirmOptions::default()
        .max_in_flight(1_000_000)
        .wait(wait)
        .timeout(None);
    let (channel, on) = confirm_channel(&mut peer, &connection, options).await;
    let message = || Message::new(vec![b'x'; 1000]);
    let mut confirms = Vec::new();
    let refused = loop {
        match channel.try_publish("", "q", message()) {
            Ok(confirm) => confirms.push(confirm),
            Err(refused) => break refused,
        }
        // The task gets its turn to hand over what it can.
        tokio::task::yield_now().await;
    };
    assert_eq!(refused.reason, NotSent::Full);
    // One bound's worth that was handed over, one that waits, what is in the pipe, and one message beyond.
    let accepted = confirms.len() * 1000;
    assert!(
        accepted >= bound / 10 * 9 && accepted <= 2 * bound + 2 * NARROW,
        "{accepted}"
    );
    let (result, took) = timed(channel.publish("", "q", message())).await;
    let error = result.unwrap_err();
    assert_eq!((error.reason, took), (NotSent::Full, wait));
    assert_eq!(error.publication.message.body().len(), 1000);
    // It goes on as soon as the peer reads, in order, each of them whole.
    let late = tokio::spawn({
        let channel = channel.clone();
        async move {
            channel
                .publish("", "q", Message::new("late"))
                .await
                .unwrap()
                .await
        }
    });
    for _ in 0..confirms.len() {
        assert_eq!(peer.expect_publish().await.body.len(), 1000);
    }
    assert_eq!(peer.expect_publish().await.body, "late");
    peer.send_ack(on, confirms.len() as u64 + 1, true).await;
    assert_eq!(late.await.unwrap(), Outcome::Acked);
    for confirm in confirms {
        assert_eq!(confirm.await, Outcome::Acked);
    }
}

/// A large message does not keep the small things of other channels waiting for its end.
#[tokio::test(start_paused = true)]
async fn large_message_lets_others_through() {
    let (mut peer, connection) = narrow(ConnectOptions::new()).await;
    let (large, on) = plain_channel(&mut peer, &connection).await;
    let (other, other_on) = plain_channel(&mut peer, &connection).await;
    large
        .publish("", "q", Message::new(vec![b'l'; 20_000_000]))
        .await
        .unwrap();
    settle().await;
    let declaring = other.queue_declare(QueueDeclare::new(short!("q")));
    let server = async {
        let mut before = 0;
        loop {
            let Seen::Frame(frame) = peer.next().await else {
                panic!("a frame")
            };
            if frame.channel == other_on {
                break;
            }
            before += frame.payload.len();
        }
        let ok = amqp_client::codec::queue::DeclareOk::default();
        peer.send(other_on, ok).await;
        before
    };
    let (declared, before) = tokio::join!(declaring, server);
    declared.unwrap();
    // A batch or two of it, no more.
    assert!(before < 1_000_000, "{before} bytes came first");
    let rest = async {
        let mut rest = before;
        while rest < 20_000_000 {
            let Seen::Frame(frame) = peer.next_on(on).await else {
                panic!("a frame")
            };
            rest += frame.payload.len();
        }
    };
    rest.await;
}

/// Every call ends though nothing is read, and so does the connection.
#[tokio::test(start_paused = true)]
async fn every_call_ends_when_nothing_is_read() {
    let connect = ConnectOptions::new().outgoing_buffer(1 << 20);
    let (mut peer, connection) = narrow(connect).await;
    let options = ConfirmOptions::default();
    let (channel, _) = confirm_channel(&mut peer, &connection, options).await;
    let confirm = channel
        .publish("", "q", Message::new(vec![0; 900_000]))
        .await
        .unwrap();
    let unsent = channel
        .publish("", "q", Message::new(vec![0; 900_000]))
        .await
        .unwrap();
    let (rpc, took) = timed(channel.queue_declare(QueueDeclare::default())).await;
    assert_eq!(rpc.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(took, Duration::from_secs(30));
    for confirm in [confirm, unsent] {
        let Outcome::Unknown { reason, .. } = confirm.await else {
            panic!("nobody confirmed it")
        };
        assert_eq!(reason, UnknownReason::TimedOut);
    }
    let (opened, _) = timed(connection.open_channel()).await;
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Timeout);
    let (closed, took) = timed(connection.close()).await;
    let error = closed.unwrap_err();
    assert_eq!(
        error.closed().unwrap().cause,
        Some(CloseCause::CloseTimeout)
    );
    assert!(took <= Duration::from_secs(31), "{took:?}");
    drop((connection, channel));
    no_task_left().await;
    drop(peer);
}

/// A publish of which no byte was written when the connection broke says so, one that was begun does not.
#[tokio::test(start_paused = true)]
async fn written_tells_what_was_begun_from_what_was_not() {
    let (mut peer, connection) = narrow(ConnectOptions::new()).await;
    let options = ConfirmOptions::default();
    let (channel, _) = confirm_channel(&mut peer, &connection, options).await;
    let (other, _) = confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
    let begun = channel
        .publish("", "q", Message::new(vec![0; 500_000]))
        .await
        .unwrap();
    settle().await;
    let behind = channel.publish("", "q", Message::new("x")).await.unwrap();
    let elsewhere = other.publish("", "q", Message::new("x")).await.unwrap();
    settle().await;
    drop(peer);
    for (confirm, begun) in [(begun, true), (behind, false), (elsewhere, false)] {
        let Outcome::Unknown {
            reason: UnknownReason::ConnectionClosed { written, .. },
            ..
        } = confirm.await
        else {
            panic!("nobody confirmed it")
        };
        assert_eq!(written, begun);
    }
}

/// Wherever the peer stops reading for good: `written` says whether its first byte got through.
#[tokio::test(start_paused = true)]
async fn written_is_right_for_bodies_of_many_frames() {
    for read in (0..40_000).step_by(1237) {
        let greeting = Greeting {
            tune: connection::Tune {
                frame_max: 4096,
                ..Greeting::default().tune
            },
            ..Default::default()
        };
        let (mut peer, connection) = connected_with(64, greeting, ConnectOptions::new()).await;
        let options = ConfirmOptions::default();
        let (first, on) = confirm_channel(&mut peer, &connection, options.clone()).await;
        let (second, second_on) = confirm_channel(&mut peer, &connection, options).await;
        let mut confirms = Vec::new();
        for number in 0..3_u8 {
            let message = Message::new(vec![number; 6000]);
            confirms.push((on, first.publish("", "q", message.clone()).await.unwrap()));
            confirms.push((second_on, second.publish("", "q", message).await.unwrap()));
        }
        // How many publishes of each channel were seen to begin.
        let mut seen = [0; 2];
        let mut bytes = 0;
        while bytes < read {
            let Seen::Frame(frame) = peer.next_within(Duration::from_secs(1)).await else {
                break;
            };
            bytes += frame.payload.len() + 8;
            if frame
                .method()
                .is_some_and(|method| method.id() == MethodId::BASIC_PUBLISH)
            {
                seen[usize::from(frame.channel == second_on)] += 1;
            }
        }
        drop(peer);
        let mut begun = [0; 2];
        for (on_channel, confirm) in confirms {
            match confirm.await {
                Outcome::Unknown {
                    reason: UnknownReason::ConnectionClosed { written, .. },
                    ..
                } => begun[usize::from(on_channel == second_on)] += i32::from(written),
                outcome => panic!("{outcome:?}"),
            }
        }
        // What the peer saw had begun; what had begun and it did not see is in the pipe of 64 bytes: one more.
        for (seen, begun) in seen.into_iter().zip(begun) {
            assert!(begun == seen || begun == seen + 1, "{read}: {seen} {begun}");
        }
    }
}

/// Not a byte of ours is above what was agreed on, whatever is published.
#[tokio::test(start_paused = true)]
async fn bodies_are_cut_to_frame_max() {
    let greeting = Greeting {
        tune: connection::Tune {
            frame_max: 4096,
            ..Greeting::default().tune
        },
        ..Default::default()
    };
    let (mut peer, connection) = connected_with(1 << 20, greeting, ConnectOptions::new()).await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    for size in [0, 1, 4087, 4088, 4089, 8176, 8177, 100_000] {
        let body: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
        channel
            .publish("", "q", Message::new(body.clone()))
            .await
            .unwrap();
        // The peer is as strict as a broker.
        assert_eq!(peer.expect_publish().await.body, body);
        let frames = peer.transcript().frames();
        let bodies = frames.filter(|(_, frame)| matches!(frame.decode(), Ok(Frame::Body { .. })));
        assert!(bodies.count() < 1000);
    }
    // What cannot be cut is refused here.
    let large = Message::new("x").header("h", "x".repeat(5000));
    let refused = channel.publish("", "q", large).await.unwrap_err();
    assert!(matches!(refused.reason, NotSent::Usage(_)), "{refused}");
    let declare = QueueDeclare::new(short!("q")).argument(short!("x-arg"), "x".repeat(5000));
    assert_eq!(
        channel.queue_declare(declare).await.unwrap_err().kind(),
        ErrorKind::Usage
    );
    peer.expect_silence(Duration::from_secs(1)).await;
    let heartbeat = RawFrame {
        kind: frame::HEARTBEAT,
        channel: 0,
        payload: &[],
    };
    peer.send_frame(heartbeat).await;
    settle().await;
    assert!(connection.is_open());
    drop(channel);
    peer.accept_channel_close(on).await;
}
