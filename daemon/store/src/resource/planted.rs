// SPDX-License-Identifier: Apache-2.0
//! Bugs that the simulation and the tests of interleaved threads plant on purpose, to show that
//! they find them.
//!
//! Without the feature `planted` the question "is this bug planted?" is answered `false` when the
//! crate is compiled. With it the answer belongs to the calling thread, so that the bug of one test
//! does not affect another.

/// The bugs inside the store. (`daemon/sim` has more, outside of it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted"),
    expect(unreachable_pub, reason = "exported with the feature")
)]
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
    /// The layout of a shuffle that is removed meanwhile is empty.
    RemovalReadAsEmpty,
    /// A push opens a partition of a shuffle that was removed meanwhile.
    OpenedAfterRemoval,
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug for this thread, or takes it out.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    pub(crate) const fn is(_: super::Bug) -> bool {
        false
    }
}

pub(crate) use switch::is;
#[cfg(feature = "planted")]
pub use switch::plant;
