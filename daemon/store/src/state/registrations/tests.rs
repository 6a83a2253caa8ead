// SPDX-License-Identifier: Apache-2.0

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::fs::fake::{Errno, FakeFs};
use crate::resource::clock::ManualClock;
use crate::resource::timed_mutex::tests::{LONGER_THAN_PUSHES, PushesWait};
use crate::state::executors::ExecutorInfo;

const DISK: &str = "/disk";

fn registration() -> Registration {
    Registration {
        serial: 1,
        app: "app-1".to_owned(),
        attempt: -1,
        executor: "1".to_owned(),
        info: ExecutorInfo {
            local_dirs: vec!["/local".to_owned()],
            sub_dirs: 64,
            merge_dir: None,
        },
    }
}

fn on_one_disk() -> (FakeFs, Environment, Registrations) {
    let fs = FakeFs::with_dirs([DISK]);
    let environment = Environment {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::default()),
        ..Environment::os()
    };
    let registrations = Registrations::new(&[DISK.into()], &Earlier::default());
    (fs, environment, registrations)
}

/// A stop without remote shuffles closes twice. The operator must not read that executors are lost.
#[test]
fn a_second_close_has_nothing_to_complain_of() {
    let (_, environment, registrations) = on_one_disk();
    let one = registration();
    let known = || vec![one.clone()];
    let added = registrations.add(&environment, Some(&one), &known);
    assert!(added.is_ok());
    assert!(registrations.close(&environment, &known).is_ok());
    assert!(registrations.close(&environment, &known).is_ok());
}

#[test]
fn a_close_fails_if_no_disk_has_all_executors() {
    let (fs, environment, registrations) = on_one_disk();
    let known = || vec![registration()];
    fs.break_dir(Path::new(DISK), Errno::IO);
    assert!(registrations.close(&environment, &known).is_err());
}

/// They wait for the same disk.
#[test]
fn a_registration_gets_its_turn_however_many_pushes_wait() {
    let (_, _, registrations) = on_one_disk();
    let _pushes = PushesWait::begin();
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        let (_forever, end) = mpsc::channel::<()>();
        let other = &registrations;
        scope.spawn(move || {
            let _turn = other.turn();
            done.send(()).unwrap();
            let _ = end.recv_timeout(LONGER_THAN_PUSHES);
        });
        is_done.recv().unwrap();
        assert!(registrations.turn().is_some());
    });
}
