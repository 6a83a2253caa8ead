// SPDX-License-Identifier: Apache-2.0
//! One phase: all connections at work, and the resources that it took.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lodestone_sort::progress::Progress;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::trouble::{Aftermath, Struck, Trouble};
use crate::error::{BenchError, LinkError, doing};
use crate::measure::clock::Moment;
use crate::measure::process::{Usage, Watched};
use crate::net::Talk;
use crate::net::link::{connect, hold};
use crate::server::Server;

/// How often it checks whether any bytes move.
const LOOK: Duration = Duration::from_secs(1);

/// How a phase goes.
#[derive(Clone, Debug)]
pub struct Conduct {
    /// How long nothing may move.
    pub stall_timeout: Duration,
    /// The trouble of the server.
    pub trouble: Option<Trouble>,
    /// Becomes true with Ctrl-C.
    pub interrupted: watch::Receiver<bool>,
}

/// The resources of a phase.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From the first request to the last answer.
    pub seconds: f64,
    /// The resources that the server used; unknown without its process id, or if it was killed.
    pub server: Option<Usage>,
    /// The resources that this process used.
    pub client: Usage,
    /// The consequences of the trouble.
    pub aftermath: Option<Aftermath>,
}

/// How a connection ended, and when.
type Ended = (Moment, Result<(), LinkError>);

/// Opens all connections, and then runs them at once. `noise` runs as long as the others.
pub async fn drive<T: Talk>(
    server: &Server,
    talks: Vec<T>,
    noise: Vec<T>,
    conduct: &Conduct,
    progress: &Arc<Progress>,
) -> Result<Outcome, BenchError> {
    let mut streams = Vec::new();
    for _ in 0..talks.len() + noise.len() {
        let stream = connect(server.address).await;
        streams.push(stream.map_err(|source| broken(server, source))?);
    }
    let quiet = streams.split_off(talks.len());
    let meter = Meter::start(server)?;
    let mut noisy = JoinSet::new();
    for (stream, talk) in quiet.into_iter().zip(noise) {
        noisy.spawn(talked(stream, talk));
    }
    let mut working = JoinSet::new();
    for (stream, talk) in streams.into_iter().zip(talks) {
        working.spawn(talked(stream, talk));
    }
    let mut course = Course::default();
    course.run(&mut working, server, conduct, progress).await?;
    let mut outcome = meter.stop(server)?;
    outcome.aftermath = course.aftermath(meter.began);
    // Connections that are still at work are cut off; an error of one is a failure like any other.
    while let Some(joined) = noisy.try_join_next() {
        if let Ok((_, Err(fault))) = joined
            && conduct.trouble != Some(Trouble::Kill)
        {
            return Err(broken(server, fault));
        }
    }
    Ok(outcome)
}

async fn talked(stream: TcpStream, talk: impl Talk) -> Ended {
    let result = hold(&stream, talk).await;
    (Moment::now(), result)
}

/// The failure of a connection, with the server's name.
pub(crate) fn broken(server: &Server, source: LinkError) -> BenchError {
    BenchError::Link {
        server: server.name.clone(),
        address: server.address,
        source: source.into(),
        log: Box::new(server.log()),
    }
}

/// The events while connections work.
#[derive(Debug, Default)]
struct Course {
    struck: Option<Struck>,
    faults: Vec<(Moment, LinkError)>,
    unharmed: u64,
}

impl Course {
    /// Returns when all connections are done, or one has failed that should not have.
    async fn run(
        &mut self,
        working: &mut JoinSet<Ended>,
        server: &Server,
        conduct: &Conduct,
        progress: &Progress,
    ) -> Result<(), BenchError> {
        let mut interrupted = conduct.interrupted.clone();
        let mut look = tokio::time::interval(LOOK);
        let mut moved = (progress.done(), Moment::now());
        let mut strike = pin!(async {
            match conduct.trouble {
                Some(trouble) => trouble.strike(server, progress).await,
                None => pending().await,
            }
        });
        loop {
            tokio::select! {
                joined = working.join_next() => match joined {
                    None => return Ok(()),
                    Some(Ok(ended)) => self.ended(ended, server, conduct)?,
                    Some(Err(error)) => {
                        return Err(doing("a connection")(io::Error::other(error)));
                    }
                },
                struck = &mut strike, if self.struck.is_none() => self.struck = Some(struck?),
                _ = look.tick() => {
                    if progress.done() > moved.0 {
                        moved = (progress.done(), Moment::now());
                    } else if moved.1.elapsed() > conduct.stall_timeout {
                        return Err(BenchError::Silent {
                            server: server.name.clone(),
                            seconds: conduct.stall_timeout.as_secs(),
                            log: Box::new(server.log()),
                        });
                    }
                }
                () = until(&mut interrupted) => return Err(BenchError::Interrupted),
            }
        }
    }

    fn ended(
        &mut self,
        (at, result): Ended,
        server: &Server,
        conduct: &Conduct,
    ) -> Result<(), BenchError> {
        match result {
            Ok(()) => self.unharmed += 1,
            // Wrong bytes are wrong, whatever happens to the server.
            Err(fault) if conduct.trouble != Some(Trouble::Kill) || fault.is_wrong() => {
                return Err(broken(server, fault));
            }
            Err(fault) => self.faults.push((at, fault)),
        }
        Ok(())
    }

    fn aftermath(&self, began: Moment) -> Option<Aftermath> {
        let struck = self.struck?;
        let mut faults = BTreeMap::new();
        for (_, fault) in &self.faults {
            *faults.entry(fault.kind().to_owned()).or_insert(0) += 1;
        }
        let last = self.faults.iter().map(|(at, _)| *at).max();
        let noticed = last.map_or(Duration::ZERO, |last| last.since(struck.at));
        Some(Aftermath {
            after_seconds: struck.at.since(began).as_secs_f64(),
            bytes_before: struck.bytes_before,
            paused_seconds: struck.paused.map(|paused| paused.as_secs_f64()),
            faults,
            noticed_seconds: noticed.as_secs_f64(),
            unharmed: self.unharmed,
        })
    }
}

/// Ends when the switch is thrown.
pub(crate) async fn until(switch: &mut watch::Receiver<bool>) {
    if switch.wait_for(|thrown| *thrown).await.is_err() {
        // There is no trouble to wait for.
        pending::<()>().await;
    }
}

/// Readings at the start.
#[derive(Debug)]
struct Meter {
    began: Moment,
    server: Option<Usage>,
    client: Usage,
}

impl Meter {
    fn start(server: &Server) -> Result<Self, BenchError> {
        let watched = server.watched();
        if let Some(watched) = &watched {
            watched.reset_peak();
        }
        let read = |watched: Watched| watched.usage().map_err(doing("reading /proc"));
        Ok(Self {
            server: watched.map(read).transpose()?,
            client: read(Watched::itself())?,
            began: Moment::now(),
        })
    }

    fn stop(&self, server: &Server) -> Result<Outcome, BenchError> {
        let seconds = self.began.elapsed().as_secs_f64();
        let client = Watched::itself().usage().map_err(doing("reading /proc"))?;
        // A server that was killed can no longer be asked.
        let now = server.watched().and_then(|watched| watched.usage().ok());
        let used = now.zip(self.server);
        Ok(Outcome {
            seconds,
            server: used.map(|(now, before)| now.since(before)),
            client: client.since(self.client),
            aftermath: None,
        })
    }
}
