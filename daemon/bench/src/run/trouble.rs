// SPDX-License-Identifier: Apache-2.0
//! A server that dies, or stands still, in the middle of the work.

use std::collections::BTreeMap;
use std::time::Duration;

use lodestone_sort::progress::Progress;
use rustix::process::Signal;
use serde::Serialize;

use crate::error::BenchError;
use crate::measure::clock::Moment;
use crate::server::Server;

/// How often it checks whether half of the work is done.
const LOOK: Duration = Duration::from_millis(2);

/// The trouble of a server when half of the bytes have moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT after this time.
    Pause(Duration),
}

/// The consequences of the trouble.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Aftermath {
    /// Seconds since the beginning at which the server was killed or stopped.
    pub after_seconds: f64,
    /// Bytes that had been acknowledged, or had come back, until then.
    pub bytes_before: u64,
    /// Seconds for which it stood still; none if it was killed.
    pub paused_seconds: Option<f64>,
    /// How the connections that broke saw it.
    pub faults: BTreeMap<String, u64>,
    /// Seconds until the last of them had noticed.
    pub noticed_seconds: f64,
    /// Connections that had done their part before.
    pub unharmed: u64,
}

/// When trouble came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Struck {
    pub(crate) at: Moment,
    pub(crate) bytes_before: u64,
    pub(crate) paused: Option<Duration>,
}

/// A server that continues in any case.
struct Paused<'a>(&'a Server);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        // If it is gone, it does not have to continue.
        let _ = self.0.signal(Signal::CONT);
    }
}

impl Trouble {
    /// Waits for half of the work, and strikes.
    pub(crate) async fn strike(
        self,
        server: &Server,
        progress: &Progress,
    ) -> Result<Struck, BenchError> {
        let mut look = tokio::time::interval(LOOK);
        while progress.done() < progress.total() / 2 {
            look.tick().await;
        }
        let (at, bytes_before) = (Moment::now(), progress.done());
        let paused = match self {
            Self::Kill => {
                server.signal(Signal::KILL)?;
                None
            }
            Self::Pause(time) => {
                server.signal(Signal::STOP)?;
                let paused = Paused(server);
                tokio::time::sleep(time).await;
                drop(paused);
                Some(at.elapsed())
            }
        };
        Ok(Struck {
            at,
            bytes_before,
            paused,
        })
    }
}
