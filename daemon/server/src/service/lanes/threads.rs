// SPDX-License-Identifier: Apache-2.0
//! The threads that carry out the calls of lanes. The runtime has them, or a simulation pretends
//! to.

use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, spawn, spawn_blocking};

use super::{Kind, Lanes};

/// What a thread is to do.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// To carry out a call.
    Call(Kind),
    /// To send chunks, which are at these places; without any, from memory.
    Read(&'a [usize]),
}

/// The time until a thread has done its work. See [`Threads::Simulated`].
pub type Delay = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Decides how long threads take.
pub trait Delays: Debug + Send + Sync {
    /// How long this work takes.
    fn of(&self, work: Work<'_>) -> Delay;
}

/// The threads that carry out the calls of all lanes.
#[derive(Clone, Debug)]
pub enum Threads {
    /// Threads of the runtime for calls that may block.
    OfRuntime,
    /// The thread of the runtime itself, when a simulation says so. Until then the call has its
    /// place in the lane.
    Simulated(Arc<dyn Delays>),
}

impl Threads {
    pub(super) async fn carry_out<T: Send + 'static>(
        &self,
        work: Work<'_>,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        match self {
            Self::OfRuntime => spawn_blocking(call).await,
            Self::Simulated(delays) => {
                let delay = delays.of(work);
                let done = spawn(async move {
                    delay.await;
                    call()
                });
                done.await
            }
        }
    }
}

impl Lanes {
    /// The runtime of a daemon with this many data directories: each call that has its turns has a
    /// thread, also while all other lanes are full.
    pub fn runtime(disks: usize) -> io::Result<Runtime> {
        Builder::new_multi_thread()
            .enable_all()
            .max_blocking_threads(Self::threads(disks))
            .build()
    }
}
