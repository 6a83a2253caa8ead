// SPDX-License-Identifier: Apache-2.0
//! Bugs that the simulations and the tests of interleaved threads plant on purpose, to show that
//! they find them.
//!
//! Without the feature `on` the question "is this bug planted?" is answered `false` when the crate
//! is compiled. With it the answer belongs to the calling thread, so that the bug of one test does
//! not affect another.

/// The bugs inside the daemon. (`daemon/sim/src/fleet` has more: mistakes of its clients.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A dropped segment is still shown.
    DroppedShown,
    /// A dropped segment gives its slot to the next one.
    DropMovesSlots,
    /// The bytes of a dropped segment still count for where those behind it are.
    DroppedBytesCounted,
    /// A segment that cannot be written is dropped, also if it has no original.
    RemoteDropped,
    /// A segment that goes directly to the file is acknowledged before it is written, and lost.
    AckBeforeWrite,
    /// A write that failed is acknowledged.
    FailedWriteAcknowledged,
    /// A failed write also drops the segments that are in the file already.
    FailedWriteDropsAll,
    /// All tails that are written together are recorded at the position of the first one.
    PartsMixedUp,
    /// The memory of a removed partition's tail is not given back.
    TailMemoryKept,
    /// The registrations of an earlier daemon are not taken over.
    RegistrationsForgotten,
    /// A map attempt commits whatever it pushed.
    LedgerUnchecked,
    /// Readers are shown attempts that have not committed.
    UncommittedShown,
    /// The segments of an aborted attempt stay.
    AbortedKept,
    /// A batch that comes again is taken again.
    BatchTakenTwice,
    /// More than one daemon uses the same handover.
    HandoverBelievedTwice,
    /// The data in memory is not written out before the handover.
    HandoverWithoutMemory,
    /// A service that is drained takes segments.
    DrainIgnored,
    /// A repeated batch is taken for the first one, whatever it contains.
    RepeatsUncompared,
    /// Some segments of attempts that committed are forgotten.
    SegmentForgotten,
    /// A call that must not wait writes to a disk.
    WaitIgnored,
    /// The offsets of a map output are used for a file that took its name later.
    OldOffsetsUsed,
    /// A map output is read from a file that was removed, or replaced.
    RemovedOutputRead,
    /// Every file of an executor is looked for in its first directory.
    OneDirectoryOnly,
    /// Blocks are removed although their executor registered again since they were named.
    RegisteredAgainRemoved,
    /// If file descriptors run out, the disk is taken for broken.
    NoDescriptorTakenForBadDisk,
    /// Segments are dropped if there is no descriptor to write them.
    DroppedWithoutDescriptor,
    /// A block of an executor for which there is no descriptor is refused for good.
    NoDescriptorRefused,
    /// The marker of an earlier daemon's directory goes, whatever else could not be removed there.
    MarkerAlwaysRemoved,
    /// A block of Spark's own push that comes again is merged again.
    BlockMergedTwice,
    /// A finalize of Spark's own push does not write what is in memory.
    FinalizedWithoutMemory,
    /// A disk that cannot be looked at counts as one with a finalized partition.
    UnknownTakenForFinalized,
    /// Whatever incarnation a request names, it is taken for ours.
    IncarnationIgnored,
    /// A commit that comes again finds nothing to compare, and is refused.
    CommittedOnce,
    /// The first attempt of a map that commits is the only one.
    OtherAttemptRefused,
    /// The layout of an unknown shuffle has nothing for each partition.
    UnknownShuffleReadAsEmpty,
    /// The layout of a partition that nothing was pushed for is empty.
    UnknownPartitionReadAsEmpty,
    /// The checksum of a segment is not compared.
    ChecksumUnchecked,
    /// A request for an older generation is taken for one for the current one.
    StaleGenerationTaken,
    /// All segments of a batch get the code of the first.
    OneCodeForAll,
    /// The bytes that a failed write left at the end of a file are forgotten, and the next write
    /// comes behind them.
    TornEndForgotten,
    /// A write that took only some of the bytes counts as complete.
    ShortWriteTakenForWhole,
    /// A directory of our name is removed without a look at its marker.
    MarkerUnchecked,
    /// The files of a killed daemon are not removed.
    LeftoversKept,
    /// Leases never expire.
    LeaseIgnored,
    /// A chunk is read from one byte too far in a file.
    ChunkOffByOne,
    /// All connections have the same streams.
    StreamsShared,
    /// The data files of a removed shuffle stay.
    RemovedFilesKept,
    /// A file that was opened for a chunk is never closed.
    FilesLeftOpen,
    /// Every daemon has the same incarnation.
    IncarnationReused,
    /// The layout of a shuffle that is removed meanwhile is empty.
    RemovalReadAsEmpty,
    /// A push opens a partition of a shuffle that was removed meanwhile.
    OpenedAfterRemoval,
    /// A connection whose client takes no bytes is never closed.
    StalledAnswerKept,
    /// A connection is never closed that stopped inside a request.
    StalledRequestKept,
    /// A connection is never closed whose request comes too slowly.
    SlowRequestKept,
    /// Nobody that holds the memory of a request hears that others wait for it.
    NobodyHurried,
    /// An answer keeps the permit and the memory of its request after it was written.
    AnswersHeld,
    /// If the socket takes some of an answer, the rest is forgotten.
    RestOfAnswerForgotten,
    /// If the socket takes some of a chunk, this part of the chunk is sent again.
    PartOfChunkRepeated,
    /// No connection makes way for a new one.
    NoWayMade,
    /// Calls that use memory only wait for disks.
    ControlsWaitForDisks,
    /// Leases are not longer by the time in which the daemon stood still.
    GapNotAdded,
    /// The gap between two looks at leases counts from the first look.
    GapFromFirstLook,
    /// A look ends leases that run out before the next one.
    LeaseEndsEarly,
    /// An application is not forgotten when the directories of its executors vanish.
    GoneExecutorsKept,
}

#[cfg(feature = "on")]
mod switch {
    use std::any::Any;
    use std::cell::{Cell, RefCell};

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static SHARED: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }

    /// Plants a bug for this thread, or takes it out.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
        SHARED.take();
    }

    /// Returns true if this thread has the bug.
    pub fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Returns the one value of this thread, if it has the bug that owners share what each should
    /// have for itself.
    pub fn shared<T: Clone + Default + 'static>(bug: Bug) -> Option<T> {
        if !is(bug) {
            return None;
        }
        SHARED.with_borrow_mut(|shared| {
            let shared = shared.get_or_insert_with(|| Box::new(T::default()));
            shared.downcast_ref().cloned()
        })
    }
}

#[cfg(not(feature = "on"))]
mod switch {
    /// No bug is planted.
    pub const fn is(_: super::Bug) -> bool {
        false
    }

    /// No bug is planted: each owner has its own value.
    pub const fn shared<T>(_: super::Bug) -> Option<T> {
        None
    }
}

#[cfg(feature = "on")]
pub use switch::plant;
pub use switch::{is, shared};
