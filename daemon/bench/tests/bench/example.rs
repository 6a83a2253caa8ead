// SPDX-License-Identifier: Apache-2.0
//! `examples/daemon.rs`, which the tests start. `cargo test` builds it before it runs the tests of
//! this crate, but `cargo test --test bench` does not: without a check the tests would then start
//! an older daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Returns the program, and panics if it is older than its sources.
pub(crate) fn daemon() -> PathBuf {
    let bench = Path::new(env!("CARGO_BIN_EXE_lodestone-bench"));
    let daemon = bench.with_file_name("examples").join("daemon");
    if let Some(problem) = outdated(&daemon) {
        panic!("{problem}: run `cargo build -p lodestone-bench --examples` first");
    }
    daemon
}

/// Returns why the program must be built again. Cargo writes the names of its sources into a file
/// beside it.
fn outdated(program: &Path) -> Option<String> {
    let Some(built) = changed(program) else {
        return Some(format!("{} is missing", program.display()));
    };
    let list = program.with_extension("d");
    let Ok(rule) = fs::read_to_string(&list) else {
        return Some(format!("{} is missing", list.display()));
    };
    let newer = |source: &PathBuf| changed(source).is_none_or(|time| time > built);
    let source = sources(&rule).into_iter().find(newer)?;
    let (program, source) = (program.display(), source.display());
    Some(format!("{program} is older than {source}"))
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Returns the files after the colon of a rule of `make`, in which a backslash is before each
/// space of a name.
fn sources(rule: &str) -> Vec<PathBuf> {
    const SPACE: &str = "\0";
    let (_, names) = rule.split_once(": ").unwrap_or_default();
    let names = names.replace("\\ ", SPACE);
    let named = |name: &str| PathBuf::from(name.replace(SPACE, " "));
    names.split_whitespace().map(named).collect()
}

#[test]
fn a_daemon_that_is_older_than_one_of_its_sources_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [program, source, list] = ["daemon", "a source.rs", "daemon.d"].map(|name| {
        let path = folder.path().join(name);
        fs::write(&path, "").unwrap();
        path
    });
    let name = source.to_str().unwrap().replace(' ', "\\ ");
    fs::write(&list, format!("{}: {name}\n", program.display())).unwrap();
    let built = changed(&program).unwrap();
    let touch = |path: &Path, time| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    };
    let second = Duration::from_secs(1);

    touch(&source, built - second);
    assert_eq!(outdated(&program), None);
    touch(&source, built + second);
    let problem = outdated(&program).unwrap();
    assert!(problem.ends_with("a source.rs"), "{problem}");
    for gone in [&source, &list, &program] {
        fs::remove_file(gone).unwrap();
        assert!(outdated(&program).is_some(), "{}", gone.display());
    }
}

#[test]
fn the_daemon_is_built_from_the_sources_of_the_store_too() {
    let rule = fs::read_to_string(daemon().with_extension("d")).unwrap();
    let found = sources(&rule);
    assert!(found.iter().any(|path| path.ends_with("store/src/lib.rs")));
}
