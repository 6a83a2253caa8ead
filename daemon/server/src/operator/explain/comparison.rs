// SPDX-License-Identifier: Apache-2.0
//! The reports of two applications side by side.

use std::collections::{BTreeMap, BTreeSet};

use crate::operator::figures::number;
use crate::operator::report::{Counts, Report, Totals};
use crate::operator::tables::{indented, line};

/// The columns of figures.
const HEADINGS: [&str; 4] = ["", "first", "second", "second / first"];

pub(super) fn text(first: &Report, second: &Report) -> String {
    let mut text = String::new();
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    let (sums, others) = (sums(&first.totals), sums(&second.totals));
    for ((name, one), (_, other)) in sums.into_iter().zip(others) {
        rows.push(row(name, one, other));
    }
    line(&mut text, "sums of the first and the second application");
    indented(&mut text, &rows, &[0]);
    let (ones, others) = (reasons(first), reasons(second));
    let codes: BTreeSet<&String> = ones.keys().chain(others.keys()).collect();
    if !codes.is_empty() {
        let of = |all: &BTreeMap<String, u64>, code| all.get(code).copied().unwrap_or_default();
        let rows = codes
            .into_iter()
            .map(|code| row(code, of(ones, code), of(others, code)));
        line(&mut text, "\nwhy not more");
        indented(&mut text, &rows.collect::<Vec<_>>(), &[0]);
    }
    text
}

fn reasons(page: &Report) -> &BTreeMap<String, u64> {
    &page.totals.counts.reasons
}

fn row(name: &str, one: u64, other: u64) -> Vec<String> {
    #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
    let ratio = match one {
        0 => "-".to_owned(),
        one => format!("{:.2}", other as f64 / one as f64),
    };
    vec![name.to_owned(), number(one), number(other), ratio]
}

fn sums(totals: &Totals) -> Vec<(&'static str, u64)> {
    let Totals {
        shuffles,
        merged,
        plain,
        remote,
        readers_waited_millis,
        counts,
    } = totals;
    let Counts {
        blocks_pushed,
        bytes_pushed,
        push_requests,
        chunks_read,
        chunk_bytes,
        local_chunk_bytes,
        merged_blocks_read,
        originals_read,
        row_bytes,
        compressed_bytes,
        ..
    } = counts;
    let all = [
        ("shuffles", shuffles),
        ("merged", merged),
        ("remote", remote),
        ("plain, or not merged", plain),
        ("blocks pushed", blocks_pushed),
        ("bytes pushed", bytes_pushed),
        ("push requests", push_requests),
        ("bytes of rows", row_bytes),
        ("stored bytes of rows", compressed_bytes),
        ("blocks read merged", merged_blocks_read),
        ("chunks read", chunks_read),
        ("bytes of chunks", chunk_bytes),
        ("of them on the reader's host", local_chunk_bytes),
        ("blocks read from map outputs", originals_read),
        ("ms that readers waited", readers_waited_millis),
    ];
    all.map(|(name, value)| (name, *value)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(totals: &str) -> Report {
        Report::read(&format!("{{\"totals\":{totals}}}")).unwrap()
    }

    #[test]
    fn two_applications_are_compared_by_their_sums_and_reasons() {
        let first = page(r#"{"shuffles":4,"chunksRead":1000,"reasons":{"SINGLE_MAP":1}}"#);
        let second = page(r#"{"shuffles":4,"chunksRead":250,"reasons":{"FEW_BLOCKS":2}}"#);
        let text = text(&first, &second);
        let found: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|w| !w.is_empty())
                    .collect()
            })
            .collect();
        assert!(found.contains(&vec!["chunks read", "1,000", "250", "0.25"]));
        assert!(found.contains(&vec!["shuffles", "4", "4", "1.00"]));
        assert!(found.contains(&vec!["SINGLE_MAP", "1", "0", "0.00"]));
        assert!(found.contains(&vec!["FEW_BLOCKS", "0", "2", "-"]));
    }
}
