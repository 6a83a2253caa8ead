// SPDX-License-Identifier: Apache-2.0
//! One of two disks hangs in one kind of call. Both have a data directory of the daemon, and
//! directories of executors. Whoever does not need that disk notices nothing.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lodestone_model::{AppId, Cause, MapId, MapIndex, ReduceId, ShuffleKey, SuspectBlock};
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::frame::ChunkId;
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};
use lodestone_wire::spark::originals::{CorruptionCause, DiagnoseCorruption, OpenBlocks};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushBlockStream, PushCode};
use lodestone_wire::spark::register::RegisterExecutor;
use lodestone_wire::spark::remove::{BlocksRemoved, RemoveBlocks, RemoveShuffleMerge};
use lodestone_wire::{Frame, Message};
use tempfile::TempDir;

use crate::support::Client;
use crate::support::client::{generation, hello, read};
use crate::support::daemon::{TEST_TIMEOUT, get};
use crate::support::inside::Inside;
use crate::support::trap::{Does, TrapFs};
use crate::two_disks::quickly;

/// More calls than a lane has threads.
pub(crate) const CALLS: u32 = 120;

/// Calls of Spark's own push that may hang on a disk.
const HANGING_PUSHES: usize = 16;

/// A block that goes to the file at once.
pub(crate) const BLOCK_BYTES: usize = 300_000;

/// A daemon that stops answers the requests in work for 11 s at the most.
const LONGEST_STOP: Duration = Duration::from_secs(20);

/// Spark repeats a registration after this time.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The two disks, and the applications whose executors are there.
pub(crate) const BAD: usize = 0;
pub(crate) const WELL: usize = 1;

pub(crate) struct Host {
    disks: [TempDir; 2],
    pub(crate) fs: TrapFs,
    pub(crate) daemon: Inside,
    admin: SocketAddr,
    /// It has pushed "in memory" and can read it.
    pub(crate) client: Client,
    pushed: u32,
}

pub(crate) fn app(disk: usize) -> AppId {
    AppId::new(["app-bad", "app-well"][disk]).unwrap()
}

pub(crate) fn shuffle(disk: usize, id: i32) -> ShuffleKey {
    ShuffleKey {
        app: app(disk),
        ..generation(id)
    }
}

/// What is said of a pushed block.
pub(crate) fn block(key: ShuffleKey, reduce: u32) -> PushBlockStream {
    PushBlockStream {
        key,
        map_index: MapIndex(0),
        reduce_id: ReduceId(reduce),
        index: 0,
    }
}

impl Host {
    pub(crate) fn start() -> Self {
        let disks = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let fs = TrapFs::with_disks(&disks);
        let dirs = disks.each_ref().map(|disk| disk.path().join("data"));
        dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
        let daemon = Inside::on(fs.environment(), &dirs);
        let (admin, client) = (daemon.admin(), daemon.connect());
        let mut host = Self {
            disks,
            fs,
            daemon,
            admin,
            client,
            pushed: 0,
        };
        let key = host.daemon.key(1);
        host.client.register(&key, 1, 1);
        host.client.output(&key, 0, 1, &[(0, b"in memory")]);
        for disk in [BAD, WELL] {
            let request = host.registration(disk, "1");
            let id = host.client.send_rpc(&request);
            assert!(host.client.answer_to(id).is_empty());
        }
        host
    }

    pub(crate) fn path(&self, disk: usize) -> &Path {
        self.disks[disk].path()
    }

    /// The directory of an executor.
    pub(crate) fn executor_dir(&self, disk: usize, exec: &str) -> PathBuf {
        self.path(disk).join(format!("blockmgr-{exec}"))
    }

    pub(crate) fn registration(&self, disk: usize, exec: &str) -> RegisterExecutor {
        let dir = self.executor_dir(disk, exec);
        fs::create_dir_all(&dir).unwrap();
        RegisterExecutor {
            app: app(disk),
            exec_id: exec.to_owned(),
            local_dirs: vec![dir.to_str().unwrap().to_owned()],
            sub_dirs_per_local_dir: 1,
            shuffle_manager: r#"org.X:{"mergeDir":"merge_manager"}}}"#.to_owned(),
        }
    }

    /// Sends a block to be merged on a disk, and waits for no answer.
    pub(crate) fn send_block(&self, client: &mut Client, disk: usize, reduce: u32) -> i64 {
        let meta = block(shuffle(disk, 3), reduce);
        client.send_upload(&meta, &vec![7; BLOCK_BYTES])
    }

    /// Pushes of so many connections, of which some hang.
    pub(crate) fn push_to_bad_disk(&self) -> Vec<Client> {
        let pushers = (0..CALLS).map(|reduce| {
            let mut pusher = self.daemon.connect();
            self.send_block(&mut pusher, BAD, reduce);
            pusher
        });
        let pushers = pushers.collect();
        self.fs.await_hanging(HANGING_PUSHES);
        pushers
    }

    fn hello_is_answered(&self) {
        quickly("hello", || {
            let _: HelloReply = self.daemon.connect().ask(&hello());
        });
    }

    /// All that threads of the network carry out themselves.
    fn what_needs_no_other_thread_goes_on(&mut self) {
        let health = quickly("health", || get(self.admin, "/health"));
        assert!(health.starts_with("HTTP/1.1 200"), "{health}");
        let key = self.daemon.key(1);
        quickly("a chunk from memory", || {
            let read = self.client.partition(&key, 0);
            assert_eq!(read[0].2.as_ref(), b"in memory");
        });
    }

    fn executors_register_quickly(&mut self) {
        for n in 0..10 {
            let request = self.registration(WELL, &format!("new-{n}"));
            quickly("a registration", || {
                let id = self.client.send_rpc(&request);
                assert!(self.client.answer_to(id).is_empty());
            });
        }
    }

    /// All that needs no disk, or the other one, is answered.
    pub(crate) fn everything_else_goes_on(&mut self) {
        for _ in 0..10 {
            self.hello_is_answered();
            self.what_needs_no_other_thread_goes_on();
            quickly("a push to the other disk", || {
                let mut client = self.daemon.connect();
                self.pushed += 1;
                let id = self.send_block(&mut client, WELL, self.pushed);
                let answer: BlockPushReturnCode = read(&client.answer_to(id));
                assert_eq!(answer.code, PushCode::Success);
            });
        }
    }

    /// The daemon serves nobody any more, while calls hang.
    pub(crate) fn ends_in_time(&self) {
        let began = Instant::now();
        self.daemon.end();
        let took = began.elapsed();
        assert!(took < LONGEST_STOP, "the end took {took:?}");
    }
}

/// While one kind of call hangs on a disk, everything else goes on, and the daemon ends in time.
fn others_go_on(does: Does, begin: impl FnOnce(&Host) -> Vec<Client>) {
    let mut host = Host::start();
    let mended = host.fs.hang(host.path(BAD), &[does]);
    let _hanging = begin(&host);
    host.everything_else_goes_on();
    host.ends_in_time();
    drop(mended);
    host.daemon.stop();
}

#[test]
fn threads_that_all_hang_keep_nobody_from_health_leases_data_in_memory_and_the_end() {
    let mut host = Host::start();
    let (turns, hanging, left) = host.daemon.hang_in_all_calls();
    for _ in 0..10 {
        host.hello_is_answered();
        host.what_needs_no_other_thread_goes_on();
    }
    let others = host.daemon.hang_threads(left);
    for _ in 0..10 {
        host.what_needs_no_other_thread_goes_on();
    }
    host.daemon.wait_for_a_look();
    host.ends_in_time();
    drop((turns, hanging, others));
    host.daemon.stop();
}

#[test]
fn a_disk_that_does_not_say_how_much_room_it_has_holds_up_nobody() {
    others_go_on(Does::Space, |host| {
        host.fs.await_hanging(1);
        Vec::new()
    });
}

#[test]
fn blocks_whose_files_a_disk_does_not_open_hold_up_nobody_on_another_disk() {
    others_go_on(Does::Open, Host::push_to_bad_disk);
}

#[test]
fn first_blocks_of_partitions_that_a_disk_does_not_look_for_hold_up_nobody_on_another_disk() {
    others_go_on(Does::Look, Host::push_to_bad_disk);
}

#[test]
fn finalizes_that_hang_in_their_files_hold_up_no_finalize_on_another_disk() {
    let mut host = Host::start();
    let shuffles: Vec<_> = (0..CALLS as i32).map(|n| shuffle(BAD, 100 + n)).collect();
    let mut before = host.daemon.connect();
    for key in &shuffles {
        let answer: BlockPushReturnCode = {
            let id = before.send_upload(&block(key.clone(), 0), b"a small block");
            read(&before.answer_to(id))
        };
        assert_eq!(answer.code, PushCode::Success);
    }
    host.everything_else_goes_on();
    let mended = host.fs.hang(host.path(BAD), &[Does::Open]);
    let _waiting: Vec<_> = shuffles
        .into_iter()
        .map(|key| {
            let mut client = host.daemon.connect();
            client.send_rpc(&FinalizeShuffleMerge { key });
            client
        })
        .collect();
    host.fs.await_hanging(HANGING_PUSHES);
    let merged: MergeStatuses = quickly("a finalize on the other disk", || {
        let key = shuffle(WELL, 3);
        host.client.ask(&FinalizeShuffleMerge { key })
    });
    assert_eq!(merged.partitions.len(), host.pushed as usize);
    host.ends_in_time();
    drop(mended);
    host.daemon.stop();
}

/// Files of an executor.
pub(crate) fn add_file(host: &Host, disk: usize, name: &str, content: &[u8]) -> PathBuf {
    let dir = host.executor_dir(disk, "1").join("00");
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join(name);
    fs::write(&file, content).unwrap();
    file
}

#[test]
fn blocks_are_removed_while_another_disk_hangs_and_its_own_go_when_it_works_again() {
    let mut host = Host::start();
    let removal = |disk: usize, name: &str| RemoveBlocks {
        app: app(disk),
        exec_id: "1".to_owned(),
        block_ids: vec![name.to_owned()],
    };
    let name = |n: u32| format!("rdd_1_{n}");
    let bad: Vec<_> = (0..CALLS)
        .map(|n| add_file(&host, BAD, &name(n), b"block"))
        .collect();
    let mended = host.fs.hang(host.path(BAD), &[Does::Remove]);
    let mut removing: Vec<_> = (0..CALLS)
        .map(|n| {
            let mut client = host.daemon.connect();
            let id = client.send_rpc(&removal(BAD, &name(n)));
            (client, id)
        })
        .collect();
    host.fs.await_hanging(4);
    for n in 0..10 {
        let well = add_file(&host, WELL, &name(n), b"block");
        let removed: BlocksRemoved =
            quickly("a removal", || host.client.ask(&removal(WELL, &name(n))));
        assert_eq!(removed.count, 1);
        assert!(!well.exists());
    }
    host.everything_else_goes_on();
    for (client, id) in &mut removing {
        let removed: BlocksRemoved = read(&client.answer_to(*id));
        assert_eq!(removed.count, 1, "it is removed when the disk works again");
    }
    assert!(bad.iter().all(|file| file.exists()));
    drop(mended);
    let began = Instant::now();
    while bad.iter().any(|file| file.exists()) {
        assert!(began.elapsed() < TEST_TIMEOUT, "blocks are left");
        let _: HelloReply = host.client.ask(&hello());
    }
    host.daemon.stop();
}

/// More connections than there are threads for calls that use memory only.
const REMOVING: u32 = 20;

#[test]
fn removals_over_connections_whose_writes_hang_do_not_hold_up_the_hello_behind_them() {
    let mut host = Host::start();
    let name = |n: u32| format!("rdd_1_{n}");
    for n in 0..REMOVING {
        add_file(&host, BAD, &name(n), b"block");
    }
    let mended = host.fs.hang(host.path(BAD), &[Does::Open, Does::Remove]);
    let mut removing: Vec<_> = (0..REMOVING)
        .map(|n| {
            let mut client = host.daemon.connect();
            let key = shuffle(BAD, 100 + n.cast_signed());
            client.send_upload(&block(key, 0), &vec![7; BLOCK_BYTES]);
            client
        })
        .collect();
    host.fs.await_hanging(HANGING_PUSHES);
    for (n, client) in (0..REMOVING).zip(&mut removing) {
        let key = shuffle(BAD, 100 + n.cast_signed());
        let body = RemoveShuffleMerge { key }.to_bytes();
        client.send(&Frame::OneWay { body });
        client.send_rpc(&RemoveBlocks {
            app: app(BAD),
            exec_id: "1".to_owned(),
            block_ids: vec![name(n)],
        });
        let id = client.send_rpc(&hello());
        quickly("a hello behind a removal", || client.await_answer_to(id));
    }
    host.everything_else_goes_on();
    host.ends_in_time();
    drop(mended);
    host.daemon.stop();
}

#[test]
fn map_outputs_are_read_while_another_disk_hangs_in_reads() {
    let mut host = Host::start();
    for disk in [BAD, WELL] {
        add_file(&host, disk, "shuffle_3_11_0.data", b"original");
        let offsets = [0_i64, 8].map(i64::to_be_bytes).concat();
        add_file(&host, disk, "shuffle_3_11_0.index", &offsets);
    }
    let request = |disk: usize| OpenBlocks {
        app: app(disk),
        exec_id: "1".to_owned(),
        block_ids: vec!["shuffle_3_11_0".to_owned()],
    };
    let mended = host.fs.hang(host.path(BAD), &[Does::Open]);
    let _readers: Vec<_> = (0..CALLS)
        .map(|_| {
            let mut client = host.daemon.connect();
            let StreamHandle { stream_id, .. } = client.ask(&request(BAD));
            let chunk_index = 0;
            client.send(&Frame::ChunkFetchRequest(ChunkId {
                stream_id,
                chunk_index,
            }));
            client
        })
        .collect();
    host.fs.await_hanging(24);
    for _ in 0..10 {
        let mut client = host.daemon.connect();
        quickly("a map output", || {
            let handle: StreamHandle = client.ask(&request(WELL));
            assert_eq!(client.take(&handle), [b"original".as_slice()]);
        });
    }
    host.everything_else_goes_on();
    host.ends_in_time();
    drop(mended);
    host.daemon.stop();
}

#[test]
fn executors_register_while_another_disk_hangs_in_their_registrations() {
    let mut host = Host::start();
    let mended = host.fs.hang(host.path(BAD), &[Does::Look]);
    let _registering: Vec<_> = (0..CALLS)
        .map(|n| {
            let mut client = host.daemon.connect();
            client.send_rpc(&host.registration(BAD, &format!("late-{n}")));
            client
        })
        .collect();
    host.fs.await_hanging(4);
    host.executors_register_quickly();
    host.everything_else_goes_on();
    host.ends_in_time();
    drop(mended);
    host.daemon.stop();
}

#[test]
fn executors_register_while_a_data_directory_hangs_to_which_they_are_written() {
    let mut host = Host::start();
    let mended = host.fs.hang(&host.path(BAD).join("data"), &[Does::Open]);
    let began = Instant::now();
    let id = host.client.send_rpc(&host.registration(WELL, "first"));
    assert!(host.client.answer_to(id).is_empty());
    let took = began.elapsed();
    assert!(took < REGISTRATION_TIMEOUT, "it took {took:?}");
    host.executors_register_quickly();
    host.everything_else_goes_on();
    host.ends_in_time();
    drop(mended);
    host.daemon.stop();
}

#[test]
fn a_damaged_block_is_diagnosed_while_another_disk_hangs_in_diagnoses() {
    let mut host = Host::start();
    let diagnosis = |disk: usize| DiagnoseCorruption {
        app: app(disk),
        exec_id: "1".to_owned(),
        block: SuspectBlock {
            shuffle: generation(3).shuffle,
            map: MapId(11),
            reduce: ReduceId(0),
            reader_checksum: 1,
        },
        algorithm: "CRC32".to_owned(),
    };
    let mended = host.fs.hang(host.path(BAD), &[Does::Open]);
    let _asking: Vec<_> = (0..CALLS)
        .map(|_| {
            let mut client = host.daemon.connect();
            client.send_rpc(&diagnosis(BAD));
            client
        })
        .collect();
    host.fs.await_hanging(2);
    for _ in 0..10 {
        let answer: CorruptionCause = quickly("a diagnosis", || host.client.ask(&diagnosis(WELL)));
        assert_eq!(answer.cause, Cause::UnknownIssue, "there is no such block");
    }
    host.everything_else_goes_on();
    host.ends_in_time();
    drop(mended);
    host.daemon.stop();
}
