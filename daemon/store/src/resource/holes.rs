// SPDX-License-Identifier: Apache-2.0
//! Bytes of aborted attempts in files, until the thread of their disk punches holes there. A disk
//! that hangs or is busy keeps no other thread.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;

use lodestone_model::{Code, ReduceId};

use super::disk::code_of;
use super::flow::Stalled;
use super::home::{DataFile, Home};
use super::{Resources, locked};
use crate::sync::Mutex;

/// Holes that wait at one place. The space of further ones is freed with their files.
const WAITING_MAX: usize = 65_536;

/// So many holes are punched before the next files are deleted.
const AT_ONCE: usize = 64;

/// So many are punched before the thread of the place does something else.
const OF_PASS: usize = 4_096;

/// No hole is begun when a pass has taken so long: the thread of the place has more to do.
const PASS_MS: u64 = 500;

/// The bytes of an aborted attempt in one file.
#[derive(Debug)]
pub(crate) struct Hole {
    pub(crate) home: Arc<Home>,
    pub(crate) file: DataFile,
    pub(crate) reduce: ReduceId,
    /// Offset and length.
    pub(crate) bytes: (u64, u64),
}

/// The holes that wait at one place.
#[derive(Debug, Default)]
pub(super) struct Holes(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    holes: VecDeque<Hole>,
    /// There were too many, which the log says once until half of them are done.
    is_over: bool,
}

impl Holes {
    pub(super) fn put(&self, hole: Hole) {
        let mut waiting = locked(&self.0);
        if waiting.holes.len() < WAITING_MAX {
            waiting.holes.push_back(hole);
            waiting.is_over &= waiting.holes.len() > WAITING_MAX / 2;
        } else if !std::mem::replace(&mut waiting.is_over, true) {
            tracing::warn!(
                waiting = WAITING_MAX,
                "a disk frees the space of aborted attempts too slowly: the space of further ones \
                 is free when their shuffles are removed"
            );
        }
    }

    /// Punches some of the holes, and does `between` every few of them. Ends early if one has to be
    /// tried again. Otherwise returns true if others wait.
    pub(super) fn punch_some(&self, resources: &Resources, mut between: impl FnMut()) -> bool {
        let clock = resources.environment.clock.as_ref();
        let end_ms = clock.now_ms() + PASS_MS;
        for number in 1..=OF_PASS {
            let Some(hole) = locked(&self.0).holes.pop_front() else {
                return false;
            };
            if !hole.punch(resources) {
                // Behind the others: perhaps its file alone is in trouble.
                locked(&self.0).holes.push_back(hole);
                return false;
            }
            if number % AT_ONCE == 0 {
                between();
            }
            if clock.now_ms() >= end_ms {
                break;
            }
        }
        !locked(&self.0).holes.is_empty()
    }
}

impl Hole {
    /// Returns false if it has to be tried again.
    fn punch(&self, resources: &Resources) -> bool {
        let (reduce, bytes) = (self.reduce, self.bytes);
        match self.home.punch(resources, self.file, reduce, bytes) {
            Err(error) if Stalled::is(&error) => return false,
            // A full disk may need some room to split what a file has.
            Err(error) if matches!(code_of(&error), Code::Overloaded | Code::DiskFull) => {
                return false;
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let file = self.file;
                tracing::warn!(
                    ?file, %reduce, ?bytes, %error, "the space of an aborted attempt was not freed"
                );
            }
            _ => {}
        }
        true
    }
}
