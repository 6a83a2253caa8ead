// SPDX-License-Identifier: Apache-2.0
//! One of two disks hangs in everything that is written to it.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::{Code, Mode, ReduceId};
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::fetch::SegmentLayout;
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::{Frame, Message};
use rustix::fs::{CWD, FileType, Mode as FileMode, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::remote::push;
use crate::support::client::{ALL_MAPS, batch, commit_of, hello, key};
use crate::support::daemon::TEST_TIMEOUT;
use crate::support::{Client, Daemon};

const MIB: usize = 1 << 20;

/// Partitions on the disk that hangs: more than there are threads for pushes. If each push there
/// had one, none would be left for the other disk.
const PARTITIONS: u32 = 120;

/// Blocks that go to a disk at once when memory is short. The memory for uploads has room for all.
const PUSHED_BYTES: usize = MIB / 4;

/// As many threads as may write to a disk, and as many as may wait to.
const HANGING: u32 = THREADS + 16;

/// Threads of a disk.
const THREADS: u32 = 16;

/// Blocks of a MiB after which some more fill the memory, and all others go to a disk at once: a
/// little less than 11/16 of the memory for tails.
const FILL: u32 = 173;

/// As documented: the daemon writes out until nothing more gets to a disk for 30 s, answers
/// requests for 11 s, and waits for a disk for 10 s. And a moment for each of these.
const STOP_LONGEST: Duration = Duration::from_secs(30 + 11 + 10 + 9);

/// Far less than any client waits, and far more than an answer takes.
const LONGEST: Duration = Duration::from_secs(3);

/// Puts pipes in place of the files of these partitions. The pipes have no reader: a thread that
/// wants to write to one hangs when it opens it.
fn hang(folder: &Path, reduces: impl Iterator<Item = u32>) {
    fs::create_dir(folder).unwrap();
    for reduce in reduces {
        let file = folder.join(format!("{reduce}.data"));
        mknodat(CWD, &file, FileType::Fifo, FileMode::RWXU, 0).unwrap();
    }
}

/// A daemon with two disks, the first of which hangs, and a client of two remote shuffles.
struct TwoDisks {
    daemon: Daemon,
    client: Client,
    /// Its even partitions are on the disk that hangs.
    hanging: ShuffleAddress,
    /// Its even partitions are on the other disk.
    well: ShuffleAddress,
    _disks: [TempDir; 2],
}

impl TwoDisks {
    /// The first shuffle has so many `maps`.
    fn start(maps: u32, more: &[&str]) -> Self {
        let disks = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let dirs = disks.each_ref().map(|disk| disk.path().to_str().unwrap());
        let daemon = Daemon::start(&[&["--dir", &dirs.join(",")], more].concat());
        let mut client = Client::connect(&daemon);
        let (hanging, well) = (key(&daemon, 1), key(&daemon, 2));
        client.register_as(Mode::Remote, &hanging, maps, 2 * PARTITIONS);
        client.register_as(Mode::Remote, &well, 1000, 2);
        let start_dir = fs::read_dir(disks[0].path()).unwrap().next().unwrap();
        let folder = start_dir.unwrap().path().join("app-1-s1-m0-0");
        hang(&folder, (0..PARTITIONS).map(|n| 2 * n));
        Self {
            daemon,
            client,
            hanging,
            well,
            _disks: disks,
        }
    }
}

pub(crate) fn quickly<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = act();
    let took = began.elapsed();
    assert!(took < LONGEST, "{what} took {took:?}");
    done
}

/// Pushes of the size of the plugin's batches. The share of an application has room for seven.
const LARGE_BYTES: usize = 4 * MIB;
const LARGE_PUSHES: u32 = 20;

/// As above, with half the memory.
const FILL_OF_256_MIB: u32 = FILL / 2;

/// A disk is slow after 3 s without progress. Those that wait notice it within 1.5 s.
const REFUSED_IN: Duration = Duration::from_secs(6);

/// Pushes that keep their memory: two that write, and two that wait for a lock.
const LARGE_HANGING: u32 = 4;

/// Far more than a push into memory takes on a busy machine. Those that wait for a disk that hangs
/// take seconds.
const P99_LONGEST: Duration = Duration::from_millis(500);

#[test]
fn large_pushes_to_a_disk_that_hangs_leave_memory_to_those_of_their_application_to_another_disk() {
    let TwoDisks {
        daemon,
        mut client,
        hanging,
        well,
        _disks,
    } = TwoDisks::start(1000, &["--memory", "256MiB"]);
    let block = vec![9; LARGE_BYTES];
    for map in 0..FILL_OF_256_MIB {
        let (meta, body) = batch(&hanging, map, 10, &[(2 * map, &block[..MIB])]);
        assert_eq!(push(&mut client, &meta, &body), [Code::Ok]);
    }
    let (answered, answers) = mpsc::channel();
    for n in 0..LARGE_PUSHES {
        let (mut pusher, answered) = (Client::connect(&daemon), answered.clone());
        let map = FILL_OF_256_MIB + n;
        let (meta, body) = batch(&hanging, map, 10, &[(2 * n, &block)]);
        // Those that hang end with the daemon.
        thread::spawn(move || {
            pusher.socket.set_read_timeout(None).unwrap();
            pusher.socket.set_write_timeout(None).unwrap();
            pusher.send_upload(&meta, &body);
            if pusher.receive().is_some() {
                // Nobody waits for the last ones.
                let _ = answered.send(());
            }
        });
    }
    let refused = LARGE_PUSHES - LARGE_HANGING;
    for n in 0..refused {
        let answer = answers.recv_timeout(REFUSED_IN);
        assert!(answer.is_ok(), "{n} of {refused} were answered in time");
    }

    let mut times: Vec<_> = (0..200)
        .map(|map| {
            let began = Instant::now();
            let (pushed, body) = batch(&well, map, 10, &[(0, &block[..100_000])]);
            assert_eq!(push(&mut client, &pushed, &body), [Code::Ok]);
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    let p99 = times[197];
    assert!(p99 < P99_LONGEST, "{p99:?}");
    quickly("a push as large", || {
        let (pushed, body) = batch(&well, 900, 10, &[(0, &block)]);
        assert_eq!(push(&mut client, &pushed, &body), [Code::Ok]);
    });
}

/// Returns true if the answer to a request for a layout is that another thread holds the partition.
fn is_held_up(reader: &mut Client) -> bool {
    let Some(Frame::RpcResponse { body, .. }) = reader.receive() else {
        panic!("no layout");
    };
    body[0] == Refused::ID
}

/// More layouts than there are threads for them.
const LAYOUTS: u32 = 40;

#[test]
fn layouts_of_partitions_that_a_disk_holds_up_leave_threads_to_commits() {
    let TwoDisks {
        daemon,
        mut client,
        hanging,
        well,
        _disks,
    } = TwoDisks::start(1000, &["--memory", "512MiB"]);
    let block = vec![9; MIB];
    for map in 0..FILL {
        let reduce = 2 * (map % PARTITIONS);
        let (meta, body) = batch(&hanging, map, 10, &[(reduce, &block)]);
        assert_eq!(push(&mut client, &meta, &body), [Code::Ok]);
    }
    // Each holds the lock of its partition.
    let pushers: Vec<_> = (0..HANGING)
        .map(|n| {
            let mut pusher = Client::connect(&daemon);
            let part = (2 * n, &block[..PUSHED_BYTES]);
            let (meta, body) = batch(&hanging, FILL + n, 10, &[part]);
            pusher.send_upload(&meta, &body);
            pusher
        })
        .collect();
    let asked = |n| {
        let mut reader = Client::connect(&daemon);
        reader.send_rpc(&SegmentLayout {
            key: hanging.clone(),
            map_start: ALL_MAPS.0,
            map_end: ALL_MAPS.1,
            reduce_ids: vec![ReduceId(2 * (n % HANGING))],
        });
        reader
    };
    // The last push has its lock, and so has nearly every other one.
    let began = Instant::now();
    while !is_held_up(&mut asked(HANGING - 1)) {
        assert!(began.elapsed() < TEST_TIMEOUT, "no push hangs");
    }
    let readers: Vec<_> = (0..LAYOUTS).map(asked).collect();
    for map in 0..20 {
        quickly("a commit", || {
            let (pushed, body) = batch(&well, map, 10, &[(0, &block[..1000])]);
            assert_eq!(push(&mut client, &pushed, &body), [Code::Ok]);
            let _: Done = client.ask(&commit_of(&[pushed]));
        });
    }
    let held_up = readers
        .into_iter()
        .map(|mut reader| is_held_up(&mut reader));
    let held_up = held_up.filter(|held_up| *held_up).count();
    // Which pushes have the disk's threads is chance, and so is how many layouts ask for their
    // partitions, above one for each.
    assert!(
        held_up >= THREADS as usize,
        "{held_up} of {LAYOUTS} were held up"
    );
    drop(pushers);
}

#[test]
fn a_disk_that_hangs_keeps_nobody_from_hello_health_the_other_disk_and_the_end() {
    let settings = ["--memory", "512MiB", "--admin", "127.0.0.1:0"];
    let TwoDisks {
        mut daemon,
        mut client,
        hanging,
        well,
        _disks,
    } = TwoDisks::start(2 * PARTITIONS, &settings);
    let block = vec![9; MIB];
    for number in 0..FILL {
        let (map, first_segment) = (number % PARTITIONS, number / PARTITIONS);
        let (mut meta, body) = batch(&hanging, map, 10, &[(2 * map, &block)]);
        meta.first_segment = first_segment;
        assert_eq!(push(&mut client, &meta, &body), [Code::Ok]);
    }
    let (answered, answers) = mpsc::channel();
    for n in 0..PARTITIONS {
        let (mut pusher, answered) = (Client::connect(&daemon), answered.clone());
        let (meta, body) = batch(
            &hanging,
            PARTITIONS + n,
            10,
            &[(2 * n, &block[..PUSHED_BYTES])],
        );
        // Those that hang end with the daemon.
        thread::spawn(move || {
            pusher.socket.set_read_timeout(None).unwrap();
            pusher.send_upload(&meta, &body);
            if pusher.receive().is_some() {
                // Nobody waits for the last ones.
                let _ = answered.send(());
            }
        });
    }
    // The other pushes found room in memory, or on the other disk.
    for _ in HANGING..PARTITIONS {
        answers.recv_timeout(TEST_TIMEOUT).unwrap();
    }

    for map in 0..20 {
        let _: HelloReply = quickly("hello", || Client::connect(&daemon).ask(&hello()));
        let health = quickly("health", || daemon.get("/health"));
        assert!(health.starts_with("HTTP/1.1 200"), "{health}");
        quickly("a push to the other disk", || {
            let (pushed, body) = batch(&well, map, 10, &[(0, &vec![7; 100_000])]);
            assert_eq!(push(&mut client, &pushed, &body), [Code::Ok]);
            let _: Done = client.ask(&commit_of(&[pushed]));
        });
    }
    quickly("a read from the other disk", || {
        assert_eq!(client.partition(&well, 0).len(), 20);
    });

    let began = Instant::now();
    daemon.signal(Signal::TERM);
    daemon.logged("writes out its memory");
    assert!(daemon.logs_within("stopped", STOP_LONGEST));
    assert_eq!(daemon.ended().code(), Some(0));
    let took = began.elapsed();
    assert!(took < STOP_LONGEST, "{took:?}");
}
