// SPDX-License-Identifier: Apache-2.0
//! What the plugin and the documentation say as well: keys, ranges, remedies, names of classes.

use crate::operator::doctor::configuration::{checks, cluster, engines, keys, obstacles};
use crate::operator::doctor::finding::Check;

/// A file of the repository.
macro_rules! page {
    ($path:literal) => {
        include_str!(concat!("../../../../../../../", $path))
    };
}

/// A source of the plugin.
macro_rules! plugin {
    ($path:literal) => {
        include_str!(concat!(
            "../../../../../../../",
            "client/spark/src/main/scala/org/apache/spark/shuffle/lodestone/",
            $path
        ))
    };
}

const PLUGIN: &str = plugin!("config/LodestoneConf.scala");

#[test]
fn the_keys_and_defaults_are_those_of_the_documentation_of_the_plugin() {
    let rows = page!("docs/configuration.md").lines();
    let rows = rows.filter_map(|row| row.strip_prefix("| `spark.lodestone."));
    let documented: Vec<String> = rows
        .map(|row| row.split(" | ").take(2).collect::<Vec<_>>().join(" "))
        .collect();
    let known = keys::KEYS.map(|(name, default, _)| match default {
        "" => format!("{name}` (unset)"),
        default => format!("{name}` `{default}`"),
    });
    assert_eq!(documented, known);
}

#[test]
fn the_ranges_of_keys_are_those_of_the_plugin() {
    let code = PLUGIN
        .replace("MaxBatch)", "\"64m\")")
        .replace("MaxWait)", "\"10min\")");
    assert!(PLUGIN.contains("MaxBatch = \"64m\"") && PLUGIN.contains("MaxWait = \"10min\""));
    for (name, default, kind) in keys::KEYS {
        let range = match kind {
            keys::Kind::Size(least, Some(most)) => format!("Size.between(\"{least}\", \"{most}\")"),
            keys::Kind::Size(least, None) => format!("Size.atLeast(\"{least}\")"),
            keys::Kind::Time(least, most) => format!("Time.between(\"{least}\", \"{most}\")"),
            keys::Kind::SizeOrAuto(least) => {
                assert!(code.contains(&format!("DaemonSize = Size.atLeast(\"{least}\")")));
                continue;
            }
            _ => continue,
        };
        let from = code.find(&format!("key(\"{name}\")")).unwrap();
        let entry = code[from..].split("\n\n").next().unwrap();
        let expected = format!(".quantity(\"{default}\", {range})");
        assert!(
            entry.contains(&expected),
            "{name}: {expected} is not in {entry}"
        );
    }
}

#[test]
fn the_remedy_of_a_reason_is_that_of_the_documentation() {
    let plain = page!("docs/reasons.md").replace('`', "");
    let mut seen = 0;
    let rows = plain.lines().filter_map(|row| row.strip_prefix("| "));
    for row in rows {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [code, _, remedy] = cells.as_slice() else {
            continue;
        };
        let name = code.to_lowercase().replace('_', "-");
        let is_it = |check: &&&Check| check.name == name && name != "engine-shuffle";
        if let Some(check) = checks::ALL.iter().find(is_it) {
            assert_eq!(check.remedy, without_links(remedy), "{code}");
            seen += 1;
        }
    }
    assert_eq!(seen, 9);
}

/// The text of a link, without its target.
fn without_links(text: &str) -> String {
    let mut parts = text.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (label, rest) = part.split_once("](").unwrap();
        plain.push_str(label);
        plain.push_str(rest.split_once(')').unwrap().1);
    }
    plain
}

#[test]
fn the_classes_of_engines_managers_and_defaults_are_those_of_the_plugin() {
    let notice = plugin!("driver/report/EngineNotice.scala");
    for engine in engines::ENGINES {
        for (key, class) in engine.classes {
            assert!(
                notice.contains(&format!("\"{key}\" -> \"{class}\"")),
                "{class}"
            );
        }
        for key in engine.switches {
            assert!(notice.contains(&format!("\"{key}\"")), "{key}");
        }
    }
    let joined = notice.replace("\" +\n        \"", "");
    for manager in &obstacles::MANAGERS[1..] {
        assert!(joined.contains(manager), "{manager}");
    }
    let defaults = plugin!("plan/RemoteDefaults.scala");
    for (key, ..) in cluster::DEFAULTS {
        assert!(defaults.contains(&format!("\"{key}\"")), "{key}");
    }
}
