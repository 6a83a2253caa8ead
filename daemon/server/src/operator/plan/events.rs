// SPDX-License-Identifier: Apache-2.0
//! The fields of Spark's events that a plan needs (`JsonProtocol.scala`). A missing field counts as
//! empty: releases of Spark differ, and so do events of tasks that failed.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The first event of a log.
#[derive(Deserialize)]
pub(super) struct LogStart {
    #[serde(rename = "Spark Version", default)]
    pub(super) version: String,
}

#[derive(Deserialize)]
pub(super) struct ApplicationStart {
    #[serde(rename = "App ID", default)]
    pub(super) app: Option<String>,
}

/// An RDD that is no longer kept.
#[derive(Deserialize)]
pub(super) struct Dropped {
    #[serde(rename = "RDD ID")]
    pub(super) rdd: i64,
}

/// An event that has only its time.
#[derive(Deserialize)]
pub(super) struct Moment {
    #[serde(rename = "Timestamp", default)]
    pub(super) at_ms: u64,
}

#[derive(Deserialize)]
pub(super) struct Environment {
    #[serde(rename = "Spark Properties", default)]
    pub(super) settings: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct JobStart {
    #[serde(rename = "Stage Infos", default)]
    pub(super) stages: Vec<StageInfo>,
}

#[derive(Deserialize)]
pub(super) struct StageEvent {
    #[serde(rename = "Stage Info")]
    pub(super) stage: StageInfo,
}

#[derive(Deserialize)]
pub(super) struct StageInfo {
    #[serde(rename = "Stage ID")]
    pub(super) id: u32,
    #[serde(rename = "Number of Tasks", default)]
    pub(super) tasks: u32,
    /// The RDD of the stage, and those that the same tasks compute.
    #[serde(rename = "RDD Info", default)]
    pub(super) rdds: Vec<RddInfo>,
    #[serde(rename = "Parent IDs", default)]
    pub(super) parents: Vec<u32>,
    #[serde(rename = "Submission Time", default)]
    pub(super) begin_ms: Option<u64>,
    #[serde(rename = "Completion Time", default)]
    pub(super) end_ms: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct RddInfo {
    #[serde(rename = "RDD ID")]
    pub(super) id: i64,
    #[serde(rename = "Name", default)]
    pub(super) name: String,
    /// JSON in a text: the operation that made it.
    #[serde(rename = "Scope", default)]
    pub(super) scope: String,
    #[serde(rename = "Parent IDs", default)]
    pub(super) parents: Vec<i64>,
    #[serde(rename = "Number of Partitions", default)]
    pub(super) partitions: u32,
    #[serde(rename = "Barrier", default)]
    pub(super) is_barrier: bool,
    #[serde(rename = "Storage Level", default)]
    pub(super) storage: Storage,
}

/// Where Spark keeps the partitions of an RDD.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Storage {
    #[serde(rename = "Use Disk")]
    on_disk: bool,
    #[serde(rename = "Use Memory")]
    in_memory: bool,
}

impl Storage {
    pub(super) fn is_kept(&self) -> bool {
        self.on_disk || self.in_memory
    }
}

#[derive(Deserialize)]
pub(super) struct TaskEnd {
    #[serde(rename = "Stage ID")]
    pub(super) stage: u32,
    #[serde(rename = "Task Type", default)]
    pub(super) kind: String,
    #[serde(rename = "Task End Reason")]
    pub(super) reason: EndReason,
    #[serde(rename = "Task Info")]
    pub(super) info: TaskInfo,
    #[serde(rename = "Task Metrics", default)]
    pub(super) metrics: Option<TaskMetrics>,
}

#[derive(Deserialize)]
pub(super) struct EndReason {
    #[serde(rename = "Reason", default)]
    pub(super) reason: String,
}

#[derive(Deserialize)]
pub(super) struct TaskInfo {
    /// The number of the task in this attempt of its stage, which later attempts count again.
    #[serde(rename = "Index", default)]
    pub(super) index: u32,
    #[serde(rename = "Partition ID", default)]
    pub(super) partition: Option<i64>,
    #[serde(rename = "Launch Time", default)]
    pub(super) begin_ms: u64,
    #[serde(rename = "Finish Time", default)]
    pub(super) end_ms: u64,
    #[serde(rename = "Accumulables", default)]
    pub(super) accumulables: Vec<Accumulable>,
}

#[derive(Deserialize)]
pub(super) struct Accumulable {
    #[serde(rename = "ID")]
    pub(super) id: i64,
    #[serde(rename = "Update", default)]
    pub(super) update: Update,
}

/// The value of a metric, which metrics of SQL have as text. Accumulators of users have values of
/// any form and size: they count as zero, and take no memory.
#[derive(Default)]
pub(super) struct Update(pub(super) u64);

impl<'de> Deserialize<'de> for Update {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UpdateVisitor)
    }
}

struct UpdateVisitor;

impl<'de> Visitor<'de> for UpdateVisitor {
    type Value = Update;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("the value of an accumulator")
    }

    fn visit_str<E>(self, text: &str) -> Result<Update, E> {
        Ok(Update(text.parse().unwrap_or(0)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Update, E> {
        Ok(Update(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Update, E> {
        Ok(Update(0))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Update, E> {
        Ok(Update(0))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Update, E> {
        Ok(Update(0))
    }

    fn visit_unit<E>(self) -> Result<Update, E> {
        Ok(Update(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Update, A::Error> {
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Update(0))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<Update, A::Error> {
        while values.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Update(0))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TaskMetrics {
    #[serde(rename = "Executor Run Time")]
    pub(super) run_ms: u64,
    #[serde(rename = "Executor CPU Time")]
    pub(super) cpu_ns: u64,
    #[serde(rename = "JVM GC Time")]
    pub(super) gc_ms: u64,
    #[serde(rename = "Output Metrics")]
    pub(super) output: OutputMetrics,
    #[serde(rename = "Shuffle Read Metrics")]
    pub(super) read: ReadMetrics,
    #[serde(rename = "Shuffle Write Metrics")]
    pub(super) written: WriteMetrics,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ReadMetrics {
    #[serde(rename = "Remote Blocks Fetched")]
    pub(super) remote_blocks: u64,
    #[serde(rename = "Local Blocks Fetched")]
    pub(super) local_blocks: u64,
    #[serde(rename = "Remote Bytes Read")]
    pub(super) remote_bytes: u64,
    #[serde(rename = "Local Bytes Read")]
    pub(super) local_bytes: u64,
    #[serde(rename = "Fetch Wait Time")]
    pub(super) wait_ms: u64,
}

/// What a task wrote to files of the application.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputMetrics {
    #[serde(rename = "Bytes Written")]
    pub(super) bytes: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WriteMetrics {
    #[serde(rename = "Shuffle Bytes Written")]
    pub(super) bytes: u64,
    #[serde(rename = "Shuffle Records Written")]
    pub(super) records: u64,
    #[serde(rename = "Shuffle Write Time")]
    pub(super) time_ns: u64,
}

/// Values that the driver knows, such as the number of partitions of an exchange.
#[derive(Deserialize)]
pub(super) struct DriverValues {
    #[serde(rename = "accumUpdates", default)]
    pub(super) values: Vec<(i64, i64)>,
}
