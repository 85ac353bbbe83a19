//! Confirmed publishing over TLS, against plaintext and against lapin.

use amqp_tests::broker::Certificates;

use super::{AMQP_CLIENT, Job, LAPIN, LAPIN_FUTURES};
use crate::load::{Failure, Work};
use crate::measure::BrokerProcess;
use crate::side_by_side::Context;
use crate::side_by_side::contest::Contest;
use crate::side_by_side::results::Measured;

const WORK: &str = "confirmed publish, 1 KiB";

pub(super) fn run(context: &Context) -> Result<Measured, Failure> {
    let certificates = Certificates::generate();
    let node = certificates.node(false);
    let plain = context.programs.null_broker(1)?;
    let certificate = node.certificate.display().to_string();
    let args = [
        "--certificate",
        &certificate,
        "--key",
        &node.key.display().to_string(),
    ];
    let program = context.programs.path("null-broker");
    let broker = BrokerProcess::start_with(&program, 1, &args)?;
    let mut job = Job::new(
        Work::Confirmed,
        broker.address(),
        1 << 10,
        context.count(200_000),
    );
    let without = Job {
        address: plain.address(),
        ..job.clone()
    };
    job.args = vec!["--ca".into(), node.ca.display().to_string()];
    let mut entries = job.entries(context, &[AMQP_CLIENT, LAPIN_FUTURES, LAPIN]);
    for mut entry in without.entries(context, &[AMQP_CLIENT, LAPIN_FUTURES]) {
        entry.name.push_str(", plaintext");
        entries.push(entry);
    }
    let contest = Contest {
        work: WORK.into(),
        entries,
        counted: Some(2_000),
    };
    let rows = contest.hold(context)?;
    let mut measured = Measured {
        rows,
        ..Measured::default()
    };
    let plaintext = measured.row(WORK, "amqp-client, plaintext")?.cpu_ratio;
    let plaintext = plaintext.ok_or("a row without a ratio")?;
    measured.notes.push(format!(
        "TLS 1.3, rustls with ring on both sides of both clients. Over TLS a message costs us {:.2} times what it costs \
         in plaintext; most of the difference is the cipher's.",
        1.0 / plaintext.median
    ));
    Ok(measured)
}
