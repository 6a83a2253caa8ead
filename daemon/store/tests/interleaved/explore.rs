// SPDX-License-Identifier: Apache-2.0
//! Runs a scene in many orders of its threads.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// Orders of each way to choose, if the environment has no other number.
const SCHEDULES: usize = 100;

/// In the second way to choose, a thread runs until it waits, but for so many switches: most bugs
/// need few of them, at the right points.
const SWITCHES: usize = 3;

/// Runs `scene` in orders with a switch after any operation, and in orders with few switches.
pub(crate) fn explore(scene: impl Fn() + Clone + Send + Sync + 'static) {
    let schedules = env::var("LODESTONE_SCHEDULES").map_or(SCHEDULES, |text| text.parse().unwrap());
    let seed = RandomState::new().build_hasher().finish();
    eprintln!("orders from seed {seed}");
    run(
        RandomScheduler::new_from_seed(seed, schedules),
        scene.clone(),
    );
    run(
        PctScheduler::new_from_seed(seed, SWITCHES + 1, schedules),
        scene,
    );
}

/// Runs `scene` in the orders of one seed, until one fails. Returns the message of the failure.
pub(crate) fn failure_in(schedules: usize, scene: fn()) -> Option<String> {
    let failed = catch_unwind(AssertUnwindSafe(|| {
        run(RandomScheduler::new_from_seed(1, schedules), scene);
        run(
            PctScheduler::new_from_seed(1, SWITCHES + 1, schedules),
            scene,
        );
    }));
    let payload = failed.err()?;
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| {
        payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
    })
}

fn run(scheduler: impl Scheduler + 'static, scene: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    // All atomics are taken for sequentially consistent.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scene);
}
