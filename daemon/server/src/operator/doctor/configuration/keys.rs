// SPDX-License-Identifier: Apache-2.0
//! The keys of the plugin, and the values that it takes. The plugin checks them too, and stops the
//! application at its start. A test compares this table with the plugin's.

use super::checks::{KEY, LIMITS, VALUE};
use super::services::addresses;
use crate::operator::doctor::finding::{Finding, Level};
use crate::operator::doctor::settings::Settings;

/// How all keys of the plugin begin.
const PREFIX: &str = "spark.lodestone.";

/// The values of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    OneOf(&'static [&'static str]),
    Size(&'static str, Option<&'static str>),
    Time(&'static str, &'static str),
    SizeOrAuto(&'static str),
    Services,
    Path,
}
use Kind::{OneOf, Path, Services, Size, SizeOrAuto, Time};

const SWITCH: Kind = OneOf(&["true", "false"]);

/// Each key without the prefix, its default, and its values.
pub(super) const KEYS: [(&str, &str, Kind); 14] = [
    ("mode", "auto", OneOf(&["auto", "merge", "remote"])),
    ("services", "", Services),
    ("replicas", "1", OneOf(&["1", "2"])),
    ("encodedRows", "true", SWITCH),
    ("nearReads", "false", SWITCH),
    ("push.maxBlockSize", "1m", Size("1b", Some("64m"))),
    ("push.batchSize", "4m", Size("64k", Some("64m"))),
    ("push.memory", "64m", Size("64k", None)),
    ("push.timeout", "3s", Time("0ms", "10min")),
    ("request.timeout", "5s", Time("100ms", "10min")),
    ("lease.ttl", "120s", Time("10s", "1h")),
    ("embedded.memory", "auto", SizeOrAuto("16m")),
    ("embedded.idleTimeout", "60s", Time("1s", "1d")),
    ("embedded.binary", "", Path),
];

/// Units of sizes, as Spark writes them.
const SIZES: [(&str, u64); 9] = [
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("tb", 1 << 40),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("b", 1),
];

/// Units of times in milliseconds, as Spark writes them.
const TIMES: [(&str, u64); 6] = [
    ("min", 60_000),
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Keys of Spark that are read here, and that stop it with another value than true or false.
const SWITCHES: [&str; 9] = [
    "spark.authenticate",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.shuffleTracking.enabled",
    "spark.io.encryption.enabled",
    "spark.network.crypto.enabled",
    "spark.shuffle.compress",
    "spark.shuffle.push.enabled",
    "spark.shuffle.service.enabled",
    "spark.shuffle.useOldFetchProtocol",
];

fn switches(settings: &Settings) -> impl Iterator<Item = Finding> {
    let given = SWITCHES
        .iter()
        .filter_map(|key| Some((*key, settings.get(key)?)));
    let wrong = given.filter(|(_, value)| !SWITCH.takes(value));
    wrong.map(|(key, value)| {
        let found = format!("{key} is `{value}`, with which Spark does not start");
        VALUE
            .error(found)
            .instead(format!("Set {key} to {}.", SWITCH.expected()))
    })
}

/// Checks each key of the plugin, and those that depend on each other.
pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let mut found: Vec<Finding> = settings
        .below(PREFIX)
        .filter_map(|(key, _)| one(key, settings))
        .collect();
    if found.is_empty() {
        let count = settings.below(PREFIX).count();
        let text = format!("{count} keys of the plugin are known, with valid values");
        found.extend((count > 0).then(|| KEY.ok(text)));
        found.extend(settings.known(together));
    }
    found.extend(switches(settings));
    found
}

/// The plugin of an application that has run took what it had: it was of another release.
fn one(key: &str, settings: &Settings) -> Option<Finding> {
    let name = key.strip_prefix(PREFIX).unwrap_or(key);
    let (level, effect) = match settings.is_past {
        true => (
            Level::Note,
            "the application ran with another release of it",
        ),
        false => (Level::Error, "stops the application at its start"),
    };
    let Some((.., kind)) = KEYS.iter().find(|(known, ..)| *known == name) else {
        let distance = |other: &str| strsim::damerau_levenshtein(name, other);
        let nearest = KEYS.iter().map(|(known, ..)| *known);
        let nearest = nearest
            .min_by_key(|other| distance(other))
            .unwrap_or_default();
        let found = format!("the plugin has no key {key}, and {effect}");
        let remedy = format!("Write {PREFIX}{nearest}, or remove the key.");
        return Some(KEY.at(level, found).instead(remedy));
    };
    let value = settings.get(key).filter(|value| !kind.takes(value))?;
    let found = format!("{key} is `{value}`, and {effect}");
    let remedy = format!("Set {key} to {}.", kind.expected());
    Some(VALUE.at(level, found).instead(remedy))
}

/// Keys that the plugin takes one by one, and not together.
fn together(settings: &Settings) -> Vec<Finding> {
    let size = |name: &str| {
        let (_, default, _) = KEYS.iter().find(|(known, ..)| *known == name)?;
        let key = format!("{PREFIX}{name}");
        number(settings.get_or(&key, default), &SIZES)
    };
    let mut found = Vec::new();
    let replicas = settings.get_or("spark.lodestone.replicas", "1");
    if replicas == "2" && !settings.is_remote_mode() {
        let text = "spark.lodestone.replicas is 2, and spark.lodestone.mode is not remote";
        let remedy = "Set spark.lodestone.mode=remote, or spark.lodestone.replicas=1: merged \
                      blocks have originals.";
        found.push(LIMITS.error(text).instead(remedy));
    }
    let (block, batch) = (size("push.maxBlockSize"), size("push.batchSize"));
    if block > batch {
        let text =
            "spark.lodestone.push.maxBlockSize is larger than spark.lodestone.push.batchSize";
        let remedy = "Set spark.lodestone.push.batchSize to at least the size of a block: a block \
                      is never cut.";
        found.push(LIMITS.error(text).instead(remedy));
    }
    if size("push.memory") < batch {
        let text = "spark.lodestone.push.memory is smaller than spark.lodestone.push.batchSize";
        let remedy = "Set spark.lodestone.push.memory to at least the size of a request.";
        found.push(LIMITS.error(text).instead(remedy));
    }
    found
}

impl Kind {
    fn takes(self, value: &str) -> bool {
        let within = |units: &[(&str, u64)], least: &str, most: Option<&str>| {
            let most = most.map_or(Some(i64::MAX.cast_unsigned()), |most| number(most, units));
            number(value, units).is_some_and(|given| {
                number(least, units).is_some_and(|least| least <= given)
                    && most.is_some_and(|most| given <= most)
            })
        };
        match self {
            OneOf(words) => words.iter().any(|word| word.eq_ignore_ascii_case(value)),
            Size(least, most) => within(&SIZES, least, most),
            Time(least, most) => within(&TIMES, least, Some(most)),
            SizeOrAuto(least) => value.eq_ignore_ascii_case("auto") || within(&SIZES, least, None),
            Services => value.is_empty() || addresses(value).is_ok(),
            Path => true,
        }
    }

    fn expected(self) -> String {
        match self {
            OneOf(words) => words.join(" or "),
            Size(least, None) => format!("a size with a unit of at least {least}"),
            Size(least, Some(most)) => format!("a size with a unit between {least} and {most}"),
            Time(least, most) => format!("a time with a unit between {least} and {most}"),
            SizeOrAuto(least) => format!("auto, or a size with a unit of at least {least}"),
            Services => "host:port,host:port with at most 1000 addresses, or dns:name:port".into(),
            Path => "a path".to_owned(),
        }
    }
}

/// Returns a number with a unit, without its unit.
fn number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor)))?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .parse::<u64>()
        .ok()
        .filter(|_| is_number)?
        .checked_mul(factor)
}
