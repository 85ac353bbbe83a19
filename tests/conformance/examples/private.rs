//! The suite against private RabbitMQ nodes, each with its profile: `private 3.10 4.0 -- ARGUMENT...`, where the
//! arguments are those of amqp-conformance. `scripts/conformance` runs it.

#[path = "../tests/common/operator.rs"]
mod operator;

use std::process::ExitCode;
use std::sync::Arc;

use amqp_conformance::cli::{self, Arguments};
use amqp_tests::{Broker, Version};
use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let split = arguments.iter().position(|it| it == "--");
    let (versions, options) = arguments.split_at(split.unwrap_or(arguments.len()));
    let mut code = ExitCode::SUCCESS;
    for version in versions {
        let Some(node) = node(version) else {
            eprintln!("RabbitMQ {version} is not known here: 3.10, 4.0, 4.3");
            return ExitCode::from(2);
        };
        let broker = Arc::new(Broker::start(node).await);
        let mut line = vec![
            "amqp-conformance".to_owned(),
            "--url".to_owned(),
            broker.uri(),
        ];
        line.extend([
            "--hurt".to_owned(),
            "--profile".to_owned(),
            format!("rabbitmq-{version}"),
        ]);
        line.extend(options.iter().skip(1).cloned());
        let operator = operator::operator(Arc::clone(&broker));
        let arguments = Arguments::parse_from(line);
        let ran = cli::main(arguments, Some(operator), &mut std::io::stdout()).await;
        if ran != ExitCode::SUCCESS {
            code = ran;
        }
    }
    code
}

fn node(version: &str) -> Option<Version> {
    let all = [Version::V3_10, Version::V4_0, Version::V4_3];
    all.into_iter().find(|it| it.to_string() == version)
}
