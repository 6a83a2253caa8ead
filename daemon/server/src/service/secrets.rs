// SPDX-License-Identifier: Apache-2.0
//! The secrets of applications, from files. A file is read for each handshake: a new application,
//! or another secret, counts from the next connection on.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use lodestone_auth::{BadSecret, Fresh, SECRET_BYTES_MAX, Secret};
use lodestone_model::{AppId, spark_id};
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

/// The file in a directory that has the secret of all applications without a file of their own.
const OF_OTHERS: &str = "default";

/// Others than owner and group may write, or read.
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_READ: u32 = 0o004;

/// Others may open the files of such a directory.
const OTHERS_ENTER: u32 = 0o001;

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
    /// A file that every user may read is nothing new.
    is_open: AtomicBool,
}

/// Files that every user of this host may read.
#[derive(Debug, PartialEq, Eq)]
struct OpenFiles {
    count: usize,
    /// The first one by its name.
    one: PathBuf,
}

impl Secrets {
    /// Takes a file with the secret of all applications, or a directory with a file for each, named
    /// by its id. An error if the path cannot be right.
    pub fn at(path: &Path) -> Result<Self, SecretsError> {
        let secrets = Self {
            path: path.to_owned(),
            is_open: AtomicBool::new(true),
        };
        let found = secrets.look(path)?;
        if found.is_dir() {
            std::fs::read_dir(path).map_err(|source| at(path, source))?;
        } else {
            secrets.read(path)?;
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
        match self.read(&self.path.join(name)) {
            Ok(secret) => Ok(Some(secret)),
            Err(SecretsError::Path { source, .. })
                if matches!(
                    source.kind(),
                    ErrorKind::NotFound | ErrorKind::InvalidFilename | ErrorKind::IsADirectory
                ) =>
            {
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
        let file = File::open(path).map_err(|source| at(path, source))?;
        let found = file.metadata().map_err(|source| at(path, source))?;
        self.check(path, &found)?;
        self.notice(path, &found);
        // One byte more shows that there are too many.
        let mut content = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX + 3));
        file.take(SECRET_BYTES_MAX as u64 + 3)
            .read_to_end(&mut content)
            .map_err(|source| at(path, source))?;
        Secret::new(&content).map_err(|source| SecretsError::Content {
            path: path.to_owned(),
            source,
        })
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

    /// Logs a warning if every user of this host may read secrets: Kubernetes mounts them like
    /// this by default. From then on a warning follows when the first file is open to all.
    pub fn warn_of_open_files(&self) {
        let open = self.open_files();
        self.is_open.store(open.is_some(), Ordering::Relaxed);
        if let Some(OpenFiles { count, one }) = open {
            warn(&one, count);
        }
    }

    /// Warns of a file that was read, if there was none of this kind.
    fn notice(&self, path: &Path, found: &Metadata) {
        let is_open = found.mode() & OTHERS_READ != 0 && self.others_enter();
        if is_open && !self.is_open.swap(true, Ordering::Relaxed) {
            warn(path, 1);
        }
    }

    /// Whether the path keeps no user from its files.
    fn others_enter(&self) -> bool {
        let found = std::fs::metadata(&self.path);
        found.is_ok_and(|found| !found.is_dir() || found.mode() & OTHERS_ENTER != 0)
    }

    fn open_files(&self) -> Option<OpenFiles> {
        if !self.others_enter() {
            return None;
        }
        let mut open: Vec<_> = self.files().filter(|path| is_open(path)).collect();
        open.sort();
        let count = open.len();
        let one = open.into_iter().next()?;
        Some(OpenFiles { count, one })
    }

    /// The files that may be asked for.
    fn files(&self) -> Box<dyn Iterator<Item = PathBuf>> {
        match std::fs::read_dir(&self.path) {
            Ok(entries) => {
                let named = entries.flatten();
                let named = named.filter(|entry| !entry.file_name().as_bytes().starts_with(b"."));
                Box::new(named.map(|entry| entry.path()))
            }
            Err(_) => Box::new(std::iter::once(self.path.clone())),
        }
    }
}

fn is_open(path: &Path) -> bool {
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.mode() & OTHERS_READ != 0)
}

fn warn(path: &Path, files: usize) {
    tracing::warn!(
        path = %path.display(),
        files,
        "every user of this host may read secrets: let only their owner do so (`chmod 600`)"
    );
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
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    fn app(id: &str) -> AppId {
        AppId::new(id).unwrap()
    }

    fn write(dir: &TempDir, name: &str, content: &str) -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Texts of secrets are compared by what only they open.
    fn is(secret: Option<Secret>, text: &str) -> bool {
        use lodestone_auth::exchange::{Challenge, respond};
        let fresh = Fresh {
            private: [1; 32],
            salt: [1; 16],
            iv: [1; 12],
            nonce: [1; 30],
        };
        let other = Secret::new(text.as_bytes()).unwrap();
        let challenge = Challenge::new(&app("a"), &other, &fresh).unwrap();
        secret.is_some_and(|secret| respond(challenge.message(), &secret, &fresh).is_ok())
    }

    #[test]
    fn one_file_has_the_secret_of_all_applications() {
        let dir = TempDir::new().unwrap();
        let file = write(&dir, "secret", "one\n");
        let secrets = Secrets::at(&file).unwrap();
        assert!(is(secrets.of(&app("a")).unwrap(), "one"));
        write(&dir, "secret", "two\n");
        assert!(
            is(secrets.of(&app("b")).unwrap(), "two"),
            "without a restart"
        );
    }

    #[test]
    fn a_directory_has_a_file_for_each_application() {
        let dir = TempDir::new().unwrap();
        write(&dir, "a", "of a");
        let secrets = Secrets::at(dir.path()).unwrap();
        assert!(is(secrets.of(&app("a")).unwrap(), "of a"));
        assert!(secrets.of(&app("b")).unwrap().is_none());
        write(&dir, "b", "of b");
        assert!(is(secrets.of(&app("b")).unwrap(), "of b"), "from now on");
        fs::remove_file(dir.path().join("b")).unwrap();
        assert!(secrets.of(&app("b")).unwrap().is_none(), "not any more");
        write(&dir, "default", "of others");
        assert!(is(secrets.of(&app("b")).unwrap(), "of others"));
        assert!(is(secrets.of(&app("a")).unwrap(), "of a"));
    }

    #[test]
    fn the_number_of_a_driver_does_not_lead_to_the_secret_of_others() {
        let dir = TempDir::new().unwrap();
        write(&dir, "a", "of a");
        write(&dir, "default", "of others");
        let secrets = Secrets::at(dir.path()).unwrap();
        let named = |id: &str| secrets.of(&app(id)).unwrap();
        assert!(is(named("a~0123456789abcdef"), "of a"));
        assert!(is(named("a~another-sixteen"), "of others"), "no number");
        assert!(is(named("..data"), "of others"));
        assert!(
            is(named(&"a".repeat(256)), "of others"),
            "no file can have it"
        );
        fs::create_dir(dir.path().join("d")).unwrap();
        assert!(is(named("d"), "of others"));
    }

    #[test]
    fn a_directory_as_kubernetes_mounts_it_is_accepted() {
        let dir = TempDir::new().unwrap();
        write(&dir, "a", "of a");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        let secrets = Secrets::at(dir.path()).unwrap();
        assert!(is(secrets.of(&app("a")).unwrap(), "of a"));
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(
            secrets.of(&app("a")).is_err(),
            "anyone could replace the file"
        );
    }

    #[test]
    fn what_cannot_be_right_is_refused_with_the_path_and_the_remedy() {
        let dir = TempDir::new().unwrap();
        let refused = |path: &Path| Secrets::at(path).err().unwrap().to_string();
        let missing = dir.path().join("missing");
        assert!(refused(&missing).contains("missing: No such file"));
        let empty = write(&dir, "empty", "\n");
        assert!(refused(&empty).contains("it is empty"));
        let open = write(&dir, "open", "secret");
        fs::set_permissions(&open, Permissions::from_mode(0o666)).unwrap();
        assert!(refused(&open).contains("chmod go-w"));
        let long = write(&dir, "long", &"a".repeat(SECRET_BYTES_MAX + 1));
        assert!(refused(&long).contains("more than 4096 bytes"));
    }

    #[test]
    fn files_that_every_user_may_read_are_found_where_others_reach_them() {
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        let dir = TempDir::new().unwrap();
        let (first, second) = (write(&dir, "a", "of a"), write(&dir, "b", "of b"));
        write(&dir, "c", "of c");
        write(&dir, ".hidden", "of nobody");
        let of_all = Secrets::at(&first).unwrap();
        let of_each = Secrets::at(dir.path()).unwrap();
        mode(dir.path(), 0o755);
        assert_eq!(of_all.open_files(), None);
        assert_eq!(of_each.open_files(), None);
        mode(&first, 0o644);
        mode(&second, 0o604);
        mode(&dir.path().join(".hidden"), 0o644);
        let open = |count| {
            let one = first.clone();
            Some(OpenFiles { count, one })
        };
        assert_eq!(of_all.open_files(), open(1));
        assert_eq!(of_each.open_files(), open(2));
        mode(dir.path(), 0o750);
        assert_eq!(of_each.open_files(), None, "nobody else opens them");
    }
}
