// SPDX-License-Identifier: Apache-2.0
//! Sizes and times with their unit: `512MiB`, `1g`, `60s`.

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

/// Bytes: a number with a unit, as Spark writes them; all units are powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let hint = || format!("`{text}` is no size: write it as in 512MiB or 1g");
    let lower = text.to_ascii_lowercase();
    let (digits, shift) = SIZES
        .iter()
        .find_map(|(unit, shift)| lower.strip_suffix(unit).map(|digits| (digits, *shift)))
        .ok_or_else(hint)?;
    let number: u64 = digits.trim().parse().map_err(|_| hint())?;
    number.checked_mul(1 << shift).ok_or_else(hint)
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
