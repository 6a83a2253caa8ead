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
    let text = String::from_utf8_lossy(&bytes).replace("\\\n", "");
    let is_end = |c: char| c.is_whitespace() || c == '=' || c == ':';
    let note = |line: &str| {
        let (key, value) = line.trim_start().split_once(is_end)?;
        let value = value.trim_matches(is_end);
        (REPLACED.contains(&key) && !is_kept(key, value)).then(|| {
            format!(
                "{} sets {key} to {value}, which these options replace",
                path.display()
            )
        })
    };
    text.lines().filter_map(note).collect()
}

/// Whether nothing of a setting is lost.
fn is_kept(key: &str, value: &str) -> bool {
    let is_our_jar = |entry: &str| {
        let name = entry.rsplit('/').next().unwrap_or_default();
        name.starts_with("lodestone-spark-")
    };
    match key {
        "spark.serializer" => value == "org.apache.spark.serializer.KryoSerializer",
        "spark.shuffle.manager" => {
            value == "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager"
                || ["sort", "tungsten-sort"].contains(&value)
        }
        _ => value.split(':').all(is_our_jar),
    }
}
