// SPDX-License-Identifier: Apache-2.0
//! The daemon over real sockets. One binary, so that the client is compiled and linked once.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod answers;
mod at_once;
mod authentication;
mod bad_disk;
mod connections;
mod disk;
mod disk_of_everything;
mod doctor;
mod drain;
mod end;
mod every_request;
mod explain;
mod hanging;
mod hostile;
mod leases;
mod life;
mod memory;
mod overload;
mod panics;
mod process;
mod readers_that_stand_still;
mod refusals;
mod remote;
mod several_disks;
mod slow_readers;
mod spark;
mod stop;
mod stopped_readers;
mod support;
mod timeouts;
mod tls;
mod two_disks;
mod uploads;
mod waiting_pushes;
