// SPDX-License-Identifier: Apache-2.0
//! Files of `java.util.Properties`, as Spark reads its spark-defaults.conf.

use std::str::Chars;

/// What separates words. Other blanks, such as a no-break space, are part of a key or value.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// Returns the keys and values of a file, in their order.
pub(super) fn properties(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let unix = text.replace("\r\n", "\n");
    let mut lines = unix.split(['\n', '\r']);
    while let Some(line) = lines.next() {
        let mut whole = line.trim_start_matches(BLANKS).to_owned();
        if whole.is_empty() || whole.starts_with(['#', '!']) {
            continue;
        }
        while ends_with_a_backslash(&whole) {
            whole.pop();
            let next = lines.next().unwrap_or_default();
            whole.push_str(next.trim_start_matches(BLANKS));
        }
        found.push(split(&whole));
    }
    found
}

/// Two backslashes are one that belongs to the value.
fn ends_with_a_backslash(line: &str) -> bool {
    let backslashes = line.chars().rev().take_while(|c| *c == '\\').count();
    backslashes % 2 == 1
}

/// A key ends at a blank, `=` or `:`.
fn split(line: &str) -> (String, String) {
    let is_end = |c: char| BLANKS.contains(&c) || c == '=' || c == ':';
    let mut is_escaped = false;
    let end = line.find(|c| {
        let ends = is_end(c) && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    let value = unescaped(value.trim_start_matches(BLANKS));
    // Spark trims what Properties leaves, but for ends of lines that were escaped.
    let is_trimmed = |c: char| c <= ' ' && c != '\n' && c != '\r';
    (unescaped(key), value.trim_matches(is_trimmed).to_owned())
}

/// Java has characters of 16 bits. It writes a larger one as two `\u`.
fn unescaped(text: &str) -> String {
    let (mut units, mut chars) = (Vec::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
            continue;
        }
        let meant = match chars.next() {
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('f') => '\u{c}',
            Some('u') => {
                units.extend(unit(&mut chars));
                continue;
            }
            Some(other) => other,
            None => continue,
        };
        units.extend_from_slice(meant.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16_lossy(&units)
}

/// Returns the character of four digits. With others Java refuses the file.
fn unit(chars: &mut Chars<'_>) -> Option<u16> {
    let digits: String = chars.as_str().chars().take(4).collect();
    let is_hexadecimal = digits.len() == 4 && digits.bytes().all(|one| one.is_ascii_hexdigit());
    let unit = u16::from_str_radix(&digits, 16).ok();
    let unit = unit.filter(|_| is_hexadecimal)?;
    chars.nth(3);
    Some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_means_what_java_and_spark_read_in_it() {
        let text = "# spark.a 1\n  spark.b  two words \nspark.c=3\rspark.d : 4\r\n! no\n\
                    spark.e one,\\\n  \ttwo\nspark.f C:\\\\x\nspark.g\n\
                    \tspark.h\u{c}\u{c}8\n\u{a0}spark.i\u{a0}9\n\
                    spark.j a\\tb\\nc\\rd\\fe\\q\n\
                    spark.k \\u00e9\\uD83D\\uDE00!\nspark\\ l\\=m=n\\:\\\\\n\
                    spark.o a\\\r\n   b\\\n\nspark.p \u{a0}x\u{a0}\t\nspark.q=\\  y\\n\n\
                    # a comment goes on nowhere\\\nspark.r 1";
        let expected = [
            ("spark.b", "two words"),
            ("spark.c", "3"),
            ("spark.d", "4"),
            ("spark.e", "one,two"),
            ("spark.f", "C:\\x"),
            ("spark.g", ""),
            ("spark.h", "8"),
            ("\u{a0}spark.i\u{a0}9", ""),
            ("spark.j", "a\tb\nc\rd\u{c}eq"),
            ("spark.k", "\u{e9}\u{1f600}!"),
            ("spark l=m", "n:\\"),
            ("spark.o", "ab"),
            ("spark.p", "\u{a0}x\u{a0}"),
            ("spark.q", "y\n"),
            ("spark.r", "1"),
        ];
        let found = properties(text);
        let found: Vec<_> = found
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(found, expected);
    }
}
