// SPDX-License-Identifier: Apache-2.0
//! The secrets of applications, from files. A file is read for each handshake: a new application,
//! or another secret, counts from the next connection on.

mod open;

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lodestone_auth::{BadSecret, Fresh, SECRET_BYTES_MAX, Secret};
use lodestone_model::{AppId, spark_id};
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use self::open::{OpenFiles, is_open};

/// The file in a directory that has the secret of all applications without a file of their own.
const OF_OTHERS: &str = "default";

/// Others than owner and group may write.
const OTHERS_WRITE: u32 = 0o002;

/// In such a directory nobody replaces or renames the file of another user.
const STICKY: u32 = 0o1000;

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// Not there, or not readable.
    #[error("--secrets {path}: {source}")]
    Path {
        /// File or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file that is no secret.
    #[error("--secrets {path}: {source}; write the secret into it, as text on one line")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: BadSecret,
    },
    /// Anyone could write other secrets.
    #[error(
        "--secrets {path}: every user may write to it; let only its owner do so \
         (`chmod go-w {path}`)"
    )]
    Writable {
        /// File or directory.
        path: PathBuf,
    },
}

/// Where the secrets are.
#[derive(Debug)]
pub struct Secrets {
    path: PathBuf,
    open: OpenFiles,
}

impl Secrets {
    /// Takes a file with the secret of all applications, or a directory with a file for each, named
    /// by its id. An error if the path cannot be right.
    pub fn at(path: &Path) -> Result<Self, SecretsError> {
        let secrets = Self {
            path: path.to_owned(),
            open: OpenFiles::default(),
        };
        let found = secrets.look(path)?;
        if found.is_dir() {
            std::fs::read_dir(path).map_err(|source| at(path, source))?;
        } else {
            let (file, _) = secrets.file(path)?;
            secret_in(path, file)?;
        }
        Ok(secrets)
    }

    /// Returns the secret of an application, by Spark's id of it: the plugin may have added the
    /// number of its driver. `None` if it has none. May wait for a disk.
    pub fn of(&self, app: &AppId) -> Result<Option<Secret>, SecretsError> {
        if !self.look(&self.path)?.is_dir() {
            return self.read(&self.path).map(Some);
        }
        for name in [spark_id(app.as_str()), OF_OTHERS] {
            // Kubernetes has its own links and directories among the files of a secret.
            if !name.starts_with('.')
                && let Some(secret) = self.named(name)?
            {
                return Ok(Some(secret));
            }
        }
        Ok(None)
    }

    /// Returns the secret in a file of the directory. `None`: no such file is there, or can be.
    fn named(&self, name: &str) -> Result<Option<Secret>, SecretsError> {
        let path = self.path.join(name);
        match self.read(&path) {
            Ok(secret) => Ok(Some(secret)),
            Err(SecretsError::Path { source, .. })
                if matches!(
                    source.kind(),
                    ErrorKind::NotFound | ErrorKind::InvalidFilename | ErrorKind::IsADirectory
                ) =>
            {
                self.open.forget(&path);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn look(&self, path: &Path) -> Result<Metadata, SecretsError> {
        let found = std::fs::metadata(path).map_err(|source| at(path, source))?;
        self.check(path, &found)?;
        Ok(found)
    }

    fn read(&self, path: &Path) -> Result<Secret, SecretsError> {
        let (file, found) = self.file(path)?;
        self.open.notice(path, &found);
        secret_in(path, file)
    }

    fn file(&self, path: &Path) -> Result<(File, Metadata), SecretsError> {
        let file = File::open(path).map_err(|source| at(path, source))?;
        let found = file.metadata().map_err(|source| at(path, source))?;
        self.check(path, &found)?;
        Ok((file, found))
    }

    fn check(&self, path: &Path, found: &Metadata) -> Result<(), SecretsError> {
        // Kubernetes mounts the directory of a secret like this, and nobody can write to it.
        let is_shared = found.is_dir() && found.mode() & STICKY != 0;
        match found.mode() & OTHERS_WRITE {
            0 => Ok(()),
            _ if is_shared => Ok(()),
            _ => Err(SecretsError::Writable {
                path: path.to_owned(),
            }),
        }
    }

    /// Logs a warning if every user of this host may read secrets. From then on a warning follows
    /// when a file that is read has become open.
    pub fn warn_of_open_files(&self) {
        self.open.say(self.open_files());
    }

    fn open_files(&self) -> BTreeSet<PathBuf> {
        match std::fs::read_dir(&self.path) {
            Ok(entries) => {
                let paths = entries.flatten().map(|entry| entry.path());
                paths
                    .filter(|path| is_open(path) && is_taken(path))
                    .collect()
            }
            Err(_) if is_open(&self.path) => BTreeSet::from([self.path.clone()]),
            Err(_) => BTreeSet::new(),
        }
    }
}

/// Whether a file of the directory looks like a secret: an application may have its name, and a
/// page for people has more than a line.
fn is_taken(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_id = name.is_some_and(|name| {
        !name.starts_with('.') && spark_id(name) == name && AppId::new(name).is_ok()
    });
    let content = || content_of(File::open(path)?);
    is_id
        && content().is_ok_and(|content| {
            Secret::new(&content).is_ok() && !content.trim_ascii_end().contains(&b'\n')
        })
}

fn secret_in(path: &Path, file: File) -> Result<Secret, SecretsError> {
    let content = content_of(file).map_err(|source| at(path, source))?;
    Secret::new(&content).map_err(|source| SecretsError::Content {
        path: path.to_owned(),
        source,
    })
}

fn content_of(file: File) -> io::Result<Zeroizing<Vec<u8>>> {
    // One byte more shows that there are too many.
    let most = SECRET_BYTES_MAX + 3;
    let mut content = Zeroizing::new(Vec::with_capacity(most));
    file.take(most as u64).read_to_end(&mut content)?;
    Ok(content)
}

/// Random bytes of the system for a handshake.
pub fn fresh() -> io::Result<Fresh> {
    Ok(Fresh {
        private: random()?,
        salt: random()?,
        iv: random()?,
        nonce: random()?,
    })
}

/// So few bytes come at once, or not at all.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        count if count == N => Ok(bytes),
        _ => Err(io::Error::other("the system has no random bytes")),
    }
}

fn at(path: &Path, source: io::Error) -> SecretsError {
    let path = path.to_owned();
    SecretsError::Path { path, source }
}

#[cfg(test)]
mod tests;
