// SPDX-License-Identifier: Apache-2.0
//! The measurements of one server and the shuffles on it: a push, its end, a fetch.

use std::iter;
use std::sync::Arc;

use lodestone_model::AppId;
use lodestone_sort::progress::Progress;

use super::fetch::FetchTalk;
use super::fetch_work::{FetchWork, Shape};
use super::phase::{Conduct, Outcome, broken, drive};
use super::push::{PushTalk, PushWork};
use super::tally::Tally;
use crate::dialect::spark::COLLISION;
use crate::dialect::{Dialect, Shuffle, originals, spark};
use crate::error::BenchError;
use crate::measure::clock::Moment;
use crate::report::{Measured, Phase};
use crate::server::Server;
use crate::workload::Workload;
use crate::workload::blocks::BlockSet;
use crate::workload::payload::Payload;

/// Connections that push or read slowly while the others work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slow {
    /// How many.
    pub connections: u32,
    /// Bytes that each sends or reads in a second.
    pub bytes_a_second: u64,
}

/// A shuffle, and its merged blocks.
#[derive(Debug)]
pub struct Pushed {
    /// The shuffle.
    pub shuffle: Shuffle,
    /// Its blocks.
    pub merged: Arc<BlockSet>,
}

/// Pushes every block of the shuffles once, as clients do; connections are divided among them.
/// Spark's clients give up blocks that collide; the rest of each shuffle is returned. `noise` is a
/// shuffle that slow connections push to meanwhile.
pub async fn push(
    server: &Server,
    shuffles: &[Shuffle],
    noise: Option<(&Shuffle, Slow)>,
    shape: Shape,
    conduct: &Conduct,
    progress: Arc<Progress>,
) -> Result<(Measured, Vec<PushWork>), BenchError> {
    let tally = Tally::of(Arc::clone(&progress));
    let part = shape.divided_by(shuffles.len());
    let work = |one| Arc::new(PushWork::all(one, part, Arc::clone(&tally)));
    let works: Vec<_> = shuffles.iter().map(work).collect();
    let talks = dealt(&works, shape.connections).map(|(work, number)| PushTalk::of(work, number));
    let (noise, noise_tally) = noise.map_or_else(Default::default, |(shuffle, slow)| {
        let (talks, tally) = slow_pushes(shuffle, slow, shape);
        (talks, Some(tally))
    });
    let outcome = drive(server, talks.collect(), noise, conduct, &progress).await?;
    let planned = shuffles.iter().map(|shuffle| shuffle.workload);
    let mut measured = of(server, Phase::Push, planned, outcome, &tally);
    (measured.blocks, measured.bytes) = sum(works.iter().map(|work| work.merged.totals()));
    measured.slow_bytes = noise_tally.as_ref().map(|noise| noise.slow_bytes());
    if measured.aftermath.is_none() {
        for tally in iter::once(&tally).chain(&noise_tally) {
            only_given_up(server, tally)?;
        }
    }
    let again = works
        .iter()
        .map(|work| work.again(Tally::of(Arc::clone(&progress))));
    Ok((measured, again.collect()))
}

/// Returns connections that push slowly, and their counters: their bytes are not work.
fn slow_pushes(shuffle: &Shuffle, slow: Slow, shape: Shape) -> (Vec<PushTalk>, Arc<Tally>) {
    let tally = Tally::of(Arc::new(Progress::of(shuffle.workload.total())));
    let shape = Shape {
        connections: slow.connections.max(1),
        ..shape
    };
    let work = Arc::new(PushWork::all(shuffle, shape, Arc::clone(&tally)));
    let talk = |number| PushTalk::slow(&work, number, slow.bytes_a_second);
    ((0..slow.connections).map(talk).collect(), tally)
}

/// Each connection's work, and which of its connections it is.
fn dealt<W>(works: &[W], connections: u32) -> impl Iterator<Item = (&W, u32)> {
    let count = works.len() as u32;
    let each = works.iter().cycle().zip(0..connections);
    each.map(move |(work, connection)| (work, connection / count))
}

fn sum(pairs: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    pairs.fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
}

/// The end of what this daemon says when it had no turn for a block.
const OVERLOADED: &str = ": Overloaded";

/// Blocks may be given up that collided, or found the server at its limit, and for no other reason.
fn only_given_up(server: &Server, tally: &Tally) -> Result<(), BenchError> {
    let refused = tally.refused.all();
    let is_other = |reason: &str| reason != COLLISION && !reason.ends_with(OVERLOADED);
    let others = refused.iter().filter(|(reason, _)| is_other(reason));
    match others.max_by_key(|(_, count)| **count) {
        None => Ok(()),
        Some((reason, count)) => Err(BenchError::Refused {
            server: server.name.clone(),
            count: *count,
            reason: reason.clone(),
        }),
    }
}

/// Pushes the blocks that were given up until all are merged, so that every server has the same
/// data to send.
pub async fn complete(
    server: &Server,
    works: Vec<PushWork>,
    conduct: &Conduct,
) -> Result<(), BenchError> {
    for work in works {
        complete_one(server, work, conduct).await?;
    }
    Ok(())
}

async fn complete_one(
    server: &Server,
    mut work: PushWork,
    conduct: &Conduct,
) -> Result<(), BenchError> {
    // One connection: its pushes do not collide with each other.
    while work.merged.count() < work.workload.blocks() {
        let (before, tally) = (work.merged.count(), Arc::clone(&work.tally));
        let pushed = Arc::new(work);
        let talk = PushTalk::of(&pushed, 0);
        drive(server, vec![talk], Vec::new(), conduct, &tally.progress).await?;
        only_given_up(server, &tally)?;
        work = pushed.again(Tally::of(Arc::clone(&tally.progress)));
        if work.merged.count() == before {
            return Err(BenchError::Refused {
                server: server.name.clone(),
                count: work.workload.blocks() - before,
                reason: COLLISION.to_owned(),
            });
        }
    }
    Ok(())
}

/// Finalizes, or commits all maps. Returns the seconds that it took.
pub async fn finalize(server: &Server, pushed: &[Pushed]) -> Result<f64, BenchError> {
    let mut seconds = 0.0;
    for Pushed { shuffle, merged } in pushed {
        let ending = shuffle.ending(merged);
        let began = Moment::now();
        let outcome = shuffle.end(&ending).await;
        seconds += began.elapsed().as_secs_f64();
        let reported = outcome.map_err(|source| broken(server, source))?;
        let acknowledged = merged.count();
        if let Some(reported) = reported.filter(|reported| *reported != acknowledged) {
            return Err(BenchError::Ledger {
                server: server.name.clone(),
                acknowledged,
                reported,
            });
        }
    }
    Ok(seconds)
}

/// Fetches all that was merged.
pub async fn fetch_merged(
    server: &Server,
    pushed: &[Pushed],
    shape: Shape,
    slow: Slow,
    conduct: &Conduct,
    progress: Arc<Progress>,
) -> Result<Measured, BenchError> {
    let (tally, part) = (Tally::of(progress), shape.divided_by(pushed.len()));
    let work = |one| FetchWork::merged(one, part, Arc::clone(&tally));
    let works = pushed.iter().map(work).collect();
    fetch(server, Phase::FetchMerged, works, (shape, slow), conduct).await
}

/// Fetches every block as its map task wrote it.
pub async fn fetch_originals(
    server: &Server,
    (app, workload, payload): (&AppId, Workload, &Payload),
    shape: Shape,
    slow: Slow,
    conduct: &Conduct,
    progress: Arc<Progress>,
) -> Result<Measured, BenchError> {
    let tally = Tally::of(progress);
    let app = app.clone();
    let words = Arc::new(originals::Words { app, workload });
    let work = FetchWork::originals((workload, payload.clone()), words, shape, tally);
    let works = vec![work];
    fetch(server, Phase::FetchOriginals, works, (shape, slow), conduct).await
}

async fn fetch(
    server: &Server,
    phase: Phase,
    works: Vec<FetchWork>,
    (shape, slow): (Shape, Slow),
    conduct: &Conduct,
) -> Result<Measured, BenchError> {
    let works: Vec<_> = works.into_iter().map(Arc::new).collect();
    let Some(tally) = works.first().map(|work| Arc::clone(&work.tally)) else {
        return Err(BenchError::Usage("there is nothing to fetch".to_owned()));
    };
    let talks = dealt(&works, shape.connections).map(|(work, _)| FetchTalk::of(work));
    let noise = dealt(&works, slow.connections)
        .map(|(work, number)| FetchTalk::slow(work, slow.bytes_a_second, number as usize));
    let (talks, noise) = (talks.collect(), noise.collect());
    let outcome = drive(server, talks, noise, conduct, &tally.progress).await?;
    let planned = works.iter().map(|work| work.workload);
    let mut measured = of(server, phase, planned, outcome, &tally);
    (measured.blocks, measured.bytes) = sum(works.iter().map(|work| work.fetched.totals()));
    measured.slow_bytes = (slow.connections > 0).then(|| tally.slow_bytes());
    let missing = |work: &Arc<FetchWork>| work.fetched.lacks(&work.merged);
    if let Some(missing) = works.iter().find_map(missing)
        && !measured.was_killed()
    {
        return Err(BenchError::Missing {
            server: server.name.clone(),
            found: measured.blocks,
            expected: works.iter().map(|work| work.merged.count()).sum(),
            missing,
        });
    }
    Ok(measured)
}

/// Registers at a server the executor whose files are below the folder.
pub async fn register_originals(
    server: &Server,
    app: &AppId,
    home: &std::path::Path,
) -> Result<(), BenchError> {
    if server.dialect == Dialect::Bare {
        return Ok(());
    }
    let registered = spark::register(server.address, app, home).await;
    registered.map_err(|source| broken(server, source))
}

fn of(
    server: &Server,
    phase: Phase,
    planned: impl Iterator<Item = Workload> + Clone,
    outcome: Outcome,
    tally: &Tally,
) -> Measured {
    let (planned_blocks, planned_bytes) = sum(planned
        .clone()
        .map(|workload| (workload.blocks(), workload.total())));
    let mut sizes = planned.map(|workload| workload.size.to_string());
    Measured {
        server: server.name.clone(),
        phase,
        block: sizes.next().unwrap_or_default(),
        round: 0,
        planned_blocks,
        planned_bytes,
        blocks: 0,
        bytes: 0,
        seconds: outcome.seconds,
        complete_seconds: None,
        finalize_seconds: None,
        requests: tally.latencies.count(),
        latency: tally.latencies.percentiles(),
        server_usage: outcome.server,
        client_usage: outcome.client,
        refused: tally.refused.all(),
        slow_bytes: None,
        aftermath: outcome.aftermath,
    }
}
