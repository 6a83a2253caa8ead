// SPDX-License-Identifier: Apache-2.0
//! One of two disks hangs in everything that is written to it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::{Code, Mode};
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::extension::status::Done;
use rustix::fs::{CWD, FileType, Mode as FileMode, mknodat};
use rustix::process::Signal;

use crate::remote::push;
use crate::support::client::{batch, commit_of, hello, key};
use crate::support::{Client, Daemon};

const MIB: usize = 1 << 20;

/// More map attempts than threads may write to one disk, or wait to.
const ATTEMPTS: u32 = 40;

/// All attempts together push more than the store keeps in memory.
const PUSHES: u32 = 8;

/// Far less than any client waits, and far more than an answer takes.
const LONGEST: Duration = Duration::from_secs(3);

/// Pipes without a reader in place of the files of these partitions: a thread that opens one to
/// write waits for ever.
fn hang(folder: &Path, reduces: impl Iterator<Item = u32>) {
    fs::create_dir(folder).unwrap();
    for reduce in reduces {
        let file = folder.join(format!("{reduce}.data"));
        mknodat(CWD, &file, FileType::Fifo, FileMode::RWXU, 0).unwrap();
    }
}

fn quickly<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = act();
    let took = began.elapsed();
    assert!(took < LONGEST, "{what} took {took:?}");
    done
}

#[test]
fn a_disk_that_hangs_keeps_nobody_from_hello_health_the_other_disk_and_the_end() {
    let disks = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let dirs = disks.each_ref().map(|disk| disk.path().to_str().unwrap());
    let mut daemon = Daemon::start(&[
        "--dir",
        &dirs.join(","),
        "--memory",
        "512MiB",
        "--admin",
        "127.0.0.1:0",
    ]);
    let mut client = Client::connect(&daemon);
    let (hanging, well) = (key(&daemon, 1), key(&daemon, 2));
    client.register_as(Mode::Remote, &hanging, ATTEMPTS, 2 * ATTEMPTS);
    client.register_as(Mode::Remote, &well, 1000, 2);
    let start_dir = fs::read_dir(disks[0].path()).unwrap().next().unwrap();
    // Even partitions of the first shuffle, and odd ones of the second, are on this disk.
    let folder = start_dir.unwrap().path().join("app-1-s1-m0-0");
    hang(&folder, (0..ATTEMPTS).map(|n| 2 * n));
    for map in 0..ATTEMPTS {
        let (mut pusher, key) = (Client::connect(&daemon), hanging.clone());
        // It ends with the daemon.
        thread::spawn(move || {
            let block = vec![map as u8; MIB];
            for first_segment in 0..PUSHES {
                let (mut meta, body) = batch(&key, map, 10, &[(2 * map, &block)]);
                meta.first_segment = first_segment;
                pusher.send_upload(&meta, &body);
            }
            while pusher.receive().is_some() {}
        });
    }
    // The store's part, and what waits for it.
    daemon.reaches("lodestone_merge_memory_bytes", (300 * MIB) as f64);

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

    daemon.signal(Signal::TERM);
    daemon.logged("writes out the data in memory");
    daemon.signal_until("closing now");
    assert_eq!(daemon.ended().code(), Some(0));
}
