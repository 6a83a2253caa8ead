// SPDX-License-Identifier: Apache-2.0
//! Where the bytes of a partition go when they leave memory.
//!
//! A partition that is expected to stay small goes to a file that the partitions of the shuffle
//! share on a disk: most partitions of most shuffles need no file. A partition that is expected to
//! become large, or became large unexpectedly, has a file of its own, which a disk with a head
//! reads in one go.

use std::io;

use lodestone_model::Code;
use lodestone_planted::{self as planted, Bug};
use serde::{Deserialize, Serialize};

use super::extents::{FILE_BYTES_MAX, FileRange};
use super::partition::{Inner, Partition, Phase};
use super::tail::Tail;
use crate::resource::Resources;
use crate::resource::bodies::Body;
use crate::resource::disk::{DiskIndex, code_of};
use crate::resource::file_path::FilePath;
use crate::resource::flow::{Line, Writing};
use crate::resource::home::{DataFile, Home};
use crate::resource::timed_mutex::{LockWaits, TimedGuard};

/// Up to this size a partition is small.
const SMALL_BYTES: u64 = 1024 * 1024;

/// The thread that writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer<'a> {
    /// Carries out a request, or the handover: any disk takes the bytes, and one in trouble is
    /// probed if it is time to. A push holds its body meanwhile.
    Request { body: Option<Body<'a>> },
    /// Carries out a finalize, which cannot be repeated: waits for its turn in line.
    Finalize,
    /// Serves this place, and asks no other disk: one that hangs must not take it.
    Place(usize),
}

/// The data of one write.
enum What<'a> {
    /// The tail, and these bytes behind it.
    AllAnd(&'a [u8]),
    FirstPart,
}

impl What<'_> {
    fn slices<'b>(&'b self, tail: &'b Tail) -> Vec<&'b [u8]> {
        match self {
            Self::AllAnd(more) => {
                let mut slices = tail.slices();
                slices.push(more);
                slices
            }
            Self::FirstPart => tail.first_slices(),
        }
    }
}

/// A partition's own file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct OwnFile {
    pub(super) disk: DiskIndex,
    bytes: u64,
}

impl OwnFile {
    /// True if a daemon with so many disks may have it.
    pub(super) fn is_sound(&self, disks: usize) -> bool {
        usize::from(self.disk) < disks && self.bytes <= FILE_BYTES_MAX
    }
}

impl Partition {
    /// Writes out the tail and frees its memory. Releases the partition's lock after each part:
    /// other threads append to a long tail meanwhile, and their segments stay.
    pub(crate) fn write_out(
        &self,
        resources: &Resources,
        lock_waits: &LockWaits,
    ) -> Result<(), Code> {
        self.write_out_locking(resources, Writer::Finalize, || {
            self.lock_in_line(lock_waits)
        })
    }

    /// Writes out like `write_out`, unless another thread has the lock: its disk may hang. Ends
    /// between two parts when the threads that write out are to end.
    pub(super) fn write_out_if_free(
        &self,
        resources: &Resources,
        place: usize,
    ) -> Result<(), Code> {
        self.write_out_locking(resources, Writer::Place(place), || {
            let free = Some(()).filter(|()| !resources.write_calls.is_over());
            let locked = free.and_then(|()| self.try_lock_with_tail());
            locked.ok_or(Code::Overloaded)
        })
    }

    /// Writes out like `write_out`, with another way to wait.
    pub(super) fn write_out_locking<'a>(
        &'a self,
        resources: &Resources,
        writer: Writer<'_>,
        lock: impl Fn() -> Result<TimedGuard<'a, Inner>, Code>,
    ) -> Result<(), Code> {
        let mut left = None;
        loop {
            let mut inner = lock()?;
            let length = inner.tail.len();
            let goal = left.unwrap_or(length);
            if inner.phase == Phase::Removed || goal == 0 {
                return Ok(());
            }
            if !inner.tail.is_long(&resources.pages) {
                return self.write_out_locked(resources, writer, &mut inner, &[]);
            }
            let written = self.write_first_locked(resources, writer, &mut inner)?;
            left = Some(goal.saturating_sub(written));
        }
    }

    /// Writes the first part of the tail, and returns its length.
    pub(super) fn write_first_locked(
        &self,
        resources: &Resources,
        writer: Writer<'_>,
        inner: &mut Inner,
    ) -> Result<usize, Code> {
        let before = inner.tail.len();
        // A part whose segments were all aborted has nothing to write.
        if !inner.tail.first_slices().is_empty() {
            self.write(resources, writer, inner, &What::FirstPart)?;
        }
        inner.on_file += inner.tail.drop_first();
        self.update_tail_hints(inner);
        Ok(before - inner.tail.len())
    }

    /// Writes the tail, and `more` behind it. If that fails, the segments of a tail with originals
    /// are dropped; a remote partition keeps its tail, because there are no originals.
    pub(super) fn write_out_locked(
        &self,
        resources: &Resources,
        writer: Writer<'_>,
        inner: &mut Inner,
        more: &[u8],
    ) -> Result<(), Code> {
        if inner.tail.len() == 0 && more.is_empty() {
            // It may have segments without bytes: they must not count in later parts again.
            self.leave_memory(inner);
            return Ok(());
        }
        self.write(resources, writer, inner, &What::AllAnd(more))?;
        self.leave_memory(inner);
        Ok(())
    }

    /// Writes some of the data in memory. If no disk takes it, the segments of a tail with
    /// originals are dropped. They stay if they may be written in a moment.
    fn write(
        &self,
        resources: &Resources,
        writer: Writer<'_>,
        inner: &mut Inner,
        what: &What<'_>,
    ) -> Result<(), Code> {
        let written = self.write_to_any_disk(resources, writer, inner, what);
        if let Err(code) = written
            && (code != Code::Overloaded || planted::is(Bug::DroppedWithoutDescriptor))
            && self.may_drop(inner)
        {
            self.drop_tail(inner, code);
        }
        written
    }

    /// Tries one file after another, until one takes the bytes or none is left. OVERLOADED if the
    /// thread of another place is to write them.
    fn write_to_any_disk(
        &self,
        resources: &Resources,
        writer: Writer<'_>,
        inner: &mut Inner,
        what: &What<'_>,
    ) -> Result<(), Code> {
        let length = what
            .slices(&inner.tail)
            .iter()
            .map(|slice| slice.len() as u64)
            .sum();
        let mut refusal = Code::DiskFailed;
        for _ in 0..self.home().tries(resources) {
            let file = self.next_file(resources, writer, inner, length)?;
            if let Writer::Place(place) = writer
                && self.home().write_place(resources, file) != place
            {
                // The thread of that place writes it.
                return Err(Code::Overloaded);
            }
            let slices = what.slices(&inner.tail);
            let end = inner.own_bytes();
            match self.put(resources, (writer, file), end, &slices) {
                Ok(offset) => {
                    let range = FileRange {
                        file,
                        offset,
                        length,
                    };
                    self.record_extent(inner, range);
                    return Ok(());
                }
                Err(error) => {
                    refusal = self.home().report(resources, file.disk(), &error);
                    // A repeated push may find a turn: this write was not tried.
                    if refusal != Code::Overloaded {
                        inner.failed_writes += 1;
                    }
                    let reduce = self.reduce();
                    tracing::warn!(%reduce, ?file, %refusal, %error, "a write failed");
                }
            }
            if refusal == Code::Overloaded {
                break;
            }
        }
        Err(refusal)
    }

    /// Writes `slices` to the shared file of a disk or to the partition's own, which ends at `end`,
    /// and returns the offset of the first byte.
    fn put(
        &self,
        resources: &Resources,
        (writer, file): (Writer<'_>, DataFile),
        end: u64,
        slices: &[&[u8]],
    ) -> io::Result<u64> {
        let (home, reduce) = (self.home(), self.reduce());
        if let DataFile::Shared(disk) = file {
            let body = writer.body();
            return home.write_shared(resources, body, disk, slices);
        }
        let turn = turn(resources, writer, home.place(file, reduce))?;
        home.append(resources, &turn, (file, reduce), end, slices)?;
        Ok(end)
    }

    /// Where the next `length` bytes go.
    pub(super) fn next_file(
        &self,
        resources: &Resources,
        writer: Writer<'_>,
        inner: &Inner,
        length: u64,
    ) -> Result<DataFile, Code> {
        let Home::Ours { num_maps, .. } = self.home() else {
            self.check_reserve(resources, writer)?;
            return Ok(DataFile::Own(0));
        };
        let (disks, environment) = (&resources.disks, &resources.environment);
        if let Some(own) = inner.own
            && !disks.gives_way(own.disk, environment)
            && match writer {
                Writer::Request { .. } | Writer::Finalize => {
                    disks.check(own.disk, environment).is_ok()
                }
                Writer::Place(_) => disks.is_well(own.disk, environment),
            }
        {
            return Ok(DataFile::Own(own.disk));
        }
        let disk = self.home().disk(self.reduce(), |spread| match writer {
            Writer::Request { .. } | Writer::Finalize => disks.pick(spread, environment),
            Writer::Place(place) => disks.pick_at(place, spread, environment),
        })?;
        let bytes = inner.extents.bytes() + length;
        // The segment that is being written through is not in the index yet.
        let maps = inner.segments.len() as u64 + 1;
        let expected = bytes.max(bytes.saturating_mul(u64::from(*num_maps)) / maps);
        let is_large = expected > SMALL_BYTES;
        Ok(match inner.own {
            None if is_large => DataFile::Own(disk),
            // The file is on a bad disk: the rest goes to another one.
            _ => DataFile::Shared(disk),
        })
    }

    /// Refuses a write to a disk of executors that has only the reserve left. What is known of the
    /// daemon's own disks says nothing of this one, so it is asked.
    fn check_reserve(&self, resources: &Resources, writer: Writer) -> Result<(), Code> {
        let FilePath::Foreign(path) = self.home().path(resources, DataFile::Own(0), self.reduce())
        else {
            return Ok(());
        };
        let turn = turn(resources, writer, path.place);
        let _asking = turn.map_err(|error| code_of(&error))?.only_asking();
        // A disk that does not say how much it has is not judged.
        let space = resources.fs().space(&path.base).unwrap_or_default();
        match resources.disks.keeps(&path, space) {
            true => Err(Code::DiskFull),
            false => Ok(()),
        }
    }

    /// Records the position of the next bytes of the partition.
    pub(super) fn record_extent(&self, inner: &mut Inner, range: FileRange) {
        if let DataFile::Own(disk) = range.file {
            let bytes = range.offset + range.length;
            inner.own = Some(OwnFile { disk, bytes });
        }
        let before = inner.extents.heap_bytes();
        inner.extents.push(range);
        let after = inner.extents.heap_bytes();
        self.account().resize(before, after);
    }

    /// The tail was written.
    pub(super) fn leave_memory(&self, inner: &mut Inner) {
        inner.on_file = inner.segments.len();
        self.clear_tail(inner);
    }
}

/// Waits for a turn to write at a place.
fn turn<'a>(resources: &'a Resources, writer: Writer<'_>, place: usize) -> io::Result<Writing<'a>> {
    let (flow, clock) = (
        resources.disks.flow_at(place),
        resources.environment.clock.as_ref(),
    );
    let is_foreign = place >= resources.disks.len();
    let line = match writer {
        Writer::Finalize => Line::Finalizes,
        Writer::Request { .. } if is_foreign => Line::Pushes,
        Writer::Request { .. } | Writer::Place(_) => Line::Short,
    };
    flow.begin_with(line, writer.body().map_or(0, |body| body.bytes()), clock)
}

impl<'a> Writer<'a> {
    fn body(self) -> Option<Body<'a>> {
        match self {
            Self::Request { body } => body,
            Self::Finalize | Self::Place(_) => None,
        }
    }
}

impl Inner {
    /// Where its own file ends.
    pub(super) fn own_bytes(&self) -> u64 {
        self.own.map_or(0, |own| own.bytes)
    }
}
