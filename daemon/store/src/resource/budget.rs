// SPDX-License-Identifier: Apache-2.0
//! The memory budget: tails of partitions, and metadata (segment indexes and the things around
//! them).
//!
//! Metadata cannot be written out, so it comes first: the rest of the limit is the *room* for
//! tails. If tails take more than three quarters of the room, one thread writes out the largest
//! tails until they take half of it. If a tail would pass the whole room it does not grow, and its
//! partition is written through to disk. Large segments may take a little less than three quarters,
//! so that they do not start this, and segments of partitions that are on disk already only a
//! quarter.
//!
//! Tails that readers have taken are written out first. They stay in memory for readers that take
//! them again, and count as room if something new would otherwise go to disk because of them.
//!
//! The limit may change while the daemon runs. Data above a new limit is written out as usual; no
//! reader or writer loses memory that it has.

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Part of the limit that metadata may take: above it the store refuses new segments as OVERLOADED.
/// Each application has a share of this part: above its share the store refuses its segments as
/// QUOTA.
const METADATA_PART: (u64, u64) = (3, 4);

/// The last part of the metadata is for applications that have less than a small part of it.
const KEPT_FOR_SMALL: u64 = 32;
const SMALL: u64 = 256;

/// All applications without their shuffles take at most this part of the metadata: names cost
/// nothing to make up.
const APPLICATIONS_PART: u64 = 8;

/// So many applications always have room.
const APPLICATIONS_LEAST: u64 = 64;

/// Part of the limit that tails leave free, for metadata that arrives at the same time.
const SLACK_DIVISOR: u64 = 16;

/// Bytes in use, against a limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: AtomicU64,
    tails: AtomicU64,
    /// Tails that readers have taken.
    read: AtomicU64,
    metadata: AtomicU64,
    /// The part of the metadata that is for names of applications and of removed shuffles.
    names: AtomicU64,
    /// Applications with shuffles.
    tenants: AtomicUsize,
    /// The share of an application in the metadata, and in the room for tails.
    quota_percent: u8,
}

impl Budget {
    pub(crate) fn new(limit: u64, quota_percent: u8) -> Self {
        Self {
            quota_percent,
            limit: limit.into(),
            tails: 0.into(),
            read: 0.into(),
            metadata: 0.into(),
            names: 0.into(),
            tenants: 0.into(),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    /// Returns the rest of the limit, for memory that tails use or have used.
    pub(crate) fn for_pages(&self) -> u64 {
        self.limit().saturating_sub(self.metadata())
    }

    pub(crate) fn metadata(&self) -> u64 {
        self.metadata.load(Relaxed)
    }

    pub(crate) fn names(&self) -> u64 {
        self.names.load(Relaxed)
    }

    pub(super) fn resize_names(&self, before: usize, after: usize) {
        resize(&self.names, before, after);
    }

    pub(crate) fn used(&self) -> u64 {
        self.tails.load(Relaxed) + self.metadata()
    }

    /// Room for tails.
    fn room(&self) -> u64 {
        let limit = self.limit();
        limit.saturating_sub(self.metadata() + limit / SLACK_DIVISOR)
    }

    /// Takes memory for a tail. Returns false if there is none.
    pub(crate) fn try_take_tail(&self, bytes: usize) -> bool {
        let room = self.room();
        self.tails
            .try_update(Relaxed, Relaxed, |tails| {
                Some(tails + bytes as u64).filter(|total| *total <= room)
            })
            .is_ok()
    }

    pub(crate) fn return_tail(&self, bytes: usize) {
        let before = self.tails.fetch_sub(bytes as u64, Relaxed);
        assert!(
            before >= bytes as u64,
            "more tail memory returned than taken"
        );
    }

    /// Counts bytes of tails that readers have taken.
    pub(crate) fn count_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
    }

    /// Uncounts bytes that were counted as read: the tail grows again, or is gone.
    pub(crate) fn uncount_read(&self, bytes: usize) {
        let before = self.read.fetch_sub(bytes as u64, Relaxed);
        assert!(before >= bytes as u64, "more was read than is counted");
    }

    /// Returns the bytes of tails that no reader has taken yet.
    fn unread(&self) -> u64 {
        let tails = self.tails.load(Relaxed);
        tails.saturating_sub(self.read.load(Relaxed))
    }

    /// The most that metadata may take.
    fn metadata_limit(&self) -> u64 {
        let (part, of) = METADATA_PART;
        self.limit() / of * part
    }

    /// The most that the metadata of one application may take.
    pub(super) fn metadata_share(&self) -> u64 {
        self.metadata_limit() / 100 * u64::from(self.quota_percent)
    }

    /// The most that the tails of one application may take while there is hardly any room.
    pub(super) fn tail_share(&self) -> u64 {
        self.room() / 100 * u64::from(self.quota_percent)
    }

    /// True if metadata must not grow any more.
    pub(crate) fn metadata_is_full(&self) -> bool {
        self.metadata() >= self.metadata_limit()
    }

    /// True if metadata takes more than half of what it may take.
    pub(crate) fn is_short_of_metadata(&self) -> bool {
        self.metadata() > self.metadata_limit() / 2
    }

    /// True if an application that has `held` of it may take more metadata.
    pub(super) fn has_metadata_for(&self, held: u64) -> bool {
        let limit = self.metadata_limit();
        let most = match held < limit / SMALL {
            true => limit,
            false => limit - limit / KEPT_FOR_SMALL,
        };
        self.metadata() < most
    }

    pub(super) fn count_tenant(&self) {
        self.tenants.fetch_add(1, Relaxed);
    }

    pub(super) fn uncount_tenant(&self) {
        self.tenants.fetch_sub(1, Relaxed);
    }

    pub(super) fn has_several_tenants(&self) -> bool {
        self.tenants.load(Relaxed) > 1
    }

    /// How many applications may be known, if each takes so many bytes.
    pub(crate) fn applications_most(&self, bytes: usize) -> u64 {
        let most = self.metadata_limit() / APPLICATIONS_PART / bytes as u64;
        most.max(APPLICATIONS_LEAST)
    }

    /// Accounts for metadata that went from `before` bytes to `after`.
    pub(super) fn resize_metadata(&self, before: usize, after: usize) {
        resize(&self.metadata, before, after);
    }

    /// True if tails should be written out.
    pub(crate) fn is_short(&self) -> bool {
        self.tails.load(Relaxed) > self.room() / 4 * 3
    }

    /// True if tails have the room in which they are written out.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.tails.load(Relaxed) > self.room() / 8 * 7
    }

    /// Returns true shortly before unread tails should be written out: a large segment does not
    /// wait for that.
    pub(crate) fn is_nearly_short(&self) -> bool {
        self.unread() > self.room() / 16 * 11
    }

    /// True if there is not plenty.
    pub(crate) fn is_scarce(&self) -> bool {
        self.unread() > self.room() / 4
    }

    /// How much of the tails should be written out once that has begun.
    pub(crate) fn surplus(&self) -> u64 {
        self.tails.load(Relaxed).saturating_sub(self.room() / 2)
    }
}

pub(super) fn resize(metadata: &AtomicU64, before: usize, after: usize) {
    if after >= before {
        metadata.fetch_add((after - before) as u64, Relaxed);
    } else {
        let shrunk = (before - after) as u64;
        let held = metadata.fetch_sub(shrunk, Relaxed);
        assert!(held >= shrunk, "more metadata returned than taken");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_leaves_less_room_for_tails() {
        let budget = Budget::new(1600, 75);
        assert!(budget.try_take_tail(1500));
        assert!(!budget.try_take_tail(1));
        budget.return_tail(1500);
        budget.resize_metadata(0, 1000);
        assert!(!budget.try_take_tail(501));
        assert!(budget.try_take_tail(500));
        assert!(budget.is_short());
        assert_eq!(budget.surplus(), 250);
        budget.return_tail(250);
        assert_eq!(budget.surplus(), 0);
        assert!(!budget.metadata_is_full());
        budget.resize_metadata(1000, 1200);
        assert!(budget.metadata_is_full());
        assert_eq!(budget.used(), 1450);
    }
}
