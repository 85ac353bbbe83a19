//! Why a check did not pass.

use std::fmt;

use amqp_codec::{EncodeError, TooLong};

use crate::event::Event;

/// What was expected, and what came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}{}", .detail.as_ref().map(|it| format!(": {it}")).unwrap_or_default())]
pub struct Failure {
    /// What counts this as.
    pub kind: FailureKind,
    /// What should have come, for people.
    pub expected: String,
    /// What came instead, short and the same in each run: profiles compare it.
    pub found: String,
    /// What came instead, with all there is to know about it.
    pub detail: Option<String>,
}

/// What a failure counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The rule is broken.
    Broken,
    /// The rule is kept, but not in the way that the specification prefers.
    NotStrict,
    /// The broker says that it does not do this.
    Unimplemented,
}

impl Failure {
    /// A broken rule. `found` must not contain what differs from run to run: names, times, addresses.
    pub fn new(expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self {
            kind: FailureKind::Broken,
            expected: expected.to_string(),
            found: found.to_string(),
            detail: None,
        }
    }

    /// This came, and something else was expected. A refusal with 540 counts as unimplemented.
    pub fn unexpected(expected: impl fmt::Display, event: &Event) -> Self {
        let found = event.found();
        let kind = match found.as_str() {
            "connection.close 540" | "channel.close 540" => FailureKind::Unimplemented,
            _ => FailureKind::Broken,
        };
        Self {
            kind,
            expected: expected.to_string(),
            detail: Some(event.to_string()).filter(|it| *it != found),
            found,
        }
    }

    /// The broker does not offer what the check is about.
    pub fn unimplemented(expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self {
            kind: FailureKind::Unimplemented,
            ..Self::new(expected, found)
        }
    }

    /// The rule is kept, but not in the way that the specification prefers.
    #[must_use]
    pub fn not_strict(self) -> Self {
        Self {
            kind: FailureKind::NotStrict,
            ..self
        }
    }

    /// Adds what a person wants to know besides.
    #[must_use]
    pub fn detail(self, detail: impl fmt::Display) -> Self {
        Self {
            detail: Some(detail.to_string()),
            ..self
        }
    }
}

/// A check that sends what cannot be encoded is wrong itself.
impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Self {
        Self::new("a frame that can be encoded", error)
    }
}

impl From<TooLong> for Failure {
    fn from(error: TooLong) -> Self {
        Self::new("a short string", error)
    }
}

/// Fails unless `condition` holds.
///
/// # Errors
/// It does not.
pub fn ensure(
    condition: bool,
    expected: impl fmt::Display,
    found: impl fmt::Display,
) -> Result<(), Failure> {
    match condition {
        true => Ok(()),
        false => Err(Failure::new(expected, found)),
    }
}

/// Fails unless both are equal; `found` becomes `WHAT FOUND`: `message count 3`.
///
/// # Errors
/// They differ.
pub fn ensure_eq<T: PartialEq<U> + fmt::Debug, U: fmt::Debug>(
    what: &str,
    found: &T,
    expected: &U,
) -> Result<(), Failure> {
    ensure(
        found == expected,
        format_args!("{what} {expected:?}"),
        format_args!("{what} {found:?}"),
    )
}
