// SPDX-License-Identifier: Apache-2.0
//! Reads the golden bytes in `protocol/vectors`.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Path of a vector file.
pub(crate) fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../protocol/vectors")
        .join(file)
}

/// Name and bytes of each vector in a file.
pub(crate) fn read(file: &str) -> BTreeMap<String, Vec<u8>> {
    let text = std::fs::read_to_string(path(file)).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, hex) = line.split_once(' ').unwrap();
            (name.to_owned(), from_hex(hex))
        })
        .collect()
}

/// Bytes of hex digits.
pub(crate) fn from_hex(hex: &str) -> Vec<u8> {
    let digits = hex.trim().as_bytes();
    assert!(digits.len().is_multiple_of(2), "odd number of hex digits");
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

/// Hex digits of bytes.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
