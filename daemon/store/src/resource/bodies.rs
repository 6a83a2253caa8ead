// SPDX-License-Identifier: Apache-2.0
//! The bodies of pushes that wait in the store. Each takes memory of its application's share, and
//! a disk that hangs must not take all of a share: other disks need the rest. Those that write
//! there cannot be helped ([`Flow`] bounds them). Those that wait for locks meanwhile give up.
//!
//! [`Flow`]: super::flow::Flow

use super::Environment;
use super::disk::Disks;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of the bodies of pushes that wait for locks while a disk is slow.
#[derive(Debug)]
pub(crate) struct Bodies {
    bytes_max: u64,
    bytes: AtomicU64,
}

/// The body of one push.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    bodies: &'a Bodies,
    disks: &'a Disks,
    environment: &'a Environment,
    bytes: u64,
}

/// A long wait of a push for a lock.
#[derive(Debug)]
pub(crate) struct BodyWait<'a> {
    of: &'a Body<'a>,
    is_counted: bool,
}

impl Bodies {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: 0.into(),
        }
    }

    /// Returns the body of a push. `None` if bodies have no limit.
    pub(crate) fn of<'a>(
        &'a self,
        disks: &'a Disks,
        environment: &'a Environment,
        bytes: u64,
    ) -> Option<Body<'a>> {
        (self.bytes_max < u64::MAX).then_some(Body {
            bodies: self,
            disks,
            environment,
            bytes,
        })
    }
}

impl Body<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn begin_wait(&self) -> BodyWait<'_> {
        BodyWait {
            of: self,
            is_counted: false,
        }
    }
}

impl BodyWait<'_> {
    /// True if its push may go on waiting. It is not known which disk holds up a lock: while any is
    /// slow, only so many bytes wait.
    pub(crate) fn goes_on(&mut self) -> bool {
        let Body { bodies, bytes, .. } = *self.of;
        if self.is_counted || !self.of.disks.are_slow(self.of.environment) {
            return true;
        }
        let more = |held: u64| (held < bodies.bytes_max).then_some(held + bytes);
        self.is_counted = bodies.bytes.try_update(Relaxed, Relaxed, more).is_ok();
        self.is_counted
    }
}

impl Drop for BodyWait<'_> {
    fn drop(&mut self) {
        if self.is_counted {
            self.of.bodies.bytes.fetch_sub(self.of.bytes, Relaxed);
        }
    }
}
