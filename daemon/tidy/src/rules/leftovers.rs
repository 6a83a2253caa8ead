// SPDX-License-Identifier: Apache-2.0
//! Text that should not have been committed.

use crate::breach::Breach;
use crate::mask::Language;
use crate::repository::{File, Repository, Source};

const MARKS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
/// Code that is left over by mistake, and that no linter finds: language, call, and advice.
/// (Clippy's `allow_attributes` does not look at the attributes of a whole file.)
const CALLS: [(Language, &str, &str); 4] = [
    (
        Language::Rust,
        "#![allow(",
        "use #![expect(…, reason = \"…\")]",
    ),
    (
        Language::Scala,
        "println(",
        "log it through slf4j, or remove it",
    ),
    (
        Language::Scala,
        "printStackTrace(",
        "log it through slf4j with its cause",
    ),
    (
        Language::Java,
        "printStackTrace(",
        "throw it, or log it through slf4j",
    ),
];
const LOG_MACROS: [&str; 5] = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];

pub(super) fn comments(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (file, source) in repository.sources() {
        for (at, comment) in source.comments.lines().enumerate() {
            let words = comment.split(|c: char| !c.is_alphanumeric());
            if let Some(mark) = words.into_iter().find(|word| MARKS.contains(word)) {
                let advice = format!("no {mark} in the code: an issue, or done");
                found.push(Breach::at(&file.path, at + 1, "leftover", advice));
            }
            let stands_alone = source.is_prose.get(at) == Some(&true);
            if stands_alone && is_commented_out(comment.trim(), source.language) {
                found.push(Breach::at(
                    &file.path,
                    at + 1,
                    "dead code",
                    "delete it: git remembers",
                ));
            }
        }
    }
    found
}

/// A line comment that ends as a statement does. Documentation may show code.
fn is_commented_out(comment: &str, language: Language) -> bool {
    let Some(text) = comment.strip_prefix("// ").map(str::trim) else {
        return false;
    };
    language != Language::Python
        && text.ends_with([';', '{', '}'])
        && (text.contains(['(', '=']) || text.len() == 1)
}

pub(super) fn code(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (file, source) in repository.sources() {
        let calls = CALLS
            .iter()
            .filter(|(language, ..)| *language == source.language);
        for (_, call, advice) in calls {
            for (line, code, is_test) in source.code_lines() {
                let is_print = *call == "println(" && is_test;
                if starts_word(code, call) && !is_print {
                    found.push(Breach::at(
                        &file.path,
                        line,
                        "leftover",
                        format!("`{call}`: {advice}"),
                    ));
                }
            }
        }
    }
    found
}

/// Returns true if `wanted` is in `code`, not as the end of a longer word.
pub(super) fn starts_word(code: &str, wanted: &str) -> bool {
    code.match_indices(wanted).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Log lines of the daemon are a constant sentence and fields: values in the sentence cannot be
/// searched for.
pub(super) fn log_lines(repository: &Repository) -> Vec<Breach> {
    let is_daemon = |file: &File| file.path.starts_with("daemon/") && !file.is_test();
    let sources = repository.sources().filter(|(file, _)| is_daemon(file));
    sources
        .flat_map(|(file, source)| interpolating_logs(file, source))
        .collect()
}

fn interpolating_logs(file: &File, source: &Source) -> Vec<Breach> {
    if source.language != Language::Rust {
        return Vec::new();
    }
    let texts: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (line, code, _) in source.code_lines() {
        if !LOG_MACROS.iter().any(|call| starts_word(code, call)) {
            continue;
        }
        let rest = texts.iter().skip(line - 1).take(12);
        let statement: Vec<&str> = rest.copied().take_while_inclusive(|t| !t.ends_with(");"));
        let shows_value = |text: &&str| text.contains("{}") || text.contains("{:");
        if statement.iter().any(shows_value) {
            let advice = "put values into fields (`field = %value`), the sentence stays constant";
            found.push(Breach::at(&file.path, line, "log line", advice));
        }
    }
    found
}

/// `take_while` that keeps the first item that ends it.
trait TakeWhileInclusive: Iterator + Sized {
    fn take_while_inclusive(self, mut goes_on: impl FnMut(&Self::Item) -> bool) -> Vec<Self::Item> {
        let mut taken = Vec::new();
        for item in self {
            let more = goes_on(&item);
            taken.push(item);
            if !more {
                break;
            }
        }
        taken
    }
}

impl<I: Iterator> TakeWhileInclusive for I {}
