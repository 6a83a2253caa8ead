// SPDX-License-Identifier: Apache-2.0
//! Wakes the threads that write data out when memory is short. Each place has one, so that a disk
//! that hangs blocks no other disk's thread, and no client waits for what is written out for all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::locked;

/// How long a thread rests that could write nothing, although memory is short.
const REST: Duration = Duration::from_millis(100);

/// By place: the data directories by their number, and then the directories of executors.
#[derive(Debug)]
pub(crate) struct Shortage {
    places: Vec<Place>,
    is_over: AtomicBool,
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

    /// Returns how many bytes the place is to write out; 0 if it was not called.
    pub(crate) fn take(&self, place: usize) -> u64 {
        let place = self.places.get(place);
        place.map_or(0, |place| place.goal.swap(0, SeqCst))
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
                        woken.send((place, shortage.take(place))).unwrap();
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
        assert_eq!([shortage.take(0), shortage.take(0)], [10, 0]);
        shortage.call(20);
        assert_eq!(shortage.take(0), 20);
        assert_eq!(shortage.take(1), 10);
    }
}
