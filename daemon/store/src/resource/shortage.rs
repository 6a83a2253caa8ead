// SPDX-License-Identifier: Apache-2.0
//! Wakes the threads that write data out: when memory is short, and when the daemon is drained or
//! ends. Each place has one, so that a disk that hangs blocks no other disk's thread, and no client
//! waits for what is written out for all.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::locked;

/// How long a thread rests that could write nothing, although memory is short.
const REST: Duration = Duration::from_millis(100);

/// The goal of a place that is to write out whatever exists nowhere else.
const EVERYTHING: u64 = u64::MAX;

/// By place: the data directories by their number, and then the directories of executors.
#[derive(Debug)]
pub(crate) struct Shortage {
    places: Vec<Place>,
    /// After a step towards everything comes the next one.
    wants_everything: AtomicBool,
    round: Mutex<Round>,
    stepped: Condvar,
    is_over: AtomicBool,
}

/// What a thread is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// So many bytes of memory; 0 if it was not called.
    Memory(u64),
    /// A step of what exists nowhere else.
    Everything,
}

/// A step of every data directory, towards everything.
#[derive(Debug, Default)]
struct Round {
    /// The places that have not done their step.
    left: BTreeSet<usize>,
    freed: u64,
}

/// What is known of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A place is not done: its disk is slow, or hangs.
    Waits,
    /// All did their step, and so many bytes left memory.
    Freed(u64),
}

#[derive(Debug, Default)]
struct Place {
    /// Bytes that its thread is to write out; 0 if it is not called.
    goal: AtomicU64,
    turn: Mutex<()>,
    called: Condvar,
}

impl Shortage {
    pub(crate) fn new(disks: usize) -> Self {
        Self {
            places: (0..=disks).map(|_| Place::default()).collect(),
            wants_everything: false.into(),
            round: Mutex::default(),
            stepped: Condvar::new(),
            is_over: false.into(),
        }
    }

    /// Calls the threads that have nothing to do: the disks share these bytes. Pushes call this
    /// while memory is short: it costs a look at each place.
    pub(crate) fn call(&self, bytes: u64) {
        let disks = self.places.len().saturating_sub(1).max(1) as u64;
        let share = bytes.div_ceil(disks);
        for place in &self.places {
            let is_idle = place.goal.load(SeqCst) == 0;
            if is_idle && share > 0 && place.goal.swap(share, SeqCst) == 0 {
                place.wake();
            }
        }
    }

    /// Calls the threads of the data directories for everything: each does one step after another,
    /// as long as that frees memory.
    pub(crate) fn call_for_everything(&self) {
        self.wants_everything.store(true, SeqCst);
        let data_directories = self.places.len().saturating_sub(1);
        *locked(&self.round) = Round {
            left: (0..data_directories).collect(),
            freed: 0,
        };
        for place in self.places.iter().take(data_directories) {
            place.goal.store(EVERYTHING, SeqCst);
            place.wake();
        }
    }

    /// Each thread that was called for everything ends with the step that it does now.
    pub(crate) fn call_off(&self) {
        self.wants_everything.store(false, SeqCst);
        for place in &self.places {
            let _ = place.goal.compare_exchange(EVERYTHING, 0, SeqCst, SeqCst);
        }
    }

    /// A place did its step, and so many bytes left memory.
    pub(crate) fn count_step(&self, place: usize, freed: u64) {
        if freed > 0
            && self.wants_everything.load(SeqCst)
            && let Some(place) = self.places.get(place)
        {
            place.goal.store(EVERYTHING, SeqCst);
        }
        let mut round = locked(&self.round);
        round.left.remove(&place);
        round.freed += freed;
        drop(round);
        self.stepped.notify_all();
    }

    /// Waits until all places did the step that they were last called for, or for this long.
    pub(crate) fn wait_for_steps(&self, limit: Duration) -> Outcome {
        let waits = |round: &mut Round| !round.left.is_empty();
        let waited = self
            .stepped
            .wait_timeout_while(locked(&self.round), limit, waits);
        let (round, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match round.left.is_empty() {
            true => Outcome::Freed(round.freed),
            false => Outcome::Waits,
        }
    }

    /// Returns what the place was called for since it was last asked.
    pub(crate) fn take(&self, place: usize) -> Goal {
        let place = self.places.get(place);
        match place.map_or(0, |place| place.goal.swap(0, SeqCst)) {
            EVERYTHING => Goal::Everything,
            bytes => Goal::Memory(bytes),
        }
    }

    /// Waits for a call. Returns false when no thread is to write any more.
    pub(crate) fn wait(&self, place: usize) -> bool {
        let Some(place) = self.places.get(place) else {
            return false;
        };
        let waits = |_: &mut ()| place.goal.load(SeqCst) == 0 && !self.is_over.load(SeqCst);
        let waited = place.called.wait_while(locked(&place.turn), waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        !self.is_over.load(SeqCst)
    }

    /// Lets a thread rest for a moment.
    pub(crate) fn rest(&self, place: usize) {
        if let Some(place) = self.places.get(place) {
            let rests = |_: &mut ()| !self.is_over.load(SeqCst);
            let rested = place
                .called
                .wait_timeout_while(locked(&place.turn), REST, rests);
            drop(rested.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Makes all threads end, each after its write.
    pub(crate) fn end(&self) {
        self.is_over.store(true, SeqCst);
        self.places.iter().for_each(Place::wake);
    }
}

impl Place {
    fn wake(&self) {
        let _turn = locked(&self.turn);
        self.called.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_call_wakes_the_thread_of_each_place_also_if_it_did_not_wait_yet() {
        let shortage = Shortage::new(2);
        let (woken, wakes) = mpsc::channel();
        shortage.call(4);
        thread::scope(|scope| {
            for place in 0..3 {
                let (shortage, woken) = (&shortage, woken.clone());
                scope.spawn(move || {
                    while shortage.wait(place) {
                        let Goal::Memory(bytes) = shortage.take(place) else {
                            panic!("it was called for memory");
                        };
                        woken.send((place, bytes)).unwrap();
                    }
                });
            }
            for bytes in 4..100 {
                let mut all: Vec<_> = wakes.iter().take(3).collect();
                all.sort_unstable();
                let share = u64::div_ceil(bytes, 2);
                assert_eq!(all, [(0, share), (1, share), (2, share)]);
                shortage.call(bytes + 1);
            }
            assert_eq!(wakes.iter().take(3).count(), 3);
            shortage.end();
        });
        assert!(wakes.try_recv().is_err());
        shortage.call(1);
        assert!(!shortage.wait(0), "it is over");
    }

    #[test]
    fn a_thread_that_was_called_is_not_called_again_before_it_has_taken_the_call() {
        let shortage = Shortage::new(1);
        shortage.call(10);
        shortage.call(20);
        assert_eq!(
            [0, 0].map(|place| shortage.take(place)),
            [10, 0].map(Goal::Memory)
        );
        shortage.call(20);
        assert_eq!(
            [0, 1].map(|place| shortage.take(place)),
            [20, 10].map(Goal::Memory)
        );
    }

    #[test]
    fn each_data_directory_does_one_step_after_another_until_it_is_called_off() {
        let shortage = Shortage::new(2);
        shortage.call(10);
        shortage.call_for_everything();
        let taken = [0, 1, 2].map(|place| shortage.take(place));
        assert_eq!(taken, [Goal::Everything, Goal::Everything, Goal::Memory(5)]);
        shortage.count_step(1, 7);
        assert_eq!(shortage.take(1), Goal::Everything, "its next step");
        assert_eq!(shortage.wait_for_steps(Duration::ZERO), Outcome::Waits);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| shortage.wait_for_steps(Duration::from_secs(600)));
            shortage.call_off();
            shortage.count_step(0, 2);
            assert_eq!(shortage.take(0), Goal::Memory(0));
            assert_eq!(waiting.join().unwrap(), Outcome::Freed(9));
        });
    }
}
