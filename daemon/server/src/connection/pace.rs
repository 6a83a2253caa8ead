// SPDX-License-Identifier: Apache-2.0
//! How fast the bytes of a request come for which memory is reserved. Others may wait for that
//! memory: a client that is too slow loses its connection.

use std::future::pending;
use std::time::Duration;

use lodestone_planted::{self as planted, Bug};
use tokio::select;
use tokio::time::{Instant, sleep_until};

use crate::service::clock;
use crate::service::line::{Haste, Hurry};

/// A client is judged after each such time; earlier if others wait for its memory.
pub const WINDOW: Duration = Duration::from_secs(10);

/// So many bytes must have come by then: 64 KiB a second.
pub const LEAST_BYTES: usize = 10 * (64 << 10);

/// While others wait, a client that goes on may keep its memory for so long: its whole request
/// should have come. The longest, of 64 MiB, comes at 2.3 MB/s.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// A client that has gone on may be silent for so long, however many others wait: its JVM collects
/// garbage, or a packet is sent again.
const LEAST_SILENCE: Duration = Duration::from_millis(500);

/// After this many bytes the client has gone on. If it sent its request in one go, the socket holds
/// them when the request gets its memory.
const WENT_ON_BYTES: usize = 64 << 10;

/// A client that has sent most of its request fast may then be silent for so long, once: its JVM
/// collects all of its garbage. Without it, such a client would lose its connection whenever a disk
/// is slow: then others always wait for the memory of large blocks.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// It has sent that many bytes a second: four times as many as are asked of it. A client that
/// sends as slowly as it may gets no pause.
const FAST_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Pace {
    /// When it began.
    began: Instant,
    end: Instant,
    /// The length of this window.
    window: Duration,
    /// In this window the client may be silent.
    pauses: bool,
    /// If this window was shortened: the bytes before, and the time since then.
    shortened: Option<(usize, Duration)>,
    bytes: usize,
    /// Bytes that came since the request has its memory.
    all_bytes: usize,
    /// The length of all windows before this one. It is no time on a clock: a time in which the
    /// daemon stood still is not the client's.
    held: Duration,
    hurry: Hurry,
    /// If the request has memory of a disk: one for this memory, one for its application's part.
    hurries_at_disk: Option<[Hurry; 2]>,
    /// What is known of the end of the request, until the client has paused.
    rest: Option<Rest>,
}

/// The bytes of a request that are to come.
#[derive(Debug)]
struct Rest {
    missing: usize,
    /// The client may pause when so few are missing.
    few: usize,
}

impl Pace {
    /// Begins when the request has its memory, of which `hurry` is.
    pub(super) fn begin(hurry: Hurry) -> Self {
        Self::begin_at_disk(hurry, None)
    }

    /// Begins like `begin`, for a request that has taken of the memory for a disk, too.
    pub(super) fn begin_at_disk(hurry: Hurry, hurries_at_disk: Option<[Hurry; 2]>) -> Self {
        let began = clock::now();
        Self {
            began,
            end: began + WINDOW,
            window: WINDOW,
            pauses: false,
            shortened: None,
            bytes: 0,
            all_bytes: 0,
            held: Duration::ZERO,
            hurry,
            hurries_at_disk,
            rest: None,
        }
    }

    /// Says how long the request is, and how much of it is here. So the client may pause.
    pub(super) fn of_length(mut self, length: usize, here: usize) -> Self {
        self.rest = Some(Rest {
            missing: length.saturating_sub(here),
            few: length / 2,
        });
        self
    }

    /// The client has done its part, and waits.
    pub(super) fn begin_again(&mut self) {
        self.held = Duration::ZERO;
        self.begin_window(WINDOW);
    }

    fn begin_window(&mut self, window: Duration) {
        (self.end, self.window, self.bytes) = (clock::now() + window, window, 0);
        (self.pauses, self.shortened) = (false, None);
    }

    /// Counts bytes that came.
    pub(super) fn came(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.all_bytes += bytes;
        if let Some(rest) = &mut self.rest {
            rest.missing = rest.missing.saturating_sub(bytes);
        }
    }

    /// True while others wait for the memory.
    pub(super) fn is_hurried(&self) -> bool {
        self.window != WINDOW
    }

    /// Returns when the client is to be judged. Bytes that are there by then are read first, also
    /// if the daemon stood still meanwhile.
    pub(super) async fn over(&mut self) {
        loop {
            select! {
                biased;
                () = sleep_until(self.end) => return,
                haste = heard(&mut self.hurry) => self.hurry_up(haste),
                haste = heard_at_disk(&mut self.hurries_at_disk) => self.hurry_up(haste),
            }
        }
    }

    /// Others wait for the memory: a shorter window begins. If the client is in one already, that
    /// ends earlier, because those that wait in another line may have less time.
    fn hurry_up(&mut self, haste: Haste) {
        let now = clock::now();
        if now > haste.until {
            // The client was not to be judged meanwhile, and perhaps nobody waits any more.
            return;
        }
        let turnover = haste.turnover;
        let turnover = match self.all_bytes >= WENT_ON_BYTES {
            true => turnover.max(LEAST_SILENCE),
            false => turnover,
        };
        let end = now + turnover;
        if self.pauses || end >= self.end {
            return;
        }
        if self.is_hurried() {
            self.window -= self.end - end;
            self.end = end;
            self.shortened = Some((self.bytes, turnover));
        } else {
            self.begin_window(turnover);
        }
    }

    /// Judges the client, from which nothing more is there to be read. Returns false if it is too
    /// slow.
    pub(super) fn goes_on(&mut self) -> bool {
        // One that was silent before it had less time may go on then.
        let goes_on_now = |(before, time)| self.bytes - before >= least_in(time);
        let is_fast =
            self.bytes >= least_in(self.window) || self.shortened.is_some_and(goes_on_now);
        self.held += self.window;
        let is_late = self.is_hurried() && self.held >= LONGEST;
        let goes_on = is_fast && !is_late || planted::is(Bug::SlowRequestKept);
        if goes_on {
            self.begin_window(WINDOW);
            return true;
        }
        let pauses = !is_late && self.may_pause();
        if pauses {
            self.rest = None;
            // With time to go on after it.
            self.begin_window(LONGEST_PAUSE + LEAST_SILENCE);
            self.pauses = true;
        }
        pauses
    }

    /// The client has sent most of its request, fast until this window began.
    fn may_pause(&self) -> bool {
        let is_at_end = self
            .rest
            .as_ref()
            .is_some_and(|rest| rest.missing <= rest.few);
        let window_began = self.end - self.window;
        let time = window_began.saturating_duration_since(self.began);
        let before = self.all_bytes - self.bytes;
        self.is_hurried() && is_at_end && before as f64 >= time.as_secs_f64() * FAST_BYTES as f64
    }
}

/// Bytes that a client has to send in this time.
fn least_in(time: Duration) -> usize {
    time.as_millis() as usize * LEAST_BYTES / WINDOW.as_millis() as usize
}

/// Waits until others wait.
async fn heard(hurry: &mut Hurry) -> Haste {
    match hurry.changed().await {
        Ok(()) => *hurry.borrow_and_update(),
        // The daemon ends: nobody waits any more.
        Err(_) => pending().await,
    }
}

async fn heard_at_disk(hurries: &mut Option<[Hurry; 2]>) -> Haste {
    let Some([of_all, of_application]) = hurries else {
        return pending().await;
    };
    select! {
        haste = heard(of_all) => haste,
        haste = heard(of_application) => haste,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;
    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_goes_on_as_long_as_enough_comes_in_each_window() {
        let (_sender, hurry) = watch::channel(Haste::now(WINDOW));
        let mut pace = Pace::begin(hurry);
        for _ in 0..3 {
            let before = pace.end;
            pace.came(LEAST_BYTES - 1);
            advance(WINDOW * 2).await;
            pace.came(1);
            pace.over().await;
            assert!(pace.goes_on());
            assert_eq!(pace.end - before, WINDOW * 2, "a new window begins");
        }
        pace.came(LEAST_BYTES - 1);
        assert!(!pace.goes_on());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_judged_early_while_others_wait_by_what_comes_meanwhile() {
        let turnover = WINDOW / 10;
        let (sender, hurry) = watch::channel(Haste::now(WINDOW));
        let mut pace = Pace::begin(hurry);
        for (bytes, goes_on) in [(LEAST_BYTES / 10, true), (LEAST_BYTES / 10 - 1, false)] {
            // What came before does not count.
            pace.came(LEAST_BYTES);
            sender.send_replace(Haste::now(turnover));
            let begin = clock::now();
            assert!(timeout(Duration::ZERO, pace.over()).await.is_err());
            pace.came(bytes);
            pace.over().await;
            assert_eq!((clock::now() - begin, pace.goes_on()), (turnover, goes_on));
        }
    }

    fn hurried_by(all: &watch::Sender<Haste>, disk: &watch::Sender<Haste>) -> Pace {
        let at_disk = [disk.subscribe(), disk.subscribe()];
        Pace::begin_at_disk(all.subscribe(), Some(at_disk))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_hurried_hears_those_that_have_less_time() {
        let [all, disk] = [(); 2].map(|()| watch::Sender::new(Haste::now(WINDOW)));
        for goes_on in [true, false] {
            let mut pace = hurried_by(&all, &disk);
            let began = clock::now();
            all.send_replace(Haste::now(WINDOW / 4));
            assert!(timeout(WINDOW / 10, pace.over()).await.is_err());
            // As many as are asked of it in the time from when it was hurried first.
            pace.came(LEAST_BYTES / 5 - usize::from(!goes_on));
            disk.send_replace(Haste::now(WINDOW / 10));
            pace.over().await;
            assert_eq!(began.elapsed(), WINDOW / 5);
            assert_eq!(pace.goes_on(), goes_on);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_was_silent_before_it_had_less_time_may_go_on_then() {
        let [all, disk] = [(); 2].map(|()| watch::Sender::new(Haste::now(WINDOW)));
        for goes_on in [true, false] {
            let mut pace = hurried_by(&all, &disk);
            all.send_replace(Haste::now(WINDOW / 2));
            assert!(timeout(WINDOW / 10, pace.over()).await.is_err());
            disk.send_replace(Haste::now(WINDOW / 10));
            assert!(timeout(Duration::ZERO, pace.over()).await.is_err());
            pace.came(LEAST_BYTES / 10 - usize::from(!goes_on));
            pace.over().await;
            assert_eq!(pace.goes_on(), goes_on);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_gets_its_whole_request_through_in_time_if_others_wait() {
        let turnover = WINDOW / 10;
        for others_wait in [true, false] {
            let (sender, hurry) = watch::channel(Haste::now(WINDOW));
            let (began, mut pace) = (clock::now(), Pace::begin(hurry));
            let mut goes_on = true;
            while goes_on && began.elapsed() < 3 * LONGEST {
                if others_wait {
                    sender.send_replace(Haste::now(turnover));
                }
                assert!(timeout(Duration::ZERO, pace.over()).await.is_err());
                pace.came(LEAST_BYTES);
                pace.over().await;
                goes_on = pace.goes_on();
            }
            let longest = if others_wait { LONGEST } else { 3 * LONGEST };
            assert_eq!((began.elapsed(), goes_on), (longest, !others_wait));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_not_hurried_for_those_that_waited_some_time_ago() {
        let (sender, hurry) = watch::channel(Haste::now(WINDOW));
        let mut pace = Pace::begin(hurry);
        sender.send_replace(Haste::now(WINDOW / 10));
        advance(WINDOW / 2).await;
        assert!(timeout(WINDOW / 4, pace.over()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_gone_on_may_pause_however_many_others_wait() {
        let (sender, hurry) = watch::channel(Haste::now(WINDOW));
        for (came, longest) in [
            (WENT_ON_BYTES, LEAST_SILENCE),
            (WENT_ON_BYTES - 1, WINDOW / 100),
        ] {
            let mut pace = Pace::begin(hurry.clone());
            pace.came(came);
            sender.send_replace(Haste::now(WINDOW / 100));
            let begin = clock::now();
            pace.over().await;
            assert_eq!(clock::now() - begin, longest, "after {came} bytes");
        }
    }

    /// A client that has sent so many bytes in a second, of a request of 1 MiB, and then sends so
    /// many each half second while others wait. Returns how long it keeps its connection.
    async fn kept_for(sent: usize, then: usize) -> Duration {
        const LENGTH: usize = 1 << 20;
        let (sender, hurry) = watch::channel(Haste::now(WINDOW));
        let mut pace = Pace::begin(hurry).of_length(LENGTH, 16 << 10);
        pace.came(sent);
        advance(Duration::from_secs(1)).await;
        let began = clock::now();
        let mut goes_on = true;
        while goes_on && began.elapsed() < LONGEST {
            sender.send_replace(Haste::now(WINDOW / 100));
            if timeout(LEAST_SILENCE, pace.over()).await.is_ok() {
                goes_on = pace.goes_on();
            }
            pace.came(then);
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_sent_most_of_its_request_may_pause_once_and_a_slow_one_may_not() {
        const HALF: usize = 512 << 10;
        let pause = LEAST_SILENCE + LONGEST_PAUSE + LEAST_SILENCE;
        assert_eq!(kept_for(HALF, 0).await, pause);
        assert_eq!(kept_for(HALF / 2, 0).await, LEAST_SILENCE, "less than most");
        // Less than 64 KiB/s.
        assert_eq!(kept_for(HALF, 30 << 10).await, pause, "only once");
        let mut slow = Pace::begin(watch::channel(Haste::now(WINDOW)).1).of_length(HALF, HALF / 2);
        slow.begin_window(LEAST_SILENCE);
        slow.began -= WINDOW;
        slow.all_bytes = HALF;
        assert!(!slow.goes_on(), "less than 256 KiB/s");
    }
}
