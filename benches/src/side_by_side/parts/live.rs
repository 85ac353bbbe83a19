//! Confirmed publishing to a RabbitMQ of our own.

use amqp_client::{Connection, QueueDeclare};
use amqp_tests::broker::{Broker, Version};

use super::{
    AMQP_CLIENT, AMQPRS, Client, Job, LAPIN, LAPIN_FUTURES, RABBITMQ_C, SOCKET, lapins_best,
};
use crate::load::{Failure, Work};
use crate::side_by_side::Context;
use crate::side_by_side::contest::Contest;
use crate::side_by_side::results::Measured;
use crate::side_by_side::target::Target;

const WORK: &str = "live RabbitMQ 4.0, confirmed publish, 16 B";
const QUEUE: &str = "benches";

pub(super) fn run(context: &Context) -> Result<Measured, Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let broker = runtime.block_on(async {
        let broker = Broker::start(Version::V4_0).await;
        declare(&broker).await?;
        Ok::<_, Failure>(broker)
    })?;
    let mut job = Job::new(Work::Confirmed, broker.address(), 16, context.count(60_000));
    job.args = vec!["--queue".into(), QUEUE.into()];
    let clients = [
        AMQP_CLIENT,
        SOCKET,
        RABBITMQ_C,
        AMQPRS,
        LAPIN_FUTURES,
        LAPIN,
    ];
    let clients = clients.map(|client| Client {
        percent: 100.min(client.percent * 10),
        ..client
    });
    let contest = Contest {
        work: WORK.into(),
        entries: job.entries(context, &clients),
        counted: None,
    };
    let rows = contest.hold(context)?;
    runtime.block_on(broker.stop());
    let mut measured = Measured {
        rows,
        ..Measured::default()
    };
    let rate = measured.row(WORK, SOCKET.name)?.rate_ratio;
    let amqprs = measured.row(WORK, AMQPRS.name)?.cpu_ratio;
    let (rate, amqprs) = rate.zip(amqprs).ok_or("a row without ratios")?;
    let lapin = lapins_best(&measured, WORK)?;
    measured.targets = vec![
        Target::at_least(WORK, "rate in that of a blocking socket", 0.93, rate.median),
        Target::at_most(WORK, "CPU time in that of amqprs", 0.6, 1.0 / amqprs.median),
        Target::at_most(WORK, "CPU time in that of lapin's best", 0.25, 1.0 / lapin),
    ];
    measured.notes.push(
        "To one classic queue, which keeps a thousand messages; broker and clients share the machine."
            .into(),
    );
    Ok(measured)
}

/// Somewhere for the messages to go that does not fill up.
async fn declare(broker: &Broker) -> Result<(), Failure> {
    let connection = Connection::open(broker.uri().as_str()).await?;
    let channel = connection.open_channel().await?;
    let queue = QueueDeclare::new(QUEUE).max_length(1_000);
    channel.queue_declare(queue).await?;
    Ok(connection.close().await?)
}
