//! Cases that are programs rather than data.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use super::memory::Memory;

/// How long one takes at most by the clock on the wall, on a machine that has other things to do.
const SOON: Duration = Duration::from_secs(10);

/// A case that is a program.
pub(crate) struct Play {
    pub(crate) name: &'static str,
    /// How many bytes more than before may be in use at any time.
    pub(crate) memory: usize,
    pub(crate) run: fn() -> Pin<Box<dyn Future<Output = ()>>>,
}

/// One of them: `play!("group", function)`, or with how much memory it takes.
macro_rules! play {
    ($group:literal, $function:ident, $memory:expr) => {
        $crate::play::Play {
            name: concat!($group, "/", stringify!($function)),
            memory: $memory,
            run: || Box::pin($function()),
        }
    };
    ($group:literal, $function:ident) => {
        play!($group, $function, 1 << 20)
    };
}

pub(crate) use play;

pub(crate) async fn run(play: Play) {
    let memory = Memory::begin(play.memory);
    let began = Instant::now();
    (play.run)().await;
    memory.end(play.name);
    let took = began.elapsed();
    assert!(took < SOON, "{}: it took {took:?}", play.name);
}
