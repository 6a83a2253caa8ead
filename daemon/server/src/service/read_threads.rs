// SPDX-License-Identifier: Apache-2.0
//! Threads that send chunks from one place, and the line of work for them.
//!
//! To wake a thread for a small chunk takes about as long as to send the chunk, if its bytes are in
//! the page cache. So a thread takes all work that waits before it ends, and few others are woken
//! meanwhile. But a thread may wait for its disk, or hang in it: work that waits for longer than a
//! moment gets a thread.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// As long as no more work waits for each thread, no other thread begins.
const WAITING: usize = 2;

/// Work that waits for longer gets another thread: those that are there wait for the disk. As short
/// as the clock of the runtime allows.
const MOMENT: Duration = Duration::from_millis(1);

type Work = Box<dyn FnOnce() + Send>;

/// The threads of one place.
#[derive(Debug, Default)]
pub(super) struct ReadThreads(Mutex<State>);

/// While work waits, there is a thread.
#[derive(Default)]
struct State {
    /// Each has its turn in the lane, which limits their number, and that of the threads.
    waiting: VecDeque<Work>,
    threads: usize,
    /// How many of the threads have not run yet. On a busy host a wake takes longer than a moment.
    beginning: usize,
}

/// A bug of ours ended the work.
#[derive(Debug)]
pub struct Panicked;

impl ReadThreads {
    /// Carries out work on one of the threads. It is carried out also if nobody waits for it any
    /// more.
    pub(super) async fn carry_out<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let (sender, mut done) = oneshot::channel();
        self.add(Box::new(move || {
            // The thread goes on with the work of others.
            if let Ok(done) = catch_unwind(AssertUnwindSafe(work)) {
                let _ = sender.send(done);
            }
        }));
        loop {
            match timeout(MOMENT, &mut done).await {
                Ok(done) => return done.map_err(|_| Panicked),
                Err(_) if self.helps() => {}
                Err(_) => return done.await.map_err(|_| Panicked),
            }
        }
    }

    fn add(self: &Arc<Self>, work: Work) {
        let mut state = self.state();
        state.waiting.push_back(work);
        if state.waiting.len() > WAITING * state.threads {
            self.begin(state);
        }
    }

    /// Begins another thread, unless there will be one for each work that waits. Returns false if
    /// none waits.
    fn helps(self: &Arc<Self>) -> bool {
        let state = self.state();
        let waiting = state.waiting.len();
        if waiting > state.beginning {
            self.begin(state);
        }
        waiting > 0
    }

    fn begin(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        state.threads += 1;
        state.beginning += 1;
        drop(state);
        let threads = Arc::clone(self);
        spawn_blocking(move || {
            threads.state().beginning -= 1;
            while let Some(work) = threads.next() {
                work();
            }
        });
    }

    /// The next work for a thread, which ends if there is none.
    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        state.threads -= usize::from(next.is_none());
        next
    }

    /// No call panics while it holds the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, threads) = (self.waiting.len(), self.threads);
        let beginning = self.beginning;
        write!(
            f,
            "{waiting} waiting, {threads} threads, {beginning} beginning"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::{JoinHandle, JoinSet};

    use super::*;
    use crate::service::clock;

    const LONGEST: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_read_that_hangs_holds_up_no_other_read_from_its_disk() {
        let threads = Arc::new(ReadThreads::default());
        let (release, hanging) = begun(&threads, || ()).await;
        for round in 0..3 {
            let others = timeout(LONGEST, threads.carry_out(move || round));
            let done = others.await.map(|done| done.is_ok_and(|at| at == round));
            assert_eq!(done.ok(), Some(true), "round {round}");
        }
        release.send(()).unwrap();
        assert!(hanging.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_host_that_wakes_no_threads_gets_no_more_of_them_than_work_waits() {
        let threads = Arc::new(ReadThreads::default());
        let (release, hanging) = begun(&threads, || ()).await;
        threads.state().waiting.push_back(Box::new(|| ()));
        threads.state().beginning = 1;
        for _ in 0..10 {
            assert!(threads.helps(), "work waits");
        }
        assert_eq!(threads.state().threads, 1, "others were woken");
        threads.state().beginning = 0;
        release.send(()).unwrap();
        assert!(hanging.await.unwrap().is_ok());
    }

    /// Begins work that waits for a message before it ends.
    async fn begun<T: Send + 'static>(
        threads: &Arc<ReadThreads>,
        end: impl FnOnce() -> T + Send + 'static,
    ) -> (mpsc::Sender<()>, JoinHandle<Result<T, Panicked>>) {
        let (go_on, waits) = mpsc::channel::<()>();
        let (begun, began) = oneshot::channel();
        let work = move || {
            begun.send(()).ok();
            waits.recv().ok();
            end()
        };
        let of_disk = Arc::clone(threads);
        let working = tokio::spawn(async move { of_disk.carry_out(work).await });
        began.await.unwrap();
        (go_on, working)
    }

    /// The time stands still as long as a thread is at work.
    #[tokio::test(start_paused = true)]
    async fn chunks_that_are_asked_for_together_wake_no_thread_for_each() {
        let threads = Arc::new(ReadThreads::default());
        let (go_on, first) = begun(&threads, || ()).await;
        let mut others = JoinSet::new();
        for _ in 0..WAITING {
            let of_disk = Arc::clone(&threads);
            others.spawn(async move { of_disk.carry_out(|| ()).await.is_ok() });
        }
        tokio::task::yield_now().await;
        assert_eq!(threads.state().threads, 1, "another one was woken");
        go_on.send(()).unwrap();
        assert!(first.await.unwrap().is_ok());
        assert_eq!(others.join_all().await, [true; WAITING]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bug_in_one_read_does_not_hold_up_those_behind_it() {
        let threads = Arc::new(ReadThreads::default());
        let (go_on, ended) = begun::<()>(&threads, || panic!("a bug")).await;
        let of_disk = Arc::clone(&threads);
        let behind = tokio::spawn(async move { of_disk.carry_out(|| ()).await.is_ok() });
        tokio::task::yield_now().await;
        let before = clock::now();
        go_on.send(()).unwrap();
        assert!(ended.await.unwrap().is_err() && behind.await.unwrap());
        assert_eq!(clock::now() - before, Duration::ZERO, "it waited");
    }
}
