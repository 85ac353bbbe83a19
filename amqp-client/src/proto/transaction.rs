//! The transaction that is open on a channel.

use crate::message::Message;
use crate::outcome::Returned;

/// What belongs to the open transaction, and what waits for the answer to a commit or rollback of it.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// What came back since the last commit or rollback.
    returned: Vec<Returned>,
    /// What may still come back: so many mandatory messages, with so many bytes of bodies in all.
    returnable: usize,
    returnable_bytes: usize,
    /// Deliveries that were settled in it: a rollback makes them outstanding again.
    settled: Vec<u64>,
    /// A commit or rollback is on the wire.
    ending: Option<Ending>,
}

#[derive(Debug, Default)]
struct Ending {
    /// The deliveries that were settled in the transaction that ends.
    settled: Vec<u64>,
    /// Frames that wait for the answer: RabbitMQ ends the connection for any it gets before.
    held: Vec<u8>,
    /// How many bytes of them answer what the server said.
    answers: usize,
}

/// A transaction that is over.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) returned: Vec<Returned>,
    pub(super) settled: Vec<u64>,
    /// What was held back and is to be sent now.
    pub(super) held: Vec<u8>,
}

impl Transaction {
    pub(super) fn published(&mut self, message: &Message) {
        if message.is_mandatory() {
            self.returnable = self.returnable.saturating_add(1);
            self.returnable_bytes = self.returnable_bytes.saturating_add(message.body().len());
        }
    }

    /// Keeps what came back for the end of the transaction; gives it back if it is none of what was published in it.
    pub(super) fn returned(&mut self, returned: Returned) -> Option<Returned> {
        let len = returned.publication.message.body().len();
        let (Some(returnable), Some(bytes)) = (
            self.returnable.checked_sub(1),
            self.returnable_bytes.checked_sub(len),
        ) else {
            return Some(returned);
        };
        (self.returnable, self.returnable_bytes) = (returnable, bytes);
        self.returned.push(returned);
        None
    }

    pub(super) fn settled(&mut self, delivery: u64) {
        self.settled.push(delivery);
    }

    /// Where frames wait while a commit or rollback is unanswered.
    pub(super) fn held(&mut self) -> Option<&mut Vec<u8>> {
        self.ending.as_mut().map(|ending| &mut ending.held)
    }

    /// So many bytes were sent to answer the server. How many of such wait by now.
    pub(super) fn answered(&mut self, len: usize) -> usize {
        self.ending.as_mut().map_or(0, |ending| {
            ending.answers = ending.answers.saturating_add(len);
            ending.answers
        })
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Commit or rollback has been sent. What is settled from now on belongs to the next transaction.
    pub(super) fn start_end(&mut self) {
        self.ending = Some(Ending {
            settled: std::mem::take(&mut self.settled),
            held: Vec::new(),
            answers: 0,
        });
    }

    /// Commit or rollback is answered.
    pub(super) fn end(&mut self) -> Ended {
        let Ending { settled, held, .. } = self.ending.take().unwrap_or_default();
        (self.returnable, self.returnable_bytes) = (0, 0);
        Ended {
            returned: std::mem::take(&mut self.returned),
            settled,
            held,
        }
    }
}
