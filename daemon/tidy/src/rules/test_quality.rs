// SPDX-License-Identifier: Apache-2.0
//! Tests that wait for luck, assert nothing, or have a name that does not say what they assert.

use super::leftovers::starts_word;
use crate::breach::Breach;
use crate::mask::Language;
use crate::repository::{Repository, Source};

/// Words in the name of a test, without `test` itself.
const NAME_WORDS: usize = 3;

pub(super) fn sleeps(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (file, source) in repository.sources() {
        for (line, code, _) in source.code_lines().filter(|(_, _, is_test)| *is_test) {
            if starts_word(code, "sleep(") {
                let advice =
                    "wait for the event, with a time-out: a sleep is too short or too long";
                found.push(Breach::at(&file.path, line, "sleep in a test", advice));
            }
        }
    }
    found
}

/// A `matches!(…);` statement throws its answer away.
pub(super) fn bare_matches(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (file, source) in repository.sources() {
        let mut starts_statement = true;
        for (line, code, _) in source.code_lines() {
            let code = code.trim();
            if starts_statement && code.starts_with("matches!(") && code.ends_with(");") {
                let advice = "asserts nothing: write assert!(matches!(…))";
                found.push(Breach::at(&file.path, line, "bare matches!", advice));
            }
            if !code.is_empty() {
                starts_statement = code.ends_with([';', '{', '}']);
            }
        }
    }
    found
}

pub(super) fn names(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (file, source) in repository.sources() {
        for (line, name) in test_functions(source) {
            if words(&name) < NAME_WORDS {
                let advice = format!("`{name}` is no sentence: say what a user would lose");
                found.push(Breach::at(&file.path, line, "name of a test", advice));
            }
        }
    }
    found
}

/// Functions marked as tests, by attribute or annotation, and Python's by their prefix.
fn test_functions(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<(usize, &str)> = source
        .code_lines()
        .map(|(at, code, _)| (at, code))
        .collect();
    let is_mark = |code: &str| {
        let code = code.trim();
        match source.language {
            Language::Rust => code == "#[test]" || code.starts_with("#[tokio::test"),
            _ => code == "@Test" || code.starts_with("@Test "),
        }
    };
    let mut found = Vec::new();
    for (at, (line, code)) in lines.iter().enumerate() {
        if source.language == Language::Python {
            found.extend(python_test(code).map(|name| (*line, name)));
        } else if is_mark(code) {
            let head = lines[at..].iter().take(4).find_map(|(line, code)| {
                function_name(code, source.language).map(|name| (*line, name))
            });
            found.extend(head);
        }
    }
    found
}

fn python_test(code: &str) -> Option<String> {
    let name = code.trim().strip_prefix("def test_")?;
    Some(name.split('(').next().unwrap_or(name).to_owned())
}

fn function_name(code: &str, language: Language) -> Option<String> {
    let keyword = match language {
        Language::Rust => "fn ",
        Language::Scala => "def ",
        _ => "void ",
    };
    let name = code.split_once(keyword)?.1.trim();
    let quoted = name
        .strip_prefix('`')
        .and_then(|name| name.split('`').next());
    let plain = name
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next();
    quoted.or(plain).map(str::to_owned)
}

fn words(name: &str) -> usize {
    let parts = name.split(['_', ' ']).filter(|word| !word.is_empty());
    let capitals = |word: &str| word.chars().skip(1).filter(|c| c.is_uppercase()).count();
    parts.map(|word| 1 + capitals(word)).sum()
}
