// SPDX-License-Identifier: Apache-2.0
//! Names without a meaning.

use crate::breach::Breach;
use crate::repository::{File, Repository, Source};

const BANNED: [&str; 12] = [
    "util", "utils", "utility", "common", "commons", "helper", "helpers", "misc", "stuff",
    "manager", "managers", "impl",
];
/// Spark's own word for the class that ours extends.
const SPARKS_WORD: &str = "shuffle_manager";
/// Stubs have the names of classes of other projects.
const STUBS: &str = "client/stubs/";
const RULE: &str = "empty name";
const TYPE_KEYWORDS: [&str; 8] = [
    "struct",
    "enum",
    "trait",
    "union",
    "class",
    "object",
    "interface",
    "record",
];

pub(super) fn files(repository: &Repository) -> Vec<Breach> {
    let source_paths = named_here(repository).map(|(file, _)| file.path.as_str());
    let mut found = Vec::new();
    for path in source_paths {
        let parts = path
            .split('/')
            .map(|part| part.split('.').next().unwrap_or(part));
        for word in parts.filter_map(banned_word) {
            found.push(Breach::of(path, RULE, advice(word)));
        }
    }
    found
}

pub(super) fn types(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (file, source) in named_here(repository) {
        for (line, code, _) in source.code_lines() {
            let name = type_name(code).or_else(|| code.trim().strip_prefix("mod ").map(identifier));
            if let Some(word) = name.and_then(banned_word) {
                found.push(Breach::at(&file.path, line, RULE, advice(word)));
            }
        }
    }
    found
}

fn named_here(repository: &Repository) -> impl Iterator<Item = (&File, &Source)> {
    let sources = repository.sources();
    sources.filter(|(file, _)| !file.path.starts_with(STUBS))
}

fn advice(word: &str) -> String {
    format!("`{word}` says nothing: name it for the one thing it does")
}

fn type_name(code: &str) -> Option<&str> {
    let mut words = code.split_whitespace();
    words.find(|word| TYPE_KEYWORDS.contains(word))?;
    words.next().map(identifier)
}

fn identifier(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    &text[..end]
}

fn banned_word(name: &str) -> Option<&'static str> {
    let snake = snake_case(name).replace(SPARKS_WORD, "");
    BANNED
        .into_iter()
        .find(|banned| snake.split('_').any(|word| word == *banned))
}

/// `ChunkFetcher` and `chunk-fetcher` as `chunk_fetcher`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(if c == '-' { '_' } else { c }.to_lowercase());
    }
    snake
}
