// SPDX-License-Identifier: Apache-2.0
//! The shuffles of an application. An event log has no ids of shuffles: stages tell which RDD they
//! read, and the stage of this RDD wrote it.

use std::collections::{BTreeMap, BTreeSet};

use super::application::{Application, CHUNK_BYTES, Read, ReadSum, Stage};
use super::exchanges::ExchangeId;
use super::rule::Settings;

/// One shuffle, as plain Spark wrote and read it.
#[derive(Debug, Default)]
pub(super) struct Shuffle {
    /// The first stage that wrote it.
    pub(super) stage: u32,
    pub(super) maps: u32,
    pub(super) partitions: u32,
    pub(super) bytes: u64,
    pub(super) records: u64,
    /// False if the number of partitions is not the driver's.
    pub(super) has_partitions: bool,
    /// Blocks that are not empty: at least, and at most.
    pub(super) least_blocks: u64,
    pub(super) blocks: u64,
    /// False if the number of blocks is estimated: readers took several at a time, or not all.
    pub(super) is_exact: bool,
    /// Blocks, or neighbouring blocks at a time, that readers fetched.
    pub(super) reads: u64,
    /// True if what a stage read was shared out between its shuffles.
    pub(super) reads_are_shared: bool,
    pub(super) read_bytes: u64,
    /// Chunks that readers would fetch if all blocks were merged: at least, and at most.
    pub(super) least_chunks: u64,
    pub(super) chunks: u64,
    /// Chunks in mode remote, in which no task reads in place.
    pub(super) remote_chunks: u64,
    /// True if tasks read whole map outputs where they were.
    pub(super) is_in_place: bool,
    pub(super) is_sql: bool,
    pub(super) is_python: bool,
    pub(super) is_barrier: bool,
    pub(super) combines: bool,
    pub(super) begin_ms: u64,
    pub(super) last_read_ms: u64,
    /// Time of the map tasks.
    pub(super) map_run_ms: u64,
    /// The part of it in which Spark wrote, as Spark counted it.
    pub(super) map_write_ms: u64,
    /// Time in which readers were idle, the part of it that only the disk explains, and what Spark
    /// counted as waiting for blocks.
    pub(super) idle_ms: u64,
    pub(super) disk_ms: u64,
    pub(super) wait_ms: u64,
    written: BTreeMap<u32, (u64, u64)>,
    readers: BTreeSet<i64>,
    exchange: Option<ExchangeId>,
    /// The most that one stage fetched of it, if this is certain.
    most_of_a_pass: u64,
}

/// Finds the shuffles, in the order of their stages.
pub(super) fn of(application: &Application) -> Vec<Shuffle> {
    let mut found = Finding {
        application,
        usual_idleness: application.usual_idleness(),
        shuffles: Vec::new(),
        by_rdd: BTreeMap::new(),
        by_stage: BTreeMap::new(),
    };
    found.writers();
    found.readers();
    let settings = Settings(&application.settings);
    for shuffle in &mut found.shuffles {
        shuffle.estimate(&settings);
    }
    found.shuffles
}

struct Finding<'a> {
    application: &'a Application,
    usual_idleness: Option<f64>,
    shuffles: Vec<Shuffle>,
    by_rdd: BTreeMap<i64, Vec<usize>>,
    by_stage: BTreeMap<u32, usize>,
}

impl Finding<'_> {
    fn writers(&mut self) {
        let application = self.application;
        let mut readers: BTreeMap<u32, BTreeSet<i64>> = BTreeMap::new();
        for stage in application.stages.values() {
            for parent in &stage.parents {
                let rdd = application.stages.get(parent).map(|one| one.rdd);
                let reads = stage.reads.iter().filter(|read| Some(read.from) == rdd);
                let by = reads.map(|read| read.by);
                readers.entry(*parent).or_default().extend(by);
            }
        }
        for (id, stage) in &application.stages {
            if !stage.written.is_empty() {
                let its_readers = readers.remove(id).unwrap_or_default();
                self.writer(*id, stage, its_readers);
            }
        }
    }

    /// Adds a stage that wrote. A shuffle may have several: outputs were lost, and a later job
    /// wrote them again.
    fn writer(&mut self, id: u32, stage: &Stage, readers: BTreeSet<i64>) {
        let same = self.by_rdd.get(&stage.rdd).and_then(|candidates| {
            candidates.iter().copied().find(|at| {
                self.shuffles.get(*at).is_some_and(|known| {
                    let is_read_by_none = readers.is_empty() || known.readers.is_empty();
                    match (known.exchange, stage.exchange) {
                        (Some(one), Some(other)) => one == other,
                        _ => is_read_by_none || !known.readers.is_disjoint(&readers),
                    }
                })
            })
        });
        let at = same.unwrap_or_else(|| {
            self.shuffles.push(Shuffle {
                stage: id,
                ..Shuffle::default()
            });
            self.shuffles.len() - 1
        });
        if same.is_none() {
            self.by_rdd.entry(stage.rdd).or_default().push(at);
        }
        self.by_stage.insert(id, at);
        if let Some(shuffle) = self.shuffles.get_mut(at) {
            shuffle.written_by(stage, readers);
            let partitions = shuffle
                .exchange
                .and_then(|exchange| self.application.partitions.get(&exchange));
            if let Some(partitions) = partitions.copied().filter(|count| *count > 0) {
                shuffle.partitions = partitions;
                shuffle.has_partitions = true;
            }
        }
    }

    fn readers(&mut self) {
        let application = self.application;
        // First the numbers of partitions, so that estimates know them.
        for stage in application.stages.values() {
            for read in &stage.reads {
                if let Some(shuffle) = self.source(stage, read) {
                    shuffle.read_by(read);
                }
            }
        }
        let by_exchange: BTreeMap<ExchangeId, usize> = self
            .shuffles
            .iter()
            .enumerate()
            .filter_map(|(at, shuffle)| Some((shuffle.exchange?, at)))
            .collect();
        for stage in application.stages.values() {
            for (exchange, sum) in &stage.by_exchange {
                let at = by_exchange.get(exchange).copied();
                if let Some(shuffle) = at.and_then(|at| self.shuffles.get_mut(at)) {
                    shuffle.is_in_place |= application.exchanges.is_read_in_place(*exchange);
                    shuffle.pass(stage, *sum, true);
                    shuffle.waits(stage, sum.bytes, self.usual_idleness);
                }
            }
            if stage.others.blocks > 0 {
                self.without_metrics(stage);
            }
        }
    }

    /// Spreads what tasks read over the shuffles that they read: by the numbers of blocks, as far
    /// as they are known, and by bytes.
    fn without_metrics(&mut self, stage: &Stage) {
        let mut sources: BTreeSet<usize> = BTreeSet::new();
        // Partitions of a kept RDD may be lost: its shuffle is read if there is no other one.
        let is_any_fresh = stage.reads.iter().any(|read| !read.is_kept);
        for read in &stage.reads {
            if !(read.is_kept && is_any_fresh) {
                sources.extend(self.source_at(stage, read));
            }
        }
        sources.retain(|at| {
            let exchange = self.shuffles.get(*at).and_then(|one| one.exchange);
            exchange.is_none_or(|exchange| !stage.by_exchange.contains_key(&exchange))
        });
        let all = sources.iter().filter_map(|at| self.shuffles.get(*at));
        let (mut most, mut written) = (0_u64, 0_u64);
        for shuffle in all {
            most += shuffle.most_blocks();
            written += shuffle.bytes;
        }
        let (sum, is_alone) = (stage.others, sources.len() == 1);
        for at in sources {
            let Some(shuffle) = self.shuffles.get_mut(at) else {
                continue;
            };
            let part = if is_alone {
                sum
            } else {
                ReadSum {
                    tasks: sum.tasks,
                    blocks: share(sum.blocks, shuffle.most_blocks(), most),
                    bytes: share(sum.bytes, shuffle.bytes, written),
                    chunks: share(sum.chunks, shuffle.bytes, written).max(sum.tasks),
                }
            };
            shuffle.pass(stage, part, is_alone || sum.blocks == most);
            shuffle.waits(stage, part.bytes, self.usual_idleness);
        }
    }

    fn source(&mut self, stage: &Stage, read: &Read) -> Option<&mut Shuffle> {
        let at = self.source_at(stage, read)?;
        self.shuffles.get_mut(at)
    }

    /// Returns the shuffle that an RDD of a stage reads. A stage that Spark skipped has another
    /// number than the one that wrote the shuffle.
    fn source_at(&self, stage: &Stage, read: &Read) -> Option<usize> {
        let candidates = self.by_rdd.get(&read.from)?;
        let is_parent = |at: &&usize| {
            let mut parents = stage.parents.iter();
            parents.any(|parent| self.by_stage.get(parent) == Some(*at))
        };
        let is_known = |at: &&usize| {
            let shuffle = self.shuffles.get(**at);
            shuffle.is_some_and(|shuffle| shuffle.readers.contains(&read.by))
        };
        let parent = candidates.iter().filter(is_parent);
        let best = parent.clone().find(is_known).or(parent.clone().next());
        let best = best.or_else(|| candidates.iter().find(is_known));
        best.or(candidates.last()).copied()
    }
}

fn share(of: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(of) * u128::from(part);
    u64::try_from(product.checked_div(u128::from(whole)).unwrap_or(0)).unwrap_or(u64::MAX)
}

impl Shuffle {
    /// Returns the bytes of a block on average, with the likely number of blocks.
    pub(super) fn mean_block(&self) -> u64 {
        self.bytes.checked_div(self.blocks).unwrap_or(0)
    }

    /// The bytes of each map task that wrote records.
    pub(super) fn map_bytes(&self) -> impl Iterator<Item = u64> {
        let written = self.written.values().filter(|(_, records)| *records > 0);
        written.map(|(bytes, _)| *bytes)
    }

    fn most_blocks(&self) -> u64 {
        u64::from(self.maps) * u64::from(self.partitions)
    }

    fn written_by(&mut self, stage: &Stage, readers: BTreeSet<i64>) {
        self.maps = self.maps.max(stage.tasks);
        self.written.extend(&stage.written);
        self.bytes = self.written.values().map(|(bytes, _)| bytes).sum();
        self.records = self.written.values().map(|(_, records)| records).sum();
        self.readers.extend(readers);
        self.exchange = self.exchange.or(stage.exchange);
        self.is_sql |= stage.exchange.is_some();
        self.is_python |= stage.is_python;
        self.is_barrier |= stage.is_barrier;
        self.map_run_ms += stage.run_ms;
        self.map_write_ms += stage.write_ns / 1_000_000;
        if self.begin_ms == 0 || stage.begin_ms < self.begin_ms {
            self.begin_ms = stage.begin_ms;
        }
        self.last_read_ms = self.last_read_ms.max(stage.end_ms);
    }

    fn read_by(&mut self, read: &Read) {
        self.readers.insert(read.by);
        self.is_sql |= read.is_sql;
        self.combines |= read.combines;
        // Adaptive execution gives a task several partitions, or a part of one.
        if !self.has_partitions {
            self.partitions = self.partitions.max(read.partitions);
        }
    }

    /// Counts what one stage read.
    fn pass(&mut self, stage: &Stage, sum: ReadSum, is_certain: bool) {
        let (read, tasks) = (self.bytes == sum.bytes, u64::from(stage.tasks));
        let is_whole = read && is_certain && !self.is_in_place;
        // Adaptive execution gives a task several partitions.
        let is_by_block =
            !self.is_sql || (self.has_partitions && tasks == u64::from(self.partitions));
        if is_whole && is_by_block {
            self.is_exact = true;
            self.blocks = self.blocks.max(sum.blocks);
        }
        // A stage may read a shuffle twice. No read is of less than one block.
        if is_certain && sum.bytes <= self.bytes {
            self.most_of_a_pass = self.most_of_a_pass.max(sum.blocks);
        }
        self.reads_are_shared |= !is_certain;
        self.reads += sum.blocks;
        self.read_bytes += sum.bytes;
        // No chunk has bytes of two partitions. Tasks may read several partitions. Some tasks of a
        // stage read nothing of it if its partition is empty, or if they read another part of a
        // union.
        let partitions = u64::from(self.partitions).min(self.records);
        let is_one_each = if self.is_sql {
            is_by_block
        } else {
            sum.tasks < tasks
        };
        let apart = if is_one_each || partitions <= sum.tasks {
            sum.chunks
        } else {
            // One partition may have nearly all bytes.
            partitions + sum.bytes / CHUNK_BYTES
        };
        let (least, most) = if self.is_in_place {
            (sum.blocks, sum.blocks)
        } else {
            (sum.chunks.min(apart), apart)
        };
        self.least_chunks += least;
        self.chunks += most;
        self.remote_chunks += apart;
        self.last_read_ms = self.last_read_ms.max(stage.end_ms);
    }

    /// Adds its share of what a stage waited, by the bytes that the stage read.
    fn waits(&mut self, stage: &Stage, bytes: u64, usual_idleness: Option<f64>) {
        let total = stage.others.bytes + stage.by_exchange.values().map(|s| s.bytes).sum::<u64>();
        let (idle, disk) = stage.idle_ms(usual_idleness);
        self.idle_ms += share(idle, bytes, total);
        self.disk_ms += share(disk, bytes, total);
        self.wait_ms += share(stage.wait_ms, bytes, total);
    }

    /// Estimates the number of blocks if readers did not show it: at most each record of a map task
    /// goes to any of the partitions. Records that are ordered by their key go to few.
    fn estimate(&mut self, settings: &Settings<'_>) {
        if self.is_exact {
            self.least_blocks = self.blocks;
        } else {
            self.estimate_blocks(settings);
        }
        // No chunk has less than a block.
        let passes = self.read_bytes as f64 / self.bytes.max(1) as f64;
        let most = (self.blocks as f64 * passes).ceil() as u64;
        self.chunks = self.chunks.min(most);
        self.least_chunks = self.least_chunks.min(self.chunks);
        if self.is_exact {
            self.least_chunks = self.chunks;
        }
    }

    fn estimate_blocks(&mut self, settings: &Settings<'_>) {
        if self.is_sql && !self.has_partitions {
            self.partitions = self.partitions.max(settings.sql_partitions());
            // Each task reads any number of them.
            let passes = self.read_bytes.div_ceil(self.bytes.max(1));
            let partitions = u64::from(self.partitions).min(self.records);
            let most = partitions * passes + self.read_bytes / CHUNK_BYTES;
            self.chunks = self.chunks.max(most);
            self.remote_chunks = self.remote_chunks.max(most);
        }
        let partitions = f64::from(self.partitions.max(1));
        let hit = |records: u64| {
            if records == 0 || self.partitions <= 1 {
                return records.min(1) as f64;
            }
            let missed = (records as f64 * (-1.0 / partitions).ln_1p()).exp();
            partitions * (1.0 - missed)
        };
        let blocks: f64 = self
            .written
            .values()
            .map(|(_, records)| hit(*records))
            .sum();
        let maps = self.written.values().filter(|(_, records)| *records > 0);
        self.least_blocks = self.most_of_a_pass.max(maps.count() as u64);
        self.blocks = (blocks.round() as u64)
            .min(self.most_blocks())
            .max(self.least_blocks);
        self.is_exact = self.records == 0;
    }
}
