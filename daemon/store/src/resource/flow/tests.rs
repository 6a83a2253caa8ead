// SPDX-License-Identifier: Apache-2.0

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::resource::clock::ManualClock;

#[test]
fn a_disk_is_stalled_when_nothing_gets_on_and_well_as_soon_as_something_does() {
    let clock = ManualClock::default();
    let flow = Flow::new(1);
    clock.advance_ms(5 * STALL_MS);
    assert!(!flow.is_stalled(&clock), "nobody writes");
    let first = flow.begin(&clock).unwrap();
    clock.advance_ms(STALL_MS - 1);
    assert!(!flow.is_stalled(&clock));
    // A write that begins beside one that hangs is no progress.
    let second = flow.begin(&clock).unwrap();
    clock.advance_ms(1);
    assert!(flow.is_stalled(&clock));
    second.got_on();
    assert!(!flow.is_stalled(&clock));
    clock.advance_ms(STALL_MS);
    assert!(flow.is_stalled(&clock));
    drop(first);
    assert!(!flow.is_stalled(&clock));
    drop(second);
    clock.advance_ms(STALL_MS);
    assert!(!flow.is_stalled(&clock));
}

#[test]
fn a_disk_that_answers_questions_while_its_writes_hang_is_stalled() {
    let clock = ManualClock::default();
    let flow = Flow::new(1);
    let _hangs = flow.begin(&clock).unwrap();
    clock.advance_ms(STALL_MS - 1);
    drop(flow.begin(&clock).unwrap().only_asking());
    clock.advance_ms(1);
    assert!(flow.is_stalled(&clock), "pushes would hang there, too");
}

#[test]
fn a_writer_is_refused_at_once_if_as_many_wait_as_may_write() {
    let clock = ManualClock::default();
    let flow = Flow::new(WRITERS);
    let first = flow.begin(&clock).unwrap();
    thread::scope(|scope| {
        let (flow, clock) = (&flow, &clock);
        let second = scope.spawn(move || flow.begin(clock).map(drop).unwrap());
        until_waiting(flow, 1);
        let refused = flow.begin(clock).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
        drop(first);
        second.join().unwrap();
    });
    assert_eq!(waiting(&flow), 0);
    drop(flow.begin(&clock).unwrap());
}

#[test]
fn those_that_wait_in_line_take_no_place_of_a_writer_that_may_be_refused() {
    let clock = ManualClock::default();
    let flow = Flow::new(WRITERS);
    let first = flow.begin(&clock).unwrap();
    thread::scope(|scope| {
        let (flow, clock) = (&flow, &clock);
        let in_line = scope.spawn(move || flow.begin_in(Line::Finalizes, clock).map(drop));
        until_waiting(flow, 1);
        let limited = scope.spawn(move || flow.begin(clock).map(drop));
        while waiting(flow) == 1 && !limited.is_finished() {
            thread::yield_now();
        }
        drop(first);
        assert!(in_line.join().unwrap().is_ok());
        assert!(limited.join().unwrap().is_ok(), "it is refused");
    });
    assert_eq!(waiting(&flow), 0);
}

#[test]
fn those_that_cannot_retry_leave_threads_to_other_disks() {
    let clock = ManualClock::default();
    let flow = Flow::new(WRITERS);
    let first = flow.begin(&clock).unwrap();
    thread::scope(|scope| {
        let (flow, clock) = (&flow, &clock);
        for _ in 0..IN_LINE_MAX {
            scope.spawn(move || flow.begin_in(Line::Finalizes, clock).map(drop).unwrap());
        }
        until_waiting(flow, IN_LINE_MAX);
        let refused = flow.begin_in(Line::Finalizes, clock).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
        drop(first);
    });
}

fn waiting(flow: &Flow) -> usize {
    locked(&flow.waiting).all()
}

fn until_waiting(flow: &Flow, count: usize) {
    while waiting(flow) < count {
        thread::yield_now();
    }
}

#[test]
fn a_waiting_writer_gets_its_turn_or_a_stalled_disk_error() {
    let clock = ManualClock::default();
    let flow = Flow::new(WRITERS);
    let first = flow.begin(&clock).unwrap();
    let (began, has_begun) = mpsc::channel();
    thread::scope(|scope| {
        let (flow, clock) = (&flow, &clock);
        scope.spawn(move || began.send(flow.begin(clock).map(drop)).unwrap());
        drop(first);
        assert!(has_begun.recv().unwrap().is_ok());
    });
    let _hangs = flow.begin(&clock).unwrap();
    clock.advance_ms(STALL_MS);
    assert!(Stalled::is(&flow.begin(&clock).unwrap_err()));
}

#[test]
fn a_slow_disk_keeps_only_a_part_of_the_memory_of_those_that_write_and_wait() {
    const BODY: u64 = 4;
    let clock = ManualClock::default();
    let flow = Flow::with_bodies(1, 2 * BODY);
    let begin = || flow.begin_with(Line::Short, BODY, &clock);
    let first = begin().unwrap();
    let _second = begin().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| begin().map(drop));
        until_waiting(&flow, 1);
        assert!(flow.begin(&clock).is_ok(), "it holds no body");
        // It gets on, and the third has its turn.
        drop(first);
        assert!(waits.join().unwrap().is_ok());
    });
    let _third = begin().unwrap();
    clock.advance_ms(SLOW_MS);
    assert!(flow.is_slow(&clock));
    let refused = begin().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
    assert!(flow.begin(&clock).is_ok(), "it holds no body");
}

#[test]
fn a_disk_that_gets_on_takes_as_many_requests_however_large_their_bodies_are() {
    const BODY: u64 = 4;
    let clock = ManualClock::default();
    let flow = Flow::with_bodies(1, 2 * BODY);
    let begin = || flow.begin_with(Line::Short, BODY, &clock);
    let writes = [begin().unwrap(), begin().unwrap()];
    let others = 2 * WRITERS_PER_DISK - writes.len();
    thread::scope(|scope| {
        let begin = &begin;
        let wait = |_| scope.spawn(move || begin().map(drop));
        let waits: Vec<_> = (0..others).map(wait).collect();
        until_waiting(&flow, others);
        assert_eq!(begin().unwrap_err().kind(), ErrorKind::ResourceBusy);
        clock.advance_ms(SLOW_MS - 1);
        drop(writes);
        assert!(waits.into_iter().all(|wait| wait.join().unwrap().is_ok()));
    });
}

#[test]
fn requests_with_bodies_write_in_the_order_in_which_they_came() {
    let clock = ManualClock::default();
    let flow = Flow::with_bodies(1, 1);
    let order = Mutex::new(Vec::new());
    let first = flow.begin_with(Line::Short, 1, &clock).unwrap();
    thread::scope(|scope| {
        for n in 0..8 {
            let (flow, clock, order) = (&flow, &clock, &order);
            scope.spawn(move || {
                let _turn = flow.begin_with(Line::Short, 1, clock).unwrap();
                order.lock().unwrap().push(n);
            });
            until_waiting(flow, n + 1);
        }
        drop(first);
    });
    assert_eq!(order.into_inner().unwrap(), Vec::from_iter(0..8));
}

#[test]
fn those_that_wait_with_their_bodies_leave_a_disk_that_becomes_slow() {
    let clock = ManualClock::default();
    let flow = Flow::with_bodies(1, 1);
    let _hangs = flow.begin_with(Line::Short, 1, &clock).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| flow.begin_with(Line::Short, 1, &clock).map(drop));
        until_waiting(&flow, 1);
        clock.advance_ms(SLOW_MS);
        let refused = waits.join().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
    });
    assert_eq!(waiting(&flow), 0);
}
