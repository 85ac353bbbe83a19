//! A consumer's thread: writes as many deliveries as its plan and the channel's flow allow.

use std::io::Write;
use std::net::TcpStream;
use std::str;
use std::sync::{Arc, Mutex, PoisonError};

use super::flow::Flow;
use crate::wire::{self, FRAME_OVERHEAD, method};

/// What a consumer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How many messages.
    pub count: u64,
    /// Octets of each body.
    pub size: usize,
}

impl Plan {
    /// Reads `deliver:COUNT:SIZE`.
    pub fn from_queue_name(name: &[u8]) -> Option<Plan> {
        let (count, size) = str::from_utf8(name)
            .ok()?
            .strip_prefix("deliver:")?
            .split_once(':')?;
        Some(Plan {
            count: count.parse().ok()?,
            size: size.parse().ok()?,
        })
    }
}

/// Octets that are written at once, if no single delivery is larger.
const BATCH_LEN: usize = 64 << 10;

pub(super) struct Delivery {
    pub(super) channel: u16,
    pub(super) consumer_tag: Vec<u8>,
    pub(super) no_ack: bool,
    pub(super) plan: Plan,
}

impl Delivery {
    /// Writes until the plan is done, the consumer is stopped or the socket has ended.
    pub(super) fn run(&self, flow: &Flow, stream: &Arc<Mutex<TcpStream>>) {
        let one = self.template();
        let per_batch = (BATCH_LEN / one.len()).max(1) as u64;
        let tag_offset = FRAME_OVERHEAD - 1 + 4 + 1 + self.consumer_tag.len();
        let mut batch = one.repeat(per_batch.min(self.plan.count) as usize);

        let mut left = self.plan.count;
        while left > 0 {
            let Some(count) = flow.reserve(&self.consumer_tag, self.no_ack, left.min(per_batch))
            else {
                return;
            };
            left -= count;
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            let tags = flow.tag(count, self.no_ack);
            for (delivery, tag) in batch.chunks_exact_mut(one.len()).zip(tags) {
                delivery[tag_offset..tag_offset + 8].copy_from_slice(&tag.to_be_bytes());
            }
            if stream
                .write_all(&batch[..count as usize * one.len()])
                .is_err()
            {
                return;
            }
        }
    }

    /// One delivery with its content; the tag is filled in later.
    fn template(&self) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_method(&mut out, self.channel, method::BASIC_DELIVER, |out| {
            wire::put_short(out, &self.consumer_tag);
            out.extend([0; 8]);
            out.push(0);
            wire::put_short(out, b"");
            wire::put_short(out, b"null");
        });
        wire::put_content(&mut out, self.channel, &vec![b'x'; self.plan.size]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn a_queue_name_says_the_plan() {
        let plan = |name: &str| Plan::from_queue_name(name.as_bytes());
        assert_eq!(
            plan("deliver:100000:16"),
            Some(Plan {
                count: 100_000,
                size: 16
            })
        );
        assert_eq!(plan("deliver:1:0"), Some(Plan { count: 1, size: 0 }));
        for name in [
            "",
            "orders",
            "deliver:",
            "deliver:5",
            "deliver:5:",
            "deliver:-1:2",
            "deliver:1:2:3",
        ] {
            assert_eq!(plan(name), None, "{name}");
        }
    }
}
