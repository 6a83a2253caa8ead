// SPDX-License-Identifier: Apache-2.0
//! Map attempts of remote shuffles, over a real socket.

use crate::support::client::{ALL_MAPS, batch, commit_of, key, read};
use crate::support::{Client, Daemon};
use lodestone_model::{Code, MapId, MapIndex, Mode};
use lodestone_wire::extension::commit::AbortMap;
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::status::Done;

pub(crate) fn push(client: &mut Client, batch: &PushBatch, body: &[u8]) -> Vec<Code> {
    let id = client.send_upload(batch, body);
    read::<PushBatchReply>(&client.answer_to(id)).codes
}

#[test]
fn an_attempt_is_pushed_while_it_runs_commits_and_is_read() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register_as(Mode::Remote, &key, 2, 4);
    let (first, first_body) = batch(&key, 0, 10, &[(1, b"one"), (1, b"two"), (3, b"three")]);
    let (mut second, second_body) = batch(&key, 0, 10, &[(1, b"four")]);
    second.first_segment = 3;
    assert_eq!(push(&mut client, &first, &first_body), [Code::Ok; 3]);
    assert_eq!(push(&mut client, &second, &second_body), [Code::Ok]);
    assert_eq!(push(&mut client, &first, &first_body), [Code::Duplicate; 3]);
    let layout = client.layout(&key, ALL_MAPS, &[1, 2]);
    assert_eq!(layout.partitions[0].code, Code::Ok);
    assert!(layout.partitions[0].runs.is_empty(), "it has not committed");
    assert_eq!(layout.partitions[1].code, Code::UnknownPartition);
    let short = commit_of(std::slice::from_ref(&first));
    assert_eq!(client.refusal(&short), Code::LedgerMismatch);
    let commit = commit_of(&[first, second]);
    for _ in 0..2 {
        let _: Done = client.ask(&commit);
    }
    let read: Vec<_> = client.partition(&key, 1);
    let bodies: Vec<&[u8]> = read.iter().map(|(.., bytes)| bytes.as_ref()).collect();
    assert_eq!(bodies, [&b"one"[..], b"two", b"four"]);
}

#[test]
fn an_attempt_of_one_batch_commits_with_it_and_no_other_attempt_does() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 8, 4);
    let mut answer = |pushed: &PushBatch, body: &[u8]| {
        let id = client.send_upload(pushed, body);
        let reply: PushBatchReply = read(&client.answer_to(id));
        (reply.codes, reply.is_committed)
    };
    let whole = |map| {
        let (mut pushed, body) = batch(&key, map, 10, &[(1, b"one"), (2, b"two")]);
        pushed.is_whole = true;
        (pushed, body)
    };
    let (all, body) = whole(0);
    assert_eq!(answer(&all, &body), (vec![Code::Ok; 2], true));
    assert_eq!(answer(&all, &body), (vec![Code::Duplicate; 2], true));
    let (mut other, other_body) = batch(&key, 0, 10, &[(3, b"three")]);
    (other.is_whole, other.first_segment) = (true, 2);
    let late = (vec![Code::Duplicate], false);
    assert_eq!(answer(&other, &other_body), late, "it was not the whole");

    let (mut damaged, body) = whole(1);
    damaged.segments[1].crc32c.0 ^= 1;
    let half = (vec![Code::Ok, Code::ChecksumMismatch], false);
    assert_eq!(answer(&damaged, &body), half);
    let (repaired, body) = whole(1);
    assert_eq!(
        answer(&repaired, &body),
        (vec![Code::Duplicate, Code::Ok], true)
    );

    let (first, first_body) = batch(&key, 2, 10, &[(1, b"one")]);
    assert_eq!(answer(&first, &first_body), (vec![Code::Ok], false));
    let (mut second, second_body) = batch(&key, 2, 10, &[(2, b"two")]);
    (second.is_whole, second.first_segment) = (true, 1);
    assert_eq!(answer(&second, &second_body), (vec![Code::Ok], false));

    let read = client.partition(&key, 2);
    let maps: Vec<u32> = read.iter().map(|(map, ..)| *map).collect();
    assert_eq!(maps, [0, 1], "map 2 has not committed");
}

#[test]
fn an_aborted_attempt_is_gone_and_takes_nothing_more() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register_as(Mode::Remote, &key, 2, 4);
    let (pushed, body) = batch(&key, 0, 10, &[(1, b"one")]);
    assert_eq!(push(&mut client, &pushed, &body), [Code::Ok]);
    let commit = commit_of(std::slice::from_ref(&pushed));
    let _: Done = client.ask(&commit);
    let abort = AbortMap {
        key: key.clone(),
        map_index: MapIndex(0),
        map_id: MapId(10),
    };
    for _ in 0..2 {
        let _: Done = client.ask(&abort);
    }
    assert!(
        client.layout(&key, ALL_MAPS, &[1]).partitions[0]
            .runs
            .is_empty()
    );
    assert_eq!(push(&mut client, &pushed, &body), [Code::Aborted]);
    assert_eq!(client.refusal(&commit), Code::Aborted);
}

/// A map task that has no more of some blocks, and nothing else to push: a request without a body.
#[test]
fn the_ends_of_blocks_are_pushed_without_a_byte_and_shown_with_the_others() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register_as(Mode::Remote, &key, 2, 4);
    let (first, first_body) = batch(&key, 0, 10, &[(1, b"one"), (2, b"two")]);
    let (mut ends, no_body) = batch(&key, 0, 10, &[(1, b""), (2, b"")]);
    ends.first_segment = 2;
    for end in &mut ends.segments {
        (end.sequence, end.records) = (3, 0);
    }
    assert_eq!(push(&mut client, &first, &first_body), [Code::Ok; 2]);
    assert_eq!(push(&mut client, &ends, &no_body), [Code::Ok; 2]);
    assert_eq!(push(&mut client, &ends, &no_body), [Code::Duplicate; 2]);
    let _: Done = client.ask(&commit_of(&[first, ends]));
    let layout = client.layout(&key, ALL_MAPS, &[1]);
    let shown = layout.partitions[0]
        .runs
        .iter()
        .flat_map(|run| &run.segments);
    let shown: Vec<_> = shown.map(|one| (one.sequence, one.length)).collect();
    assert_eq!(shown, [(1, 3), (3, 0)]);
}
