// SPDX-License-Identifier: Apache-2.0
//! Lines of text, and tables in them.

use std::fmt::Write;

/// Columns as wide as their widest cell, two blanks apart.
pub(super) fn indented(text: &mut String, rows: &[Vec<String>], left: &[usize]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, width))| {
                if left.contains(&at) {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        line(text, &format!("  {}", cells.collect::<Vec<_>>().join("  ")));
    }
}

pub(super) fn line(text: &mut String, line: &str) {
    let written = writeln!(text, "{}", line.trim_end());
    debug_assert!(written.is_ok(), "a string takes every write");
}
