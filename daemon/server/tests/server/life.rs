// SPDX-License-Identifier: Apache-2.0
//! From register to remove, over a real socket, with exact bytes.

use crate::support::client::{app, batch, generation, key};
use crate::support::{Client, Daemon, Random};
use lodestone_model::{AppAttempt, Code, GenerationId, ShuffleKey, State};
use lodestone_wire::Frame;
use lodestone_wire::Message;
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};
use lodestone_wire::spark::remove::RemoveShuffleMerge;

#[test]
fn a_shuffle_lives_from_register_to_remove_with_exact_bytes() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 5);
    client.register(&key, 40, 3);
    let mut random = Random::any();
    // Partition 0 is larger than a chunk and than a memory tail, partition 1 stays in memory.
    let large: Vec<Vec<u8>> = (0..40).map(|_| random.bytes(100_000)).collect();
    let small: Vec<Vec<u8>> = (0..40).map(|_| random.bytes(100)).collect();
    for (map, (large, small)) in (0..).zip(large.iter().zip(&small)) {
        client.output(&key, map, i64::from(map) + 1000, &[(0, large), (1, small)]);
    }
    for (reduce, expected) in [(0, &large), (1, &small)] {
        let found = client.partition(&key, reduce);
        let maps: Vec<(u32, i64)> = found.iter().map(|(map, id, _)| (*map, *id)).collect();
        assert_eq!(
            maps,
            (0..40)
                .map(|map| (map, i64::from(map) + 1000))
                .collect::<Vec<_>>()
        );
        assert!(
            found
                .iter()
                .zip(expected)
                .all(|((.., bytes), expected)| bytes == expected)
        );
    }
    a_range_of_maps_and_a_download(&mut client, &key, &large);
    removed_means_refused(&mut client, &key);
}

fn a_range_of_maps_and_a_download(client: &mut Client, key: &ShuffleAddress, large: &[Vec<u8>]) {
    let layout = client.layout(key, (10, 12), &[0, 2]);
    assert_eq!(layout.partitions[1].code, Code::UnknownPartition);
    let [run] = layout.partitions[0].runs.as_slice() else {
        panic!("{layout:?}");
    };
    let maps: Vec<_> = run.segments.iter().map(|s| s.map_index.0).collect();
    assert_eq!((run.first, maps), (10, vec![10, 11]));
    let handle = client.open(key, &[(0, &[(10, 2)]), (0, &[(3, 1), (5, 1), (39, 1)])]);
    assert_eq!(
        client.take(&handle),
        [
            [&large[10][..], &large[11]].concat(),
            [&large[3][..], &large[5], &large[39]].concat()
        ]
    );
    let handle = client.open(key, &[(0, &[(21, 19)]), (0, &[(0, 21)])]);
    assert_eq!(
        client.download(&handle, 0),
        large[21..].concat(),
        "chunk 0, as a stream"
    );
    assert_eq!(
        client.download(&handle, 1),
        large[..21].concat(),
        "chunk 1, as a stream"
    );
}

fn removed_means_refused(client: &mut Client, key: &ShuffleAddress) {
    let (app, app_attempt) = (app(), AppAttempt::NONE);
    let removed = ShuffleKey {
        generation: GenerationId(-1),
        ..generation(5)
    };
    client.send(&Frame::OneWay {
        body: RemoveShuffleMerge { key: removed }.to_bytes(),
    });
    let _: Done = client.ask(&EndApplication { app, app_attempt });
    let (meta, body) = batch(key, 0, 1000, &[(0, b"late")]);
    let id = client.send_upload(&meta, &body);
    let refused: Refused = crate::support::client::read(&client.answer_to(id));
    assert!(
        [Code::UnknownApplication, Code::TooLate].contains(&refused.code),
        "{refused:?}"
    );
}

#[test]
fn hello_and_lease_return_the_incarnation_the_zone_and_the_load() {
    let daemon = Daemon::start(&["--memory", "64MiB", "--zone", "rack-7"]);
    let mut client = Client::connect(&daemon);
    let client_name = "test/1 spark/none".to_owned();
    let reply: HelloReply = client.ask(&Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name,
    });
    assert_eq!(reply.incarnation, daemon.incarnation());
    assert_eq!(reply.zone, "rack-7");
    assert_eq!(reply.server_version, env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (reply.load.state, reply.load.connections),
        (State::Serving, 1)
    );
    assert_eq!(reply.load.memory_limit, 34 << 20, "that of the store");
    assert!(reply.load.disk_total >= reply.load.disk_free && reply.load.disk_free > 0);
    client.register(&key(&daemon, 1), 1, 1);
    let (app, app_attempt, incarnation) = (app(), AppAttempt::NONE, 0);
    let lease: LeaseReply = client.ask(&RenewLease {
        app,
        app_attempt,
        incarnation,
        ttl_ms: 1,
    });
    assert_eq!(lease.granted_ttl_ms, 10_000, "never less than ten seconds");
    assert_eq!(lease.load.shuffles, 1);
}

#[test]
fn two_attempts_that_push_at_once_are_both_served_and_stay_separate() {
    let daemon = Daemon::start(&[]);
    let key = key(&daemon, 7);
    let maps = 50;
    Client::connect(&daemon).register(&key, maps, 2);
    let bytes_of = |map: u32, attempt: i64| vec![(map as u8) ^ (attempt as u8 * 85); 3000];
    std::thread::scope(|scope| {
        for attempt in [1, 2] {
            let (mut client, key) = (Client::connect(&daemon), &key);
            scope.spawn(move || {
                for map in 0..maps {
                    let bytes = bytes_of(map, attempt);
                    client.output(key, map, attempt, &[(0, &bytes), (1, &bytes)]);
                }
            });
        }
    });
    let mut client = Client::connect(&daemon);
    for reduce in [0, 1] {
        let mut served = client.partition(&key, reduce);
        served.sort_by_key(|(map, attempt, _)| (*map, *attempt));
        let expected = (0..maps).flat_map(|map| [1, 2].map(|attempt| (map, attempt)));
        let expected: Vec<_> = expected
            .map(|(map, attempt)| (map, attempt, bytes_of(map, attempt).into()))
            .collect();
        assert!(served == expected, "partition {reduce}");
    }
}

#[test]
fn pushing_ten_times_the_memory_loses_nothing_and_stays_within_bounds() {
    let memory: u64 = 16 << 20;
    let daemon = Daemon::start(&["--memory", "16MiB"]);
    let before = daemon.resident_bytes();
    let key = key(&daemon, 9);
    let (pushers, maps, partitions) = (4, 40, 8);
    Client::connect(&daemon).register(&key, pushers * maps, partitions);
    let segment = |map: u32, reduce: u32| vec![(map * 7 + reduce) as u8; 131_072];
    std::thread::scope(|scope| {
        for pusher in 0..pushers {
            let key = &key;
            let mut client = Client::connect(&daemon);
            scope.spawn(move || {
                for map in pusher * maps..(pusher + 1) * maps {
                    let parts: Vec<Vec<u8>> =
                        (0..partitions).map(|reduce| segment(map, reduce)).collect();
                    let parts: Vec<(u32, &[u8])> =
                        (0..).zip(parts.iter().map(Vec::as_slice)).collect();
                    client.output(key, map, 1, &parts);
                }
            });
        }
    });
    let mut client = Client::connect(&daemon);
    let pushed = u64::from(pushers * maps * partitions) * 131_072;
    assert!(pushed >= 10 * memory);
    for reduce in 0..partitions {
        let all = client.partition(&key, reduce);
        assert_eq!(all.len(), (pushers * maps) as usize);
        for (map, _, bytes) in all {
            assert!(
                bytes == segment(map, reduce),
                "map {map} of partition {reduce}"
            );
        }
    }
    let taken = daemon.peak_bytes() - before;
    assert!(
        taken < memory + (32 << 20),
        "{taken} bytes over the memory at rest"
    );
}

#[test]
fn memory_goes_back_to_the_system_when_the_last_application_has_ended() {
    // With half of it the last segments would go to disk, and the rest would be exactly what was
    // pushed.
    let daemon = Daemon::start(&["--memory", "1GiB"]);
    let key = key(&daemon, 9);
    let mut client = Client::connect(&daemon);
    let (maps, partitions) = (50, 40);
    client.register(&key, maps, partitions);
    let segment = vec![7; 100_000];
    for map in 0..maps {
        let parts: Vec<(u32, &[u8])> = (0..partitions)
            .map(|reduce| (reduce, segment.as_slice()))
            .collect();
        let codes = client.push(&key, map, 1, &parts);
        assert!(codes.iter().all(|code| *code == Code::Ok), "{codes:?}");
    }
    let pushed = u64::from(maps * partitions) * segment.len() as u64;
    let busy = daemon.resident_bytes();
    assert!(busy > pushed, "{busy} with {pushed} bytes in memory");
    let (app, app_attempt) = (app(), AppAttempt::NONE);
    let _: Done = client.ask(&EndApplication { app, app_attempt });
    let idle = daemon.resident_bytes();
    assert!(idle < pushed / 4, "{idle} of {busy} are left");
}
