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

pub mod key_form;

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
    #[error("{path}: {problem}; it must be PEM")]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong. The error of the parser would show the bytes of a key.
        problem: &'static str,
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
    let chain = chain.map_err(|error| form_error(path, &error, "it has no certificate"))?;
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
    let private = private.map_err(|error| form_error(key, &error, "it has no private key"))?;
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

/// Names the kind of an error only: what it says may be all of a key.
fn form_error(path: &Path, error: &pem::Error, absent: &'static str) -> CertificateError {
    let problem = match error {
        pem::Error::MissingSectionEnd { .. } => {
            "the line END is missing, or is not alone on its line"
        }
        pem::Error::IllegalSectionStart { .. } => "the line BEGIN is not alone on its line",
        pem::Error::Base64Decode(_) => "what is between the lines BEGIN and END is no base64",
        pem::Error::NoItemsFound => absent,
        _ => "it cannot be parsed",
    };
    let path = path.to_owned();
    CertificateError::Form { path, problem }
}

fn file_error(path: &Path, source: io::Error) -> CertificateError {
    let path = path.to_owned();
    CertificateError::File { path, source }
}

#[cfg(test)]
mod tests;
