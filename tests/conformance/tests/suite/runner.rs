//! What one check costs the others: nothing. Checks made up for the purpose, against a real node.

use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use amqp_codec::{MethodId, ReplyCode, channel, queue};
use amqp_conformance::Source::Spec;
use amqp_conformance::control::Control;
use amqp_conformance::ending::Ending;
use amqp_conformance::report::CheckResult;
use amqp_conformance::runner::{self, Options};
use amqp_conformance::{Check, Failure, Profile, Target, Verdict, check, ensure_eq};
use amqp_tests::proxy::{self, Faults, Plan};
use amqp_tests::{Broker, Proxy, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use crate::support::target;

/// A check without rule and the like, which are not the subject here.
fn made_up<F>(name: &'static str, run: F) -> Check
where
    F: AsyncFn(&mut amqp_conformance::Context) -> Result<(), Failure> + 'static,
{
    check(name)
        .must(Spec("none"), "made up")
        .deadline(2)
        .run(run)
}

async fn run(checks: Vec<Check>, target: &Target, profile: Option<&Profile>) -> Vec<CheckResult> {
    let checks = checks.into_iter().map(Rc::new).collect();
    runner::run(checks, target, profile, &Options::default(), |_| {}).await
}

async fn shared() -> (&'static Broker, Target) {
    let broker = Broker::shared(Version::V4_0).await;
    (broker, target(broker).await)
}

fn verdicts(results: &[CheckResult]) -> Vec<(&str, Verdict, Option<&str>)> {
    let verdict = |it: &CheckResult| (it.verdict, it.found.clone());
    results
        .iter()
        .map(|it| (it.check.as_str(), verdict(it).0, it.found.as_deref()))
        .collect()
}

#[tokio::test]
async fn a_check_that_panics_or_hangs_costs_itself() {
    let (_, target) = shared().await;
    let checks = vec![
        made_up("x/panics", async |cx| {
            cx.open_channel().await?;
            panic!("a fault of the check")
        }),
        made_up("x/hangs", async |cx| {
            let mut client = cx.open_channel().await?;
            client.set_patience(Duration::from_secs(60));
            client.next().await;
            Ok(())
        }),
        made_up("x/passes", async |cx| cx.open_channel().await.map(drop)),
    ];
    let results = run(checks, &target, None).await;
    assert_eq!(
        verdicts(&results),
        [
            ("x/panics", Verdict::Failed, Some("panic")),
            ("x/hangs", Verdict::Failed, Some("timeout")),
            ("x/passes", Verdict::Passed, None),
        ]
    );
    // All three left their connection open.
    for result in &results {
        let ended: Vec<Ending> = result.endings.iter().map(|it| it.ending).collect();
        assert_eq!(ended, [Ending::AsAsked], "{}", result.check);
        assert!(
            result.transcript.contains("> [0] connection.close "),
            "{}",
            result.transcript
        );
    }
}

/// The broker dies of one check while others run: they run again once it is back, and only that one fails.
#[tokio::test]
async fn a_broker_that_crashes_costs_one_check() {
    let broker = Arc::new(Broker::start(Version::V3_10).await);
    let target = target(&broker).await;
    broker.sync().await;
    let starting = Arc::new(Mutex::new(None::<JoinHandle<()>>));
    let operator = Control::new(move |_, _| {
        let (broker, starting) = (Arc::clone(&broker), Arc::clone(&starting));
        async move {
            let mut starting = starting.lock().await;
            if let Some(started) = starting.take() {
                started.await.map_err(|error| error.to_string())?;
            }
            broker.kill().await;
            *starting = Some(tokio::spawn(async move { broker.start_again().await }));
            Ok(())
        }
    });
    let (killed, kill) = watch::channel(false);
    let bystander = |name| {
        let kill = kill.clone();
        made_up(name, async move |cx| {
            let mut client = cx.open_channel().await?;
            let _ = kill.clone().wait_for(|killed| *killed).await;
            client.barrier(1).await
        })
    };
    let checks = vec![
        bystander("x/before"),
        made_up("x/kills", async move |cx| {
            let mut client = cx.open_channel().await?;
            cx.control("kill").await?;
            killed.send_replace(true);
            client.barrier(1).await
        }),
        bystander("x/beside"),
        bystander("x/after"),
    ];
    let options = Options {
        jobs: 3,
        control: Some(operator),
        // A node on a busy machine.
        restart: Duration::from_secs(60),
        ..Options::default()
    };
    let checks = checks.into_iter().map(Rc::new).collect();
    let results = runner::run(checks, &target, None, &options, |_| {}).await;
    let verdicts: Vec<Verdict> = results.iter().map(|it| it.verdict).collect();
    let (passed, failed) = (Verdict::Passed, Verdict::Failed);
    assert_eq!(verdicts, [passed, failed, passed, passed], "{results:#?}");
}

/// A broker that does not come back is waited for once, and the run ends.
#[tokio::test]
async fn a_broker_that_is_gone_ends_the_run() {
    let broker = Arc::new(Broker::start(Version::V3_10).await);
    let target = target(&broker).await;
    let operator = Control::new(move |_, _| {
        let broker = Arc::clone(&broker);
        async move {
            broker.kill().await;
            Ok(())
        }
    });
    let kills = made_up("x/kills", async |cx| cx.control("kill").await);
    let others = (0..50).map(|_| made_up("x/other", async |cx| cx.open().await.map(drop)));
    let checks = std::iter::once(kills).chain(others).map(Rc::new).collect();
    let options = Options {
        jobs: 1,
        control: Some(operator),
        restart: Duration::from_millis(300),
        ..Options::default()
    };
    let began = std::time::Instant::now();
    let results = runner::run(checks, &target, None, &options, |_| {}).await;
    assert_eq!(results.len(), 51);
    // The one that ran and saw it.
    assert_eq!(results[1].found.as_deref(), Some("connection refused"));
    for result in &results[2..] {
        assert_eq!(result.verdict, Verdict::NotRun);
        assert_eq!(result.found.as_deref(), Some(runner::BROKER_GONE));
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

/// What runs goes to its end; nothing else is begun.
#[tokio::test]
async fn interrupted() {
    let (_, target) = shared().await;
    let options = Options {
        jobs: 1,
        ..Options::default()
    };
    let interrupted = Rc::clone(&options.interrupted);
    let first = made_up("x/first", async move |cx| {
        interrupted.set(true);
        cx.open().await.map(drop)
    });
    let second = made_up("x/second", async |_| Ok(()));
    let checks = vec![Rc::new(first), Rc::new(second)];
    let results = runner::run(checks, &target, None, &options, |_| {}).await;
    assert_eq!(
        verdicts(&results),
        [
            ("x/first", Verdict::Passed, None),
            ("x/second", Verdict::NotRun, Some(runner::INTERRUPTED)),
        ]
    );
}

/// Nor is a broker waited for that goes away.
#[tokio::test]
async fn interrupted_while_the_broker_is_away() {
    let target = no_broker(b"").await;
    let options = Options {
        restart: Duration::from_secs(600),
        ..Options::default()
    };
    let interrupted = Rc::clone(&options.interrupted);
    let first = made_up("x/first", async |cx| cx.open().await.map(drop));
    let second = made_up("x/second", async |_| Ok(()));
    let checks = vec![Rc::new(first), Rc::new(second)];
    let options = Options { jobs: 1, ..options };
    let run = runner::run(checks, &target, None, &options, |_| {});
    let interrupt = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        interrupted.set(true);
    };
    let both = async { tokio::join!(run, interrupt).0 };
    let results = tokio::time::timeout(Duration::from_secs(30), both).await;
    let results = results.expect("the run ends");
    assert_eq!(results[0].verdict, Verdict::Failed);
    assert_eq!(results[1].found.as_deref(), Some(runner::INTERRUPTED));
}

/// Accepts every connection, and says these bytes on it again and again, slowly: no broker.
async fn no_broker(says: &'static [u8]) -> Target {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while stream.write_all(says).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
    });
    Target::parse(&format!("amqp://{address}")).expect("a URI")
}

/// It is there for TCP, and says nothing, or heartbeats without end.
#[tokio::test]
async fn a_broker_that_hangs_or_drips_ends_the_run() {
    for says in [&b""[..], b"\x08\0\0\0\0\0\0\xce"] {
        let target = no_broker(says).await;
        let check = || made_up("x/opens", async |cx| cx.open().await.map(drop));
        let checks = (0..50).map(|_| Rc::new(check())).collect();
        let options = Options {
            jobs: 4,
            timeout_factor: 0.1,
            restart: Duration::from_secs(5),
            ..Options::default()
        };
        let run = runner::run(checks, &target, None, &options, |_| {});
        let results = tokio::time::timeout(Duration::from_secs(20), run).await;
        let results = results.expect("the run ends");
        assert_eq!(results.len(), 50);
        for (at, result) in results.iter().enumerate() {
            let expected = if at < 4 {
                Verdict::Failed
            } else {
                Verdict::NotRun
            };
            assert_eq!(result.verdict, expected, "{at}: {result:?}");
        }
    }
}

/// However the check ends.
#[tokio::test]
async fn what_is_declared_is_deleted() {
    let (broker, target) = shared().await;
    async fn declare(cx: &mut amqp_conformance::Context) -> Result<(), Failure> {
        let (queue, exchange) = (cx.queue("q"), cx.exchange("x"));
        cx.queue("never-declared");
        let mut client = cx.open_channel().await?;
        client.declare_exchange(1, &exchange, "fanout").await?;
        let declare = queue::Declare {
            queue,
            durable: true,
            ..Default::default()
        };
        client.call::<queue::DeclareOk>(1, declare).await.map(drop)
    }
    let checks = vec![
        made_up("x/passes", declare),
        made_up("x/fails", async |cx| {
            declare(cx).await?;
            Err(Failure::new("something", "something else"))
        }),
        made_up("x/panics", async |cx| {
            declare(cx).await?;
            panic!("a fault of the check")
        }),
    ];
    let results = run(checks, &target, None).await;
    assert_eq!(results[0].verdict, Verdict::Passed, "{:?}", results[0]);
    let vhost = target.to_string();
    let vhost = vhost
        .rsplit(' ')
        .next()
        .expect("the virtual host comes last");
    for command in ["list_queues", "list_exchanges"] {
        let names = broker.ctl(&["-q", command, "-p", vhost, "name"]).await;
        assert!(!names.contains("amqp-conformance"), "{command}: {names}");
    }
}

#[tokio::test]
async fn verdicts_of_a_profile() {
    let (_, target) = shared().await;
    let fails = || async |_: &mut amqp_conformance::Context| Err(Failure::new("a", "b"));
    let checks = || {
        vec![
            made_up("x/deviates-as-known", fails()),
            made_up("x/deviates-otherwise", fails()),
            made_up("x/passes-after-all", async |_| Ok(())),
            check("x/should")
                .should(Spec("none"), "made up")
                .run(fails()),
            made_up("x/observed", async |cx| {
                cx.observe("this");
                Ok(())
            }),
            made_up("x/unimplemented", async |_| {
                Err(Failure::unimplemented("a", "b"))
            }),
            made_up("x/not-strict", async |_| {
                Err(Failure::new("a", "b").not_strict())
            }),
        ]
    };
    let profile = r#"
        broker = "made up"
        [[deviation]]
        check = "x/deviates-as-known"
        instead = ["c", "b"]
        reason = "r"
        [[deviation]]
        check = "x/deviates-otherwise"
        instead = "c"
        reason = "r"
        [[deviation]]
        check = "x/passes-after-all"
        instead = "b"
        reason = "r"
    "#;
    let profile = Profile::parse("p", profile, &checks()).expect("a profile");
    let results = run(checks(), &target, Some(&profile)).await;
    let verdicts: Vec<Verdict> = results.iter().map(|it| it.verdict).collect();
    let expected = [
        (Verdict::Deviation, false, false),
        (Verdict::StaleDeviation, true, true),
        (Verdict::StaleDeviation, true, true),
        (Verdict::NonStrict, false, true),
        (Verdict::Informational, false, false),
        (Verdict::Unimplemented, false, true),
        (Verdict::NonStrict, false, true),
    ];
    assert_eq!(verdicts, expected.map(|(verdict, ..)| verdict));
    for (verdict, usually, strictly) in expected {
        assert_eq!(
            (verdict.fails(false), verdict.fails(true)),
            (usually, strictly),
            "{verdict}"
        );
    }
}

#[tokio::test]
async fn a_refusal_with_540_is_unimplemented() {
    let (_, target) = shared().await;
    let flow = made_up("x/flow", async |cx| {
        let mut client = cx.open_channel().await?;
        let flow = channel::Flow::default();
        client.call::<channel::FlowOk>(1, flow).await.map(drop)
    });
    let results = run(vec![flow], &target, None).await;
    let found = Some("connection.close 540");
    assert_eq!(
        verdicts(&results),
        [("x/flow", Verdict::Unimplemented, found)]
    );
}

/// How connections and channels ended is told apart from whether the check passed.
#[tokio::test]
async fn endings() {
    let (broker, target) = shared().await;
    let missing = async |cx: &mut amqp_conformance::Context, code| {
        let mut client = cx.open_channel().await?;
        client.publish(1, "no such exchange", "", "").await?;
        client.expect_channel_error(1, code).await.map(drop)
    };
    let checks = vec![
        made_up("x/right-code", async move |cx| {
            missing(cx, ReplyCode::NOT_FOUND).await
        }),
        made_up("x/wrong-code", async move |cx| {
            missing(cx, ReplyCode::ACCESS_REFUSED).await
        }),
        made_up("x/connection-error", async |cx| {
            let mut client = cx.open_channel().await?;
            client.send(1, channel::Open::default()).await?;
            client
                .expect_connection_error(ReplyCode::CHANNEL_ERROR)
                .await
                .map(drop)
        }),
        made_up("x/closed-by-the-check", async |cx| {
            let mut client = cx.open_channel().await?;
            client.close_channel(1).await?;
            client.close().await
        }),
        made_up("x/end-called-for", async |cx| {
            let mut client = cx.connect().await?;
            client.send_bytes(b"AMQP\x00\x09\x09\x09").await?;
            client.next().await;
            client.expect_end().await
        }),
    ];
    let results = run(checks, &target, None).await;
    let endings = |result: &CheckResult| -> Vec<String> {
        result.endings.iter().map(ToString::to_string).collect()
    };
    let expected: [&[&str]; 5] = [
        &[
            "connection 1 channel 1: right code 404",
            "connection 1: as asked",
        ],
        &[
            "connection 1 channel 1: wrong code 404",
            "connection 1: as asked",
        ],
        &["connection 1: right code 504"],
        &["connection 1 channel 1: as asked", "connection 1: as asked"],
        &["connection 1: as asked"],
    ];
    for (result, expected) in results.iter().zip(expected) {
        assert_eq!(endings(result), expected, "{}", result.check);
    }

    // The connection is cut in the middle of what the check expects.
    let proxy = Proxy::start(broker.address()).await;
    let cut = Faults::default().cut_at(2_000, proxy::Ending::Close);
    proxy.plan(Plan {
        to_client: cut,
        ..Plan::default()
    });
    let behind = Target::parse(&format!("amqp://{}", proxy.address())).expect("a URI");
    let barriers = made_up("x/cut", async |cx| {
        let mut client = cx.open_channel().await?;
        loop {
            client.barrier(1).await?;
        }
    });
    let results = run(vec![barriers], &behind, None).await;
    assert_eq!(
        verdicts(&results),
        [("x/cut", Verdict::Failed, Some("end of stream"))]
    );
    assert_eq!(endings(&results[0]), ["connection 1: unclean"]);
}

/// Chopped, a message goes out in pieces; whole, in one.
#[tokio::test]
async fn chopped_bytes_are_sent_one_by_one() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let target = Target::parse(&format!("amqp://{address}")).expect("a URI");
    let reads = tokio::spawn(async move {
        let mut reads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut count = 0;
            while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {
                count += 1;
            }
            reads.push(count);
        }
        reads
    });
    let sends = made_up("x/sends", async |cx| {
        let mut client = cx.connect().await?;
        client.send_bytes(&[0; 40]).await
    });
    let options = Options {
        chop: true,
        jobs: 1,
        ..Options::default()
    };
    let results = runner::run(vec![Rc::new(sends)], &target, None, &options, |_| {}).await;
    assert_eq!(
        results.iter().map(|it| it.chopped).collect::<Vec<_>>(),
        [false, true]
    );
    let reads = reads.await.expect("the server ends");
    assert_eq!(reads[0], 1);
    // The kernel may put some of them together again.
    assert!(reads[1] > 10, "{} reads of 40 bytes", reads[1]);
}

/// Heartbeats are no surprise to a check, and what the broker says on another channel waits for its turn.
#[tokio::test]
async fn frames_of_other_channels_wait() {
    let (_, target) = shared().await;
    let waits = made_up("x/waits", async |cx| {
        let mut client = cx.open_channel().await?;
        client.send(2, channel::Open::default()).await?;
        client.barrier(1).await?;
        let event = client.next().await;
        ensure_eq(
            "method",
            &event.method().map(|it| it.id()),
            &Some(MethodId::CHANNEL_OPEN_OK),
        )
    });
    let results = run(vec![waits], &target, None).await;
    assert_eq!(verdicts(&results), [("x/waits", Verdict::Passed, None)]);
}
