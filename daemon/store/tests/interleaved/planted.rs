// SPDX-License-Identifier: Apache-2.0
//! Bugs that only an order of threads shows are found.

use lodestone_planted::{Bug as PlantedBug, plant};

use crate::ends::{remove_while_it_is_read, remove_while_others_use_it};
use crate::explore::failure_in;

/// Far more orders than each of them needs.
const SCHEDULES: usize = 2_000;

fn assert_found(bug: PlantedBug, scene: fn(), by: &str) {
    plant(Some(bug));
    let failure = failure_in(SCHEDULES, scene);
    plant(None);
    let message = failure.unwrap_or_else(|| panic!("{bug:?} was not found"));
    assert!(message.contains(by), "{message}");
}

#[test]
fn a_layout_that_is_empty_because_the_shuffle_is_removed_meanwhile_is_found() {
    assert_found(
        PlantedBug::RemovalReadAsEmpty,
        remove_while_it_is_read,
        "an attempt is not shown any more",
    );
}

#[test]
fn a_partition_that_is_opened_after_the_removal_is_found() {
    assert_found(
        PlantedBug::OpenedAfterRemoval,
        remove_while_others_use_it,
        "stays",
    );
}
