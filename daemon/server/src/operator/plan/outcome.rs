// SPDX-License-Identifier: Apache-2.0
//! What each mode would have done with each shuffle, and their sums.

use std::collections::BTreeMap;

use serde::Serialize;

use super::application::Application;
use super::cost::{self, Fate, Saved};
use super::range::Range;
use super::rule::{self, Answer, Settings};
use super::shuffles::{self, Shuffle};
use crate::cli::PlanArgs;

/// The plan of an application.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    pub(super) application: String,
    pub(super) spark_version: String,
    pub(super) services: u32,
    pub(super) disk: &'static str,
    /// Seconds in which stages ran that wrote or read shuffles.
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
    pub(super) partitions_are_exact: bool,
    /// At least, and at most.
    pub(super) least_blocks: u64,
    pub(super) blocks: u64,
    pub(super) blocks_are_exact: bool,
    pub(super) mean_block: u64,
    pub(super) bytes: u64,
    pub(super) records: u64,
    /// What readers fetched from plain Spark.
    pub(super) reads: u64,
    pub(super) reads_are_exact: bool,
    /// True if tasks read whole map outputs where they are. In the modes auto and merge they go on.
    pub(super) read_in_place: bool,
    pub(super) read_bytes: u64,
    /// What they would fetch if it were merged: at least, and at most.
    pub(super) least_chunks: u64,
    pub(super) chunks: u64,
    pub(super) remote_chunks: u64,
    /// What the driver counts in mode remote in place of blocks.
    pub(super) remote_segments: u64,
    /// What map tasks would push, once for each replica.
    pub(super) pushed_bytes: Range,
    pub(super) sql: bool,
    pub(super) encoded: bool,
    /// `merge`, `probably`, `maybe` or `leave`.
    pub(super) auto: &'static str,
    pub(super) merge: &'static str,
    /// In the modes auto and merge, and in mode remote with one replica.
    pub(super) auto_task_seconds_saved: Range,
    pub(super) merge_task_seconds_saved: Range,
    pub(super) remote_task_seconds_saved: Range,
    /// What `spark.shuffle.sort.bypassMergeThreshold=1` would save without Lodestone.
    pub(super) bypass_task_seconds_saved: Range,
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
    /// Shuffles that are merged for sure, that are if the likely values hold, and that are with
    /// others only.
    pub(super) merged: u64,
    pub(super) probably: u64,
    pub(super) perhaps: u64,
    pub(super) reads_before: u64,
    pub(super) reads_after: u64,
    pub(super) pushed_blocks: u64,
    pub(super) pushed_bytes: Range,
    pub(super) chunk_bytes: Range,
    /// Negative if the application takes longer.
    pub(super) task_seconds_saved: Range,
    pub(super) seconds_saved: Range,
    /// What fewer files save, as with `spark.shuffle.sort.bypassMergeThreshold=1` and without
    /// Lodestone.
    pub(super) seconds_without_lodestone: Range,
    /// All else. Merging may cost.
    pub(super) own_seconds_saved: Range,
    /// Memory and disk together.
    pub(super) bytes_at_a_service: Range,
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
            eligible: rule::eligible(shuffle, &settings),
            is_encoded: rule::is_encoded(shuffle, &settings),
            bytes: rule::written(shuffle, &settings),
        })
        .collect();
    let mut reasons = BTreeMap::new();
    for one in &judged {
        if let Some(reason) = one.auto.reason().filter(|_| !one.auto.is_likely()) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let (at_a_time, seconds) = busy(application);
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
            at_a_time,
            task_seconds: seconds * at_a_time,
            end_ms: application.end_ms,
        };
        sums.of(&judged, &settings)
    });
    Plan {
        application: application.id.clone(),
        spark_version: application.version.clone(),
        services: args.services,
        disk: args.disk.name(),
        seconds,
        tasks_at_a_time: at_a_time,
        shuffles: judged.iter().map(|one| one.row(&settings, args)).collect(),
        modes: modes.collect(),
        reasons,
    }
}

/// A shuffle and what the rules say about it.
struct Judged<'a> {
    shuffle: &'a Shuffle,
    auto: Answer,
    merge: Answer,
    eligible: Answer,
    is_encoded: bool,
    bytes: Range,
}

fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Merge => "merge",
        Answer::Probably(_) => "probably",
        Answer::Maybe(_) => "maybe",
        Answer::Leave(_) => "leave",
    }
}

impl Judged<'_> {
    fn row(&self, settings: &Settings<'_>, args: &PlanArgs) -> Row {
        let shuffle = self.shuffle;
        let saved = |mode| {
            let sums = Summing {
                mode,
                copies: 1,
                args,
                at_a_time: 1.0,
                task_seconds: f64::INFINITY,
                end_ms: 0,
            };
            let Saved { own, files } = sums.saved(self, settings);
            own.plus(files)
        };
        Row {
            stage: shuffle.stage,
            maps: shuffle.maps,
            partitions: shuffle.partitions,
            partitions_are_exact: shuffle.has_partitions || !shuffle.is_sql,
            least_blocks: shuffle.least_blocks,
            blocks: shuffle.blocks,
            blocks_are_exact: shuffle.is_exact,
            mean_block: shuffle.mean_block(),
            bytes: shuffle.bytes,
            records: shuffle.records,
            reads: shuffle.reads,
            reads_are_exact: !shuffle.reads_are_shared,
            read_in_place: shuffle.is_in_place,
            read_bytes: shuffle.read_bytes,
            least_chunks: shuffle.least_chunks,
            chunks: shuffle.chunks,
            remote_chunks: shuffle.remote_chunks,
            remote_segments: rule::segments(shuffle),
            pushed_bytes: self.bytes,
            sql: shuffle.is_sql,
            encoded: self.is_encoded,
            auto: word(self.auto),
            merge: word(self.merge),
            auto_task_seconds_saved: saved("auto"),
            merge_task_seconds_saved: saved("merge"),
            remote_task_seconds_saved: saved("remote"),
            bypass_task_seconds_saved: cost::without_files(shuffle, settings, args.disk),
            reason: self.auto.reason(),
            merge_reason: self.merge.reason(),
        }
    }
}

/// Sums up one mode.
struct Summing<'a> {
    mode: &'static str,
    copies: u32,
    args: &'a PlanArgs,
    at_a_time: f64,
    task_seconds: f64,
    end_ms: u64,
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
        match (self.answer(one, settings), one.eligible) {
            (Answer::Merge, _) if self.mode == "remote" => Fate::Remote {
                copies: self.copies,
            },
            (answer, _) if answer.is_likely() => Fate::Merged,
            (_, Answer::Merge) => Fate::Kept,
            _ => Fate::Spark,
        }
    }

    /// Returns what a shuffle saves. If nobody knows whether it is merged, the range holds both.
    fn saved(&self, one: &Judged<'_>, settings: &Settings<'_>) -> Saved {
        let saved = |fate| {
            let (disk, is_encoded) = (self.args.disk, one.is_encoded);
            cost::saved(one.shuffle, fate, is_encoded, settings, disk)
        };
        let fate = self.fate(one, settings);
        let likely = saved(fate);
        if !self.answer(one, settings).is_open() {
            return likely;
        }
        [Fate::Kept, Fate::Merged]
            .map(saved)
            .into_iter()
            .fold(likely, |all, one| Saved {
                own: all.own.or(one.own),
                files: all.files.or(one.files),
            })
    }

    /// Returns the bytes of one copy that services would get.
    fn pushed(&self, one: &Judged<'_>, settings: &Settings<'_>) -> Range {
        let Range { likely, high, .. } = one.bytes;
        match self.answer(one, settings) {
            Answer::Merge => one.bytes,
            Answer::Probably(_) => Range::between(0.0, likely, high),
            Answer::Maybe(_) => Range::between(0.0, 0.0, high),
            Answer::Leave(_) => Range::default(),
        }
    }

    fn of(&self, judged: &[Judged<'_>], settings: &Settings<'_>) -> Mode {
        let mut sums = Mode {
            mode: self.mode,
            copies: self.copies,
            merged: 0,
            probably: 0,
            perhaps: 0,
            reads_before: 0,
            reads_after: 0,
            pushed_blocks: 0,
            pushed_bytes: Range::default(),
            chunk_bytes: Range::default(),
            task_seconds_saved: Range::default(),
            seconds_saved: Range::default(),
            seconds_without_lodestone: Range::default(),
            own_seconds_saved: Range::default(),
            bytes_at_a_service: Range::default(),
        };
        let (mut own, mut files) = (Range::default(), Range::default());
        for one in judged {
            let (shuffle, fate) = (one.shuffle, self.fate(one, settings));
            match self.answer(one, settings) {
                Answer::Merge => sums.merged += 1,
                Answer::Probably(_) => sums.probably += 1,
                Answer::Maybe(_) => sums.perhaps += 1,
                Answer::Leave(_) => {}
            }
            sums.reads_before += shuffle.reads;
            sums.reads_after += match fate {
                Fate::Merged => shuffle.chunks,
                Fate::Remote { .. } => shuffle.remote_chunks,
                Fate::Kept | Fate::Spark => shuffle.reads,
            };
            if matches!(fate, Fate::Merged | Fate::Remote { .. }) {
                sums.pushed_blocks += shuffle.blocks;
            }
            let pushed = self.pushed(one, settings);
            let copies = f64::from(self.copies);
            sums.pushed_bytes = sums.pushed_bytes.plus(pushed.times(copies));
            if self.mode == "remote" || !shuffle.is_in_place {
                let passes = shuffle.read_bytes as f64 / shuffle.bytes.max(1) as f64;
                sums.chunk_bytes = sums.chunk_bytes.plus(pushed.times(passes));
            }
            let saved = self.saved(one, settings);
            own = own.plus(saved.own);
            files = files.plus(saved.files);
        }
        // Nothing saves more than all.
        let own = own.at_most(self.task_seconds - files.high);
        sums.task_seconds_saved = own.plus(files);
        sums.seconds_saved = sums.task_seconds_saved.times(1.0 / self.at_a_time);
        sums.seconds_without_lodestone = files.times(1.0 / self.at_a_time);
        sums.own_seconds_saved = own.times(1.0 / self.at_a_time);
        sums.bytes_at_a_service = self.peak(judged, settings);
        sums
    }

    /// The most bytes that a service holds at a time. From the first map task on, a shuffle counts
    /// as a whole. Spark removes it after its last reader, if nobody can use it any more and the
    /// driver has collected garbage: at once at best, and at worst when the application ends.
    fn peak(&self, judged: &[Judged<'_>], settings: &Settings<'_>) -> Range {
        let (mut low, mut likely, mut high) = (Vec::new(), Vec::new(), Vec::new());
        for one in judged {
            let bytes = self.pushed(one, settings);
            let (begin, end) = (one.shuffle.begin_ms, one.shuffle.last_read_ms);
            let late = end.saturating_add(settings.latest_removal_ms());
            low.extend([(begin, bytes.low), (end, -bytes.low)]);
            likely.extend([(begin, bytes.likely), (late, -bytes.likely)]);
            let last = end.max(self.end_ms).saturating_add(1);
            high.extend([(begin, bytes.high), (last, -bytes.high)]);
        }
        // A partition is at one service, with a replica at another one.
        let part = f64::from(self.copies) / f64::from(self.args.services);
        Range::between(most(low), most(likely), most(high)).times(part)
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

/// Returns how many tasks ran at a time on average in the stages with shuffles, at least one, and
/// the seconds in which such a stage ran.
fn busy(application: &Application) -> (f64, f64) {
    let (mut run_ms, mut spans) = (0, Vec::new());
    for stage in application.stages.values() {
        if stage.reads_shuffles() || !stage.written.is_empty() {
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
    let at_a_time = (run_ms as f64 / wall_ms.max(1) as f64).max(1.0);
    if wall_ms == 0 {
        (1.0, 0.0)
    } else {
        (at_a_time, wall_ms as f64 / 1000.0)
    }
}
