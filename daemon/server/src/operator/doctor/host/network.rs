// SPDX-License-Identifier: Apache-2.0
//! Checks of ports, of the host's name, and of its clock.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::process::Command;

use super::Host;
use super::checks::{CLOCK, HOST_NAME, PORT};
use crate::config::Config;
use crate::operator::doctor::finding::Finding;
use crate::operator::doctor::services::greeting;

pub(super) fn ports(config: &Config) -> Vec<Finding> {
    let mut found = vec![port("listen", config.listen.0)];
    found.extend(config.admin.map(|address| port("admin", address.0)));
    found
}

fn port(key: &str, address: SocketAddr) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => PORT.ok(format!("--{key} {address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => taken(key, address),
        Err(error) => PORT
            .error(format!("--{key} {address}: {error}"))
            .instead("Choose an address of this host, and a port that the daemon may use."),
    }
}

/// A daemon that runs already has its port.
fn taken(key: &str, address: SocketAddr) -> Finding {
    let mut reached = address;
    if address.ip().is_unspecified() {
        reached.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    match greeting(&reached.to_string()) {
        Ok(reply) => PORT
            .note(format!(
                "--{key} {address} is taken by a Lodestone daemon, version {}",
                reply.server_version
            ))
            .instead("Nothing, if that is the daemon; otherwise choose another port."),
        Err(_) => PORT.error(format!("--{key} {address} is taken by another process")),
    }
}

pub(super) fn host_name(host: &Host) -> Finding {
    let name = fs::read_to_string(&host.name).unwrap_or_default();
    let name = name.trim();
    let addresses: Vec<IpAddr> = match (name, 0).to_socket_addrs() {
        Ok(addresses) => addresses.map(|address| address.ip()).collect(),
        Err(error) => {
            let text = format!("the name of this host, `{name}`, does not resolve: {error}");
            return HOST_NAME.warning(text);
        }
    };
    let mut shown: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    shown.dedup();
    let shown = shown.join(", ");
    match addresses.iter().all(IpAddr::is_loopback) {
        true => HOST_NAME.warning(format!(
            "the name of this host, `{name}`, resolves to {shown}, where no other host reaches it"
        )),
        false => HOST_NAME.ok(format!(
            "the name of this host, `{name}`, resolves to {shown}"
        )),
    }
}

/// Asks the system whether the kernel's clock follows a time service.
pub(super) fn clock(host: &Host) -> Finding {
    let arguments = ["show", "--property=NTPSynchronized", "--value"];
    let answer = Command::new(&host.clock).args(arguments).output();
    let said = answer.ok().filter(|answer| answer.status.success());
    let said = said.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned());
    match said.as_deref() {
        Some("yes") => CLOCK.ok("the clock follows a time service (timedatectl)"),
        Some("no") => CLOCK.note("the clock follows no time service (timedatectl)"),
        _ => CLOCK
            .note("timedatectl does not say whether the clock follows a time service")
            .instead("Look whether this host, or the host of this container, has a time service."),
    }
}
