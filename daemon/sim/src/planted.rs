// SPDX-License-Identifier: Apache-2.0
//! Bugs planted on purpose, to show that the simulation finds them.
//!
//! 31 are inside the daemon (crate `lodestone-planted`). The other ones are between the network
//! and the real handlers, or between the store and the disk: they change a request, an answer or a
//! call as the bug would.

use lodestone_planted::Bug as PlantedBug;

/// A bug of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Inside the store, or the streams over it.
    Store(PlantedBug),
    /// Whatever incarnation a request names, it is taken for ours.
    IncarnationIgnored,
    /// A repeated commit finds nothing to compare, and is refused.
    CommittedOnce,
    /// The layout of a removed shuffle is empty.
    ReleasedReadAsEmpty,
    /// The layout of a partition that nothing was pushed for is empty.
    UnknownPartitionAsEmpty,
    /// The checksum of a segment is not compared.
    ChecksumUnchecked,
    /// A push of an older generation goes into the current one.
    StaleGenerationMerged,
    /// The first attempt of a map that commits is the only one.
    OtherAttemptRefused,
    /// All segments of a batch get the code of the first.
    OneCodeForAll,
    /// The bytes that a failed write left at the end of a file are forgotten, and the next write
    /// comes behind them.
    TornTailForgotten,
    /// A write that took only some of the bytes counts as complete.
    ShortWriteTakenForWhole,
    /// A directory of our name is removed without a look at its marker.
    MarkerUnchecked,
    /// The files of a killed daemon are not removed.
    LeftoversKept,
    /// Leases never expire.
    LeaseIgnored,
    /// A chunk is read from one byte too far.
    ChunkOffByOne,
    /// All connections have the same streams.
    StreamsShared,
    /// The data files of a removed shuffle stay.
    RemovedFilesKept,
    /// A file that was opened for reading is never closed.
    FilesLeftOpen,
    /// Every daemon has the same incarnation.
    IncarnationReused,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 49] = [
        Self::Store(PlantedBug::DroppedShown),
        Self::Store(PlantedBug::DropMovesSlots),
        Self::Store(PlantedBug::DroppedBytesCounted),
        Self::Store(PlantedBug::RemoteDropped),
        Self::Store(PlantedBug::AckBeforeWrite),
        Self::Store(PlantedBug::FailedWriteAcknowledged),
        Self::Store(PlantedBug::FailedWriteDropsAll),
        Self::Store(PlantedBug::PartsMixedUp),
        Self::Store(PlantedBug::TailMemoryKept),
        Self::Store(PlantedBug::RegistrationsForgotten),
        Self::Store(PlantedBug::LedgerUnchecked),
        Self::Store(PlantedBug::UncommittedShown),
        Self::Store(PlantedBug::AbortedKept),
        Self::Store(PlantedBug::BatchTakenTwice),
        Self::Store(PlantedBug::HandoverBelievedTwice),
        Self::Store(PlantedBug::HandoverWithoutMemory),
        Self::Store(PlantedBug::DrainIgnored),
        Self::Store(PlantedBug::RepeatsUncompared),
        Self::Store(PlantedBug::SegmentForgotten),
        Self::Store(PlantedBug::WaitIgnored),
        Self::Store(PlantedBug::OldOffsetsUsed),
        Self::Store(PlantedBug::RemovedOutputRead),
        Self::Store(PlantedBug::OneDirectoryOnly),
        Self::Store(PlantedBug::RegisteredAgainRemoved),
        Self::Store(PlantedBug::NoDescriptorTakenForBadDisk),
        Self::Store(PlantedBug::DroppedWithoutDescriptor),
        Self::Store(PlantedBug::NoDescriptorRefused),
        Self::Store(PlantedBug::MarkerAlwaysRemoved),
        Self::Store(PlantedBug::BlockMergedTwice),
        Self::Store(PlantedBug::FinalizedWithoutMemory),
        Self::Store(PlantedBug::UnknownTakenForFinalized),
        Self::IncarnationIgnored,
        Self::CommittedOnce,
        Self::ReleasedReadAsEmpty,
        Self::UnknownPartitionAsEmpty,
        Self::ChecksumUnchecked,
        Self::StaleGenerationMerged,
        Self::OtherAttemptRefused,
        Self::OneCodeForAll,
        Self::TornTailForgotten,
        Self::ShortWriteTakenForWhole,
        Self::MarkerUnchecked,
        Self::LeftoversKept,
        Self::LeaseIgnored,
        Self::ChunkOffByOne,
        Self::StreamsShared,
        Self::RemovedFilesKept,
        Self::FilesLeftOpen,
        Self::IncarnationReused,
    ];
}
