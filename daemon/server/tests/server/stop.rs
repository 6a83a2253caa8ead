// SPDX-License-Identifier: Apache-2.0
//! A daemon that is asked to stop while much of its data is in memory only, on a disk that stands
//! still for as long as a test wants.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode as FileMode, OFlags, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::remote::push;
use crate::support::client::{batch, commit_of, key};
use crate::support::{Client, Daemon};
use lodestone_model::{Code, Mode, ShuffleId, State};
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::status::Done;
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};

const MIB: usize = 1 << 20;

/// Sizes of the two partitions in memory: together more than may be left for the very end.
const PARTITION_MIB: [usize; 2] = [40, 28];

/// A daemon on two disks, and the file on the first one to which the larger partition goes.
struct Loaded {
    daemon: Daemon,
    disks: [TempDir; 2],
    file: PathBuf,
    key: ShuffleAddress,
}

fn start(disks: &[TempDir; 2]) -> Daemon {
    let [one, other] = disks.each_ref().map(|disk| disk.path().to_str().unwrap());
    Daemon::start(&["--dir", &format!("{one},{other}"), "--memory", "512MiB"])
}

fn block(reduce: u32) -> Vec<u8> {
    vec![reduce as u8 + 1; MIB]
}

impl Loaded {
    /// With a shuffle in memory, whose first map output is complete.
    fn with(mode: Mode) -> Self {
        let disks = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let daemon = start(&disks);
        let mut client = Client::connect(&daemon);
        let key = key(&daemon, 1);
        client.register_as(mode, &key, 100, 3);
        let folder = std::fs::read_dir(disks[0].path()).unwrap().next().unwrap();
        let folder = folder.unwrap().path().join("app-1-s1-m0-0");
        let file = folder.join("0.data");
        std::fs::create_dir(folder).unwrap();
        // A pipe without a reader: a process that opens it to write waits.
        let fifo = (FileType::Fifo, FileMode::RWXU);
        mknodat(CWD, &file, fifo.0, fifo.1, 0).unwrap();
        let loaded = Self {
            daemon,
            disks,
            file,
            key,
        };
        loaded.fill(&mut client);
        loaded
    }

    fn fill(&self, client: &mut Client) {
        let mut pushed = Vec::new();
        for (reduce, count) in (0..).zip(PARTITION_MIB) {
            for _ in 0..count {
                let block = block(reduce);
                let (mut one, body) = batch(&self.key, 0, 10, &[(reduce, &block)]);
                one.first_segment = pushed.len() as u32;
                assert_eq!(push(client, &one, &body), [Code::Ok]);
                pushed.push(one);
            }
        }
        let _: Done = client.ask(&commit_of(&pushed));
    }

    /// From now on, as long as the returned value lives, the first disk is only broken.
    fn release(&self) -> File {
        OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&self.file)
            .unwrap()
    }

    /// Asked to stop, and held up by the disk.
    fn stopping(&self) {
        self.daemon.signal(Signal::TERM);
        self.daemon.logged("writes out its memory");
    }
}

fn output(client: &mut Client, key: &ShuffleAddress, map: u32, reduce: u32, bytes: &[u8]) {
    let (pushed, body): (PushBatch, _) = batch(key, map, 10, &[(reduce, bytes)]);
    assert_eq!(push(client, &pushed, &body), [Code::Ok]);
    let _: Done = client.ask(&commit_of(&[pushed]));
}

#[test]
fn a_job_continues_while_the_daemon_that_stops_writes_its_data_and_loses_nothing() {
    let mut loaded = Loaded::with(Mode::Remote);
    let mut known = Client::connect(&loaded.daemon);
    loaded.stopping();
    output(&mut known, &loaded.key, 1, 2, b"pushed while it stops");
    let mut new = Client::connect(&loaded.daemon);
    let mut other = loaded.key.clone();
    other.shuffle.shuffle = ShuffleId(2);
    new.register_as(Mode::Remote, &other, 1, 1);
    output(&mut new, &other, 0, 0, b"of a shuffle that began meanwhile");
    assert_eq!(new.partition(&loaded.key, 1).len(), PARTITION_MIB[1]);
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name: "test/1 spark/none".to_owned(),
    };
    let state = new.ask::<HelloReply>(&hello).load.state;
    assert_eq!(state, State::Serving, "drivers would leave it out");

    let _released = loaded.release();
    assert_eq!(loaded.daemon.ended().code(), Some(0));
    loaded.daemon.logged("written out");
    let next = start(&loaded.disks);
    assert_eq!(next.incarnation(), loaded.daemon.incarnation());
    let mut client = Client::connect(&next);
    for (reduce, count) in (0..).zip(PARTITION_MIB) {
        let read = client.partition(&loaded.key, reduce);
        assert_eq!(read.len(), count);
        assert!(read.iter().all(|(.., bytes)| *bytes == block(reduce)));
    }
    let read = client.partition(&loaded.key, 2);
    assert_eq!(read[0].2.as_ref(), b"pushed while it stops");
    let read = client.partition(&other, 0);
    assert_eq!(read[0].2.as_ref(), b"of a shuffle that began meanwhile");
}

#[test]
fn a_second_signal_closes_at_once_and_writes_the_memory_before_the_port_is_free() {
    let mut loaded = Loaded::with(Mode::Remote);
    let mut client = Client::connect(&loaded.daemon);
    loaded.stopping();
    loaded.daemon.signal_until("the daemon closes now");
    assert_eq!(client.receive(), None);
    assert_eq!(Client::connect(&loaded.daemon).receive(), None);
    // A process that tries until the port is free must find the complete handover.
    let taken = TcpListener::bind(loaded.daemon.address()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    let _released = loaded.release();
    assert_eq!(loaded.daemon.ended().code(), Some(0));
    let next = start(&loaded.disks);
    let read = Client::connect(&next).partition(&loaded.key, 0);
    assert_eq!(read.len(), PARTITION_MIB[0]);
}

#[test]
fn a_third_signal_ends_a_daemon_whose_disk_stands_still() {
    let mut loaded = Loaded::with(Mode::Remote);
    loaded.stopping();
    loaded.daemon.signal_until("the daemon closes now");
    loaded.daemon.signal_until("ending at once");
    assert_eq!(loaded.daemon.ended().code(), Some(1));
}

#[test]
fn a_daemon_that_has_merged_shuffles_only_writes_nothing_before_it_stops() {
    let mut loaded = Loaded::with(Mode::Merge);
    loaded.daemon.signal(Signal::TERM);
    assert_eq!(loaded.daemon.ended().code(), Some(0));
    let left = |disk: &TempDir| std::fs::read_dir(disk.path()).unwrap().count();
    assert_eq!(left(&loaded.disks[1]), 0);
    let log = loaded.daemon.log_so_far();
    assert!(
        !log.iter().any(|line| line.contains("writes out")),
        "{log:?}"
    );
}
