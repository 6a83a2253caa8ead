// SPDX-License-Identifier: Apache-2.0
//! Many clients at once, slow ones among them.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::client::{batch, commit_of, hello, key, read};
use crate::support::daemon::run_any;
use crate::support::{Client, Daemon};
use lodestone_model::ReduceId;
use lodestone_wire::extension::fetch::SegmentLayout;
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::status::Done;
use lodestone_wire::frame::ChunkId;
use lodestone_wire::{Frame, Message};

#[test]
fn two_hundred_connections_are_served_at_once() {
    let daemon = Daemon::start(&[]);
    let key = key(&daemon, 1);
    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(&daemon)).collect();
    clients[0].register(&key, 200, 4);
    let sent: Vec<(i64, PushBatch)> = (0..)
        .zip(&mut clients)
        .map(|(map, client)| {
            let bytes = [map as u8; 999];
            let (meta, body) = batch(&key, map, 1, &[(map % 4, &bytes)]);
            (client.send_upload(&meta, &body), meta)
        })
        .collect();
    for (client, (id, meta)) in clients.iter_mut().zip(sent) {
        client.answer_to(id);
        let _: Done = client.ask(&commit_of(&[meta]));
    }
    let last: HelloReply = clients[199].ask(&hello());
    assert_eq!(last.load.connections, 200);
    for reduce in 0..4 {
        assert_eq!(clients[8].partition(&key, reduce).len(), 50);
    }
}

#[test]
fn a_daemon_serves_clients_of_ipv6_and_at_the_address_for_all_those_of_ipv4_too() {
    let greet = |address: &str| {
        let mut client = Client::over(TcpStream::connect(address).unwrap());
        let _: HelloReply = client.ask(&hello());
        client
    };
    let one = Daemon::start(&["--listen", "[::1]:0"]);
    greet(one.address());
    let (code, _, error) = run_any(&["drain", "--cancel", "--service", one.address()]);
    assert_eq!(code, Some(0), "{error}");
    let all = Daemon::start(&["--listen", "[::]:0", "--admin", "[::1]:0"]);
    let (_, port) = all.address().rsplit_once(':').unwrap();
    let _clients = ["[::1]", "127.0.0.1"].map(|host| greet(&format!("{host}:{port}")));
    let listed = all.get("/clients");
    for host in [r#""::1""#, r#""127.0.0.1""#] {
        assert!(listed.contains(host), "no {host} in {listed}");
    }
}

#[test]
fn when_there_are_too_many_connections_the_one_that_is_idle_for_longest_makes_way() {
    let daemon = Daemon::start(&["--max-connections", "2"]);
    let [mut first, mut second] = [(); 2].map(|()| {
        let mut client = Client::connect(&daemon);
        let _: HelloReply = client.ask(&hello());
        client
    });
    // A client has its answer a moment before its connection counts as idle.
    for _ in 0..100 {
        let _: HelloReply = first.ask(&hello());
    }
    let mut third = Client::connect(&daemon);
    let _: HelloReply = third.ask(&hello());
    assert_eq!(second.receive(), None, "the idlest one is closed");
    let _: HelloReply = first.ask(&hello());
}

#[test]
fn a_connection_over_the_limit_is_closed_if_all_others_are_in_use_and_these_go_on() {
    let daemon = Daemon::start(&["--max-connections", "2", "--admin", "127.0.0.1:0"]);
    let key = key(&daemon, 1);
    let mut busy = [(); 2].map(|()| Client::connect(&daemon));
    busy[0].register(&key, 2, 1);
    let (pushed, rest) = (vec![9; 1 << 20], 400 << 10);
    let ids = [0, 1].map(|map| {
        let (meta, body) = batch(&key, map, 1, &[(0, &pushed)]);
        let client = &mut busy[map as usize];
        client.send(&Frame::UploadStream {
            request_id: 77,
            meta: meta.to_bytes(),
            body_bytes: body.len() as u64,
        });
        client.socket.write_all(&body[rest..]).unwrap();
        (meta, body)
    });
    // A connection whose request the daemon has not read yet may still be closed.
    daemon.reaches("lodestone_merge_memory_bytes", f64::from(2 << 20));
    assert_eq!(Client::connect(&daemon).receive(), None);
    daemon.logged("max-connections");
    for (client, (meta, body)) in busy.iter_mut().zip(ids) {
        client.socket.write_all(&body[..rest]).unwrap();
        client.answer_to(77);
        let _: Done = client.ask(&commit_of(&[meta]));
    }
    assert_eq!(busy[0].partition(&key, 0).len(), 2);
}

/// Each connection takes one, and a chunk of a file another one.
#[test]
fn a_daemon_without_descriptors_goes_on_with_its_clients_and_takes_others_when_it_has_some() {
    let daemon = Daemon::start(&[]);
    let key = key(&daemon, 1);
    let mut honest = Client::connect(&daemon);
    honest.register(&key, 8, 1);
    daemon.limit_descriptors(8);
    // The system takes connections for the daemon, which does not accept all of them.
    let crowd: Vec<_> = (0..16).map(|_| Client::connect(&daemon)).collect();
    daemon.logged("accept failed");
    for map in 0..8 {
        honest.output(&key, map, 1, &[(0, b"pushed meanwhile")]);
    }
    assert_eq!(honest.partition(&key, 0).len(), 8);
    let mut late = Client::connect(&daemon);
    let asked = late.send_rpc(&hello());
    late.assert_silent_for(Duration::from_millis(300));
    drop(crowd);
    let reply: HelloReply = read(&late.answer_to(asked));
    assert_eq!(reply.incarnation, key.incarnation);
    honest.output(&key, 0, 2, &[(0, b"afterwards")]);
}

/// When the system asks the other end of a connection of this daemon whether it is still there: a
/// host that vanished does not answer. `None`: never, on its own.
fn keepalive(daemon: &Daemon, client: &Client) -> Option<Duration> {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let ours = port(daemon.address().parse().unwrap());
    let theirs = port(client.socket.local_addr().unwrap());
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let timer = sockets.lines().find_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let is_it = columns[1].ends_with(&ours) && columns[2].ends_with(&theirs);
        is_it.then(|| columns[5].to_owned())
    });
    // The kind of the timer, and hundredths of a second in hexadecimal digits.
    let timer = timer.unwrap();
    let (kind, hundredths) = timer.split_once(':').unwrap();
    let left = u64::from_str_radix(hundredths, 16).unwrap();
    (kind == "02").then(|| Duration::from_millis(10 * left))
}

#[test]
fn a_host_that_vanished_is_looked_for_within_a_minute_also_if_clients_may_be_idle_for_ever() {
    for daemon in [Daemon::start(&[]), Daemon::start(&["--idle-exit", "1h"])] {
        let mut client = Client::connect(&daemon);
        let _: HelloReply = client.ask(&hello());
        let looks = keepalive(&daemon, &client).expect("half-open connections stay");
        assert!(looks <= Duration::from_secs(60), "{looks:?}");
    }
}

#[test]
fn a_client_that_sends_no_more_gets_the_answers_to_its_requests() {
    let daemon = Daemon::start(&[]);
    let key = key(&daemon, 1);
    let mut writer = Client::connect(&daemon);
    writer.register(&key, 1, 1);
    writer.output(&key, 0, 1, &[(0, b"a block")]);
    for _ in 0..50 {
        let mut client = Client::connect(&daemon);
        client.send_rpc(&SegmentLayout {
            key: key.clone(),
            map_start: 0,
            map_end: 1,
            reduce_ids: vec![ReduceId(0)],
        });
        client.socket.shutdown(Shutdown::Write).unwrap();
        assert!(client.receive().is_some());
    }
}

#[test]
fn a_reader_that_does_not_read_does_not_block_the_others() {
    let daemon = Daemon::start(&["--memory", "32MiB"]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    let maps = 64;
    client.register(&key, maps, 1);
    let block = |map: u32| vec![map as u8; 512 << 10];
    for map in 0..maps {
        client.output(&key, map, 1, &[(0, &block(map))]);
    }
    // More slow readers than the daemon has threads for blocking work.
    let mut slow: Vec<Client> = (0..80)
        .map(|_| {
            let mut client = Client::connect(&daemon);
            let (handle, _) = client.open_partition(&key, 0, 4);
            for chunk_index in 0..maps as i32 / 4 {
                let chunk = ChunkId {
                    stream_id: handle.stream_id,
                    chunk_index,
                };
                client.send(&Frame::ChunkFetchRequest(chunk));
            }
            client
        })
        .collect();
    let read = client.partition(&key, 0);
    assert_eq!(read.len(), maps as usize);
    assert!(read.iter().all(|(map, _, bytes)| *bytes == block(*map)));
    // A slow one gets everything too, once it reads.
    for index in 0..maps / 4 {
        let Some(Frame::ChunkFetchSuccess { body, .. }) = slow[0].receive() else {
            panic!("the slow reader was given up");
        };
        let expected: Vec<u8> = (index * 4..index * 4 + 4).flat_map(block).collect();
        assert!(body == expected, "chunk {index} of the slow reader");
    }
}

#[test]
fn requests_past_the_limit_of_one_connection_wait_and_are_all_answered() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let count = 5000;
    let mut writing = client.socket.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for request_id in 0..count {
                let body = hello().to_bytes();
                writing
                    .write_all(&Frame::RpcRequest { request_id, body }.to_bytes())
                    .unwrap();
            }
        });
        let mut answered: Vec<i64> = (0..count)
            .map(|_| match client.receive() {
                Some(Frame::RpcResponse { request_id, .. }) => request_id,
                other => panic!("instead of an answer: {other:?}"),
            })
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..count).collect::<Vec<_>>());
    });
}

#[test]
fn the_admin_endpoint_serves_health_status_and_metrics() {
    let daemon = Daemon::start(&["--admin", "127.0.0.1:0"]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 4, 4);
    client.output(&key, 0, 1, &[(0, b"seven b")]);
    let health = daemon.get("/health");
    assert!(
        health.starts_with("HTTP/1.1 200") && health.ends_with("serving\n"),
        "{health}"
    );
    let metrics = daemon.get("/metrics");
    assert!(
        metrics.contains("content-type: text/plain; version=0.0.4"),
        "{metrics}"
    );
    let asked = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let metrics = daemon.get_as("/metrics", asked);
    assert!(
        metrics.contains("content-type: application/openmetrics-text"),
        "{metrics}"
    );
    let free = format!(
        "lodestone_merge_disk_free_bytes{{dir=\"{}\"}} ",
        daemon.dir.path().display()
    );
    assert!(metrics.contains(&free), "no {free} in {metrics}");
    for line in [
        "lodestone_push_bytes_total 7",
        "lodestone_merge_segments_total 1",
        "lodestone_commit_maps_total 1",
        "lodestone_register_shuffles_total 1",
        "lodestone_connections_open 1",
        "lodestone_serving 1",
        "lodestone_push_seconds_count 1",
        "# EOF",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "no {line:?} in {metrics}"
        );
    }
    client.partition(&key, 0);
    // The daemon counts a chunk after the client has its last byte.
    let counted = |_| {
        daemon
            .get("/metrics")
            .contains("lodestone_fetch_seconds_count 1\n")
    };
    assert!((0..1000).any(counted), "a fetch without its time");
    let status = daemon.get("/status");
    let (_, body) = status.split_once("\r\n\r\n").unwrap();
    let status: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(status["segments"], 1);
    assert_eq!(status["state"], "serving");
    assert_eq!(status["shuffles"], 1);
}
