// SPDX-License-Identifier: Apache-2.0
//! One daemon per announce file.
//!
//! The daemon that holds the file's lock serves, and writes its ready line into the file once it is
//! ready. Others wait for that line and pass it on. The lock goes with the process. A daemon that
//! died leaves only a line with the id of a process that does not exist; no daemon believes such a
//! line, and the next holder empties the file first. `place` opens the file.

mod place;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tokio::time::{sleep, timeout};

use place::{LINE_BYTES_MAX, PlaceError};

/// How long the second daemon waits for the first one's line.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often it looks. A file has no event to wait for that works on every file system.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The right to serve for a file, kept until dropped.
#[derive(Debug)]
pub struct Announcement {
    file: File,
}

/// The daemon that serves.
#[derive(Debug)]
pub enum Claim {
    /// This process.
    Ours(Announcement),
    /// Another one, whose ready line this is.
    Theirs(String),
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// The file cannot be opened, locked or written.
    #[error(
        "--announce {path}: {source}; name a file that this user can write",
        path = path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There is something else under this name.
    #[error("--announce {path}: {what}; name another", path = path.display())]
    Taken {
        /// The file.
        path: PathBuf,
        /// What is there.
        what: String,
    },
    /// The holder of the lock wrote no line.
    #[error(
        "--announce {path}: another daemon holds this file but is not ready after {} s; look at \
         its log, or name another file",
        LINE_TIMEOUT.as_secs(),
        path = path.display()
    )]
    NotReady {
        /// The file.
        path: PathBuf,
    },
}

/// Takes the file, or waits for the line of the daemon that has it. If that one gives up, takes the
/// file.
pub async fn claim(path: &Path) -> Result<Claim, AnnounceError> {
    let failed = |error| AnnounceError::of(path, error);
    let claimed = async {
        loop {
            // Opened each time: another process may put a new file in the place of this one.
            if let Some(place) = place::open(path)? {
                if let Some(file) = place.take(path)? {
                    file.set_len(0)?;
                    return Ok(Claim::Ours(Announcement { file }));
                }
                let line = read_line(&place.file)?.filter(|line| is_of_a_living_process(line));
                match line {
                    // The line of another user could name any address.
                    Some(_) if place.is_of_another => return Err(PlaceError::HeldByAnother),
                    Some(line) => return Ok(Claim::Theirs(line)),
                    None => {}
                }
            }
            sleep(LOOK_EVERY).await;
        }
    };
    match timeout(LINE_TIMEOUT, claimed).await {
        Ok(claim) => claim.map_err(failed),
        Err(_) => Err(AnnounceError::NotReady {
            path: path.to_owned(),
        }),
    }
}

impl AnnounceError {
    fn of(path: &Path, error: PlaceError) -> Self {
        let path = path.to_owned();
        match error {
            PlaceError::File(source) => Self::File { path, source },
            other => Self::Taken {
                path,
                what: other.to_string(),
            },
        }
    }
}

impl Announcement {
    /// Makes the line visible, all of it at once.
    pub fn publish(&self, line: &str) -> io::Result<()> {
        self.file.write_all_at(format!("{line}\n").as_bytes(), 0)
    }

    /// Empties the file: no daemon serves any more.
    pub fn withdraw(&self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

/// Returns the line, once its end is there too.
fn read_line(file: &File) -> io::Result<Option<String>> {
    let mut bytes = vec![0; LINE_BYTES_MAX];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.split_once('\n').map(|(line, _)| line.to_owned()))
}

/// The line of a crashed daemon is there until the next holder of the lock empties the file.
fn is_of_a_living_process(line: &str) -> bool {
    let number = line.split(' ').find_map(|word| word.strip_prefix("pid="));
    let pid = number
        .and_then(|number| number.parse().ok())
        .and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}
