//! What several rounds say.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The median of some values, the least and the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of one value or more.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Some(Spread {
            median: *values.get(values.len() / 2)?,
            min: *values.first()?,
            max: *values.last()?,
        })
    }

    /// Of the ratios of values that were measured in the same round.
    pub(super) fn of_pairs(above: &[f64], below: &[f64]) -> Option<Spread> {
        Spread::of(above.iter().zip(below).map(|(above, below)| above / below))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, min, max] = [self.median, self.min, self.max].map(short);
        write!(f, "{median} ({min}..{max})")
    }
}

/// A number with three digits that say something.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        ..0.01 => format!("{value:.4}"),
        ..1.0 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_middle_and_the_ends() {
        let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (3.0, 1.0, 5.0));
        assert_eq!(spread.to_string(), "3.00 (1.00..5.00)");
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn ratios_are_those_of_a_round() {
        let spread = Spread::of_pairs(&[10.0, 40.0, 90.0], &[10.0, 20.0, 30.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
    }
}
