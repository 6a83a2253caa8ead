// SPDX-License-Identifier: Apache-2.0
//! Engines and shuffle services beside Lodestone. The classes are those of `EngineNotice.scala`.

use super::checks::{ENGINE, ENGINE_NOT_ENCRYPTED, ENGINE_SHUFFLE, OTHER_SERVICE};
use super::obstacles::{MANAGERS, manager};
use crate::operator::doctor::finding::Finding;
use crate::operator::doctor::settings::Settings;

/// An engine, and the settings in which its classes are.
pub(super) struct Engine {
    name: &'static str,
    /// Keys and classes, each of which shows that the engine is there.
    pub(super) classes: &'static [(&'static str, &'static str)],
    /// If one of them is false, the engine has no shuffles by the user's own choice.
    pub(super) switches: &'static [&'static str],
    /// The manager of Lodestone for it.
    manager: &'static str,
    consequence: &'static str,
}

pub(super) const ENGINES: [Engine; 3] = [
    Engine {
        name: "Comet",
        classes: &[
            ("spark.plugins", "org.apache.spark.CometPlugin"),
            (
                "spark.sql.extensions",
                "org.apache.comet.CometSparkSessionExtensions",
            ),
        ],
        switches: &[
            "spark.comet.enabled",
            "spark.comet.exec.shuffle.enabled",
            "spark.comet.shuffle.enabled",
        ],
        manager: MANAGERS[1],
        consequence: "Comet 0.12 leaves all shuffles to Spark, and from 1.0 on it does not run",
    },
    Engine {
        name: "Gluten",
        classes: &[("spark.plugins", "org.apache.gluten.GlutenPlugin")],
        switches: &["spark.gluten.enabled", "spark.gluten.sql.columnar.shuffle"],
        manager: MANAGERS[2],
        consequence: "Gluten makes rows of its columns for each shuffle",
    },
    Engine {
        name: "Auron",
        classes: &[(
            "spark.sql.extensions",
            "org.apache.spark.sql.auron.AuronSparkSessionExtension",
        )],
        switches: &[
            "spark.auron.enabled",
            "spark.auron.enable",
            "spark.auron.enable.shuffleExchange",
        ],
        manager: MANAGERS[3],
        consequence: "Auron 7 and 8 fail each query",
    },
];

/// Engines, keys, and values with which another writer takes shuffles, and better values.
const WRITERS: [(&str, &str, &str, &str); 3] = [
    ("Comet", "spark.comet.shuffle.mode", "jvm", "native"),
    ("Comet", "spark.comet.exec.shuffle.mode", "jvm", "native"),
    ("Gluten", "spark.gluten.sql.columnar.cudf", "true", "false"),
];

/// Engines that were not tried with Lodestone.
const UNTRIED: [(&str, &str, &str); 1] =
    [("RAPIDS", "spark.plugins", "com.nvidia.spark.SQLPlugin")];

/// Keys that have no effect with another manager.
const SERVICES: [(&str, &str); 2] = [("spark.celeborn.", "Celeborn"), ("spark.rss.", "Uniffle")];

pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let manager = manager(settings);
    if !MANAGERS.contains(&manager) {
        return Vec::new();
    }
    let mut found: Vec<Finding> = ENGINES
        .iter()
        .filter(|engine| engine.is_used(settings))
        .flat_map(|engine| engine.findings(settings, manager))
        .collect();
    for (name, key, class) in UNTRIED {
        if settings.list(key).any(|one| one == class) {
            let text = format!("{key} has {class}: {name} was not tried with Lodestone");
            let remedy = format!("Compare answers and times of your jobs with and without {name}.");
            found.push(ENGINE.warning(text).instead(remedy));
        }
    }
    for (prefix, name) in SERVICES {
        if let Some((key, _)) = settings.below(prefix).next() {
            let text =
                format!("{key} is set, and has no effect: the manager is not that of {name}");
            found.push(OTHER_SERVICE.note(text));
        }
    }
    found
}

impl Engine {
    fn is_used(&self, settings: &Settings) -> bool {
        let mut classes = self.classes.iter();
        classes.any(|(key, class)| settings.list(key).any(|one| one == *class))
            && self.switches.iter().all(|key| settings.is_true(key, true))
    }

    fn findings(&self, settings: &Settings, manager: &str) -> Vec<Finding> {
        let name = self.name;
        if manager != self.manager {
            let text = format!(
                "{name} is there, and spark.shuffle.manager is {manager}: {}",
                self.consequence
            );
            let remedy = format!(
                "Set spark.shuffle.manager={}, whose jar docs/engines.md names.",
                self.manager
            );
            return vec![ENGINE.warning(text).instead(remedy)];
        }
        let mut found = vec![ENGINE.ok(format!("{name} has its manager of Lodestone"))];
        let is_only_remote = name != "Comet";
        if is_only_remote && !settings.is_remote_mode() {
            let mode = settings.get_or("spark.lodestone.mode", "auto");
            let text =
                format!("in mode {mode} the shuffles of {name} are left to it (ENGINE_SHUFFLE)");
            let remedy = "Set spark.lodestone.mode=remote.";
            found.push(ENGINE_SHUFFLE.warning(text).instead(remedy));
        }
        found.extend(self.writer(settings));
        if settings.is_true("spark.io.encryption.enabled", false) {
            found.push(self.encrypted(settings));
        }
        found
    }

    /// A key that chooses a writer whose shuffles are left to the engine in every mode.
    fn writer(&self, settings: &Settings) -> Option<Finding> {
        let name = self.name;
        let is_chosen = |(of, key, value, _): &&(&str, &str, &str, &str)| {
            let given = settings.get_or(key, "");
            *of == name && given.eq_ignore_ascii_case(value)
        };
        let (_, key, value, right) = WRITERS.iter().find(is_chosen)?;
        let text = format!(
            "{key} is {value}: the shuffles of this writer are left to {name} (ENGINE_SHUFFLE)"
        );
        let remedy = format!("Set {key}={right}.");
        Some(ENGINE_SHUFFLE.warning(text).instead(remedy))
    }

    /// In mode remote the manager turns the engine's shuffles off, unless the user decides.
    fn encrypted(&self, settings: &Settings) -> Finding {
        let name = self.name;
        let mut of_shuffles = self.switches.iter().filter(|key| key.contains("huffle"));
        let is_set = of_shuffles.any(|key| settings.get(key).is_some());
        match settings.is_remote_mode() && !is_set {
            true => ENGINE_NOT_ENCRYPTED.ok(format!(
                "spark.io.encryption.enabled is on: shuffles of {name} are Spark's, encrypted and \
                 remote"
            )),
            false => ENGINE_NOT_ENCRYPTED.warning(format!(
                "spark.io.encryption.enabled is on: what {name} would write plain is left to Spark \
                 or to {name} (ENGINE_NOT_ENCRYPTED)"
            )),
        }
    }
}
