// SPDX-License-Identifier: Apache-2.0
//! The form of the metrics that a client asks for, by its `Accept` headers. Prometheus asks for
//! OpenMetrics. Other programs may know the older text only, and many of them ask for anything.

use crate::metrics::Form;

/// The versions of the two forms.
const OPEN_VERSION: &str = "1.0.0";
const PLAIN_VERSION: &str = "0.0.4";

/// A kind of answer that a client takes, and how much it wants it, from 0 to 1.
struct Range {
    kind: String,
    version: Option<String>,
    quality: f32,
}

/// Returns the form that these headers want more. Without any wish this is the older text.
pub(super) fn form_for<'a>(headers: impl Iterator<Item = &'a str>) -> Form {
    let ranges: Vec<Range> = headers
        .flat_map(|header| header.split(','))
        .map(range)
        .collect();
    // OpenMetrics only by its name: `*/*` comes from programs that know nothing of it.
    let open = quality(&ranges, &["application/openmetrics-text"], OPEN_VERSION);
    let plain = quality(&ranges, &["text/plain", "text/*", "*/*"], PLAIN_VERSION);
    match open {
        Some(open) if open > 0.0 && open >= plain.unwrap_or(0.0) => Form::Open,
        _ => Form::Plain,
    }
}

/// Returns how much the client wants the first of these kinds that it names, in this version.
fn quality(ranges: &[Range], kinds: &[&str], version: &str) -> Option<f32> {
    kinds.iter().find_map(|kind| {
        let named = ranges.iter().filter(|range| range.kind == *kind);
        let fitting = named.filter(|range| range.version.as_deref().is_none_or(|v| v == version));
        fitting.map(|range| range.quality).reduce(f32::max)
    })
}

fn range(text: &str) -> Range {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let mut range = Range {
        kind,
        version: None,
        quality: 1.0,
    };
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => range.quality = value.parse().unwrap_or(range.quality),
            "version" => range.version = Some(value.to_owned()),
            _ => {}
        }
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_form_that_it_wants_more() {
        let open = [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; Version=1.0.0; Q=0.5, text/plain;q=0.5",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
             application/openmetrics-text;version=0.0.1;q=0.4,\
             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
             text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        ];
        for header in open {
            assert_eq!(form_for([header].into_iter()), Form::Open, "{header}");
        }
        let plain = [
            "",
            "*/*",
            "text/plain",
            "application/openmetrics-text;q=0, text/plain",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.2, */*;q=0.9",
            "application/openmetrics-text; version=0.0.1, text/plain;q=0.5",
            "application/openmetrics-text-of-another-kind",
            "text/html;charset=\"application/openmetrics-text\"",
        ];
        for header in plain {
            assert_eq!(form_for([header].into_iter()), Form::Plain, "{header}");
        }
    }

    #[test]
    fn several_headers_are_one_list() {
        let headers = ["text/plain;q=0.1", "application/openmetrics-text;q=0.9"];
        assert_eq!(form_for(headers.into_iter()), Form::Open);
        assert_eq!(form_for(std::iter::empty()), Form::Plain);
    }
}
