// SPDX-License-Identifier: Apache-2.0
//! One merged partition: memory tail, append-only file, segment index.
//!
//! The partition's bytes are the file's first `file_bytes` followed by the tail. Segments are
//! appended to the tail; when it would reach 256 KiB, tail and segment go to the file in one
//! positioned write at `file_bytes`, which advances only when every byte was taken. A write that
//! fails takes the segments of the tail out of the index: their originals exist, and a torn byte is
//! never visible.
//!
//! The file is opened for each write and closed again: ten thousand partitions need no descriptors.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::fs::{Open, write_all_at};
use crate::model::code::Code;
use crate::model::id::ReduceId;
use crate::model::ledger::Ledger;
use crate::model::segment::{LaidSegment, Segments};
use crate::resource::Resources;
use crate::resource::disk::DiskIndex;
use crate::resource::home::Home;
use crate::resource::pages::{PAGE_BYTES, PagedBytes};
use crate::resource::planted::{self, Bug};

/// A tail that would reach this size is written out.
pub const WRITE_OUT_BYTES: usize = 256 * 1024;

/// What a partition costs beside its segments, for the budget: the struct, its map entry,
/// allocations.
pub(crate) const PARTITION_BYTES: usize = 320;

#[derive(Debug)]
pub(crate) struct Partition {
    reduce: ReduceId,
    home: Arc<Home>,
    /// Bytes in the tail: a hint, for finding the largest tails without taking locks.
    tail_hint: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Frozen,
    Removed,
}

enum Tail {
    Growing(PagedBytes),
    /// After finalize: readers share it.
    Frozen(Bytes),
}

struct Inner {
    phase: Phase,
    segments: Segments,
    /// The first segments of the index, those in the file.
    on_file: usize,
    /// Sum of the lengths of the segments in the file.
    file_bytes: u64,
    tail: Tail,
    /// What the tail has of the budget.
    tail_taken: usize,
    /// Where the file is, once there is one.
    place: Option<DiskIndex>,
    failed_writes: u32,
    /// Segments that were merged, and dropped again when they could not be written.
    lost: Ledger,
}

/// What is in a partition that was frozen, and what should be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frozen {
    pub(crate) bytes: u64,
    pub(crate) merged: Ledger,
    pub(crate) lost: Ledger,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("phase", &self.phase)
            .field("segments", &self.segments.len())
            .field("file_bytes", &self.file_bytes)
            .finish_non_exhaustive()
    }
}

impl Tail {
    fn len(&self) -> usize {
        match self {
            Self::Growing(paged) => paged.len(),
            Self::Frozen(bytes) => bytes.len(),
        }
    }

    /// Its bytes, with `more` behind them.
    fn slices<'a>(&'a self, more: &'a [u8]) -> Vec<&'a [u8]> {
        let mut slices: Vec<_> = match self {
            Self::Growing(paged) => paged.slices().collect(),
            Self::Frozen(bytes) => vec![bytes],
        };
        slices.push(more);
        slices
    }
}

/// A frozen partition, as a reader sees it.
pub(crate) struct View<'a> {
    pub(crate) segments: &'a Segments,
    pub(crate) file_bytes: u64,
    /// The file, if anything is in it.
    pub(crate) path: Option<PathBuf>,
    pub(crate) tail: Bytes,
}

impl View<'_> {
    /// Where a range of the partition's bytes is in the tail; the rest is in the file.
    pub(crate) fn tail_range(&self, offset: u64, length: u64) -> Option<Range<usize>> {
        let start = usize::try_from(offset.checked_sub(self.file_bytes)?).ok()?;
        Some(start..start + usize::try_from(length).ok()?)
    }
}

impl Partition {
    pub(crate) fn new(reduce: ReduceId, home: Arc<Home>) -> Self {
        let inner = Inner {
            phase: Phase::Open,
            segments: Segments::default(),
            on_file: 0,
            file_bytes: 0,
            tail: Tail::Growing(PagedBytes::default()),
            tail_taken: 0,
            place: None,
            failed_writes: 0,
            lost: Ledger::default(),
        };
        Self {
            reduce,
            home,
            tail_hint: 0.into(),
            inner: Mutex::new(inner),
        }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn tail_hint(&self) -> usize {
        self.tail_hint.load(Relaxed)
    }

    /// A thread that panicked here may have left index and bytes disagreeing: such a partition is
    /// lost.
    fn lock(&self) -> Result<MutexGuard<'_, Inner>, Code> {
        self.inner.lock().map_err(|_| Code::Internal)
    }

    /// Appends a segment whose checksum was verified.
    pub(crate) fn append(
        &self,
        resources: &Resources,
        segment: &LaidSegment,
        bytes: &[u8],
    ) -> Code {
        match self
            .lock()
            .and_then(|mut inner| self.append_locked(resources, &mut inner, segment, bytes))
        {
            Ok(()) => Code::Ok,
            Err(code) => code,
        }
    }

    fn append_locked(
        &self,
        resources: &Resources,
        inner: &mut Inner,
        segment: &LaidSegment,
        bytes: &[u8],
    ) -> Result<(), Code> {
        assert_eq!(bytes.len(), segment.length as usize);
        let late = planted::is(Bug::LateAppend) && inner.phase == Phase::Frozen;
        if inner.phase != Phase::Open && !late {
            return Err(Code::TooLate);
        }
        let writer = inner.segments.writer_of(segment.map_index);
        if let Some(writer) = writer.filter(|_| !planted::is(Bug::DuplicateCheckDropped)) {
            let same = writer == segment.map_id;
            return Err(if same {
                Code::Duplicate
            } else {
                Code::OtherAttempt
            });
        }
        if resources.budget.metadata_is_full() {
            return Err(Code::Overloaded);
        }
        self.home.check(resources, self.reduce, inner.place)?;
        if self.grow_tail(resources, inner, bytes) {
            self.index(resources, inner, segment);
        } else if !planted::is(Bug::AckBeforeWrite) {
            let written = self.write_out_locked(resources, inner, bytes);
            if !planted::is(Bug::FailedWriteAcknowledged) {
                written?;
            }
            self.index(resources, inner, segment);
            inner.on_file = inner.segments.len();
            inner.file_bytes += u64::from(segment.length);
        }
        Ok(())
    }

    fn index(&self, resources: &Resources, inner: &mut Inner, segment: &LaidSegment) {
        let before = inner.segments.heap_bytes();
        inner.segments.push(segment);
        resources
            .budget
            .resize_metadata(before, inner.segments.heap_bytes());
    }

    /// Copies the segment to the tail, unless that makes the tail large enough to write out or
    /// there is no memory for it.
    fn grow_tail(&self, resources: &Resources, inner: &mut Inner, bytes: &[u8]) -> bool {
        let Tail::Growing(tail) = &mut inner.tail else {
            return false;
        };
        let length = tail.len() + bytes.len();
        if length >= WRITE_OUT_BYTES {
            return false;
        }
        let capacity = length.next_multiple_of(PAGE_BYTES);
        if !resources.budget.try_take_tail(capacity - inner.tail_taken) {
            return false;
        }
        inner.tail_taken = capacity;
        resources.pages.grow(tail, length);
        tail.append(bytes);
        self.tail_hint.store(length, Relaxed);
        true
    }

    /// Writes the tail to the file and gives its memory back. Waits for the partition's lock.
    pub(crate) fn write_out(&self, resources: &Resources) -> Result<(), Code> {
        let mut inner = self.lock()?;
        match inner.phase {
            Phase::Removed => Ok(()),
            Phase::Open | Phase::Frozen => self.write_out_locked(resources, &mut inner, &[]),
        }
    }

    /// Writes the tail, and `more` behind it, to the end of the file. If that fails the segments of
    /// an open partition's tail are dropped; a frozen partition keeps its tail, because its layout
    /// is final.
    fn write_out_locked(
        &self,
        resources: &Resources,
        inner: &mut Inner,
        more: &[u8],
    ) -> Result<(), Code> {
        let tail_bytes = inner.tail.len() as u64;
        if tail_bytes == 0 && more.is_empty() {
            return Ok(());
        }
        match self.write_at_end(resources, inner, more) {
            Ok(()) => {
                inner.file_bytes += tail_bytes;
                inner.on_file = inner.segments.len();
                self.clear_tail(resources, inner);
                Ok(())
            }
            Err(code) => {
                if inner.phase == Phase::Open {
                    self.drop_tail(resources, inner, code);
                }
                Err(code)
            }
        }
    }

    /// Tries the places for a new file one after another; a file that is there stays where it is.
    fn write_at_end(
        &self,
        resources: &Resources,
        inner: &mut Inner,
        more: &[u8],
    ) -> Result<(), Code> {
        let mut refusal = Code::DiskFailed;
        for _ in 0..self.home.places(resources) {
            let place = match inner.place {
                Some(place) => {
                    self.home.check(resources, self.reduce, inner.place)?;
                    place
                }
                None => self.home.place(resources, self.reduce)?,
            };
            let path = self.home.data_path(resources, place, self.reduce);
            let file = match inner.place {
                Some(_) => resources.fs().open(&path, Open::Write),
                None => self.home.create(resources, &path),
            };
            let written = file.and_then(|file| {
                write_all_at(file.as_ref(), &inner.tail.slices(more), inner.file_bytes)
                    // Cut back at once: what is torn must not fill a full disk.
                    .inspect_err(|_| drop(file.set_size(inner.file_bytes)))
            });
            let Err(error) = written else {
                inner.place = Some(place);
                return Ok(());
            };
            inner.failed_writes += 1;
            refusal = self.home.report(resources, place, &error);
            tracing::warn!(path = %path.display(), %refusal, %error, "write out a partition");
            if inner.place.is_some() {
                return Err(refusal);
            }
            // Made by us and empty of anything visible. If it cannot be removed now, it goes with
            // the shuffle's directory.
            let _ = resources.fs().remove_file(&path);
        }
        Err(refusal)
    }

    fn clear_tail(&self, resources: &Resources, inner: &mut Inner) {
        let empty = match inner.phase {
            Phase::Open => Tail::Growing(PagedBytes::default()),
            Phase::Frozen | Phase::Removed => Tail::Frozen(Bytes::new()),
        };
        if let Tail::Growing(paged) = std::mem::replace(&mut inner.tail, empty) {
            resources.pages.take_back(paged);
        }
        resources.budget.return_tail(inner.tail_taken);
        inner.tail_taken = 0;
        self.tail_hint.store(0, Relaxed);
    }

    fn drop_tail(&self, resources: &Resources, inner: &mut Inner, code: Code) {
        if planted::is(Bug::FailedWriteDropsAll) {
            (inner.on_file, inner.file_bytes) = (0, 0);
        }
        let dropped = inner.segments.len() - inner.on_file;
        let before = inner.segments.heap_bytes();
        let lost = Ledger::of(self.reduce, inner.segments.iter().skip(inner.on_file));
        inner.lost = inner.lost.and(lost);
        inner.segments.truncate(inner.on_file);
        resources
            .budget
            .resize_metadata(before, inner.segments.heap_bytes());
        self.clear_tail(resources, inner);
        if dropped > 0 {
            tracing::warn!(reduce = %self.reduce, dropped, %code, "segments dropped from memory");
        }
    }

    /// No more appends.
    pub(crate) fn freeze(&self, resources: &Resources) -> Result<Frozen, Code> {
        let mut inner = self.lock()?;
        if inner.phase == Phase::Open {
            inner.phase = Phase::Frozen;
            let before = inner.segments.heap_bytes();
            inner.segments.shrink();
            resources
                .budget
                .resize_metadata(before, inner.segments.heap_bytes());
            self.settle_tail(resources, &mut inner);
            let index_bytes = inner.segments.bytes();
            assert_eq!(inner.file_bytes + inner.tail.len() as u64, index_bytes);
        }
        Ok(Frozen {
            bytes: inner.segments.bytes(),
            merged: Ledger::of(self.reduce, inner.segments.iter()),
            lost: inner.lost,
        })
    }

    /// Copies what is left in memory to one piece of the right size, which readers can share.
    fn settle_tail(&self, resources: &Resources, inner: &mut Inner) {
        let bytes: Bytes = inner.tail.slices(&[]).concat().into();
        let length = bytes.len();
        if let Tail::Growing(paged) = std::mem::replace(&mut inner.tail, Tail::Frozen(bytes)) {
            resources.pages.take_back(paged);
        }
        resources.budget.return_tail(inner.tail_taken - length);
        inner.tail_taken = length;
    }

    /// Shows a frozen partition to `read`. Holds the partition's lock meanwhile: no disk work in
    /// it.
    pub(crate) fn view<T>(
        &self,
        resources: &Resources,
        read: impl FnOnce(&View<'_>) -> T,
    ) -> Result<T, Code> {
        let inner = self.lock()?;
        match (inner.phase, &inner.tail) {
            (Phase::Frozen, Tail::Frozen(tail)) => {
                let path = inner
                    .place
                    .map(|place| self.home.data_path(resources, place, self.reduce));
                Ok(read(&View {
                    segments: &inner.segments,
                    file_bytes: inner.file_bytes,
                    path,
                    tail: tail.clone(),
                }))
            }
            (Phase::Removed, _) => Err(Code::UnknownShuffle),
            _ => Err(Code::NotFinalized),
        }
    }

    /// Forgets everything and removes the file. Readers that have it open keep it.
    pub(crate) fn remove(&self, resources: &Resources) {
        // A poisoned partition still has a file to remove, and memory to give back.
        let mut inner = self
            .inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if inner.phase == Phase::Removed {
            return;
        }
        inner.phase = Phase::Removed;
        let held = std::mem::take(&mut inner.segments);
        resources
            .budget
            .resize_metadata(held.heap_bytes(), Segments::default().heap_bytes());
        resources.budget.resize_metadata(PARTITION_BYTES, 0);
        if !planted::is(Bug::TailMemoryKept) {
            self.clear_tail(resources, &mut inner);
        }
        if let Some(place) = inner.place.take() {
            let path = self.home.data_path(resources, place, self.reduce);
            if let Err(error) = resources.fs().remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "remove a partition's file");
            }
        }
    }

    /// Writes that failed so far.
    pub(crate) fn failed_writes(&self) -> u32 {
        self.lock().map_or(u32::MAX, |inner| inner.failed_writes)
    }
}
