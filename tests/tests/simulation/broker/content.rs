//! Bodies that say who they are: a number, and bytes that follow from it.

/// The body of the message with this number, of so many bytes; 8 at least.
pub(crate) fn body(id: u64, len: usize) -> Vec<u8> {
    let filler = (0..len.saturating_sub(8)).map(|at| filler(id, at));
    id.to_be_bytes().into_iter().chain(filler).collect()
}

/// The number of the message, if the body is whole.
pub(crate) fn number_of(body: &[u8]) -> Result<u64, String> {
    let Some((id, rest)) = body.split_first_chunk::<8>() else {
        return Err(format!("a body of {} bytes", body.len()));
    };
    let id = u64::from_be_bytes(*id);
    match rest
        .iter()
        .enumerate()
        .find(|(at, byte)| **byte != filler(id, *at))
    {
        None => Ok(id),
        Some((at, _)) => Err(format!(
            "the body of message {id} is wrong at byte {}",
            at + 8
        )),
    }
}

/// Whether there is no queue for a message with this number under this key. What is sent to nowhere finds one now and
/// then: not all that could come back does.
pub(crate) fn finds_no_queue(routing_key: &[u8], id: Option<u64>) -> bool {
    routing_key == b"nowhere" && !id.is_some_and(|id| id.is_multiple_of(8))
}

fn filler(id: u64, at: usize) -> u8 {
    (id as u8).wrapping_mul(31).wrapping_add(at as u8) ^ (at >> 8) as u8
}
