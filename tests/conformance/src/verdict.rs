//! What a check's outcome counts as.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::check::{Check, Level};
use crate::failure::{Failure, FailureKind};
use crate::profile::Deviation;

/// What a check's outcome counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As the rule says.
    Passed,
    /// The specification is silent, and this is what the broker does.
    Informational,
    /// A known deviation: the profile says what the broker does instead, and why.
    Deviation,
    /// The broker says that it does not do this.
    Unimplemented,
    /// A SHOULD is not kept.
    NonStrict,
    /// Nothing is known: the broker went away before, or the user asked for the end.
    NotRun,
    /// A rule is broken.
    Failed,
    /// The profile knows a deviation, but the broker passes, or deviates in another way.
    StaleDeviation,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Self; 8] = [
        Self::Passed,
        Self::Informational,
        Self::Deviation,
        Self::Unimplemented,
        Self::NonStrict,
        Self::NotRun,
        Self::Failed,
        Self::StaleDeviation,
    ];

    /// Whether it makes the run fail.
    pub fn fails(self, strict: bool) -> bool {
        match self {
            Self::Passed | Self::Informational | Self::Deviation => false,
            Self::Unimplemented | Self::NonStrict => strict,
            Self::NotRun | Self::Failed | Self::StaleDeviation => true,
        }
    }

    /// What it is that a check failed in this way, or did not fail. `observed` is what the check told where the specification is silent.
    pub fn of(
        check: &Check,
        failure: Option<&Failure>,
        observed: bool,
        deviation: Option<&Deviation>,
    ) -> Self {
        match (failure, deviation) {
            (Some(failure), Some(deviation)) if deviation.covers(&failure.found) => Self::Deviation,
            (_, Some(_)) => Self::StaleDeviation,
            (None, None) if observed => Self::Informational,
            (None, None) => Self::Passed,
            (Some(failure), None) => match (failure.kind, check.level) {
                (FailureKind::Unimplemented, _) => Self::Unimplemented,
                (FailureKind::NotStrict, _) | (FailureKind::Broken, Level::Should) => {
                    Self::NonStrict
                }
                (FailureKind::Broken, Level::Must | Level::RabbitMq | Level::Silent) => {
                    Self::Failed
                }
            },
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Informational => "informational",
            Self::Deviation => "deviation",
            Self::Unimplemented => "unimplemented",
            Self::NonStrict => "non-strict",
            Self::NotRun => "not run",
            Self::Failed => "failed",
            Self::StaleDeviation => "stale deviation",
        })
    }
}
