// SPDX-License-Identifier: Apache-2.0
//! The connections of one daemon: frames, admission, queues, streams, time-outs and the stop, under
//! clients that keep the rules and clients that do not. The daemon's code is the real one from the
//! socket to the store; sockets, disks, threads and the clock are the simulation's. One thread
//! works, and the clock moves when nothing is left to do. See `docs/simulation.md`.
//!
//! ```text
//! wire      two pipes in place of a socket
//! client    frames over them
//! machine   the daemon, the threads of its calls, and disks that hang
//! looks     its own threads: looks at leases and disks
//! lease     a driver that lives, one that is silent, and executors that vanish
//! session   a client that keeps the rules: every answer must be in time
//! honest    what such clients do: every answer must be right
//! unfair    clients that harm others if they can
//! ```

mod client;
mod honest;
mod lease;
mod looks;
mod machine;
mod session;
mod unfair;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lodestone_planted::Bug;
use lodestone_server::connection::DRAIN_TIMEOUT;
use lodestone_server::service::clock;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::dice::Dice;
use crate::model::Judged;
use machine::{Machine, MachineSetup, PLENTY};
use session::{Session, judged};
use unfair::Kind;

/// A run must end within this time of its clock.
const EVER: Duration = Duration::from_secs(4 * 3600);

/// Honest applications, at most.
const HONEST: usize = 4;

/// The daemon closes the connection of an unfair client within this time. The slowest ones send
/// two bytes a second, and are closed when the daemon has reserved memory for the rest.
const UNFAIR: Duration = Duration::from_secs(3 * 3600);

/// Calls of the store hold memory for connections that have ended no longer than this.
const REST: Duration = Duration::from_secs(10);

/// The time that connections may take beyond the limit that they have.
const SPARE: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Debug)]
pub struct Report {
    /// The breach, if there was one.
    pub breach: Option<String>,
    /// How often the daemon closed connections for each reason.
    pub tally: BTreeMap<String, u64>,
    /// Time on the clock of the run: the same for the same seed.
    pub time: Duration,
}

impl Report {
    /// The run could not begin.
    fn of_no_run(breach: String) -> Self {
        Self {
            breach: Some(breach),
            tally: BTreeMap::new(),
            time: Duration::ZERO,
        }
    }
}

/// Runs a seed.
pub fn run(seed: u64, bug: Option<Bug>) -> Report {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    lodestone_planted::plant(bug);
    let report = match runtime {
        Ok(runtime) => runtime.block_on(live(seed)),
        Err(error) => Report::of_no_run(error.to_string()),
    };
    lodestone_planted::plant(None);
    report
}

async fn live(seed: u64) -> Report {
    let mut dice = Dice::new(seed);
    let begin = clock::now();
    let unfair = unfair_kinds(&mut dice);
    let setup = MachineSetup {
        seed,
        connections: dice.pick(&[12, 20, PLENTY]).unwrap_or(12),
        upload_bytes: dice.pick(&[256 << 10, 1 << 20, 8 << 20]).unwrap_or(1 << 20),
        list_bytes: dice.pick(&[16 << 10, 256 << 10]).unwrap_or(16 << 10),
        store_bytes: dice.pick(&[16 << 20, 64 << 20]).unwrap_or(16 << 20),
    };
    let machine = match Machine::start(setup) {
        Ok(machine) => machine,
        Err(error) => return Report::of_no_run(error),
    };
    let judged = timeout(EVER, all(&machine, &unfair, &mut dice)).await;
    Report {
        breach: judged
            .unwrap_or_else(|_| Err("a run without an end".to_owned()))
            .err(),
        tally: machine.reasons(),
        time: begin.elapsed(),
    }
}

/// Some unfair clients of any kind, or a crowd of one kind.
fn unfair_kinds(dice: &mut Dice) -> Vec<Kind> {
    let crowd = dice.chance(20).then(|| dice.pick(&Kind::ALL)).flatten();
    let count = match crowd {
        Some(_) => 10 + dice.below(30),
        None => dice.below(6),
    };
    let kinds = (0..count).map(|_| crowd.or_else(|| dice.pick(&Kind::ALL)));
    kinds.flatten().collect()
}

async fn all(machine: &Arc<Machine>, unfair_kinds: &[Kind], dice: &mut Dice) -> Judged {
    let mut threads = JoinSet::new();
    threads.spawn(looks::write_out(Arc::clone(machine)));
    threads.spawn(looks::look_at_disks(Arc::clone(machine)));
    threads.spawn(looks::look_at_leases(Arc::clone(machine)));
    let mut unfair = JoinSet::new();
    for &kind in unfair_kinds {
        unfair.spawn(unfair::harm(Arc::clone(machine), kind, dice.bits()));
    }
    let mut honest = JoinSet::new();
    let driver = Session::new(machine, "driver".to_owned(), dice.bits());
    let rounds = 3 + dice.below(10);
    honest.spawn(async move { judged(honest::drive(driver, rounds).await) });
    for number in 0..1 + dice.below(HONEST) {
        let session = Session::new(machine, format!("honest-{number}"), dice.bits());
        let driver = Session::new(machine, format!("honest-{number}"), dice.bits());
        let rounds = 1 + dice.below(4);
        let work = honest::work(session, rounds);
        honest.spawn(async move { judged(lease::kept(driver, work).await) });
    }
    if dice.chance(40) {
        let driver = Session::new(machine, lease::SILENT.to_owned(), dice.bits());
        honest.spawn(async move { judged(lease::fall_silent(driver).await) });
    }
    if dice.chance(30) {
        let executor = Session::new(machine, lease::EXECUTORS.to_owned(), dice.bits());
        honest.spawn(async move { judged(lease::vanish(executor).await) });
    }
    let mut mishaps = JoinSet::new();
    mishaps.spawn(mishap(Arc::clone(machine), dice.bits()));
    let stops = dice.chance(30);
    let stop_after = Duration::from_millis(dice.below(20_000) as u64);
    if stops {
        sleep(stop_after).await;
        machine.stop();
        let closed = timeout(DRAIN_TIMEOUT + SPARE, machine.all_closed()).await;
        closed.map_err(|_| "connections stay open after the stop".to_owned())?;
    }
    while let Some(worked) = honest.join_next().await {
        worked.map_err(|error| format!("a client panicked: {error}"))??;
    }
    while mishaps.join_next().await.is_some() {}
    come_to_rest(machine, unfair).await
}

/// Honest clients are done. The daemon has to close the connections of the others itself.
async fn come_to_rest(machine: &Arc<Machine>, mut unfair: JoinSet<()>) -> Judged {
    machine.end();
    let closed = async { while unfair.join_next().await.is_some() {} };
    timeout(UNFAIR, closed)
        .await
        .map_err(|_| "the connection of an unfair client is never closed".to_owned())?;
    let closed = timeout(DRAIN_TIMEOUT + SPARE, machine.all_closed()).await;
    closed.map_err(|_| "connections stay open without a client".to_owned())?;
    let honest = (0..HONEST).map(|number| format!("honest-{number}"));
    let others = ["driver", unfair::APP, lease::SILENT, lease::EXECUTORS].map(str::to_owned);
    for name in honest.chain(others) {
        machine.end_application(&name);
    }
    timeout(REST, machine.nothing_held())
        .await
        .map_err(|_| format!("held for nobody: {:?}", machine.held()))
}

/// A disk hangs, or the daemon stands still, or nothing happens.
async fn mishap(machine: Arc<Machine>, seed: u64) {
    let mut dice = Dice::new(seed);
    sleep(Duration::from_millis(dice.below(10_000) as u64)).await;
    let time = Duration::from_millis(1_000 + dice.below(100_000) as u64);
    match dice.below(10) {
        0..4 => machine.hang(dice.below(3), time).await,
        4..6 => machine.stand_still(time).await,
        _ => {}
    }
}
