// SPDX-License-Identifier: Apache-2.0
//! How long the daemon waits for a client that takes none of its answers, or few bytes of them.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lodestone_planted::{self as planted, Bug};
use tokio::select;
use tokio::time::timeout;

use super::socket::writable;
use super::watched::Watched;
use super::{CloseReason, STALL_TIMEOUT};
use crate::service::line::{Hurry, Line};
use crate::service::pool::{Pool, Reserved};

/// The memory for answers that one connection may have. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct AnswerShare {
    /// What it has, or waits for.
    pub(super) wanted: Pool,
    /// What it has.
    held: Pool,
    /// The same of the shares of applications: a connection asks for one as a rule.
    of_applications: Arc<Mutex<Vec<Held>>>,
    /// All memory for answers.
    all: Arc<Line>,
}

/// The line of an application, and what a connection has of its share. That keeps the line: without
/// it the line may be forgotten.
type Held = (Weak<Line>, Pool);

/// What others may want of a client that does not take its answers.
#[derive(Debug)]
pub(super) struct AnswerWait {
    share: AnswerShare,
    /// Others wait for memory of answers.
    hurry: Hurry,
}

impl AnswerShare {
    /// The share that a pool of the connection is of the memory of this line.
    pub(super) fn new(wanted: Pool, all: Arc<Line>) -> Self {
        Self {
            held: wanted.share(1),
            wanted,
            of_applications: Arc::default(),
            all,
        }
    }

    /// True if the connection has memory.
    pub(super) fn is_held(&self) -> bool {
        self.held.used_bytes() > 0
    }

    /// Counts memory that the connection has got, of the share of an application. It is given back
    /// before that of the connection's share, which so has room for it.
    pub(super) fn count(&self, application: Option<Arc<Line>>, bytes: u64) -> Vec<Reserved> {
        let of_application = application.and_then(|line| self.held_of(line).try_reserve(bytes));
        let held = self.held.try_reserve(bytes);
        held.into_iter().chain(of_application).collect()
    }

    /// Returns what the connection has of the share of an application.
    fn held_of(&self, application: Arc<Line>) -> Pool {
        let mut all = self.of_applications();
        all.retain(|(line, held)| held.is_in_use() && line.strong_count() > 0);
        let application = Arc::downgrade(&application);
        match all.iter().find(|(line, _)| line.ptr_eq(&application)) {
            Some((_, held)) => held.clone(),
            None => {
                let held = self.wanted.share(1);
                all.push((application, held.clone()));
                held
            }
        }
    }

    /// True if others wait for what the connection has.
    fn is_wanted(&self) -> bool {
        let is_wanted = |line: &Line, held: &Pool| line.is_wanted() && held.used_bytes() > 0;
        let of_applications = || {
            let all = self.of_applications();
            all.iter().any(|(line, held)| {
                let line = line.upgrade();
                line.is_some_and(|line| is_wanted(&line, held))
            })
        };
        is_wanted(&self.all, &self.held) || of_applications()
    }

    fn of_applications(&self) -> MutexGuard<'_, Vec<Held>> {
        self.of_applications
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerWait {
    /// With a client whose answers take this share of the memory.
    pub(super) fn new(share: AnswerShare) -> Self {
        let hurry = share.all.hurry();
        Self { share, hurry }
    }

    /// With a client for whose memory nobody waits.
    #[cfg(test)]
    pub(super) fn without_others() -> Self {
        Self::new(AnswerShare::new(Pool::new(0), Arc::new(Line::new(0))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_keeps_no_application_of_which_it_has_nothing() {
        const BYTES: u64 = 64 << 10;
        let share = AnswerShare::new(Pool::new(BYTES), Arc::new(Line::new(BYTES)));
        let lines: Vec<_> = (0..3).map(|_| Arc::new(Line::new(BYTES))).collect();
        for line in &lines {
            drop(share.count(Some(Arc::clone(line)), BYTES));
            assert_eq!(Arc::strong_count(line), 1);
        }
        assert_eq!(share.of_applications().len(), 1, "the last one");
    }
}
