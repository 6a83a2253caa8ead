// SPDX-License-Identifier: Apache-2.0
//! Releases of Spark, and the plugin jar of each.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use super::ConfError;
use crate::cli::Scala;

/// The releases that have a jar, in words.
pub(super) const SUPPORTED: &str =
    "3.5 (Scala 2.12 and 2.13) and for Spark 4.0, 4.1, 4.2 and 4.3 (Scala 2.13)";

/// The releases that the end-to-end tests run on: `SPARK_LINES` of `e2e/harness/paths.py`.
const TESTED: [(&str, &str); 5] = [
    ("3.5", "3.5.9"),
    ("4.0", "4.0.5"),
    ("4.1", "4.1.4"),
    ("4.2", "4.2.1"),
    ("4.3", "4.3.0"),
];

/// A Spark as its user or its folder names it.
pub(in crate::operator) struct Found {
    /// Its version.
    pub(in crate::operator) version: String,
    /// Its Scala, if the folder says it.
    pub(in crate::operator) scala: Option<Scala>,
}

impl Found {
    /// A version that the user names. Its Scala is that of the Spark in the folder, if this is of
    /// the same line.
    pub(in crate::operator) fn named(version: &str, home: Option<&Path>) -> Self {
        let there = in_home(home).ok();
        let same = there.filter(|there| line_of(&there.version) == line_of(version));
        Self {
            version: version.to_owned(),
            scala: same.and_then(|there| there.scala),
        }
    }
}

/// A release of Spark that has a jar.
#[derive(Debug)]
pub(in crate::operator) struct Release {
    version: String,
    /// The newest release of its line.
    tested: &'static str,
    line: &'static str,
    scala: Scala,
}

impl Release {
    /// Returns the release. The Scala that the user names counts more than what is found.
    pub(in crate::operator) fn of(found: &Found, named: Option<Scala>) -> Result<Self, ConfError> {
        let version = found.version.clone();
        let Some(line) = line_of(&version) else {
            return Err(ConfError::NotAVersion(version));
        };
        let Some(&(line, tested)) = TESTED.iter().find(|(known, _)| *known == line) else {
            return Err(ConfError::Unsupported(version));
        };
        let is_of_3 = line == "3.5";
        let usual = if is_of_3 { Scala::V212 } else { Scala::V213 };
        let scala = named.or(found.scala).unwrap_or(usual);
        if scala == Scala::V212 && !is_of_3 {
            return Err(ConfError::NoSuchScala(version));
        }
        Ok(Self {
            version,
            tested,
            line,
            scala,
        })
    }

    /// Returns the name of the jar's file.
    pub(in crate::operator) fn jar(&self) -> String {
        let line = if self.line == "3.5" { "3.5" } else { "4" };
        format!("lodestone-spark-{line}_{}.jar", self.scala.number())
    }

    /// Returns what a user should know about this release.
    pub(super) fn note(&self) -> Option<String> {
        let is_tested = self.version == self.tested || self.version == self.line;
        (!is_tested).then(|| {
            format!(
                "Spark {} has not been tested with Lodestone; of its line, {} has",
                self.version, self.tested
            )
        })
    }
}

impl Display for Release {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.version)
    }
}

/// Returns the first two numbers of a version.
fn line_of(version: &str) -> Option<String> {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(format!("{major}.{minor}"))
}

/// Returns the Spark in a folder, by the name of its core's jar, which contains both versions.
pub(in crate::operator) fn in_home(home: Option<&Path>) -> Result<Found, ConfError> {
    let Some(home) = home else {
        return Err(ConfError::NoVersion("SPARK_HOME is not set".to_owned()));
    };
    let jars = home.join("jars");
    let names = jars.read_dir().into_iter().flatten().flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.find_map(|name| found_by(&name)).ok_or_else(|| {
        let problem = format!("there is no spark-core_*.jar in {}", jars.display());
        ConfError::NoVersion(problem)
    })
}

fn found_by(jar: &str) -> Option<Found> {
    let versions = jar.strip_prefix("spark-core_")?.strip_suffix(".jar")?;
    if versions.ends_with("-tests") || versions.ends_with("-sources") {
        return None;
    }
    let (scala, version) = versions.split_once('-')?;
    let scala = match scala {
        "2.12" => Scala::V212,
        "2.13" => Scala::V213,
        _ => return None,
    };
    Some(Found {
        version: version.to_owned(),
        scala: Some(scala),
    })
}
