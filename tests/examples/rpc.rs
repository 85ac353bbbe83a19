//! Questions and answers over RabbitMQ's direct reply-to: a server that squares numbers, and a client that asks it many
//! things at once, both at a private node. The replies come straight to the channel that asked; no queue is declared
//! for them.

#![allow(clippy::print_stdout, reason = "printing is what this example is for")]

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use amqp_client::{
    Channel, ConfirmChannel, Connection, Consume, Consumer, DIRECT_REPLY_TO, Delivery, Message,
    Outcome, QueueDeclare,
};
use amqp_tests::broker::{Broker, Version};
use tokio::time::timeout;

/// Where questions go.
const SQUARES: &str = "rpc.square";

/// How long an answer may take; a question that nobody has taken up by then goes, too.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = Broker::start(Version::V4_0).await;
    let server = Connection::open(broker.uri()).await?;
    let channel = server.open_channel().await?;
    channel.queue_declare(QueueDeclare::new(SQUARES)).await?;
    let serving = tokio::spawn(async move {
        if let Err(error) = serve(channel).await {
            println!("the server has stopped: {error}");
        }
    });

    let connection = Connection::open(broker.uri()).await?;
    let mut client = Client::new(&connection).await?;
    let questions: Vec<String> = ["2", "12", "1000", "many"].map(String::from).into();
    for (question, answer) in client.ask(&questions).await? {
        println!("{question} squared is {answer}");
    }
    connection.close().await?;
    serving.abort();
    server.close().await?;
    Ok(())
}

/// Answers what is asked, until the channel ends.
async fn serve(channel: Channel) -> Result<(), Box<dyn Error + Send + Sync>> {
    channel.qos(10, false).await?;
    let mut questions = channel.consume(Consume::new(SQUARES)).await?;
    while let Some(question) = questions.next().await {
        let question = question?;
        answer(&channel, &question).await?;
        // Only now: should this process die, another one answers.
        question.ack()?;
    }
    Ok(())
}

async fn answer(
    channel: &Channel,
    question: &Delivery,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let asked = question.properties();
    let (Some(reply_to), Some(id)) = (asked.reply_to, asked.correlation_id) else {
        return Ok(()); // It does not say where to.
    };
    let number = std::str::from_utf8(question.body()).map(str::parse::<u64>);
    let answer = match number {
        Ok(Ok(number)) => (u128::from(number).pow(2)).to_string(),
        Ok(Err(_)) | Err(_) => "not a question".to_owned(),
    };
    // To the one channel that asked. It may be gone: nobody waits for the answer then.
    let answer = Message::new(answer).correlation_id(id.into_owned());
    channel.publish("", reply_to.into_owned(), answer).await?;
    Ok(())
}

/// Asks over one channel: replies come to the one that the question was published on.
struct Client {
    channel: ConfirmChannel,
    replies: Consumer,
    asked: u64,
}

impl Client {
    async fn new(connection: &Connection) -> Result<Self, amqp_client::error::Error> {
        let channel = connection.open_channel().await?.confirm_select().await?;
        // Before the first question: the broker refuses one for which nobody consumes.
        let replies = channel.consume(Consume::direct_reply_to()).await?;
        Ok(Client {
            channel,
            replies,
            asked: 0,
        })
    }

    /// Asks everything at once. Answers come in any order; each is told by the id of its question.
    async fn ask(&mut self, questions: &[String]) -> Result<Vec<(String, String)>, Box<dyn Error>> {
        let mut open = HashMap::new();
        for question in questions {
            self.asked += 1;
            let id = format!("question-{}", self.asked);
            let message = Message::new(question.clone())
                .reply_to(DIRECT_REPLY_TO)
                .correlation_id(id.clone())
                .ttl(PATIENCE)
                .mandatory();
            // Anything but an ack: no server's queue, or nobody knows. There would be no answer to wait for.
            match self.channel.publish("", SQUARES, message).await?.await {
                Outcome::Acked => open.insert(id, question.clone()),
                other => return Err(format!("not asked: {other:?}").into()),
            };
        }
        let mut answers = Vec::new();
        while !open.is_empty() {
            let reply = timeout(PATIENCE, self.replies.next()).await?;
            let reply = reply.ok_or("the consumer has ended")??;
            let id = reply.properties().correlation_id.unwrap_or_default();
            // One to a question of before, given up by now, is nobody's.
            if let Some(question) = open.remove(&*id.to_string_lossy()) {
                answers.push((question, String::from_utf8_lossy(reply.body()).into_owned()));
            }
        }
        Ok(answers)
    }
}
