// SPDX-License-Identifier: Apache-2.0
//! Wakes the threads that write data out: when memory is short, and when the store is drained or
//! ends. Each place has one, so that a disk that hangs blocks no other disk's thread, and no client
//! waits for what is written out for all.

use std::sync::PoisonError;
use std::time::Duration;

use super::locked;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use crate::sync::{Condvar, Mutex};

/// How long a thread rests that could write nothing, although memory is short.
const REST: Duration = Duration::from_millis(100);

/// By place: the data directories by their number, and then the directories of executors.
#[derive(Debug)]
pub(crate) struct WriteCalls {
    places: Vec<Place>,
    /// The call to write out everything, of each data directory.
    for_all: Mutex<Vec<Call>>,
    /// No place is called for everything any more.
    all_done: Condvar,
    /// There are threads that serve the places.
    is_served: AtomicBool,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Place {
    /// Bytes that its thread is to write out because memory is short; 0 if it is not called.
    goal: AtomicU64,
    turn: Mutex<()>,
    called: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Call {
    /// The thread begins a step, or another one after that in work.
    is_open: bool,
    is_in_work: bool,
    /// The step in work is repeated if something left memory.
    repeats: bool,
}

/// A place works on a call for everything, until this is dropped.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    calls: &'a WriteCalls,
    place: usize,
    /// Bytes that left memory. The place is called again if it is not 0.
    pub(crate) freed: u64,
}

impl WriteCalls {
    pub(crate) fn new(disks: usize) -> Self {
        Self {
            places: (0..=disks).map(|_| Place::default()).collect(),
            for_all: Mutex::new(vec![Call::default(); disks]),
            all_done: Condvar::new(),
            is_served: false.into(),
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

    /// Calls the threads of the data directories to write out everything that they can.
    pub(crate) fn call_for_all(&self) {
        for call in locked(&self.for_all).iter_mut() {
            call.is_open = true;
        }
        self.places.iter().for_each(Place::wake);
    }

    /// Takes back the call for everything. Steps that are in work are the last ones.
    pub(crate) fn call_off(&self) {
        let mut for_all = locked(&self.for_all);
        for call in for_all.iter_mut() {
            (call.is_open, call.repeats) = (false, false);
        }
        self.tell_if_done(&for_all);
    }

    /// Waits until no thread can write more of what they were last called for, for `limit` at the
    /// most. Returns true if that is so. Without threads there is nothing to wait for.
    pub(crate) fn wait_until_done(&self, limit: Duration) -> bool {
        if !self.is_served.load(SeqCst) || self.is_over() {
            return false;
        }
        let waited = self
            .all_done
            .wait_timeout_while(locked(&self.for_all), limit, |calls| !are_done(calls));
        are_done(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// The places have threads from now on.
    pub(crate) fn begin(&self) {
        self.is_served.store(true, SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Returns how many bytes the place is to write out; 0 if it was not called.
    pub(crate) fn take(&self, place: usize) -> u64 {
        let place = self.places.get(place);
        place.map_or(0, |place| place.goal.swap(0, SeqCst))
    }

    /// Begins a step if the place was called to write out everything.
    pub(crate) fn take_all(&self, place: usize) -> Option<Step<'_>> {
        let mut calls = locked(&self.for_all);
        let call = calls.get_mut(place).filter(|call| call.is_open)?;
        *call = Call {
            is_open: false,
            is_in_work: true,
            repeats: true,
        };
        Some(Step {
            calls: self,
            place,
            freed: 0,
        })
    }

    /// Waits for a call. Returns false when no thread is to write any more.
    pub(crate) fn wait(&self, place: usize) -> bool {
        let (at, Some(place)) = (place, self.places.get(place)) else {
            return false;
        };
        let waits = |_: &mut ()| {
            let is_called = place.goal.load(SeqCst) != 0 || self.is_called_for_all(at);
            !is_called && !self.is_over()
        };
        let waited = place.called.wait_while(locked(&place.turn), waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        !self.is_over()
    }

    /// Lets a thread rest for a moment, or until it is called to write out everything.
    pub(crate) fn rest(&self, place: usize) {
        let (at, Some(place)) = (place, self.places.get(place)) else {
            return;
        };
        let rests = |_: &mut ()| !self.is_called_for_all(at) && !self.is_over();
        let rested = place
            .called
            .wait_timeout_while(locked(&place.turn), REST, rests);
        drop(rested.unwrap_or_else(PoisonError::into_inner));
    }

    /// Makes all threads end, each after its write.
    pub(crate) fn end(&self) {
        self.is_over.store(true, SeqCst);
        self.places.iter().for_each(Place::wake);
    }

    fn is_called_for_all(&self, place: usize) -> bool {
        let for_all = locked(&self.for_all);
        for_all.get(place).is_some_and(|call| call.is_open)
    }

    fn tell_if_done(&self, calls: &[Call]) {
        if are_done(calls) {
            self.all_done.notify_all();
        }
    }
}

fn are_done(calls: &[Call]) -> bool {
    !calls.iter().any(|call| call.is_open || call.is_in_work)
}

impl Place {
    fn wake(&self) {
        let _turn = locked(&self.turn);
        self.called.notify_all();
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        let mut calls = locked(&self.calls.for_all);
        if let Some(call) = calls.get_mut(self.place) {
            call.is_in_work = false;
            call.is_open |= call.repeats && self.freed > 0;
        }
        self.calls.tell_if_done(&calls);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_call_wakes_the_thread_of_each_place_also_if_it_did_not_wait_yet() {
        let calls = WriteCalls::new(2);
        let (woken, wakes) = mpsc::channel();
        calls.call(4);
        thread::scope(|scope| {
            for place in 0..3 {
                let (calls, woken) = (&calls, woken.clone());
                scope.spawn(move || {
                    while calls.wait(place) {
                        woken.send((place, calls.take(place))).unwrap();
                    }
                });
            }
            for bytes in 4..100 {
                let mut all: Vec<_> = wakes.iter().take(3).collect();
                all.sort_unstable();
                let share = u64::div_ceil(bytes, 2);
                assert_eq!(all, [(0, share), (1, share), (2, share)]);
                calls.call(bytes + 1);
            }
            assert_eq!(wakes.iter().take(3).count(), 3);
            calls.end();
        });
        assert!(wakes.try_recv().is_err());
        calls.call(1);
        assert!(!calls.wait(0), "it is over");
    }

    #[test]
    fn a_thread_that_was_called_is_not_called_again_before_it_has_taken_the_call() {
        let calls = WriteCalls::new(1);
        calls.call(10);
        calls.call(20);
        assert_eq!([calls.take(0), calls.take(0)], [10, 0]);
        calls.call(20);
        assert_eq!(calls.take(0), 20);
        assert_eq!(calls.take(1), 10);
    }

    #[test]
    fn a_place_that_was_called_for_everything_works_until_a_step_frees_nothing() {
        let calls = WriteCalls::new(2);
        assert!(calls.take_all(0).is_none());
        calls.call_for_all();
        for freed in [7, 5, 0] {
            calls.take_all(0).unwrap().freed = freed;
        }
        assert!(calls.take_all(0).is_none());
        assert!(!are_done(&locked(&calls.for_all)), "the other place");
        let mut step = calls.take_all(1).unwrap();
        step.freed = 7;
        calls.call_for_all();
        calls.call_off();
        assert!(calls.take_all(0).is_none());
        assert!(calls.take_all(2).is_none(), "of executors");
        drop(step);
        assert!(are_done(&locked(&calls.for_all)), "it is called off");
    }

    /// Ends the threads also if an assertion fails before.
    struct End<'a>(&'a WriteCalls);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }

    #[test]
    fn who_waits_for_the_threads_returns_when_the_last_one_has_nothing_to_write() {
        const LONG: Duration = Duration::from_secs(60);
        let calls = WriteCalls::new(2);
        assert!(!calls.wait_until_done(LONG), "there is no thread");
        calls.begin();
        assert!(calls.wait_until_done(LONG), "nobody was called");
        calls.call_for_all();
        assert!(!calls.wait_until_done(Duration::ZERO));
        thread::scope(|scope| {
            let _end = End(&calls);
            for place in 0..2 {
                let calls = &calls;
                scope.spawn(move || {
                    for freed in [3, 0] {
                        if calls.wait(place) {
                            calls.take_all(place).unwrap().freed = freed;
                        }
                    }
                });
            }
            assert!(calls.wait_until_done(LONG));
        });
        assert!(!calls.wait_until_done(LONG), "the threads have ended");
    }
}
