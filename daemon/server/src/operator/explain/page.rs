// SPDX-License-Identifier: Apache-2.0
//! A report, in a form for people.

use std::iter;

use lodestone_model::AppAttempt;

use super::Found;
use crate::operator::figures::{megabytes, number};
use crate::operator::report::{Report, Sample, Shuffle, Totals};
use crate::operator::tables::{indented, line};

/// The remedy of what needs none.
const NOTHING: &str = "Nothing.";

const COLUMNS: [&str; 16] = [
    "shuffle",
    "generation",
    "maps",
    "partitions",
    "mean block",
    "disk us",
    "state",
    "format",
    "rows",
    "stored",
    "pushed",
    "merged",
    "chunks",
    "originals",
    "waited ms",
    "why not more",
];

/// Columns of text; numbers stand to the right.
const TEXT_COLUMNS: [usize; 3] = [6, 7, 15];

/// The applications that services know.
pub(super) fn list(found: &[Found]) -> String {
    let mut text = String::new();
    if found.is_empty() {
        text.push_str("no application has reported yet\n");
    }
    for one in found {
        line(&mut text, &heading(one));
    }
    text
}

impl Report {
    pub(super) fn application(&self) -> &str {
        &self.application
    }

    pub(super) fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// The text below a first line.
    pub(super) fn text(&self, heading: &str) -> String {
        let mut text = String::new();
        line(&mut text, heading);
        if !self.version.is_empty() {
            line(&mut text, &self.version);
        }
        text.push('\n');
        self.sums(&mut text);
        self.reasons(&mut text);
        self.services(&mut text);
        self.table(&mut text);
        text
    }

    fn sums(&self, text: &mut String) {
        let Totals {
            shuffles,
            merged,
            plain,
            remote,
            readers_waited_millis: waited,
            counts,
        } = &self.totals;
        let away = match remote {
            0 => String::new(),
            remote => format!("{} remote, ", number(*remote)),
        };
        line(
            text,
            &format!(
                "{} shuffles: {} merged, {away}{} left to plain Spark",
                number(*shuffles),
                number(*merged),
                number(*plain)
            ),
        );
        line(
            text,
            &format!(
                "pushed   {} blocks, {}, in {} requests",
                number(counts.blocks_pushed),
                megabytes(counts.bytes_pushed),
                number(counts.push_requests)
            ),
        );
        if counts.row_bytes > 0 {
            line(
                text,
                &format!(
                    "encoded  {} of rows in {}, and compressed to {}",
                    megabytes(counts.row_bytes),
                    megabytes(counts.encoded_bytes),
                    megabytes(counts.compressed_bytes)
                ),
            );
        }
        line(
            text,
            &format!(
                "read     {} merged blocks in {} chunks, {} ({} on the own host); {} originals",
                number(counts.merged_blocks_read),
                number(counts.chunks_read),
                megabytes(counts.chunk_bytes),
                megabytes(counts.local_chunk_bytes),
                number(counts.originals_read)
            ),
        );
        line(
            text,
            &format!(
                "waited   {} ms: readers, for pushes to end",
                number(*waited)
            ),
        );
    }

    fn reasons(&self, text: &mut String) {
        let reasons = &self.totals.counts.reasons;
        if reasons.is_empty() {
            return;
        }
        line(text, "\nwhy not more");
        let rows = reasons.iter().flat_map(|(code, count)| {
            let sentence = self.sentences.get(code).cloned().unwrap_or_default();
            let remedy = self.remedies.get(code).filter(|text| *text != NOTHING);
            let row = vec![code.clone(), number(*count), sentence];
            let below = remedy.map(|text| vec![String::new(), String::new(), text.clone()]);
            iter::once(row).chain(below)
        });
        indented(text, &rows.collect::<Vec<_>>(), &[0, 2]);
    }

    fn services(&self, text: &mut String) {
        if self.services.is_empty() {
            return;
        }
        line(text, "\nservices");
        let rows = self
            .services
            .iter()
            .map(|one| vec![one.host_port.clone(), one.state.clone()]);
        indented(text, &rows.collect::<Vec<_>>(), &[0, 1]);
    }

    fn table(&self, text: &mut String) {
        if self.shuffles.is_empty() {
            return;
        }
        let (shown, all) = (self.shuffles.len() as u64, self.totals.shuffles);
        match all.saturating_sub(shown) {
            0 => line(text, "\nshuffles"),
            _ => line(
                text,
                &format!("\nthe last {} of {} shuffles", number(shown), number(all)),
            ),
        }
        let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
        rows.extend(self.shuffles.iter().map(Shuffle::row));
        indented(text, &rows, &TEXT_COLUMNS);
    }
}

impl Shuffle {
    fn row(&self) -> Vec<String> {
        let counts = &self.counts;
        let why = counts
            .reasons
            .iter()
            .map(|(code, count)| format!("{code} {}", number(*count)));
        vec![
            self.shuffle_id.to_string(),
            self.generation.to_string(),
            number(self.maps),
            number(self.partitions),
            known(self.sample.as_ref().and_then(Sample::mean)),
            known(self.sample.as_ref().and_then(Sample::disk)),
            self.state.clone(),
            self.format.clone(),
            encoded(counts.row_bytes),
            encoded(counts.compressed_bytes),
            number(counts.blocks_pushed),
            number(counts.merged_blocks_read),
            number(counts.chunks_read),
            number(counts.originals_read),
            number(self.readers_waited_millis),
            why.collect::<Vec<_>>().join(", "),
        ]
    }
}

impl Sample {
    /// Returns the mean size of a block in bytes.
    fn mean(&self) -> Option<u64> {
        self.bytes.checked_div(self.blocks)
    }

    /// Microseconds of a small read, where that is known.
    fn disk(&self) -> Option<u64> {
        u64::try_from(self.disk_read_micros).ok()
    }
}

/// The bytes of encoded rows; there are none in Spark's format.
fn encoded(bytes: u64) -> String {
    if bytes == 0 {
        "-".to_owned()
    } else {
        megabytes(bytes)
    }
}

fn known(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

pub(super) fn heading(found: &Found) -> String {
    let kept = &found.kept;
    let attempt = match kept.app_attempt {
        AppAttempt::NONE => String::new(),
        attempt => format!(" attempt {attempt}"),
    };
    let when = if kept.ended { "ended" } else { "reported" };
    format!(
        "{}{attempt}: {when} {} ago, says {}",
        kept.app,
        duration(kept.age_ms),
        found.service
    )
}

fn duration(millis: i64) -> String {
    match millis / 1000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests;
