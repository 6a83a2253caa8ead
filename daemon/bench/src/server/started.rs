// SPDX-License-Identifier: Apache-2.0
//! Servers that the bench starts. They end with it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::error::{BenchError, at, doing};

/// A virtual machine that compiles its source first takes some seconds.
const START: Duration = Duration::from_secs(60);

/// Lines of a log that are shown when a server fails.
const LOG_LINES: usize = 5;

/// File for a server's stderr, in its folder.
pub(crate) const LOG: &str = "log";

/// A daemon ends if there was no connection for this long: the bench was killed and could not end
/// it.
const ORPHANED: &str = "600s";

/// The service of Spark, compiled by `java` when it is started.
const SPARK_SERVICE: &str = include_str!("../../../../bench/ess/SparkShuffleService.java");

/// A process that is killed when this goes.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Started {
    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `lodestone serve`.
    pub fn lodestone(
        daemon: &Path,
        home: &Path,
        memory: Option<&str>,
        connections: u32,
    ) -> Result<Self, BenchError> {
        let data = home.join("data");
        fs::create_dir_all(&data).map_err(at(&data))?;
        let mut command = Command::new(daemon);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"]);
        command.arg("--dir").arg(data);
        command.args(["--idle-exit", ORPHANED]);
        // The control connections come on top.
        let most = connections + 64;
        command.args(["--max-connections", &most.to_string()]);
        if let Some(memory) = memory {
            command.args(["--memory", memory]);
        }
        Self::start("lodestone", command, home)
    }

    /// The bare loop, from files or from memory.
    pub fn bare(home: &Path, from_files: bool) -> Result<Self, BenchError> {
        let mut command = Command::new(this_program()?);
        command.arg("serve-limit");
        if from_files {
            let data = home.join("data");
            fs::create_dir_all(&data).map_err(at(&data))?;
            command.arg("--dir").arg(data);
        }
        Self::start("limit", command, home)
    }

    /// Spark's external shuffle service with push-merge, from the jars of a Spark installation.
    pub fn spark(jars: &Path, home: &Path, memory: Option<&str>) -> Result<Self, BenchError> {
        fs::create_dir_all(home).map_err(at(home))?;
        let source = home.join("SparkShuffleService.java");
        fs::write(&source, SPARK_SERVICE).map_err(at(&source))?;
        let java = std::env::var_os("JAVA_HOME").map_or_else(
            || OsString::from("java"),
            |home| PathBuf::from(home).join("bin/java").into_os_string(),
        );
        let mut class_path = jars.as_os_str().to_owned();
        class_path.push("/*");
        let mut command = Command::new(java);
        // Spark's own default for its daemons is 1g.
        command.arg(format!("-Xmx{}", memory.unwrap_or("1g")));
        command.arg("-cp").arg(class_path).arg(source);
        Self::start("spark", command, home)
    }

    /// Starts it, and waits for the line with its address.
    fn start(name: &str, mut command: Command, home: &Path) -> Result<Self, BenchError> {
        let log = home.join(LOG);
        let stderr = File::create(&log).map_err(at(&log))?;
        let failed = |why: String| BenchError::Start {
            server: name.to_owned(),
            why,
        };
        let spawned = command
            // Ctrl-C is for the bench, which ends its servers itself.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn();
        let mut child = spawned.map_err(|error| {
            let program = command.get_program().to_string_lossy();
            let hint = match error.kind() {
                io::ErrorKind::NotFound if name == "lodestone" => "; name the daemon with --daemon",
                _ => "",
            };
            failed(format!("{program}: {error}{hint}"))
        })?;
        let (sender, receiver) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // After the first line there is no receiver, but the pipe must not fill up.
                    let _ = sender.send(line);
                }
            });
        }
        let address = receiver
            .recv_timeout(START)
            .ok()
            .and_then(|line| heard(&line));
        let Some(address) = address else {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
            let why = match last_lines(&log).as_str() {
                "" => format!("it said nothing within {} s", START.as_secs()),
                lines => lines.to_owned(),
            };
            return Err(failed(why));
        };
        Ok(Self { child, address })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have been killed before: that was the purpose of the run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The daemon that was built with this program.
pub(super) fn daemon() -> Result<PathBuf, BenchError> {
    Ok(this_program()?.with_file_name("lodestone"))
}

fn this_program() -> Result<PathBuf, BenchError> {
    std::env::current_exe().map_err(doing("finding this program"))
}

/// The address in `… listen=127.0.0.1:4711 …`.
fn heard(line: &str) -> Option<SocketAddr> {
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix("listen=")?.parse().ok())
}

/// Returns the last lines of a log, in one line.
pub(crate) fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    lines.get(from..).unwrap_or_default().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_ready_line() {
        let line = "lodestone ready listen=127.0.0.1:7337 incarnation=1f pid=4711 version=0.1.0";
        assert_eq!(heard(line), Some(SocketAddr::from(([127, 0, 0, 1], 7337))));
        assert_eq!(heard("something else"), None);
    }

    #[test]
    fn a_server_that_does_not_start_is_quoted() {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no room on this host >&2; exit 3"]);
        let error = Started::start("it", command, home.path()).unwrap_err();
        assert!(
            error.to_string().contains("no room on this host"),
            "{error}"
        );
        let absent = Command::new("/no/such/program");
        let error = Started::start("it", absent, home.path()).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
}
