// SPDX-License-Identifier: Apache-2.0
//! All chance of a run, from one seed.

use lodestone_store::SeededRandom;

/// A sequence of random numbers.
#[derive(Debug)]
pub struct Dice {
    source: SeededRandom,
}

impl Dice {
    /// Starts the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            source: SeededRandom::new(seed),
        }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.source.bits()
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 => 0,
            end => (self.bits() % end as u64) as usize,
        }
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `values`.
    pub fn pick<T: Clone>(&mut self, values: &[T]) -> Option<T> {
        let at = self.below(values.len());
        values.get(at).cloned()
    }

    /// The index of one of `weights`, each as likely as it is heavy.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        for (at, weight) in weights.iter().enumerate() {
            if rest < *weight {
                return at;
            }
            rest -= weight;
        }
        0
    }

    /// Random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.source.bytes(count)
    }
}
