// SPDX-License-Identifier: Apache-2.0
//! What is measured of one server and one shuffle: a push, a finalize, a fetch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lodestone_sort::progress::Progress;
use lodestone_wire::AppId;

use super::fetch::{FetchTalk, FetchWork, Shape};
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

/// Connections that read slowly while the others work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slow {
    /// How many.
    pub connections: u32,
    /// What each reads in a second.
    pub bytes_a_second: u64,
}

/// Pushes every block once, as clients do. Spark's clients give blocks up that collide; what was merged is
/// returned.
pub async fn push(
    server: &Server,
    shuffle: &Shuffle,
    shape: Shape,
    conduct: &Conduct,
    progress: Arc<Progress>,
) -> Result<(Measured, PushWork), BenchError> {
    let tally = Tally::of(Arc::clone(&progress));
    let work = PushWork::all(
        shuffle,
        shape.connections,
        shape.window_bytes,
        Arc::clone(&tally),
    );
    let work = Arc::new(work);
    let talks = (0..shape.connections).map(|connection| PushTalk::of(&work, connection));
    let outcome = drive(server, talks.collect(), Vec::new(), conduct, &progress).await?;
    let mut measured = of(server, Phase::Push, shuffle.workload, outcome, &tally);
    (measured.blocks, measured.bytes) = work.merged.totals();
    if measured.aftermath.is_none() {
        only_collisions(server, &tally)?;
    }
    let again = work.again(Tally::of(progress));
    Ok((measured, again))
}

/// Blocks may be given up that collided, and for no other reason.
fn only_collisions(server: &Server, tally: &Tally) -> Result<(), BenchError> {
    let refused = tally.refused.all();
    let others = refused.iter().filter(|(reason, _)| *reason != COLLISION);
    match others.max_by_key(|(_, count)| **count) {
        None => Ok(()),
        Some((reason, count)) => Err(BenchError::Refused {
            server: server.name.clone(),
            count: *count,
            reason: reason.clone(),
        }),
    }
}

/// Pushes what collided until all of it is merged, so that every server has the same to give.
pub async fn complete(
    server: &Server,
    mut work: PushWork,
    conduct: &Conduct,
) -> Result<Arc<BlockSet>, BenchError> {
    // One connection: nothing collides with itself.
    while work.merged.count() < work.workload.blocks() {
        let (before, tally) = (work.merged.count(), Arc::clone(&work.tally));
        let pushed = Arc::new(work);
        let talk = PushTalk::of(&pushed, 0);
        drive(server, vec![talk], Vec::new(), conduct, &tally.progress).await?;
        only_collisions(server, &tally)?;
        work = pushed.again(Tally::of(Arc::clone(&tally.progress)));
        if work.merged.count() == before {
            return Err(BenchError::Refused {
                server: server.name.clone(),
                count: work.workload.blocks() - before,
                reason: COLLISION.to_owned(),
            });
        }
    }
    Ok(work.merged)
}

/// Finalizes. Returns the seconds that it took.
pub async fn finalize(
    server: &Server,
    shuffle: &Shuffle,
    merged: &BlockSet,
) -> Result<f64, BenchError> {
    let began = Moment::now();
    let told = shuffle.finalize().await;
    let told = told.map_err(|source| broken(server, source))?;
    let (seconds, acknowledged) = (began.elapsed().as_secs_f64(), merged.count());
    match told {
        Some(told) if told != acknowledged => Err(BenchError::Ledger {
            server: server.name.clone(),
            acknowledged,
            told,
        }),
        _ => Ok(seconds),
    }
}

/// Fetches all that was merged.
pub async fn fetch_merged(
    server: &Server,
    (shuffle, merged): (&Shuffle, &Arc<BlockSet>),
    shape: Shape,
    slow: Slow,
    conduct: &Conduct,
    progress: Arc<Progress>,
) -> Result<Measured, BenchError> {
    let tally = Tally::of(progress);
    let work = FetchWork::merged(shuffle, Arc::clone(merged), shape, tally);
    fetch(server, Phase::FetchMerged, work, (shape, slow), conduct).await
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
    fetch(server, Phase::FetchOriginals, work, (shape, slow), conduct).await
}

async fn fetch(
    server: &Server,
    phase: Phase,
    work: FetchWork,
    (shape, slow): (Shape, Slow),
    conduct: &Conduct,
) -> Result<Measured, BenchError> {
    let (tally, work) = (Arc::clone(&work.tally), Arc::new(work));
    let talks = (0..shape.connections).map(|_| FetchTalk::of(&work));
    let noise = (0..slow.connections)
        .map(|number| FetchTalk::slow(&work, slow.bytes_a_second, number as usize));
    let (talks, noise) = (talks.collect(), noise.collect());
    let outcome = drive(server, talks, noise, conduct, &tally.progress).await?;
    let mut measured = of(server, phase, work.workload, outcome, &tally);
    (measured.blocks, measured.bytes) = work.fetched.totals();
    if let Some(missing) = work.fetched.lacks(&work.merged)
        && !measured.was_killed()
    {
        return Err(BenchError::Missing {
            server: server.name.clone(),
            found: measured.blocks,
            expected: work.merged.count(),
            missing,
        });
    }
    Ok(measured)
}

/// Tells a server of the executor whose files are below the folder.
pub async fn register_originals(
    server: &Server,
    app: &AppId,
    home: &std::path::Path,
) -> Result<(), BenchError> {
    if server.dialect == Dialect::Bare {
        return Ok(());
    }
    let told = spark::register(server.address, app, home).await;
    told.map_err(|source| broken(server, source))
}

fn of(
    server: &Server,
    phase: Phase,
    workload: Workload,
    outcome: Outcome,
    tally: &Tally,
) -> Measured {
    Measured {
        server: server.name.clone(),
        phase,
        block: workload.size.to_string(),
        round: 0,
        planned_blocks: workload.blocks(),
        planned_bytes: workload.total(),
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
        slow_bytes: tally.slow_bytes.load(Ordering::Relaxed),
        aftermath: outcome.aftermath,
    }
}
