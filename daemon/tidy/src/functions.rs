// SPDX-License-Identifier: Apache-2.0
//! Finds functions of Scala and Java and their lengths in masked code, by indentation. Clippy
//! (`too_many_lines`) limits functions of Rust, and ruff (`PLR0915`) limits functions of Python.

use crate::mask::Language;

/// One function, method or constructor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of its head, from 1.
    pub line: usize,
    /// Lines from its head to its end.
    pub lines: usize,
}

/// Returns all functions in `code`, which must be masked: comments and texts are blank.
pub fn functions(code: &str, language: Language) -> Vec<Function> {
    let lines: Vec<&str> = code.lines().collect();
    let head = |at: usize| head_name(&lines, at, language).map(|name| (at, name));
    (0..lines.len())
        .filter_map(head)
        .map(|(at, name)| Function {
            name,
            line: at + 1,
            lines: end_of_item(&lines, at) - at,
        })
        .collect()
}

/// Returns the line after the item that starts at `start`: the first line that is not blank, not
/// indented deeper, and continues neither the head (`): T = {`) nor a branch (`} else {`).
pub fn end_of_item(lines: &[&str], start: usize) -> usize {
    let depth = indent(lines[start]);
    let mut end = start + 1;
    for (at, line) in lines.iter().enumerate().skip(start + 1) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        if indent(line) < depth || (indent(line) == depth && !goes_on_with(trimmed)) {
            return end;
        }
        if indent(line) == depth && is_last(trimmed) {
            return at + 1;
        }
        end = at + 1;
    }
    end
}

/// Returns true if a line with the head's indentation may still belong to it: `) -> T {`, `where`,
/// `{`, `}`.
fn goes_on_with(line: &str) -> bool {
    line == "where" || line.starts_with([')', '}', ']', '{'])
}

/// A closing brace after which no other branch (`} else {`) opens.
fn is_last(line: &str) -> bool {
    line.starts_with('}') && !line.ends_with(['{', '('])
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

fn head_name(lines: &[&str], at: usize, language: Language) -> Option<String> {
    match language {
        Language::Scala => name_after(lines[at], "def"),
        Language::Java => java_method(lines, at),
        Language::Rust | Language::Python => None,
    }
}

/// The identifier after a keyword: `pub fn name(`.
fn name_after(line: &str, keyword: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    words.find(|&word| word == keyword)?;
    let name: String = words
        .next()?
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!name.is_empty()).then_some(name)
}

/// Finds a Java head: something with parentheses before a `{` that is no statement and no type.
fn java_method(lines: &[&str], at: usize) -> Option<String> {
    let head = java_head(lines, at)?;
    let (before, _) = head.split_once('(')?;
    let words: Vec<&str> = before.split_whitespace().collect();
    let name = words.last()?;
    let first = words.first()?;
    const NO_METHOD: [&str; 13] = [
        "if",
        "for",
        "while",
        "switch",
        "catch",
        "try",
        "else",
        "do",
        "return",
        "new",
        "throw",
        "synchronized",
        "}",
    ];
    let is_method = !NO_METHOD.contains(first)
        && !before.contains(['=', '.', '{'])
        && !head.contains("->")
        && !words
            .iter()
            .any(|word| ["class", "record", "enum", "interface"].contains(word));
    is_method.then(|| (*name).to_owned())
}

/// Returns the text from line `at` up to its `{`, if the line is the first of such a head (four
/// lines at most).
fn java_head(lines: &[&str], at: usize) -> Option<String> {
    let mut head = String::new();
    for line in lines.iter().skip(at).take(12) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('@') {
            return None;
        }
        head.push_str(trimmed);
        head.push(' ');
        if trimmed.ends_with('{') {
            let opened = head.matches('(').count();
            return (opened > 0 && opened == head.matches(')').count()).then_some(head);
        }
        if trimmed.ends_with([';', '}']) || !head.contains('(') {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests;
