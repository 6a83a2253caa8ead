// SPDX-License-Identifier: Apache-2.0
//! A disk that does not return the bytes that were written to it, or not at once.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use rustix::io::Errno;

use crate::support::client::key;
use crate::support::inside::Inside;
use crate::support::trap::TrapFs;
use crate::support::{Client, Daemon};
use lodestone_store::fs::Open;
use lodestone_wire::Frame;
use lodestone_wire::frame::ChunkId;
use lodestone_wire::spark::fetch::StreamHandle;

/// Three of these are more than the store's memory.
const LARGE: usize = 3_000_000;

/// The only data file below the daemon's directory.
fn data_file(daemon: &Daemon) -> PathBuf {
    let mut folders = vec![daemon.dir.path().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                Some(end) if end == "data" => return path,
                _ if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    panic!("no data file");
}

fn ask_for(client: &mut Client, handle: &StreamHandle, chunk_index: i32) {
    let stream_id = handle.stream_id;
    client.send(&Frame::ChunkFetchRequest(ChunkId {
        stream_id,
        chunk_index,
    }));
}

/// The next answer refuses a chunk, with this code.
fn assert_refused(client: &mut Client, code: &str) {
    match client.receive() {
        Some(Frame::ChunkFetchFailure(failure)) => {
            assert!(failure.error.starts_with(code), "{}", failure.error);
        }
        other => panic!("instead of a failure: {other:?}"),
    }
}

#[test]
fn a_chunk_that_broke_off_is_refused_when_it_is_asked_for_again_and_the_others_are_sent() {
    let daemon = Daemon::start(&["--memory", "16MiB", "--admin", "127.0.0.1:0"]);
    let failures = "lodestone_fetch_failures_total{code=\"DISK_FAILED\"}";
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 3, 2);
    for map in 0..3 {
        client.output(&key, map, 1, &[(0, &vec![7; LARGE])]);
    }
    client.output(&key, 0, 2, &[(1, b"well")]);
    let file = data_file(&daemon);
    let handle = client.open(&key, &[(0, &[(0, 3)])]);
    OpenOptions::new()
        .write(true)
        .open(file)
        .unwrap()
        .set_len(1000)
        .unwrap();
    ask_for(&mut client, &handle, 0);
    let received = client.receive_to_the_end();
    assert!((1000..LARGE).contains(&received), "{received} bytes came");
    daemon.reaches(failures, 1.0);

    let mut again = Client::connect(&daemon);
    let handle = again.open(&key, &[(0, &[(0, 3)]), (1, &[(0, 1)])]);
    ask_for(&mut again, &handle, 0);
    assert_refused(&mut again, "[DISK_FAILED] ");
    daemon.reaches(failures, 2.0);
    ask_for(&mut again, &handle, 1);
    match again.receive() {
        Some(Frame::ChunkFetchSuccess { body, .. }) => assert_eq!(body, "well"),
        other => panic!("instead of the other chunk: {other:?}"),
    }
}

#[test]
fn a_chunk_for_which_no_descriptor_is_left_is_refused_as_overloaded_and_sent_later() {
    let disk = TrapFs::default();
    let daemon = Inside::start(disk.environment());
    let key = daemon.key(1);
    let mut client = daemon.connect();
    client.register(&key, 8, 1);
    // More than the daemon keeps in memory.
    for map in 0..8 {
        client.output(&key, map, 1, &[(0, &vec![7; 4 << 20])]);
    }
    let (handle, _) = client.open_partition(&key, 0, 8);
    disk.arm(|how| match how {
        Open::Read => Err(Errno::MFILE.into()),
        _ => Ok(()),
    });
    ask_for(&mut client, &handle, 0);
    assert_refused(&mut client, "[OVERLOADED] ");
    disk.disarm();
    assert_eq!(client.partition(&key, 0).len(), 8);
    daemon.stop();
}
