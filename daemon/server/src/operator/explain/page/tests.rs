// SPDX-License-Identifier: Apache-2.0
//! Reports, and the text that a person sees.

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
        "sentences": {"SINGLE_MAP": "nothing to merge", "LOCAL_MAP_READ": "in place"},
        "remedies": {"SINGLE_MAP": "Nothing.", "LOCAL_MAP_READ": "See what adaptive execution does."}
    }"#;

const TEXT: &str = "app-1: ended 12 s ago, says 127.0.0.1:7337
lodestone 0.1.0 on Spark 4.1.2

3 shuffles: 1 merged, 1 remote, 1 left to plain Spark
pushed   8,420 blocks, 437.0 MB, in 95 requests
encoded  1,200.0 MB of rows in 600.0 MB, and compressed to 437.0 MB
read     8,193 merged blocks in 1,579 chunks, 345.0 MB (1.0 MB on the own host); 1,100 originals
waited   1,234 ms: readers, for pushes to end

why not more
  LOCAL_MAP_READ  1,100  in place
                         See what adaptive execution does.
  SINGLE_MAP          1  nothing to merge

services
  10.0.0.1:7337  serving

shuffles
  shuffle  generation  maps  partitions  mean block  disk us  state   format                rows    stored  \
pushed  merged  chunks  originals  waited ms  why not more
        0           0    12         100       2,048      118  merged  encoded-rows-1  1,200.0 MB  437.0 MB   \
1,200     100     100      1,100      1,234  LOCAL_MAP_READ 1,100
        1           0     1         100           -        -  plain   spark-stream             -         -       \
0       0       0          0          0  SINGLE_MAP 1
        2           0     9           9           -        -  remote                           -         -       \
0       0       0          0          0
";

#[test]
fn a_report_becomes_sums_reasons_with_sentences_services_and_a_row_per_shuffle() {
    assert_eq!(
        Report::read(REPORT).unwrap().text(&heading(&found(REPORT))),
        TEXT
    );
}

#[test]
fn a_report_of_a_later_version_is_shown_as_far_as_it_is_known() {
    let report = r#"{"totals": {"shuffles": 300, "news": [1]},
            "shuffles": [{"shuffleId": 299}], "news": {}}"#;
    let text = Report::read(report).unwrap().text(&heading(&found(report)));
    assert!(text.contains("300 shuffles: 0 merged"), "{text}");
    assert!(text.contains("the last 1 of 300 shuffles"), "{text}");
    assert!(Report::read("[1]").is_err());
}
