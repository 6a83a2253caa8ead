// SPDX-License-Identifier: Apache-2.0
//! A partition as an entry of the handover.

use std::sync::Arc;

use lodestone_model::{Code, ReduceId};
use lodestone_planted::{self as planted, Bug};
use serde::{Deserialize, Serialize};

use super::extents::Extents;
use super::partition::{Inner, Partition};
use super::write_out::{OwnFile, Writer};
use crate::index::kind::Kind;
use crate::index::segment::Segments;
use crate::resource::Resources;
use crate::resource::account::Account;
use crate::resource::home::Home;
use crate::resource::timed_mutex::ShutdownDeadline;

/// A partition of which nothing is in memory.
#[derive(Serialize, Deserialize)]
pub(crate) struct PartitionEntry {
    reduce: u32,
    own: Option<OwnFile>,
    extents: Extents,
    segments: Segments,
}

impl PartitionEntry {
    pub(crate) fn reduce(&self) -> ReduceId {
        ReduceId(self.reduce)
    }

    /// True if a daemon with so many disks may have all of its bytes in its files.
    pub(crate) fn is_sound(&self, disks: usize) -> bool {
        self.extents.are_sound(disks) && self.own.is_none_or(|own| own.is_sound(disks))
    }
}

impl Partition {
    /// Writes out the data in memory, and returns the entry. OVERLOADED if another thread holds the
    /// lock for too long.
    pub(crate) fn to_entry(
        &self,
        resources: &Resources,
        deadline: &ShutdownDeadline,
    ) -> Result<PartitionEntry, Code> {
        let lock = || self.lock_before(deadline);
        if !planted::is(Bug::HandoverWithoutMemory) {
            self.write_out_locking(resources, Writer::Request { body: None }, lock)?;
        }
        let inner = lock()?;
        Ok(PartitionEntry {
            reduce: self.reduce().0,
            own: inner.own,
            extents: inner.extents.clone(),
            segments: inner.segments.clone(),
        })
    }

    /// Returns the partition that the entry describes.
    pub(crate) fn from_entry(
        entry: PartitionEntry,
        home: Arc<Home>,
        account: Arc<Account>,
    ) -> Self {
        let partition = Self::new(ReduceId(entry.reduce), Kind::Remote, home, account);
        if let Ok(mut inner) = partition.lock() {
            inner.restore(entry);
            partition.update_index_hints(&inner);
            partition.account().resize(0, inner.index_bytes());
        }
        partition
    }
}

impl Inner {
    fn restore(&mut self, entry: PartitionEntry) {
        self.on_file = entry.segments.len();
        self.segments = entry.segments;
        self.segments.complete_offsets();
        self.extents = entry.extents;
        self.own = entry.own;
    }
}
