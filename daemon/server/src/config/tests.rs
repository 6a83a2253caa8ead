// SPDX-License-Identifier: Apache-2.0
//! What a user may write, and what they are told when it is wrong.

use super::*;

fn parsed(text: &str) -> Result<Config, ConfigError> {
    Values::parse(text, "test.toml").and_then(|values| values.check())
}

#[test]
fn a_directory_is_enough_and_the_rest_has_the_defaults_of_the_table() {
    let config = parsed("dir = '/data'").unwrap();
    assert_eq!(config.listen, "0.0.0.0:7337".parse().unwrap());
    assert_eq!(config.memory, Memory::Bytes(512 << 20));
    assert_eq!(config.max_connections, 4096);
    assert_eq!(
        (config.admin, config.announce, config.idle_exit),
        (None, None, None)
    );
    assert_eq!(config.log_format, LogFormat::Text);
    assert_eq!(config.log_level, tracing::Level::INFO);
}

#[test]
fn lists_are_written_with_commas_or_as_arrays() {
    let both = ["/a", "/b"].map(PathBuf::from).to_vec();
    assert_eq!(
        parsed("dir = '/a, /b'").unwrap().dirs,
        [PathBuf::from("/a, /b")]
    );
    assert_eq!(parsed("dir = ['/a', '/b']").unwrap().dirs, both);
    let mut values = Values::default();
    values.set("dir", "/a, /b");
    assert_eq!(values.check().unwrap().dirs, both);
}

#[test]
fn a_flag_wins_over_the_file() {
    let mut values = Values::parse("dir = '/a'\nmemory = '1g'", "test.toml").unwrap();
    values.set("memory", "32MiB");
    assert_eq!(values.check().unwrap().memory, Memory::Bytes(32 << 20));
    values.set("memory", "auto");
    assert_eq!(values.check().unwrap().memory, Memory::Auto);
}

#[test]
fn an_unknown_key_is_named_together_with_the_nearest_one() {
    let error = parsed("dir = '/a'\nmax-conections = 7")
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "test.toml: there is no key `max-conections`; did you mean `max-connections`?"
    );
    let error = parsed("memroy = '1g'").unwrap_err().to_string();
    assert!(error.ends_with("did you mean `memory`?"), "{error}");
}

#[test]
fn a_value_that_makes_no_sense_is_named_with_what_to_write_instead() {
    for (text, expected) in [
        ("", "`dir`: name at least one data directory"),
        (
            "dir = '/a'\nmemory = '1x'",
            "`memory`: `1x` is no size: write it as in 512MiB or 1g",
        ),
        ("dir = '/a'\nmemory = 512", "`memory`: `512` is no size"),
        (
            "dir = '/a'\nmemory = '1m'",
            "`memory`: must be at least 16MiB",
        ),
        (
            "dir = '/a'\nidle-exit = '5'",
            "`idle-exit`: `5` is no time: write it as in 60s or 5m",
        ),
        ("dir = '/a'\nlisten = '7337'", "write HOST:PORT"),
        (
            "dir = '/a'\nlisten = ['a:1', 'b:2']",
            "`listen`: takes one value",
        ),
        (
            "dir = '/a'\nmax-connections = 0",
            "no number from 1 to 1000000",
        ),
        ("dir = '/a'\nlog-format = 'xml'", "neither text nor json"),
        (
            "dir = '/a'\nlog-level = 'loud'",
            "none of error, warn, info, debug, trace",
        ),
        ("dir = true", "`dir` must be a string"),
        ("dir = ", "test.toml: "),
    ] {
        let error = parsed(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?} gave {error:?}");
    }
}

#[test]
fn sizes_and_times_have_units() {
    assert_eq!(size("512MiB"), Ok(512 << 20));
    assert_eq!(size("1g"), Ok(1 << 30));
    assert_eq!(size("262144KiB"), Ok(256 << 20));
    assert_eq!(size("3 mb"), Ok(3 << 20));
    for bad in ["", "12", "g", "-1g", "1.5g", "99999999999999t"] {
        assert!(size(bad).is_err(), "{bad}");
    }
    assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
    assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
    assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
    assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
    for bad in ["", "5", "s", "-1s"] {
        assert!(duration(bad).is_err(), "{bad}");
    }
}

const PAGE: &str = include_str!("../../../../docs/operations.md");

#[test]
fn the_table_of_keys_in_the_documentation_is_that_of_the_code() {
    let shown = |key: &Key| match key.default {
        "" => "(unset)".to_owned(),
        default => format!("`{default}`"),
    };
    let row = |key: &Key| format!("| `{}` | {} | {} |", key.name, shown(key), key.meaning);
    let expected: Vec<String> = KEYS.iter().map(row).collect();
    let rows = PAGE
        .lines()
        .skip_while(|line| *line != "| key | default | meaning |")
        .skip(2);
    let actual: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert_eq!(actual, expected);
}
