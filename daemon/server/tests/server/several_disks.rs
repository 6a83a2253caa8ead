// SPDX-License-Identifier: Apache-2.0
//! An executor has directories on eight disks, of which one hangs. Spark finds a file's disk by the
//! hash of its name, and so the index file of a map output is seldom on the disk of its data: of
//! each output with one file on the first disk, the other one is on the fifth.

use std::fs;
use std::path::PathBuf;

use lodestone_model::AppId;
use lodestone_wire::Frame;
use lodestone_wire::frame::ChunkId;
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::originals::OpenBlocks;
use lodestone_wire::spark::register::RegisterExecutor;
use tempfile::TempDir;

use crate::support::Client;
use crate::support::inside::Inside;
use crate::support::trap::{Does, TrapFs};
use crate::two_disks::quickly;

const DISKS: usize = 8;
const BAD: usize = 0;
const NEIGHBOUR: usize = 4;

/// More reads than a disk has threads.
const READERS: usize = 120;

/// Reads that need a second disk, and hang at the first one.
const HANGING: usize = 8;

struct Host {
    disks: Vec<TempDir>,
    fs: TrapFs,
    daemon: Inside,
}

/// The disk of a file, as Spark chooses it.
fn disk_of(name: &str) -> usize {
    let next = |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte));
    name.bytes().fold(0, next).unsigned_abs() as usize % DISKS
}

impl Host {
    fn start() -> Self {
        let disks: Vec<_> = (0..DISKS).map(|_| tempfile::tempdir().unwrap()).collect();
        let fs = TrapFs::with_disks(&disks);
        let data = disks[1].path().join("data");
        fs::create_dir(&data).unwrap();
        let daemon = Inside::on(fs.environment(), &[data]);
        let host = Self { disks, fs, daemon };
        let dirs = (0..DISKS).map(|disk| host.dir(disk));
        dirs.for_each(|dir| fs::create_dir_all(dir.join("00")).unwrap());
        let text = |disk| host.dir(disk).to_str().unwrap().to_owned();
        let mut client = host.daemon.connect();
        let id = client.send_rpc(&RegisterExecutor {
            app: app(),
            exec_id: "1".to_owned(),
            local_dirs: (0..DISKS).map(text).collect(),
            sub_dirs_per_local_dir: 1,
            shuffle_manager: "sort".to_owned(),
        });
        assert!(client.answer_to(id).is_empty());
        host
    }

    fn dir(&self, disk: usize) -> PathBuf {
        self.disks[disk].path().join("blockmgr-1")
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.dir(disk_of(name)).join("00").join(name), content).unwrap();
    }

    fn read(&self, block: &str) -> Vec<u8> {
        let mut client = self.daemon.connect();
        let handle: StreamHandle = client.ask(&request(block));
        client.take(&handle).concat()
    }

    /// Asks for a block, and takes no answer.
    fn begin_to_read(&self, block: &str) -> Client {
        let mut client = self.daemon.connect();
        let StreamHandle { stream_id, .. } = client.ask(&request(block));
        client.send(&Frame::ChunkFetchRequest(ChunkId {
            stream_id,
            chunk_index: 0,
        }));
        client
    }
}

fn app() -> AppId {
    AppId::new("app").unwrap()
}

fn request(block: &str) -> OpenBlocks {
    OpenBlocks {
        app: app(),
        exec_id: "1".to_owned(),
        block_ids: vec![block.to_owned()],
    }
}

#[test]
fn a_disk_that_hangs_holds_up_no_block_whose_bytes_are_on_another_disk() {
    let host = Host::start();
    let offsets = [0_i64, 8].map(i64::to_be_bytes).concat();
    let outputs = (0..2_000).map(|map| format!("shuffle_3_{map}_0"));
    let on_neighbour = |name: &String| disk_of(&format!("{name}.data")) == NEIGHBOUR;
    let outputs: Vec<_> = outputs.filter(on_neighbour).take(READERS + 10).collect();
    for name in &outputs {
        let index = format!("{name}.index");
        assert_eq!(disk_of(&index), BAD);
        host.write(&index, &offsets);
        host.write(&format!("{name}.data"), b"original");
    }
    let persisted = (0..1_000).map(|split| format!("rdd_1_{split}"));
    let persisted = persisted.filter(|name| disk_of(name) == NEIGHBOUR).take(10);
    let persisted: Vec<_> = persisted.collect();
    persisted
        .iter()
        .for_each(|name| host.write(name, b"persisted"));
    let (known, unknown) = outputs.split_at(10);
    known
        .iter()
        .for_each(|name| assert_eq!(host.read(name), b"original"));

    let mended = host.fs.hang(host.disks[BAD].path(), &[Does::Open]);
    let readers = unknown.iter().map(|name| host.begin_to_read(name));
    let _readers: Vec<_> = readers.collect();
    host.fs.await_hanging(HANGING);
    for name in &persisted {
        assert_eq!(
            quickly("a persisted block", || host.read(name)),
            b"persisted"
        );
    }
    for name in known {
        assert_eq!(quickly("a map output", || host.read(name)), b"original");
    }
    drop(mended);
    host.daemon.stop();
}
