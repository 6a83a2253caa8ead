// SPDX-License-Identifier: Apache-2.0
//! A server that is wrong, or gone, is detected.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lodestone_bench::dialect::Dialect;
use lodestone_bench::error::{BenchError, LinkError, Wrong};
use lodestone_bench::run::files::write_originals;
use lodestone_bench::run::phase::Conduct;
use lodestone_bench::run::scene::{self, Pushed, register_originals};
use lodestone_bench::workload::blocks::BlockSet;
use lodestone_bench::workload::payload::Payload;
use lodestone_bench::workload::{Block, BlockSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{QUICK, SHAPE, World, app, progress, small};

const BLOCK: BlockSize = BlockSize::Fixed(10_000);

/// The change of the bytes that come from the server.
#[derive(Clone, Copy)]
enum Fault {
    /// A bit is flipped in this byte of each connection.
    Flip(usize),
    /// After this many bytes nothing comes, and the connection is closed.
    Cut(usize),
}

/// Stands between the bench and a server.
async fn faulty(server: SocketAddr, fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(server).await.unwrap();
            tokio::spawn(between(client, server, fault));
        }
    });
    address
}

async fn between(client: TcpStream, server: TcpStream, fault: Fault) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there =
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let (mut buffer, mut passed) = (vec![0; 64 << 10], 0);
    loop {
        let count = from_server.read(&mut buffer).await?;
        if count == 0 {
            break;
        }
        let piece = &mut buffer[..count];
        match fault {
            Fault::Flip(at) if (passed..passed + count).contains(&at) => piece[at - passed] ^= 1,
            Fault::Cut(at) if passed + count > at => {
                to_client.write_all(&piece[..at - passed]).await?;
                break;
            }
            _ => {}
        }
        to_client.write_all(piece).await?;
        passed += count;
    }
    there.abort();
    Ok(())
}

fn wrong(result: Result<impl Sized, BenchError>) -> Wrong {
    match result.err() {
        Some(BenchError::Link { source, .. }) => match *source {
            LinkError::Wrong(wrong) => wrong,
            other => panic!("instead of a wrong answer: {other}"),
        },
        other => panic!("instead of a wrong answer: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_a_merged_chunk_is_found() {
    for dialect in [Dialect::Lodestone, Dialect::Spark, Dialect::Bare] {
        let mut world = World::of(dialect).await;
        let shuffle = world.shuffle(small(BLOCK)).await;
        let (_, pushed) = world.prepare(&[shuffle]).await;
        // Far behind layouts and heads of frames.
        let address = faulty(world.server.address, Fault::Flip(60_000)).await;
        world.behind(address);
        let found = wrong(world.fetch(&pushed, QUICK).await);
        assert!(matches!(found, Wrong::Bytes(_)), "{dialect:?}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_too_early_is_found() {
    let mut world = World::of(Dialect::Lodestone).await;
    let shuffle = world.shuffle(small(BLOCK)).await;
    let (_, pushed) = world.prepare(&[shuffle]).await;
    let address = faulty(world.server.address, Fault::Cut(60_000)).await;
    world.behind(address);
    let error = world.fetch(&pushed, QUICK).await.unwrap_err();
    let BenchError::Link { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(**source, LinkError::Closed | LinkError::Socket(_)),
        "{error}"
    );
}

/// The data file of some map task.
fn data_file(home: &Path) -> PathBuf {
    let entries = |folder: &Path| {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let folders = entries(&home.join("blockmgr-bench"));
    let mut files = folders.flat_map(|folder| entries(&folder).collect::<Vec<_>>());
    files
        .find(|path| path.extension().is_some_and(|end| end == "data"))
        .unwrap()
}

/// Fetches original blocks after one of their files was changed.
async fn fetched_after(spoil: impl Fn(&Path)) -> Wrong {
    let world = World::of(Dialect::Spark).await;
    let (workload, payload) = (small(BLOCK), Payload::of(BLOCK));
    let home = world.dir.path().join("originals");
    write_originals(&home, workload, &payload, &progress(workload)).unwrap();
    register_originals(&world.server, &app(), &home)
        .await
        .unwrap();
    spoil(&data_file(&home));
    wrong(world.fetch_originals(workload, &payload).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_map_output_is_found() {
    let flipped = fetched_after(|path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[25_000] ^= 0x80;
        fs::write(path, bytes).unwrap();
    });
    assert!(matches!(flipped.await, Wrong::Bytes(_)));
    let swapped = fetched_after(|path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[..20_000].rotate_left(10_000);
        fs::write(path, bytes).unwrap();
    });
    assert!(matches!(swapped.await, Wrong::Misplaced(_)));
    let cut = fetched_after(|path| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(15_000).unwrap();
    });
    assert!(matches!(cut.await, Wrong::Refused { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_keeps_a_block_back_is_found() {
    let world = World::of(Dialect::Lodestone).await;
    let workload = small(BLOCK);
    let shuffle = world.shuffle(workload).await;
    let (_, pushed) = world.prepare(&[shuffle]).await;
    // The same server, from which more is expected than it got.
    let wider = workload.maps + 1;
    let expected = lodestone_bench::workload::Workload {
        maps: wider,
        ..workload
    };
    let more = BlockSet::of(expected);
    let merged = pushed[0].merged.blocks();
    merged.for_each(|block| assert!(more.insert(block)));
    let kept = Block {
        map: workload.maps,
        reduce: 4,
    };
    assert!(more.insert(kept));
    let wider = Pushed {
        shuffle: lodestone_bench::dialect::Shuffle {
            workload: expected,
            ..pushed[0].shuffle.clone()
        },
        merged: Arc::new(more),
    };
    let error = world.fetch(&[wider], QUICK).await.unwrap_err();
    let BenchError::Missing { missing, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(missing, kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_the_server_says_it_refused_must_not_come_back() {
    let world = World::of(Dialect::Lodestone).await;
    let workload = small(BLOCK);
    let shuffle = world.shuffle(workload).await;
    let (_, pushed) = world.prepare(&[shuffle]).await;
    let fewer = BlockSet::of(workload);
    for block in pushed[0].merged.blocks().skip(1) {
        fewer.insert(block);
    }
    let fewer = Pushed {
        shuffle: pushed[0].shuffle.clone(),
        merged: Arc::new(fewer),
    };
    let found = wrong(world.fetch(&[fewer], QUICK).await);
    assert!(matches!(found, Wrong::NotMerged(_)), "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_nothing_is_given_up() {
    let world = World::of(Dialect::Lodestone).await;
    let workload = small(BLOCK);
    let shuffle = world.shuffle(workload).await;
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_, silent) = (world.dir.path(), mute.local_addr().unwrap());
    let silent = World::at(silent, Dialect::Lodestone, tempfile::tempdir().unwrap());
    let conduct = Conduct {
        stall_timeout: Duration::from_millis(100),
        ..silent.conduct()
    };
    let pushing = scene::push(
        &silent.server,
        std::slice::from_ref(&shuffle),
        None,
        SHAPE,
        &conduct,
        progress(workload),
    );
    let error = pushing.await.map(drop).unwrap_err();
    assert!(matches!(error, BenchError::Silent { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_without_a_listener_is_reported() {
    let world = World::of(Dialect::Lodestone).await;
    let shuffle = world.shuffle(small(BLOCK)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let nobody = World::at(closed, Dialect::Lodestone, tempfile::tempdir().unwrap());
    let (conduct, progress) = (nobody.conduct(), progress(shuffle.workload));
    let pushing = scene::push(
        &nobody.server,
        std::slice::from_ref(&shuffle),
        None,
        SHAPE,
        &conduct,
        progress,
    );
    let error = pushing.await.map(drop).unwrap_err().to_string();
    assert!(
        error.contains(&closed.to_string()) && error.contains("cannot connect"),
        "{error}"
    );
}
