// SPDX-License-Identifier: Apache-2.0
//! Text for a terminal.

use std::fmt::Write;

use super::summary::Summary;
use super::{Measured, Phase, Report};
use crate::run::trouble::Aftermath;

/// Columns, and whether they have numbers.
const COLUMNS: [(&str, bool); 17] = [
    ("blocks", true),
    ("phase", false),
    ("server", false),
    ("seconds", true),
    ("least-most", true),
    ("x first", true),
    ("whole %", true),
    ("MB/s", true),
    ("req/s", true),
    ("p50 ms", true),
    ("p99 ms", true),
    ("max ms", true),
    ("CPU s/GB", true),
    ("peak MiB", true),
    ("disk MB r/w", true),
    ("wakes/req", true),
    ("client CPU s", true),
];

/// Everything that a person wants to see at once.
pub fn text(report: &Report) -> String {
    let mut rows = vec![COLUMNS.map(|(name, _)| name.to_owned())];
    rows.extend(report.summary.iter().map(row));
    let mut out = aligned(&rows);
    let machine = &report.machine;
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "\n{} connections{}; {} x {}, {} GiB of memory, Linux {}, {}{}",
        report.connections,
        match report.shuffles {
            1 => String::new(),
            many => format!(", {many} shuffles at once"),
        },
        machine.cores,
        machine.processor,
        machine.memory_bytes >> 30,
        machine.kernel,
        machine.file_system,
        if report.hdd {
            ", reads limited as on a disk with a head"
        } else {
            ""
        },
    );
    for note in notes(report) {
        let _ = writeln!(out, "{note}");
    }
    out
}

fn row(one: &Summary) -> [String; COLUMNS.len()] {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let megabytes = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
    let disk = one.disk_read_bytes.zip(one.disk_write_bytes);
    [
        one.block.clone(),
        one.phase.to_string(),
        one.server.clone(),
        format!("{:.2}", one.seconds.median),
        format!("{:.2}-{:.2}", one.seconds.least, one.seconds.most),
        format!("{:.2}", one.ratio),
        // Not rounded up: one missing block shows.
        format!("{:.1}", (one.complete * 1e3).floor() / 10.0),
        format!("{:.0}", one.megabytes_a_second.median),
        format!("{:.0}", one.requests_a_second),
        format!("{:.1}", one.p50_ms),
        format!("{:.1}", one.p99_ms),
        format!("{:.1}", one.max_ms),
        known(one.cpu_seconds_per_gb.map(|cpu| format!("{cpu:.2}"))),
        known(one.peak_rss_bytes.map(|bytes| (bytes >> 20).to_string())),
        known(disk.map(|(read, write)| format!("{}/{}", megabytes(read), megabytes(write)))),
        known(one.wakes_per_request.map(|wakes| format!("{wakes:.1}"))),
        format!("{:.2}", one.client_cpu_seconds),
    ]
}

fn aligned(rows: &[[String; COLUMNS.len()]]) -> String {
    let mut widths = [0; COLUMNS.len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), (_, is_number)) in row.iter().zip(widths).zip(COLUMNS) {
            let _ = match is_number {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:<width$}  "),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Remarks that do not fit a column, or should not be overlooked.
fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> = report
        .remarks
        .iter()
        .map(|remark| format!("note: {remark}"))
        .collect();
    notes.extend(report.summary.iter().filter_map(|one| merging(one, report)));
    notes.extend(report.rounds.iter().filter_map(trouble));
    notes
}

/// The gain of merging.
fn merging(merged: &Summary, report: &Report) -> Option<String> {
    let is_same = |other: &&Summary| {
        (&other.block, &other.server) == (&merged.block, &merged.server)
            && (merged.phase, other.phase) == (Phase::FetchMerged, Phase::FetchOriginals)
    };
    let originals = report.summary.iter().find(is_same)?;
    let ratio = originals.seconds.median / merged.seconds.median;
    Some(format!(
        "{}, {}: fetching the originals took {ratio:.2} x the time of fetching merged blocks",
        merged.block, merged.server
    ))
}

fn trouble(one: &Measured) -> Option<String> {
    let slow = one.slow_bytes.map(|bytes| {
        let megabytes = bytes as f64 / 1e6;
        let did = match one.phase {
            Phase::Push => "pushed",
            _ => "read",
        };
        format!(
            "{}, {}: slow connections {did} {megabytes:.2} MB meanwhile",
            one.server, one.phase
        )
    });
    let after = one.aftermath.as_ref();
    after.map(|after| what_came(one, after)).or(slow)
}

fn what_came(one: &Measured, after: &Aftermath) -> String {
    let (server, phase) = (&one.server, one.phase);
    let (at, megabytes) = (after.after_seconds, after.bytes_before as f64 / 1e6);
    if let Some(paused) = after.paused_seconds {
        return format!(
            "{server}, {phase}: stood still for {paused:.1} s after {at:.2} s and {megabytes:.0} \
             MB; nothing was lost, the longest answer took {:.0} ms",
            one.latency.max_ms
        );
    }
    let lost = one.bytes as f64 / 1e6;
    let faults: Vec<String> = after
        .faults
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let faults = if faults.is_empty() {
        "none broke".to_owned()
    } else {
        faults.join(", ")
    };
    let what = match phase {
        Phase::Push => format!(
            "{} blocks ({lost:.0} MB) that it had acknowledged went with it, the rest was never \
             taken",
            one.blocks
        ),
        _ => format!(
            "{} of {} blocks ({lost:.0} MB) had come back complete",
            one.blocks, one.planned_blocks
        ),
    };
    format!(
        "{server}, {phase}: killed after {at:.2} s and {megabytes:.0} MB; {what}; connections: \
         {faults}, {} had finished; the last noticed {:.0} ms later",
        after.unharmed,
        after.noticed_seconds * 1e3
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_is_in_them() {
        let mut header = COLUMNS.map(|(name, _)| name.to_owned());
        header[2] = "a server with a long name".to_owned();
        let text = aligned(&[COLUMNS.map(|(name, _)| name.to_owned()), header]);
        let lines: Vec<&str> = text.lines().collect();
        let column = |line: &str| line.find("seconds").unwrap();
        assert_eq!(column(lines[0]), column(lines[1]));
    }
}
