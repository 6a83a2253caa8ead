// SPDX-License-Identifier: Apache-2.0
//! One merged partition: memory tail, extents on disk, segment index.
//!
//! The partition's bytes are those of its extents followed by the tail. Segments are appended to
//! the tail, and stay there as long as there is memory. When there is none, tail and segment go to
//! disk in one positioned write, and the extents grow only when the disk took every byte. If a
//! write fails, the segments of the tail are removed from the index if their originals exist. A
//! torn byte is never visible.
//!
//! Files are opened for each write and closed again: ten thousand partitions need no descriptors.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lodestone_model::{Code, ReduceId};
use lodestone_planted::{self as planted, Bug};

use super::extents::Extents;
use super::tail::Tail;
use super::write_out::OwnFile;
use crate::index::kind::Kind;
use crate::index::segment::Segments;
use crate::resource::Resources;
use crate::resource::account::Account;
use crate::resource::home::Home;
use crate::resource::timed_mutex::{
    AbortWaits, Caller, LockWaits, ShutdownDeadline, TimedGuard, TimedMutex, Wait,
};
use crate::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Memory that a partition needs beside its segments, for the budget: the struct, its map entry,
/// allocations.
const PARTITION_BYTES: usize = 448;

/// No disk has this number.
const NO_DISK: u16 = u16::MAX;

#[derive(Debug)]
pub(crate) struct Partition {
    reduce: ReduceId,
    kind: Kind,
    home: Arc<Home>,
    /// The memory of its application.
    account: Arc<Account>,
    /// Bytes in the tail: a hint, to find the largest tails without taking locks.
    tail_hint: AtomicUsize,
    /// True if readers have taken these bytes: also a hint.
    read_hint: AtomicBool,
    /// Segments in the index, and their bytes: also hints.
    segments_hint: AtomicUsize,
    bytes_hint: AtomicU64,
    /// The disk of its own file, or [`NO_DISK`]: also a hint.
    own_hint: AtomicU16,
    /// Its shuffle is finalized: appends that wait for the lock come too late.
    is_closing: AtomicBool,
    inner: TimedMutex<Inner>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// No more appends: only of Spark's own push.
    Frozen,
    Removed,
}

pub(super) struct Inner {
    pub(super) phase: Phase,
    pub(super) segments: Segments,
    /// The first segments of the index, those on disk.
    pub(super) on_file: usize,
    /// Where those are.
    pub(super) extents: Extents,
    pub(super) tail: Tail,
    /// A block of Spark's own push was sent to a thread, to write the tail.
    pub(super) is_due: bool,
    /// Its own file, once there is one.
    pub(super) own: Option<OwnFile>,
    pub(super) failed_writes: u32,
    /// Bytes that readers were given, those that they took again too.
    read_bytes: u64,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("phase", &self.phase)
            .field("segments", &self.segments.len())
            .field("extents", &self.extents)
            .finish_non_exhaustive()
    }
}

/// A partition, as a reader sees it.
pub(crate) struct View<'a> {
    pub(crate) segments: &'a Segments,
    pub(crate) extents: &'a Extents,
    tail: &'a Tail,
}

impl View<'_> {
    /// Returns the bytes in this range of the tail; fewer if the tail is shorter.
    pub(crate) fn in_memory(&self, range: &Range<usize>) -> Vec<Bytes> {
        self.tail.share(range)
    }
}

impl Inner {
    /// Heap memory of segment index and extents.
    pub(super) fn index_bytes(&self) -> usize {
        self.segments.heap_bytes() + self.extents.heap_bytes()
    }
}

impl Partition {
    pub(crate) fn new(
        reduce: ReduceId,
        kind: Kind,
        home: Arc<Home>,
        account: Arc<Account>,
    ) -> Self {
        account.resize(0, PARTITION_BYTES);
        let inner = Inner {
            phase: Phase::Open,
            segments: Segments::new(kind),
            on_file: 0,
            extents: Extents::default(),
            tail: Tail::default(),
            own: None,
            is_due: false,
            failed_writes: 0,
            read_bytes: 0,
        };
        Self {
            reduce,
            kind,
            home,
            account,
            tail_hint: 0.into(),
            read_hint: false.into(),
            segments_hint: 0.into(),
            bytes_hint: 0.into(),
            own_hint: NO_DISK.into(),
            is_closing: false.into(),
            inner: TimedMutex::new(inner),
        }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(super) fn shared_home(&self) -> Arc<Home> {
        Arc::clone(&self.home)
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn reduce(&self) -> ReduceId {
        self.reduce
    }

    /// Returns true if segments that cannot be written now may be dropped, because they have
    /// originals.
    pub(super) fn may_drop(&self, inner: &Inner) -> bool {
        let has_originals = self.kind.has_originals() || planted::is(Bug::RemoteDropped);
        has_originals && inner.phase == Phase::Open
    }

    /// Returns true if executors have the segments too.
    pub(super) fn has_originals(&self) -> bool {
        self.kind.has_originals()
    }

    pub(crate) fn tail_hint(&self) -> usize {
        self.tail_hint.load(Relaxed)
    }

    pub(crate) fn read_hint(&self) -> bool {
        self.read_hint.load(Relaxed)
    }

    pub(crate) fn segments_hint(&self) -> usize {
        self.segments_hint.load(Relaxed)
    }

    /// A segment of so many bytes was appended.
    pub(super) fn count_in_hints(&self, inner: &Inner, bytes: u64) {
        self.segments_hint.store(inner.segments.len(), Relaxed);
        self.bytes_hint.fetch_add(bytes, Relaxed);
    }

    /// Segments came or went.
    pub(super) fn update_index_hints(&self, inner: &Inner) {
        self.segments_hint.store(inner.segments.len(), Relaxed);
        self.bytes_hint.store(inner.segments.bytes(), Relaxed);
    }

    /// Returns the place to which its next bytes go, as far as is known.
    pub(super) fn next_place(&self, resources: &Resources) -> Option<usize> {
        let own = Some(self.own_hint.load(Relaxed)).filter(|disk| *disk != NO_DISK);
        self.home().next_place(resources, self.reduce, own)
    }

    /// Bytes of all its segments, as far as is known: its lock may be held while a disk works.
    pub(crate) fn bytes_hint(&self) -> u64 {
        self.bytes_hint.load(Relaxed)
    }

    /// A thread that panicked while it held this lock may have left index and bytes different: such
    /// a partition is lost.
    pub(super) fn lock(&self) -> Result<TimedGuard<'_, Inner>, Code> {
        self.inner.lock()
    }

    pub(super) fn lock_if(&self, wait: Wait) -> Result<TimedGuard<'_, Inner>, Code> {
        self.inner.lock_if(wait)
    }

    pub(super) fn lock_for(&self, caller: &Caller<'_>) -> Result<TimedGuard<'_, Inner>, Code> {
        self.inner.lock_for(caller)
    }

    /// Locks like `lock`, for a caller that cannot retry.
    pub(super) fn lock_in_line(
        &self,
        lock_waits: &LockWaits,
    ) -> Result<TimedGuard<'_, Inner>, Code> {
        lock_waits.lock(&self.inner)
    }

    /// Locks like `lock`, for an abort of all partitions.
    pub(super) fn lock_to_abort(&self, waits: &AbortWaits) -> Result<TimedGuard<'_, Inner>, Code> {
        waits.lock(&self.inner)
    }

    /// Locks like `lock`, but with the shared shutdown deadline.
    pub(super) fn lock_before(
        &self,
        deadline: &ShutdownDeadline,
    ) -> Result<TimedGuard<'_, Inner>, Code> {
        deadline.lock(&self.inner)
    }

    /// Returns the lock if it is free, and the partition exists and has something in memory.
    pub(super) fn try_lock_with_tail(&self) -> Option<TimedGuard<'_, Inner>> {
        let inner = self.inner.try_lock()?;
        (inner.phase != Phase::Removed && inner.tail.len() > 0).then_some(inner)
    }

    pub(super) fn update_tail_hints(&self, inner: &Inner) {
        let before = self.tail_hint.swap(inner.tail.len(), Relaxed);
        self.account.resize_tail(before, inner.tail.len());
        self.read_hint.store(inner.tail.was_read(), Relaxed);
        let own = inner.own.map_or(NO_DISK, |own| own.disk);
        self.own_hint.store(own, Relaxed);
    }

    /// Its memory goes back as soon as no reader has it.
    pub(super) fn clear_tail(&self, inner: &mut Inner) {
        inner.tail.clear();
        self.update_tail_hints(inner);
    }

    /// Drops the segments that are only in memory. Their slots are empty from now on.
    pub(super) fn drop_tail(&self, inner: &mut Inner, code: Code) {
        if planted::is(Bug::FailedWriteDropsAll) {
            inner.on_file = 0;
            inner.extents.clear();
        }
        let before = inner.segments.heap_bytes();
        let dropped = inner.segments.drop_from(inner.on_file);
        self.account.resize(before, inner.segments.heap_bytes());
        // The next segment is the first of the tail, and comes behind the slots that stay.
        inner.on_file = inner.segments.len();
        self.update_index_hints(inner);
        self.clear_tail(inner);
        if dropped > 0 {
            tracing::warn!(reduce = %self.reduce, dropped, %code, "segments dropped from memory");
        }
    }

    /// Takes no more appends, also of those that wait for its lock. Waits for none.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Relaxed);
    }

    pub(super) fn is_open(&self, inner: &Inner) -> bool {
        inner.phase == Phase::Open && !self.is_closing.load(Relaxed)
    }

    /// Takes no more appends. Returns true if there is anything in the partition.
    pub(crate) fn freeze(&self, lock_waits: &LockWaits) -> Result<bool, Code> {
        let mut inner = self.lock_in_line(lock_waits)?;
        if inner.phase == Phase::Open {
            inner.phase = Phase::Frozen;
            let before = inner.index_bytes();
            inner.segments.shrink();
            inner.extents.shrink();
            self.account.resize(before, inner.index_bytes());
            let held = inner.extents.bytes() + inner.tail.len() as u64;
            assert_eq!(held, inner.segments.bytes());
        }
        Ok(inner.segments.len() > 0)
    }

    /// Calls `read` with a partition that may be read. Holds its lock meanwhile: no disk work in
    /// `read`.
    pub(crate) fn view<T>(&self, wait: Wait, read: impl FnOnce(&View<'_>) -> T) -> Result<T, Code> {
        self.view_locked(&*self.lock_if(wait)?, read)
    }

    /// Calls `read` like `view`, for a caller that cannot retry.
    pub(super) fn view_in_line<T>(
        &self,
        lock_waits: &LockWaits,
        read: impl FnOnce(&View<'_>) -> T,
    ) -> Result<T, Code> {
        self.view_locked(&*self.lock_in_line(lock_waits)?, read)
    }

    fn view_locked<T>(&self, inner: &Inner, read: impl FnOnce(&View<'_>) -> T) -> Result<T, Code> {
        match inner.phase {
            Phase::Removed => Err(Code::UnknownShuffle),
            Phase::Open if !self.kind.commits() => Err(Code::NotFinalized),
            Phase::Open | Phase::Frozen => Ok(read(&View {
                segments: &inner.segments,
                extents: &inner.extents,
                tail: &inner.tail,
            })),
        }
    }

    /// Counts bytes that a reader took. A reader that has taken nearly all (no reader takes aborted
    /// segments) may come back if its task is run again, but the store does not expect it.
    pub(crate) fn count_read(&self, wait: Wait, bytes: u64) -> Result<(), Code> {
        let mut inner = self.lock_if(wait)?;
        inner.read_bytes += bytes;
        let held = inner.extents.bytes() + inner.tail.len() as u64;
        if inner.read_bytes >= held / 8 * 7 {
            inner.tail.mark_read();
            self.update_tail_hints(&inner);
        }
        Ok(())
    }

    /// Forgets everything, unless another thread has the lock: false. Its files are not touched.
    pub(crate) fn try_discard(&self, resources: &Resources) -> bool {
        // A lost partition still has memory to give back.
        let inner = self.inner.try_lock_even_if_spoiled();
        inner
            .map(|mut inner| self.discard(resources, &mut inner))
            .is_some()
    }

    fn discard(&self, resources: &Resources, inner: &mut Inner) {
        if inner.phase == Phase::Removed {
            return;
        }
        inner.phase = Phase::Removed;
        let before = inner.index_bytes();
        inner.segments = Segments::new(self.kind);
        inner.extents = Extents::default();
        self.account.resize(before, inner.index_bytes());
        self.account.resize(PARTITION_BYTES, 0);
        if planted::is(Bug::TailMemoryKept) {
            let _ = resources.budget.try_take_tail(inner.tail.len());
        }
        self.clear_tail(inner);
        inner.own = None;
    }

    /// Writes that failed so far.
    pub(crate) fn failed_writes(&self, wait: Wait) -> Result<u32, Code> {
        self.lock_if(wait).map(|inner| inner.failed_writes)
    }
}
