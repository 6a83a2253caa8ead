// SPDX-License-Identifier: Apache-2.0
//! A time limit for reading files: a file system on the network may hang for ever.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// A disk that takes so long does not work. Measuring its speed takes a few seconds.
pub(super) const DISK_TIMEOUT: Duration = Duration::from_secs(20);

/// Looks at files in a thread of its own, which is left alone if it takes longer. None then.
pub(super) fn within<T: Send + 'static>(
    time: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, answers) = channel();
    thread::spawn(move || sender.send(look()));
    answers.recv_timeout(time).ok()
}
