// SPDX-License-Identifier: Apache-2.0
//! The fuzzer (`daemon/fuzz`) is a workspace of its own, which no other test compiles: it decodes
//! every message, and begins with all golden bytes.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod vectors;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn below_daemon(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The sources below a directory.
fn sources(dir: PathBuf) -> String {
    let mut all = String::new();
    let mut dirs = vec![dir];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => dirs.push(path),
                Some(end) if end == "rs" => all += &fs::read_to_string(path).unwrap(),
                _ => {}
            }
        }
    }
    all
}

/// The words that stand after `before`, where more of the declaration may stand between them.
fn names(text: &str, before: &str, between: &str) -> BTreeSet<String> {
    let found = text.split(before).skip(1).filter_map(|rest| {
        let (_, rest) = rest.split_once(between)?;
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
        Some(name).filter(|name| !name.is_empty())
    });
    found.collect()
}

#[test]
fn the_fuzzer_decodes_every_message() {
    let wire = sources(below_daemon("wire/src"));
    let mut declared = names(&wire, "\nmessage! {", "pub struct ");
    declared.extend(names(&wire, "\nimpl Message for", " "));
    let fuzzed = fs::read_to_string(below_daemon("fuzz/src/decode.rs")).unwrap();
    let calls = fuzzed.lines().filter_map(|line| {
        let path = line.trim().strip_prefix("read_and_write::<")?;
        let (path, _) = path.split_once('>')?;
        path.rsplit("::").next().map(str::to_owned)
    });
    let decoded: BTreeSet<String> = calls.collect();
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(
        decoded, declared,
        "add it to `messages` in fuzz/src/decode.rs"
    );
}

#[test]
fn the_fuzzer_begins_with_all_golden_bytes_as_they_are_now() {
    let corpus = below_daemon("fuzz/corpus/decode");
    for file in ["extension-messages.txt", "spark-messages.txt"] {
        let golden = vectors::read(file);
        assert!(golden.len() > 20);
        for (name, bytes) in golden {
            let found = fs::read(corpus.join(&name)).unwrap_or_default();
            let (found, golden) = (vectors::to_hex(&found), vectors::to_hex(&bytes));
            assert_eq!(found, golden, "write these bytes to corpus/decode/{name}");
        }
    }
}
