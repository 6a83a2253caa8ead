// SPDX-License-Identifier: Apache-2.0
//! The certificate of the daemon, and its key, from files. If one of them changes, both are read
//! again before the next connection. The last pair that was right stays until there is another.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

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
    read: Mutex<Read>,
}

#[derive(Debug)]
struct Read {
    /// When the files were written that were read last. `None`: one of them is gone.
    written: Option<[SystemTime; 2]>,
    /// The settings with the last pair that was right.
    config: Arc<ServerConfig>,
}

impl Certificate {
    /// Takes files in PEM: the certificate with those that have signed it, and its key. An error if
    /// they cannot be right.
    pub fn at(cert: &Path, key: &Path) -> Result<Self, CertificateError> {
        let written = Some([written(cert)?, written(key)?]);
        let config = Arc::new(load(cert, key)?);
        Ok(Self {
            cert: cert.to_owned(),
            key: key.to_owned(),
            read: Mutex::new(Read { written, config }),
        })
    }

    /// Returns the settings of a connection. May wait for a disk.
    pub fn config(&self) -> Arc<ServerConfig> {
        let times = written(&self.cert).and_then(|cert| Ok([cert, written(&self.key)?]));
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if times.as_ref().ok() != read.written.as_ref() {
            read.written = times.as_ref().ok().copied();
            match times.and_then(|_| load(&self.cert, &self.key)) {
                Ok(config) => read.config = Arc::new(config),
                // Between the writes of the two files they do not belong together.
                Err(error) => tracing::warn!(%error, "the certificate stays as it was"),
            }
        }
        Arc::clone(&read.config)
    }
}

fn load(cert: &Path, key: &Path) -> Result<ServerConfig, CertificateError> {
    let form = |path: &Path| {
        let path = path.to_owned();
        |source| CertificateError::Form { path, source }
    };
    let chain = CertificateDer::pem_file_iter(cert).map_err(form(cert))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(form(cert))?;
    if chain.is_empty() {
        return Err(CertificateError::Empty(cert.to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(form(key))?;
    let pair = |source| CertificateError::Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        source,
    };
    ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair)
}

fn written(path: &Path) -> Result<SystemTime, CertificateError> {
    let found = std::fs::metadata(path).and_then(|found| found.modified());
    found.map_err(|source| CertificateError::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use rcgen::generate_simple_self_signed;
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
        let before = written(&path).unwrap_or(SystemTime::UNIX_EPOCH);
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
