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
use crate::service::connection_share::ConnectionShare;
use crate::service::line::Hurry;
#[cfg(test)]
use crate::service::shared_pool::SharedPool;

/// What others may want of a client that does not take its answers.
#[derive(Debug)]
pub(super) struct AnswerWait {
    share: ConnectionShare,
    /// Others wait for memory of answers.
    hurry: Hurry,
}

impl AnswerWait {
    /// With a client whose answers take this share of the memory.
    pub(super) fn new(share: ConnectionShare) -> Self {
        let hurry = share.hurry();
        Self { share, hurry }
    }

    /// With a client for whose memory nobody waits.
    #[cfg(test)]
    pub(super) fn without_others() -> Self {
        Self::new(SharedPool::new(0).connection_share(1))
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

    /// Returns when others wait for the memory of a slow client. They say so again and again, and
    /// not to which share of an application they belong.
    async fn others_wait_for(&mut self, socket: &Watched) {
        while self.hurry.changed().await.is_ok() {
            if socket.takes_slowly() && self.share.is_wanted() {
                return;
            }
        }
        // The daemon ends: nobody waits any more.
        pending().await
    }
}
