// SPDX-License-Identifier: Apache-2.0
//! The benchmark's sequence of 128-bit numbers: each is the one before, times a constant, plus
//! another.

/// Some steps of the sequence at once.
#[derive(Clone, Copy, Debug)]
struct Leap {
    factor: u128,
    summand: u128,
}

impl Leap {
    const NONE: Self = Self {
        factor: 1,
        summand: 0,
    };

    /// The summand spells "JimGrayRIP".
    const ONE: Self = Self {
        factor: 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645,
        summand: 0x4a69_6d47_7261_7952_4950_2020_2020_2001,
    };

    fn apply(self, state: u128) -> u128 {
        state.wrapping_mul(self.factor).wrapping_add(self.summand)
    }

    /// First this one, then the other.
    fn then(self, next: Self) -> Self {
        Self {
            factor: self.factor.wrapping_mul(next.factor),
            summand: next.apply(self.summand),
        }
    }

    /// So many steps, in as many multiplications as the number has bits.
    fn of(mut steps: u128) -> Self {
        let (mut whole, mut power) = (Self::NONE, Self::ONE);
        while steps > 0 {
            if steps & 1 == 1 {
                whole = whole.then(power);
            }
            power = power.then(power);
            steps >>= 1;
        }
        whole
    }
}

/// The numbers of records, from one of them on.
#[derive(Clone, Debug)]
pub struct Sequence {
    state: u128,
}

impl Sequence {
    /// The next number is that of this record.
    pub fn from(record: u128) -> Self {
        Self {
            state: Leap::of(record).apply(0),
        }
    }
}

impl Iterator for Sequence {
    type Item = u128;

    fn next(&mut self) -> Option<u128> {
        self.state = Leap::ONE.apply(self.state);
        Some(self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leap_ends_where_single_steps_do() {
        let one_by_one: Vec<u128> = Sequence::from(0).take(1000).collect();
        for (record, expected) in (0..).zip(&one_by_one) {
            assert_eq!(Sequence::from(record).next(), Some(*expected), "{record}");
        }
        let far = (1_u128 << 100) + 12345;
        let beyond: Vec<u128> = Sequence::from(far).take(3).collect();
        assert_eq!(Sequence::from(far + 2).next(), beyond.last().copied());
    }
}
