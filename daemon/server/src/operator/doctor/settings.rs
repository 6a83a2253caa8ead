// SPDX-License-Identifier: Apache-2.0
//! Spark's settings as a user writes them: a spark-defaults.conf, and `--conf KEY=VALUE`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lodestone_units::size;

use super::properties::properties;
use crate::cli::Scala;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How references to other keys, variables and properties begin.
const REFERENCE: &str = "${";

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
    #[error(
        "--conf {}: more than {} bytes are too many for a spark-defaults.conf",
        path.display(), FILE_BYTES_MAX
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A device, a pipe or a directory.
    #[error("--conf {} is no file: name a spark-defaults.conf, or write KEY=VALUE", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
}

/// Settings of one application.
#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<String, String>,
    /// Keys whose values checks wanted to read, and found a reference.
    met: Mutex<Vec<String>>,
    /// The version of Spark, where it is known.
    pub(super) spark: Option<String>,
    /// The Scala of this Spark, where it is known.
    pub(super) scala: Option<Scala>,
    /// The folder on this host that says both.
    pub(super) spark_home: Option<PathBuf>,
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
                    let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                    settings.values.insert(key, value);
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
            ..Self::default()
        }
    }

    fn add_file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let failed = |source| SettingsError::File {
            path: path.to_owned(),
            source,
        };
        // A pipe may never end, and a device has no end.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            let path = path.to_owned();
            return Err(SettingsError::NoFile { path });
        }
        let mut content = Vec::new();
        let opened = File::open(path).map_err(failed)?;
        let read = opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut content);
        if read.map_err(failed)? as u64 > FILE_BYTES_MAX {
            let path = path.to_owned();
            return Err(SettingsError::TooLarge { path });
        }
        let text = String::from_utf8_lossy(&content);
        self.values.extend(properties(&text));
        Ok(())
    }

    /// Returns a value. One with a reference counts as not set: Spark replaces it, and a check that
    /// depends on it has no result.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key)?;
        let is_reference = value.contains(REFERENCE);
        if is_reference {
            self.met().push(key.to_owned());
        }
        (!is_reference).then_some(value.as_str())
    }

    fn met(&self) -> MutexGuard<'_, Vec<String>> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a check finds that has met no reference.
    pub(super) fn known<T: Default>(&self, check: impl FnOnce(&Self) -> T) -> T {
        let before = self.met().len();
        let found = check(self);
        match self.met().len() > before {
            true => T::default(),
            false => found,
        }
    }

    /// Returns the keys with references in their values that checks wanted to read.
    pub(super) fn met_references(&self) -> BTreeSet<String> {
        self.met().iter().cloned().collect()
    }

    /// Whether one of these keys has a reference in its value.
    pub(super) fn has_references(&self, keys: &[&str]) -> bool {
        let mut values = keys.iter().filter_map(|key| self.values.get(*key));
        values.any(|value| value.contains(REFERENCE))
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

    /// Whether there are no executors, so that Spark allocates none.
    pub(super) fn has_no_executors(&self) -> bool {
        let master = self.master();
        master == "local" || master.starts_with("local[")
    }

    /// Whether Spark's processes speak TLS. Spark 3 does not.
    pub(super) fn has_tls(&self) -> bool {
        !self.is_spark_3() && self.is_true("spark.ssl.rpc.enabled", false)
    }

    /// Returns a setting of TLS between Spark's processes, which has that of Spark's other ports as
    /// its default.
    pub(super) fn of_tls(&self, name: &str) -> Option<&str> {
        let inherits = self.is_true("spark.ssl.enabled", false);
        let own = self.get(&format!("spark.ssl.rpc.{name}"));
        own.or_else(|| self.get(&format!("spark.ssl.{name}")).filter(|_| inherits))
    }

    pub(super) fn has_a_secret_file(&self) -> bool {
        let names = ["file", "driver.file", "executor.file"];
        let mut keys = names
            .map(|name| format!("spark.authenticate.secret.{name}"))
            .into_iter();
        keys.any(|key| self.get(&key).is_some())
    }

    /// Whether Spark makes the secret of each application, whatever key has one.
    pub(super) fn makes_a_secret(&self) -> bool {
        self.is_yarn()
            || self.has_no_executors()
            || (self.is_kubernetes() && !self.has_a_secret_file())
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

#[cfg(test)]
mod tests {
    use super::*;

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
    #[test]
    fn what_is_no_file_or_too_large_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let large = folder.path().join("large");
        fs::write(&large, vec![b'#'; FILE_BYTES_MAX as usize + 1]).unwrap();
        let refused = |path: &str| Settings::named(&[path.to_owned()]).unwrap_err().to_string();
        for path in [&pipe.display().to_string(), "/dev/zero", "/proc"] {
            assert!(refused(path).contains("is no file"), "{path}");
        }
        let large = refused(&large.display().to_string());
        assert!(
            large.contains("too many for a spark-defaults.conf"),
            "{large}"
        );
    }
}
