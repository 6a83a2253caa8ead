// SPDX-License-Identifier: Apache-2.0
//! The merge store.
//!
//! Per application, shuffle, generation and reduce partition it keeps a memory tail, the
//! runs of bytes in append-only files that were written before it, and an index of segments. Calls
//! block: the server makes them from its blocking pool. No network, no async, nothing of the wire
//! format.
//!
//! ```text
//! <dir>/lodestone-<incarnation>/                    one per disk and daemon start
//!   <application>-s<shuffle>-m<merge>-<n>/          one per registered generation
//!     spill.data                                    whole segments of many partitions
//!     <reduceId>.data                               of one partition that became large
//!   executors-<n>                                   who registered with Spark's own protocol
//!   handover                                        what a start that was stopped leaves to the next
//! <parent of localDir>/<mergeDir>/<00..3f>/         Spark's own push: names and places are Spark's
//!   shuffleMerged_<app>_<shuffle>_<merge>_<reduce>.data|.index|.meta
//! ```
//!
//! # Modules
//!
//! Each uses only those above it; `daemon/tidy` finds a circle. Ids, codes and segments are those of
//! `lodestone-model`.
//!
//! * `fs`, `resource`: the disk behind a trait; clock, memory, disks, the homes of files.
//! * `index`, `merge`: the index of a partition; partitions, in memory and on disk.
//! * `state`: applications, generations of their shuffles, map attempts, executors: what there is.
//! * `memory`, `life`, `spark`, `handover`: what requests and operators do with it.
//! * `open`: opening and closing.
//!
//! # Invariants
//!
//! * A segment is whole or absent. The segments of attempts that committed are visible, and only those;
//!   of Spark's own push at most one per map index is.
//! * What a remote shuffle took stays until its attempt is aborted, whatever the disks do. What has an
//!   original may be dropped: its place stays, and is empty.
//! * The extents of a partition hold the segments that were written out, whole and in the order of
//!   the index. Bytes of a file that are in no extent are never read, and those behind its last
//!   extent are overwritten by the next write.
//! * All tails and all metadata together stay under `memory_bytes`, also those that are just being
//!   sent to readers.
//! * No file descriptor is kept per partition.
//! * The list of a partition's segments only grows: a place never gets another segment. (Where Spark's
//!   own push is open it may shrink, and nobody knows places.)
//! * Only files that this store made are removed (exception: Spark's `RemoveBlocks`, which names
//!   them).
//! * Nothing is ever fsynced: an ack says "in the daemon's memory or the page cache".
//!
//! # Locks
//!
//! registrations -> applications -> one application -> partitions of one shuffle -> one map attempt ->
//! one partition -> a file that partitions share. Each is released before disk work, except those of
//! what is written and of who pushes it, and the first, which is held while an executor is written
//! down. Who writes several partitions together to a disk holds the locks of all, and of none that
//! go to another disk; only one thread does so at a time. Those that are held during disk work are
//! waited for with patience, and not for ever.

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

pub use index::chunk::CHUNK_BYTES;
pub use life::fetch::{ChunkData, Part};
pub use life::push::Batch;
pub use merge::STEP_BYTES;
pub use open::StoreConfig;
pub use resource::Environment;
pub use resource::clock::{Clock, OsClock};
pub use resource::incarnation::{Incarnation, OpenError};
pub use resource::pages::TAIL_PART_BYTES;
pub use resource::random::{OsRandom, Random};
pub use spark::chunks::MergedMeta;
pub use state::executors::ExecutorInfo;
pub use state::store::Store;

#[cfg(feature = "planted")]
pub use resource::planted::{Bug as PlantedBug, plant};

#[cfg(any(test, feature = "fake"))]
pub use resource::clock::ManualClock;
#[cfg(any(test, feature = "fake"))]
pub use resource::random::SeededRandom;
