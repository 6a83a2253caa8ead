// SPDX-License-Identifier: Apache-2.0
//! What a shuffle lost, by the figures of the report. The costs are estimates, for the order only.

use super::checks::{LEFT_TO_SPARK, ORIGINALS, RERUN, TROUBLE, WAITED};
use super::reasons::Reasons;
use crate::operator::doctor::finding::{Finding, Level};
use crate::operator::figures::number;
use crate::operator::report::Shuffle;

/// A small read, if the report has no measured one: a request and its set-up.
const READ_MILLIS: f64 = 0.1;

/// A map task that runs again takes at least so long.
const TASK_MILLIS: f64 = 1000.0;

/// Readers that wait for less are only worth a note.
const LONG_MILLIS: u64 = 1000;

/// Codes for which all maps of a remote shuffle run again.
const RERUNS: [&str; 4] = [
    "OUTPUT_LOST",
    "CHUNK_BROKEN",
    "RECORDS_MISMATCH",
    "CHUNK_CHECKSUM_MISMATCH",
];

/// Codes that count something else than blocks, and are no cause why an original was read.
const OF_OTHER_THINGS: [&str; 10] = [
    "SERVICE_LEFT_OUT",
    "PUSH_NOT_AWAITED",
    "REPLICAS_MISSING",
    "REPLICAS_IN_ONE_ZONE",
    "REMOTE_MOVED",
    "READER_CUT_OFF",
    "OUTPUT_LOST",
    "ORIGINAL_MISMATCH",
    "RECORDS_UNCHECKED",
    "ENGINE_SHUFFLE_OFF",
];

/// A finding, and how many milliseconds all tasks together may have lost.
pub(super) struct Cost {
    pub(super) cost: f64,
    pub(super) finding: Finding,
}

/// Returns what a shuffle lost for reasons that can be changed.
pub(super) fn of(shuffle: &Shuffle, reasons: &Reasons<'_>) -> Vec<Cost> {
    let mut found = Vec::new();
    let reruns = rerun(shuffle, reasons);
    let read = originals(shuffle, reasons);
    let named = reruns.is_some() || read.is_some();
    found.extend(reruns);
    found.extend(read);
    found.extend(waited(shuffle));
    match left(shuffle, reasons) {
        Some(cost) => found.push(cost),
        None if !named => found.extend(trouble(shuffle, reasons)),
        None => {}
    }
    found
}

fn name(shuffle: &Shuffle) -> String {
    let (id, maps, partitions) = (shuffle.shuffle_id, shuffle.maps, shuffle.partitions);
    format!(
        "shuffle {id} ({} maps, {} partitions)",
        number(maps),
        number(partitions)
    )
}

fn read_millis(shuffle: &Shuffle) -> f64 {
    let measured = shuffle
        .sample
        .as_ref()
        .map(|sample| sample.disk_read_micros);
    match measured {
        Some(micros @ 1..) => micros as f64 / 1000.0,
        _ => READ_MILLIS,
    }
}

/// How codes end that follow from another failure, which has a code of its own.
const CONSEQUENCE: &str = "_SERVICE_SUSPECT";

/// Returns the code that counts most. A consequence comes after all others.
pub(super) fn most<'a>(
    counted: impl Iterator<Item = (&'a String, &'a u64)>,
) -> Option<(&'a str, u64)> {
    counted
        .map(|(code, count)| (code.as_str(), *count))
        .max_by_key(|(code, count)| (!code.ends_with(CONSEQUENCE), *count))
}

/// Returns the code that counts most, of those that can be changed.
fn largest<'a>(
    shuffle: &'a Shuffle,
    reasons: &Reasons<'_>,
    counts: impl Fn(&str) -> bool,
) -> Option<(&'a str, u64)> {
    let all = shuffle.counts.reasons.iter();
    most(all.filter(|(code, count)| counts(code) && reasons.matters(shuffle, code, **count)))
}

fn rerun(shuffle: &Shuffle, reasons: &Reasons<'_>) -> Option<Cost> {
    let is_remote = shuffle.state == "remote";
    let (code, count) = largest(shuffle, reasons, |code| RERUNS.contains(&code))?;
    let text = format!(
        "all maps of {} ran again: {} ({code} {})",
        name(shuffle),
        reasons.sentence(code),
        number(count)
    );
    is_remote.then(|| Cost {
        cost: count as f64 * shuffle.maps as f64 * TASK_MILLIS,
        finding: RERUN.warning(text).instead(reasons.remedy(code)),
    })
}

fn originals(shuffle: &Shuffle, reasons: &Reasons<'_>) -> Option<Cost> {
    let read = shuffle.counts.originals_read;
    let is_merged = shuffle.state == "merged" || shuffle.counts.merged_blocks_read > 0;
    let of_blocks = |code: &str| !OF_OTHER_THINGS.contains(&code);
    let (code, count) = largest(shuffle, reasons, of_blocks).filter(|_| read > 0 && is_merged)?;
    let all = shuffle.counts.reasons.iter();
    let lost =
        all.filter(|(code, count)| of_blocks(code) && reasons.matters(shuffle, code, **count));
    let lost: u64 = lost.map(|(_, count)| count).sum();
    let millis = lost.min(read) as f64 * read_millis(shuffle);
    let text = format!(
        "{}: {} originals were read beside {} merged blocks, about {millis:.0} ms in small reads: \
         {} ({code} {})",
        name(shuffle),
        number(read),
        number(shuffle.counts.merged_blocks_read),
        reasons.sentence(code),
        number(count)
    );
    Some(Cost {
        cost: millis,
        finding: ORIGINALS.warning(text).instead(reasons.remedy(code)),
    })
}

fn waited(shuffle: &Shuffle) -> Option<Cost> {
    let millis = shuffle.readers_waited_millis;
    let level = match millis {
        0 => return None,
        1..LONG_MILLIS => Level::Note,
        _ => Level::Warning,
    };
    let text = format!(
        "{}: its readers waited {} ms for pushes to end",
        name(shuffle),
        number(millis)
    );
    Some(Cost {
        cost: millis as f64,
        finding: WAITED.at(level, text),
    })
}

fn left(shuffle: &Shuffle, reasons: &Reasons<'_>) -> Option<Cost> {
    let code = shuffle.decision.as_deref()?;
    let is_left = shuffle.state == "plain" && reasons.can_change(code);
    let blocks = shuffle.maps as f64 * shuffle.partitions as f64;
    let text = format!(
        "{} was left to plain Spark: {} ({code})",
        name(shuffle),
        reasons.sentence(code)
    );
    is_left.then(|| Cost {
        cost: blocks * read_millis(shuffle),
        finding: LEFT_TO_SPARK.warning(text).instead(reasons.remedy(code)),
    })
}

fn trouble(shuffle: &Shuffle, reasons: &Reasons<'_>) -> Option<Cost> {
    let (code, count) = largest(shuffle, reasons, |_| true)?;
    let text = format!(
        "{}: {} ({code} {})",
        name(shuffle),
        reasons.sentence(code),
        number(count)
    );
    Some(Cost {
        cost: count as f64 * READ_MILLIS,
        finding: TROUBLE.warning(text).instead(reasons.remedy(code)),
    })
}
