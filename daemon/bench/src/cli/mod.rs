// SPDX-License-Identifier: Apache-2.0
//! The command line of `lodestone-bench`.

mod args;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

pub use args::{BenchVerb, Command, FetchArgs, LimitArgs, PushArgs, TableArgs};
use args::{DiskArgs, From, LoadArgs, ServerArgs, SlowArgs, TroubleArgs};

use crate::error::{BenchError, at, doing};
use crate::measure::clock::unix_seconds;
use crate::measure::machine::Machine;
use crate::report::{Phase, Report, summary, table};
use crate::run::fetch_work::Shape;
use crate::run::phase::Conduct;
use crate::run::rounds::{Plan, Rounds, runtime};
use crate::run::scene::Slow;
use crate::run::trouble::Trouble;
use crate::server::{Server, Setup, Wanted, bare};
use crate::workload::{BlockSize, Workload};

/// The bare loop writes to the disk on the threads that read from sockets: so many that some may
/// wait.
const LIMIT_THREADS: usize = 16;

const CONNECTIONS: u32 = 100;

/// The number in the paper, also used for the bound.
const MANY_CONNECTIONS: u32 = 1000;

/// Blocks of the paper.
const PAPER_BLOCKS: [BlockSize; 3] = [
    BlockSize::Fixed(10_000),
    BlockSize::Fixed(100_000),
    BlockSize::Fixed(1_000_000),
];

/// Measures, and prints the result.
pub fn run(verb: &BenchVerb) -> Result<(), BenchError> {
    let job = match verb {
        BenchVerb::ServeLimit { dir } => return serve_limit(dir.clone()),
        BenchVerb::Push(args) => Job {
            phases: vec![Phase::Push],
            trouble: trouble(&args.trouble, &args.load)?,
            slow: slow(&args.slow),
            ..Job::of(&args.load, wanted(&args.servers)?, CONNECTIONS)
        },
        BenchVerb::Fetch(args) => Job {
            phases: match args.from {
                From::Merged => vec![Phase::FetchMerged],
                From::Originals => vec![Phase::FetchOriginals],
                From::Both => vec![Phase::FetchMerged, Phase::FetchOriginals],
            },
            trouble: trouble(&args.trouble, &args.load)?,
            slow: slow(&args.slow),
            ..Job::of(&args.load, wanted(&args.servers)?, CONNECTIONS).on(&args.disk)
        },
        BenchVerb::Limit(args) => {
            let only = Servers {
                wanted: vec![Wanted::Limit],
                ..Servers::default()
            };
            Job {
                phases: vec![Phase::Push, Phase::FetchMerged],
                ..Job::of(&args.load, only, MANY_CONNECTIONS).on(&args.disk)
            }
        }
        BenchVerb::Table(args) => Job {
            phases: vec![Phase::Push, Phase::FetchMerged, Phase::FetchOriginals],
            sizes: PAPER_BLOCKS.to_vec(),
            ..Job::of(&args.load, wanted(&args.servers)?, MANY_CONNECTIONS).on(&args.disk)
        },
    };
    job.run()
}

/// The servers that the command line names.
#[derive(Default)]
struct Servers {
    wanted: Vec<Wanted>,
    pid: Option<u32>,
    memory: Option<String>,
    daemon: Option<PathBuf>,
}

fn wanted(args: &ServerArgs) -> Result<Servers, BenchError> {
    let mut running = 0;
    for (at, server) in args.servers.iter().enumerate() {
        if args.servers.iter().take(at).any(|other| other == server) {
            return Err(BenchError::Usage(format!(
                "--server {server:?} is there twice"
            )));
        }
        running += usize::from(matches!(server, Wanted::Running(..)));
    }
    if args.pid.is_some() && running != 1 {
        let need = "--pid needs exactly one --server HOST:PORT that it belongs to";
        return Err(BenchError::Usage(need.to_owned()));
    }
    Ok(Servers {
        wanted: args.servers.clone(),
        pid: args.pid,
        memory: args.memory.clone(),
        daemon: args.daemon.clone(),
    })
}

fn trouble(args: &TroubleArgs, load: &LoadArgs) -> Result<Option<Trouble>, BenchError> {
    match args.pause {
        Some(seconds) if seconds >= load.timeout => Err(BenchError::Usage(format!(
            "--pause {seconds} lasts longer than --timeout {}",
            load.timeout
        ))),
        Some(seconds) => Ok(Some(Trouble::Pause(Duration::from_secs(seconds)))),
        None => Ok(args.kill.then_some(Trouble::Kill)),
    }
}

fn slow(args: &SlowArgs) -> Slow {
    Slow {
        connections: args.slow,
        bytes_a_second: args.slow_rate,
    }
}

/// A measurement with its arguments.
struct Job<'a> {
    load: &'a LoadArgs,
    servers: Servers,
    connections: u32,
    phases: Vec<Phase>,
    sizes: Vec<BlockSize>,
    trouble: Option<Trouble>,
    slow: Slow,
    cold: bool,
    hdd: bool,
}

impl<'a> Job<'a> {
    fn of(load: &'a LoadArgs, servers: Servers, connections: u32) -> Self {
        Self {
            load,
            servers,
            connections: load.connections.unwrap_or(connections),
            phases: Vec::new(),
            sizes: vec![BlockSize::Fixed(10_000)],
            trouble: None,
            slow: Slow::default(),
            cold: false,
            hdd: false,
        }
    }

    fn on(self, disk: &DiskArgs) -> Self {
        Self {
            cold: disk.cold || disk.hdd,
            hdd: disk.hdd,
            ..self
        }
    }

    fn run(self) -> Result<(), BenchError> {
        let load = self.load;
        let workloads = self.workloads()?;
        self.check()?;
        let runtime = runtime()?;
        let interrupted = interrupted(&runtime);
        let dir = WorkDir::below(load.dir.clone().unwrap_or_else(std::env::temp_dir))?;
        raise_file_limit(2 * u64::from(self.connections + self.slow.connections));
        let machine = Machine::with_data_in(&dir.0);
        let setup = Setup {
            dir: dir.0.clone(),
            daemon: self.servers.daemon.clone(),
            memory: self.servers.memory.clone(),
            connections: self.connections + self.slow.connections,
            pid: self.servers.pid,
        };
        let started = self
            .servers
            .wanted
            .iter()
            .map(|one| Server::start(one, &setup));
        let servers = started.collect::<Result<Vec<_>, _>>()?;
        let is_killed = self.trouble == Some(Trouble::Kill);
        let plan = Plan {
            dir: dir.0.clone(),
            workloads,
            shuffles: load.shuffles,
            shape: Shape {
                connections: self.connections,
                window_bytes: load.window,
            },
            rounds: if is_killed { 1 } else { load.rounds },
            warmup: if is_killed { 0 } else { load.warmup },
            phases: self.phases.clone(),
            slow: self.slow,
            cold: self.cold,
            hdd: self.hdd,
            conduct: Conduct {
                stall_timeout: Duration::from_secs(load.timeout),
                trouble: self.trouble,
                interrupted,
            },
        };
        let (rounds, remarks) = Rounds::of(plan, servers, runtime)?.run()?;
        let report = Report {
            command: std::env::args().collect(),
            version: env!("CARGO_PKG_VERSION"),
            finished_unix_seconds: unix_seconds(),
            machine,
            connections: self.connections,
            shuffles: load.shuffles,
            hdd: self.hdd && remarks.is_empty(),
            remarks,
            summary: summary::summaries(&rounds),
            rounds,
        };
        self.sender(&report)
    }

    fn workloads(&self) -> Result<Vec<Workload>, BenchError> {
        let load = self.load;
        let sizes = match load.block.as_slice() {
            [] => &self.sizes,
            given => given,
        };
        let plan = |size: &BlockSize| {
            let total = load.total / u64::from(load.shuffles);
            Workload::plan(*size, total, load.maps, load.partitions).map_err(BenchError::Usage)
        };
        sizes.iter().map(plan).collect()
    }

    /// Refuses arguments that exclude each other.
    fn check(&self) -> Result<(), BenchError> {
        let (Servers { wanted, pid, .. }, load) = (&self.servers, self.load);
        if self.trouble == Some(Trouble::Kill) && (wanted.len() != 1 || self.load.block.len() > 1) {
            let need = "--kill takes one server and one block size";
            return Err(BenchError::Usage(need.to_owned()));
        }
        if load.shuffles > 1 && self.phases.contains(&Phase::FetchOriginals) {
            let need = "--shuffles is for pushes and for merged blocks (fetch --from merged)";
            return Err(BenchError::Usage(need.to_owned()));
        }
        if load.shuffles > self.connections {
            let need = "--shuffles needs at least as many --connections";
            return Err(BenchError::Usage(need.to_owned()));
        }
        let is_running = |one: &Wanted| matches!(one, Wanted::Running(..));
        if (self.trouble.is_some() || self.hdd) && pid.is_none() && wanted.iter().any(is_running) {
            let need = "--kill, --pause and --hdd need the --pid of a server that runs already";
            return Err(BenchError::Usage(need.to_owned()));
        }
        Ok(())
    }

    fn sender(&self, report: &Report) -> Result<(), BenchError> {
        let mut out = io::stdout().lock();
        let text = table::text(report);
        out.write_all(text.as_bytes())
            .map_err(doing("writing to stdout"))?;
        if let Some(path) = &self.load.json {
            report.write_json(path)?;
        }
        Ok(())
    }
}

/// A folder that goes with this.
struct WorkDir(PathBuf);

impl WorkDir {
    fn below(dir: PathBuf) -> Result<Self, BenchError> {
        let own = dir.join(format!("lodestone-bench-{}", std::process::id()));
        fs::create_dir(&own).map_err(at(&own))?;
        Ok(Self(fs::canonicalize(&own).unwrap_or(own)))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            // The measurement is done; the folder's name shows that the bench made it.
            let _ = writeln!(io::stderr(), "{} stays: {error}", self.0.display());
        }
    }
}

/// Becomes true with Ctrl-C, so that servers are ended and files are deleted.
fn interrupted(runtime: &Runtime) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            sender.send_replace(true);
        }
    });
    receiver
}

/// Each connection takes a descriptor. If the limit cannot be raised, connecting fails with a
/// message.
fn raise_file_limit(wanted: u64) {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_some_and(|limit| limit < wanted) {
        let most = Rlimit {
            current: before.maximum,
            ..before
        };
        let _ = setrlimit(Resource::Nofile, most);
    }
}

fn serve_limit(dir: Option<PathBuf>) -> Result<(), BenchError> {
    if let Some(dir) = &dir {
        fs::create_dir_all(dir).map_err(at(dir))?;
    }
    raise_file_limit(u64::MAX);
    Builder::new_multi_thread()
        .worker_threads(LIMIT_THREADS)
        .enable_all()
        .build()
        .map_err(doing("starting threads"))?
        .block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let mut out = io::stdout();
            writeln!(out, "limit ready listen={}", listener.local_addr()?)?;
            out.flush()?;
            tokio::select! {
                served = bare::serve(listener, dir) => served,
                ended = spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())) => {
                    ended?.map(drop)
                }
            }
        })
        .map_err(doing("serving"))
}
