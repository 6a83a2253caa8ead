// SPDX-License-Identifier: Apache-2.0
//! A report, in a form for people. The report's fields are those of `ReportJson.scala`. A missing
//! field counts as empty, and an unknown one is not shown.

use std::collections::BTreeMap;

use lodestone_model::AppAttempt;
use serde::Deserialize;

use super::Found;
use super::columns::{indented, line};
use crate::operator::figures::{megabytes, number};

/// The report of the driver.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Page {
    version: String,
    totals: Totals,
    shuffles: Vec<Shuffle>,
    services: Vec<Service>,
    /// The meaning of each code.
    sentences: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Totals {
    shuffles: u64,
    merged: u64,
    plain: u64,
    remote: u64,
    readers_waited_millis: u64,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Counts {
    blocks_pushed: u64,
    bytes_pushed: u64,
    push_requests: u64,
    chunks_read: u64,
    chunk_bytes: u64,
    local_chunk_bytes: u64,
    merged_blocks_read: u64,
    originals_read: u64,
    row_bytes: u64,
    encoded_bytes: u64,
    compressed_bytes: u64,
    reasons: BTreeMap<String, u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Shuffle {
    shuffle_id: i64,
    generation: i64,
    maps: u64,
    partitions: u64,
    state: String,
    /// Empty in reports of older drivers.
    format: String,
    readers_waited_millis: u64,
    sample: Option<Sample>,
    #[serde(flatten)]
    counts: Counts,
}

/// The sample that decided whether to merge.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Sample {
    blocks: u64,
    bytes: u64,
    disk_read_micros: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Service {
    host_port: String,
    state: String,
}

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

impl Page {
    pub(super) fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    pub(super) fn text(&self, found: &Found) -> String {
        let mut text = String::new();
        line(&mut text, &heading(found));
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
        let rows = reasons.iter().map(|(code, count)| {
            let sentence = self.sentences.get(code).cloned().unwrap_or_default();
            vec![code.clone(), number(*count), sentence]
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

fn heading(found: &Found) -> String {
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
mod tests {
    use super::*;
    use lodestone_model::AppId;
    use lodestone_wire::extension::explain::ReportKept;

    fn found(report: &str) -> Found {
        Found {
            service: "127.0.0.1:7337".to_owned(),
            kept: ReportKept {
                app: AppId::new("app-1").unwrap(),
                app_attempt: AppAttempt::NONE,
                ended: true,
                age_ms: 12_400,
                report: report.to_owned(),
            },
        }
    }

    const REPORT: &str = r#"{
        "version": "lodestone 0.1.0 on Spark 4.1.2",
        "totals": {
            "shuffles": 3, "merged": 1, "plain": 1, "remote": 1, "readersWaitedMillis": 1234,
            "blocksPushed": 8420, "bytesPushed": 437000000, "pushRequests": 95,
            "chunksRead": 1579, "chunkBytes": 345040000, "localChunkBytes": 1000000, "mergedBlocksRead": 8193,
            "originalsRead": 1100, "reasons": {"SINGLE_MAP": 1, "LOCAL_MAP_READ": 1100},
            "rowBytes": 1200000000, "encodedBytes": 600000000, "compressedBytes": 437000000
        },
        "shuffles": [
            {
                "shuffleId": 0, "generation": 0, "maps": 12, "partitions": 100, "state": "merged",
                "format": "encoded-rows-1", "rowBytes": 1200000000, "encodedBytes": 600000000, "compressedBytes": 437000000,
                "services": 1, "readersWaitedMillis": 1234,
                "sample": {"maps": 2, "blocks": 200, "bytes": 409700, "diskReadMicros": 118},
                "blocksPushed": 1200, "bytesPushed": 1, "mergedBlocksRead": 100,
                "chunksRead": 100, "originalsRead": 1100, "reasons": {"LOCAL_MAP_READ": 1100}
            },
            {
                "shuffleId": 1, "maps": 1, "partitions": 100, "state": "plain", "format": "spark-stream",
                "reasons": {"SINGLE_MAP": 1}
            },
            {"shuffleId": 2, "maps": 9, "partitions": 9, "sample": {"diskReadMicros": -1}, "state": "remote"}
        ],
        "services": [{"hostPort": "10.0.0.1:7337", "incarnation": "1", "state": "serving"}],
        "sentences": {"SINGLE_MAP": "nothing to merge", "LOCAL_MAP_READ": "in place"}
    }"#;

    const TEXT: &str = "\
app-1: ended 12 s ago, says 127.0.0.1:7337
lodestone 0.1.0 on Spark 4.1.2

3 shuffles: 1 merged, 1 remote, 1 left to plain Spark
pushed   8,420 blocks, 437.0 MB, in 95 requests
encoded  1,200.0 MB of rows in 600.0 MB, and compressed to 437.0 MB
read     8,193 merged blocks in 1,579 chunks, 345.0 MB (1.0 MB on the own host); 1,100 originals
waited   1,234 ms: readers, for pushes to end

why not more
  LOCAL_MAP_READ  1,100  in place
  SINGLE_MAP          1  nothing to merge

services
  10.0.0.1:7337  serving

shuffles
  shuffle  generation  maps  partitions  mean block  disk us  state   format                rows    stored  pushed  merged  chunks  originals  waited ms  why not more
        0           0    12         100       2,048      118  merged  encoded-rows-1  1,200.0 MB  437.0 MB   1,200     100     100      1,100      1,234  LOCAL_MAP_READ 1,100
        1           0     1         100           -        -  plain   spark-stream             -         -       0       0       0          0          0  SINGLE_MAP 1
        2           0     9           9           -        -  remote                           -         -       0       0       0          0          0
";

    #[test]
    fn a_report_becomes_sums_reasons_with_sentences_services_and_a_row_per_shuffle() {
        assert_eq!(Page::read(REPORT).unwrap().text(&found(REPORT)), TEXT);
    }

    #[test]
    fn a_report_of_a_later_version_is_shown_as_far_as_it_is_known() {
        let report = r#"{"totals": {"shuffles": 300, "news": [1]},
            "shuffles": [{"shuffleId": 299}], "news": {}}"#;
        let text = Page::read(report).unwrap().text(&found(report));
        assert!(text.contains("300 shuffles: 0 merged"), "{text}");
        assert!(text.contains("the last 1 of 300 shuffles"), "{text}");
        assert!(Page::read("[1]").is_err());
    }
}
