//! The harness's own tests: private nodes.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use amqp_tests::{Broker, Version};

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

async fn starts(version: Version) {
    let started = Instant::now();
    let broker = Broker::start(version).await;
    println!("{version}: {} ms", started.elapsed().as_millis());
    let vsn = broker
        .eval("{ok, V} = application:get_key(rabbit, vsn), V")
        .await;
    assert!(vsn.starts_with(&format!("\"{version}.")), "{vsn}");
    let (pid, directory) = (broker.pid(), broker.directory().to_owned());
    assert!(alive(pid) && directory.exists());
    drop(broker);
    assert!(!alive(pid), "the node outlived its handle");
    assert!(!directory.exists(), "its directory did");
}

#[tokio::test]
async fn node_starts_and_ends_with_its_handle_3_10() {
    starts(Version::V3_10).await;
}

#[tokio::test]
async fn node_starts_and_ends_with_its_handle_4_0() {
    starts(Version::V4_0).await;
}
