// SPDX-License-Identifier: Apache-2.0
//! The jar of the plugin on the class paths.

use std::path::Path;

use super::checks::JAR;
use crate::cli::Scala;
use crate::operator::conf::jar::PREFIX;
use crate::operator::conf::release::{Found, Release};
use crate::operator::doctor::finding::Finding;
use crate::operator::doctor::settings::Settings;

const SIDES: [&str; 2] = ["driver", "executor"];

/// Jars that Spark fetches for the application.
const FETCHED: [&str; 2] = ["spark.jars", "spark.jars.packages"];

pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let mut found = Vec::new();
    for side in SIDES {
        let key = format!("spark.{side}.extraClassPath");
        let entries = settings.get_or(&key, "").split(':');
        found.extend(
            entries
                .filter(|entry| name_of(entry).starts_with(PREFIX))
                .filter_map(|entry| wrong(settings, &key, entry)),
        );
    }
    found.extend(unsupported(settings));
    found.extend(two_jars(settings));
    found.extend(missing(settings));
    if let [Some(jar), Some(_)] = SIDES.map(|side| jar_of(settings, side))
        && found.is_empty()
    {
        found.push(well(settings, jar));
    }
    found
}

fn well(settings: &Settings, jar: &str) -> Finding {
    JAR.ok(match release(settings, jar) {
        Some(release) => {
            let spark = spark(settings, &release);
            format!("both class paths have the jar for {spark}")
        }
        None => {
            let because = match settings.is_past {
                true => "the event log does not have the release of Spark",
                false => "the release of Spark is not known (SPARK_HOME)",
            };
            format!(
                "both class paths have {jar}; whether Spark is of its line is not known, because \
                 {because}"
            )
        }
    })
}

fn name_of(entry: &str) -> &str {
    entry.trim().rsplit('/').next().unwrap_or_default()
}

fn jar_of<'a>(settings: &'a Settings, side: &str) -> Option<&'a str> {
    let class_path = settings.get(&format!("spark.{side}.extraClassPath"))?;
    let mut names = class_path.split(':').map(name_of);
    names.find(|name| name.starts_with(PREFIX))
}

/// Returns the release of Spark, if it is known and has a jar. An unknown Scala is that of this
/// jar: only its line can be wrong then.
fn release(settings: &Settings, jar: &str) -> Option<Release> {
    let version = settings.spark.as_ref()?;
    let of_jar = match jar.contains("_2.12") {
        true => Scala::V212,
        false => Scala::V213,
    };
    let scala = settings.scala.unwrap_or(of_jar);
    let of = |scala| Release::of(&Found::named(version, None), scala).ok();
    of(Some(scala)).or_else(|| of(None))
}

/// Returns Spark as a person names it, with its folder: there may be several on this host.
fn spark(settings: &Settings, release: &Release) -> String {
    let scala = settings.scala.map(Scala::number);
    let scala = scala.map(|number| format!(" with Scala {number}"));
    let folder = folder(settings);
    format!("Spark {release}{}{folder}", scala.unwrap_or_default())
}

fn folder(settings: &Settings) -> String {
    let home = settings.spark_home.as_ref();
    let named = home.map(|home| format!(" (the Spark in {})", home.display()));
    named.unwrap_or_default()
}

/// A release of Spark for which there is no jar.
fn unsupported(settings: &Settings) -> Option<Finding> {
    let version = settings.spark.as_ref()?;
    let jar = SIDES.iter().find_map(|side| jar_of(settings, side))?;
    release(settings, jar).is_none().then(|| {
        let folder = folder(settings);
        JAR.error(format!(
            "no jar of Lodestone is for Spark {version}{folder}"
        ))
        .instead("Use Spark 3.5, or 4.0 to 4.3.")
    })
}

/// A jar of another line of Spark, or one that is not here.
fn wrong(settings: &Settings, key: &str, entry: &str) -> Option<Finding> {
    if let Some(release) = release(settings, name_of(entry)) {
        let (right, spark) = (release.jar(), spark(settings, &release));
        if !name_of(entry).starts_with(right.trim_end_matches(".jar")) {
            let text = format!("{key} has {entry}, which is not for {spark}");
            let remedy = format!("Use {right}, as `lodestone conf --spark {release}` prints it.");
            return Some(JAR.error(text).instead(remedy));
        }
    }
    // A name without a folder is found in the working directory of a container.
    let may_be_here = entry.starts_with('/') && !settings.is_past;
    (may_be_here && !Path::new(entry).is_file()).then(|| {
        let text = format!("{key} has {entry}, which is not on this host");
        let remedy = "Copy the jar there, on every machine that runs a driver or an executor.";
        JAR.warning(text).instead(remedy)
    })
}

fn two_jars(settings: &Settings) -> Option<Finding> {
    let [driver, executor] = SIDES.map(|side| jar_of(settings, side));
    let (driver, executor) = (driver?, executor?);
    (driver != executor).then(|| {
        JAR.error(format!(
            "the driver has {driver}, and executors have {executor}: both need the same jar"
        ))
    })
}

/// Executors of Spark 3.5 need the jar before they fetch any.
fn missing(settings: &Settings) -> Option<Finding> {
    let is_fetched = FETCHED
        .iter()
        .any(|key| settings.list(key).any(|one| one.contains(PREFIX)));
    let lacks: Vec<_> = SIDES
        .iter()
        .filter(|side| {
            let class_path = settings
                .get_or(&format!("spark.{side}.extraClassPath"), "")
                .to_owned();
            // A folder of jars, or a jar with another name.
            !class_path.contains("lodestone")
                && !class_path.split(':').any(|one| one.ends_with('*'))
        })
        .copied()
        .collect();
    if lacks.is_empty() || (is_fetched && !settings.is_spark_3()) {
        return None;
    }
    if is_fetched {
        return (lacks.contains(&"executor") && !settings.is_local()).then(|| {
            JAR.warning(format!(
                "the jar is fetched for the application, and executors of Spark 3.5{} need it \
                 before that: each ends with a ClassNotFoundException",
                folder(settings)
            ))
        });
    }
    let sides = lacks.join(" and ");
    Some(JAR.note(format!(
        "no jar of the plugin is on the class path of the {sides}: Spark finds it only in its own \
         folder of jars, or where the command line names it"
    )))
}
