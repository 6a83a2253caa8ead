// SPDX-License-Identifier: Apache-2.0
//! Executors register, while disks and leases are looked at, and while the daemon ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_model::AppAttempt;
use lodestone_store::ExecutorInfo;
use lodestone_store::fs::fake::{Errno, Fault};
use shuttle::thread::{self, JoinHandle};

use crate::explore::explore;
use crate::world::*;

const DISKS: [&str; 2] = [DISK, "/disk1"];

/// A disk that failed is tried again after this time.
const RETRY_MS: u64 = 5_000;

fn world() -> Arc<World> {
    let world = World::with(DISKS.len(), MIB);
    world.fs.add_dir(Path::new("/local"));
    Arc::new(world)
}

fn register(world: &Arc<World>, exec: &'static str) -> JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || {
        let info = ExecutorInfo {
            local_dirs: vec!["/local".to_owned()],
            sub_dirs: 64,
            merge_dir: None,
        };
        let store = &world.store;
        let registered = store.register_executor(&app(), exec, AppAttempt::NONE, info);
        registered.unwrap();
    })
}

fn look(world: &Arc<World>, place: usize) -> JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || world.store.look_after(place))
}

/// A daemon that has only this disk of the one before knows the executors.
fn assert_known(world: &World, disk: usize, execs: &[&str]) {
    world.fs.forget_faults();
    let other = Path::new(DISKS[1 - disk]);
    world.fs.wipe(other);
    world.fs.add_dir(other);
    let dirs = DISKS.map(PathBuf::from).to_vec();
    let next = World::on(world.fs.clone(), dirs, MIB, 2);
    for exec in execs {
        let known = next.store.local_dirs(&app(), exec);
        assert!(known.is_ok(), "{exec} is unknown on disk {disk}");
    }
}

#[test]
fn each_disk_has_all_executors_after_the_next_look_at_it() {
    for disk in [0, 1] {
        explore(move || {
            let world = world();
            world.fs.fault_at(2, Fault::Torn(5, Errno::IO));
            let threads = [
                register(&world, "1"),
                register(&world, "2"),
                look(&world, 0),
                look(&world, 1),
            ];
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            // There may have been fewer writes.
            world.fs.forget_faults();
            world.clock.advance_ms(RETRY_MS);
            world.store.look_after_all();
            world.fs.crash();
            assert_known(&world, disk, &["1", "2"]);
        });
    }
}

#[test]
fn an_end_costs_no_executor_whatever_is_late() {
    for disk in [0, 1] {
        explore(move || {
            let world = world();
            register(&world, "1").join().unwrap();
            world.store.look_after_all();
            world.fs.fault_at(0, Fault::Torn(5, Errno::IO));
            let threads = [
                register(&world, "2"),
                look(&world, disk),
                register(&world, "3"),
            ];
            world.store.close();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            assert_known(&world, disk, &["1"]);
        });
    }
}

#[test]
fn an_executor_that_registers_while_leases_are_looked_at_is_known_afterwards() {
    explore(|| {
        let world = world();
        let registers = register(&world, "1");
        while world.store.application_count() == 0 {
            thread::yield_now();
        }
        world.store.expire_leases(world.store.now_ms());
        registers.join().unwrap();
        let known = world.store.local_dirs(&app(), "1");
        assert!(known.is_ok(), "{known:?}");
    });
}
