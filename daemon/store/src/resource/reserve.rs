// SPDX-License-Identifier: Apache-2.0
//! The space that the daemon leaves free on each disk. Spark's executors write to the same disks,
//! and their tasks fail if a disk is full.

use crate::fs::Space;

/// With [`Reserve::Auto`], at least so much,
const AUTO_LEAST: u64 = 4 << 30;

/// and this part of the disk,
const AUTO_DIVISOR: u64 = 20;

/// but at most this part: a small disk is of use too.
const AUTO_MOST_DIVISOR: u64 = 4;

/// How much of each disk stays free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// A twentieth of the disk, at least 4 GiB, and at most a quarter of the disk.
    Auto,
    /// So many bytes.
    Bytes(u64),
}

impl Reserve {
    /// Returns the bytes that stay free on a disk of this size.
    pub fn bytes_of(self, total: u64) -> u64 {
        match self {
            Self::Auto => {
                let part = (total / AUTO_DIVISOR).max(AUTO_LEAST);
                part.min(total / AUTO_MOST_DIVISOR)
            }
            Self::Bytes(bytes) => bytes,
        }
    }

    /// True if so little space is left that the daemon writes no more. A disk that did not say how
    /// much it has is not judged.
    pub fn is_reached(self, space: Space) -> bool {
        space.total > 0 && space.free < self.bytes_of(space.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_twentieth_stays_free_and_at_least_4_gib_but_not_more_than_a_quarter() {
        for (total, reserved) in [(1000, 50), (80, 4), (20, 4), (16, 4), (8, 2), (0, 0)] {
            let is_reached = |free| {
                let total = total * GIB;
                Reserve::Auto.is_reached(Space { free, total })
            };
            assert!(!is_reached(reserved * GIB), "{total} GiB");
            assert_eq!(
                is_reached((reserved * GIB).saturating_sub(1)),
                reserved > 0,
                "{total} GiB"
            );
        }
    }

    #[test]
    fn a_disk_that_did_not_say_how_much_it_has_is_not_judged() {
        assert!(!Reserve::Bytes(1).is_reached(Space::default()));
        assert!(!Reserve::Auto.is_reached(Space::default()));
    }
}
