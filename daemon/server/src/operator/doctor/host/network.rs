// SPDX-License-Identifier: Apache-2.0
//! Checks of ports, and of the clock.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::Host;
use super::checks::{CLOCK, PORT};
use crate::config::Config;
use crate::operator::doctor::finding::Finding;
use crate::operator::doctor::services::greeting;

/// A program that knows the clock, and an admin endpoint, answer at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Such an answer is far smaller, up to the words that are looked for.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

pub(super) fn ports(config: &Config) -> Vec<Finding> {
    let mut found = vec![port("listen", config.listen.0, of_service)];
    let admin = config.admin.map(|address| address.0);
    found.extend(admin.map(|address| port("admin", address, of_admin)));
    found
}

/// Looks who has a port, if somebody has it.
fn port(key: &str, address: SocketAddr, daemon: fn(SocketAddr) -> Option<String>) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => PORT.ok(format!("--{key} {address} is free")),
        // A daemon that runs already has its ports.
        Err(error) if error.kind() == ErrorKind::AddrInUse => match daemon(reached(address)) {
            Some(daemon) => PORT
                .note(format!("--{key} {address} is taken by {daemon}"))
                .instead("Nothing, if that is the daemon; otherwise choose another port."),
            None => PORT.error(format!("--{key} {address} is taken by another process")),
        },
        Err(error) => PORT
            .error(format!("--{key} {address}: {error}"))
            .instead("Choose an address of this host, and a port that the daemon may use."),
    }
}

fn reached(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn of_service(address: SocketAddr) -> Option<String> {
    let reply = greeting(&address.to_string()).ok()?;
    Some(format!(
        "a Lodestone daemon, version {}",
        reply.server_version
    ))
}

fn of_admin(address: SocketAddr) -> Option<String> {
    let page = within(move || metrics(address))?;
    let is_ours = page.ok()?.contains("lodestone_");
    is_ours.then(|| "the admin endpoint of a Lodestone daemon".to_owned())
}

fn metrics(address: SocketAddr) -> io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")?;
    text(socket)
}

fn text(source: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns what is done in time. What takes longer ends with this program.
fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, answers) = channel();
    thread::spawn(move || sender.send(work()));
    answers.recv_timeout(ANSWER_TIMEOUT).ok()
}

/// Asks the system whether the kernel's clock follows a time service.
pub(super) fn clock(host: &Host) -> Finding {
    match clock_says(host).as_deref() {
        Some("yes") => CLOCK.ok("the clock follows a time service (timedatectl)"),
        Some("no") => CLOCK.note("the clock follows no time service (timedatectl)"),
        _ => CLOCK
            .note("timedatectl does not say whether the clock follows a time service")
            .instead("Look whether this host, or the host of this container, has a time service."),
    }
}

fn clock_says(host: &Host) -> Option<String> {
    let mut child = Command::new(&host.clock)
        .args(["show", "--property=NTPSynchronized", "--value"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let said = child
        .stdout
        .take()
        .and_then(|out| within(move || text(out)));
    // It has said all, or says nothing.
    let _ = child.kill();
    let _ = child.wait();
    Some(said?.ok()?.trim().to_owned())
}
