// SPDX-License-Identifier: Apache-2.0
//! Plans of small logs, each with what happens in real ones: copies of tasks, stages that run again
//! or are skipped, exchanges that are read twice.

use super::*;
use crate::cli::Disk;
use serde_json::{Value, json};

/// The lines of a log.
#[derive(Default)]
struct Log(String);

/// An RDD of a stage: id, name, parents, partitions.
type Rdd<'a> = (i64, &'a str, &'a [i64], u32);

const MAP: Rdd<'_> = (2, "PairwiseRDD", &[1], 4);
const READER: Rdd<'_> = (3, "ShuffledRDD", &[2], 3);

impl Log {
    fn new(settings: &Value) -> Self {
        let mut log = Self::default();
        log.event("SparkListenerLogStart", json!({"Spark Version": "4.1.4"}));
        log.event("SparkListenerApplicationStart", json!({"App ID": "app-1"}));
        log.event(
            "SparkListenerEnvironmentUpdate",
            json!({"Spark Properties": settings}),
        );
        log
    }

    fn event(&mut self, class: &str, content: Value) {
        let rest = content.to_string();
        self.0 += &format!("{{\"Event\":\"{class}\",{}\n", &rest[1..]);
    }

    fn stage(&mut self, id: u32, parents: &[u32], tasks: u32, rdds: &[Rdd<'_>]) {
        let rdds: Vec<Value> = rdds
            .iter()
            .map(|(id, name, parents, partitions)| {
                json!({"RDD ID": id, "Name": name, "Parent IDs": parents,
                    "Number of Partitions": partitions, "Barrier": false})
            })
            .collect();
        let info = json!({"Stage ID": id, "Number of Tasks": tasks, "RDD Info": rdds,
            "Parent IDs": parents, "Submission Time": 1000 * (id + 1),
            "Completion Time": 1000 * (id + 2)});
        self.event("SparkListenerStageCompleted", json!({"Stage Info": info}));
    }

    fn task(&mut self, stage: u32, partition: u32, kind: &str, metrics: Value) {
        self.ended(stage, partition, kind, "Success", metrics, json!([]));
    }

    fn ended(
        &mut self,
        stage: u32,
        partition: u32,
        kind: &str,
        reason: &str,
        metrics: Value,
        accumulables: Value,
    ) {
        let info = json!({"Index": partition, "Partition ID": partition, "Finish Time": 9000,
            "Accumulables": accumulables});
        self.event(
            "SparkListenerTaskEnd",
            json!({"Stage ID": stage, "Stage Attempt ID": 0, "Task Type": kind,
                "Task End Reason": {"Reason": reason}, "Task Info": info, "Task Metrics": metrics}),
        );
    }

    fn maps(&mut self, stage: u32, partitions: std::ops::Range<u32>) {
        for partition in partitions {
            self.task(stage, partition, "ShuffleMapTask", written(300, 30));
        }
    }

    fn readers(&mut self, stage: u32, partitions: std::ops::Range<u32>) {
        for partition in partitions {
            self.task(stage, partition, "ResultTask", read(4, 400));
        }
    }

    /// A shuffle of four maps and three partitions, written and read once.
    fn shuffle(&mut self) {
        self.stage(0, &[], 4, &[MAP]);
        self.maps(0, 0..4);
        self.stage(1, &[0], 3, &[(4, "PythonRDD", &[3], 3), READER]);
        self.readers(1, 0..3);
    }

    fn plan(&self, disk: Disk) -> outcome::Plan {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app-1");
        std::fs::write(&path, &self.0).unwrap();
        let args = PlanArgs {
            event_log: path.to_str().unwrap().parse().unwrap(),
            services: 2,
            disk,
            json: false,
        };
        let mut application = Application::default();
        event_log::read(&args.event_log, &mut application).unwrap();
        outcome::of(&application, &args)
    }

    /// Maps, partitions, blocks, bytes, reads and chunks of each shuffle.
    fn counts(&self) -> Vec<[u64; 6]> {
        let plan = self.plan(Disk::Ssd);
        let rows = plan.shuffles.iter().map(|row| {
            let (maps, partitions) = (row.maps.into(), row.partitions.into());
            [
                maps, partitions, row.blocks, row.bytes, row.reads, row.chunks,
            ]
        });
        rows.collect()
    }
}

fn written(bytes: u64, records: u64) -> Value {
    let written = json!({"Shuffle Bytes Written": bytes, "Shuffle Records Written": records,
        "Shuffle Write Time": 20_000_000});
    json!({"Executor Run Time": 500, "Executor CPU Time": 400_000_000,
        "Shuffle Write Metrics": written})
}

fn read(blocks: u64, bytes: u64) -> Value {
    json!({"Executor Run Time": 500, "Executor CPU Time": 100_000_000,
        "Shuffle Read Metrics": {"Local Blocks Fetched": blocks, "Local Bytes Read": bytes,
            "Fetch Wait Time": 7}})
}

fn python() -> Log {
    Log::new(&json!({}))
}

const ONCE: [u64; 6] = [4, 3, 12, 1200, 12, 3];

#[test]
fn a_shuffle_has_the_maps_partitions_blocks_and_bytes_that_spark_counted() {
    let mut log = python();
    log.shuffle();
    assert_eq!(log.counts(), [ONCE]);
    assert!(log.plan(Disk::Ssd).shuffles[0].blocks_are_exact);
}

#[test]
fn copies_of_tasks_and_tasks_that_failed_are_not_counted() {
    let mut log = python();
    log.shuffle();
    log.maps(0, 1..3);
    log.readers(1, 0..3);
    let failed = read(4, 400);
    log.ended(1, 2, "ResultTask", "TaskKilled", failed, json!([]));
    assert_eq!(log.counts(), [ONCE]);
}

#[test]
fn a_stage_that_runs_again_in_part_has_all_of_its_maps() {
    let mut log = python();
    log.shuffle();
    // The second attempt has one task, whose index is that of another partition.
    log.stage(0, &[], 1, &[MAP]);
    let info = json!({"Index": 0, "Partition ID": 3, "Accumulables": []});
    log.event(
        "SparkListenerTaskEnd",
        json!({"Stage ID": 0, "Stage Attempt ID": 1, "Task Type": "ShuffleMapTask",
            "Task End Reason": {"Reason": "Success"}, "Task Info": info,
            "Task Metrics": written(300, 30)}),
    );
    assert_eq!(log.counts(), [ONCE]);
}

#[test]
fn a_later_job_that_skips_the_stage_reads_the_same_shuffle() {
    let mut log = python();
    log.shuffle();
    let skipped = json!({"Stage ID": 2, "Number of Tasks": 4, "Parent IDs": [],
        "RDD Info": [{"RDD ID": 2, "Name": "PairwiseRDD", "Parent IDs": [1],
            "Number of Partitions": 4}]});
    log.event("SparkListenerJobStart", json!({"Stage Infos": [skipped]}));
    log.stage(3, &[2], 3, &[(9, "PythonRDD", &[3], 3), READER]);
    log.readers(3, 0..3);
    assert_eq!(log.counts(), [[4, 3, 12, 1200, 24, 6]]);
}

#[test]
fn two_shuffles_of_one_rdd_are_two() {
    let mut log = python();
    log.shuffle();
    let other: Rdd<'_> = (5, "ShuffledRDD", &[2], 2);
    log.stage(2, &[], 4, &[MAP]);
    log.maps(2, 0..4);
    log.stage(3, &[2], 2, &[other]);
    for partition in 0..2 {
        log.task(3, partition, "ResultTask", read(4, 600));
    }
    assert_eq!(log.counts(), [ONCE, [4, 2, 8, 1200, 8, 2]]);
}

#[test]
fn blocks_of_a_shuffle_that_is_read_in_part_are_estimated() {
    let mut log = python();
    log.stage(0, &[], 4, &[MAP]);
    log.maps(0, 0..4);
    log.stage(1, &[0], 1, &[READER]);
    log.readers(1, 0..1);
    let plan = log.plan(Disk::Ssd);
    assert!(!plan.shuffles[0].blocks_are_exact);
    // Thirty records of a map reach three partitions.
    assert_eq!((plan.shuffles[0].blocks, plan.shuffles[0].reads), (12, 4));
}

/// A plan with two exchanges that one stage reads, with different numbers of blocks.
fn sql() -> Log {
    let mut log = Log::new(&json!({"spark.sql.adaptive.enabled": "true"}));
    let exchange = |id: i64, below: Value| {
        json!({"nodeName": "Exchange", "simpleString": "", "children": below, "metrics": [
            {"name": "shuffle bytes written", "accumulatorId": id},
            {"name": "local blocks read", "accumulatorId": id + 1},
            {"name": "remote blocks read", "accumulatorId": id + 2},
            {"name": "local bytes read", "accumulatorId": id + 3},
            {"name": "number of partitions", "accumulatorId": id + 4}]})
    };
    let join = json!({"nodeName": "Join", "simpleString": "", "metrics": [], "children": [
        exchange(10, json!([])),
        {"nodeName": "AQEShuffleRead", "simpleString": "AQEShuffleRead local", "metrics": [],
            "children": [exchange(20, json!([]))]}]});
    let class = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart";
    log.event(class, json!({"executionId": 0, "sparkPlanInfo": join}));
    let class = "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates";
    log.event(class, json!({"accumUpdates": [[14, 8], [24, 5]]}));
    for (stage, rdd, written_by) in [(0, 2, 10), (1, 12, 20)] {
        log.stage(stage, &[], 2, &[(rdd, "MapPartitionsRDD", &[], 2)]);
        for partition in 0..2 {
            let bytes = json!([{"ID": written_by, "Update": "400"}]);
            let metrics = written(400, 1000);
            log.ended(
                stage,
                partition,
                "ShuffleMapTask",
                "Success",
                metrics,
                bytes,
            );
        }
    }
    let rows = [(3, "ShuffledRowRDD", [2_i64]), (13, "ShuffledRowRDD", [12])];
    let rdds: Vec<Rdd<'_>> = rows
        .iter()
        .map(|(id, name, from)| (*id, *name, from.as_slice(), 2))
        .collect();
    log.stage(2, &[0, 1], 2, &rdds);
    for partition in 0..2 {
        let metrics = json!([
            {"ID": 11, "Update": "2"}, {"ID": 13, "Update": "400"},
            {"ID": 21, "Update": "1"}, {"ID": 22, "Update": 4}, {"ID": 23, "Update": "400"}]);
        let sums = read(7, 800);
        log.ended(2, partition, "ResultTask", "Success", sums, metrics);
    }
    log
}

#[test]
fn each_exchange_that_a_stage_reads_has_its_own_blocks_and_all_of_its_partitions() {
    // The first one has eight partitions in two tasks; tasks read the second one in place.
    let expected = [[2, 8, 16, 800, 4, 8], [2, 5, 10, 800, 10, 10]];
    assert_eq!(sql().counts(), expected);
    let plan = sql().plan(Disk::Ssd);
    assert!(plan.shuffles.iter().all(|row| row.sql && row.encoded));
    let remote = &plan.modes[2];
    assert!(remote.pushed_bytes.low < remote.pushed_bytes.high);
}

#[test]
fn a_log_that_is_cut_off_counts_as_far_as_it_goes() {
    let mut log = python();
    log.shuffle();
    log.event("SparkListenerNew", json!({"Stage ID": 0}));
    log.0 += "{\"Event\":\"SparkListenerTaskEnd\",\"Stage ID\":tru}\n";
    log.0 += "{\"Event\":\"SparkListenerTaskEnd\",\"Stage ID\":1,\"Task";
    assert_eq!(log.counts(), [ONCE]);
}

/// A shuffle of 200 maps and 100 partitions, with blocks of this size.
fn large(settings: &Value, name: &str, block_bytes: u64) -> Log {
    let mut log = Log::new(settings);
    let map: Rdd<'_> = (2, name, &[1], 200);
    log.stage(0, &[], 200, &[map]);
    for partition in 0..200 {
        let metrics = written(100 * block_bytes, 10_000);
        log.task(0, partition, "ShuffleMapTask", metrics);
    }
    log.stage(1, &[0], 100, &[(3, "ShuffledRDD", &[2], 100)]);
    for partition in 0..100 {
        let metrics = read(200, 200 * block_bytes);
        log.task(1, partition, "ResultTask", metrics);
    }
    log
}

#[test]
fn mode_auto_decides_by_the_size_of_blocks_the_disk_and_the_settings() {
    let none = json!({});
    let decided = |settings: &Value, name: &str, bytes: u64, disk: Disk| {
        let plan = large(settings, name, bytes).plan(disk);
        (plan.shuffles[0].auto, plan.shuffles[0].reason)
    };
    let of_python = |bytes, disk| decided(&none, "PairwiseRDD", bytes, disk);
    assert_eq!(of_python(2000, Disk::Ssd), ("merge", None));
    let large = ("leave", Some("LARGE_BLOCKS"));
    assert_eq!(of_python(20_000, Disk::Ssd), large);
    assert_eq!(of_python(20_000, Disk::Hdd), ("merge", None));
    assert_eq!(of_python(2_000_000, Disk::Hdd), large);
    // Java's serializer stands in no log, unless a setting names another one.
    let java = decided(&none, "MapPartitionsRDD", 2000, Disk::Ssd);
    assert_eq!(java, ("maybe", Some(rule::SERIALIZER)));
    let kryo = json!({"spark.serializer": "org.apache.spark.serializer.KryoSerializer"});
    let with_kryo = decided(&kryo, "MapPartitionsRDD", 2000, Disk::Ssd);
    assert_eq!(with_kryo, ("merge", None));
    for (key, value, reason) in [
        ("spark.shuffle.push.enabled", "true", "SPARK_PUSH"),
        (
            "spark.shuffle.useOldFetchProtocol",
            "true",
            "OLD_FETCH_PROTOCOL",
        ),
        (
            "spark.shuffle.sort.io.plugin.class",
            "a.B",
            "CUSTOM_SHUFFLE_IO",
        ),
        (
            "spark.io.compression.codec",
            "a.OwnCodec",
            "CODEC_NOT_CONCATENABLE",
        ),
    ] {
        let settings = json!({key: value});
        let found = decided(&settings, "PairwiseRDD", 2000, Disk::Ssd);
        assert_eq!(found, ("leave", Some(reason)));
    }
}

#[test]
fn services_hold_what_is_alive_and_replicas_are_held_twice() {
    let log = large(&json!({}), "PairwiseRDD", 2000);
    let plan = log.plan(Disk::Ssd);
    let bytes = (20_000 * 2000 - 20_000 * 21) as f64;
    let held: Vec<f64> = plan
        .modes
        .iter()
        .map(|mode| mode.bytes_at_a_service.low)
        .collect();
    // Two services share one copy, or have one each of two.
    assert_eq!(held, [bytes / 2.0, bytes / 2.0, bytes / 2.0, bytes]);
    assert!(plan.modes.iter().all(|mode| mode.reads_after == 100));
    let text = page::text(&plan, "app-1");
    assert!(
        text.contains("would merge 1: 20,000 reads become 100."),
        "{text}"
    );
}

mod ranges;

/// Two rules would tell users two things.
#[test]
fn the_numbers_of_the_rule_are_the_plugins() {
    let source = |path: &str| {
        let below = "/../../client/spark/src/main/scala/org/apache/spark/shuffle/lodestone/";
        let path = format!("{}{below}{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    };
    let choice = source("driver/plans/MergeChoice.scala");
    for line in [
        format!("val MinBlocks = {}L", rule::MIN_BLOCKS),
        format!(
            "val MinBlocksOnSlowDisk = {}L",
            rule::MIN_BLOCKS_ON_SLOW_DISK
        ),
        format!(
            "val EvenBlockBytes: Long = {}L * 1024",
            rule::EVEN_BLOCK_BYTES >> 10
        ),
    ] {
        assert!(choice.contains(&line), "{line}");
    }
    let slow = format!("val SlowMicros = {}L", cost::SECONDS_PER_SLOW_READ * 1e6);
    assert!(
        source("plan/DriverMessages.scala").contains(&slow),
        "{slow}"
    );
    let rounds = source("executor/push/remote/RecordCollector.scala");
    for line in [
        format!("val EnoughBytes: Long = {}L << 20", rule::ROUND_BYTES >> 20),
        format!(
            "val EnoughBytesPerPartition = {}L << 10",
            rule::ROUND_BYTES_PER_PARTITION >> 10
        ),
    ] {
        assert!(rounds.contains(&line), "{line}");
    }
    let chunk = format!(
        "val ChunkBytes: Long = {}L << 20",
        application::CHUNK_BYTES >> 20
    );
    assert!(source("executor/fetch/FetchChunk.scala").contains(&chunk));
    let conf = source("config/LodestoneConf.scala");
    let largest = conf.split("key(\"push.maxBlockSize\")").nth(1).unwrap();
    let largest = largest.split(".quantity(\"").nth(1).unwrap();
    assert!(largest.starts_with(&format!("{}m\"", rule::MAX_BLOCK_BYTES >> 20)));
    let batch = conf.split("key(\"push.batchSize\")").nth(1).unwrap();
    let batch = batch.split(".quantity(\"").nth(1).unwrap();
    let segments = source("executor/push/remote/SegmentWriter.scala");
    let in_a_batch = segments.split("SegmentsPerBuffer = ").nth(1).unwrap();
    let in_a_batch: u64 = in_a_batch.split('\n').next().unwrap().parse().unwrap();
    let batch_bytes = in_a_batch * rule::SEGMENT_BYTES;
    assert!(batch.starts_with(&format!("{}m\"", batch_bytes >> 20)));
    let reasons = source("plan/Reason.scala");
    for (code, _) in page::SENTENCES {
        assert!(reasons.contains(&format!("\"{code}\"")), "{code}");
    }
}
