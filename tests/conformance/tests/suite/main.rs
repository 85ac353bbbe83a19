//! The suite against private RabbitMQ nodes, and the program against what is none.

mod brokers;
mod documents;
#[path = "../common/operator.rs"]
mod operator;
mod program;
mod repeated;
mod runner;
mod support;
mod targets;
