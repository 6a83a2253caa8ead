// SPDX-License-Identifier: Apache-2.0
//! Which disk takes the next bytes of a partition.

use std::path::Path;

use lodestone_model::Code;

use super::{DiskIndex, Disks};
use crate::resource::Environment;
use crate::sync::atomic::Ordering::Relaxed;

impl Disks {
    /// Returns a disk that accepts writes: the one that `spread` selects, or the next. A disk with
    /// more than its reserve comes first. OVERLOADED if one of them may accept writes soon.
    pub(crate) fn pick(&self, spread: u64, environment: &Environment) -> Result<DiskIndex, Code> {
        let mut refusal = Code::DiskFailed;
        let roomy = self.from(spread).filter(|index| self.has_room(*index));
        let low = self.from(spread).filter(|index| !self.has_room(*index));
        // All of them again: the room may have changed meanwhile.
        for index in roomy.chain(low).chain(self.from(spread)) {
            match self.check(index, environment) {
                Ok(()) => return Ok(index),
                Err(_) if refusal == Code::Overloaded => {}
                Err(code) => refusal = code,
            }
        }
        Err(refusal)
    }

    /// Returns a disk like `pick`, for the thread of a place: it asks only the disk there, and only
    /// if none is known to accept writes. OVERLOADED if another one may be probed now: its thread
    /// does that.
    pub(crate) fn pick_at(
        &self,
        place: usize,
        spread: u64,
        environment: &Environment,
    ) -> Result<DiskIndex, Code> {
        if let Some(known) = self.known_pick(spread, environment) {
            return Ok(known);
        }
        let checked = match self.at(place) {
            Some(own) => self.check(own, environment).map(|()| own),
            None => Err(self.known(environment).err().unwrap_or(Code::DiskFailed)),
        };
        let now_ms = environment.clock.now_ms();
        let others = self.disks.iter().enumerate();
        let mut others = others.filter(|(at, _)| *at != place);
        checked.map_err(|code| match others.any(|(_, disk)| disk.is_due(now_ms)) {
            true => Code::Overloaded,
            false => code,
        })
    }

    /// Returns the disk at this place; none at that of executors' directories.
    pub(crate) fn at(&self, place: usize) -> Option<DiskIndex> {
        let index = DiskIndex::try_from(place).ok();
        index.filter(|_| place < self.disks.len())
    }

    /// Returns the disk that `pick` would return, as far as is known: no disk is asked.
    pub(crate) fn known_pick(&self, spread: u64, environment: &Environment) -> Option<DiskIndex> {
        let mut all = self.from(spread);
        all.find(|index| self.is_roomy(*index, environment))
            .or_else(|| {
                let mut all = self.from(spread);
                all.find(|index| self.is_well(*index, environment))
            })
    }

    /// The directories of all disks: first of those that take writes and have more than their
    /// reserve, then of those that have only their reserve, and last of those whose writes hang.
    pub(crate) fn roots_by_room(&self, environment: &Environment) -> Vec<&Path> {
        let mut disks: Vec<_> = self.disks.iter().collect();
        disks.sort_by_key(|disk| {
            (
                disk.flow.is_stalled(environment.clock.as_ref()),
                disk.troubled.load(Relaxed),
                self.reserve.is_reached(disk.space()),
            )
        });
        disks.iter().map(|disk| disk.root.as_path()).collect()
    }

    /// True if a disk may hang: no write to it makes progress for a while.
    pub(crate) fn are_slow(&self, environment: &Environment) -> bool {
        let clock = environment.clock.as_ref();
        self.disks.iter().any(|disk| disk.flow.is_slow(clock))
    }

    /// True if the disk has more than its reserve.
    fn has_room(&self, index: DiskIndex) -> bool {
        let disk = self.disks.get(usize::from(index));
        disk.is_some_and(|disk| !self.reserve.is_reached(disk.space()))
    }

    /// True if the disk takes writes, and has more than its reserve, as far as is known.
    fn is_roomy(&self, index: DiskIndex, environment: &Environment) -> bool {
        self.has_room(index) && self.is_well(index, environment)
    }

    /// True if the disk has only its reserve, and another one has room, as far as is known.
    pub(crate) fn gives_way(&self, index: DiskIndex, environment: &Environment) -> bool {
        !self.has_room(index) && self.from(0).any(|other| self.is_roomy(other, environment))
    }

    /// All disks, beginning with the one that `spread` selects.
    fn from(&self, spread: u64) -> impl Iterator<Item = DiskIndex> {
        let count = self.disks.len() as u64;
        (0..count).map(move |step| ((spread % count + step) % count) as DiskIndex)
    }
}
