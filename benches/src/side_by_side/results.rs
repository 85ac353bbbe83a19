//! What a part says, as it is written to a file.

use std::process::Command;

use serde::{Deserialize, Serialize};

use super::machine::{self, Machine};
use super::spread::Spread;
use super::target::Target;
use super::{Context, Part};
use crate::load::Failure;

/// What a part says, and of when and where it says so.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// The part.
    pub part: String,
    /// The day.
    pub date: String,
    /// The machine.
    pub machine: Machine,
    /// Names and versions of what was compared.
    pub versions: Vec<(String, String)>,
    /// How often each program ran.
    pub rounds: usize,
    /// What came out.
    #[serde(flatten)]
    pub measured: Measured,
}

/// What came out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Measured {
    /// What each message cost.
    pub rows: Vec<Row>,
    /// What was to be reached.
    pub targets: Vec<Target>,
    /// What is drawn.
    pub plots: Vec<Plot>,
    /// What should be known besides.
    pub notes: Vec<String>,
}

/// What one client's message, or one codec's frame, cost in one work.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Row {
    /// The work.
    pub work: String,
    /// Who did it.
    pub client: String,
    /// Messages a second.
    pub rate: Option<Spread>,
    /// Nanoseconds of processor time for each.
    pub cpu_ns: Option<Spread>,
    /// Its processor time in units of ours, round by round.
    pub cpu_ratio: Option<Spread>,
    /// Our messages a second in units of its, round by round.
    pub rate_ratio: Option<Spread>,
    /// Instructions in user space for each.
    pub instructions: Option<f64>,
    /// Calls of the allocator for each.
    pub allocations: Option<f64>,
    /// System calls for each.
    pub system_calls: Option<f64>,
    /// The most bytes that were resident.
    pub peak_memory: Option<Spread>,
    /// Half of the messages took at most this, in nanoseconds.
    pub p50_ns: Option<Spread>,
    /// All but one in a hundred took at most this, in nanoseconds.
    pub p99_ns: Option<Spread>,
    /// Our p50 in units of its, round by round.
    pub p50_ratio: Option<Spread>,
}

/// Cost against something.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plot {
    /// The name of its file.
    pub file: String,
    /// Its caption.
    pub title: String,
    /// What grows.
    pub x: String,
    /// What it costs.
    pub y: String,
    /// One line each.
    pub lines: Vec<Line>,
}

/// One line of a plot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// What it shows.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Measured {
    /// The row of a client in a work.
    pub(super) fn row(&self, work: &str, client: &str) -> Result<&Row, Failure> {
        self.rows
            .iter()
            .find(|row| row.work == work && row.client == client)
            .ok_or_else(|| format!("nothing was measured of {client} in {work}").into())
    }
}

impl Results {
    pub(super) fn new(
        part: Part,
        context: &Context,
        measured: Measured,
    ) -> Result<Results, Failure> {
        let date = Command::new("date").args(["-u", "+%F"]).output()?.stdout;
        Ok(Results {
            part: part.name(),
            date: String::from_utf8_lossy(&date).trim().into(),
            machine: Machine::this()?,
            versions: machine::versions(context.programs.rabbitmq_c)?,
            rounds: context.rounds,
            measured,
        })
    }
}
