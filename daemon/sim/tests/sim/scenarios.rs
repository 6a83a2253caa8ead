// SPDX-License-Identifier: Apache-2.0
//! Breaches that must never happen again, each by its name. The model judges every answer here too;
//! a scenario itself asserts what a user would lose.

use bytes::Bytes;
use lodestone_model::{
    AppAttempt, AppId, Code, Crc32c, GenerationId, LaidRun, MapId, MapIndex, Mode, ReduceId,
    Segment, SegmentRun, ShuffleId, ShuffleKey, ShuffleSpec,
};
use lodestone_server::handler::Answer;
use lodestone_sim::model::{Chunk, Model, Trouble, refusal};
use lodestone_sim::world::disk::Death;
use lodestone_sim::world::{Machine, NoChunk, World};
use lodestone_store::fs::fake::{Errno, Fault};
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::fetch::{
    FetchSegments, SegmentLayout, SegmentLayoutReply, WantedChunk,
};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::remove::RemoveShuffleMerge;

const CONNECTION: u64 = 1;
const ALL_MAPS: u32 = i32::MAX.unsigned_abs();

/// No room for a large segment.
const LITTLE_MEMORY: u64 = 256 << 10;

/// A segment of this size goes to disk at once, after the tail before it.
const LARGE: usize = 300_000;

/// A daemon, a client, and the model between them.
struct Scene {
    world: World,
    model: Model,
    incarnation: i64,
}

impl Scene {
    fn new() -> Self {
        let machine = Machine {
            seed: 5,
            disks: 1,
            memory_bytes: LITTLE_MEMORY,
        };
        let mut scene = Self {
            world: World::new(&machine),
            model: Model::default(),
            incarnation: 0,
        };
        scene.start();
        scene
    }

    fn start(&mut self) {
        self.incarnation = self.world.start().unwrap();
        self.model
            .start(self.incarnation, self.world.now_ms(), false)
            .unwrap();
    }

    fn kill_and_restart(&mut self) {
        self.world.kill();
        self.start();
    }

    fn key(&self, generation: i32) -> ShuffleAddress {
        ShuffleAddress {
            shuffle: ShuffleKey {
                app: AppId::new("app").unwrap(),
                attempt: Some(AppAttempt(1)),
                shuffle: ShuffleId(3),
                generation: GenerationId(generation),
            },
            incarnation: self.incarnation,
        }
    }

    /// The decoded answer, or the code of the refusal.
    fn ask<A: Message>(&mut self, request: &impl Message) -> Result<A, Code> {
        let body = request.to_bytes();
        let answer = self.world.rpc(CONNECTION, &body).unwrap();
        let (now_ms, trouble) = (self.world.now_ms(), self.trouble());
        let judged = self.model.rpc(now_ms, CONNECTION, &body, &answer, trouble);
        judged.unwrap();
        decoded(&answer)
    }

    fn trouble(&mut self) -> Trouble {
        let failures = self.world.disk.take_failures();
        let trouble = Trouble {
            writes: failures.changes > 0,
            reads: failures.reads > 0,
            ..Trouble::default()
        };
        if trouble.writes {
            self.model.doubt();
        }
        trouble
    }

    fn register(&mut self, key: &ShuffleAddress) {
        let register = RegisterShuffle {
            key: key.clone(),
            spec: ShuffleSpec {
                mode: Mode::Merge,
                num_maps: 10,
                num_partitions: 4,
                format: "spark-stream".to_owned(),
            },
        };
        self.ask::<Done>(&register).unwrap();
    }

    /// Pushes one segment to partition 0.
    fn push(&mut self, key: &ShuffleAddress, map: u32, bytes: &[u8]) -> Result<Code, Code> {
        let batch = one_segment(key, map, bytes);
        let (meta, body) = (batch.to_bytes(), Bytes::copy_from_slice(bytes));
        let answer = match self.world.admit(CONNECTION, &meta, &body).unwrap() {
            Ok(upload) => self.world.upload(CONNECTION, &upload, &body).unwrap(),
            Err(refused) => refused,
        };
        let trouble = self.trouble();
        let judged = self.model.upload(&meta, &body, &answer, trouble);
        judged.unwrap();
        decoded::<PushBatchReply>(&answer).map(|reply| reply.codes[0])
    }

    /// Commits a map that pushed one segment to partition 0.
    fn commit(&mut self, key: &ShuffleAddress, map: u32, bytes: &[u8]) -> Result<(), Code> {
        let commit = commit_of(&one_segment(key, map, bytes));
        self.ask::<Done>(&commit).map(drop)
    }

    /// A map pushes one segment to partition 0, and commits.
    fn output(&mut self, key: &ShuffleAddress, map: u32, bytes: &[u8]) {
        assert_eq!(self.push(key, map, bytes), Ok(Code::Ok));
        assert_eq!(self.commit(key, map, bytes), Ok(()));
    }

    /// The maps that partition 0 shows.
    fn layout(&mut self, key: &ShuffleAddress) -> Result<Vec<u32>, Code> {
        let runs = self.runs(key)?;
        let segments = runs.iter().flat_map(|run| &run.segments);
        Ok(segments.map(|segment| segment.map_index.0).collect())
    }

    /// Returns the segments of partition 0 that are shown, by their slots.
    fn runs(&mut self, key: &ShuffleAddress) -> Result<Vec<LaidRun>, Code> {
        let layout = SegmentLayout {
            key: key.clone(),
            map_start: 0,
            map_end: ALL_MAPS,
            reduce_ids: vec![ReduceId(0)],
        };
        let reply: SegmentLayoutReply = self.ask(&layout)?;
        let partition = &reply.partitions[0];
        match partition.code {
            Code::Ok => Ok(partition.runs.clone()),
            code => Err(code),
        }
    }

    fn open_stream(&mut self, key: &ShuffleAddress) -> Result<i64, Code> {
        let runs = self.runs(key)?.into_iter().map(|run| SegmentRun {
            first: run.first,
            count: run.segments.len() as u32,
        });
        let fetch = FetchSegments {
            key: key.clone(),
            chunks: vec![WantedChunk {
                reduce_id: ReduceId(0),
                runs: runs.collect(),
            }],
        };
        self.ask::<StreamHandle>(&fetch)
            .map(|handle| handle.stream_id)
    }

    /// The bytes of partition 0, which is one chunk.
    fn read(&mut self, key: &ShuffleAddress) -> Result<Vec<u8>, Code> {
        let stream = self.open_stream(key)?;
        let opened = self.world.open_chunk(CONNECTION, stream, 0).unwrap();
        let expected = self.model.open_chunk(CONNECTION, stream, 0);
        let bytes = self.world.read(&opened.unwrap()).unwrap();
        assert_eq!(expected, Chunk::Bytes(bytes.clone()));
        Ok(bytes)
    }

    fn remove(&mut self, key: &ShuffleAddress) {
        let remove = RemoveShuffleMerge {
            key: key.shuffle.clone(),
        };
        self.world.one_way(CONNECTION, &remove.to_bytes()).unwrap();
        self.model.remove(&remove);
    }
}

fn decoded<A: Message>(answer: &Answer) -> Result<A, Code> {
    if let Some(refused) = refusal(answer) {
        return Err(refused.code);
    }
    let Answer::Response(bytes) = answer else {
        panic!("answered with a text: {answer:?}");
    };
    Ok(A::from_bytes(bytes).unwrap())
}

#[test]
fn killed_and_restarted_on_the_same_port_between_commit_and_read_it_refuses_the_reader() {
    let mut scene = Scene::new();
    let key = scene.key(0);
    scene.register(&key);
    scene.output(&key, 0, &[7; LARGE]);
    let stream = scene.open_stream(&key).unwrap();
    scene.kill_and_restart();
    assert_eq!(scene.layout(&key), Err(Code::StaleIncarnation));
    assert_eq!(scene.read(&key), Err(Code::StaleIncarnation));
    assert!(
        scene
            .world
            .open_chunk(CONNECTION, stream, 0)
            .unwrap()
            .is_err()
    );
    // Under the new name the shuffle is unknown, and not empty.
    let renamed = scene.key(0);
    assert_eq!(scene.layout(&renamed), Err(Code::UnknownApplication));
    scene.register(&renamed);
    let late = scene.commit(&renamed, 0, &[7; LARGE]);
    assert_eq!(late, Err(Code::LedgerMismatch));
    assert_eq!(scene.layout(&renamed), Err(Code::UnknownPartition));
}

#[test]
fn a_request_replayed_from_before_the_restart_changes_nothing() {
    let mut scene = Scene::new();
    let old = scene.key(0);
    scene.register(&old);
    scene.push(&old, 0, b"of the first life").unwrap();
    scene.kill_and_restart();
    let key = scene.key(0);
    scene.register(&key);
    assert_eq!(
        scene.push(&old, 0, b"of the first life"),
        Err(Code::StaleIncarnation)
    );
    scene.output(&key, 0, b"of the second life");
    let commit = scene.commit(&old, 0, b"of the first life");
    assert_eq!(commit, Err(Code::StaleIncarnation));
    scene.output(&key, 1, b", both of it");
    assert_eq!(scene.read(&key).unwrap(), b"of the second life, both of it");
}

#[test]
fn replayed_requests_of_the_same_incarnation_get_the_first_answer_again() {
    let mut scene = Scene::new();
    let key = scene.key(0);
    scene.register(&key);
    scene.output(&key, 0, b"once");
    scene.register(&key);
    assert_eq!(scene.push(&key, 0, b"once"), Ok(Code::Duplicate));
    scene.register(&key);
    assert_eq!(scene.commit(&key, 0, b"once"), Ok(()));
    assert_eq!(scene.layout(&key).unwrap(), [0]);
}

#[test]
fn a_released_shuffle_is_refused_and_never_read_as_empty() {
    let mut scene = Scene::new();
    let key = scene.key(0);
    scene.register(&key);
    scene.output(&key, 0, &[1; LARGE]);
    let stream = scene.open_stream(&key).unwrap();
    scene.remove(&key);
    assert_eq!(scene.layout(&key), Err(Code::UnknownShuffle));
    assert_eq!(scene.open_stream(&key), Err(Code::UnknownShuffle));
    let commit = scene.commit(&key, 0, &[1; LARGE]);
    assert_eq!(commit, Err(Code::UnknownShuffle));
    assert_eq!(scene.push(&key, 1, b"late"), Ok(Code::TooLate));
    let opened = scene.world.open_chunk(CONNECTION, stream, 0).unwrap();
    assert!(opened.is_err(), "a stream outlived its shuffle");
    let store = scene.world.store().unwrap();
    assert_eq!(store.load().memory_used, store.memory_of_names());
}

#[test]
fn a_request_that_names_no_partition_of_an_unknown_shuffle_is_refused_too() {
    let mut scene = Scene::new();
    let key = scene.key(0);
    let mut layout = SegmentLayout {
        key: key.clone(),
        map_start: 0,
        map_end: ALL_MAPS,
        reduce_ids: Vec::new(),
    };
    let mut fetch = FetchSegments {
        key: key.clone(),
        chunks: Vec::new(),
    };
    assert_eq!(
        scene.ask::<StreamHandle>(&fetch),
        Err(Code::UnknownApplication)
    );
    scene.register(&key);
    let nothing = scene.ask::<SegmentLayoutReply>(&layout).unwrap();
    assert!(nothing.partitions.is_empty());
    scene.remove(&key);
    assert_eq!(
        scene.ask::<SegmentLayoutReply>(&layout),
        Err(Code::UnknownShuffle)
    );
    assert_eq!(scene.ask::<StreamHandle>(&fetch), Err(Code::UnknownShuffle));
    layout.key.shuffle.generation = GenerationId(7);
    fetch.key.shuffle.generation = GenerationId(7);
    assert_eq!(
        scene.ask::<SegmentLayoutReply>(&layout),
        Err(Code::UnknownShuffle)
    );
    assert_eq!(scene.ask::<StreamHandle>(&fetch), Err(Code::UnknownShuffle));
}

#[test]
fn a_duplicate_last_block_leaves_the_partition_as_it_is() {
    for last in [b"last".to_vec(), vec![9; LARGE]] {
        let mut scene = Scene::new();
        let key = scene.key(0);
        scene.register(&key);
        scene.output(&key, 0, b"first ");
        assert_eq!(scene.push(&key, 1, &last), Ok(Code::Ok));
        assert_eq!(scene.push(&key, 1, &last), Ok(Code::Duplicate));
        assert_eq!(scene.commit(&key, 1, &last), Ok(()));
        assert_eq!(scene.push(&key, 1, &last), Ok(Code::Duplicate));
        assert_eq!(scene.layout(&key).unwrap(), [0, 1]);
        assert_eq!(
            scene.read(&key).unwrap(),
            [b"first ", last.as_slice()].concat()
        );
    }
}

#[test]
fn a_chunk_that_is_open_when_its_shuffle_goes_is_read_to_its_end() {
    let mut scene = Scene::new();
    let key = scene.key(0);
    scene.register(&key);
    scene.output(&key, 0, &[3; LARGE]);
    let stream = scene.open_stream(&key).unwrap();
    let opened = scene.world.open_chunk(CONNECTION, stream, 0).unwrap();
    let data = opened.unwrap();
    scene.remove(&key);
    assert_eq!(scene.world.read(&data).unwrap(), [3; LARGE]);
    drop(data);
    assert_eq!(scene.world.disk.fake.open_files().0, 0);
}

#[test]
fn a_write_torn_in_the_middle_costs_its_own_segment_and_no_other() {
    let mut scene = Scene::new();
    let key = scene.key(0);
    scene.register(&key);
    scene.output(&key, 0, &[1; LARGE]);
    scene
        .world
        .disk
        .fake
        .fault_at(0, Fault::Torn(1000, Errno::IO));
    assert_eq!(scene.push(&key, 1, &[2; LARGE]), Ok(Code::DiskFailed));
    scene.world.clock.advance_ms(6_000);
    scene.output(&key, 2, &[3; LARGE]);
    assert_eq!(scene.layout(&key).unwrap(), [0, 2]);
    assert_eq!(scene.read(&key).unwrap(), [[1; LARGE], [3; LARGE]].concat());
}

/// A reader knows a segment, and asks for it when it is gone: only its chunk is refused, and the
/// others keep their slots.
#[test]
fn a_segment_that_is_dropped_after_its_commit_is_refused_alone_and_the_rest_is_read() {
    let mut scene = Scene::new();
    let key = scene.key(0);
    scene.register(&key);
    scene.output(&key, 0, &[1; LARGE]);
    scene.output(&key, 1, b"in the tail");
    let shown = scene.runs(&key).unwrap();
    assert_eq!((shown.len(), shown[0].segments.len()), (1, 2));
    let fake = &scene.world.disk.fake;
    fake.fault_at(0, Fault::Torn(1000, Errno::NOSPC));
    assert_eq!(scene.push(&key, 2, &[2; LARGE]), Ok(Code::DiskFull));
    scene.world.clock.advance_ms(6_000);
    scene.output(&key, 3, b"after");
    let chunk = |first| WantedChunk {
        reduce_id: ReduceId(0),
        runs: vec![SegmentRun { first, count: 1 }],
    };
    let fetch = FetchSegments {
        key: key.clone(),
        chunks: vec![chunk(0), chunk(1), chunk(2)],
    };
    let stream = scene.ask::<StreamHandle>(&fetch).unwrap().stream_id;
    let mut take = |index| {
        let opened = scene.world.open_chunk(CONNECTION, stream, index).unwrap();
        let expected = scene.model.open_chunk(CONNECTION, stream, index);
        (
            expected,
            opened.map(|data| scene.world.read(&data).unwrap()),
        )
    };
    assert_eq!(take(0).1.unwrap(), [1; LARGE]);
    let (expected, dropped) = take(1);
    assert_eq!(expected, Chunk::Doubtful(b"in the tail".to_vec()));
    match dropped {
        Err(NoChunk::Store(refusal)) => assert_eq!(refusal.code, Code::Aborted),
        other => panic!("instead of a refusal: {other:?}"),
    }
    assert_eq!(take(2).1.unwrap(), b"after");
    assert_eq!(scene.layout(&key).unwrap(), [0, 3]);
    assert_eq!(scene.commit(&key, 1, b"in the tail"), Ok(()));
}

#[test]
fn killed_at_any_disk_call_of_a_push_the_next_daemon_starts_clean() {
    for after in 0.. {
        let mut scene = Scene::new();
        let key = scene.key(0);
        scene.register(&key);
        let (done, bytes) = (Some(100), Bytes::from(vec![1; LARGE]));
        scene.world.disk.kill_at(Death { after, done });
        for map in 0..3 {
            if !scene.world.disk.is_dead() {
                push_unjudged(&mut scene, &key, map, &bytes);
            }
        }
        if !scene.world.disk.is_dead() {
            assert!(after > 3, "no call was counted");
            return;
        }
        scene.kill_and_restart();
        let next = scene.key(0);
        assert_eq!(scene.layout(&next), Err(Code::UnknownApplication));
        let names = scene.world.disk.fake.below(&scene.world.dirs[0]);
        let own = format!("/disk0/lodestone-{:016x}", scene.incarnation);
        assert!(names.iter().all(|path| path.starts_with(&own)), "{names:?}");
    }
}

/// A push of one segment to partition 0.
fn one_segment(key: &ShuffleAddress, map: u32, bytes: &[u8]) -> PushBatch {
    PushBatch {
        key: key.clone(),
        map_index: MapIndex(map),
        map_id: MapId(map.into()),
        first_segment: 0,
        is_whole: false,
        segments: vec![Segment {
            reduce_id: ReduceId(0),
            sequence: 1,
            length: bytes.len() as u32,
            records: 1,
            crc32c: Crc32c(crc32c::crc32c(bytes)),
        }],
    }
}

/// The commit of an attempt that pushed this batch alone.
fn commit_of(batch: &PushBatch) -> CommitMap {
    CommitMap {
        key: batch.key.clone(),
        map_index: batch.map_index,
        map_id: batch.map_id,
        pushed: batch.ledger(),
    }
}

/// A push whose answer is lost.
fn push_unjudged(scene: &mut Scene, key: &ShuffleAddress, map: u32, bytes: &Bytes) {
    let batch = one_segment(key, map, bytes);
    let admitted = scene.world.admit(CONNECTION, &batch.to_bytes(), bytes);
    if let Some(Ok(upload)) = admitted {
        scene.world.upload(CONNECTION, &upload, bytes);
    }
}

#[test]
fn an_older_generation_neither_writes_into_the_newer_nor_reads_from_it() {
    let mut scene = Scene::new();
    let (old, new) = (scene.key(0), scene.key(1));
    scene.register(&old);
    scene.output(&old, 0, b"old");
    scene.register(&new);
    assert_eq!(scene.push(&old, 1, b"old"), Err(Code::StaleGeneration));
    scene.output(&new, 0, b"new");
    assert_eq!(scene.commit(&old, 0, b"old"), Err(Code::StaleGeneration));
    assert_eq!(scene.layout(&old), Err(Code::StaleGeneration));
    scene.remove(&old);
    assert_eq!(scene.read(&new).unwrap(), b"new");
}
