// SPDX-License-Identifier: Apache-2.0
//! Leases while the daemon itself is in trouble.

use std::time::Duration;

use lodestone_model::AppAttempt;
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use rustix::process::Signal;

use crate::support::client::{app, key};
use crate::support::{Client, Daemon};

/// Longer than the shortest lease.
const FROZEN: Duration = Duration::from_secs(11);

#[test]
fn a_daemon_that_was_frozen_for_longer_than_a_lease_forgets_nobody() {
    let daemon = Daemon::start(&[]);
    let mut driver = Client::connect(&daemon);
    let key = key(&daemon, 1);
    driver.register(&key, 1, 1);
    driver.output(&key, 0, 100, &[(0, b"the only copy")]);
    let renewal = RenewLease {
        app: app(),
        app_attempt: AppAttempt::NONE,
        incarnation: 0,
        ttl_ms: 10_000,
    };
    let _: LeaseReply = driver.ask(&renewal);
    daemon.signal(Signal::STOP);
    driver.assert_silent_for(FROZEN);
    daemon.signal(Signal::CONT);
    daemon.logged("stood still");
    let _: LeaseReply = driver.ask(&renewal);
    assert_eq!(driver.partition(&key, 0)[0].2, &b"the only copy"[..]);
}
