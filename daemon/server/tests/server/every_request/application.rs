// SPDX-License-Identifier: Apache-2.0
//! An application that has something of everything that a request could take from it, or change.

use std::path::PathBuf;

use bytes::Bytes;
use lodestone_model::{AppAttempt, AppId, Code, MapIndex, ReduceId, ShuffleId, ShuffleKey};
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::explain::{ExplainApplication, Explanation, ReportApplication};
use lodestone_wire::extension::fetch::SegmentLayout;
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushBlockStream, PushCode};
use lodestone_wire::spark::register::{
    GetLocalDirsForExecutors, LocalDirsForExecutors, RegisterExecutor,
};
use roaring::RoaringBitmap;
use tempfile::TempDir;

use crate::spark::{SUB_DIRS, path_of};
use crate::support::client::{ALL_MAPS, batch, commit_of, key, read};
use crate::support::{Client, Daemon};

/// Maps of its shuffle: one has committed, two wait for it, and one is still to be pushed.
pub(super) const NUM_MAPS: u32 = 4;
pub(super) const TO_COMMIT: u32 = 1;
pub(super) const TO_ABORT: u32 = 2;
pub(super) const TO_PUSH: u32 = 3;

/// A block that an executor persisted.
pub(super) const PERSISTED: &str = "rdd_1_1";

const REPORT: &str = r#"{"totals":{"shuffles":1}}"#;

pub(super) struct Application {
    pub(super) app: AppId,
    /// A shuffle of the plugin.
    pub(super) address: ShuffleAddress,
    pub(super) owner: Client,
    folder: TempDir,
    /// How many blocks Spark's own push has of it.
    blocks: u32,
}

/// What its requests show of it.
#[derive(Debug, PartialEq)]
pub(super) struct State {
    merged: Vec<(u32, i64, Bytes)>,
    /// The answers to maps that are pushed again.
    repeated: Vec<Code>,
    new_shuffle: Code,
    executor: LocalDirsForExecutors,
    new_executor: String,
    reports: Vec<(bool, String)>,
    has_persisted: bool,
    /// The answer to a block that Spark's own push does not have yet.
    next_block: PushCode,
}

impl Application {
    pub(super) fn new(daemon: &Daemon, app: AppId, owner: Client) -> Self {
        let mut address = key(daemon, 1);
        address.shuffle.app = app.clone();
        let folder = tempfile::tempdir().unwrap();
        let blocks = 0;
        let mut made = Self {
            app,
            address,
            owner,
            folder,
            blocks,
        };
        made.fill();
        made
    }

    fn fill(&mut self) {
        let (app, address) = (self.app.clone(), self.address.clone());
        self.owner.register(&address, NUM_MAPS, 1);
        self.owner.output(&address, 0, 0, &[(0, b"merged")]);
        for map in [TO_COMMIT, TO_ABORT] {
            assert_eq!(self.push_again(map), [Code::Ok]);
        }
        let _: Done = self.owner.ask(&ReportApplication {
            app,
            app_attempt: AppAttempt::NONE,
            ended: false,
            report: REPORT.to_owned(),
        });
        let executor = self.executor("1");
        let id = self.owner.send_rpc(&executor);
        assert!(self.owner.answer_to(id).is_empty());
        std::fs::write(self.persisted(), b"persisted").unwrap();
        assert_eq!(self.push_next_block(), PushCode::Success);
    }

    /// The shuffle of Spark's own push.
    pub(super) fn sparks(&self) -> ShuffleKey {
        ShuffleKey {
            shuffle: ShuffleId(2),
            ..self.address.shuffle.clone()
        }
    }

    /// A shuffle of the plugin that nobody has registered yet.
    pub(super) fn new_shuffle(&self) -> ShuffleAddress {
        let mut address = self.address.clone();
        address.shuffle.shuffle = ShuffleId(3);
        address
    }

    /// The batch of a map that does not commit with it, and its body.
    pub(super) fn batch(&self, map: u32) -> (PushBatch, Vec<u8>) {
        batch(&self.address, map, map.into(), &[(0, b"pushed")])
    }

    /// An executor whose directory is there, and on which blocks are merged.
    pub(super) fn executor(&self, exec_id: &str) -> RegisterExecutor {
        let local_dir = self.folder.path().join(format!("blockmgr-{exec_id}"));
        std::fs::create_dir_all(&local_dir).unwrap();
        let manager = "org.apache.spark.shuffle.sort.SortShuffleManager";
        RegisterExecutor {
            app: self.app.clone(),
            exec_id: exec_id.to_owned(),
            local_dirs: vec![local_dir.to_str().unwrap().to_owned()],
            sub_dirs_per_local_dir: SUB_DIRS,
            shuffle_manager: format!(r#"{manager}:{{"mergeDir":"merge_manager"}}}}}}"#),
        }
    }

    pub(super) fn dirs_of(&self, exec_id: &str) -> GetLocalDirsForExecutors {
        GetLocalDirsForExecutors {
            app: self.app.clone(),
            exec_ids: vec![exec_id.to_owned()],
        }
    }

    /// A block of Spark's own push.
    pub(super) fn block(&self, map_index: u32) -> PushBlockStream {
        PushBlockStream {
            key: self.sparks(),
            map_index: MapIndex(map_index),
            reduce_id: ReduceId(0),
            index: 0,
        }
    }

    pub(super) fn layout_of(&self, key: ShuffleAddress) -> SegmentLayout {
        SegmentLayout {
            key,
            map_start: ALL_MAPS.0,
            map_end: ALL_MAPS.1,
            reduce_ids: vec![ReduceId(0)],
        }
    }

    fn persisted(&self) -> PathBuf {
        path_of(self.folder.path(), PERSISTED)
    }

    fn push_again(&mut self, map: u32) -> Vec<Code> {
        self.owner
            .push(&self.address, map, map.into(), &[(0, b"pushed")])
    }

    fn push_next_block(&mut self) -> PushCode {
        let meta = self.block(self.blocks);
        self.blocks += 1;
        let id = self.owner.send_upload(&meta, b"pushed by Spark");
        let answer = self.owner.answer_to(id);
        read::<BlockPushReturnCode>(&answer).code
    }

    /// Looks at all of it. Only Spark's own push has one more block afterwards.
    pub(super) fn state(&mut self) -> State {
        let repeated = [TO_COMMIT, TO_ABORT].map(|map| self.push_again(map));
        let next_block = self.push_next_block();
        let new_shuffle = self.layout_of(self.new_shuffle());
        let (first, second) = (self.dirs_of("1"), self.dirs_of("2"));
        let app = self.app.as_str().to_owned();
        let has_persisted = self.persisted().exists();
        let owner = &mut self.owner;
        let explained: Explanation = owner.ask(&ExplainApplication { app });
        let reports = explained.applications.into_iter();
        State {
            merged: owner.partition(&self.address, 0),
            repeated: repeated.concat(),
            new_shuffle: owner.refusal(&new_shuffle),
            executor: owner.ask(&first),
            new_executor: owner.failure(&second),
            reports: reports.map(|one| (one.ended, one.report)).collect(),
            has_persisted,
            next_block,
        }
    }

    /// Ends it, and finds all that its owner has pushed, and nothing else.
    pub(super) fn assert_whole(mut self) {
        for map in [TO_COMMIT, TO_ABORT] {
            let (batch, _) = self.batch(map);
            let _: Done = self.owner.ask(&commit_of(&[batch]));
        }
        let pushed = Bytes::from_static(b"pushed");
        let expected: [(u32, i64, Bytes); 3] = [
            (0, 0, Bytes::from_static(b"merged")),
            (TO_COMMIT, TO_COMMIT.into(), pushed.clone()),
            (TO_ABORT, TO_ABORT.into(), pushed),
        ];
        assert_eq!(self.owner.partition(&self.address, 0), expected);
        let key = self.sparks();
        let merged: MergeStatuses = self.owner.ask(&FinalizeShuffleMerge { key });
        let [partition] = merged.partitions.as_slice() else {
            panic!("all blocks are of one partition: {merged:?}");
        };
        assert_eq!(partition.maps, (0..self.blocks).collect::<RoaringBitmap>());
    }

    /// Why a shuffle is not read any more.
    pub(super) fn refusal_of(&mut self, address: ShuffleAddress) -> Code {
        let layout = self.layout_of(address);
        self.owner.refusal(&layout)
    }
}
