// SPDX-License-Identifier: Apache-2.0
//! The configurations that a user may write, and the errors that a user gets.

use super::*;

fn parsed(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "test.toml").and_then(Config::checked)
}

/// A file, and flags.
fn both(text: &str, flags: &[&str]) -> Config {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    let flags = command.get_matches_from([&["serve"], flags].concat());
    let file = Config::parse(text, "test.toml").unwrap();
    file.with(&flags).unwrap().checked().unwrap()
}

fn paths<const N: usize>(names: [&str; N]) -> [PathBuf; N] {
    names.map(PathBuf::from)
}

#[test]
fn a_directory_is_enough_and_the_rest_has_the_defaults_of_the_table() {
    let config = parsed("dir = '/data'").unwrap();
    assert_eq!(config.listen.0, "0.0.0.0:7337".parse().unwrap());
    assert_eq!(config.memory, Memory::Bytes(512 << 20));
    assert_eq!(config.max_connections.0, 4096);
    assert_eq!(
        (config.admin, config.announce, config.idle_exit),
        (None, None, None)
    );
    assert_eq!(config.log_format, LogFormat::Text);
    assert_eq!(config.log_level, LogLevel::Info);
}

#[test]
fn lists_are_written_with_commas_or_as_arrays() {
    assert_eq!(parsed("dir = '/a, /b'").unwrap().dirs, paths(["/a, /b"]));
    assert_eq!(
        parsed("dir = ['/a', '/b']").unwrap().dirs,
        paths(["/a", "/b"])
    );
    assert_eq!(both("", &["--dir", "/a, /b"]).dirs, paths(["/a", "/b"]));
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_defaults() {
    let file = "dir = ['/a', '/b']\nmemory = '1g'\nlisten = '127.0.0.1:1'\nidle-exit = '5m'";
    let config = both(file, &["--memory", "32MiB", "--dir", "/c"]);
    assert_eq!(config.memory, Memory::Bytes(32 << 20));
    assert_eq!(config.dirs, paths(["/c"]));
    assert_eq!(config.listen.0, "127.0.0.1:1".parse().unwrap());
    assert_eq!(
        config.idle_exit.unwrap().0,
        std::time::Duration::from_secs(300)
    );
    let config = both(file, &["--memory", "auto", "--listen", "0.0.0.0:7337"]);
    assert_eq!(config.memory, Memory::Auto);
    assert_eq!(
        config.listen.0,
        "0.0.0.0:7337".parse().unwrap(),
        "also where a flag repeats the default"
    );
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
        ("dir = '/a'\nlisten = '[::1]'", "or [::]:7337"),
        (
            "dir = '/a'\nlisten = ['a:1', 'b:2']",
            "`listen`: takes one value",
        ),
        (
            "dir = '/a'\nmax-connections = 0",
            "no number from 1 to 1000000",
        ),
        (
            "dir = '/a'\nlog-format = 'xml'",
            "`log-format`: unknown variant `xml`, expected `text` or `json`",
        ),
        (
            "dir = '/a'\nlog-level = 'loud'",
            "expected one of `error`, `warn`, `info`, `debug`, `trace`",
        ),
        ("dir = true", "`dir`: must be a string"),
        ("dir = ''", "`dir`: an empty name is no directory"),
        (
            "dir = '/a'\nannounce = ''",
            "test.toml: `announce`: an empty name is no file",
        ),
        (
            "dir = '/a'\nannounce = ['/b', '/c']",
            "test.toml: `announce`: takes one value",
        ),
        ("dir = ", "test.toml: "),
    ] {
        let error = parsed(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?} gave {error:?}");
    }
}

#[test]
fn secrets_and_encryption_are_given_by_flag_or_file() {
    let file = "dir = '/a'\nsecrets = '/s'\nencrypted-only = true";
    for config in [
        parsed(file).unwrap(),
        both(file, &["--log-level", "warn"]),
        both("", &["--dir", "/a", "--secrets", "/s", "--encrypted-only"]),
    ] {
        assert_eq!(config.secrets, Some("/s".into()));
        assert!(config.encrypted_only);
    }
    let config = parsed("dir = '/a'").unwrap();
    assert!(config.secrets.is_none() && !config.encrypted_only);
    let error = parsed("dir = '/a'\nencrypted-only = true").unwrap_err();
    assert_eq!(error, ConfigError::NoSecrets);
}

#[test]
fn a_certificate_comes_with_its_key_and_encryption_needs_no_more() {
    let pair = "dir = '/a'\ntls-cert = '/c'\ntls-key = '/k'\nencrypted-only = true";
    let flags = ["--dir", "/a", "--tls-cert", "/c", "--tls-key", "/k"];
    for config in [
        parsed(pair).unwrap(),
        both("", &[&flags[..], &["--encrypted-only"]].concat()),
    ] {
        assert_eq!(config.tls_cert, Some("/c".into()));
        assert_eq!(config.tls_key, Some("/k".into()));
        assert!(config.encrypted_only);
    }
    for half in ["tls-cert = '/c'", "tls-key = '/k'"] {
        let error = parsed(&format!("dir = '/a'\n{half}")).unwrap_err();
        assert_eq!(error, ConfigError::HalfOfTls);
    }
}

#[test]
fn a_zone_is_a_name_that_shows_what_it_is() {
    let file = "dir = '/a'\nzone = 'eu-west-1a'";
    for config in [
        parsed(file).unwrap(),
        both("", &["--dir", "/a", "--zone", "eu-west-1a"]),
    ] {
        assert_eq!(config.zone, Some(Zone("eu-west-1a".to_owned())));
    }
    for wrong in [" ", "two words", "line\\nbreak", "\u{e9}", &"z".repeat(101)] {
        let error = parsed(&format!("dir = '/a'\nzone = \"{wrong}\"")).unwrap_err();
        let expected = "test.toml: `zone`: ";
        assert!(
            error.to_string().starts_with(expected),
            "{wrong:?}: {error}"
        );
        assert!(error.to_string().contains("such as eu-west-1a"));
    }
}

#[test]
fn a_node_without_a_zone_gives_an_empty_one_and_the_daemon_starts_without() {
    let file = "dir = '/a'\nzone = 'eu-west-1a'";
    for config in [
        parsed("dir = '/a'\nzone = ''").unwrap(),
        both("", &["--dir", "/a", "--zone", ""]),
        both(file, &["--zone="]),
    ] {
        assert_eq!(config.zone, None);
    }
}

#[test]
fn an_empty_name_is_refused_on_the_command_line_as_well() {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    let error = command
        .try_get_matches_from(["serve", "--dir", "/a", "--announce", ""])
        .unwrap_err()
        .to_string();
    assert!(error.contains("--announce <FILE>"), "{error}");
    assert!(error.contains("an empty name is no file"), "{error}");
}

const PAGE: &str = include_str!("../../../../docs/operations.md");

#[test]
fn the_table_of_keys_in_the_documentation_is_that_of_the_code() {
    let row = |flag: &clap::Arg| {
        let defaults: Vec<_> = flag.get_default_values().iter().collect();
        let shown = match defaults.as_slice() {
            [default] => format!("`{}`", default.display()),
            _ => "(unset)".to_owned(),
        };
        let meaning = flag.get_help().unwrap().to_string();
        let meaning = meaning.trim_end_matches('.');
        format!("| `{}` | {shown} | {meaning}. |", flag.get_long().unwrap())
    };
    let expected: Vec<String> = arguments().get_arguments().map(row).collect();
    let rows = PAGE
        .lines()
        .skip_while(|line| *line != "| key | default | meaning |")
        .skip(2);
    let actual: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert_eq!(actual, expected);
}
