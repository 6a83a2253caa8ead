// SPDX-License-Identifier: Apache-2.0
//! Figures, as a person likes to read them.

/// With commas between thousands.
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", number(bytes / 1_000_000), bytes / 100_000 % 10)
}
