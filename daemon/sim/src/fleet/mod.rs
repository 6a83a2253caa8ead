// SPDX-License-Identifier: Apache-2.0
//! Several services, and one remote shuffle over them: the rules by which the plugin's driver, map
//! attempts and readers deal with services that are killed, stopped, drained, and started again.
//! The daemons are the real ones; the clients are as short as the rules allow. See
//! `docs/simulation.md`.
//!
//! ```text
//! plan      the services of each group of partitions, in versions; the services of an output
//! driver    generations, versions, which outputs count; releases services
//! writer    a map attempt: batches, verdicts, commit
//! reader    sources, layouts, missing segments
//! host      a daemon behind a network that loses, doubles and delays
//! ```

mod driver;
mod host;
mod plan;
mod reader;
mod segment;
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use lodestone_planted::Bug as PlantedBug;
use lodestone_wire::extension::drain::Wish;

use crate::check;
use crate::dice::Dice;
use crate::model::Judged;

use driver::Driver;
use host::{Host, ServiceLocation};
use plan::Output;
use reader::{Content, Loss, Reader};
use segment::SimSegment;
use writer::{Context, State, Writer};

const STEPS: usize = 250;
const HOSTS: u64 = 3;

/// Rounds after the last mishap in which all must have been read.
const LAST_ROUNDS: usize = 40;

/// Attempts that run at a time.
const RUNNING_MAX: usize = 3;

/// A mistake of clients, planted to show that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Readers ask services whose replica is not complete.
    WithoutIgnored,
    /// A block that no service shows counts as empty; and there is one, as with `CommitSkipped`.
    MissingTakenForEmpty,
    /// A drained service is released without a look at the replicas.
    ReleasedUnseen,
    /// An attempt counts although one of its services was not asked to commit.
    CommitSkipped,
    /// Segments that two services have are read from both.
    ReplicasReadTwice,
    /// A service that has accepted a generation, and perhaps lost it, is registered again.
    RegisteredAgain,
    /// A drained service is released because another one once had a replica.
    ReleasedUnasked,
    /// A bug of services: some segments of attempts that committed are forgotten.
    SegmentForgotten,
}

/// How a run ended.
#[derive(Debug)]
pub struct Report {
    /// The breach, if there was one.
    pub breach: Option<String>,
    /// How often each kind of event happened.
    pub tally: BTreeMap<&'static str, u64>,
}

struct Run {
    dice: Dice,
    hosts: Vec<Host>,
    driver: Driver,
    running: Vec<Writer>,
    /// The segments that each attempt pushed.
    pushed: BTreeMap<(u32, i64), Vec<SimSegment>>,
    /// Parts of generations that services have lost, and since when.
    lost: BTreeMap<(ServiceLocation, i32), usize>,
    /// Steps so far.
    now: usize,
    next_attempt: i64,
    bug: Option<Bug>,
    tally: BTreeMap<&'static str, u64>,
}

/// Runs a seed.
pub fn run(seed: u64, bug: Option<Bug>) -> Report {
    let mut dice = Dice::new(seed);
    let replicas = 1 + dice.below(2);
    let (maps, partitions) = (1 + dice.below(5) as u32, 1 + dice.below(7) as u32);
    let mut run = Run {
        hosts: (0..HOSTS)
            .map(|host| Host::new(seed ^ host << 32))
            .collect(),
        driver: Driver::new(maps, partitions, replicas),
        running: Vec::new(),
        pushed: BTreeMap::new(),
        lost: BTreeMap::new(),
        now: 0,
        next_attempt: 1,
        bug,
        tally: BTreeMap::new(),
        dice,
    };
    let of_daemons = (bug == Some(Bug::SegmentForgotten)).then_some(PlantedBug::SegmentForgotten);
    lodestone_planted::plant(of_daemons);
    let breach = run.live().err();
    lodestone_planted::plant(None);
    Report {
        breach,
        tally: run.tally,
    }
}

impl Run {
    fn live(&mut self) -> Judged {
        for _ in 0..STEPS {
            self.now += 1;
            match self.dice.weighted(&[50, 8, 12, 6, 6]) {
                0 => self.map(),
                1 => self.mishap(),
                2 => self.read()?,
                3 => self.look(),
                _ => self.stray(),
            }
        }
        self.come_to_rest()
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn context(&mut self) -> Context<'_> {
        Context {
            hosts: &mut self.hosts,
            driver: &mut self.driver,
            dice: &mut self.dice,
            bug: self.bug,
        }
    }

    /// A map attempt begins, or continues.
    fn map(&mut self) {
        if self.running.len() < RUNNING_MAX && self.dice.chance(30) {
            self.begin();
        }
        if self.running.is_empty() {
            return;
        }
        let at = self.dice.below(self.running.len());
        let mut writer = self.running.swap_remove(at);
        if self.dice.chance(2) {
            writer.give_up(&mut self.context());
            self.count("attempt killed");
            return;
        }
        match writer.step(&mut self.context()) {
            State::Pushes => self.running.push(writer),
            State::GivenUp => self.count("attempt given up"),
            State::Done(output) => self.ended(&writer, output),
        }
    }

    /// Begins an attempt: most often of a map that has no output, now and then one that races with
    /// another.
    fn begin(&mut self) {
        let open = (0..)
            .zip(&self.driver.outputs)
            .filter(|(_, output)| output.is_none());
        let mut maps: Vec<u32> = open.map(|(map, _)| map).collect();
        if self.dice.chance(10) {
            maps.push(self.dice.below(self.driver.outputs.len()) as u32);
        }
        let Some(map) = self.dice.pick(&maps) else {
            return;
        };
        let plan = self
            .driver
            .plan(&mut self.hosts, &mut self.dice, None, self.bug);
        let Some(plan) = plan else {
            self.keep(map);
            return;
        };
        self.next_attempt += 1;
        let writer = Writer::new(map, self.next_attempt, plan, &mut self.dice);
        let pushed = writer.segments.clone();
        self.pushed.insert((map, writer.map_id), pushed);
        self.running.push(writer);
    }

    /// No service takes data: the map task keeps its output, and readers get it from there.
    fn keep(&mut self, map: u32) {
        self.count("no service");
        self.next_attempt += 1;
        let kept = Output {
            map_id: self.next_attempt,
            generation: self.driver.plan.generation,
            parts: Vec::new(),
            reduces: BTreeSet::new(),
        };
        if let Some(accepted @ None) = self.driver.outputs.get_mut(map as usize) {
            *accepted = Some(kept);
        }
    }

    /// Spark accepts the first output of a map, and drops those that come later.
    fn ended(&mut self, writer: &Writer, output: Output) {
        self.count("attempt committed");
        if output.parts.len() > 1 {
            self.count("output of several versions");
        }
        match self.driver.outputs.get_mut(writer.map as usize) {
            Some(accepted @ None) => *accepted = Some(output),
            _ => {
                self.count("loser");
                if self.dice.chance(50) {
                    writer.give_up(&mut self.context());
                }
            }
        }
    }

    fn read(&mut self) -> Judged {
        if self.driver.outputs.iter().any(Option::is_none) {
            return Ok(());
        }
        let mut reader = Reader {
            hosts: &mut self.hosts,
            plan: &self.driver.plan,
            outputs: &self.driver.outputs,
            dice: &mut self.dice,
            bug: self.bug,
        };
        match reader.read() {
            Ok(content) => {
                self.count("read");
                self.check(&content)
            }
            Err(Loss::Waits) => {
                self.count("reader waits");
                Ok(())
            }
            Err(Loss::Lost) if self.driver.has_lost(&self.lost) => {
                self.count("lost");
                self.driver
                    .begin_generation(&mut self.hosts, &mut self.dice);
                Ok(())
            }
            Err(Loss::Lost) => Err("a reader misses data that was not lost".to_owned()),
        }
    }

    fn check(&self, content: &Content) -> Judged {
        let mut expected = Content::new();
        for (map, output) in (0..).zip(self.driver.outputs.iter().flatten()) {
            let pushed = self.pushed.get(&(map, output.map_id));
            for segment in pushed.into_iter().flatten() {
                let name = (map, segment.reduce, segment.sequence);
                expected.insert(name, segment.bytes.clone());
            }
        }
        match *content == expected {
            true => Ok(()),
            false => Err(format!(
                "a reader got {} segments, {} were pushed, or others",
                content.len(),
                expected.len()
            )),
        }
    }

    fn look(&mut self) {
        let (hosts, dice) = (&mut self.hosts, &mut self.dice);
        self.driver.look(hosts, dice, self.now, self.bug);
    }

    fn mishap(&mut self) {
        let at = self.dice.below(self.hosts.len());
        let what = self.dice.weighted(&[2, 3, 3, 3, 2]);
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        if !host.world.is_up() {
            host.start();
            return;
        }
        let incarnation = host.incarnation;
        let service = ServiceLocation {
            host: at,
            incarnation,
        };
        let happened = match what {
            0 => {
                host.kill();
                self.lose(service);
                "killed"
            }
            1 => {
                host.stop();
                "stopped"
            }
            2 => {
                host.drain(&mut self.dice, Wish::Begin);
                "drained"
            }
            3 => {
                host.drain(&mut self.dice, Wish::Cancel);
                "drain cancelled"
            }
            _ => {
                host.forget();
                self.lose(service);
                "lease ran out"
            }
        };
        if what == 2 && self.hosts.get(at).is_some_and(|host| !host.has(service)) {
            self.count("drained to the end");
        }
        self.count(happened);
    }

    /// The service has lost its part of the current generation.
    fn lose(&mut self, service: ServiceLocation) {
        if self.driver.registered.contains(&service) {
            self.lost
                .insert((service, self.driver.plan.generation), self.now);
        }
    }

    fn stray(&mut self) {
        let at = self.dice.below(self.hosts.len());
        if let Some(host) = self.hosts.get_mut(at) {
            host.deliver_stray(&mut self.dice);
        }
    }

    /// Nothing goes wrong any more: all maps run, everything is read, and the services hold
    /// nothing.
    fn come_to_rest(&mut self) -> Judged {
        for host in &mut self.hosts {
            if !host.world.is_up() {
                host.start();
            }
            host.drain(&mut self.dice, Wish::Cancel);
        }
        let reads = |run: &Self| run.tally.get("read").copied().unwrap_or_default();
        let before = reads(self);
        for _ in 0..LAST_ROUNDS {
            for _ in 0..STEPS {
                self.map();
            }
            self.read()?;
            if reads(self) > before {
                break;
            }
        }
        if reads(self) == before {
            return Err("the job does not come to its end".to_owned());
        }
        self.driver.remove_all(&mut self.hosts);
        for host in &mut self.hosts {
            let shuffles = host.world.store().map(|store| store.held_data().shuffles);
            // Data of an earlier generation whose removal was lost goes with the lease.
            if shuffles == Some(0) {
                check::no_memory(&host.world)?;
            }
        }
        Ok(())
    }
}
