// SPDX-License-Identifier: Apache-2.0
//! Files that an earlier daemon left: whatever is in them, the next one starts, serves what it took
//! over, and hands it over again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_model::{
    AppAttempt, AppId, Crc32c, GenerationId, MapId, MapIndex, MapRange, ReduceId, Segment,
    SegmentRun, ShuffleId, ShuffleKey,
};
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::{
    Batch, Environment, ManualClock, NoThreads, Part, Reserve, SeededRandom, Store, StoreConfig,
    TAIL_PART_BYTES,
};

use crate::fence::Fenced;

/// The names in the corpus.
const DISK: &str = "/disk0";
const EARLIER: &str = "lodestone-0123456789abcdef";
const APP: &str = "app-1";
const EXECUTOR: &str = "1";
const EXECUTOR_ROOT: &str = "/local";
const EXECUTOR_DIR: &str = "/local/blockmgr-1";
const SHUFFLE: ShuffleId = ShuffleId(7);
const DATA_FILES: [&str; 2] = ["app-1-s7-m0-0/spill.data", "app-1-s7-m0-0/3.data"];

/// As large as in the corpus.
const DATA_BYTES: usize = 64 << 10;
const PARTITIONS: u32 = 8;

/// One in the corpus, and one that is not.
const PUSHED: [u32; 2] = [3, 7];

/// Room for all that comes, and for no position far away.
const DISK_BYTES: u64 = 16 << 20;

/// The daemon starts at this time of its clock.
const START_MS: u64 = 3_600_000;

const MEMORY_BYTES: u64 = 256 << 10;

/// The first bytes of a handover, and of a registration.
const HANDOVER: &[u8] = b"LSHO";
const REGISTRATION: &[u8] = b"{";

/// Type and version of a handover, and length and checksum of an entry.
const BEGINNING_BYTES: usize = 8;
const HEAD_BYTES: usize = 8;

/// Starts a daemon that finds the input, if it looks like one of these files.
pub fn files(input: &[u8]) {
    if input.starts_with(HANDOVER) {
        start("handover", &with_checksums(input));
    } else if input.starts_with(REGISTRATION) {
        start("executors-1", input);
    }
}

/// No other bytes would come behind the checks of the entries.
fn with_checksums(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let mut at = BEGINNING_BYTES;
    while let Some(&[a, b, c, d]) = bytes.get(at..at + HEAD_BYTES / 2) {
        let entry = at + HEAD_BYTES;
        let end = entry.saturating_add(u32::from_be_bytes([a, b, c, d]) as usize);
        let Some(content) = bytes.get(entry..end) else {
            break;
        };
        let checksum = crc32c::crc32c(content).to_be_bytes();
        bytes[entry - checksum.len()..entry].copy_from_slice(&checksum);
        at = end;
    }
    bytes
}

fn start(name: &str, content: &[u8]) {
    let fs = FakeFs::with_dirs([DISK, EXECUTOR_DIR]);
    fs.set_capacity(Path::new(DISK), DISK_BYTES);
    let root = Path::new(DISK).join(EARLIER);
    fs.add_file(&root.join("lock"), b"");
    fs.add_file(&root.join("LODESTONE"), b"lodestone store 1\n");
    for file in DATA_FILES {
        fs.add_file(&root.join(file), &vec![0; DATA_BYTES]);
    }
    fs.add_file(&root.join(name), content);
    let store = open(&fs, 1);
    serve(&store);
    store.hand_over();
    let next = open(&fs, 2);
    serve(&next);
    let app = AppId::new(APP).expect("an id");
    let _ = next.end_application(&app, AppAttempt::NONE);
    next.finish_removals();
    next.close();
}

fn open(fs: &FakeFs, seed: u64) -> Arc<Store> {
    let config = StoreConfig {
        dirs: vec![PathBuf::from(DISK)],
        memory_bytes: MEMORY_BYTES,
        quota_percent: 75,
        tail_part_bytes: TAIL_PART_BYTES,
        hanging_bytes: u64::MAX,
        reserve: Reserve::Bytes(0),
        executor_roots: vec![PathBuf::from(EXECUTOR_ROOT)],
    };
    let clock = Arc::new(ManualClock::default());
    clock.advance_ms(START_MS);
    let environment = Environment {
        fs: Arc::new(Fenced::new(fs.clone(), &[DISK, EXECUTOR_ROOT])),
        clock,
        random: Arc::new(SeededRandom::new(seed)),
        threads: Arc::new(NoThreads),
    };
    Store::open(config, environment).expect("a daemon starts")
}

/// Asks for all that the corpus has: each answer may be a refusal.
fn serve(store: &Store) {
    let app = AppId::new(APP).expect("an id");
    let _ = store.local_dirs(&app, EXECUTOR);
    let blocks = vec!["rdd_0_0".to_owned()];
    for blocks in store
        .blocks_by_place(&app, EXECUTOR, blocks)
        .unwrap_or_default()
    {
        let _ = store.remove_blocks(&blocks);
    }
    let key = ShuffleKey {
        app,
        attempt: Some(AppAttempt::NONE),
        shuffle: SHUFFLE,
        generation: GenerationId(0),
    };
    for reduce in (0..PARTITIONS).map(ReduceId) {
        if PUSHED.contains(&reduce.0) {
            push(store, &key, reduce);
        }
        for run in store
            .layout(&key, MapRange::ALL, reduce)
            .unwrap_or_default()
        {
            let slots = SegmentRun {
                first: run.first,
                count: run.segments.len() as u32,
            };
            let Ok(chunk) = store.segments(&key, reduce, &[slots]) else {
                continue;
            };
            for part in chunk.parts {
                if let Part::File { file, offset, .. } = part {
                    let _ = file.read_at(&mut [0; 64], offset);
                }
            }
        }
    }
    let _ = (store.held_data(), store.load());
}

/// More than the store keeps in memory, so that it goes behind what an earlier daemon wrote.
fn push(store: &Store, key: &ShuffleKey, reduce_id: ReduceId) {
    let body = vec![1; MEMORY_BYTES as usize / 2];
    let segment = Segment {
        reduce_id,
        sequence: 0,
        length: body.len() as u32,
        records: 1,
        crc32c: Crc32c(crc32c::crc32c(&body)),
    };
    let batch = Batch {
        map_index: MapIndex(0),
        map_id: MapId(99),
        first_segment: reduce_id.0,
        segments: &[segment],
        body: &body,
    };
    let _ = store.push_batch(key, &batch);
}
