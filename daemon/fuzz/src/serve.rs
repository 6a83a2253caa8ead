// SPDX-License-Identifier: Apache-2.0
//! A daemon in this process, for clients that send any bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use lodestone_server::process::shutdown::Stop;
use lodestone_server::serve::{self, Admission};
use lodestone_server::service::lanes::Lanes;
use lodestone_server::service::{MemorySplit, Service};
use lodestone_store::{Environment, Reserve, Store, StoreConfig, TAIL_PART_BYTES};
use lodestone_wire::extension::PROTOCOL_VERSION;
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::{Frame, Message};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

const MEMORY_BYTES: u64 = 64 << 20;

/// An answer, or the end of the connection, comes within this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Stands in the corpus, as in `protocol/vectors`, for the incarnation of the daemon.
const INCARNATION: [u8; 8] = 0x0123_4567_89ab_cdef_u64.to_be_bytes();

struct Daemon {
    address: SocketAddr,
    incarnation: [u8; 8],
    _dir: TempDir,
}

/// Sends the bytes, and waits until the daemon has answered all that it wants to and closes the
/// connection. Then another client must get an answer.
pub fn connection(input: &[u8]) {
    static DAEMON: OnceLock<Daemon> = OnceLock::new();
    let daemon = DAEMON.get_or_init(start);
    let mut socket = connect(daemon);
    // The daemon may close the connection before it has all of it.
    let _ = socket.write_all(&with_incarnation(input, daemon.incarnation));
    let _ = socket.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    if let Err(error) = socket.read_to_end(&mut answers) {
        let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!is_late, "the connection neither ends nor is answered");
    }
    greet(daemon);
}

fn with_incarnation(input: &[u8], incarnation: [u8; 8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for at in 0..bytes.len().saturating_sub(INCARNATION.len() - 1) {
        if bytes[at..].starts_with(&INCARNATION) {
            bytes[at..at + INCARNATION.len()].copy_from_slice(&incarnation);
        }
    }
    bytes
}

fn greet(daemon: &Daemon) {
    let mut socket = connect(daemon);
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name: "fuzz".to_owned(),
    };
    let request = Frame::RpcRequest {
        request_id: 1,
        body: hello.to_bytes(),
    };
    socket
        .write_all(&request.to_bytes())
        .expect("an honest client can send");
    let mut length = [0; 8];
    socket
        .read_exact(&mut length)
        .expect("an honest client is answered");
    let mut frame = vec![0; u64::from_be_bytes(length) as usize - 8];
    socket
        .read_exact(&mut frame)
        .expect("an honest client gets all of the answer");
    HelloReply::from_bytes(&frame[13..]).expect("the answer to Hello");
}

fn connect(daemon: &Daemon) -> TcpStream {
    let socket = TcpStream::connect(daemon.address).expect("the daemon accepts connections");
    socket
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .expect("a time-out can be set");
    socket
        .set_write_timeout(Some(ANSWER_TIMEOUT))
        .expect("a time-out can be set");
    socket
}

fn start() -> Daemon {
    let dir = tempfile::tempdir().expect("a directory for the data");
    let split = MemorySplit::of(MEMORY_BYTES);
    let config = StoreConfig {
        dirs: vec![dir.path().to_owned()],
        memory_bytes: split.store_bytes,
        quota_percent: 75,
        tail_part_bytes: TAIL_PART_BYTES,
        hanging_bytes: split.hanging_bytes(),
        reserve: Reserve::Bytes(0),
        executor_roots: Vec::new(),
    };
    let store = Store::open(config, Environment::os()).expect("the store opens");
    let service: Arc<Service> = Service::new(store, split);
    let incarnation = service.incarnation().to_be_bytes();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .max_blocking_threads(Lanes::threads(1))
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            sender
                .send(listener.local_addr().expect("its address"))
                .expect("it is awaited");
            let admission = Admission {
                max_connections: 1000,
                idle_exit: None,
            };
            drop(serve::run(listener, service, admission, &Stop::default()).await);
        });
    });
    Daemon {
        address: receiver.recv().expect("the daemon listens"),
        incarnation,
        _dir: dir,
    }
}
