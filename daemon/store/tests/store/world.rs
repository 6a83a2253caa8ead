// SPDX-License-Identifier: Apache-2.0
//! A store on a fake filesystem, and short forms of what tests do with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lodestone_model::*;
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::*;

pub(crate) const DISK: &str = "/disk0";
pub(crate) const MIB: u64 = 1024 * 1024;

/// Memory for small segments only.
pub(crate) const LITTLE_MEMORY: u64 = 256 * 1024;

/// The sequence of a segment that is its whole block.
pub(crate) const ONLY: u32 = 1;

/// A segment that does not fit: it goes to disk at once, after the tail before it.
pub(crate) const LARGE_BYTES: usize = 256 * 1024;

pub(crate) struct World {
    pub(crate) fs: FakeFs,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<Store>,
    /// The ledger of the segments that were acknowledged to each attempt.
    acknowledged: Mutex<BTreeMap<(u32, i64), Ledger>>,
}

impl World {
    /// One roomy disk, little memory.
    pub(crate) fn new() -> Self {
        Self::with(1, LITTLE_MEMORY)
    }

    pub(crate) fn with(disks: usize, memory_bytes: u64) -> Self {
        let dirs: Vec<_> = (0..disks)
            .map(|n| PathBuf::from(format!("/disk{n}")))
            .collect();
        Self::on(FakeFs::with_dirs(&dirs), dirs, memory_bytes, 1)
    }

    pub(crate) fn on(fs: FakeFs, dirs: Vec<PathBuf>, memory_bytes: u64, seed: u64) -> Self {
        Self::keeping(Reserve::Bytes(0), fs, dirs, memory_bytes, seed)
    }

    /// A disk of this size, some of which stays free.
    pub(crate) fn with_reserve(disk_bytes: u64, reserve: Reserve) -> Self {
        let dirs = vec![PathBuf::from(DISK)];
        let fs = FakeFs::with_dirs(&dirs);
        fs.set_capacity(&dirs[0], disk_bytes);
        Self::keeping(reserve, fs, dirs, 2 * MIB, 1)
    }

    pub(crate) fn keeping(
        reserve: Reserve,
        fs: FakeFs,
        dirs: Vec<PathBuf>,
        memory_bytes: u64,
        seed: u64,
    ) -> Self {
        let config = StoreConfig {
            reserve,
            ..StoreConfig::of(dirs, memory_bytes)
        };
        Self::configured(fs, config, seed)
    }

    pub(crate) fn configured(fs: FakeFs, config: StoreConfig, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::default());
        let environment = Environment {
            fs: Arc::new(fs.clone()),
            clock: clock.clone(),
            random: Arc::new(SeededRandom::new(seed)),
            ..Environment::os()
        };
        Self {
            store: Store::open(config, environment).unwrap(),
            fs,
            clock,
            acknowledged: Mutex::default(),
        }
    }

    /// What the threads of the places do when they are called: memory is short, or the store is
    /// drained.
    pub(crate) fn write_out_as_called(&self) {
        (0..=self.store.disk_count()).for_each(|place| {
            self.store.write_out_as_called(place);
        });
    }

    /// What the threads of the places do when they are called to write out all data of remote
    /// shuffles: a step each. Returns how many bytes left memory.
    pub(crate) fn write_step(&self) -> u64 {
        self.store.call_to_write_out();
        let places = 0..=self.store.disk_count();
        places
            .map(|place| self.store.write_out_as_called(place))
            .sum()
    }

    /// The daemon's regular work, beside leases.
    pub(crate) fn look_after(&self) {
        self.store.finish_removals();
        self.store.look_after_all();
    }

    /// What the daemon reports after that.
    pub(crate) fn load(&self) -> Load {
        self.look_after();
        self.store.load()
    }

    /// The applications that the daemon forgets by now.
    pub(crate) fn expired(&self) -> Vec<AppId> {
        [
            self.store.expire_leases(self.store.now_ms()),
            self.store.forget_gone(),
        ]
        .concat()
    }

    /// Registers the shuffle of [`key`], with room for anything a test does.
    pub(crate) fn registered(self) -> Self {
        self.store.register_shuffle(&key(), spec()).unwrap();
        self
    }

    /// Registers it for few maps, so that the store expects partitions to stay small.
    pub(crate) fn registered_for(self, num_maps: u32) -> Self {
        let spec = ShuffleSpec { num_maps, ..spec() };
        self.store.register_shuffle(&key(), spec).unwrap();
        self
    }

    pub(crate) fn push(&self, map: u32, reduce: u32, bytes: &[u8]) -> Code {
        self.push_attempt(map, i64::from(map) + 1000, reduce, bytes)
    }

    /// Pushes the block of an attempt for a partition, which is one segment.
    pub(crate) fn push_attempt(&self, map: u32, map_id: i64, reduce: u32, bytes: &[u8]) -> Code {
        let segments = [Segment {
            sequence: ONLY,
            ..header(reduce, bytes)
        }];
        let body = Bytes::copy_from_slice(bytes);
        let batch = Batch {
            first_segment: reduce,
            ..batch(map, map_id, &segments, &body)
        };
        let codes = self.store.push_batch(&key(), &batch).unwrap();
        self.write_out_as_called();
        assert_eq!(codes.len(), 1);
        if codes[0] == Code::Ok {
            let mut all = self.acknowledged.lock().unwrap();
            let acknowledged = all.entry((map, map_id)).or_default();
            *acknowledged = acknowledged.and(ledger_of(map, map_id, &segments[0]));
        }
        codes[0]
    }

    /// Commits every attempt with the ledger of its acknowledged segments. Returns how many
    /// segments these are.
    pub(crate) fn commit_all(&self) -> u64 {
        let all = self.acknowledged.lock().unwrap();
        for ((map, map_id), pushed) in all.iter() {
            let (map, map_id) = (MapIndex(*map), MapId(*map_id));
            self.store.commit_map(&key(), map, map_id, *pushed).unwrap();
        }
        all.values().map(|pushed| pushed.segments).sum()
    }

    /// All bytes of a partition.
    pub(crate) fn fetch(&self, reduce: u32) -> Vec<u8> {
        fetch(&self.store, MapRange::ALL, reduce).concat()
    }

    /// The segments of a partition, in order of arrival.
    pub(crate) fn segments(&self, reduce: u32) -> Vec<LaidSegment> {
        let layout = self
            .store
            .layout(&key(), MapRange::ALL, ReduceId(reduce))
            .unwrap();
        layout.into_iter().flat_map(|run| run.segments).collect()
    }

    /// The map indexes in a partition, in order of arrival.
    pub(crate) fn maps(&self, reduce: u32) -> Vec<u32> {
        let segments = self.segments(reduce);
        segments.iter().map(|s| s.map_index.0).collect()
    }

    /// Bytes in the `.data` files on a disk.
    pub(crate) fn data_bytes(&self, disk: &str) -> usize {
        let files = self.data_files(disk);
        let sizes = files
            .iter()
            .map(|path| self.fs.content(path).unwrap().len());
        sizes.sum()
    }

    /// The `.data` files on a disk.
    pub(crate) fn data_files(&self, disk: &str) -> Vec<PathBuf> {
        self.look_after();
        let mut files = self.fs.below(Path::new(disk));
        files.retain(|path| path.extension().is_some_and(|e| e == "data"));
        files
    }
}

pub(crate) fn app() -> AppId {
    AppId::new("app-1").unwrap()
}

pub(crate) fn key() -> ShuffleKey {
    ShuffleKey {
        app: app(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(7),
        generation: GenerationId(0),
    }
}

pub(crate) fn spec() -> ShuffleSpec {
    ShuffleSpec {
        mode: Mode::Merge,
        num_maps: 100_000,
        num_partitions: 20_000,
        format: "spark-stream".into(),
    }
}

/// The first batch of an attempt.
pub(crate) fn batch<'a>(
    map: u32,
    map_id: i64,
    segments: &'a [Segment],
    body: &'a [u8],
) -> Batch<'a> {
    Batch {
        map_index: MapIndex(map),
        map_id: MapId(map_id),
        first_segment: 0,
        segments,
        body,
    }
}

/// The ledger of one segment.
pub(crate) fn ledger_of(map: u32, map_id: i64, header: &Segment) -> Ledger {
    let segment = header.laid(MapIndex(map), MapId(map_id));
    Ledger::of(header.reduce_id, [segment])
}

pub(crate) fn header(reduce: u32, bytes: &[u8]) -> Segment {
    Segment {
        reduce_id: ReduceId(reduce),
        sequence: 0,
        length: bytes.len().try_into().unwrap(),
        records: 1,
        crc32c: Crc32c(crc32c::crc32c(bytes)),
    }
}

/// Returns bytes that identify the segment.
pub(crate) fn payload(map: u32, reduce: u32, length: usize) -> Vec<u8> {
    let mut state = (u64::from(map) << 32 | u64::from(reduce)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

pub(crate) fn read(data: &ChunkData) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in &data.parts {
        match part {
            Part::Memory(part) => bytes.extend_from_slice(part),
            Part::File {
                file,
                offset,
                length,
            } => {
                let mut buffer = vec![0; usize::try_from(*length).unwrap()];
                let mut done = 0;
                while done < buffer.len() {
                    let count = file
                        .read_at(&mut buffer[done..], offset + done as u64)
                        .unwrap();
                    assert!(count > 0, "the file ends inside of a segment");
                    done += count;
                }
                bytes.extend_from_slice(&buffer);
            }
        }
    }
    bytes
}

/// Returns the bytes of these slots of a partition, in one chunk.
pub(crate) fn at(
    store: &Store,
    reduce: u32,
    slots: std::ops::Range<u32>,
) -> Result<ChunkData, Refusal> {
    store.segments(&key(), ReduceId(reduce), &[run(slots)])
}

pub(crate) fn run(slots: std::ops::Range<u32>) -> SegmentRun {
    SegmentRun {
        first: slots.start,
        count: slots.end - slots.start,
    }
}

/// Returns the bytes of the selected segments of a partition, run by run, each checked against its
/// layout.
pub(crate) fn fetch(store: &Store, range: MapRange, reduce: u32) -> Vec<Vec<u8>> {
    let layout = store.layout(&key(), range, ReduceId(reduce)).unwrap();
    let run_bytes = |run: LaidRun| {
        let slots = run.first..run.first + run.segments.len() as u32;
        let bytes = read(&at(store, reduce, slots).unwrap());
        let mut rest = bytes.as_slice();
        for segment in run.segments {
            let (segment_bytes, after) = rest.split_at(segment.length as usize);
            assert_eq!(
                crc32c::crc32c(segment_bytes),
                segment.crc32c.0,
                "bytes are not as laid out"
            );
            rest = after;
        }
        assert!(rest.is_empty());
        bytes
    };
    layout.into_iter().map(run_bytes).collect()
}
