// SPDX-License-Identifier: Apache-2.0
//! Threads for work at a disk that may hang, while the caller waits for a limited time.

use std::fmt::Debug;
use std::io;

use crate::sync::thread;

/// What such a thread does.
pub type Work = Box<dyn FnOnce() + Send>;

/// A source of threads. A simulation has only one, and decides what that does next.
pub trait Threads: Send + Sync + Debug {
    /// Lets a thread of this name do the work.
    fn start(&self, name: String, work: Work) -> io::Result<()>;
}

/// The operating system's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OsThreads;

impl Threads for OsThreads {
    fn start(&self, name: String, work: Work) -> io::Result<()> {
        thread::Builder::new().name(name).spawn(work).map(drop)
    }
}

/// The caller's own: the work ends before the caller goes on, so it must not hang.
#[cfg(any(test, feature = "fake"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct NoThreads;

#[cfg(any(test, feature = "fake"))]
impl Threads for NoThreads {
    fn start(&self, _name: String, work: Work) -> io::Result<()> {
        work();
        Ok(())
    }
}
