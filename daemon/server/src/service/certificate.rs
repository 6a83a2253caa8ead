// SPDX-License-Identifier: Apache-2.0
//! The certificate of the daemon, and its key, from files. If one of them changes, both are read
//! again before the next connection. The last pair that was right stays until there is another.

use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use super::{kernel_tls, suites};

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Not there, or not readable.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A pipe, a directory, or far too long.
    #[error("{0}: it is no regular file of at most 1 MiB")]
    Kind(PathBuf),
    /// Not in the form that is expected.
    #[error("{path}: {source}; it must be PEM")]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// Without a certificate.
    #[error("{0}: it has no certificate")]
    Empty(PathBuf),
    /// They do not belong together, or are of a kind that is not known.
    #[error("{cert} and {key}: {source}")]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of its key.
        key: PathBuf,
        /// The error.
        source: rustls::Error,
    },
}

/// Where certificate and key are, and what was read from there.
#[derive(Debug)]
pub struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    /// The settings with the last pair that was right.
    config: Mutex<Arc<ServerConfig>>,
    /// One thread reads files at a time: their disk may hang.
    read: Mutex<LastRead>,
}

#[derive(Debug)]
struct LastRead {
    /// The files of the last pair that was right.
    stamps: [Stamp; 2],
    /// Why the last reading failed, as it was logged.
    failure: Option<String>,
}

/// Changes with the content of a file, and with who may read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: [u64; 2],
    length: u64,
    times: [i64; 4],
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self {
            inode: [found.dev(), found.ino()],
            length: found.len(),
            times: [
                found.mtime(),
                found.mtime_nsec(),
                found.ctime(),
                found.ctime_nsec(),
            ],
        }
    }

    fn at(path: &Path) -> Result<Self, CertificateError> {
        let found = std::fs::metadata(path).map_err(|source| file_error(path, source))?;
        Ok(Self::of(&found))
    }
}

impl Certificate {
    /// Takes files in PEM: the certificate with those that have signed it, and its key. An error if
    /// they cannot be right.
    pub fn at(cert: &Path, key: &Path) -> Result<Self, CertificateError> {
        let (stamps, config) = load(cert, key)?;
        Ok(Self {
            cert: cert.to_owned(),
            key: key.to_owned(),
            config: Mutex::new(config),
            read: Mutex::new(LastRead {
                stamps,
                failure: None,
            }),
        })
    }

    /// Returns the settings of a connection. One caller at a time may wait for a disk.
    pub fn config(&self) -> Arc<ServerConfig> {
        // Another caller that reads, or hangs, has the next pair.
        if let Ok(mut read) = self.read.try_lock() {
            self.look(&mut read);
        }
        let config = self.config.lock();
        Arc::clone(&config.unwrap_or_else(PoisonError::into_inner))
    }

    fn look(&self, read: &mut LastRead) {
        let stamps = Stamp::at(&self.cert).and_then(|cert| Ok([cert, Stamp::at(&self.key)?]));
        if stamps.as_ref().is_ok_and(|stamps| *stamps == read.stamps) {
            return;
        }
        match stamps.and_then(|_| load(&self.cert, &self.key)) {
            Ok((stamps, config)) => {
                let failure = None;
                *read = LastRead { stamps, failure };
                *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
                tracing::info!(cert = %self.cert.display(), "another certificate");
            }
            // Between the writes of the two files they do not belong together.
            Err(error) => {
                let failure = Some(error.to_string());
                if read.failure != failure {
                    tracing::warn!(%error, "the certificate stays as it was");
                }
                read.failure = failure;
            }
        }
    }
}

/// Reads the certificates of a file in PEM, of which there is one at least.
pub fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    stamped_chain(path).map(|(_, chain)| chain)
}

fn stamped_chain(path: &Path) -> Result<(Stamp, Vec<CertificateDer<'static>>), CertificateError> {
    let (stamp, bytes) = content(path)?;
    let chain = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|source| form_error(path, source))?;
    match chain.is_empty() {
        true => Err(CertificateError::Empty(path.to_owned())),
        false => Ok((stamp, chain)),
    }
}

/// Reads a pair, and returns the files that it is of.
fn load(cert: &Path, key: &Path) -> Result<([Stamp; 2], Arc<ServerConfig>), CertificateError> {
    let (cert_stamp, chain) = stamped_chain(cert)?;
    let (key_stamp, bytes) = content(key)?;
    let private = PrivateKeyDer::from_pem_slice(&bytes);
    let private = private.map_err(|source| form_error(key, source))?;
    let pair = |source| CertificateError::Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        source,
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(suites::preferring_aes()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair)?;
    config.ignore_client_order = suites::has_aes();
    config.enable_secret_extraction = kernel_tls::is_there();
    Ok(([cert_stamp, key_stamp], Arc::new(config)))
}

fn content(path: &Path) -> Result<(Stamp, Zeroizing<Vec<u8>>), CertificateError> {
    let at = |source| file_error(path, source);
    // The opening of a pipe would wait for its other end.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(path);
    let file = file.map_err(at)?;
    let found = file.metadata().map_err(at)?;
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Err(CertificateError::Kind(path.to_owned()));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(found.len() as usize));
    let read = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(at)?;
    Ok((Stamp::of(&found), bytes))
}

fn form_error(path: &Path, source: pem::Error) -> CertificateError {
    let path = path.to_owned();
    CertificateError::Form { path, source }
}

fn file_error(path: &Path, source: io::Error) -> CertificateError {
    let path = path.to_owned();
    CertificateError::File { path, source }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use rcgen::generate_simple_self_signed;
    use rustls::crypto::ring::default_provider;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
    use tempfile::TempDir;

    use super::*;

    /// Writes a new certificate, and returns what trusts it.
    fn write(dir: &TempDir) -> RootCertStore {
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (name, text) in [
            ("cert.pem", made.cert.pem()),
            ("key.pem", made.signing_key.serialize_pem()),
        ] {
            replace(dir, name, text.as_bytes());
        }
        let mut trusted = RootCertStore::empty();
        trusted.add(made.cert.der().clone()).unwrap();
        trusted
    }

    fn replace(dir: &TempDir, name: &str, text: &[u8]) {
        let path = dir.path().join(name);
        // A test writes faster than the clock of a filesystem ticks.
        let before = fs::metadata(&path).and_then(|found| found.modified());
        let before = before.unwrap_or(SystemTime::UNIX_EPOCH);
        fs::write(&path, text).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(before + Duration::from_secs(60)).unwrap();
    }

    fn certificate(dir: &TempDir) -> Result<Certificate, CertificateError> {
        Certificate::at(&dir.path().join("cert.pem"), &dir.path().join("key.pem"))
    }

    /// Returns whether a client that trusts this agrees upon keys.
    fn agrees(certificate: &Certificate, trusted: RootCertStore) -> bool {
        let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(certificate.config()).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets().unwrap();
            bytes.clear();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                if client.process_new_packets().is_err() {
                    return false;
                }
            }
        }
        true
    }

    #[test]
    fn a_certificate_that_is_replaced_counts_from_the_next_connection_on() {
        let dir = TempDir::new().unwrap();
        let first = write(&dir);
        let certificate = certificate(&dir).unwrap();
        assert!(agrees(&certificate, first.clone()));
        let second = write(&dir);
        assert!(agrees(&certificate, second));
        assert!(!agrees(&certificate, first), "the first one is gone");
    }

    #[test]
    fn a_pair_that_is_not_right_yet_does_not_end_the_service() {
        let dir = TempDir::new().unwrap();
        let first = write(&dir);
        let certificate = certificate(&dir).unwrap();
        let read = |name| fs::read(dir.path().join(name)).unwrap();
        let old_key = read("key.pem");
        let second = write(&dir);
        let (cert, key) = (read("cert.pem"), read("key.pem"));
        replace(&dir, "key.pem", &old_key);
        assert!(agrees(&certificate, first.clone()), "half of the new pair");
        fs::remove_file(dir.path().join("cert.pem")).unwrap();
        assert!(agrees(&certificate, first), "no pair");
        replace(&dir, "cert.pem", &cert);
        replace(&dir, "key.pem", &key);
        assert!(agrees(&certificate, second), "the whole pair");
    }

    #[test]
    fn a_pair_that_could_not_be_read_counts_as_soon_as_it_can() {
        let dir = TempDir::new().unwrap();
        let first = write(&dir);
        let certificate = certificate(&dir).unwrap();
        let second = write(&dir);
        let cert = dir.path().join("cert.pem");
        let right = fs::read(&cert).unwrap();
        let time = fs::metadata(&cert).unwrap().modified().unwrap();
        let put = |bytes: &[u8]| {
            fs::write(&cert, bytes).unwrap();
            let file = fs::File::options().write(true).open(&cert).unwrap();
            file.set_modified(time).unwrap();
        };
        put(&right[..100]);
        assert!(agrees(&certificate, first), "half of it is there");
        put(&right);
        assert!(agrees(&certificate, second), "all of it, at the same time");
    }

    #[test]
    fn while_one_connection_waits_for_the_disk_others_have_the_last_pair() {
        let dir = TempDir::new().unwrap();
        let first = write(&dir);
        let certificate = certificate(&dir).unwrap();
        let reading = certificate.read.lock().unwrap();
        write(&dir);
        assert!(agrees(&certificate, first));
        drop(reading);
    }

    #[test]
    fn a_file_that_has_no_end_is_refused() {
        let dir = TempDir::new().unwrap();
        write(&dir);
        let cert = dir.path().join("cert.pem");
        for path in [Path::new("/dev/zero"), dir.path()] {
            let refused = Certificate::at(path, &cert).err().unwrap();
            assert!(matches!(refused, CertificateError::Kind(_)), "{refused}");
        }
    }

    #[test]
    fn what_cannot_be_right_is_refused_with_the_file() {
        let dir = TempDir::new().unwrap();
        let refused = || certificate(&dir).err().unwrap().to_string();
        assert!(refused().contains("cert.pem: No such file"));
        write(&dir);
        let key = fs::read(dir.path().join("key.pem")).unwrap();
        write(&dir);
        let cert = dir.path().join("cert.pem");
        fs::write(dir.path().join("key.pem"), key).unwrap();
        assert!(refused().contains("key.pem"), "another key: {}", refused());
        fs::write(&cert, "no certificate").unwrap();
        assert!(refused().contains("cert.pem"), "{}", refused());
    }
}
