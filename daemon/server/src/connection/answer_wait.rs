// SPDX-License-Identifier: Apache-2.0
//! How long the daemon waits for a client that takes none of its answers, or few bytes of them.

use std::future::pending;
use std::time::Duration;

use lodestone_planted::{self as planted, Bug};
use tokio::select;
use tokio::time::timeout;

use super::socket::writable;
use super::watched::Watched;
use super::{CloseReason, STALL_TIMEOUT};
use crate::service::clock;
use crate::service::line::Hurry;
use crate::service::pool::{Pool, Reserved};

/// The memory for answers that one connection may have. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct AnswerShare {
    /// What it has, or waits for.
    pub(super) wanted: Pool,
    /// What it has.
    held: Pool,
}

/// What others may want of a client that does not take its answers.
#[derive(Debug)]
pub(super) struct AnswerWait {
    share: AnswerShare,
    /// Others wait for memory of answers.
    hurry: Hurry,
}

impl AnswerShare {
    /// The share that a pool of the connection is.
    pub(super) fn new(wanted: Pool) -> Self {
        let held = wanted.share(1);
        Self { wanted, held }
    }

    /// Counts memory that the connection has got. It is given back before that of the share, which
    /// so has room for it.
    pub(super) fn count(&self, bytes: u64) -> Option<Reserved> {
        self.held.try_reserve(bytes)
    }
}

impl AnswerWait {
    /// With a client whose answers take this share of the memory that `hurry` is of.
    pub(super) fn new(share: AnswerShare, hurry: Hurry) -> Self {
        Self { share, hurry }
    }

    /// With a client for whose memory nobody waits.
    #[cfg(test)]
    pub(super) fn without_others() -> Self {
        use crate::service::line::Line;
        Self::new(AnswerShare::new(Pool::new(0)), Line::new(0).hurry())
    }

    /// Waits until the client takes bytes again, with a time-out. A slow client has less time if it
    /// holds memory for which others wait.
    pub(super) async fn writable(&mut self, socket: &Watched) -> Result<(), CloseReason> {
        let longest = match planted::is(Bug::StalledAnswerKept) {
            true => Duration::MAX,
            false => STALL_TIMEOUT,
        };
        let writable = socket.wait_to_send(timeout(longest, writable(socket)));
        select! {
            biased;
            writable = writable => match writable {
                Ok(writable) => writable.map_err(CloseReason::Socket),
                Err(_) => Err(CloseReason::StalledAnswer),
            },
            () = self.others_wait_for(socket) => Err(CloseReason::SlowAnswer),
        }
    }

    /// Returns when others wait for the memory of a slow client. They say so again and again.
    async fn others_wait_for(&mut self, socket: &Watched) {
        while self.hurry.changed().await.is_ok() {
            // Perhaps nobody waits any more.
            let is_now = clock::now() <= self.hurry.borrow_and_update().until;
            if is_now && self.share.held.used_bytes() > 0 && socket.takes_slowly() {
                return;
            }
        }
        // The daemon ends: nobody waits any more.
        pending().await
    }
}
