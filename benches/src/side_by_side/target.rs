//! What is to be reached, and whether it is.

use serde::{Deserialize, Serialize};

use super::spread::short;

/// A target, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The work.
    pub work: String,
    /// What of it is measured.
    pub what: String,
    /// The bound, in words.
    pub bound: String,
    /// What came out.
    pub measured: f64,
    /// Whether that is within the bound.
    pub reached: bool,
}

impl Target {
    /// Nothing above `limit` will do.
    pub(super) fn at_most(work: &str, what: &str, limit: f64, measured: f64) -> Target {
        Target {
            work: work.into(),
            what: what.into(),
            bound: format!("at most {}", short(limit)),
            measured,
            reached: measured <= limit,
        }
    }

    /// Nothing below `limit` will do.
    pub(super) fn at_least(work: &str, what: &str, limit: f64, measured: f64) -> Target {
        Target {
            work: work.into(),
            what: what.into(),
            bound: format!("at least {}", short(limit)),
            measured,
            reached: measured >= limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn a_bound_itself_is_reached() {
        for (measured, at_most, at_least) in
            [(1.0, true, false), (2.0, true, true), (2.1, false, true)]
        {
            assert_eq!(Target::at_most("", "", 2.0, measured).reached, at_most);
            assert_eq!(Target::at_least("", "", 2.0, measured).reached, at_least);
        }
    }
}
