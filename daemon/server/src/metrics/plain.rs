// SPDX-License-Identifier: Apache-2.0
//! The text format of Prometheus before OpenMetrics. There a declaration of a counter has the whole
//! name of its samples; otherwise they have no kind and no help.

use std::collections::HashSet;

const ENDING: &str = "_total";

/// Returns the older form of an OpenMetrics text without its end.
pub(super) fn of(open: &str) -> String {
    let counter = |line| {
        let declared: &str = str::strip_prefix(line, "# TYPE ")?;
        declared.strip_suffix(" counter")
    };
    let counters: HashSet<&str> = open.lines().filter_map(counter).collect();
    let mut plain = String::with_capacity(open.len() + counters.len() * 2 * ENDING.len());
    for line in open.lines() {
        match declaration(line).filter(|(_, name, _)| counters.contains(name)) {
            Some((word, name, rest)) => {
                plain.extend(["# ", word, " ", name, ENDING, " ", rest, "\n"]);
            }
            None => plain.extend([line, "\n"]),
        }
    }
    plain
}

/// Returns the parts of `# HELP name rest` and `# TYPE name rest`.
fn declaration(line: &str) -> Option<(&str, &str, &str)> {
    let (word, rest) = line.strip_prefix("# ")?.split_once(' ')?;
    let (name, rest) = rest.split_once(' ')?;
    Some((word, name, rest))
}
