// SPDX-License-Identifier: Apache-2.0
//! Bugs that the simulation plants on purpose, to show that it finds them.
//!
//! Without the feature `planted` the question "is this bug planted?" is answered `false` when the
//! crate is compiled. With it the answer is the calling thread's, so that one test's bug is no other
//! test's.

/// What can be broken inside the store. (`daemon/sim` breaks more, from outside.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted"),
    expect(unreachable_pub, reason = "exported with the feature")
)]
pub enum Bug {
    /// A dropped segment is still shown.
    DroppedShown,
    /// A dropped segment gives its place to the next one.
    DropMovesSlots,
    /// The bytes of a dropped segment still count for where those behind it are.
    DroppedBytesCounted,
    /// What cannot be written is dropped, also where it has no original.
    RemoteDropped,
    /// A segment that goes straight to the file is acknowledged before it is written, and lost.
    AckBeforeWrite,
    /// A write that failed is acknowledged.
    FailedWriteAcknowledged,
    /// A write that failed takes along what is in the file already.
    FailedWriteDropsAll,
    /// Of tails that are written together, all are looked for where the first one is.
    PartsMixedUp,
    /// The memory of a removed partition's tail is not given back.
    TailMemoryKept,
    /// What executors said to an earlier start is not taken over.
    RegistrationsForgotten,
    /// A map attempt commits whatever it pushed.
    LedgerUnchecked,
    /// Readers are shown attempts that have not committed.
    UncommittedShown,
    /// What is held of an aborted attempt stays.
    AbortedKept,
    /// A batch that comes again is taken again.
    BatchTakenTwice,
    /// What a daemon that was stopped has left is believed by more than one start.
    HandoverBelievedTwice,
    /// What is in memory is not written out before it is left to the next start.
    HandoverWithoutMemory,
    /// A service that is drained takes segments.
    DrainIgnored,
    /// What comes again is taken for what is there, whatever it is.
    RepeatsUncompared,
    /// Some segments of attempts that committed are forgotten.
    SegmentForgotten,
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
