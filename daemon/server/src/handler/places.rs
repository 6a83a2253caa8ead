// SPDX-License-Identifier: Apache-2.0
//! The disks that a request needs. A request waits for a turn at each, so that one that hangs does
//! not take all threads.

use lodestone_wire::{Message, spark};

use super::{Call, decode, measure, originals, register};

/// Returns the places of the disks of executors that a registration or a diagnosis looks at. Asks
/// no disk.
pub fn of(call: &Call, body: &[u8]) -> Vec<usize> {
    // A request that is malformed or too long is refused without a look.
    if measure::check(body).is_err() {
        return Vec::new();
    }
    let places = match body.first() {
        Some(&spark::register::RegisterExecutor::ID) => {
            decode(call, body).map(|message| register::places(call, &message))
        }
        Some(&spark::originals::DiagnoseCorruption::ID) => {
            decode(call, body).map(|message| originals::places(call, &message))
        }
        _ => Ok(Vec::new()),
    };
    places.unwrap_or_default()
}
