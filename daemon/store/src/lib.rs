// SPDX-License-Identifier: Apache-2.0
//! The merge store.
//!
//! For each application, shuffle, generation and reduce partition it keeps a memory tail, extents
//! in append-only files with the bytes that were written before it, and an index of segments. Calls
//! may block: the server makes them from threads that may, or with [`Wait::Never`]. No network, no
//! async, nothing of the wire format.
//!
//! ```text
//! <dir>/lodestone-<incarnation>/                    one per disk and incarnation
//!   <application>-s<shuffle>-m<generation>-<n>/     one per registered generation
//!     spill.data                                    whole segments of many partitions
//!     <reduceId>.data                               segments of one large partition
//!   executors-<n>                                   executors of Spark's own protocol
//!   handover                                        remote shuffles of a daemon that was stopped
//! <parent of localDir>/<mergeDir>/<00..3f>/         Spark's own push, Spark's names and paths
//!   shuffleMerged_<app>_<shuffle>_<generation>_<reduce>.data|.index|.meta
//! ```
//!
//! # Modules
//!
//! Each uses only those above it; `daemon/tidy` finds a circle. Ids, codes and segments are those
//! of `lodestone-model`.
//!
//! * `fs`, `resource`: the disk behind a trait; clock, memory, disks, the homes of files.
//! * `index`, `merge`: the index of a partition; partitions, in memory and on disk.
//! * `state`: the applications, generations of their shuffles, map attempts and executors of the
//!   store.
//! * `memory`, `life`, `spark`, `handover`: what requests and operators do with the state.
//! * `open`: opening and closing.
//!
//! # Invariants
//!
//! * A segment is stored as a whole or not at all. Readers see the segments of attempts that
//!   committed, and only those; of Spark's own push at most one per map index.
//! * The segments of a remote shuffle stay until their attempt is aborted, whatever the disks do. A
//!   segment that has an original may be dropped: its slot stays, and is empty.
//! * The extents of a partition hold the segments that were written out, whole and in the order of
//!   the index. Bytes of a file that are in no extent are never read; the next write overwrites
//!   those behind the last extent.
//! * All tails and all metadata together stay under `memory_bytes`, including tails that are being
//!   sent to readers.
//! * No file descriptor is kept per partition.
//! * The list of a partition's segments only grows: a slot never gets another segment. (While
//!   Spark's own push is open the list may shrink, and no reader knows slots.)
//! * The store removes only files that it made (exception: Spark's `RemoveBlocks`, which names
//!   files).
//! * Nothing is ever fsynced: an acknowledgement says "in the daemon's memory or the page cache".
//!
//! # Locks
//!
//! registrations -> their log on one disk -> applications -> one application -> partitions of one
//! shuffle -> one map attempt -> one partition -> a file that partitions share. Each is released
//! before disk work, except the locks of the partitions that are written and of the attempt that
//! pushes, and the first one: it is held while other threads record an executor on the disks, for
//! which its holder waits for a limited time. One thread at a time writes several partitions
//! together: it locks all of them, and all are on the same disk. Locks that are held during disk
//! work are timed locks. A call with [`Wait::Never`] (or [`Wait::NeverAgain`])
//! takes only timed locks that are free, and asks no disk.

pub mod fs;

mod handover;
mod index;
mod life;
mod memory;
mod merge;
mod open;
mod resource;
mod spark;
mod state;
mod sync;

pub use index::chunk::CHUNK_BYTES;
pub use life::fetch::{ChunkData, FoundChunk, Part};
pub use life::holdings::Holding;
pub use life::push::Batch;
pub use merge::STEP_BYTES;
pub use open::StoreConfig;
pub use resource::Environment;
pub use resource::clock::{Clock, OsClock};
pub use resource::foreign_disks::FOREIGN_PLACES;
pub use resource::incarnation::{Incarnation, OpenError};
pub use resource::map_files::MAP_FILES_MAX;
pub use resource::pages::TAIL_PART_BYTES;
pub use resource::random::{OsRandom, Random};
pub use resource::reserve::Reserve;
pub use resource::threads::{Threads, Work};
pub use resource::timed_mutex::Wait;
pub use spark::chunks::MergedMeta;
pub use spark::executors::LOCAL_DIRS_MAX;
pub use spark::finalize::STATUS_BYTES;
pub use spark::originals::FoundOriginal;
pub use spark::push::PushPlaces;
pub use spark::remove::NamedBlocks;
pub use state::executors::{EXECUTORS_MAX, ExecutorInfo};
pub use state::store::Store;

#[cfg(any(test, feature = "fake"))]
pub use resource::clock::ManualClock;
#[cfg(any(test, feature = "fake"))]
pub use resource::random::SeededRandom;
#[cfg(any(test, feature = "fake"))]
pub use resource::threads::NoThreads;
