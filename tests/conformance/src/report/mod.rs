//! What a run has found, for people and for programs.

mod document;
mod html;
mod junit;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::Level;
use crate::ending::{Ended, Ending};
use crate::verdict::Verdict;

pub use document::{document, summary};
pub use html::matrix;
pub use junit::junit;
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

impl CheckResult {
    /// The part of the check's name before the slash.
    pub fn group(&self) -> &str {
        self.check.split('/').next().unwrap_or(&self.check)
    }

    /// The check's name, and whether its bytes were sent one by one.
    pub fn label(&self) -> String {
        match self.chopped {
            true => format!("{} (chopped)", self.check),
            false => self.check.clone(),
        }
    }

    /// What was found, in a line; empty for a check that passed.
    pub fn summary(&self) -> String {
        let found = self.found.as_ref().or(self.observed.as_ref());
        let mut line = match (&self.expected, found) {
            (Some(expected), Some(found)) => format!("expected {expected}, found {found}"),
            (_, found) => found.cloned().unwrap_or_default(),
        };
        if let Some(reason) = &self.reason {
            line.push_str(&format!(" ({reason})"));
        }
        line
    }
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

    /// The checks that were not run; what is found says why.
    pub fn not_run(&self) -> impl Iterator<Item = &CheckResult> {
        let results = self.results.iter();
        results.filter(|result| result.verdict == Verdict::NotRun)
    }

    /// The groups, in the order of the checks.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups = Vec::new();
        for result in &self.results {
            if !groups.contains(&result.group()) {
                groups.push(result.group());
            }
        }
        groups
    }

    /// How the connections and channels of all checks ended, by kind: `40 as asked, 12 right code`.
    pub fn closings(&self) -> String {
        let mut kinds: BTreeMap<usize, (&str, usize)> = BTreeMap::new();
        for ended in self.results.iter().flat_map(|result| &result.endings) {
            let (at, name) = match ended.ending {
                Ending::AsAsked => (0, "as asked"),
                Ending::RightCode(_) => (1, "right code"),
                Ending::WrongCode(_) => (2, "wrong code"),
                Ending::Unclean => (3, "unclean"),
                Ending::Reset => (4, "reset"),
                Ending::NotEnded => (5, "not ended"),
            };
            kinds.entry(at).or_insert((name, 0)).1 += 1;
        }
        let kinds: Vec<String> = kinds
            .into_values()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        kinds.join(", ")
    }
}
