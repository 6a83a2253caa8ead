// SPDX-License-Identifier: Apache-2.0
//! Clients that open streams, which take all of the memory for lists, and then stop. Time passes as
//! fast as the daemon has nothing to do.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lodestone_model::{AppId, MapId, ReduceId, SegmentRun, ShuffleId};
use lodestone_server::connection::table::ConnectionTable;
use lodestone_store::Environment;
use lodestone_wire::Message;
use lodestone_wire::extension::fetch::{FetchSegments, WantedChunk};
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::originals::{FetchShuffleBlocks, OpenBlocks};
use lodestone_wire::spark::register::RegisterExecutor;
use tempfile::TempDir;
use tokio::time::{Instant, advance, timeout};

use crate::support::client::read;
use crate::support::inside::Inside;
use crate::support::pipe::PipeClient;

/// So the memory for lists has 4 MiB. An application may have two of them, a connection one.
const MEMORY: u64 = 64 << 20;

/// A client that asks for no chunk for so long has stopped.
const STOPPED: Duration = Duration::from_secs(10);

/// How long another reader then waits at most.
const MOMENT: Duration = Duration::from_secs(1);

const SECOND: Duration = Duration::from_secs(1);

/// Almost all that a connection may have, and more than what four of these leave.
const LONG_BYTES: usize = 1000 << 10;
const SHORT_BYTES: usize = 128 << 10;

/// How a client asks for a stream.
#[derive(Clone, Copy, Debug)]
enum Asks {
    Segments,
    Blocks,
    Names,
}

const EACH: [Asks; 3] = [Asks::Segments, Asks::Blocks, Asks::Names];

/// A daemon with two registered applications, and a third one.
struct Host {
    daemon: Inside,
    table: Arc<ConnectionTable>,
    executor: TempDir,
}

impl Host {
    fn start() -> Self {
        let host = Self {
            daemon: Inside::with_memory(Environment::os(), MEMORY),
            table: ConnectionTable::new(100, false),
            executor: tempfile::tempdir().unwrap(),
        };
        for app in ["one", "other", "third"] {
            host.register(app);
        }
        host
    }

    /// Registers a shuffle with one segment, and an executor.
    fn register(&self, app: &str) {
        let mut client = self.daemon.connect();
        let mut key = self.daemon.key(3);
        key.shuffle.app = AppId::new(app).unwrap();
        client.register(&key, 1, 1);
        client.output(&key, 0, 0, &[(0, &vec![7; 1 << 20])]);
        let id = client.send_rpc(&RegisterExecutor {
            app: key.shuffle.app,
            exec_id: "1".to_owned(),
            local_dirs: vec![self.executor.path().to_str().unwrap().to_owned()],
            sub_dirs_per_local_dir: 64,
            shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
        });
        assert!(client.answer_to(id).is_empty(), "it is not registered");
    }

    async fn connect(&self) -> PipeClient {
        let number = self.table.taken() as u64;
        PipeClient::connect(&self.table, number, &self.daemon.service).await
    }

    /// A request for a stream whose list has about so many bytes.
    fn request(&self, asks: Asks, app: &str, list_bytes: usize) -> Bytes {
        let app = AppId::new(app).unwrap();
        let (exec_id, shuffle_id) = ("1".to_owned(), ShuffleId(3));
        match asks {
            Asks::Segments => {
                let mut key = self.daemon.key(3);
                key.shuffle.app = app;
                let wanted = WantedChunk {
                    reduce_id: ReduceId(0),
                    runs: vec![SegmentRun { first: 0, count: 1 }],
                };
                let chunks = vec![wanted; list_bytes / 16];
                FetchSegments { key, chunks }.to_bytes()
            }
            Asks::Blocks => FetchShuffleBlocks {
                app,
                exec_id,
                shuffle_id,
                blocks: (0..list_bytes as i64 / 8)
                    .map(|map| (MapId(map), vec![ReduceId(0)]))
                    .collect(),
                batch: false,
            }
            .to_bytes(),
            Asks::Names => {
                let names = 0..list_bytes / 32;
                let block_ids = names.map(|map| format!("shuffle_3_{map}_0")).collect();
                OpenBlocks {
                    app,
                    exec_id,
                    block_ids,
                }
                .to_bytes()
            }
        }
    }
    /// A client with an open stream whose list has about so many bytes.
    async fn open(&self, asks: Asks, app: &str, list_bytes: usize) -> Reader {
        let mut client = self.connect().await;
        client.request(self.request(asks, app, list_bytes));
        let handle = read(&client.answer().await.unwrap());
        Reader { client, handle }
    }

    /// Clients of two applications, whose lists take almost all of the memory. They came one
    /// second after the other.
    async fn fill(&self, asks: Asks) -> Vec<Reader> {
        let mut all = Vec::new();
        for app in ["one", "one", "other", "other"] {
            all.push(self.open(asks, app, LONG_BYTES).await);
            advance(SECOND).await;
        }
        all
    }

    /// A client that waits for the memory of its list.
    async fn waiting(&self, app: &str) -> PipeClient {
        let mut client = self.connect().await;
        client.request(self.request(Asks::Blocks, app, SHORT_BYTES));
        waits_for(&mut client, MOMENT).await;
        client
    }
}

/// A client with an open stream.
struct Reader {
    client: PipeClient,
    handle: StreamHandle,
}

impl Reader {
    /// Asks for a chunk. There is none if the stream has blocks of an executor, whose files nobody
    /// made: the answer says so.
    async fn take_chunk(&mut self, index: i32) {
        self.client.request_chunk(self.handle.stream_id, index);
        let answer = self.client.receive().await;
        assert!(answer.is_some(), "the daemon closed the connection");
    }
}

/// Fails if the daemon answers to a client, or closes its connection, within this time.
async fn waits_for(client: &mut PipeClient, time: Duration) {
    let heard = timeout(time, client.receive()).await;
    assert!(heard.is_err(), "{heard:?}");
}

/// Fails if the daemon does not close these connections.
async fn ended(readers: &mut [Reader]) {
    for reader in readers {
        let heard = timeout(MOMENT, reader.client.receive()).await;
        assert_eq!(heard, Ok(None));
    }
}

fn closed(readers: &[Reader]) -> Vec<bool> {
    let all = readers.iter().map(|reader| reader.client.is_closed());
    all.collect()
}

#[tokio::test(start_paused = true)]
async fn clients_that_open_streams_and_stop_leave_the_memory_to_other_applications() {
    for stopped in EACH {
        for asks in EACH {
            let host = Host::start();
            let mut readers = host.fill(stopped).await;
            advance(STOPPED).await;
            let began = Instant::now();
            host.open(asks, "third", SHORT_BYTES).await;
            let waited = began.elapsed();
            assert!(waited <= MOMENT, "{stopped:?} {asks:?}: {waited:?}");
            ended(&mut readers).await;
            host.daemon.stop();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_stop_leave_the_memory_to_others_of_their_application() {
    let host = Host::start();
    let first = host.open(Asks::Segments, "one", LONG_BYTES).await;
    let mut readers = [first, host.open(Asks::Segments, "one", LONG_BYTES).await];
    advance(STOPPED).await;
    let began = Instant::now();
    host.open(Asks::Segments, "one", SHORT_BYTES).await;
    let waited = began.elapsed();
    assert!(waited <= MOMENT, "{waited:?}");
    ended(&mut readers).await;
    host.daemon.stop();
}

/// Also if they stop only while another one waits for them.
#[tokio::test(start_paused = true)]
async fn a_reader_waits_no_longer_than_until_another_one_counts_as_stopped() {
    let host = Host::start();
    let _readers = host.fill(Asks::Blocks).await;
    let mut third = host.waiting("third").await;
    let answer = timeout(STOPPED, third.answer()).await.unwrap();
    assert!(answer.is_some(), "the daemon closed the connection");
    host.daemon.stop();
}

#[tokio::test(start_paused = true)]
async fn clients_that_stop_keep_their_streams_while_nobody_waits_for_them() {
    for stopped in EACH {
        let host = Host::start();
        let mut readers = host.fill(stopped).await;
        advance(STOPPED * 100).await;
        // This one waits for the end of its own stream.
        let first = &mut readers[0].client;
        first.request(host.request(stopped, "one", SHORT_BYTES));
        waits_for(first, MOMENT).await;
        for reader in &mut readers[1..] {
            reader.take_chunk(0).await;
        }
        host.daemon.stop();
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_ask_for_chunks_or_take_them_keep_their_streams() {
    let almost = STOPPED - SECOND;
    let host = Host::start();
    let mut readers = host.fill(Asks::Segments).await;
    for reader in &mut readers {
        reader.take_chunk(0).await;
    }
    let mut slow = readers.pop().unwrap();
    // As much of a chunk as such a client takes at least in this time.
    slow.client.take_only(64 << 10);
    slow.client.request_chunk(slow.handle.stream_id, 1);
    let mut third = host.waiting("third").await;
    for index in 1..3 {
        waits_for(&mut third, almost).await;
        assert_eq!(closed(&readers), [false; 3]);
        for reader in &mut readers {
            reader.take_chunk(index).await;
        }
        slow.client.take_only(64 << 10);
    }
    waits_for(&mut third, almost).await;
    slow.client.take_only(usize::MAX);
    assert!(slow.client.receive().await.is_some(), "the chunk");
    host.daemon.stop();
}

#[tokio::test(start_paused = true)]
async fn clients_whose_requests_the_daemon_has_in_work_keep_their_streams() {
    let host = Host::start();
    let mut readers = host.fill(Asks::Blocks).await;
    for (reader, app) in readers.iter_mut().zip(["one", "one", "other", "other"]) {
        // It waits for the end of the client's own stream, and is short itself.
        let asked = host.request(Asks::Blocks, app, SHORT_BYTES / 4);
        reader.client.request(asked);
    }
    let mut third = host.waiting("third").await;
    waits_for(&mut third, STOPPED * 2).await;
    assert_eq!(closed(&readers), [false; 4]);
    host.daemon.stop();
}
