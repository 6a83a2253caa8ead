// SPDX-License-Identifier: Apache-2.0
//! What a log does not show, or shows only in part.

use super::*;
use crate::operator::plan::range::Range;

/// An exchange of 60 maps and 200 partitions that adaptive execution reads in one task.
fn coalesced(local: &str, has_metrics: bool) -> Log {
    coalesced_of(20_000, local, has_metrics)
}

fn coalesced_of(map_bytes: u64, local: &str, has_metrics: bool) -> Log {
    let mut log = Log::new(&json!({}));
    if has_metrics {
        let exchange = json!({"nodeName": "Exchange", "simpleString": "", "children": [],
            "metrics": [{"name": "shuffle bytes written", "accumulatorId": 10},
                {"name": "local blocks read", "accumulatorId": 11},
                {"name": "local bytes read", "accumulatorId": 13},
                {"name": "number of partitions", "accumulatorId": 14}]});
        let read = json!({"nodeName": "AQEShuffleRead", "simpleString": local, "metrics": [],
            "children": [exchange]});
        let class = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart";
        log.event(class, json!({"executionId": 0, "sparkPlanInfo": read}));
        let class = "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates";
        log.event(class, json!({"accumUpdates": [[14, 200]]}));
    }
    log.stage(0, &[], 60, &[(2, "MapPartitionsRDD", &[], 60)]);
    for partition in 0..60 {
        let bytes = json!([{"ID": 10, "Update": map_bytes.to_string()}]);
        let metrics = written(map_bytes, 5000);
        log.ended(0, partition, "ShuffleMapTask", "Success", metrics, bytes);
    }
    log.stage(1, &[0], 1, &[(3, "ShuffledRowRDD", &[2], 1)]);
    let all = 60 * map_bytes;
    let metrics = json!([{"ID": 11, "Update": "60"}, {"ID": 13, "Update": all.to_string()},
        {"ID": 99, "Update": {"of": ["a", "user", null, 1.5, true]}}]);
    log.ended(1, 0, "ResultTask", "Success", read(60, all), metrics);
    log
}

#[test]
fn data_that_is_ordered_by_its_key_may_have_few_blocks_so_mode_auto_probably_merges_it() {
    let plan = coalesced("AQEShuffleRead coalesced", true).plan(Disk::Ssd);
    let row = &plan.shuffles[0];
    assert_eq!((row.least_blocks, row.blocks), (60, 12_000));
    assert_eq!((row.auto, row.reason), ("probably", Some("FEW_BLOCKS")));
    let auto = &plan.modes[0];
    assert_eq!((auto.merged, auto.probably, auto.perhaps), (0, 1, 0));
    assert_eq!(auto.pushed_bytes.low, 0.0);
    assert_eq!(auto.pushed_bytes.likely, row.pushed_bytes.likely);
    assert_eq!(auto.reads_after, row.chunks);
    // The range holds what merging costs.
    let merge = plan.modes[1].own_seconds_saved;
    assert!(auto.own_seconds_saved.low <= merge.low && auto.own_seconds_saved.high >= merge.high);
    let text = page::text(&plan, "app-1");
    assert!(text.contains("60 to ~12,000"), "{text}");
    assert!(text.contains("would merge probably 1: "), "{text}");
    assert!(!text.contains("1 tasks"), "{text}");
}

#[test]
fn mode_merge_probably_pushes_blocks_that_are_large_only_if_they_are_few() {
    // 2 MB for each of 60 blocks, or 10 kB for each of 12,000.
    let log = coalesced_of(2_000_000, "AQEShuffleRead coalesced", true);
    let plan = log.plan(Disk::Ssd);
    let row = &plan.shuffles[0];
    let large = Some("BLOCK_TOO_LARGE");
    assert_eq!((row.merge, row.merge_reason), ("probably", large));
    let merge = &plan.modes[1];
    assert_eq!((merge.merged, merge.probably), (0, 1));
    assert_eq!(merge.pushed_blocks, 12_000);
    assert_eq!(merge.pushed_bytes.likely, row.pushed_bytes.likely);
    let mut log = coalesced_of(2_000_000_000, "AQEShuffleRead coalesced", true);
    assert_eq!(log.plan(Disk::Ssd).shuffles[0].merge, "leave");
    log = coalesced_of(100_000, "AQEShuffleRead coalesced", true);
    assert_eq!(log.plan(Disk::Ssd).shuffles[0].merge, "merge");
}

#[test]
fn an_exchange_without_metrics_has_no_known_number_of_partitions() {
    let plan = coalesced("", false).plan(Disk::Ssd);
    let row = &plan.shuffles[0];
    assert!(!row.blocks_are_exact && !row.partitions_are_exact);
    assert_eq!((row.auto, row.partitions), ("probably", 200));
    assert!(row.least_chunks < row.chunks);
}

#[test]
fn a_shuffle_that_is_read_in_place_is_pushed_for_nothing_unless_the_mode_is_remote() {
    let plan = coalesced("AQEShuffleRead local", true).plan(Disk::Ssd);
    let row = &plan.shuffles[0];
    assert!(row.read_in_place && row.auto == "probably");
    let reads: Vec<u64> = plan.modes.iter().map(|mode| mode.reads_after).collect();
    assert_eq!(reads, [60, 60, 200, 200]);
    assert_eq!(plan.modes[1].chunk_bytes.high, 0.0);
    // What merging costs stays.
    let (left, merged) = (
        plan.modes[0].own_seconds_saved,
        plan.modes[1].own_seconds_saved,
    );
    assert!(merged.high < left.high);
}

#[test]
fn mode_merge_pushes_no_large_block() {
    let plan = large(&json!({}), "PairwiseRDD", 3_000_000).plan(Disk::Ssd);
    let row = &plan.shuffles[0];
    assert_eq!(
        (row.merge, row.merge_reason),
        ("leave", Some("BLOCK_TOO_LARGE"))
    );
    let merge = &plan.modes[1];
    assert_eq!((merge.merged, merge.reads_after), (0, merge.reads_before));
    assert_eq!(merge.pushed_bytes.high, 0.0);
    assert!(row.chunks <= row.blocks);
}

#[test]
fn a_partition_that_has_nearly_all_bytes_has_many_chunks_when_one_task_reads_all() {
    let mut log = Log::new(&json!({}));
    log.stage(0, &[], 60, &[(2, "MapPartitionsRDD", &[], 60)]);
    for partition in 0..60 {
        log.task(0, partition, "ShuffleMapTask", written(1 << 20, 5000));
    }
    log.stage(1, &[0], 1, &[(3, "ShuffledRowRDD", &[2], 1)]);
    log.task(1, 0, "ResultTask", read(60, 60 << 20));
    let row = &log.plan(Disk::Ssd).shuffles[0];
    assert_eq!(
        (row.partitions, row.least_chunks, row.chunks),
        (200, 30, 230)
    );
}

#[test]
fn a_file_for_each_partition_costs_a_multiple_of_the_time_in_which_spark_wrote() {
    let files = |threshold: &str| {
        let settings = json!({"spark.shuffle.sort.bypassMergeThreshold": threshold});
        let plan = large(&settings, "PairwiseRDD", 100_000).plan(Disk::Ssd);
        let row = &plan.shuffles[0];
        (row.bypass_task_seconds_saved, row.merge_task_seconds_saved)
    };
    // 200 map tasks, 100 partitions, 20 ms each; at least 2.5 times, and 0.49 ms for each file.
    let (found, with) = files("200");
    assert!((found.low - 9.8).abs() < 1e-9 && found.high == 22.0);
    let (none, without) = files("99");
    assert_eq!(none, Range::default());
    assert!((with.high - without.high - 22.0).abs() < 1e-9);
    assert!((with.low - without.low - 9.8).abs() < 1e-9);
}

#[test]
fn few_files_cost_little_on_a_fast_disk_however_long_spark_wrote() {
    let mut log = python();
    log.shuffle();
    let most = |disk| log.plan(disk).shuffles[0].bypass_task_seconds_saved.high;
    // Four map tasks write for 20 ms each, to three files each.
    let (fast, slow) = (most(Disk::Ssd), most(Disk::Hdd));
    assert!((fast - 12.0 * 1.1e-3).abs() < 1e-9, "{fast}");
    assert!((slow - 6.5 * 0.08).abs() < 1e-9, "{slow}");
}

/// Spark's writers write one file.
fn one_file() -> Value {
    json!({"spark.shuffle.sort.bypassMergeThreshold": "1"})
}

#[test]
fn what_lodestone_alone_saves_is_not_less_because_a_setting_might_save_more() {
    let own = |threshold: &str| {
        let settings = json!({"spark.shuffle.sort.bypassMergeThreshold": threshold});
        let mut log = large(&settings, "PairwiseRDD", 100_000);
        // Files may have cost all that a map task can save.
        log.0 = log
            .0
            .replace("\"Executor Run Time\":500", "\"Executor Run Time\":50");
        log.plan(Disk::Ssd).modes[0].own_seconds_saved
    };
    assert!(own("1").high > 0.0);
    assert_eq!(own("200"), own("1"));
}

#[test]
fn a_part_of_a_union_may_have_as_many_chunks_as_if_it_were_alone() {
    let alone = coalesced("AQEShuffleRead coalesced", true);
    let once = alone.plan(Disk::Ssd).shuffles[0].chunks;
    let mut log = coalesced("AQEShuffleRead coalesced", true);
    // One of two tasks reads it: the other one reads another part of the union.
    log.stage(2, &[0], 2, &[(4, "ShuffledRowRDD", &[2], 1)]);
    let metrics = json!([{"ID": 11, "Update": "60"}, {"ID": 13, "Update": "1200000"}]);
    log.ended(2, 0, "ResultTask", "Success", read(60, 1_200_000), metrics);
    assert_eq!(log.plan(Disk::Ssd).shuffles[0].chunks, 2 * once);
}

#[test]
fn a_block_has_a_segment_for_each_time_that_its_map_task_pushes() {
    let segments = |bytes| {
        large(&json!({}), "PairwiseRDD", bytes)
            .plan(Disk::Ssd)
            .shuffles[0]
            .remote_segments
    };
    assert_eq!(segments(2000), 20_000);
    // 33 MB of each map task, in rounds of 16 MiB.
    assert_eq!(segments(330_000), 40_000);
}

#[test]
fn maps_without_records_and_a_single_partition_have_known_blocks() {
    let mut log = Log::new(&json!({}));
    log.stage(0, &[], 4, &[MAP]);
    log.maps(0, 0..3);
    log.task(0, 3, "ShuffleMapTask", written(0, 0));
    log.stage(1, &[0], 1, &[(3, "ShuffledRDD", &[2], 1)]);
    log.task(1, 0, "ResultTask", read(2, 600));
    assert_eq!(log.counts(), [[4, 1, 3, 900, 2, 1]]);
}

#[test]
fn a_kept_rdd_does_not_read_its_shuffle_again() {
    let mut log = python();
    log.shuffle();
    let kept = |id: i64, parents: &[i64], is_kept: bool| {
        json!({"RDD ID": id, "Name": "PythonRDD", "Parent IDs": parents,
            "Number of Partitions": 3, "Storage Level": {"Use Memory": is_kept}})
    };
    let stage = |id: u32, parents: &[u32], rdds: Value| {
        json!({"Stage Info": {"Stage ID": id, "Number of Tasks": 3, "RDD Info": rdds,
            "Parent IDs": parents, "Submission Time": 1000, "Completion Time": 2000}})
    };
    let computes = json!([kept(7, &[3], true), kept(3, &[2], false)]);
    log.event("SparkListenerStageCompleted", stage(2, &[0], computes));
    log.stage(3, &[], 4, &[(20, "PairwiseRDD", &[19], 4)]);
    log.maps(3, 0..4);
    let union = json!([
        kept(9, &[7, 21], false),
        kept(7, &[3], true),
        kept(3, &[2], false),
        kept(21, &[20], false)
    ]);
    log.event("SparkListenerStageCompleted", stage(4, &[0, 3], union));
    log.readers(4, 0..3);
    // All reads of the last stage are of the second shuffle.
    assert_eq!(log.counts(), [ONCE, ONCE]);
    assert!(
        log.plan(Disk::Ssd)
            .shuffles
            .iter()
            .all(|row| row.reads_are_exact)
    );
}

#[test]
fn waiting_for_a_slow_disk_is_saved_beyond_the_time_of_a_small_read() {
    let saved = |disk, reader_ms: u64| {
        let mut log = large(&one_file(), "PairwiseRDD", 2000);
        let run = format!("\"Executor CPU Time\":100000000,\"Executor Run Time\":{reader_ms}");
        let of_readers = "\"Executor CPU Time\":100000000,\"Executor Run Time\":500";
        log.0 = log.0.replace(of_readers, &run);
        log.0 = log
            .0
            .replace("\"Fetch Wait Time\":7", "\"Fetch Wait Time\":5");
        log.plan(disk).shuffles[0].merge_task_seconds_saved
    };
    let fast = saved(Disk::Ssd, 500);
    assert_eq!(saved(Disk::Ssd, 2100), fast);
    // 100 readers with 200 reads each, which compute for 100 ms: 2 ms for each read, and 10 ms.
    // One of 200 reads stays, and waits unless the service has it in memory. Map tasks are idle for
    // 80 of 500 ms, in which they compute 400 ms: a reader is for 20 ms as well. Spark counted 5 ms
    // of waiting for others. A disk is slow if a read takes more than 4 ms.
    let expected = [
        (500, Range::new(0.0, 40.0)),
        (2100, Range::between(157.5, 0.95 * 200.0, 200.0)),
    ];
    for (reader_ms, idle) in expected {
        let slow = saved(Disk::Hdd, reader_ms);
        let part = Range::between(0.995, 0.995, 1.0);
        let expected = fast.plus(idle.by(part));
        for (found, value) in [
            (slow.low, expected.low),
            (slow.likely, expected.likely),
            (slow.high, expected.high),
        ] {
            assert!((found - value).abs() < 1e-6, "{slow:?} {expected:?}");
        }
    }
}

#[test]
fn what_may_have_other_causes_than_the_disk_is_not_saved_for_sure() {
    let saved = |changes: &[(&str, &str)]| {
        let mut log = large(&json!({}), "PairwiseRDD", 2000);
        let longer = "\"Executor CPU Time\":100000000,\"Executor Run Time\":2100";
        let of_readers = "\"Executor CPU Time\":100000000,\"Executor Run Time\":500";
        log.0 = log.0.replace(of_readers, longer);
        for (from, to) in changes {
            log.0 = log.0.replace(from, to);
        }
        log.plan(Disk::Hdd).shuffles[0].merge_task_seconds_saved
    };
    let slow = saved(&[]);
    let reads = "\"Shuffle Read Metrics\":{";
    let collects = format!("\"JVM GC Time\":2000,{reads}");
    let writes = format!("\"Output Metrics\":{{\"Bytes Written\":9}},{reads}");
    // Map tasks that wait for cores: 1600 ms for 100 ms of computing.
    let on_few_cores = (
        "\"Executor CPU Time\":400000000,\"Executor Run Time\":500",
        "\"Executor CPU Time\":100000000,\"Executor Run Time\":2200",
    );
    for change in [
        (reads, collects.as_str()),
        (reads, writes.as_str()),
        ("Local Blocks Fetched", "Remote Blocks Fetched"),
        ("\"Fetch Wait Time\":7", "\"Fetch Wait Time\":1900"),
        on_few_cores,
    ] {
        let low = saved(&[change]).low;
        assert!(slow.low > low + 150.0, "{change:?}: {low}");
    }
}

#[test]
fn no_mode_saves_more_time_than_there_was() {
    let mut log = large(&json!({}), "PairwiseRDD", 2000);
    let quick = "\"Executor CPU Time\":0,\"Executor Run Time\":1";
    for (cpu, run) in [(400, 500), (100, 500)] {
        let slow = format!("\"Executor CPU Time\":{cpu}000000,\"Executor Run Time\":{run}");
        log.0 = log.0.replace(&slow, quick);
    }
    let plan = log.plan(Disk::Ssd);
    for mode in &plan.modes {
        assert!(mode.seconds_saved.high <= plan.seconds, "{:?}", mode.mode);
    }
}

#[test]
fn reasons_against_merging_are_of_shuffles_that_are_not_merged() {
    let probably = coalesced("AQEShuffleRead coalesced", true).plan(Disk::Ssd);
    assert_eq!(probably.modes[0].probably, 1);
    assert!(probably.reasons.is_empty());
    let text = page::text(&probably, "app-1");
    assert!(text.contains(" 0 to 1 "), "{text}");
}

#[test]
fn readers_that_wait_for_python_do_not_wait_for_a_disk() {
    let mut log = Log::new(&one_file());
    log.shuffle();
    let fast = log.plan(Disk::Ssd).shuffles[0].merge_task_seconds_saved;
    let slow = log.plan(Disk::Hdd).shuffles[0].merge_task_seconds_saved;
    // Three readers, each of which waited 7 ms for blocks, and 400 ms for all.
    assert!(slow.low == fast.low && slow.high - fast.high < 0.021);
}

#[test]
fn reading_a_block_is_not_counted_again_as_waiting_for_it() {
    let saved = |wait_ms: u64| {
        let mut log = large(&json!({}), "PairwiseRDD", 2000);
        let wait = format!("\"Fetch Wait Time\":{wait_ms}");
        log.0 = log.0.replace("\"Fetch Wait Time\":7", &wait);
        log.plan(Disk::Ssd).shuffles[0].merge_task_seconds_saved
    };
    // 200 reads of 25 us are 5 ms.
    assert_eq!(saved(5), saved(0));
    let more = saved(105).high - saved(5).high;
    assert!((more - 100.0 * 0.1 * 0.995).abs() < 1e-6, "{more}");
}

#[test]
fn services_hold_shuffles_up_to_the_end_of_the_application_at_most() {
    let settings = json!({"spark.cleaner.periodicGC.interval": "1s"});
    let mut log = Log::new(&settings);
    log.shuffle();
    for (stage, rdd) in [(100, 12), (101, 13)] {
        let of: &[i64] = if stage == 100 { &[11] } else { &[12] };
        let parents: &[u32] = if stage == 100 { &[] } else { &[100] };
        let name = if stage == 100 {
            "PairwiseRDD"
        } else {
            "ShuffledRDD"
        };
        let tasks = if stage == 100 { 4 } else { 3 };
        log.stage(stage, parents, tasks, &[(rdd, name, of, tasks)]);
    }
    log.maps(100, 0..4);
    log.readers(101, 0..3);
    let held = log.plan(Disk::Ssd).modes[2].bytes_at_a_service;
    assert_eq!(held.high, 2.0 * held.likely);
    assert_eq!(held.low, held.likely);
}
