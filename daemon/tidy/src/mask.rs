// SPDX-License-Identifier: Apache-2.0
//! Separates code from comments and from texts (string and character literals), character by
//! character.

/// The languages whose code is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Language {
    /// `.rs`
    Rust,
    /// `.scala`
    Scala,
    /// `.java`
    Java,
    /// `.py`
    Python,
}

/// The kind of a character.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Code, and white space around it.
    Code,
    /// A comment with its marks.
    Comment,
    /// A string or character literal with its quotes.
    Text,
}

/// The kind of each character of `source`.
pub fn kinds(source: &[char], language: Language) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; source.len()];
    let mut at = 0;
    while at < source.len() {
        let (kind, end) = match token(&source[at..], language) {
            Some((kind, length)) => (kind, at + length),
            None => (Kind::Code, at + word_length(&source[at..])),
        };
        kinds[at..end].fill(kind);
        at = end;
    }
    kinds
}

/// Returns `source` with blanks in place of everything that is not of `wanted`; line breaks stay.
pub fn only(source: &[char], kinds: &[Kind], wanted: Kind) -> String {
    let keep = |(&c, &kind): (&char, &Kind)| if kind == wanted || c == '\n' { c } else { ' ' };
    source.iter().zip(kinds).map(keep).collect()
}

/// Returns the kind and length of a comment or text that starts here; `None` if code starts.
fn token(rest: &[char], language: Language) -> Option<(Kind, usize)> {
    if let Some(length) = comment(rest, language) {
        return Some((Kind::Comment, length));
    }
    text(rest, language).map(|length| (Kind::Text, length))
}

fn comment(rest: &[char], language: Language) -> Option<usize> {
    let mark = if language == Language::Python {
        "#"
    } else {
        "//"
    };
    if starts_with(rest, mark) {
        return Some(rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()));
    }
    if language == Language::Python || !starts_with(rest, "/*") {
        return None;
    }
    let nests = language != Language::Java;
    let (mut depth, mut at) = (1, 2);
    while depth > 0 && at < rest.len() {
        if starts_with(&rest[at..], "*/") {
            depth -= 1;
            at += 2;
        } else if nests && starts_with(&rest[at..], "/*") {
            depth += 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    Some(at)
}

fn text(rest: &[char], language: Language) -> Option<usize> {
    if language == Language::Rust
        && let Some(length) = raw_text(rest)
    {
        return Some(length);
    }
    let triples: &[&str] = match language {
        Language::Rust => &[],
        Language::Scala | Language::Java => &["\"\"\""],
        Language::Python => &["\"\"\"", "'''"],
    };
    if let Some(quotes) = triples.iter().find(|quotes| starts_with(rest, quotes)) {
        return Some(triple_length(rest, quotes, language != Language::Scala));
    }
    match rest.first()? {
        '"' => Some(quoted_length(rest)),
        '\'' if language == Language::Python => Some(quoted_length(rest)),
        '\'' => character_length(rest),
        _ => None,
    }
}

/// `r"…"`, `r#"…"#`, `br"…"` and their like.
fn raw_text(rest: &[char]) -> Option<usize> {
    let prefix = ["br", "cr", "r"]
        .into_iter()
        .find(|prefix| starts_with(rest, prefix))?
        .len();
    let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
    if rest.get(prefix + hashes) != Some(&'"') {
        return None;
    }
    let end: String = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    let start = prefix + hashes + 1;
    let found = (start..rest.len()).find(|&at| starts_with(&rest[at..], &end));
    Some(found.map_or(rest.len(), |at| at + end.len()))
}

/// Scala's triple quotes have no escapes, and may end in more than three quotes.
fn triple_length(rest: &[char], quotes: &str, escapes: bool) -> usize {
    let mut at = quotes.len();
    while at < rest.len() {
        if escapes && rest[at] == '\\' {
            at += 2;
        } else if starts_with(&rest[at..], quotes) {
            let quote = rest[at];
            return at + rest[at..].iter().take_while(|&&c| c == quote).count();
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted_length(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            c if c == rest[0] => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character literal, not a lifetime or a Scala symbol.
fn character_length(rest: &[char]) -> Option<usize> {
    match rest.get(1)? {
        '\\' => Some(2 + rest[2..].iter().skip(1).position(|&c| c == '\'')? + 2),
        _ if rest.get(2) == Some(&'\'') => Some(3),
        _ => None,
    }
}

/// Words are taken as a unit, so that the `r` of `bar"` starts no raw text.
fn word_length(rest: &[char]) -> usize {
    let is_word = |c: &&char| c.is_alphanumeric() || **c == '_';
    rest.iter().take_while(is_word).count().max(1)
}

fn starts_with(rest: &[char], mark: &str) -> bool {
    let mut rest = rest.iter();
    mark.chars().all(|c| rest.next() == Some(&c))
}

#[cfg(test)]
mod tests;
