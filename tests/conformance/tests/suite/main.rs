//! The suite against private RabbitMQ nodes.

mod brokers;
mod support;
