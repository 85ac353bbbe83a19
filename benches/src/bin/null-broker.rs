//! Runs a null broker on a free port of 127.0.0.1 and prints the port.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::io::{self, Read};
use std::path::PathBuf;
use std::thread;

use amqp_benches::null_broker::{Config, NullBroker, Plan, tls};
use clap::Parser;

/// A broker that keeps nothing, acks everything and delivers made-up messages.
#[derive(Parser)]
struct Options {
    /// Publishes per ack; more than one are acked with `multiple`.
    #[arg(long, default_value_t = 1)]
    ack_every: u64,
    /// Messages for a consumer of a queue whose name is not `deliver:COUNT:SIZE`.
    #[arg(long, default_value_t = 0)]
    deliver_count: u64,
    /// Octets of each of them.
    #[arg(long, default_value_t = 16)]
    deliver_size: usize,
    /// Never ack the first publish of a channel.
    #[arg(long)]
    hold_first: bool,
    /// Speak TLS, with the certificate in this PEM file.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// The PEM file with its key.
    #[arg(long)]
    key: Option<PathBuf>,
    /// End when standard input ends, as it does when the parent is gone.
    #[arg(long)]
    until_stdin_ends: bool,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let plan = Plan {
        count: options.deliver_count,
        size: options.deliver_size,
    };
    let broker = NullBroker::start(Config {
        ack_every: options.ack_every,
        hold_first: options.hold_first,
        plan,
    })?;
    let address = match options.certificate.zip(options.key) {
        Some((certificate, key)) => tls::in_front_of(broker.address(), &certificate, &key)?,
        None => broker.address(),
    };
    println!("{}", address.port());
    if options.until_stdin_ends {
        let mut rest = Vec::new();
        io::stdin().read_to_end(&mut rest)?;
        return Ok(());
    }
    loop {
        thread::park();
    }
}
