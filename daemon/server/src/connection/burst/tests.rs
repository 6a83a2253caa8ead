// SPDX-License-Identifier: Apache-2.0
//! Tests of blocks that are sent together.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::BufMut;
use lodestone_model::{AppAttempt, AppId, MapId, ReduceId, ShuffleId};
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::{Environment, ExecutorInfo, ManualClock, SeededRandom, Store, StoreConfig};

use super::super::sending::tests::all_wanted;
use super::super::socket::Socket;
use super::super::table::ConnectionTable;
use super::*;
use crate::service::MemorySplit;
use crate::streams::items::Items;
use crate::streams::source::Source;

/// The local directories of an executor. The first name of a path of the fake filesystem is a disk.
const DIRS: [&str; 4] = ["/disk-a/dir", "/disk-b/dir", "/disk-c/dir", "/disk-d/dir"];

const EXECUTOR: &str = "1";

const BLOCK: &[u8] = b"a block of some bytes";

/// As many blocks as are sent together.
const BLOCKS: usize = GATHERED_CHUNKS;

/// A client that takes all that it gets, and counts the calls.
#[derive(Debug, Default)]
struct Client {
    sends: Mutex<Vec<usize>>,
    /// How often it has no room for what the socket keeps.
    refusals: AtomicUsize,
}

impl Socket for Client {
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_read(&self, _: &mut dyn BufMut) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn try_flush(&self) -> io::Result<()> {
        let one_less = |left: usize| left.checked_sub(1);
        match self.refusals.fetch_update(Relaxed, Relaxed, one_less) {
            Ok(_) => Err(ErrorKind::WouldBlock.into()),
            Err(_) => Ok(()),
        }
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        assert_eq!(self.refusals.load(Relaxed), 0, "it waits for older bytes");
        let files = pieces.iter();
        let files = files.filter(|piece| matches!(piece, Part::File { .. }));
        self.sends.lock().unwrap().push(files.count());
        let bytes: u64 = pieces.iter().map(Part::length).sum();
        Ok(bytes as usize)
    }
}

fn app() -> AppId {
    AppId::new("app").unwrap()
}

/// Files of this name in all directories: one of them is that which Spark's rule chooses.
fn add_file(fs: &FakeFs, name: &str, content: &[u8]) {
    for dir in DIRS {
        fs.add_file(&Path::new(dir).join("00").join(name), content);
    }
}

/// A service with the map outputs of an executor.
fn service(fs: &FakeFs) -> Arc<Service> {
    let environment = Environment {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::default()),
        random: Arc::new(SeededRandom::new(1)),
        ..Environment::os()
    };
    let split = MemorySplit::of(64 << 20);
    let config = StoreConfig::of(vec!["/data".into()], split.store_bytes);
    let store = Store::open(config, environment).unwrap();
    let info = ExecutorInfo {
        local_dirs: DIRS.map(str::to_owned).into(),
        sub_dirs: 1,
        merge_dir: None,
    };
    let registered = store.register_executor(&app(), EXECUTOR, AppAttempt::NONE, info);
    registered.unwrap();
    Service::new(store, split)
}

/// The requests for one block of each map output.
fn wanted() -> VecDeque<Wanted> {
    let maps = (0..BLOCKS).map(|map| (MapId(map as i64), vec![ReduceId(0)]));
    let source = Source {
        app: app(),
        attempt: None,
        exec: EXECUTOR.to_owned(),
        items: Items::originals(ShuffleId(3), &maps.collect::<Vec<_>>()),
    };
    all_wanted(source, BLOCKS as i32)
}

/// A service with one block in each map output.
fn service_with_blocks() -> Arc<Service> {
    let fs = FakeFs::with_dirs(DIRS.into_iter().chain(["/data"]));
    let offsets = [0, BLOCK.len() as i64].map(i64::to_be_bytes).concat();
    for map in 0..BLOCKS {
        add_file(&fs, &format!("shuffle_3_{map}_0.data"), BLOCK);
        add_file(&fs, &format!("shuffle_3_{map}_0.index"), &offsets);
    }
    service(&fs)
}

/// Sends the blocks to this client.
async fn send_blocks(service: &Arc<Service>, client: &Arc<Client>) {
    let table = ConnectionTable::new(1, false);
    let connection = table.enter(1).await.unwrap();
    let socket = Watched::new(Arc::clone(client) as _, Arc::clone(&connection.entry));
    let burst = Burst::new(Arc::new(socket), Arc::clone(service), wanted());
    let mut left = MAX_BYTES_AT_ONCE;
    burst
        .run(&mut AnswerWait::without_others(), &mut left)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_end_of_an_answer_does_not_wait_for_the_disk_of_the_next_one() {
    let client = Arc::new(Client {
        refusals: AtomicUsize::new(3),
        ..Client::default()
    });
    send_blocks(&service_with_blocks(), &client).await;
    assert_eq!(client.sends.lock().unwrap().clone(), [BLOCKS]);
}

#[tokio::test]
async fn blocks_of_an_executor_with_several_disks_cost_one_call_of_the_system_together() {
    let service = service_with_blocks();
    let place = |map: usize| {
        let (output, reduces) = ((ShuffleId(3), MapId(map as i64)), ReduceId(0)..ReduceId(1));
        let found = service
            .store
            .find_original(&app(), EXECUTOR, output, reduces);
        found.unwrap().all_places()
    };
    let places: BTreeSet<_> = (0..BLOCKS).flat_map(place).collect();
    assert_eq!(places.len(), DIRS.len(), "the blocks are on all disks");

    let client = Arc::new(Client::default());
    send_blocks(&service, &client).await;
    let sends = client.sends.lock().unwrap().clone();
    assert_eq!(sends, [BLOCKS], "the blocks of each call");
    assert_eq!(service.metrics.fetch_chunks_total.get(), BLOCKS as u64);
}
