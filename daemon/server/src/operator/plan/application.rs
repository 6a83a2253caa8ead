// SPDX-License-Identifier: Apache-2.0
//! What an event log says of an application: its stages, and what their tasks wrote and read.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use super::events::{
    ApplicationStart, DriverValues, Dropped, Environment, JobStart, LogStart, Moment, RddInfo,
    ReadMetrics, StageEvent, StageInfo, TaskEnd, TaskMetrics,
};
use super::exchanges::{ExchangeId, Exchanges, Metric};
use crate::operator::event_log::Events;

/// The size at which a reader cuts a chunk (`ChunkCut.ChunkBytes`).
pub(super) const CHUNK_BYTES: u64 = 2 << 20;

/// Tasks and stages beyond these are left out; a stage takes some hundred bytes.
const MAX_STAGES: usize = 1_000_000;
/// Each takes about 100 bytes.
const MAX_TASKS: u64 = 20_000_000;

/// All that a plan needs.
#[derive(Debug, Default)]
pub(super) struct Application {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) stages: BTreeMap<u32, Stage>,
    pub(super) exchanges: Exchanges,
    /// The partitions of exchanges.
    pub(super) partitions: BTreeMap<ExchangeId, u32>,
    pub(super) end_ms: u64,
    pub(super) damaged: u64,
    pub(super) left_out: u64,
    tasks: u64,
    /// RDDs that Spark keeps, and which a stage has computed.
    kept: BTreeSet<i64>,
}

/// One stage, with all of its attempts.
#[derive(Debug, Default)]
pub(super) struct Stage {
    pub(super) tasks: u32,
    pub(super) parents: Vec<u32>,
    /// The RDD whose partitions are its tasks.
    pub(super) rdd: i64,
    pub(super) reads: Vec<Read>,
    pub(super) is_barrier: bool,
    pub(super) is_python: bool,
    /// Its tasks wait for Python, which looks as if they waited for data.
    pub(super) runs_python: bool,
    pub(super) begin_ms: u64,
    pub(super) end_ms: u64,
    /// Bytes and records by partition; of a partition that was computed again the last ones.
    pub(super) written: BTreeMap<u32, (u64, u64)>,
    pub(super) exchange: Option<ExchangeId>,
    pub(super) by_exchange: BTreeMap<ExchangeId, ReadSum>,
    /// What no exchange accounts for.
    pub(super) others: ReadSum,
    pub(super) done: BTreeSet<u32>,
    pub(super) run_ms: u64,
    pub(super) cpu_ns: u64,
    pub(super) wait_ms: u64,
    pub(super) write_ns: u64,
    gc_ms: u64,
    /// Its tasks read blocks on their own host, for which Spark counts no waiting.
    reads_own_host: bool,
    /// Its tasks wrote files of the application.
    writes_output: bool,
    has_run: bool,
}

/// An RDD of a stage that reads a shuffle.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Read {
    /// The RDD that is shuffled.
    pub(super) from: i64,
    /// The RDD that reads it.
    pub(super) by: i64,
    pub(super) partitions: u32,
    pub(super) is_sql: bool,
    pub(super) combines: bool,
    /// An earlier stage computed what this stage needs of it, and Spark kept that.
    pub(super) is_kept: bool,
}

/// What tasks of a stage read.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct ReadSum {
    pub(super) tasks: u64,
    pub(super) blocks: u64,
    pub(super) bytes: u64,
    /// If each task reads one partition.
    pub(super) chunks: u64,
}

impl ReadSum {
    fn add(&mut self, blocks: u64, bytes: u64) {
        if blocks > 0 {
            self.tasks += 1;
            self.blocks += blocks;
            self.bytes += bytes;
            self.chunks += bytes.div_ceil(CHUNK_BYTES).max(1);
        }
    }
}

/// Operations that combine records before they are written.
const COMBINING: [&str; 11] = [
    "reduceByKey",
    "combineByKey",
    "combineByKeyWithClassTag",
    "aggregateByKey",
    "foldByKey",
    "countByKey",
    "countApproxDistinctByKey",
    "distinct",
    "countByValue",
    "treeAggregate",
    "treeReduce",
];

const SQL_EVENTS: &[u8] = b"org.apache.spark.sql.execution.ui.SparkListener";

impl Events for Application {
    fn wants(&self, class: &[u8]) -> bool {
        match class.strip_prefix(SQL_EVENTS) {
            Some(name) => matches!(
                name,
                b"SQLExecutionStart" | b"SQLAdaptiveExecutionUpdate" | b"DriverAccumUpdates"
            ),
            None => matches!(
                class,
                b"SparkListenerLogStart"
                    | b"SparkListenerApplicationStart"
                    | b"SparkListenerApplicationEnd"
                    | b"SparkListenerEnvironmentUpdate"
                    | b"SparkListenerUnpersistRDD"
                    | b"SparkListenerJobStart"
                    | b"SparkListenerStageSubmitted"
                    | b"SparkListenerStageCompleted"
                    | b"SparkListenerTaskEnd"
            ),
        }
    }

    fn take(&mut self, class: &[u8], line: &[u8]) {
        let name = class.strip_prefix(SQL_EVENTS).unwrap_or(class);
        let taken = match name {
            b"SparkListenerLogStart" => read(line).map(|one: LogStart| self.version = one.version),
            b"SparkListenerApplicationStart" => read(line).map(|one: ApplicationStart| {
                self.id = one.app.unwrap_or_default();
            }),
            b"SparkListenerApplicationEnd" => read(line).map(|one: Moment| self.end_ms = one.at_ms),
            b"SparkListenerEnvironmentUpdate" => {
                read(line).map(|one: Environment| self.settings = one.settings)
            }
            b"SparkListenerUnpersistRDD" => read(line).map(|one: Dropped| {
                self.kept.remove(&one.rdd);
            }),
            b"SparkListenerJobStart" => read(line).map(|one: JobStart| {
                one.stages.iter().for_each(|stage| self.stage(stage));
            }),
            b"SparkListenerStageSubmitted" | b"SparkListenerStageCompleted" => {
                read(line).map(|one: StageEvent| self.runs(&one.stage))
            }
            b"SparkListenerTaskEnd" => read(line).map(|one: TaskEnd| self.task(&one)),
            b"DriverAccumUpdates" => read(line).map(|one: DriverValues| self.driver(&one)),
            _ => self.exchanges.take(line),
        };
        self.damaged += u64::from(taken.is_err());
    }
}

fn read<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(line)
}

impl Application {
    /// Returns the idle time for each second of CPU time in stages that read no shuffle, or None if
    /// there is no such stage.
    pub(super) fn usual_idleness(&self) -> Option<f64> {
        let others = self.stages.values();
        let others = others.filter(|stage| !stage.reads_shuffles() && !stage.runs_python);
        let (idle, cpu) = others.fold((0, 0), |(idle, cpu), stage| {
            (idle + stage.idle_ms(None).0, cpu + stage.cpu_ms())
        });
        (cpu > 0).then(|| idle as f64 / cpu as f64)
    }

    fn runs(&mut self, info: &StageInfo) {
        self.stage(info);
        let Some(stage) = self.stages.get_mut(&info.id) else {
            return;
        };
        if !std::mem::replace(&mut stage.has_run, true) {
            stage.find_kept(&info.rdds, &self.kept);
        }
        if info.end_ms.is_some() {
            let kept = info.rdds.iter().filter(|rdd| rdd.storage.is_kept());
            self.kept.extend(kept.map(|rdd| rdd.id));
        }
    }

    fn stage(&mut self, info: &StageInfo) {
        if self.stages.len() >= MAX_STAGES && !self.stages.contains_key(&info.id) {
            self.left_out += 1;
            return;
        }
        let stage = self.stages.entry(info.id).or_default();
        if stage.rdd == 0 && stage.reads.is_empty() {
            stage.describe(&info.rdds);
        }
        // A later attempt has only the tasks that are left.
        stage.tasks = stage.tasks.max(info.tasks);
        stage.parents.clone_from(&info.parents);
        if let Some(begin) = info.begin_ms
            && (stage.begin_ms == 0 || begin < stage.begin_ms)
        {
            stage.begin_ms = begin;
        }
        stage.end_ms = stage.end_ms.max(info.end_ms.unwrap_or(0));
        self.end_ms = self.end_ms.max(stage.end_ms);
    }

    fn driver(&mut self, values: &DriverValues) {
        for (id, value) in &values.values {
            if let Some((exchange, Metric::Partitions)) = self.exchanges.metric(*id) {
                let value = u32::try_from(*value).unwrap_or(0);
                self.partitions.insert(exchange, value);
            }
        }
    }

    /// Counts each partition of a stage once: a copy of a task may succeed too.
    fn task(&mut self, end: &TaskEnd) {
        let Some(stage) = self.stages.get_mut(&end.stage) else {
            return;
        };
        self.end_ms = self.end_ms.max(end.info.end_ms);
        let (true, Some(metrics)) = (end.reason.reason == "Success", &end.metrics) else {
            return;
        };
        let named = end.info.partition.and_then(|at| u32::try_from(at).ok());
        let partition = named.unwrap_or(end.info.index);
        if self.tasks >= MAX_TASKS {
            self.left_out += 1;
            return;
        }
        if stage.begin_ms == 0 {
            stage.begin_ms = end.info.begin_ms;
        }
        if end.kind == "ShuffleMapTask" {
            let written = (metrics.written.bytes, metrics.written.records);
            stage.written.insert(partition, written);
        }
        if stage.done.insert(partition) {
            self.tasks += 1;
            stage.add(end, metrics, &self.exchanges);
        }
    }
}

impl Stage {
    /// The first RDD is that of the stage. Parents of others that are not here were shuffled.
    fn describe(&mut self, rdds: &[RddInfo]) {
        let here: BTreeSet<i64> = rdds.iter().map(|rdd| rdd.id).collect();
        self.rdd = rdds.first().map_or(0, |rdd| rdd.id);
        self.is_barrier = rdds.iter().any(|rdd| rdd.is_barrier);
        // PySpark shuffles arrays of bytes, for which Spark has Kryo in any case.
        self.is_python = rdds.first().is_some_and(|rdd| rdd.name == "PairwiseRDD");
        self.runs_python = rdds.iter().any(|rdd| {
            let says = |word| rdd.name.contains(word) || rdd.scope.contains(word);
            ["Python", "Pandas", "InArrow"].into_iter().any(says)
        });
        for rdd in rdds {
            for from in rdd.parents.iter().filter(|parent| !here.contains(parent)) {
                self.reads.push(Read {
                    from: *from,
                    by: rdd.id,
                    partitions: rdd.partitions,
                    is_sql: rdd.name == "ShuffledRowRDD",
                    combines: COMBINING
                        .iter()
                        .any(|name| rdd.scope.contains(&format!("\"name\":\"{name}\""))),
                    is_kept: false,
                });
            }
        }
    }

    /// Goes from the stage's RDD to its parents, and not beyond those that are kept.
    fn find_kept(&mut self, rdds: &[RddInfo], kept: &BTreeSet<i64>) {
        if rdds.iter().all(|rdd| !kept.contains(&rdd.id)) {
            return;
        }
        let by_id: BTreeMap<i64, &RddInfo> = rdds.iter().map(|rdd| (rdd.id, rdd)).collect();
        let (mut computed, mut next) = (BTreeSet::new(), vec![self.rdd]);
        while let Some(id) = next.pop() {
            if !kept.contains(&id)
                && let Some(rdd) = by_id.get(&id)
                && computed.insert(id)
            {
                next.extend(&rdd.parents);
            }
        }
        for read in &mut self.reads {
            read.is_kept = !computed.contains(&read.by);
        }
    }

    /// Returns the time in which its tasks did not compute, write or collect garbage, and the part
    /// of it that only their disk explains. `usual` is such time for each second of CPU time in
    /// stages without a shuffle to read, which wait for cores, and for their input.
    pub(super) fn idle_ms(&self, usual: Option<f64>) -> (u64, u64) {
        // Tasks wait for Python, too.
        if self.runs_python {
            return (self.wait_ms, 0);
        }
        let elsewhere = self.cpu_ms() + self.write_ns / 1_000_000 + self.gc_ms;
        let idle = self.run_ms.saturating_sub(elsewhere);
        let disk = match usual {
            Some(usual) if self.reads_own_host && !self.writes_output => {
                // What Spark counted is waiting for others.
                let others = self.wait_ms + (usual * self.cpu_ms() as f64) as u64;
                idle.saturating_sub(others)
            }
            _ => 0,
        };
        (idle, disk)
    }

    fn cpu_ms(&self) -> u64 {
        self.cpu_ns / 1_000_000
    }

    pub(super) fn reads_shuffles(&self) -> bool {
        self.others.blocks > 0 || !self.by_exchange.is_empty()
    }

    fn add(&mut self, end: &TaskEnd, metrics: &TaskMetrics, exchanges: &Exchanges) {
        self.run_ms += metrics.run_ms;
        self.cpu_ns += metrics.cpu_ns;
        self.wait_ms += metrics.read.wait_ms;
        self.write_ns += metrics.written.time_ns;
        self.gc_ms += metrics.gc_ms;
        self.reads_own_host |= metrics.read.local_blocks > 0;
        self.writes_output |= metrics.output.bytes > 0;
        let mut sums: BTreeMap<ExchangeId, (u64, u64)> = BTreeMap::new();
        for one in &end.info.accumulables {
            match exchanges.metric(one.id) {
                Some((exchange, Metric::Written)) => self.exchange = Some(exchange),
                Some((exchange, Metric::BlocksRead)) => {
                    sums.entry(exchange).or_default().0 += one.update.0;
                }
                Some((exchange, Metric::BytesRead)) => {
                    sums.entry(exchange).or_default().1 += one.update.0;
                }
                _ => {}
            }
        }
        let ReadMetrics {
            remote_blocks,
            local_blocks,
            remote_bytes,
            local_bytes,
            ..
        } = metrics.read;
        let (mut blocks, mut bytes) = (remote_blocks + local_blocks, remote_bytes + local_bytes);
        for (exchange, (its_blocks, its_bytes)) in sums {
            let sum = self.by_exchange.entry(exchange).or_default();
            sum.add(its_blocks, its_bytes);
            blocks = blocks.saturating_sub(its_blocks);
            bytes = bytes.saturating_sub(its_bytes);
        }
        self.others.add(blocks, bytes);
    }
}
