// SPDX-License-Identifier: Apache-2.0
//! Tests of the end of a daemon.

use std::path::Path;
use std::sync::mpsc;

use lodestone_model::{
    AppAttempt, AppId, Code, Crc32c, GenerationId, MapId, MapIndex, Mode, ReduceId, Segment,
    ShuffleId, ShuffleKey, ShuffleSpec,
};
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::{Batch, Environment, ExecutorInfo, ManualClock, SeededRandom, StoreConfig};
use tokio::runtime::Builder;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{advance, pause};

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
        ..Environment::os()
    };
    let config = StoreConfig::of(vec!["/data".into()], 64 << 20);
    Store::open(config, environment).unwrap()
}

/// Runs on a runtime whose threads for calls that may block all hang. Fails if it takes long.
fn while_all_threads_hang<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (held, hang) = mpsc::channel::<()>();
    let (done, over) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            spawn_blocking(move || hang.recv().ok());
            // A test that has failed does not wait for it.
            let _ = done.send(work.await);
        });
    });
    let done = over.recv_timeout(LONG).unwrap();
    drop(held);
    done
}

fn key() -> ShuffleKey {
    ShuffleKey {
        app: AppId::new("app").unwrap(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(1),
        generation: GenerationId(0),
    }
}

/// Registers a remote shuffle of one map and one partition.
fn register(store: &Store) {
    let spec = ShuffleSpec {
        mode: Mode::Remote,
        num_maps: 1,
        num_partitions: 1,
        format: String::new(),
    };
    store.register_shuffle(&key(), spec).unwrap();
}

/// Merges a segment of a remote shuffle, which is nowhere else.
fn push_only_copy(store: &Store) {
    register(store);
    let body = b"the only copy";
    let segment = Segment {
        reduce_id: ReduceId(0),
        sequence: 1,
        length: body.len() as u32,
        records: 1,
        crc32c: Crc32c(crc32c::crc32c(body)),
    };
    let batch = Batch {
        map_index: MapIndex(0),
        map_id: MapId(1),
        first_segment: 0,
        segments: &[segment],
        body,
    };
    assert_eq!(store.push_batch(&key(), &batch).unwrap(), [Code::Ok]);
}

#[test]
fn a_daemon_whose_threads_all_hang_hands_over_what_it_has_in_memory() {
    let fs = FakeFs::with_dirs(["/data"]);
    let first = store(&fs);
    push_only_copy(&first);
    let handed = Arc::clone(&first);
    while_all_threads_hang(hand_over(handed)).unwrap();
    drop(first);
    fs.crash();
    let next = store(&fs);
    assert!(next.check_readable(&key()).is_ok(), "the shuffle is lost");
}

#[test]
fn a_daemon_whose_data_directory_hangs_with_all_its_threads_stops_waiting_for_the_handover() {
    let fs = FakeFs::with_dirs(["/data"]);
    let store = store(&fs);
    push_only_copy(&store);
    fs.hold_calls_below(Path::new("/data"));
    let disk = fs.clone();
    while_all_threads_hang(async move {
        pause();
        let handing = tokio::spawn(hand_over(store));
        while disk.held_writes() == 0 {
            yield_now().await;
        }
        // Time does not pass by itself, because a thread is at work.
        while !handing.is_finished() {
            yield_now().await;
            advance(HAND_OVER_TIMEOUT).await;
        }
        handing.await.unwrap()
    })
    .unwrap();
    assert!(fs.held_writes() > 0, "no call hangs");
    fs.release_writes();
}

/// Merges so many segments that the list of them has several pieces, each of which one call writes.
fn push_many_segments(store: &Store) {
    const BATCHES: u32 = 10;
    const SEGMENTS: u32 = 20_000;
    register(store);
    let body = vec![7; SEGMENTS as usize];
    for first in (0..BATCHES).map(|batch| batch * SEGMENTS) {
        let segment = |number| Segment {
            reduce_id: ReduceId(0),
            sequence: 2 * number,
            length: 1,
            records: i32::MAX,
            crc32c: Crc32c(crc32c::crc32c(&[7])),
        };
        let segments: Vec<_> = (first..first + SEGMENTS).map(segment).collect();
        let batch = Batch {
            map_index: MapIndex(0),
            map_id: MapId(i64::MAX),
            first_segment: first,
            segments: &segments,
            body: &body,
        };
        let codes = store.push_batch(&key(), &batch).unwrap();
        assert!(codes.iter().all(|code| *code == Code::Ok), "{first}");
    }
}

#[test]
fn a_slow_disk_gets_the_time_that_the_list_of_a_large_shuffle_takes() {
    /// Shorter than a disk may take for one piece, and so long that several take longer.
    const PIECE: Duration = Duration::from_secs(11);
    let fs = FakeFs::with_dirs(["/data"]);
    let first = store(&fs);
    push_many_segments(&first);
    first.call_to_write_out();
    first.write_out_as_called(0);
    assert_eq!(first.unwritten_bytes(), 0);
    let root = format!("/data/lodestone-{}/handover", first.incarnation());
    fs.hold_writes_below(Path::new(&root));
    let disk = fs.clone();
    let pieces = while_all_threads_hang(async move {
        pause();
        let handing = tokio::spawn(hand_over(first));
        let mut pieces = 0;
        loop {
            while disk.held_writes() == 0 && !handing.is_finished() {
                yield_now().await;
            }
            if handing.is_finished() {
                handing.await.unwrap().unwrap();
                return pieces;
            }
            let written = disk.writes();
            advance(PIECE).await;
            for _ in 0..10 {
                yield_now().await;
            }
            let is_given_up = handing.is_finished();
            assert!(!is_given_up, "after {pieces} pieces");
            disk.release_one();
            while disk.writes() == written {
                yield_now().await;
            }
            pieces += 1;
        }
    });
    assert!(PIECE * pieces > 2 * HAND_OVER_TIMEOUT, "{pieces} pieces");
    fs.release_writes();
    fs.crash();
    let next = store(&fs);
    assert!(next.check_readable(&key()).is_ok(), "the shuffle is lost");
}

/// Merges blocks on both disks, and removes their shuffle. Their files wait to be deleted.
fn leave_files(store: &Store) {
    let key = key();
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

#[test]
fn a_daemon_that_stops_leaves_no_removed_shuffle_on_a_disk_that_works() {
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
    let ended = while_all_threads_hang(hand_over(Arc::clone(&store)));
    let left = (files(BAD), files(WELL));
    fs.release_writes();
    ended.unwrap();
    assert_eq!(left, (bad, 0), "only the disk that hangs keeps its files");
}
