// SPDX-License-Identifier: Apache-2.0
//! A bug in a handler costs one connection: the daemon's disk panics when the test wants it.

use crate::support::client::batch;
use crate::support::inside::Inside;
use crate::support::trap::TrapFs;
use lodestone_model::Code;

#[test]
fn a_handler_that_panics_costs_its_own_connection_only() {
    let disk = TrapFs::default();
    let daemon = Inside::start(disk.environment());
    let (mut victim, mut bystander) = (daemon.connect(), daemon.connect());
    victim.register(&daemon.key(1), 4, 1);
    bystander.register(&daemon.key(2), 1, 1);
    // Three quarters of the store's memory; the next segments must go to the disk.
    let block = vec![7; 4 << 20];
    for map in 0..3 {
        let codes = victim.push(&daemon.key(1), map, 1, &[(0, &block)]);
        assert_eq!(codes, [Code::Ok]);
    }
    disk.arm(|_| panic!("the trap was sprung"));
    let (meta, body) = batch(&daemon.key(1), 3, 1, &[(0, &block)]);
    victim.send_upload(&meta, &body);
    assert_eq!(victim.receive(), None, "the connection is closed");
    disk.disarm();

    bystander.output(&daemon.key(2), 0, 1, &[(0, b"unharmed")]);
    assert_eq!(bystander.partition(&daemon.key(2), 0)[0].2, "unharmed");
    assert_eq!(
        daemon.service.uploads.used_bytes(),
        0,
        "the memory of the lost request came back"
    );
    daemon.stop();
}
