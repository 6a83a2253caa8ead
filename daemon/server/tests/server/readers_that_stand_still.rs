// SPDX-License-Identifier: Apache-2.0
//! Readers that stand still in the middle of a chunk. A chunk in memory keeps all of a part of its
//! partition there, so thousands of such readers would hold all memory of the store. While memory
//! is short, they hold none of it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::{AppAttempt, Code, Mode, ReduceId};
use lodestone_store::{Environment, Store};
use lodestone_wire::Frame;
use lodestone_wire::extension::fetch::SegmentLayout;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Done;
use lodestone_wire::frame::ChunkId;

use crate::support::Client;
use crate::support::client::{ALL_MAPS, app};
use crate::support::daemon::TEST_TIMEOUT;
use crate::support::inside::Inside;
use crate::support::trap::{Does, TrapFs};

const READERS: u32 = 3;

/// More than the time after which the memory of a chunk is looked at.
const LONG: Duration = Duration::from_secs(3);

/// The segments of a partition, which has one chunk: sockets hold less.
const SEGMENTS: u32 = 12;
const SEGMENT_BYTES: usize = 1 << 20;

/// What the store needs besides tails.
const METADATA_MOST: u64 = 1 << 20;

fn segment(reduce: u32, map: u32) -> Vec<u8> {
    let word = |at: u32| (at ^ (map << 20) ^ (reduce << 28)).to_le_bytes();
    (0..SEGMENT_BYTES as u32 / 4).flat_map(word).collect()
}

/// A daemon with a partition for each reader in memory, and the readers. Each has asked for its
/// partition, of which the first bytes have come.
struct Scene {
    daemon: Inside,
    readers: Vec<(Client, ChunkId)>,
}

impl Scene {
    fn new() -> Self {
        Self::on(Environment::os(), READERS)
    }

    fn on(environment: Environment, readers: u32) -> Self {
        let daemon = Inside::with_memory(environment, 256 << 20);
        let key = daemon.key(1);
        let mut client = daemon.connect();
        client.register_as(Mode::Remote, &key, SEGMENTS, readers);
        for map in 0..SEGMENTS {
            for reduce in 0..readers {
                let (map_id, bytes) = (i64::from(map * readers + reduce), segment(reduce, map));
                client.output(&key, map, map_id, &[(reduce, &bytes)]);
            }
        }
        let tails = u64::from(readers * SEGMENTS) * SEGMENT_BYTES as u64;
        assert!(daemon.service.store.load().memory_used >= tails);
        let reader = |reduce| {
            let mut client = daemon.connect();
            let (handle, _) = client.open_partition(&key, reduce, SEGMENTS);
            let chunk = ChunkId {
                stream_id: handle.stream_id,
                chunk_index: 0,
            };
            client.send(&Frame::ChunkFetchRequest(chunk));
            client.socket.peek(&mut [0]).unwrap();
            (client, chunk)
        };
        let readers = (0..readers).map(reader).collect();
        Self { daemon, readers }
    }

    fn is_short_of_memory(&self) {
        self.daemon.service.store.limit_memory(1 << 20);
    }

    fn pass(&self, time: Duration) {
        let clock = self.daemon.stop_the_clock();
        clock.pass(time);
        // Otherwise it jumps when this ends.
        self.daemon.do_not_jump();
        drop(clock);
    }

    /// Removes all that they read.
    fn remove(&self) {
        let _: Done = self.daemon.connect().ask(&EndApplication {
            app: app(),
            app_attempt: AppAttempt::NONE,
        });
    }

    fn wait_until_memory_is_free(&self) {
        let began = Instant::now();
        loop {
            let used = self.daemon.service.store.load().memory_used;
            if used < METADATA_MOST {
                return;
            }
            assert!(began.elapsed() < TEST_TIMEOUT, "{used} bytes are held");
            thread::yield_now();
        }
    }
}

/// Writes out all that is in memory. A partition that is in use is tried again.
fn write_out(store: &Store) {
    while store.unwritten_bytes() > 0 {
        store.call_to_write_out();
        store.write_out_as_called(0);
    }
}

fn assert_whole(client: &mut Client, asked: ChunkId, reduce: u32) {
    let Some(Frame::ChunkFetchSuccess { chunk, body }) = client.receive() else {
        panic!("no chunk");
    };
    let expected: Vec<u8> = (0..SEGMENTS).flat_map(|map| segment(reduce, map)).collect();
    assert_eq!(chunk, asked);
    assert!(body == expected, "other bytes");
}

#[test]
fn what_was_written_out_is_read_to_its_end_by_readers_that_held_none_of_it() {
    let scene = Scene::new();
    scene.is_short_of_memory();
    write_out(&scene.daemon.service.store);
    scene.wait_until_memory_is_free();
    for (reduce, (mut client, asked)) in (0..).zip(scene.readers) {
        assert_whole(&mut client, asked, reduce);
    }
    scene.daemon.stop();
}

#[test]
fn while_memory_is_short_readers_of_a_removed_shuffle_are_cut_off_and_get_no_other_bytes() {
    let scene = Scene::new();
    scene.remove();
    scene.is_short_of_memory();
    scene.wait_until_memory_is_free();
    for (mut client, _) in scene.readers {
        let received = client.receive_to_the_end();
        assert!(received < SEGMENTS as usize * SEGMENT_BYTES);
    }
    scene.daemon.stop();
}

#[test]
fn while_there_is_memory_readers_of_a_removed_shuffle_get_the_rest_however_slow_they_are() {
    let mut scene = Scene::new();
    scene.remove();
    scene.pass(LONG);
    for (reduce, (client, asked)) in (0..).zip(&mut scene.readers) {
        assert_whole(client, *asked, reduce);
    }
    scene.daemon.stop();
}

#[test]
fn the_rest_of_a_chunk_comes_after_a_write_that_holds_up_its_partition() {
    let disk = TrapFs::default();
    let mut scene = Scene::on(disk.environment(), 1);
    // A thread of the daemon may write as soon as memory is short.
    let hanging = disk.hang(Path::new("/"), &[Does::Open]);
    scene.is_short_of_memory();
    scene.pass(LONG);
    let (key, mut asking) = (scene.daemon.key(1), scene.daemon.connect());
    let (mut client, asked) = scene.readers.remove(0);
    thread::scope(|scope| {
        let store = &scene.daemon.service.store;
        scope.spawn(|| write_out(store));
        disk.await_hanging(1);
        let layout = SegmentLayout {
            key,
            map_start: ALL_MAPS.0,
            map_end: ALL_MAPS.1,
            reduce_ids: vec![ReduceId(0)],
        };
        // From the first refusal on, nobody waits for the partition.
        assert_eq!(asking.refusal(&layout), Code::Overloaded);
        let reading = scope.spawn(move || assert_whole(&mut client, asked, 0));
        for _ in 0..20 {
            assert_eq!(asking.refusal(&layout), Code::Overloaded);
        }
        drop(hanging);
        reading.join().unwrap();
    });
    scene.daemon.stop();
}
