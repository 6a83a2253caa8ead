// SPDX-License-Identifier: Apache-2.0
//! Medians, and how far the rounds lie apart.

use serde::Serialize;

/// The middle of some rounds, and their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the rounds were below.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Returns the spread of these values, in any order.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let count = sorted.len();
        Self {
            median: f64::midpoint(at(count.saturating_sub(1) / 2), at(count / 2)),
            least: at(0),
            most: at(count.saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_is_the_middle_one_or_between_two() {
        let of = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(of(&[]), Spread::default());
        let ends = |median, least, most| Spread {
            median,
            least,
            most,
        };
        assert_eq!(of(&[5.0]), ends(5.0, 5.0, 5.0));
        assert_eq!(of(&[9.0, 1.0, 2.0]), ends(2.0, 1.0, 9.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 9.0]), ends(3.0, 1.0, 9.0));
    }
}
