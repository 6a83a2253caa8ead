// SPDX-License-Identifier: Apache-2.0
//! Sizes and times with their unit: `512MiB`, `1g`, `60s`. The daemon and `lodestone-bench` read
//! them here, so that a unit has one meaning.

use std::time::Duration;

/// Units of a size, longest spelling first.
const SIZES: [(&str, u32); 13] = [
    ("kib", 10),
    ("mib", 20),
    ("gib", 30),
    ("tib", 40),
    ("kb", 10),
    ("mb", 20),
    ("gb", 30),
    ("tb", 40),
    ("k", 10),
    ("m", 20),
    ("g", 30),
    ("t", 40),
    ("b", 0),
];

/// Units of a time in milliseconds, longest spelling first.
const TIMES: [(&str, u64); 5] = [
    ("ms", 1),
    ("min", 60_000),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
];

/// Bytes: a number with a unit, as in Spark's settings: all units are powers of 1024. At most 8
/// EiB, which signed fields of messages can hold.
pub fn size(text: &str) -> Result<u64, String> {
    let hint = || format!("`{text}` is no size: write it as in 512MiB or 1g");
    let lower = text.to_ascii_lowercase();
    let (digits, shift) = SIZES
        .iter()
        .find_map(|(unit, shift)| lower.strip_suffix(unit).map(|digits| (digits, *shift)))
        .ok_or_else(hint)?;
    let number: u64 = digits.trim().parse().map_err(|_| hint())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(hint)?;
    if i64::try_from(bytes).is_ok() {
        Ok(bytes)
    } else {
        Err(hint())
    }
}

/// A time: a number with a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let hint = || format!("`{text}` is no time: write it as in 60s or 5m");
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = TIMES
        .iter()
        .find_map(|(unit, factor)| lower.strip_suffix(unit).map(|digits| (digits, *factor)))
        .ok_or_else(hint)?;
    let number: u64 = digits.trim().parse().map_err(|_| hint())?;
    number
        .checked_mul(factor)
        .map(Duration::from_millis)
        .ok_or_else(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_and_each_unit_is_a_power_of_1024() {
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("1g"), Ok(1 << 30));
        assert_eq!(size("10k"), Ok(10 << 10));
        assert_eq!(size("10000b"), Ok(10_000));
        assert_eq!(size("262144KiB"), Ok(256 << 20));
        assert_eq!(size("3 mb"), Ok(3 << 20));
        for bad in ["", "12", "g", "-1g", "1.5g", "8388608t", "99999999999999t"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for bad in ["", "5", "s", "-1s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
