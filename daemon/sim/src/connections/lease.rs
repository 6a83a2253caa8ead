// SPDX-License-Identifier: Apache-2.0
//! Leases. That of a living driver must not end while the daemon stands still. That of a silent
//! driver must end in time. An application of executors has no lease: it ends when their
//! directories have vanished.

use std::path::Path;
use std::time::Duration;

use lodestone_model::{AppAttempt, AppId, Code, Mode};
use lodestone_server::process::leases::LOOK_EVERY;
use lodestone_server::service::clock;
use lodestone_wire::Message;
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::status::Refused;
use lodestone_wire::spark::register::RegisterExecutor;
use tokio::time::{Instant, sleep};

use super::honest::{DATA, key, register};
use super::session::{Asked, MEMORY_ONLY, Session, Stop, Work};
use crate::client::EXECUTOR_DIRS;

/// The application of a driver that falls silent.
pub(super) const SILENT: &str = "silent";

/// The application of executors that vanish.
pub(super) const EXECUTORS: &str = "executors";

/// The lease of a driver that lives: the one that the plugin asks for. Where connections are turned
/// away, a renewal takes up to a minute.
const LEASE: Duration = Duration::from_secs(120);

/// A driver renews its lease when a third of it is over.
const RENEWAL: Duration = Duration::from_secs(40);

/// The daemon forgets an application when the directories of its executors have been gone for this
/// time.
const GONE: Duration = Duration::from_secs(60);

/// How often the simulation looks whether an application is known.
const GLANCE: Duration = Duration::from_millis(100);

/// A gap up to this length counts as a late look, and no lease is longer by it.
const SHORT_STILL: Duration = Duration::from_secs(6);

/// The time that a look may come late, and the simulation may notice it late.
const SPARE: Duration = Duration::from_secs(2);

/// Works while a driver renews the lease of the application.
pub(super) async fn kept(driver: Session, work: impl Future<Output = Work>) -> Work {
    tokio::select! {
        biased;
        done = work => done,
        broken = renew_always(driver) => broken,
    }
}

async fn renew_always(mut driver: Session) -> Work {
    loop {
        let pause = driver.dice.below(RENEWAL.as_millis() as usize);
        sleep(Duration::from_millis(pause as u64)).await;
        // Between two of its shuffles the application is not known.
        renew(&mut driver, LEASE).await?;
    }
}

/// Renews a lease. Returns false if the application is not known.
async fn renew(driver: &mut Session, lease: Duration) -> Work<bool> {
    let request = RenewLease {
        app: app(driver)?,
        app_attempt: AppAttempt::NONE,
        incarnation: 0,
        ttl_ms: lease.as_millis() as i64,
    };
    let asked = request.to_bytes();
    let answer = driver.ask(Asked::Rpc(&asked), MEMORY_ONLY).await?;
    if LeaseReply::from_bytes(&answer).is_ok() {
        return Ok(true);
    }
    match Refused::from_bytes(&answer) {
        Ok(refused) if refused.code == Code::UnknownApplication => Ok(false),
        refused => driver.breach(format!("a lease was refused: {refused:?}")),
    }
}

fn app(session: &Session) -> Work<AppId> {
    Ok(AppId::new(&session.name).map_err(|error| error.to_string())?)
}

fn is_known(session: &Session) -> Work<bool> {
    let known = session
        .machine
        .service
        .store
        .check_application(&app(session)?);
    Ok(known.is_ok())
}

/// A driver registers a shuffle, renews its lease once, and is silent from then on.
pub(super) async fn fall_silent(mut driver: Session) -> Work {
    let incarnation = driver.incarnation().await?;
    let key = key(&driver, 0, incarnation)?;
    register(&mut driver, &key, Mode::Remote, (1, 1)).await?;
    let lease = Duration::from_secs(10 + driver.dice.below(50) as u64);
    let asked = clock::now();
    if !renew(&mut driver, lease).await? {
        return driver.breach("its lease ended before it was renewed");
    }
    let answered = clock::now();
    // A gap is measured from the look before it.
    let latest = lease + LOOK_EVERY + LOOK_EVERY + SPARE;
    while is_known(&driver)? {
        let silent = driver.machine.time_since(answered);
        if silent > latest {
            let ms = silent.as_millis();
            return driver.breach(format!("a lease of {lease:?} has not ended after {ms} ms"));
        }
        glance(&driver).await?;
    }
    let stood_still = driver.machine.stood_still_since(asked);
    let earliest = match stood_still > SHORT_STILL {
        true => lease + stood_still,
        false => lease,
    };
    check_not_before(&driver, asked, earliest, "a lease ended")
}

/// Waits for a moment.
async fn glance(session: &Session) -> Work {
    sleep(GLANCE).await;
    match session.machine.is_stopping() {
        true => Err(Stop::Stopping),
        false => Ok(()),
    }
}

fn check_not_before(session: &Session, begin: Instant, least: Duration, what: &str) -> Work {
    let (took, least) = (begin.elapsed().as_millis(), least.as_millis());
    match took < least {
        true => session.breach(format!("{what} after {took} ms, not {least}")),
        false => Ok(()),
    }
}

/// An executor registers, and its directory vanishes.
pub(super) async fn vanish(mut executor: Session) -> Work {
    let [dir, ..] = EXECUTOR_DIRS;
    let disk = executor.machine.disk.fake.clone();
    disk.add_dir(Path::new(dir));
    let register = RegisterExecutor {
        app: app(&executor)?,
        exec_id: "1".to_owned(),
        local_dirs: vec![dir.to_owned()],
        sub_dirs_per_local_dir: 64,
        shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
    };
    executor.ask(Asked::Rpc(&register.to_bytes()), DATA).await?;
    let works = Duration::from_millis(executor.dice.below(100_000) as u64);
    let begin = clock::now();
    while begin.elapsed() < works {
        glance(&executor).await?;
        if !is_known(&executor)? {
            return executor.breach("an application is forgotten whose executor has a directory");
        }
    }
    disk.wipe(Path::new(dir));
    let vanished = clock::now();
    while is_known(&executor)? {
        let gone = executor.machine.well_time_since(vanished);
        if gone > GONE + LOOK_EVERY + SPARE {
            let ms = gone.as_millis();
            return executor.breach(format!("executors that are gone are known after {ms} ms"));
        }
        glance(&executor).await?;
    }
    check_not_before(&executor, vanished, GONE, "executors were forgotten")
}
