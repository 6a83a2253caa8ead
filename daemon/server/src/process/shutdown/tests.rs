// SPDX-License-Identifier: Apache-2.0
//! Tests of the end of a daemon.

use std::path::Path;

use lodestone_model::{
    AppAttempt, AppId, Code, GenerationId, MapIndex, ReduceId, ShuffleId, ShuffleKey,
};
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::{Environment, ExecutorInfo, ManualClock, SeededRandom, StoreConfig};

use super::*;

/// Disks with directories of executors: the first name of a path of the fake filesystem is a disk.
const BAD: &str = "/bad";
const WELL: &str = "/well";

const PARTITIONS: u32 = 16;

/// A block that goes to its file at once.
const BLOCK_BYTES: usize = 300_000;

const LONG: Duration = Duration::from_secs(20);

fn store(fs: &FakeFs) -> Arc<Store> {
    let environment = Environment {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::default()),
        random: Arc::new(SeededRandom::new(1)),
    };
    let config = StoreConfig::of(vec!["/data".into()], 64 << 20);
    Store::open(config, environment).unwrap()
}

/// Merges blocks on both disks, and removes their shuffle. Their files wait to be deleted.
fn leave_files(store: &Store) {
    let key = ShuffleKey {
        app: AppId::new("app").unwrap(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(1),
        generation: GenerationId(0),
    };
    let info = ExecutorInfo {
        local_dirs: [BAD, WELL].map(|disk| format!("{disk}/blockmgr-1")).into(),
        sub_dirs: 1,
        merge_dir: Some("merge_manager".to_owned()),
    };
    let registered = store.register_executor(&key.app, "1", AppAttempt::NONE, info);
    registered.unwrap();
    for reduce in 0..PARTITIONS {
        let pushed = store.push_block(&key, MapIndex(0), ReduceId(reduce), &[7; BLOCK_BYTES]);
        assert_eq!(pushed.unwrap(), Code::Ok);
    }
    let removed = store.remove_shuffle(&key.app, AppAttempt::NONE, key.shuffle, None);
    removed.unwrap();
}

#[tokio::test]
async fn a_daemon_that_stops_leaves_no_removed_shuffle_on_a_disk_that_works() {
    let dirs = ["/data", "/bad/blockmgr-1", "/well/blockmgr-1"];
    let fs = FakeFs::with_dirs(dirs);
    let store = store(&fs);
    leave_files(&store);
    let files = |disk: &str| {
        fs.below(Path::new(disk).join("merge_manager/00").as_ref())
            .len()
    };
    let (bad, well) = (files(BAD), files(WELL));
    assert!(bad > 0 && well > 0, "files on both disks: {bad} and {well}");
    fs.hold_calls_below(Path::new(BAD));
    let ended = timeout(LONG, hand_over(Arc::clone(&store))).await;
    let left = (files(BAD), files(WELL));
    fs.release_writes();
    ended.unwrap().unwrap();
    assert_eq!(left, (bad, 0), "only the disk that hangs keeps its files");
}
