// SPDX-License-Identifier: Apache-2.0
//! A daemon process on loopback that ends with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpgid, getpgrp, getrlimit, kill_process, prlimit,
};
use tempfile::TempDir;

/// How long anything may take before a test gives up.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a daemon that does not answer any more may go unnoticed.
const MOMENT: Duration = Duration::from_millis(200);

pub(crate) struct Daemon {
    child: Child,
    pub(crate) ready: String,
    pub(crate) dir: TempDir,
    lines: mpsc::Receiver<String>,
    log: mpsc::Receiver<String>,
}

impl Daemon {
    pub(crate) fn start(extra: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut daemon = Self::launch(dir, extra);
        daemon.ready = daemon.line();
        assert!(
            daemon.ready.starts_with("lodestone ready "),
            "said {:?}",
            daemon.ready
        );
        daemon
    }

    /// Starts it without waiting for the ready line.
    pub(crate) fn launch(dir: TempDir, extra: &[&str]) -> Self {
        let mut child = command(dir.path(), extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = follow(child.stdout.take().unwrap());
        let log = follow(child.stderr.take().unwrap());
        Self {
            child,
            ready: String::new(),
            dir,
            lines,
            log,
        }
    }

    /// The next line on stdout.
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(TEST_TIMEOUT) {
            Ok(line) => line,
            Err(_) => panic!(
                "no line on stdout; the log says {:?}",
                self.log.try_iter().last()
            ),
        }
    }

    /// Waits for a log line that contains the text.
    pub(crate) fn logged(&self, text: &str) -> String {
        loop {
            match self.log.recv_timeout(TEST_TIMEOUT) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(_) => panic!("nothing logged with {text:?}"),
            }
        }
    }

    /// All that is logged until a line contains the text, with this line.
    pub(crate) fn log_until(&self, text: &str) -> String {
        let mut log = String::new();
        loop {
            match self.log.recv_timeout(TEST_TIMEOUT) {
                Ok(line) => log = format!("{log}{line}\n"),
                Err(_) => panic!("nothing logged with {text:?}: {log}"),
            }
            if log.contains(text) {
                return log;
            }
        }
    }

    /// Returns true if a line that contains the text comes within this time.
    pub(crate) fn logs_within(&self, text: &str, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(line) if line.contains(text) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    fn word(&self, name: &str) -> &str {
        let words = self.ready.split(' ');
        let mut found = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found
            .next()
            .unwrap_or_else(|| panic!("no {name} in {:?}", self.ready))
    }

    pub(crate) fn address(&self) -> &str {
        self.word("listen")
    }

    pub(crate) fn admin(&self) -> &str {
        self.word("admin")
    }

    /// The answer of the admin endpoint to a GET.
    pub(crate) fn get(&self, path: &str) -> String {
        get(self.admin(), path)
    }

    /// The answer to a client that takes this.
    pub(crate) fn get_as(&self, path: &str, accept: &str) -> String {
        get(
            self.admin(),
            &format!("{path} HTTP/1.1\r\nAccept: {accept}"),
        )
    }

    /// Sends SIGTERM until the daemon logs this. Signals close to each other are one to it.
    pub(crate) fn signal_until(&self, text: &str) {
        let since = Instant::now();
        while !self.logs_within(text, MOMENT) {
            assert!(since.elapsed() < TEST_TIMEOUT, "{text:?} is never logged");
            self.signal(Signal::TERM);
        }
    }

    /// Waits until a metric without labels has this value or more.
    pub(crate) fn reaches(&self, metric: &str, least: f64) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let metrics = self.get("/metrics");
            let found = metrics.lines().find_map(|line| {
                let (name, value) = line.split_once(' ')?;
                (name == metric).then(|| value.parse::<f64>().unwrap())
            });
            let value = found.unwrap_or_else(|| panic!("no {metric} in {metrics}"));
            if value >= least {
                return;
            }
            assert!(Instant::now() < deadline, "{metric} stays at {value}");
        }
    }

    /// Opens a connection, sends this, and resets it, as a probe of the port does.
    pub(crate) fn reset_after(&self, sent: &[u8]) {
        let mut probe = TcpStream::connect(self.address()).unwrap();
        probe.write_all(sent).unwrap();
        rustix::net::sockopt::set_socket_linger(&probe, Some(Duration::ZERO)).unwrap();
    }

    /// Waits until so many connections have come and ended, and returns how many of them failed to
    /// authenticate.
    pub(crate) fn failures_to_authenticate_of(&self, connections: u32) -> u32 {
        self.reaches("lodestone_connections_total", connections.into());
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let metrics = self.get("/metrics");
            let value = |name: &str| {
                let found = metrics.lines().find_map(|line| line.strip_prefix(name));
                found.unwrap().trim().parse::<u32>().unwrap()
            };
            if value("lodestone_connections_open ") == 0 {
                return value("lodestone_authentication_failures_total ");
            }
            assert!(Instant::now() < deadline, "a connection does not end");
        }
    }

    pub(crate) fn incarnation(&self) -> i64 {
        u64::from_str_radix(self.word("incarnation"), 16)
            .unwrap()
            .cast_signed()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends its standard input, as the end of the process that started it does.
    pub(crate) fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Returns true if a signal to the process group of this test reaches the daemon.
    pub(crate) fn is_in_our_group(&self) -> bool {
        getpgid(Some(Pid::from_child(&self.child))).unwrap() == getpgrp()
    }

    /// Waits for the end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        // Its stdout closes when it ends: an event to wait for, with a limit.
        loop {
            match self.lines.recv_timeout(TEST_TIMEOUT) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("the daemon does not end"),
            }
        }
        self.child.wait().unwrap()
    }

    /// Lets the daemon open so many more descriptors than it has now.
    pub(crate) fn limit_descriptors(&self, more: u64) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        let limit = Rlimit {
            current: Some(open.unwrap().count() as u64 + more),
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        let pid = Some(Pid::from_child(&self.child));
        prlimit(pid, Resource::Nofile, limit).unwrap();
    }

    /// Memory that the process has in use now: its pages are counted one by one, and swapped pages
    /// count too. The sum in `status` is made of counters of each processor, and may be late.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.memory("smaps_rollup", "Rss:") + self.memory("smaps_rollup", "Swap:")
    }

    /// The most memory that it ever had in use.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.memory("status", "VmHWM:")
    }

    fn memory(&self, file: &str, name: &str) -> u64 {
        let path = format!("/proc/{}/{file}", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Returns the log up to now.
    pub(crate) fn log_so_far(&self) -> Vec<String> {
        self.log.try_iter().collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer of an admin endpoint to a GET.
pub(crate) fn get(admin: impl ToSocketAddrs, path: &str) -> String {
    get_with(admin, path, "")
}

fn get_with(admin: impl ToSocketAddrs, path: &str, headers: &str) -> String {
    let mut socket = TcpStream::connect(admin).unwrap();
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// `lodestone serve` on a free port of loopback.
pub(crate) fn command(dir: &Path, extra: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodestone"));
    command.arg("serve");
    if !extra.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    if !extra.contains(&"--dir") {
        command.arg("--dir").arg(dir);
    }
    // How full the disk of the test machine is decides nothing.
    command.args(["--reserve", "0b"]).args(extra);
    command
}

/// Runs it to its end: exit code, stdout and stderr.
pub(crate) fn run(dir: &Path, extra: &[&str]) -> (Option<i32>, String, String) {
    outcome(&mut command(dir, extra))
}

/// Runs `lodestone` with these arguments.
pub(crate) fn run_any(arguments: &[&str]) -> (Option<i32>, String, String) {
    outcome(Command::new(env!("CARGO_BIN_EXE_lodestone")).args(arguments))
}

fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn follow(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
