// SPDX-License-Identifier: Apache-2.0
//! A disk hangs in whatever is asked of it, while clients ask all kinds of things at a time: each
//! kind needs threads, turns and memory, and together they must leave enough to the other disk.

use lodestone_model::{Cause, Code, MapId, MapIndex, Mode, ReduceId, SuspectBlock};
use lodestone_wire::Frame;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::AbortMap;
use lodestone_wire::extension::fetch::SegmentLayout;
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::status::Done;
use lodestone_wire::frame::ChunkId;
use lodestone_wire::spark::MERGER_EXECUTOR;
use lodestone_wire::spark::fetch::{FetchShuffleBlockChunks, StreamHandle};
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};
use lodestone_wire::spark::originals::{CorruptionCause, DiagnoseCorruption, OpenBlocks};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushCode};
use lodestone_wire::spark::remove::{BlocksRemoved, RemoveBlocks};

use crate::bad_disk::{BAD, BLOCK_BYTES, CALLS, Host, WELL, add_file, app, block, shuffle};
use crate::support::Client;
use crate::support::client::{ALL_MAPS, batch, commit_of, generation, read};
use crate::support::daemon::TEST_TIMEOUT;
use crate::support::trap::Does;
use crate::two_disks::quickly;

const MIB: usize = 1 << 20;

/// Blocks of a MiB after which all others go to a disk at once: a little less than 11/16 of the
/// memory for tails.
const FILL: u32 = 86;

/// Partitions of remote shuffles, every other one on each disk.
const PARTITIONS: u32 = 2 * CALLS;

/// A batch of this size goes to the disk while memory is short.
const BATCH_BYTES: usize = MIB / 8;

/// Calls that a disk may hold up: 24 reads; 16 pushes of Spark's own, or finalizes; 16 writes to
/// its data directory; half of the lanes for removals, registrations and diagnoses; two looks.
const HANGING: usize = 24 + 16 + 16 + 4 + 4 + 2 + 2;

/// Everything that one disk is asked for.
struct Disk(usize);

impl Disk {
    /// The remote shuffle of which the even partitions are in the data directory of this disk.
    fn remote(&self, host: &Host) -> ShuffleAddress {
        host.daemon.key(if self.0 == BAD { 11 } else { 12 })
    }

    fn original(&self) -> OpenBlocks {
        OpenBlocks {
            app: app(self.0),
            exec_id: "1".to_owned(),
            block_ids: vec!["shuffle_3_11_0".to_owned()],
        }
    }

    fn merged(&self) -> FetchShuffleBlockChunks {
        let key = shuffle(self.0, 4);
        FetchShuffleBlockChunks {
            app: key.app,
            exec_id: MERGER_EXECUTOR.to_owned(),
            shuffle_id: key.shuffle,
            shuffle_merge_id: key.generation,
            chunks: vec![(ReduceId(0), vec![0])],
        }
    }

    fn removal(&self, number: u32) -> RemoveBlocks {
        RemoveBlocks {
            app: app(self.0),
            exec_id: "1".to_owned(),
            block_ids: vec![format!("rdd_1_{number}")],
        }
    }

    fn diagnosis(&self) -> DiagnoseCorruption {
        DiagnoseCorruption {
            app: app(self.0),
            exec_id: "1".to_owned(),
            block: SuspectBlock {
                shuffle: generation(3).shuffle,
                map: MapId(11),
                reduce: ReduceId(0),
                reader_checksum: 1,
            },
            algorithm: "CRC32".to_owned(),
        }
    }

    fn batch(&self, host: &Host, number: u32) -> (PushBatch, Vec<u8>) {
        let (key, bytes) = (self.remote(host), vec![7; BATCH_BYTES]);
        batch(&key, FILL + number, 10, &[(2 * number, &bytes)])
    }

    fn layout(&self, host: &Host, number: u32) -> SegmentLayout {
        SegmentLayout {
            key: self.remote(host),
            map_start: ALL_MAPS.0,
            map_end: ALL_MAPS.1,
            reduce_ids: vec![ReduceId(2 * number)],
        }
    }

    /// The attempt of which a batch was pushed.
    fn abort(&self, host: &Host, number: u32) -> AbortMap {
        AbortMap {
            key: self.remote(host),
            map_index: MapIndex(FILL + number),
            map_id: MapId(10),
        }
    }

    /// Writes a map output and merges a partition, to be read while the disk hangs.
    fn prepare(&self, host: &mut Host) {
        add_file(host, self.0, "shuffle_3_11_0.data", b"original");
        let offsets = [0_i64, 8].map(i64::to_be_bytes).concat();
        add_file(host, self.0, "shuffle_3_11_0.index", &offsets);
        for number in 0..CALLS {
            add_file(host, self.0, &format!("rdd_1_{number}"), b"block");
        }
        let key = shuffle(self.0, 4);
        let meta = block(key.clone(), 0);
        let id = host.client.send_upload(&meta, &vec![7; BLOCK_BYTES]);
        let answer: BlockPushReturnCode = read(&host.client.answer_to(id));
        assert_eq!(answer.code, PushCode::Success);
        let merged: MergeStatuses = host.client.ask(&FinalizeShuffleMerge { key });
        assert_eq!(merged.partitions.len(), 1);
        let remote = self.remote(host);
        let maps = FILL + 2 * CALLS;
        host.client
            .register_as(Mode::Remote, &remote, maps, PARTITIONS);
    }

    /// Asks everything over so many connections, and waits for no answer.
    fn ask_everything(&self, host: &Host) -> Vec<Client> {
        let mut asking = Vec::new();
        let mut ask = |ask: &dyn Fn(&mut Client)| {
            let mut client = host.daemon.connect();
            ask(&mut client);
            asking.push(client);
        };
        for number in 0..CALLS {
            ask(&|client| {
                let StreamHandle { stream_id, .. } = client.ask(&self.original());
                ask_for_chunk(client, stream_id);
            });
            ask(&|client| {
                let StreamHandle { stream_id, .. } = client.ask(&self.merged());
                ask_for_chunk(client, stream_id);
            });
            ask(&|client| {
                host.send_block(client, self.0, number);
            });
            ask(&|client| {
                let (meta, body) = self.batch(host, number);
                client.send_upload(&meta, &body);
            });
        }
        for number in 0..CALLS / 3 {
            let exec = format!("late-{number}");
            let (meta, _) = self.batch(host, number);
            ask(&|client| {
                client.send_rpc(&self.removal(number));
                client.send_rpc(&host.registration(self.0, &exec));
                client.send_rpc(&self.diagnosis());
                client.send_rpc(&commit_of(std::slice::from_ref(&meta)));
                client.send_rpc(&self.layout(host, number));
                client.send_rpc(&self.abort(host, number));
            });
        }
        asking
    }

    /// Everything that can be asked of this disk is done.
    fn works(&self, host: &mut Host, number: u32) {
        let mut client = host.daemon.connect();
        quickly("a map output", || {
            let handle: StreamHandle = client.ask(&self.original());
            assert_eq!(client.take(&handle), [b"original".as_slice()]);
        });
        quickly("a merged chunk", || {
            let handle: StreamHandle = client.ask(&self.merged());
            assert_eq!(client.take(&handle), [vec![7; BLOCK_BYTES]]);
        });
        let removed: BlocksRemoved = quickly("a removal", || client.ask(&self.removal(number)));
        assert_eq!(removed.count, 1);
        let request = host.registration(self.0, &format!("late-{number}"));
        quickly("a registration", || {
            let id = client.send_rpc(&request);
            assert!(client.answer_to(id).is_empty());
        });
        let found: CorruptionCause = quickly("a diagnosis", || client.ask(&self.diagnosis()));
        assert_eq!(found.cause, Cause::UnknownIssue, "it has no checksums");
        let key = shuffle(self.0, 100 + number as i32);
        quickly("a finalize", || {
            let id = client.send_upload(&block(key.clone(), 0), b"a small block");
            let answer: BlockPushReturnCode = read(&client.answer_to(id));
            assert_eq!(answer.code, PushCode::Success);
            let merged: MergeStatuses = client.ask(&FinalizeShuffleMerge { key });
            assert_eq!(merged.partitions.len(), 1);
        });
        self.attempts_work(host, &mut client, number);
    }

    /// One attempt is pushed, committed and read; another one is pushed and aborted.
    fn attempts_work(&self, host: &Host, client: &mut Client, number: u32) {
        for (number, commits) in [(2 * number, true), (2 * number + 1, false)] {
            let (meta, body) = self.batch(host, number);
            quickly("a batch", || {
                let id = client.send_upload(&meta, &body);
                assert!(!client.answer_to(id).is_empty());
            });
            if commits {
                let _: Done = quickly("a commit", || client.ask(&commit_of(&[meta])));
            } else {
                // Not as quickly: all disks share the threads for aborts, each of which waits for
                // its partition as long as a disk is not known to hang.
                let _: Done = client.ask(&self.abort(host, number));
            }
            quickly("a layout", || {
                let layout = client.layout(&self.remote(host), ALL_MAPS, &[2 * number]);
                assert_eq!(layout.partitions[0].runs.len(), usize::from(commits));
            });
        }
    }
}

fn ask_for_chunk(client: &mut Client, stream_id: i64) {
    let chunk_index = 0;
    client.send(&Frame::ChunkFetchRequest(ChunkId {
        stream_id,
        chunk_index,
    }));
}

/// They are written to both disks, and wait for the one that hangs for a limited time.
fn await_registrations(host: &Host) {
    for exec in ["first", "second"] {
        let mut client = host.daemon.connect();
        client.socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        client.send_rpc(&host.registration(WELL, exec));
        assert!(client.receive().is_some(), "{exec}");
    }
}

#[test]
fn calls_of_all_kinds_that_hang_in_one_disk_at_a_time_hold_up_none_of_another_disk() {
    let mut host = Host::start();
    // The order decides on which disk partitions of remote shuffles are.
    Disk(WELL).prepare(&mut host);
    Disk(BAD).prepare(&mut host);
    let all = [Does::Open, Does::Remove, Does::Space, Does::Look];
    let mended = host.fs.hang(host.path(BAD), &all);
    // From here on batches go to the disk at once.
    let remote = Disk(BAD).remote(&host);
    for map in 0..FILL {
        let pushed = host
            .client
            .push(&remote, map, 10, &[(2 * map, &vec![9; MIB])]);
        assert_eq!(pushed, [Code::Ok]);
    }
    let asking = Disk(BAD).ask_everything(&host);
    host.fs.await_hanging(HANGING);
    await_registrations(&host);
    for number in 0..10 {
        Disk(WELL).works(&mut host, number);
    }
    host.everything_else_goes_on();
    host.ends_in_time();
    drop((mended, asking));
    host.daemon.stop();
}
