// SPDX-License-Identifier: Apache-2.0
//! Events of the machine: time, kills, restarts, broken disks.

use std::path::{Path, PathBuf};

use lodestone_store::fs::fake::{Errno, Fault};

use super::{Judged, MEMORY_BYTES, Run};
use crate::check;
use crate::client::{CONNECTIONS, EXECUTOR_APP, EXECUTOR_DISKS};
use crate::model::Trouble;
use crate::world::disk::Death;

/// How long the store leaves a bad disk alone.
const DISK_RETRY_MS: u64 = 5_000;

impl Run {
    /// A file that is none of the daemon's.
    pub(super) fn leave_foreign(&mut self, path: PathBuf) {
        let content = self.dice.bytes(20);
        self.world.disk.fake.add_file(&path, &content);
        self.foreign.insert(path, content);
    }

    /// Takes stock after the daemon did something: returns the trouble meanwhile, or nothing if the
    /// daemon died.
    pub(super) fn settle(&mut self) -> Judged<Option<Trouble>> {
        if self.world.disk.is_dead() {
            self.count("killed in a disk call");
            self.die();
            return Ok(None);
        }
        let failures = self.world.disk.take_failures();
        self.written = self.world.disk.take_written();
        if failures.changes > 0 {
            // Which of them count, the failure leaves open.
            self.written.clear();
        }
        let now_ms = self.world.now_ms();
        // A disk that failed is out of use until it is looked at, which may be later.
        let was_bad = now_ms < self.trouble_until_ms || self.world.no_disk_takes_writes();
        if failures.changes > 0 {
            self.count("disk call failed");
            self.untidy = true;
            self.trouble_until_ms = now_ms + DISK_RETRY_MS;
        }
        if failures.descriptors > 0 {
            self.count("no descriptor");
            self.untidy = true;
        }
        if failures.removals > 0 {
            self.model.doubt_blocks();
        }
        let trouble = Trouble {
            writes: was_bad || failures.changes > 0,
            removals: failures.removals > 0,
            reads: failures.reads > 0,
            descriptors: failures.descriptors > 0,
            metadata: self.world.is_short_of_metadata(),
        };
        // Threads that write out work during each call, also during one that writes nothing.
        if trouble.writes {
            self.model.doubt();
        }
        Ok(Some(trouble))
    }

    /// The process is gone, with all of its memory and connections.
    pub(super) fn die(&mut self) {
        self.trace.record("killed", &[], String::new);
        self.pending.clear();
        self.world.kill();
        let fake = &self.world.disk.fake;
        self.model.removals_end(|path| fake.content(path).is_some());
        self.world.disk.take_failures();
        self.world.disk.take_written();
        self.model.end();
        if let Some(incarnation) = self.incarnation.take()
            && self.dice.chance(10)
            && let Some(dir) = self.dice.pick(&self.world.dirs)
        {
            self.leave_foreign(dir.join(check::root_name(incarnation)).join("core"));
        }
    }

    /// The daemon starts, on the port of the one before.
    pub(super) fn start(&mut self) -> Judged {
        let incarnation = self.world.start();
        let name = incarnation.unwrap_or_default();
        self.trace
            .record("start", &name.to_be_bytes(), || check::root_name(name));
        let failures = self.world.disk.take_failures();
        self.trouble_until_ms = 0;
        self.untidy = failures.changes + failures.descriptors > 0;
        let Some(incarnation) = incarnation else {
            self.model.doubt_left();
            if self.world.start_was_killed() {
                self.count("killed in its start");
            } else {
                self.count("did not start");
                self.mend();
            }
            return Ok(());
        };
        self.count("started");
        self.incarnation = Some(incarnation);
        let is_troubled = !failures.are_none();
        let may_lack = self
            .model
            .start(incarnation, self.world.now_ms(), is_troubled)?;
        if !self.model.holds_nothing() {
            self.count("took over a handover");
        }
        if may_lack {
            self.forget_lost();
        }
        check::foreign(&self.world, &self.foreign)?;
        match is_troubled {
            false => check::leftovers(&self.world, Some(incarnation), &self.foreign),
            true => Ok(()),
        }
    }

    pub(super) fn stop(&mut self) -> Judged {
        self.pending.clear();
        let was_bad = self.world.now_ms() < self.trouble_until_ms;
        let was_killed = self.world.stop();
        self.untidy |= was_killed;
        self.trace.record("stop", &[], String::new);
        let failures = self.world.disk.take_failures();
        let was_calm = !was_killed && !was_bad && failures.are_none();
        self.model.stop(was_calm);
        check::foreign(&self.world, &self.foreign)?;
        match self.incarnation.take() {
            Some(_) if self.model.leaves_something() => Ok(()),
            Some(own) if !self.untidy && failures.are_none() => {
                check::no_data(&self.world, own, &self.foreign)
            }
            _ => Ok(()),
        }
    }

    /// Looks which shuffles there are, where that is not certain.
    fn forget_lost(&mut self) {
        for (key, _) in self.model.shuffles() {
            if !self.world.knows(&key) {
                self.count("lost with a stop");
                self.model.lost(&key);
            }
        }
    }

    /// All disks are well again, and nothing is about to go wrong.
    pub(super) fn mend(&mut self) {
        self.world.disk.calm();
        self.world.disk.fake.forget_faults();
        for disk in EXECUTOR_DISKS {
            self.world.disk.fake.mend(Path::new(disk));
        }
        for dir in &self.world.dirs {
            self.world.disk.fake.mend(dir);
            self.world.disk.fake.set_capacity(dir, 1 << 40);
        }
    }

    /// Something that no client asked for.
    pub(super) fn mishap(&mut self) -> Judged {
        let Self { climate, dice, .. } = self;
        let kills = 10 * usize::from(climate.kills);
        let faults = 20 * usize::from(climate.disk_faults);
        let memory = 10 * usize::from(climate.memory_changes);
        let executors = [5, faults / 2, faults / 2];
        let [vanish, unreadable, descriptors] = executors;
        match dice.weighted(&[
            60,
            10,
            kills,
            kills / 3,
            5,
            memory,
            faults,
            faults,
            faults,
            vanish,
            unreadable,
            descriptors,
        ]) {
            0 => self.time_passes(),
            1 => {
                let connection = self.dice.bits() % CONNECTIONS;
                let number = connection.to_be_bytes();
                self.trace
                    .record("reconnect", &number, || connection.to_string());
                self.world.reconnect(connection);
                self.model.disconnect(connection);
                Ok(())
            }
            2 => {
                self.announce_death();
                Ok(())
            }
            3 => {
                self.count("killed at rest");
                self.die();
                Ok(())
            }
            4 => self.stop(),
            5 => self.memory_changes(),
            6 => {
                self.fault_a_write();
                Ok(())
            }
            7 => {
                let after = self.dice.below(5) as u64;
                self.world.disk.fail_read(after);
                Ok(())
            }
            8 => {
                self.break_a_disk();
                Ok(())
            }
            9 => {
                self.directory_vanishes();
                Ok(())
            }
            10 => {
                self.break_a_disk_of_executors();
                Ok(())
            }
            _ => {
                self.take_descriptors();
                Ok(())
            }
        }
    }

    /// The process will be killed in one of the next disk calls.
    pub(super) fn announce_death(&mut self) {
        let after = self.dice.below(12) as u64;
        let done = self.dice.chance(70).then(|| self.dice.below(400));
        self.world.disk.kill_at(Death { after, done });
    }

    fn time_passes(&mut self) -> Judged {
        let (ms, stands_still) = match self.dice.below(100) {
            0..50 => (self.dice.below(2_000), false),
            50..97 => (self.dice.below(12_000), false),
            97..99 => (130_000, false),
            _ => (130_000, true),
        };
        self.world.clock.advance_ms(ms as u64);
        self.trace
            .record("time passes", &ms.to_be_bytes(), || format!("{ms} ms"));
        if stands_still && self.world.prolong_leases(ms as u64).is_some() {
            self.model.prolong(ms as u64);
            self.trace
                .record("stood still", &[], || "the daemon stood still".to_owned());
        }
        match self.dice.chance(60) {
            true => self.expire_leases(),
            false => Ok(()),
        }
    }

    fn expire_leases(&mut self) -> Judged {
        let Some(ended) = self.world.expire_leases() else {
            return Ok(());
        };
        if self.settle()?.is_none() {
            return Ok(());
        }
        let ended: Vec<String> = ended.iter().map(|app| app.as_str().to_owned()).collect();
        let names = ended.concat();
        self.trace
            .record("leases ran out", names.as_bytes(), || format!("{ended:?}"));
        let is_gone = |app: &String| app == EXECUTOR_APP;
        if ended.iter().any(is_gone) {
            self.count("application without executors");
        }
        self.model.expire(self.world.now_ms(), &ended)?;
        self.check_floor()
    }

    /// The host has more memory to spare, or less.
    fn memory_changes(&mut self) -> Judged {
        let Some(bytes) = self.dice.pick(&MEMORY_BYTES) else {
            return Ok(());
        };
        self.trace
            .record("memory", &bytes.to_be_bytes(), || format!("{bytes} bytes"));
        if self.world.limit_memory(bytes).is_none() {
            return Ok(());
        }
        if self.settle()?.is_some() {
            self.model.written(&std::mem::take(&mut self.written));
        }
        Ok(())
    }

    fn fault_a_write(&mut self) {
        let (nth, bytes) = (self.dice.below(6) as u64, self.dice.below(600));
        let fault = match self.dice.below(4) {
            0 => Fault::Torn(bytes, Errno::NOSPC),
            1 => Fault::Torn(bytes, Errno::IO),
            _ => Fault::Short(bytes + 1),
        };
        self.trace
            .record("a write will fail", &nth.to_be_bytes(), || {
                format!("in {nth} writes: {fault:?}")
            });
        self.world.disk.fake.fault_at(nth, fault);
    }

    /// The process comes to its limit of open files: for some calls, or until an operator helps.
    fn take_descriptors(&mut self) {
        let after = self.dice.below(6) as u64;
        let left = match self.dice.below(3) {
            0 => 1,
            1 => 1 + self.dice.below(10) as u64,
            _ => u64::MAX,
        };
        self.trace.record("descriptors", &left.to_be_bytes(), || {
            format!("{after}, {left}")
        });
        self.world.disk.take_descriptors(after, left);
    }

    fn break_a_disk_of_executors(&mut self) {
        let Some(disk) = self.dice.pick(&EXECUTOR_DISKS) else {
            return;
        };
        let disk = Path::new(disk);
        match self.dice.below(3) {
            0 => self.world.disk.fake.break_dir(disk, Errno::IO),
            1 => self.world.disk.break_reads(disk),
            _ => self.mend(),
        }
    }

    fn break_a_disk(&mut self) {
        let Some(dir) = self.dice.pick(&self.world.dirs) else {
            return;
        };
        let fake = &self.world.disk.fake;
        match self.dice.below(6) {
            0 => fake.break_dir(&dir, Errno::IO),
            1 => fake.break_dir(&dir, Errno::NOSPC),
            2 => fake.set_capacity(&dir, self.dice.below(400_000) as u64),
            _ => self.mend(),
        }
    }

    /// Checks what must be true when the daemon holds no shuffle.
    pub(super) fn check_floor(&mut self) -> Judged {
        if !self.model.holds_nothing() || !self.world.is_up() {
            return Ok(());
        }
        self.count("nothing held");
        // Chunks on their way to a reader are held until they were sent.
        if !self.sends_a_chunk() {
            check::no_memory(&self.world)?;
        }
        // Looking at the load tries bad disks.
        match (self.settle()?, self.incarnation) {
            (Some(_), Some(own)) if !self.untidy => check::no_data(&self.world, own, &self.foreign),
            _ => Ok(()),
        }
    }
}
