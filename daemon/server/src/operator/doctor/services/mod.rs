// SPDX-License-Identifier: Apache-2.0
//! Checks of services: each is asked from this host, as a driver or an executor would ask it.

mod accepted;
pub(super) mod checks;
mod clock;
mod presented;
mod protection;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use lodestone_model::State;
use lodestone_wire::extension::PROTOCOL_VERSION;
use lodestone_wire::extension::hello::{Hello, HelloReply};

use self::checks::{ADDRESS, PROTOCOL, REACH, SAME, STATE, VERSION};
use self::clock::{Difference, difference};
use self::presented::Trust;
use super::configuration::services::addresses;
use super::finding::{Finding, Level};
use super::settings::Settings;
use crate::metrics::stopwatch::Stopwatch;
use crate::operator::ask::{AskError, Asking};
use crate::operator::figures::megabytes;

/// A daemon answers from memory.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// An answer that takes longer is worth a warning: a request of the plugin has 5 s.
const SLOW_SECONDS: f64 = 1.0;

/// Services that are asked at the same time.
const AT_A_TIME: usize = 64;

/// A driver plans no shuffle for services with more of their memory in use, in percent.
const STRAINED_PERCENT: u64 = 85;

/// What to do if a check panics.
const BUG: &str = "Report it, with what is on stderr.";

/// With less than this on all disks of a service, a shuffle of some size does not fit.
const LOW_DISK_BYTES: u64 = 4 << 30;

/// The keys that say how an application connects to services. Without its secret, the other checks
/// still have a result.
pub(super) const READ: [&str; 5] = [
    "spark.authenticate",
    "spark.network.crypto.enabled",
    "spark.ssl.rpc.enabled",
    "spark.lodestone.replicas",
    "spark.master",
];

/// What is known of the application whose services these are.
pub(super) struct Clients<'a> {
    /// Its settings. None: only addresses are known.
    pub(super) settings: Option<&'a Settings>,
    /// A file of secrets, as daemons have it.
    pub(super) secrets: Option<PathBuf>,
    /// Where the admin endpoints of all services listen.
    pub(super) admin_port: u16,
}

/// A service that has answered.
struct Answered {
    address: String,
    ip: String,
    reply: HelloReply,
    /// How far its clock is from ours, or why that is not known.
    clock: Result<Difference, &'static str>,
}

/// Asks the services of a list, as `spark.lodestone.services` has it.
pub(super) fn all(listed: &str, clients: &Clients<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let named = match addresses(listed) {
        Ok(named) => named,
        Err(problem) => return vec![ADDRESS.error(problem)],
    };
    let services = match to_ask(listed, named) {
        Ok(services) => services,
        Err(finding) => return vec![finding],
    };
    let mut answered = Vec::new();
    // Read once, and before the threads: each would wait for a disk that hangs.
    let with_tls = clients.settings.filter(|settings| settings.has_tls());
    let trust = with_tls.map(Trust::of);
    for part in services.chunks(AT_A_TIME) {
        for (findings, reply) in at_once(part, |name, known| {
            one(name, known, clients, trust.as_ref())
        }) {
            found.extend(findings);
            answered.extend(reply);
        }
    }
    found.extend(together(&answered, clients.settings));
    found.extend(clock::all(&answered, clients.admin_port));
    found
}

/// A service as a person knows it, and its address, if that was asked for before.
type Named = (String, Option<SocketAddr>);

/// A name with `dns:` stands for all of its addresses. Others are asked for later, by many threads:
/// a name service that is silent takes its time for each.
fn to_ask(listed: &str, named: Vec<String>) -> Result<Vec<Named>, Finding> {
    let is_dns = listed.trim_start().starts_with("dns:");
    match named.first().filter(|_| is_dns) {
        Some(name) => {
            let addresses = resolved(name)?.into_iter();
            Ok(addresses.map(|one| (one.to_string(), Some(one))).collect())
        }
        None => Ok(named.into_iter().map(|name| (name, None)).collect()),
    }
}

/// Resolves a name as a JVM does, which takes the addresses of IPv4 first.
fn resolved(name: &str) -> Result<Vec<SocketAddr>, Finding> {
    let addresses = name.to_socket_addrs();
    addresses
        .map(|addresses| in_order(addresses.collect()))
        .map_err(|error| ADDRESS.error(format!("{name} does not resolve on this host: {error}")))
}

fn in_order(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    // Stable: the order of the name service counts within each kind.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses
}

type Asked = (Vec<Finding>, Option<Answered>);

fn at_once(
    services: &[Named],
    ask: impl Fn(&str, Option<SocketAddr>) -> Asked + Sync,
) -> Vec<Asked> {
    let ask = &ask;
    thread::scope(|scope| {
        let threads: Vec<_> = services
            .iter()
            .map(|(name, known)| (name, scope.spawn(move || ask(name, *known))))
            .collect();
        let ended = threads.into_iter().map(|(name, thread)| {
            let failed = |_| {
                let text = format!("{name}: this check itself failed, and says nothing of it");
                (vec![REACH.error(text).instead(BUG)], None)
            };
            thread.join().unwrap_or_else(failed)
        });
        ended.collect()
    })
}

fn one(
    name: &str,
    known: Option<SocketAddr>,
    clients: &Clients<'_>,
    trust: Option<&Trust>,
) -> Asked {
    let first = match known {
        Some(address) => Ok(Some(address)),
        None => resolved(name).map(|all| all.first().copied()),
    };
    match first {
        Ok(Some(address)) => at(name, address, clients, trust),
        Ok(None) => {
            let text = format!("{name} resolves to no address on this host");
            (vec![ADDRESS.error(text)], None)
        }
        Err(finding) => (vec![finding], None),
    }
}

fn at(name: &str, address: SocketAddr, clients: &Clients<'_>, trust: Option<&Trust>) -> Asked {
    let watch = Stopwatch::start();
    let at = address.to_string();
    let reply = match greeting(&at) {
        Ok(reply) => reply,
        Err(error) => return (vec![unreachable(name, &at, &error)], None),
    };
    let seconds = watch.seconds();
    let text = format!("{name} answers in {:.0} ms", seconds * 1000.0);
    let mut found = vec![match seconds > SLOW_SECONDS {
        true => REACH
            .warning(text)
            .instead("Look for what slows the network or the host of the service down."),
        false => REACH.ok(text),
    }];
    found.push(state(name, &reply));
    found.extend(protection::all(name, &at, clients));
    if let Some(trust) = trust {
        found.extend(tls::check(name, address, trust));
    }
    let answered = Answered {
        address: name.to_owned(),
        ip: address.ip().to_string(),
        clock: difference(address.ip(), clients.admin_port, reply.incarnation),
        reply,
    };
    (found, Some(answered))
}

pub(super) fn greeting(address: &str) -> Result<HelloReply, AskError> {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name: format!("lodestone-doctor/{}", env!("CARGO_PKG_VERSION")),
    };
    Asking::connect_for(address, ANSWER_TIMEOUT)?.ask(&hello)
}

fn unreachable(name: &str, at: &str, error: &AskError) -> Finding {
    match error {
        AskError::Refused(_) | AskError::Frame(_) | AskError::Answer(_) | AskError::Closed => {
            PROTOCOL.error(format!("{name} answers, and not as expected: {error}"))
        }
        AskError::Network(network)
            if matches!(network.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
        {
            let seconds = ANSWER_TIMEOUT.as_secs();
            REACH.error(format!("{name} ({at}) does not answer within {seconds} s"))
        }
        _ => REACH.error(format!("{name} ({at}) cannot be reached: {error}")),
    }
}

fn state(name: &str, reply: &HelloReply) -> Finding {
    let load = &reply.load;
    let used = (load.memory_used.saturating_mul(100)).checked_div(load.memory_limit);
    let used = used.unwrap_or_default();
    let figures = format!(
        "version {}, {used} % of memory ({}, its fullest part) in use, {} of {} of disk free, \
         {} connections",
        reply.server_version,
        megabytes(load.memory_limit),
        megabytes(load.disk_free),
        megabytes(load.disk_total),
        load.connections
    );
    let (level, what) = match load.state {
        State::Draining => (Level::Error, "is drained and takes nothing new"),
        State::DiskFull => (Level::Error, "has no disk with room"),
        State::DiskFailed => (Level::Error, "has no disk that works"),
        State::Serving if used >= STRAINED_PERCENT => (Level::Warning, "is short of memory"),
        State::Serving if load.disk_free < LOW_DISK_BYTES => {
            (Level::Warning, "has little room on its disks")
        }
        State::Serving => (Level::Ok, "takes new shuffles"),
    };
    STATE.at(level, format!("{name} {what}: {figures}"))
}

/// What shows only if all of them are compared.
fn together(answered: &[Answered], settings: Option<&Settings>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut by_daemon = BTreeMap::<i64, Vec<&str>>::new();
    let mut by_version = BTreeMap::<&str, Vec<&str>>::new();
    by_version.insert(env!("CARGO_PKG_VERSION"), vec!["this program"]);
    for one in answered {
        let address = one.address.as_str();
        by_daemon
            .entry(one.reply.incarnation)
            .or_default()
            .push(address);
        let version = one.reply.server_version.as_str();
        by_version.entry(version).or_default().push(address);
    }
    for addresses in by_daemon.values().filter(|addresses| addresses.len() > 1) {
        let text = format!("{} are the same daemon", addresses.join(" and "));
        found.push(SAME.error(text));
    }
    if by_version.len() > 1 {
        let each = by_version
            .iter()
            .map(|(version, of)| format!("{version}: {}", of.join(", ")));
        let text = format!(
            "there are several versions ({})",
            each.collect::<Vec<_>>().join("; ")
        );
        found.push(VERSION.note(text));
    }
    found.extend(replicas(answered, settings));
    found
}

fn replicas(answered: &[Answered], settings: Option<&Settings>) -> Option<Finding> {
    let has_replicas = |of: &&Settings| of.get("spark.lodestone.replicas") == Some("2");
    settings.filter(has_replicas)?;
    let different = |of: fn(&Answered) -> &str| {
        let mut names: Vec<_> = answered.iter().map(of).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    };
    if answered.len() < 2 {
        let text = "spark.lodestone.replicas is 2, and fewer than two services answer";
        return Some(SAME.error(text));
    }
    if different(|one| &one.ip) < 2 {
        let text = "spark.lodestone.replicas is 2, and all services are on one host";
        return Some(SAME.warning(text));
    }
    let have_zones = answered.iter().all(|one| !one.reply.zone.is_empty());
    (have_zones && different(|one| &one.reply.zone) < 2).then(|| {
        let zone = answered.first().map_or("", |one| &one.reply.zone);
        let text = format!("spark.lodestone.replicas is 2, and all services are in zone {zone}");
        SAME.warning(text)
            .instead("Start services in other zones, as many there as in the largest one.")
    })
}
