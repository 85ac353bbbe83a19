//! AMQP 0-9-1 client.
