// SPDX-License-Identifier: Apache-2.0
//! Phases of several servers in turn, so that changes of the machine affect all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_model::AppId;
use lodestone_sort::progress::Progress;
use tokio::runtime::Runtime;

use super::fetch_work::Shape;
use super::files;
use super::phase::{Conduct, broken};
use super::scene::{self, Pushed, Slow, register_originals};
use super::trouble::Trouble;
use crate::dialect::{Dialect, Shuffle};
use crate::error::{BenchError, doing};
use crate::measure::clock::Moment;
use crate::report::{Measured, Phase};
use crate::server::Server;
use crate::workload::Workload;
use crate::workload::payload::Payload;

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Folder for map outputs.
    pub dir: PathBuf,
    /// Blocks of each shuffle; with several, one after the other.
    pub workloads: Vec<Workload>,
    /// Shuffles at once.
    pub shuffles: u32,
    /// Connections and their window.
    pub shape: Shape,
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds before those, which do not: a virtual machine has to get warm.
    pub warmup: u32,
    /// Which phases are measured.
    pub phases: Vec<Phase>,
    /// Connections that push or read slowly, whichever is measured.
    pub slow: Slow,
    /// True if the page cache drops the files before each fetch.
    pub cold: bool,
    /// True if reads are limited to those of a disk with a head.
    pub hdd: bool,
    /// Time without progress, trouble, Ctrl-C.
    pub conduct: Conduct,
}

/// Shuffles of one server that are ready to be fetched.
type Prepared = Vec<Pushed>;

/// A run that is under way.
#[derive(Debug)]
pub struct Rounds {
    plan: Plan,
    runtime: Runtime,
    servers: Vec<Server>,
    app: AppId,
    last_shuffle: u32,
    measured: Vec<Measured>,
    /// Requests that could not be fulfilled.
    pub remarks: Vec<String>,
}

impl Rounds {
    /// With these servers.
    pub fn of(plan: Plan, servers: Vec<Server>, runtime: Runtime) -> Result<Self, BenchError> {
        let app = AppId::new(&format!("bench-{}", std::process::id()))
            .map_err(|problem| BenchError::Usage(problem.to_string()))?;
        Ok(Self {
            plan,
            runtime,
            servers,
            app,
            last_shuffle: 0,
            measured: Vec::new(),
            remarks: Vec::new(),
        })
    }

    /// Runs everything. Returns the results, round by round.
    pub fn run(mut self) -> Result<(Vec<Measured>, Vec<String>), BenchError> {
        for workload in self.plan.workloads.clone() {
            let payload = Payload::of(workload.size);
            let measures_push = self.plan.phases.contains(&Phase::Push);
            let (warmup, rounds) = match measures_push {
                true => (self.plan.warmup, self.plan.rounds),
                // Original blocks are not pushed.
                false if self.plan.phases == [Phase::FetchOriginals] => (0, 0),
                false => (0, 1),
            };
            let mut prepared = Vec::new();
            for round in 0..warmup + rounds {
                self.remove(&prepared)?;
                prepared = self.push_round(workload, &payload, round.checked_sub(warmup))?;
            }
            if self.plan.phases.iter().any(|phase| *phase != Phase::Push) {
                self.fetch_rounds((workload, &payload), &prepared)?;
            }
            self.remove(&prepared)?;
        }
        Ok((self.measured, self.remarks))
    }

    /// Returns true if the last phase of a server that is going to be killed is over.
    fn is_over(&self) -> bool {
        self.plan.conduct.trouble == Some(Trouble::Kill) && !self.measured.is_empty()
    }

    fn push_round(
        &mut self,
        workload: Workload,
        payload: &Payload,
        round: Option<u32>,
    ) -> Result<Vec<Prepared>, BenchError> {
        let mut prepared = Vec::new();
        let counts = round.filter(|_| self.plan.phases.contains(&Phase::Push));
        for index in self.order(round) {
            let one = self.push_to(index, (workload, payload), counts)?;
            // And one of noise.
            self.last_shuffle += self.plan.shuffles + 1;
            prepared.push((index, one));
        }
        prepared.sort_by_key(|(index, _)| *index);
        Ok(prepared.into_iter().filter_map(|(_, one)| one).collect())
    }

    /// Another server begins each round.
    fn order(&self, round: Option<u32>) -> Vec<usize> {
        let count = self.servers.len();
        let first = round.unwrap_or(0) as usize;
        (0..count).map(|index| (index + first) % count).collect()
    }

    fn push_to(
        &mut self,
        index: usize,
        (workload, payload): (Workload, &Payload),
        counts: Option<u32>,
    ) -> Result<Option<Prepared>, BenchError> {
        let Some(server) = self.servers.get(index) else {
            return Ok(None);
        };
        let conduct = self.conduct(counts);
        let progress = self.progress(server, "push", workload);
        let shape = self.plan.shape;
        let what = (workload, payload);
        let (shuffles, noise, (mut measured, works)) = progress.show(|| {
            self.runtime.block_on(async {
                let shuffles = self.registered(server, what).await?;
                let noise = self.noise(server, what).await?;
                let beside = noise.as_ref().map(|shuffle| (shuffle, self.plan.slow));
                let shown = Arc::clone(&progress);
                let pushed = scene::push(server, &shuffles, beside, shape, &conduct, shown).await?;
                Ok::<_, BenchError>((shuffles, noise, pushed))
            })
        })?;
        if measured.was_killed() {
            self.count(counts, measured);
            return Ok(None);
        }
        if let Some(noise) = noise {
            self.remove_one(server, &noise)?;
        }
        let merged = works.iter().map(|work| Arc::clone(&work.merged));
        let pairs = shuffles.into_iter().zip(merged);
        let pushed = pairs.map(|(shuffle, merged)| Pushed { shuffle, merged });
        let pushed: Prepared = pushed.collect();
        let needs_all = self.plan.phases.iter().any(|phase| *phase != Phase::Push);
        if needs_all {
            let began = Moment::now();
            let quiet = self.conduct(None);
            self.runtime
                .block_on(scene::complete(server, works, &quiet))?;
            measured.complete_seconds = Some(began.elapsed().as_secs_f64());
        }
        let finalizing = scene::finalize(server, &pushed);
        measured.finalize_seconds = Some(self.runtime.block_on(finalizing)?);
        self.count(counts, measured);
        Ok(Some(pushed))
    }

    async fn registered(
        &self,
        server: &Server,
        what: (Workload, &Payload),
    ) -> Result<Vec<Shuffle>, BenchError> {
        let mut shuffles = Vec::new();
        for number in 1..=self.plan.shuffles {
            shuffles.push(self.register(server, what, number).await?);
        }
        Ok(shuffles)
    }

    /// Returns a shuffle of their own for slow connections: their bytes do not count as work.
    async fn noise(
        &self,
        server: &Server,
        what: (Workload, &Payload),
    ) -> Result<Option<Shuffle>, BenchError> {
        if self.plan.slow.connections == 0 || !self.plan.phases.contains(&Phase::Push) {
            return Ok(None);
        }
        let number = self.plan.shuffles + 1;
        Ok(Some(self.register(server, what, number).await?))
    }

    /// So many behind the last shuffle of the round before.
    async fn register(
        &self,
        server: &Server,
        (workload, payload): (Workload, &Payload),
        number: u32,
    ) -> Result<Shuffle, BenchError> {
        let workload = workload.of_shuffle(self.last_shuffle + number);
        let (what, app) = ((workload, payload.clone()), self.app.clone());
        let shuffle =
            Shuffle::register(server.address, server.dialect, app, what, &server.home).await;
        shuffle.map_err(|source| broken(server, source))
    }

    fn count(&mut self, round: Option<u32>, measured: Measured) {
        if let Some(round) = round {
            self.measured.push(Measured { round, ..measured });
        }
    }

    fn progress(&self, server: &Server, phase: &str, workload: Workload) -> Arc<Progress> {
        let label = format!("{phase:<15} {:<16} {:>6}  ", server.name, workload.size);
        let shuffles = u64::from(self.plan.shuffles);
        Arc::new(Progress::labelled(&label, workload.total() * shuffles))
    }

    fn fetch_rounds(
        &mut self,
        (workload, payload): (Workload, &Payload),
        prepared: &[Prepared],
    ) -> Result<(), BenchError> {
        let of_originals = self.plan.phases.contains(&Phase::FetchOriginals);
        self.last_shuffle += 1;
        let workload = workload.of_shuffle(self.last_shuffle);
        let originals = self.plan.dir.join("originals");
        if of_originals {
            self.write_originals(&originals, workload, payload)?;
        }
        self.slow_disks();
        for round in 0..self.plan.warmup + self.plan.rounds {
            let counts = round.checked_sub(self.plan.warmup);
            for index in self.order(counts) {
                if let Some(one) = prepared.get(index) {
                    self.fetch_from(index, one, counts)?;
                }
                if of_originals && !self.is_over() {
                    self.fetch_originals_from(index, (workload, payload), counts)?;
                }
            }
        }
        files::delete(&originals)
    }

    fn write_originals(
        &self,
        home: &Path,
        workload: Workload,
        payload: &Payload,
    ) -> Result<(), BenchError> {
        let label = format!("{:<15} {:<16} {:>6}  ", "map outputs", "-", workload.size);
        let progress = Progress::labelled(&label, workload.total());
        progress.show(|| files::write_originals(home, workload, payload, &progress))?;
        for server in &self.servers {
            let app = self.app_of_originals()?;
            self.runtime
                .block_on(register_originals(server, &app, home))?;
        }
        Ok(())
    }

    /// Not the application of the merged data: another executor registered its directories.
    fn app_of_originals(&self) -> Result<AppId, BenchError> {
        AppId::new(&format!("{}-originals", self.app))
            .map_err(|problem| BenchError::Usage(problem.to_string()))
    }

    fn slow_disks(&mut self) {
        if !self.plan.hdd {
            return;
        }
        for server in &mut self.servers {
            if let Err(error) = server.slow_disk() {
                self.remarks.push(format!("{}: {error}", server.name));
                self.plan.hdd = false;
            }
        }
    }

    /// Reads reach the disk only if the page cache has dropped the files.
    fn forget(&self, folder: &Path) -> Result<(), BenchError> {
        if self.plan.cold {
            files::forget(folder)?;
        }
        Ok(())
    }

    fn fetch_from(
        &mut self,
        index: usize,
        prepared: &Prepared,
        counts: Option<u32>,
    ) -> Result<(), BenchError> {
        let Some(server) = self.servers.get(index) else {
            return Ok(());
        };
        if !self.plan.phases.contains(&Phase::FetchMerged) || self.is_over() {
            return Ok(());
        }
        self.forget(&server.home)?;
        let Some(one) = prepared.first() else {
            return Ok(());
        };
        let progress = self.progress(server, "fetch merged", one.shuffle.workload);
        let conduct = self.conduct(counts);
        let measured = progress.show(|| {
            self.runtime.block_on(scene::fetch_merged(
                server,
                prepared,
                self.plan.shape,
                self.plan.slow,
                &conduct,
                Arc::clone(&progress),
            ))
        })?;
        self.count(counts, measured);
        Ok(())
    }

    fn fetch_originals_from(
        &mut self,
        index: usize,
        (workload, payload): (Workload, &Payload),
        counts: Option<u32>,
    ) -> Result<(), BenchError> {
        let Some(server) = self.servers.get(index) else {
            return Ok(());
        };
        if server.dialect == Dialect::Bare {
            return Ok(());
        }
        self.forget(&self.plan.dir.join("originals"))?;
        let progress = self.progress(server, "fetch originals", workload);
        let (conduct, app) = (self.conduct(counts), self.app_of_originals()?);
        let measured = progress.show(|| {
            self.runtime.block_on(scene::fetch_originals(
                server,
                (&app, workload, payload),
                self.plan.shape,
                self.plan.slow,
                &conduct,
                Arc::clone(&progress),
            ))
        })?;
        self.count(counts, measured);
        Ok(())
    }

    /// Rounds that do not count have no trouble.
    fn conduct(&self, counts: Option<u32>) -> Conduct {
        let trouble = counts.and(self.plan.conduct.trouble);
        Conduct {
            trouble,
            ..self.plan.conduct.clone()
        }
    }

    fn remove(&self, prepared: &[Prepared]) -> Result<(), BenchError> {
        if self.is_over() {
            return Ok(());
        }
        let pairs = self.servers.iter().zip(prepared);
        let each = pairs.flat_map(|(server, pushed)| pushed.iter().map(move |one| (server, one)));
        for (server, one) in each {
            self.remove_one(server, &one.shuffle)?;
        }
        Ok(())
    }

    fn remove_one(&self, server: &Server, shuffle: &Shuffle) -> Result<(), BenchError> {
        let removed = self.runtime.block_on(shuffle.remove());
        removed.map_err(|source| broken(server, source))
    }
}

/// Threads that drive connections: as many as there are cores.
pub fn runtime() -> Result<Runtime, BenchError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(doing("starting threads"))
}
