// SPDX-License-Identifier: Apache-2.0
//! Requests that need no other thread than the one that serves their connection.

use lodestone_model::ReduceId;
use lodestone_server::handler::{self, Call};
use lodestone_store::Environment;
use lodestone_wire::Message;
use lodestone_wire::extension::fetch::SegmentLayout;

use crate::support::client::{ALL_MAPS, batch};
use crate::support::inside::Inside;

#[test]
fn a_layout_of_a_small_partition_is_made_at_once_and_a_long_one_and_a_long_one_is_not() {
    let daemon = Inside::start(Environment::os());
    let key = daemon.key(1);
    let mut client = daemon.connect();
    client.register(&key, 300, 2);
    client.output(&key, 0, 1, &[(0, b"alone")]);
    for map in 1..300 {
        client.output(&key, map, 1, &[(1, b"one of many")]);
    }
    let call = Call::new(&daemon.service, 1).without_waiting();
    let at_once = |reduces: &[u32]| {
        let request = SegmentLayout {
            key: key.clone(),
            map_start: ALL_MAPS.0,
            map_end: ALL_MAPS.1,
            reduce_ids: reduces.iter().copied().map(ReduceId).collect(),
        };
        handler::rpc_now(&call, &request.to_bytes()).is_some()
    };
    assert!(at_once(&[0]));
    assert!(!at_once(&[1]), "many segments");
    assert!(!at_once(&[0; 200]), "many partitions");
    daemon.stop();
}

#[test]
fn a_push_of_very_many_segments_does_not_hold_up_the_other_connections_of_its_thread() {
    let daemon = Inside::start(Environment::os());
    let key = daemon.key(1);
    daemon.connect().register(&key, 2, 1);
    let call = Call::new(&daemon.service, 1).without_waiting();
    let one: (u32, &[u8]) = (0, b"x");
    let at_once = |map: u32, segments: usize| {
        let (meta, body) = batch(&key, map, 1, &vec![one; segments]);
        let upload = handler::admit_upload(&call, &meta.to_bytes(), body.len() as u64);
        handler::upload_now(&call, &upload.unwrap(), &body)
    };
    assert!(at_once(0, 1_024).is_ok());
    assert_eq!(
        at_once(1, 1_025),
        Err(Vec::new()),
        "some of them are merged"
    );
    daemon.stop();
}
