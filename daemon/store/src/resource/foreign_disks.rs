// SPDX-License-Identifier: Apache-2.0
//! The disks behind the directories that executors name, in the order in which they became known.
//! Their places follow those of the data directories.

use std::sync::Arc;

use super::flow::Flow;
use super::locked;
use crate::fs::Mounts;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The places of executors' disks. The first ones, [`RESTS`], are for all disks without a number:
/// those that no registration was accepted for, those that the table of mounts does not have, and
/// those beyond the limit.
pub const FOREIGN_PLACES: usize = RESTS + NUMBERED_MAX;

/// A disk without a number shares a place with a part of the others: one that hangs does not hold
/// up the first registration on each other disk.
const RESTS: usize = 4;

/// Disks with a place of their own: more than a host has.
const NUMBERED_MAX: usize = 32;

/// Disks that get a number for one application: others need some, too.
pub(crate) const NEW_DISKS_MAX: usize = NUMBERED_MAX / 2;

#[derive(Debug)]
pub(crate) struct ForeignDisks {
    /// Those with a number, which is that of the rests and the index.
    known: Mutex<Vec<Known>>,
    /// By number.
    flows: Vec<Flows>,
}

#[derive(Debug)]
struct Known {
    device: u64,
    used: DiskUse,
}

/// Directories on a disk with a number: as long as there are any, it stays that of the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskUse(Arc<()>);

/// A number that a disk has.
#[derive(Debug)]
pub(crate) struct Numbered {
    pub(crate) number: usize,
    pub(crate) used: DiskUse,
    /// The disk had no number before.
    pub(crate) is_new: bool,
}

/// What is under way on one disk of executors.
#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) writes: Flow,
    /// Looks have turns of their own: a disk that is busy with writes must not make the daemon
    /// refuse the first blocks of partitions.
    pub(crate) looks: Flow,
    /// The lack of room was logged.
    is_known_to_be_low: AtomicBool,
}

impl Flows {
    fn are_idle(&self) -> bool {
        self.writes.is_idle() && self.looks.is_idle()
    }
}

impl ForeignDisks {
    /// `disks`: the number of data directories.
    pub(crate) fn new(disks: usize) -> Self {
        let flows = || Flows {
            writes: Flow::new(disks),
            looks: Flow::new(1),
            is_known_to_be_low: false.into(),
        };
        let flows = std::iter::repeat_with(flows);
        Self {
            known: Mutex::default(),
            flows: flows.take(FOREIGN_PLACES).collect(),
        }
    }

    /// Returns the number of a disk, or of the rest that it is in.
    pub(crate) fn number(&self, device: Option<u64>) -> usize {
        let known = locked(&self.known);
        let at = known.iter().position(|one| Some(one.device) == device);
        at.map_or_else(|| rest_of(device), |at| RESTS + at)
    }

    /// Returns the number of a disk with a directory whose registration is accepted: others must
    /// not use the numbers up. A disk `may_be_new`, and then gets one. `None` if it has none.
    pub(crate) fn take(&self, device: u64, may_be_new: bool, mounts: &Mounts) -> Option<Numbered> {
        let mut known = locked(&self.known);
        let at = known.iter().position(|one| one.device == device);
        let is_new = at.is_none();
        let at = match at {
            Some(at) => at,
            None if may_be_new => self.give(&mut known, device, mounts)?,
            None => return None,
        };
        let used = known.get(at)?.used.clone();
        Some(Numbered {
            number: RESTS + at,
            used,
            is_new,
        })
    }

    /// Gives a disk a number: a new one, or that of a disk which was unmounted.
    fn give(&self, known: &mut Vec<Known>, device: u64, mounts: &Mounts) -> Option<usize> {
        let one = Known {
            device,
            used: DiskUse::default(),
        };
        if known.len() < NUMBERED_MAX {
            known.push(one);
            return Some(known.len() - 1);
        }
        let mut numbered = known.iter().zip(self.flows.iter().skip(RESTS));
        let at = numbered.position(|(other, flows)| {
            let is_used = Arc::strong_count(&other.used.0) > 1;
            !is_used && flows.are_idle() && !mounts.has(other.device)
        })?;
        *known.get_mut(at)? = one;
        Some(at)
    }

    /// Returns the device of the disk of this number.
    pub(crate) fn device(&self, number: usize) -> Option<u64> {
        let known = locked(&self.known);
        known.get(number.checked_sub(RESTS)?).map(|one| one.device)
    }

    pub(crate) fn flows(&self, number: usize) -> &Flows {
        match self.flows.get(number) {
            Some(flows) => flows,
            None => unreachable!("there is no place of number {number}"),
        }
    }

    /// Returns true if it is not known yet that a disk has room, or that it has none. Several disks
    /// share one of the first places: that one of them has room again is never news.
    pub(crate) fn is_news(&self, number: usize, is_low: bool) -> bool {
        let known = &self.flows(number).is_known_to_be_low;
        is_low != known.load(Relaxed)
            && (is_low || number >= RESTS)
            && is_low != known.swap(is_low, Relaxed)
    }

    /// Returns how many places are in use.
    pub(crate) fn in_use(&self) -> usize {
        RESTS + locked(&self.known).len()
    }
}

/// Returns the number that a disk without a number shares. The numbers of disks are often multiples
/// of 16.
fn rest_of(device: Option<u64>) -> usize {
    let mixed = device.map_or(0, |device| device.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ((mixed >> 32) as usize * RESTS) >> 32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_accepted_disk_has_a_number_and_all_others_share_some() {
        let (disks, mounts) = (ForeignDisks::new(1), Mounts::default());
        for device in 0..1_000 {
            assert!(disks.number(Some(device)) < RESTS);
            assert!(disks.take(device, false, &mounts).is_none());
        }
        assert_eq!(disks.in_use(), RESTS, "who is refused gets no number");
        let mut uses = Vec::new();
        for device in 0..NUMBERED_MAX as u64 {
            let number = RESTS + device as usize;
            let numbered = disks.take(device, true, &mounts).unwrap();
            assert_eq!((numbered.number, numbered.is_new), (number, true));
            assert!(!disks.take(device, true, &mounts).unwrap().is_new);
            assert_eq!(disks.number(Some(device)), number);
            assert_eq!(disks.device(number), Some(device));
            uses.push(numbered.used);
        }
        assert!(disks.take(1_000, true, &mounts).is_none());
        assert!(disks.number(Some(1_000)) < RESTS);
        assert_eq!(disks.device(0), None);
        assert_eq!(disks.in_use(), FOREIGN_PLACES);
    }

    #[test]
    fn a_disk_gets_the_number_of_one_that_is_unmounted_and_not_used() {
        let disks = ForeignDisks::new(1);
        let devices = 0..NUMBERED_MAX as u64;
        let mounts = |without: u64| {
            let rest = devices.clone().filter(|device| *device != without);
            Mounts::new(rest.map(|device| (format!("/data{device}").into(), device)))
        };
        let all = mounts(1_000);
        let take = |device, mounts: &Mounts| disks.take(device, true, mounts);
        let mut uses: Vec<_> = devices.clone().map(|device| take(device, &all)).collect();
        assert!(take(1_000, &mounts(7)).is_none(), "directories are known");
        uses.clear();
        assert!(take(1_000, &all).is_none(), "all of them are mounted");
        let clock = crate::resource::clock::ManualClock::default();
        let hanging = disks.flows(RESTS + 7).looks.begin(&clock);
        assert!(take(1_000, &mounts(7)).is_none(), "a thread hangs there");
        drop(hanging);
        let numbered = take(1_000, &mounts(7)).unwrap();
        assert_eq!(numbered.number, RESTS + 7);
        assert_eq!(disks.device(RESTS + 7), Some(1_000));
        assert!(disks.number(Some(7)) < RESTS);
    }

    #[test]
    fn an_operator_hears_once_when_a_disk_gets_full_and_again_when_it_has_room_and_gets_full() {
        let disks = ForeignDisks::new(1);
        let news = [true, true, false, false, true].map(|is_low| disks.is_news(RESTS, is_low));
        assert_eq!(news, [true, false, true, false, true]);
        // Disks that share a place may take turns with every push.
        let news = [true, false, true, false].map(|is_low| disks.is_news(0, is_low));
        assert_eq!(news, [true, false, false, false]);
    }

    #[test]
    fn a_disk_without_a_number_shares_a_place_with_few_disks_of_a_host() {
        let disks = ForeignDisks::new(1);
        // Disks sda, sdb, and so on.
        let devices = (0..12).map(|disk| (8 << 32) | (16 * disk));
        let places: Vec<_> = devices.map(|device| disks.number(Some(device))).collect();
        let all: BTreeSet<_> = places.iter().collect();
        assert_eq!(all.len(), RESTS, "{places:?}");
    }
}
