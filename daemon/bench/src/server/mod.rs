// SPDX-License-Identifier: Apache-2.0
//! The servers that are measured: the bench starts them, or finds them running.

pub mod bare;
pub mod started;
pub mod throttle;

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::statvfs;
use rustix::process::{Pid, Signal, kill_process};

use crate::dialect::{Dialect, spark};
use crate::error::{BenchError, Log, at};
use crate::measure::process::Watched;
use started::{LOG, Started, last_lines};
use throttle::{CGROUPS, HDD_READS_A_SECOND, Throttle, ThrottleError};

/// With less room than this a disk is called full.
const FULL: u64 = 4 << 20;

/// Which server, as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This daemon, driven in its own words.
    Lodestone,
    /// This daemon, driven in Spark's.
    LodestoneInSpark,
    /// Spark's own service, from these jars.
    Spark(PathBuf),
    /// The bare loop, from files.
    Limit,
    /// The bare loop, from memory.
    LimitInMemory,
    /// A running server.
    Running(SocketAddr, Dialect),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lodestone" => return Ok(Self::Lodestone),
            "lodestone-spark" => return Ok(Self::LodestoneInSpark),
            "limit" => return Ok(Self::Limit),
            "limit-memory" => return Ok(Self::LimitInMemory),
            _ => {}
        }
        if let Some(jars) = text.strip_prefix("spark=") {
            let jars = PathBuf::from(jars);
            return if jars.is_dir() {
                Ok(Self::Spark(jars))
            } else {
                Err(format!("{} is no folder of jars", jars.display()))
            };
        }
        let (dialect, named) = match text.strip_prefix("spark@") {
            Some(named) => (Dialect::Spark, named),
            None => (Dialect::Lodestone, text),
        };
        let mut addresses = named.to_socket_addrs().map_err(|error| {
            format!(
                "{error}: name lodestone, lodestone-spark, spark=JARS, limit, limit-memory, \
                 HOST:PORT or spark@HOST:PORT"
            )
        })?;
        let address = addresses.next();
        address
            .map(|address| Self::Running(address, dialect))
            .ok_or_else(|| format!("{named} has no address"))
    }
}

impl Wanted {
    fn name(&self) -> String {
        match self {
            Self::Lodestone => "lodestone".to_owned(),
            Self::LodestoneInSpark => "lodestone-spark".to_owned(),
            Self::Spark(_) => "spark".to_owned(),
            Self::Limit => "limit".to_owned(),
            Self::LimitInMemory => "limit-memory".to_owned(),
            Self::Running(address, _) => address.to_string(),
        }
    }

    fn dialect(&self) -> Dialect {
        match self {
            Self::Lodestone => Dialect::Lodestone,
            Self::LodestoneInSpark | Self::Spark(_) => Dialect::Spark,
            Self::Limit | Self::LimitInMemory => Dialect::Bare,
            Self::Running(_, dialect) => *dialect,
        }
    }
}

/// How servers are started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Folder for their data.
    pub dir: PathBuf,
    /// The daemon's program; without it `lodestone` in the folder of this one.
    pub daemon: Option<PathBuf>,
    /// Memory that each is given; without it each has its own default.
    pub memory: Option<String>,
    /// Connections that will be opened.
    pub connections: u32,
    /// Process id of a running server.
    pub pid: Option<u32>,
}

/// A server.
#[derive(Debug)]
pub struct Server {
    /// Its name in reports.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Its process, where it is known.
    pub pid: Option<u32>,
    /// The directory of the files of an executor on its host, and of the server's own.
    pub home: PathBuf,
    // In this order: a group can only go after its process.
    started: Option<Started>,
    throttle: Option<Throttle>,
}

impl Server {
    /// Starts it, or uses the one that runs.
    pub fn start(wanted: &Wanted, setup: &Setup) -> Result<Self, BenchError> {
        let name = wanted.name();
        let home = setup.dir.join(name.replace([':', '[', ']'], "-"));
        fs::create_dir_all(&home).map_err(at(&home))?;
        let memory = setup.memory.as_deref();
        let started = match wanted {
            Wanted::Lodestone | Wanted::LodestoneInSpark => {
                let daemon = setup.daemon.clone().map_or_else(started::daemon, Ok)?;
                Some(Started::lodestone(
                    &daemon,
                    &home,
                    memory,
                    setup.connections,
                )?)
            }
            Wanted::Spark(jars) => Some(Started::spark(jars, &home, memory)?),
            Wanted::Limit => Some(Started::bare(&home, true)?),
            Wanted::LimitInMemory => Some(Started::bare(&home, false)?),
            Wanted::Running(..) => None,
        };
        let address = match (&started, wanted) {
            (Some(started), _) => started.address,
            (None, Wanted::Running(address, _)) => *address,
            (None, _) => return Err(BenchError::Usage(format!("{name} cannot be started"))),
        };
        let pid = started.as_ref().map(Started::pid).or(setup.pid);
        let mut server = Self::running(name, address, wanted.dialect(), home)?;
        server.pid = pid;
        server.started = started;
        Ok(server)
    }

    /// Returns a running server, with a folder for the files of its executors.
    pub fn running(
        name: String,
        address: SocketAddr,
        dialect: Dialect,
        home: PathBuf,
    ) -> Result<Self, BenchError> {
        executor_dirs(&home)?;
        Ok(Self {
            name,
            address,
            dialect,
            pid: None,
            home,
            started: None,
            throttle: None,
        })
    }

    /// The end of its log, if the bench has it.
    pub fn log(&self) -> Log {
        let log = self.started.as_ref().map(|_| self.home.join(LOG));
        let lines = log.map_or_else(String::new, |log| last_lines(&log));
        let is_full = statvfs(&self.home).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < FULL);
        Log { lines, is_full }
    }

    /// Its process, to be watched.
    pub fn watched(&self) -> Option<Watched> {
        self.pid.map(Watched::process)
    }

    /// From now on its disk is like one with a head.
    pub fn slow_disk(&mut self) -> Result<(), ThrottleError> {
        let Some(pid) = self.pid else {
            return Ok(());
        };
        if self.throttle.is_some() {
            return Ok(());
        }
        let name = format!("lodestone-bench-{}-{pid}", std::process::id());
        let throttle = Throttle::of(Path::new(CGROUPS), &name, &self.home, HDD_READS_A_SECOND)?;
        throttle.hold(pid)?;
        self.throttle = Some(throttle);
        Ok(())
    }

    /// Sends a signal to its process.
    pub fn signal(&self, signal: Signal) -> Result<(), BenchError> {
        let pid = self.pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let Some(pid) = pid else {
            let need = format!("{}: give --pid to have it killed or paused", self.name);
            return Err(BenchError::Usage(need));
        };
        kill_process(pid, signal).map_err(|errno| BenchError::System {
            what: "sending a signal",
            source: errno.into(),
        })
    }
}

/// Makes the directories of an executor before it registers: its block directory, and the folders
/// for merged blocks.
fn executor_dirs(home: &Path) -> Result<(), BenchError> {
    let blocks = home.join(spark::LOCAL_DIR);
    fs::create_dir_all(&blocks).map_err(at(&blocks))?;
    for sub_dir in 0..spark::SUB_DIRS {
        let dir = home.join(spark::MERGE_DIR).join(format!("{sub_dir:02x}"));
        fs::create_dir_all(&dir).map_err(at(&dir))?;
    }
    Ok(())
}
