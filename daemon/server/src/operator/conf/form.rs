// SPDX-License-Identifier: Apache-2.0
//! The forms in which keys are printed.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::{ConfError, Keys};
use crate::cli::Form;

/// Returns the keys in this form, with a line feed at the end.
pub(super) fn text(form: Form, keys: &Keys) -> Result<String, ConfError> {
    match form {
        Form::Submit => submit(keys),
        Form::Properties => Ok(properties(keys)),
        Form::Json => Ok(json(keys)),
    }
}

fn submit(keys: &Keys) -> Result<String, ConfError> {
    let mut text = String::new();
    for (key, value) in keys {
        if value.contains(char::is_whitespace) {
            return Err(ConfError::Blank(value.clone()));
        }
        // A String takes everything.
        let _ = writeln!(text, "--conf {key}={value}");
    }
    Ok(text)
}

/// Spark reads its defaults as a file of Java's properties, in which a backslash begins an escape.
fn properties(keys: &Keys) -> String {
    let line = |(key, value): &(&str, String)| format!("{key} {}\n", value.replace('\\', "\\\\"));
    keys.iter().map(line).collect()
}

fn json(keys: &Keys) -> String {
    let value = |(key, value): &(&str, String)| ((*key).to_owned(), Value::from(value.as_str()));
    format!(
        "{:#}\n",
        Value::Object(keys.iter().map(value).collect::<Map<_, _>>())
    )
}
