// SPDX-License-Identifier: Apache-2.0
//! A number that is known in part: machines and data differ, and a log does not show all.

/// From the least to the most, and what is likely.
#[derive(Debug, Default, Clone, Copy, PartialEq, serde::Serialize)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) likely: f64,
    pub(super) high: f64,
}

impl Range {
    /// Takes the middle for likely.
    pub(super) const fn new(low: f64, high: f64) -> Self {
        Self::between(low, f64::midpoint(low, high), high)
    }

    pub(super) const fn between(low: f64, likely: f64, high: f64) -> Self {
        Self { low, likely, high }
    }

    fn each(self, of: impl Fn(f64) -> f64) -> Self {
        Self::between(of(self.low), of(self.likely), of(self.high))
    }

    fn both(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self::between(
            of(self.low, other.low),
            of(self.likely, other.likely),
            of(self.high, other.high),
        )
    }

    pub(super) fn times(self, factor: f64) -> Self {
        self.each(|value| value * factor)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.both(other, |one, other| one + other)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self::between(
            self.low - other.high,
            self.likely - other.likely,
            self.high - other.low,
        )
    }

    pub(super) fn at_most(self, limit: f64) -> Self {
        self.each(|value| value.min(limit))
    }

    pub(super) fn at_least(self, limit: f64) -> Self {
        self.each(|value| value.max(limit))
    }

    /// Returns the less of two numbers.
    pub(super) fn or_less(self, other: Self) -> Self {
        self.both(other, f64::min)
    }

    /// Returns the range that holds both. This one has the likely value.
    pub(super) fn or(self, other: Self) -> Self {
        Self::between(
            self.low.min(other.low),
            self.likely,
            self.high.max(other.high),
        )
    }

    /// Returns the product of two numbers, of which each may be negative.
    pub(super) fn by(self, other: Self) -> Self {
        let ends = [
            self.low * other.low,
            self.low * other.high,
            self.high * other.low,
            self.high * other.high,
        ];
        Self::between(
            ends.into_iter().fold(f64::INFINITY, f64::min),
            self.likely * other.likely,
            ends.into_iter().fold(f64::NEG_INFINITY, f64::max),
        )
    }
}
