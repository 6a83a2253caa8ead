// SPDX-License-Identifier: Apache-2.0
//! What each mode would have done with each shuffle, and their sums.

use std::collections::BTreeMap;

use serde::Serialize;

use super::application::Application;
use super::cost::{self, Disks, Fate, Range};
use super::rule::{self, Answer, Bytes, Settings};
use super::shuffles::{self, Shuffle};
use crate::cli::{Disk, PlanArgs};

/// Spark removes a shuffle that nobody uses any more when the driver collects garbage, at least
/// this often (`spark.cleaner.periodicGC.interval`).
const LATEST_REMOVAL_MS: u64 = 30 * 60 * 1000;

/// The plan of an application.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    pub(super) application: String,
    pub(super) spark_version: String,
    pub(super) services: u32,
    pub(super) disk: &'static str,
    /// Seconds from the first map task to the last event.
    pub(super) seconds: f64,
    /// How many tasks ran at a time on average, in stages that wrote or read shuffles.
    pub(super) tasks_at_a_time: f64,
    pub(super) shuffles: Vec<Row>,
    pub(super) modes: Vec<Mode>,
    /// How often each reason stands against merging, in mode auto.
    pub(super) reasons: BTreeMap<&'static str, u64>,
}

/// One shuffle.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// The stage that wrote it.
    pub(super) stage: u32,
    pub(super) maps: u32,
    pub(super) partitions: u32,
    pub(super) blocks: u64,
    pub(super) blocks_are_exact: bool,
    pub(super) mean_block: u64,
    pub(super) bytes: u64,
    pub(super) records: u64,
    /// What readers fetched from plain Spark.
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    /// What they would fetch if it were merged.
    pub(super) chunks: u64,
    /// What map tasks would push, once for each replica.
    pub(super) pushed_bytes: Bytes,
    pub(super) sql: bool,
    pub(super) encoded: bool,
    /// `merge`, `maybe` or `leave`.
    pub(super) auto: &'static str,
    pub(super) merge: &'static str,
    /// In mode merge, and in mode remote with one replica.
    pub(super) merge_task_seconds_saved: Range,
    pub(super) remote_task_seconds_saved: Range,
    /// What stands against merging.
    pub(super) reason: Option<&'static str>,
    pub(super) merge_reason: Option<&'static str>,
}

/// The sums of one mode.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mode {
    pub(super) mode: &'static str,
    pub(super) copies: u32,
    pub(super) merged: u64,
    pub(super) perhaps: u64,
    pub(super) reads_before: u64,
    pub(super) reads_after: u64,
    pub(super) pushed_blocks: u64,
    pub(super) pushed_bytes: Bytes,
    pub(super) chunk_bytes: Bytes,
    /// Negative if the application takes longer.
    pub(super) task_seconds_saved: Range,
    pub(super) seconds_saved: Range,
    /// Memory and disk together.
    pub(super) bytes_at_a_service: Bytes,
}

/// Makes the plan.
pub(super) fn of(application: &Application, args: &PlanArgs) -> Plan {
    let settings = Settings(&application.settings);
    let found = shuffles::of(application);
    let judged: Vec<Judged<'_>> = found
        .iter()
        .map(|shuffle| Judged {
            shuffle,
            auto: rule::auto(shuffle, &settings, args.disk),
            merge: rule::merge(shuffle, &settings),
            is_encoded: rule::is_encoded(shuffle, &settings),
            bytes: rule::written(shuffle, &settings),
        })
        .collect();
    let mut reasons = BTreeMap::new();
    for one in &judged {
        if let Some(reason) = reason(one.auto) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let at_a_time = tasks_at_a_time(application);
    let disks = disks(application, &settings, args.disk, at_a_time);
    let kinds = [("auto", 1), ("merge", 1), ("remote", 1), ("remote", 2)];
    // Replicas need two services.
    let kinds = kinds
        .into_iter()
        .filter(|(_, copies)| *copies <= args.services);
    let modes = kinds.map(|(mode, copies)| {
        let sums = Summing {
            mode,
            copies,
            args,
            disks,
            at_a_time,
        };
        sums.of(&judged, &settings)
    });
    let begin = found.iter().map(|one| one.begin_ms).min();
    Plan {
        application: application.id.clone(),
        spark_version: application.version.clone(),
        services: args.services,
        disk: args.disk.name(),
        seconds: begin.map_or(0.0, |begin| {
            application.end_ms.saturating_sub(begin) as f64 / 1000.0
        }),
        tasks_at_a_time: at_a_time,
        shuffles: judged
            .iter()
            .map(|one| one.row(&settings, args, disks))
            .collect(),
        modes: modes.collect(),
        reasons,
    }
}

/// A shuffle and what the rules say about it.
struct Judged<'a> {
    shuffle: &'a Shuffle,
    auto: Answer,
    merge: Answer,
    is_encoded: bool,
    bytes: Bytes,
}

fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Merge => "merge",
        Answer::Maybe(_) => "maybe",
        Answer::Leave(_) => "leave",
    }
}

fn reason(answer: Answer) -> Option<&'static str> {
    match answer {
        Answer::Merge => None,
        Answer::Maybe(reason) | Answer::Leave(reason) => Some(reason),
    }
}

impl Judged<'_> {
    fn row(&self, settings: &Settings<'_>, args: &PlanArgs, disks: Disks) -> Row {
        let shuffle = self.shuffle;
        let saved = |mode| {
            let sums = Summing {
                mode,
                copies: 1,
                args,
                disks,
                at_a_time: 1.0,
            };
            sums.saved(self, settings)
        };
        Row {
            stage: shuffle.stage,
            maps: shuffle.maps,
            partitions: shuffle.partitions,
            blocks: shuffle.blocks,
            blocks_are_exact: shuffle.is_exact,
            mean_block: shuffle.mean_block(),
            bytes: shuffle.bytes,
            records: shuffle.records,
            reads: shuffle.reads,
            read_bytes: shuffle.read_bytes,
            chunks: shuffle.chunks,
            pushed_bytes: self.bytes,
            sql: shuffle.is_sql,
            encoded: self.is_encoded,
            auto: word(self.auto),
            merge: word(self.merge),
            merge_task_seconds_saved: saved("merge"),
            remote_task_seconds_saved: saved("remote"),
            reason: reason(self.auto),
            merge_reason: reason(self.merge),
        }
    }
}

/// Sums up one mode.
struct Summing<'a> {
    mode: &'static str,
    copies: u32,
    args: &'a PlanArgs,
    disks: Disks,
    at_a_time: f64,
}

impl Summing<'_> {
    fn answer(&self, one: &Judged<'_>, settings: &Settings<'_>) -> Answer {
        match (self.mode, one.merge) {
            ("auto", _) => one.auto,
            // Remote shuffles may have any serializer and codec.
            ("remote", _) => settings.obstacle().map_or(Answer::Merge, Answer::Leave),
            (_, merge) => merge,
        }
    }

    fn fate(&self, one: &Judged<'_>, settings: &Settings<'_>) -> Fate {
        match (self.answer(one, settings), one.merge) {
            (Answer::Merge, _) if self.mode == "remote" => Fate::Remote {
                copies: self.copies,
            },
            (Answer::Merge, _) => Fate::Merged,
            (_, Answer::Merge) => Fate::Kept,
            _ => Fate::Spark,
        }
    }

    fn saved(&self, one: &Judged<'_>, settings: &Settings<'_>) -> Range {
        let fate = self.fate(one, settings);
        cost::saved(one.shuffle, fate, one.is_encoded, settings, self.disks)
    }

    fn of(&self, judged: &[Judged<'_>], settings: &Settings<'_>) -> Mode {
        let mut sums = Mode {
            mode: self.mode,
            copies: self.copies,
            merged: 0,
            perhaps: 0,
            reads_before: 0,
            reads_after: 0,
            pushed_blocks: 0,
            pushed_bytes: Bytes::default(),
            chunk_bytes: Bytes::default(),
            task_seconds_saved: Range::default(),
            seconds_saved: Range::default(),
            bytes_at_a_service: Bytes::default(),
        };
        for one in judged {
            let (shuffle, fate) = (one.shuffle, self.fate(one, settings));
            let is_maybe = matches!(self.answer(one, settings), Answer::Maybe(_));
            sums.perhaps += u64::from(is_maybe);
            sums.reads_before += shuffle.reads;
            let is_taken = matches!(fate, Fate::Merged | Fate::Remote { .. });
            sums.reads_after += if is_taken {
                shuffle.chunks
            } else {
                shuffle.reads
            };
            if is_taken {
                sums.merged += 1;
                sums.pushed_blocks += shuffle.blocks;
                let copies = f64::from(self.copies);
                sums.pushed_bytes = sums.pushed_bytes.plus(one.bytes.times(copies));
                let passes = shuffle.read_bytes as f64 / shuffle.bytes.max(1) as f64;
                sums.chunk_bytes = sums.chunk_bytes.plus(one.bytes.times(passes));
            }
            let saved = self.saved(one, settings);
            sums.task_seconds_saved = sums.task_seconds_saved.plus(saved);
        }
        sums.seconds_saved = sums.task_seconds_saved.times(1.0 / self.at_a_time);
        sums.bytes_at_a_service = self.peak(judged, settings);
        sums
    }

    /// The most bytes that a service holds at a time. From the first map task on, a shuffle counts
    /// as a whole. Spark removes it after its last reader: at once at best.
    fn peak(&self, judged: &[Judged<'_>], settings: &Settings<'_>) -> Bytes {
        let taken = judged.iter().filter(|one| {
            let fate = self.fate(one, settings);
            matches!(fate, Fate::Merged | Fate::Remote { .. })
        });
        let (mut low, mut likely, mut high) = (Vec::new(), Vec::new(), Vec::new());
        for one in taken {
            let (begin, end) = (one.shuffle.begin_ms, one.shuffle.last_read_ms);
            let late = end + LATEST_REMOVAL_MS;
            low.extend([(begin, one.bytes.low), (end, -one.bytes.low)]);
            likely.extend([(begin, one.bytes.likely), (late, -one.bytes.likely)]);
            high.extend([(begin, one.bytes.high), (late, -one.bytes.high)]);
        }
        // A partition is at one service, with a replica at another one.
        let part = f64::from(self.copies) / f64::from(self.args.services);
        let peak = Bytes {
            low: most(low),
            likely: most(likely),
            high: most(high),
        };
        peak.times(part)
    }
}

fn most(mut changes: Vec<(u64, f64)>) -> f64 {
    changes.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let (mut held, mut most) = (0.0_f64, 0.0_f64);
    for (_, change) in changes {
        held += change;
        most = most.max(held);
    }
    most
}

/// Spreads the tasks over the disks of all hosts. A log does not show disks that the cluster
/// manager names.
fn disks(
    application: &Application,
    settings: &Settings<'_>,
    kind: Disk,
    tasks_at_a_time: f64,
) -> Disks {
    let folders = settings
        .of("spark.local.dir")
        .map_or(1, |dirs| dirs.split(',').count());
    let count = application.hosts.len().max(1) * folders;
    Disks {
        kind,
        tasks: (tasks_at_a_time / count as f64).max(1.0),
    }
}

/// Returns how many tasks ran at a time on average in the stages with shuffles, at least one.
fn tasks_at_a_time(application: &Application) -> f64 {
    let (mut run_ms, mut spans) = (0, Vec::new());
    for stage in application.stages.values() {
        let reads = stage.others.blocks > 0 || !stage.by_exchange.is_empty();
        if reads || !stage.written.is_empty() {
            run_ms += stage.run_ms;
            spans.push((stage.begin_ms, stage.end_ms));
        }
    }
    spans.sort_unstable();
    let (mut wall_ms, mut until) = (0, 0);
    for (begin, end) in spans {
        wall_ms += end.saturating_sub(begin.max(until));
        until = until.max(end);
    }
    if wall_ms == 0 {
        1.0
    } else {
        (run_ms as f64 / wall_ms as f64).max(1.0)
    }
}
