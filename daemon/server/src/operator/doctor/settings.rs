// SPDX-License-Identifier: Apache-2.0
//! Spark's settings as a user writes them: a spark-defaults.conf, and `--conf KEY=VALUE`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lodestone_units::size;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file.
    #[error("--conf {}: {source}; name a spark-defaults.conf, or write KEY=VALUE", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file that is no configuration.
    #[error("--conf {}: {bytes} bytes are too many for a spark-defaults.conf", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
}

/// Settings of one application.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    values: BTreeMap<String, String>,
    /// The version of Spark, where it is known.
    pub(super) spark: Option<String>,
    /// Whether they are of an application that has run, maybe elsewhere.
    pub(super) is_past: bool,
}

impl Settings {
    /// Reads what `--conf` names, one after the other; later values count.
    pub(super) fn named(given: &[String]) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        for one in given {
            match one.split_once('=') {
                Some((key, value)) if key.starts_with("spark.") => {
                    settings.set(key, value);
                }
                _ => settings.add_file(Path::new(one))?,
            }
        }
        Ok(settings)
    }

    /// Takes the settings of an application that has run, as Spark lists them.
    pub(super) fn of(values: BTreeMap<String, String>, spark: Option<String>) -> Self {
        Self {
            values,
            spark,
            is_past: true,
        }
    }

    fn add_file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let failed = |source| SettingsError::File {
            path: path.to_owned(),
            source,
        };
        let bytes = fs::metadata(path).map_err(failed)?.len();
        if bytes > FILE_BYTES_MAX {
            let path = path.to_owned();
            return Err(SettingsError::TooLarge { path, bytes });
        }
        let content = fs::read(path).map_err(failed)?;
        for (key, value) in properties(&String::from_utf8_lossy(&content)) {
            self.set(&key, &value);
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) {
        self.values
            .insert(key.trim().to_owned(), value.trim().to_owned());
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    pub(super) fn get_or<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.get(key).unwrap_or(default)
    }

    pub(super) fn is_true(&self, key: &str, default: bool) -> bool {
        self.get(key)
            .map_or(default, |value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns a size. Spark counts a number without a unit in MiB, in the keys that are read here.
    pub(super) fn bytes(&self, key: &str) -> Option<u64> {
        let text = self.get(key)?;
        let mebibytes = || text.parse().ok().and_then(|n: u64| n.checked_mul(1 << 20));
        size(text).ok().or_else(mebibytes)
    }

    /// Returns the keys that begin like this, and their values.
    pub(super) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.values
            .iter()
            .filter(move |(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the parts of a list with commas.
    pub(super) fn list<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        let parts = self.get(key).unwrap_or_default().split(',');
        parts.map(str::trim).filter(|part| !part.is_empty())
    }

    pub(super) fn master(&self) -> &str {
        self.get_or("spark.master", "")
    }

    pub(super) fn is_yarn(&self) -> bool {
        self.master() == "yarn"
    }

    pub(super) fn is_kubernetes(&self) -> bool {
        self.master().starts_with("k8s")
    }

    /// Whether all tasks run in the JVM of the driver, or on its host.
    pub(super) fn is_local(&self) -> bool {
        self.master().starts_with("local")
    }

    pub(super) fn is_remote_mode(&self) -> bool {
        let mode = self.get_or("spark.lodestone.mode", "auto");
        mode.eq_ignore_ascii_case("remote")
    }

    /// Whether executors start the daemons.
    pub(super) fn is_embedded(&self) -> bool {
        self.get_or("spark.lodestone.services", "").is_empty()
    }

    /// Whether this is Spark 3; if the version is not known, the name of the jar says it.
    pub(super) fn is_spark_3(&self) -> bool {
        match &self.spark {
            Some(version) => version.starts_with("3."),
            None => [
                "spark.driver.extraClassPath",
                "spark.executor.extraClassPath",
            ]
            .iter()
            .any(|key| self.get_or(key, "").contains("lodestone-spark-3.5_")),
        }
    }
}

/// Reads a file as `java.util.Properties` does.
fn properties(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut whole = line.trim_start().to_owned();
        if whole.is_empty() || whole.starts_with(['#', '!']) {
            continue;
        }
        while ends_with_a_backslash(&whole) {
            whole.pop();
            whole.push_str(lines.next().unwrap_or_default().trim_start());
        }
        found.push(split(&whole));
    }
    found
}

/// Two backslashes are one that belongs to the value.
fn ends_with_a_backslash(line: &str) -> bool {
    let backslashes = line.chars().rev().take_while(|c| *c == '\\').count();
    backslashes % 2 == 1
}

/// A key ends at a blank, `=` or `:`.
fn split(line: &str) -> (String, String) {
    let is_end = |c: char| c.is_whitespace() || c == '=' || c == ':';
    let mut is_escaped = false;
    let end = line.find(|c| {
        let ends = is_end(c) && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (unescaped(key), unescaped(value.trim()))
}

fn unescaped(text: &str) -> String {
    let (mut plain, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('t') => plain.push('\t'),
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => {}
            },
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(text: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spark-defaults.conf");
        fs::write(&path, text).unwrap();
        Settings::named(&[path.display().to_string()]).unwrap()
    }

    #[test]
    fn a_file_means_what_spark_reads_in_it() {
        let settings = of_file(
            "# spark.a 1\n  spark.b  two words \nspark.c=3\nspark.d : 4\n! no\n\
             spark.e one,\\\n   two\nspark.f C:\\\\x\nspark.g\nspark.c 5",
        );
        let all: Vec<_> = settings.below("").collect();
        let expected = [
            ("spark.b", "two words"),
            ("spark.c", "5"),
            ("spark.d", "4"),
            ("spark.e", "one,two"),
            ("spark.f", "C:\\x"),
            ("spark.g", ""),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_later_argument_counts_and_a_wrong_one_says_what_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a=b.conf");
        fs::write(&path, "spark.a 1\nspark.b 1").unwrap();
        let given = [path.display().to_string(), "spark.b=2=3".to_owned()];
        let settings = Settings::named(&given).unwrap();
        assert_eq!(settings.get("spark.a"), Some("1"));
        assert_eq!(settings.get("spark.b"), Some("2=3"));
        let error = Settings::named(&["/does/not/exist".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("or write KEY=VALUE"), "{error}");
    }
}
