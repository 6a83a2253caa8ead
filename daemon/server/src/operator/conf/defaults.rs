// SPDX-License-Identifier: Apache-2.0
//! The user's spark-defaults.conf, whose settings the printed options replace.

use std::fs;
use std::path::PathBuf;

/// The keys that the options have.
const REPLACED: [&str; 4] = [
    "spark.shuffle.manager",
    "spark.serializer",
    "spark.driver.extraClassPath",
    "spark.executor.extraClassPath",
];

/// Returns a note for each setting of the file in this folder that the options replace.
pub(super) fn replaced(folder: Option<PathBuf>) -> Vec<String> {
    let Some(path) = folder.map(|folder| folder.join("spark-defaults.conf")) else {
        return Vec::new();
    };
    let Ok(bytes) = fs::read(&path) else {
        // There is none, or Spark will complain about it.
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&bytes);
    let is_end = |c: char| c.is_whitespace() || c == '=' || c == ':';
    let note = |line: &str| {
        let (key, value) = line.trim_start().split_once(is_end)?;
        let value = value.trim_matches(is_end);
        let is_ours = value.contains("lodestone") || value.ends_with("KryoSerializer");
        (REPLACED.contains(&key) && !is_ours).then(|| {
            format!(
                "{} sets {key} to {value}, which these options replace: add to them what must stay",
                path.display()
            )
        })
    };
    text.lines().filter_map(note).collect()
}
