// SPDX-License-Identifier: Apache-2.0
//! From the command line to a running daemon, and back to an exit code.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use lodestone_store::fs::Fs;
use lodestone_store::{Environment, OpenError, Store, StoreConfig, TAIL_PART_BYTES};
use rustix::fs::{FileType, fstat};
use tokio::net::TcpListener;
use tokio::task::{JoinError, spawn_blocking};

use crate::cli::{Command, Verb};
use crate::config::values::Memory;
use crate::config::{Config, ConfigError};
use crate::metrics::disks::MeasuredFs;
use crate::operator::doctor::DoctorError;
use crate::operator::end::{self, EndError};
use crate::operator::{admin, conf, doctor, drain, explain, local, plan};
use crate::process::announce::{self, AnnounceError, Announcement, Claim};
use crate::process::files::raise_file_limit;
use crate::process::log::Log;
use crate::process::memory::{self, Kernel};
use crate::process::shutdown::{self, Stop};
use crate::serve::{self, Admission, HeldPort};
use crate::service::certificate::{Certificate, CertificateError};
use crate::service::lanes::Lanes;
use crate::service::protection::Protection;
use crate::service::secrets::{Secrets, SecretsError};
use crate::service::{MemorySplit, Service};

/// Exit code of a failure that may be over at the next start.
const FAILED: u8 = 1;

/// Exit code of wrong settings, with which each start fails: clap's for a wrong command line. The
/// unit of systemd stays down after it.
const MISCONFIGURED: u8 = 2;

/// The reason why the daemon did not start, in a line or two that say what to do.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Announce(#[from] AnnounceError),
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    #[error("--tls-cert, --tls-key: {0}")]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(
        "--{key} {address}: the port is taken by another process (`ss -ltnp` shows which); stop it, \
         or choose another port (0 takes a free one); a daemon that stops keeps its port until the \
         handover to the next one is complete"
    )]
    PortTaken {
        key: &'static str,
        address: SocketAddr,
    },
    #[error("--{key} {address}: {source}; choose an address of this host and a port it may use")]
    Listen {
        key: &'static str,
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "`stay`: the daemon would end with its standard input, which is neither a pipe nor a socket; \
         give it the pipe of a process, or leave `stay` out"
    )]
    Stay,
    #[error("cannot run: {0}")]
    System(#[from] io::Error),
    #[error("cannot run: {0}")]
    Task(#[from] JoinError),
}

impl StartError {
    fn code(&self) -> u8 {
        match self {
            // The file may be there later.
            Self::Config(ConfigError::Unreadable { .. }) => FAILED,
            Self::Config(_) | Self::Stay => MISCONFIGURED,
            _ => FAILED,
        }
    }
}

/// Runs the command that the arguments of this process name.
pub fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let command = Command::try_parse_from(&arguments).unwrap_or_else(|wrong| {
        if wrong.use_stderr() {
            // Without stdout nobody takes the options.
            let _ = conf::refuse(&arguments);
        }
        wrong.exit()
    });
    match command.verb {
        Verb::Serve(args) => {
            let outcome = args.config().map_err(StartError::from).and_then(start);
            exit_by(outcome, StartError::code)
        }
        Verb::Explain(args) => exit(explain::run(&args)),
        Verb::Plan(args) => exit(plan::run(&args)),
        Verb::Drain(args) => exit(drain::run(&args)),
        Verb::End(args) => exit_by(end::run(&args), EndError::code),
        Verb::Conf(args) => exit(conf::run(&args)),
        Verb::Doctor(args) => match doctor::run(&args) {
            Ok(code) => ExitCode::from(code),
            Err(error) => exit_by(Err(error), DoctorError::code),
        },
    }
}

fn exit(outcome: Result<(), impl Display>) -> ExitCode {
    exit_by(outcome, |_| FAILED)
}

fn exit_by<E: Display>(outcome: Result<(), E>, code: fn(&E) -> u8) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without stderr there is no way to report this.
            let _ = writeln!(
                io::stderr(),
                "lodestone: {}",
                crate::cli::address::printable(&error.to_string())
            );
            ExitCode::from(code(&error))
        }
    }
}

fn start(config: Config) -> Result<(), StartError> {
    if config.stay && !has_input() {
        return Err(StartError::Stay);
    }
    let log = Arc::new(Log::to_stderr(&config));
    std::panic::set_hook(Box::new(
        |panic| tracing::error!(%panic, "a bug of the daemon"),
    ));
    raise_file_limit(config.max_connections.0);
    let runtime = Lanes::runtime(config.dirs.len())?;
    let outcome = runtime.block_on(daemon(config, Arc::clone(&log)));
    // Threads that hang in a disk are not waited for: all that can be handed over is handed over.
    runtime.shutdown_background();
    log.end();
    outcome
}

/// Returns true if the standard input ends with another process. That of a service of systemd, or
/// /dev/null, has ended already.
fn has_input() -> bool {
    let found = fstat(io::stdin()).map(|input| FileType::from_raw_mode(input.st_mode));
    matches!(found, Ok(FileType::Fifo | FileType::Socket))
}

fn store_config(config: &Config, split: &MemorySplit) -> StoreConfig {
    StoreConfig {
        dirs: config.dirs.clone(),
        memory_bytes: split.store_bytes,
        hanging_bytes: split.hanging_bytes(),
        quota_percent: config.quota.0,
        tail_part_bytes: TAIL_PART_BYTES,
        reserve: config.reserve.0,
        executor_roots: config.executor_roots.clone(),
    }
}

fn protection(config: &Config) -> Result<Protection, StartError> {
    let secrets = config.secrets.as_deref().map(Secrets::at).transpose()?;
    if let Some(secrets) = &secrets {
        secrets.warn_of_open_files();
    }
    let certificate = match (&config.tls_cert, &config.tls_key) {
        (Some(cert), Some(key)) => Some(Certificate::at(cert, key)?),
        _ => None,
    };
    Ok(Protection {
        secrets: secrets.map(Arc::new),
        certificate: certificate.map(Arc::new),
        encrypted_only: config.encrypted_only,
    })
}

async fn daemon(config: Config, log: Arc<Log>) -> Result<(), StartError> {
    let announcement = match &config.announce {
        None => None,
        Some(file) => match announce::claim(&file.0).await? {
            Claim::Ours(announcement) => {
                // The parent process may end, and Ctrl-C on its terminal is not for this daemon.
                // This fails only for the leader of a group, as a command of an interactive shell
                // is: that one ends with Ctrl-C.
                if !config.stay {
                    let _ = rustix::process::setsid();
                }
                Some(announcement)
            }
            Claim::Theirs(line) => return Ok(say(&format!("{line} existing=true"))?),
        },
    };
    let listener = bind("listen", config.listen.0).await?;
    let admin = match config.admin {
        Some(address) => Some(bind("admin", address.0).await?),
        None => None,
    };
    let protection = protection(&config)?;
    let zone = config.zone.clone().map(|zone| zone.0).unwrap_or_default();
    let stop = Stop::default();
    if config.stay {
        shutdown::on_end_of_input(Arc::clone(&log))?;
    }
    shutdown::on_signals(stop.clone(), log)?;
    let split = MemorySplit::of(match config.memory {
        Memory::Bytes(bytes) => bytes,
        Memory::Auto => memory::LEAST_BYTES,
    });
    let store_config = store_config(&config, &split);
    let mut environment = Environment::os();
    let fs = Arc::new(MeasuredFs::new(environment.fs, &config.dirs));
    environment.fs = Arc::clone(&fs) as Arc<dyn Fs>;
    let store = spawn_blocking(move || Store::open(store_config, environment)).await??;
    if config.memory == Memory::Auto {
        tokio::spawn(memory::follow(Arc::clone(&store), Kernel::default()));
    }
    let service = Service::with_disks(Arc::clone(&store), split, fs, protection, zone);
    let listeners = (listener, admin);
    let served = serve_announced(&config, listeners, service, announcement.as_ref(), &stop).await;
    // This daemon has used up the handover of the one before, also if it could not serve.
    shutdown::hand_over(store).await?;
    drop(served?);
    tracing::info!("stopped");
    Ok(())
}

/// Serves, and says so, until it is to end. The port is held until the handover is complete.
async fn serve_announced(
    config: &Config,
    (listener, admin): (TcpListener, Option<TcpListener>),
    service: Arc<Service>,
    announcement: Option<&Announcement>,
    stop: &Stop,
) -> io::Result<HeldPort> {
    let line = ready_line(&listener, admin.as_ref(), &service.store)?;
    if let Some(listener) = admin {
        let (service, stop) = (Arc::clone(&service), stop.watch());
        tokio::spawn(admin::run(listener, service, stop));
    }
    hear_operators(listener.local_addr()?.port(), &service, stop);
    announced(announcement, |file| file.publish(&line))?;
    if let Err(error) = say(&line) {
        // It found data of an earlier daemon, and clients may know its port.
        tracing::warn!(%error, "the process that started the daemon does not read its ready line");
    }
    tracing::info!(line, "ready");
    let admission = Admission {
        max_connections: config.max_connections.0,
        idle_exit: config.idle_exit.map(|time| time.0),
    };
    let port = serve::run(listener, service, admission, stop).await?;
    announced(announcement, Announcement::withdraw)?;
    Ok(port)
}

/// Takes requests of operators on this host.
fn hear_operators(port: u16, service: &Arc<Service>, stop: &Stop) {
    match local::bind(port) {
        Ok(operators) => {
            tokio::spawn(local::run(operators, Arc::clone(service), stop.watch()));
        }
        // Another daemon of this host has the same port on another address.
        Err(error) => tracing::warn!(port, %error, "operators cannot reach this daemon"),
    }
}

fn announced(
    announcement: Option<&Announcement>,
    act: impl FnOnce(&Announcement) -> io::Result<()>,
) -> io::Result<()> {
    announcement.map_or(Ok(()), act)
}

async fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::PortTaken { key, address },
            _ => StartError::Listen {
                key,
                address,
                source,
            },
        })
}

fn ready_line(
    listener: &TcpListener,
    admin: Option<&TcpListener>,
    store: &Store,
) -> io::Result<String> {
    let (listen, incarnation) = (listener.local_addr()?, store.incarnation());
    let (pid, version) = (std::process::id(), env!("CARGO_PKG_VERSION"));
    let ready = format!(
        "lodestone ready listen={listen} incarnation={incarnation} pid={pid} version={version}"
    );
    Ok(match admin {
        Some(admin) => format!("{ready} admin={}", admin.local_addr()?),
        None => ready,
    })
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}
