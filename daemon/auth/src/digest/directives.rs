// SPDX-License-Identifier: Apache-2.0
//! `key=value,key="value"`: the form of tokens of DIGEST-MD5.

use std::collections::BTreeMap;

use crate::Denied;

/// The values of a token, by their keys.
#[derive(Debug)]
pub(crate) struct Directives<'a>(BTreeMap<&'a str, String>);

impl<'a> Directives<'a> {
    /// A key must not be there twice: two readers would see different values.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Denied> {
        let malformed = Denied::Malformed("no list of key=value");
        let mut values = BTreeMap::new();
        let mut rest = text;
        loop {
            let (key, after) = rest.split_once('=').ok_or(malformed)?;
            let (value, after) = value(after).ok_or(malformed)?;
            if values.insert(key.trim(), value).is_some() {
                return Err(Denied::Malformed("a key twice"));
            }
            let after = after.trim_start();
            if after.is_empty() {
                return Ok(Self(values));
            }
            rest = after.strip_prefix(',').ok_or(malformed)?;
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

/// Takes a value, and returns what is behind it. `None` if a quote has no end.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Some((value.trim_end().to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, quoted.get(place + 1..)?)),
            // The next letter as it is.
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_and_without_quotes() {
        let directives = Directives::parse(r#"a=1, b="x,\"y\"=",c="""#).unwrap();
        assert_eq!(directives.get("a"), Some("1"));
        assert_eq!(directives.get("b"), Some(r#"x,"y"="#));
        assert_eq!(directives.get("c"), Some(""));
        assert_eq!(directives.get("d"), None);
    }

    #[test]
    fn what_two_readers_could_understand_in_two_ways_is_refused() {
        for text in [
            "",
            "a",
            "a=1,",
            "a=1,a=2",
            r#"a="1"#,
            r#"a="1"b=2"#,
            r#"a="\"#,
        ] {
            assert!(Directives::parse(text).is_err(), "{text:?}");
        }
    }
}
