//! What a run has found, for people and for programs.

mod text;

use serde::{Deserialize, Serialize};

use crate::check::Level;
use crate::ending::Ended;
use crate::verdict::Verdict;

pub use text::{failure, table};

/// What became of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Its place among the checks.
    #[serde(skip)]
    pub order: usize,
    /// Its name.
    pub check: String,
    /// Whether its bytes were sent one by one.
    pub chopped: bool,
    /// How much the rule binds.
    pub level: Level,
    /// Where the rule is from.
    pub source: String,
    /// The rule.
    pub rule: String,
    /// What it counts as.
    pub verdict: Verdict,
    /// What should have come, unless it did.
    pub expected: Option<String>,
    /// What came instead, in short.
    pub found: Option<String>,
    /// What came instead, at length.
    pub detail: Option<String>,
    /// What the broker does where the specification is silent.
    pub observed: Option<String>,
    /// Of a known deviation: the profile's reason.
    pub reason: Option<String>,
    /// Of a known deviation: what the profile says the broker does instead.
    pub instead: Option<Vec<String>>,
    /// How its connections and channels ended.
    pub endings: Vec<Ended>,
    /// How long it took.
    pub seconds: f64,
    /// What was sent and received.
    pub transcript: String,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What the broker calls itself: product and version.
    pub broker: String,
    /// Where it is, without the password.
    pub target: String,
    /// The profile it was held against.
    pub profile: Option<String>,
    /// Whether SHOULDs count.
    pub strict: bool,
    /// How long the run took.
    pub seconds: f64,
    /// What became of each check.
    pub results: Vec<CheckResult>,
}

impl Report {
    /// How many checks have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let has = |result: &&CheckResult| result.verdict == verdict;
        self.results.iter().filter(has).count()
    }

    /// The results that make the run fail.
    pub fn failures(&self) -> impl Iterator<Item = &CheckResult> {
        let strict = self.strict;
        self.results
            .iter()
            .filter(move |result| result.verdict.fails(strict))
    }
}
