// SPDX-License-Identifier: Apache-2.0
//! An application whose executors push their blocks with Spark's own push: one upload for each
//! block, then the finalize of its driver, then readers of what was merged.

use bytes::Bytes;
use lodestone_model::{AppAttempt, AppId, GenerationId, MapIndex, ReduceId, ShuffleId, ShuffleKey};
use lodestone_wire::Message;
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::fetch::FetchShuffleBlockChunks;
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};
use lodestone_wire::spark::push::PushBlockStream;
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};
use lodestone_wire::spark::remove::RemoveShuffleMerge;

use super::{Asked, Clients};
use crate::dice::Dice;
use crate::network::{Network, Packet};

/// The application. No simulated driver belongs to it, so it has no lease.
pub const PUSHING_APP: &str = "app-20261121-0003";

/// Its only executor.
pub const PUSHING_EXECUTOR: &str = "1";

/// Its only attempt.
pub const PUSHING_ATTEMPT: AppAttempt = AppAttempt(1);

/// The executor's directories. They never vanish.
pub const PUSHING_DIRS: [&str; 2] = ["/local0/blockmgr-d", "/local1/blockmgr-e"];

/// Where merged partitions are: beside them.
pub const MERGE_DIRS: [&str; 2] = ["/local0/merge_manager_1", "/local1/merge_manager_1"];

/// The executor that Spark names for merged chunks.
const MERGER: &str = "shuffle-push-merger";

const SUB_DIRS: u32 = 64;
const SHUFFLES: usize = 2;
const MAPS: usize = 5;
const PARTITIONS: usize = 3;

/// The bytes of one block: some have none.
const BLOCK_BYTES: usize = 400;

/// A few of these are written at once.
const LARGE_BYTES: usize = 200_000;

/// The generation of each shuffle that its driver began last.
#[derive(Debug, Default)]
pub(super) struct Pushing {
    generations: [i32; SHUFFLES],
}

fn app() -> AppId {
    match AppId::new(PUSHING_APP) {
        Ok(app) => app,
        Err(_) => unreachable!("a plain name"),
    }
}

impl Clients {
    pub(super) fn spark_push(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let (packet, asked) = match dice.weighted(&[8, 70, 9, 4, 4, 5]) {
            0 => (Packet::Rpc(register()), None),
            1 => {
                let block = PushBlockStream {
                    key: self.pushed(dice),
                    map_index: MapIndex(dice.below(MAPS) as u32),
                    reduce_id: ReduceId(dice.below(PARTITIONS) as u32),
                    index: 0,
                };
                let body = self.block(dice);
                let meta = block.to_bytes();
                (Packet::Upload { meta, body }, None)
            }
            2 => {
                let key = self.pushed(dice);
                let finalize = FinalizeShuffleMerge { key: key.clone() };
                (Packet::Rpc(finalize.to_bytes()), Some(Asked::Merged(key)))
            }
            3 => {
                let mut key = self.pushed(dice);
                if dice.chance(30) {
                    key.generation = GenerationId(-1);
                }
                (Packet::OneWay(remove_merged(key)), None)
            }
            // The stage runs again.
            4 => {
                let shuffle = dice.below(SHUFFLES);
                let generation = self.pushing.generations.get_mut(shuffle);
                generation
                    .into_iter()
                    .for_each(|generation| *generation += 1);
                return;
            }
            _ => (Packet::Rpc(ask_for_pushing()), None),
        };
        self.send(connection, packet, asked, dice, network);
    }

    fn block(&self, dice: &mut Dice) -> Bytes {
        let length = match dice.below(100) {
            0..5 => 0,
            5..15 if self.large => dice.below(LARGE_BYTES),
            _ => dice.below(BLOCK_BYTES),
        };
        dice.bytes(length).into()
    }

    /// The key of a shuffle: now and then of another generation or attempt.
    fn pushed(&self, dice: &mut Dice) -> ShuffleKey {
        let shuffle = dice.below(SHUFFLES);
        let newest = self.pushing.generations.get(shuffle).copied();
        let newest = newest.unwrap_or_default();
        let (generation, attempt) = match dice.below(100) {
            0..6 => (newest - 1, PUSHING_ATTEMPT),
            6 => (newest + 1, PUSHING_ATTEMPT),
            7 => (newest, AppAttempt(0)),
            8 => (newest, AppAttempt(2)),
            _ => (newest, PUSHING_ATTEMPT),
        };
        ShuffleKey {
            app: app(),
            attempt: Some(attempt),
            shuffle: ShuffleId(shuffle as i32),
            generation: GenerationId(generation.max(0)),
        }
    }

    /// A driver knows what was merged, and readers ask how it is cut.
    pub(super) fn merged(
        &mut self,
        connection: u64,
        key: &ShuffleKey,
        reply: &[u8],
        (dice, network): (&mut Dice, &mut Network),
    ) {
        let Ok(statuses) = MergeStatuses::from_bytes(reply) else {
            return;
        };
        for status in statuses.partitions {
            let request = meta_request(key, status.reduce_id);
            self.send(connection, Packet::Meta(request), None, dice, network);
        }
    }

    /// A reader knows how a merged partition is cut, and fetches its chunks.
    pub fn hear_meta(
        &mut self,
        connection: u64,
        request: &MergedBlockMetaRequest,
        chunks: u32,
        (dice, network): (&mut Dice, &mut Network),
    ) {
        // Now and then one that there is not.
        let beyond = u32::from(dice.chance(5));
        let packet = Packet::Rpc(fetch_merged(request, chunks + beyond));
        self.send(connection, packet, Some(Asked::Originals), dice, network);
    }
}

/// Asks how a merged partition is cut.
pub fn meta_request(key: &ShuffleKey, reduce_id: ReduceId) -> MergedBlockMetaRequest {
    MergedBlockMetaRequest {
        request_id: 0,
        app: key.app.clone(),
        shuffle_id: key.shuffle,
        shuffle_merge_id: key.generation,
        reduce_id,
    }
}

/// Asks for the first chunks of a merged partition.
pub fn fetch_merged(request: &MergedBlockMetaRequest, chunks: u32) -> Bytes {
    FetchShuffleBlockChunks {
        app: request.app.clone(),
        exec_id: MERGER.to_owned(),
        shuffle_id: request.shuffle_id,
        shuffle_merge_id: request.shuffle_merge_id,
        chunks: vec![(request.reduce_id, (0..chunks).collect())],
    }
    .to_bytes()
}

/// Asks for the end of a shuffle.
pub fn finalize_merge(key: ShuffleKey) -> Bytes {
    FinalizeShuffleMerge { key }.to_bytes()
}

/// Drops what was merged of a shuffle.
pub fn remove_merged(key: ShuffleKey) -> Bytes {
    RemoveShuffleMerge { key }.to_bytes()
}

/// Asks for the executor, which shows whether the application is known.
pub fn ask_for_pushing() -> Bytes {
    let exec_ids = vec![PUSHING_EXECUTOR.to_owned()];
    GetLocalDirsForExecutors {
        app: app(),
        exec_ids,
    }
    .to_bytes()
}

/// Spark hides the settings of its push in the name of the shuffle manager, with two braces too
/// many.
fn register() -> Bytes {
    let settings = r#"{"mergeDir": "merge_manager_1", "attemptId": "1"}}}"#;
    RegisterExecutor {
        app: app(),
        exec_id: PUSHING_EXECUTOR.to_owned(),
        local_dirs: PUSHING_DIRS.map(str::to_owned).to_vec(),
        sub_dirs_per_local_dir: SUB_DIRS,
        shuffle_manager: format!("org.apache.spark.shuffle.sort.SortShuffleManager:{settings}"),
    }
    .to_bytes()
}
