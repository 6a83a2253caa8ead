// SPDX-License-Identifier: Apache-2.0
//! Appends a segment to a partition: to the tail, or with the tail to disk if memory is short.

use lodestone_model::{Code, LaidSegment};
use lodestone_planted::{self as planted, Bug};

use super::partition::{Inner, Partition};
use super::write_out::Writer;
use crate::resource::Resources;
use crate::resource::budget::Budget;
use crate::resource::home::Home;
use crate::resource::timed_mutex::{Caller, Wait};

/// A segment of this size or more is written directly as cheaply as it is copied to the tail and
/// written from there, when it has left the processor's caches.
const LARGE_BYTES: usize = 64 * 1024;

/// Bytes of a partition of Spark's own push that are written together.
const SPARK_WRITE_BYTES: usize = 256 * 1024;

impl Partition {
    /// Appends a segment whose checksum was verified. A caller that must not wait appends in memory
    /// only.
    pub(crate) fn append(
        &self,
        resources: &Resources,
        caller: &Caller<'_>,
        segment: &LaidSegment,
        bytes: &[u8],
    ) -> Code {
        match self
            .lock_for(caller)
            .and_then(|mut inner| self.append_locked(resources, caller, &mut inner, segment, bytes))
        {
            Ok(()) => Code::Ok,
            Err(code) => code,
        }
    }

    fn append_locked(
        &self,
        resources: &Resources,
        caller: &Caller<'_>,
        inner: &mut Inner,
        segment: &LaidSegment,
        bytes: &[u8],
    ) -> Result<(), Code> {
        let wait = caller.wait;
        assert_eq!(bytes.len(), segment.length as usize);
        if !self.is_open(inner) {
            return Err(Code::TooLate);
        }
        // Spark's own push names no attempt: the blocks of two attempts may have different bytes.
        let is_there = inner.segments.has_map(segment.map_index);
        if is_there && !planted::is(Bug::BlockMergedTwice) {
            return Err(Code::Duplicate);
        }
        self.account().check()?;
        if self.has_originals() {
            // Refuse early if no disk accepts writes: the segment would be dropped at the next
            // write.
            self.check_disk(resources, wait)?;
        }
        let may_stay = !self.must_leave(resources, wait, inner, bytes);
        if may_stay && self.grow_tail(resources, inner, bytes) {
            self.index(inner, segment);
        } else if !wait.is_allowed() && !planted::is(Bug::WaitIgnored) {
            return Err(Code::Overloaded);
        } else if !planted::is(Bug::AckBeforeWrite) {
            self.write_through(resources, caller, inner, segment, bytes)?;
        }
        Ok(())
    }

    /// An error if no disk accepts writes. To know it for certain, a disk in trouble is probed.
    fn check_disk(&self, resources: &Resources, wait: Wait) -> Result<(), Code> {
        if !wait.is_allowed() {
            let known = self.home().next_place(resources, self.reduce(), None);
            return known.map(drop).ok_or(Code::Overloaded);
        }
        let (disks, environment) = (&resources.disks, &resources.environment);
        let pick = |spread| disks.pick(spread, environment);
        self.home().disk(self.reduce(), pick).map(drop)
    }

    /// Writes the tail and the segment to disk; of a long tail only as much as makes room for the
    /// segment. A segment without an original stays in memory if no disk takes it, unless its
    /// application has its share of the memory: the rest is for others.
    fn write_through(
        &self,
        resources: &Resources,
        caller: &Caller<'_>,
        inner: &mut Inner,
        segment: &LaidSegment,
        bytes: &[u8],
    ) -> Result<(), Code> {
        let writer = Writer::Request { body: caller.body };
        if inner.tail.is_long(&resources.pages) {
            let written = self.write_first_locked(resources, writer, inner);
            written.map_err(|code| self.share_or(code))?;
            if self.grow_tail(resources, inner, bytes) {
                self.index(inner, segment);
                return Ok(());
            }
        }
        let written = self.write_out_locked(resources, writer, inner, bytes);
        if let Err(code) = written
            && (self.may_drop(inner)
                || self.has_its_share_of_room()
                || !self.grow_tail(resources, inner, bytes))
        {
            return Err(self.share_or(code));
        }
        self.index(inner, segment);
        if written.is_ok() {
            inner.on_file = inner.segments.len();
        }
        Ok(())
    }

    /// True if the segments of its application leave the rest of the memory to others.
    fn has_its_share_of_room(&self) -> bool {
        self.account().has_its_share_of_room()
    }

    /// The error of a segment that no disk takes. The memory might have taken it, if its
    /// application did not have its share.
    fn share_or(&self, code: Code) -> Code {
        match code {
            Code::DiskFull | Code::DiskFailed
                if !self.has_originals() && self.has_its_share_of_room() =>
            {
                Code::Quota
            }
            _ => code,
        }
    }

    fn index(&self, inner: &mut Inner, segment: &LaidSegment) {
        let before = inner.segments.heap_bytes();
        inner.segments.push(segment);
        self.count_in_hints(inner, u64::from(segment.length));
        self.account().resize(before, inner.segments.heap_bytes());
    }

    /// Returns true if the segment goes to disk at once.
    fn must_leave(
        &self,
        resources: &Resources,
        wait: Wait,
        inner: &mut Inner,
        bytes: &[u8],
    ) -> bool {
        if self.has_its_share_of_room() {
            return true;
        }
        match self.home() {
            // A long tail would have to be written first: the thread that writes out when memory is
            // short does this.
            Home::Ours { .. } => {
                bytes.len() >= LARGE_BYTES
                    && !inner.tail.is_long(&resources.pages)
                    && is_crowded(&resources.budget, inner)
            }
            // Executors read the file: all of it must be on disk when finalize is answered. One
            // block goes to a thread to write the tail; others come behind it meanwhile. If it does
            // not arrive there, the next one goes when the tail is twice as long. A block that has
            // waited for its thread may be the one that the others rely on.
            Home::Spark { .. } => {
                let length = inner.tail.len() + bytes.len();
                let is_full = length >= SPARK_WRITE_BYTES;
                let is_due = is_full && !wait.is_allowed();
                let was_due = std::mem::replace(&mut inner.is_due, is_due);
                match was_due && wait == Wait::Never {
                    true => length >= 2 * SPARK_WRITE_BYTES,
                    false => is_full,
                }
            }
        }
    }

    /// Copies the segment to the tail, if there is memory for it.
    fn grow_tail(&self, resources: &Resources, inner: &mut Inner, bytes: &[u8]) -> bool {
        let has_grown = inner.tail.try_append(&resources.pages, bytes);
        self.update_tail_hints(inner);
        has_grown
    }
}

/// Returns true if a large segment is not worth a copy that will be written out soon. A partition
/// that has begun to go to disk continues to do so, and leaves the memory to partitions that are
/// only in memory.
fn is_crowded(budget: &Budget, inner: &Inner) -> bool {
    match inner.own {
        Some(_) => budget.is_scarce(),
        None => budget.is_nearly_short(),
    }
}
