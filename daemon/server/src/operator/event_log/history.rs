// SPDX-License-Identifier: Apache-2.0
//! Event logs from a History Server: its REST API sends those of an application in an archive. The
//! archive is in a file without a name, which is gone when this process ends.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::{Events, Reading, archive};
use crate::cli::address::HistoryAddress;

/// Why a History Server does not give a log.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// No answer, or none that can be trusted.
    #[error(
        "{server}: {source}. Is this the address of a History Server? With https, its certificate \
         must be one that this host trusts (SSL_CERT_FILE names others). This command uses no proxy"
    )]
    NoAnswer {
        /// The server.
        server: String,
        /// The error.
        source: Box<ureq::Error>,
    },
    /// It wants to know who asks.
    #[error(
        "{server} refuses (status {status}): it wants a login, which this command does not have. Copy \
         the log from the server's spark.history.fs.logDirectory, and name the file"
    )]
    Denied {
        /// The server.
        server: String,
        /// 401 or 403.
        status: u16,
    },
    /// It does not have the application.
    #[error(
        "{server} knows no {application}: it lists its applications on its first page; a new one \
         appears after spark.history.fs.update.interval"
    )]
    Unknown {
        /// The server.
        server: String,
        /// The application, with the attempt.
        application: String,
    },
    /// Another status.
    #[error("{server} answers with status {status}: see the log of the History Server")]
    Status {
        /// The server.
        server: String,
        /// The status.
        status: u16,
    },
    /// A page in place of logs.
    #[error("{server} sends no archive of logs ({reason}): is it a History Server?")]
    NoArchive {
        /// The server.
        server: String,
        /// What is wrong with the archive.
        reason: String,
    },
    /// A log of an unusual size.
    #[error(
        "the logs of {application} have more than {} GiB as an archive: copy the log from the \
         server's spark.history.fs.logDirectory, and name the file", MAX_ARCHIVE_BYTES >> 30
    )]
    TooLarge {
        /// The application.
        application: String,
    },
    /// The disk for temporary files.
    #[error(
        "the log cannot be kept in {}: {source}. Name another directory with the environment \
         variable TMPDIR, with room for the server's archive", folder.display()
    )]
    Temporary {
        /// The directory.
        folder: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The connection.
    #[error("receiving logs of {application}: {source}")]
    Receiving {
        /// The application.
        application: String,
        /// The error.
        source: io::Error,
    },
}

/// The archive of a log of a hundred gigabytes.
const MAX_ARCHIVE_BYTES: u64 = 16 << 30;

const PART_BYTES: usize = 64 << 10;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The server looks for the files before it answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// The largest archive over a slow line.
const BODY_TIMEOUT: Duration = Duration::from_secs(3600);

/// Reads the log of an application.
pub(super) fn read<E: Events>(
    address: &HistoryAddress,
    reading: &mut Reading<'_, E>,
) -> Result<(), HistoryError> {
    let archive = received(address)?;
    let read = archive::read(archive, reading);
    read.map_err(|reason| HistoryError::NoArchive {
        server: address.server.clone(),
        reason,
    })
}

fn received(address: &HistoryAddress) -> Result<File, HistoryError> {
    let server = || address.server.clone();
    let answer = agent().get(url(address)).call();
    let mut answer = answer.map_err(|source| HistoryError::NoAnswer {
        server: server(),
        source: Box::new(source),
    })?;
    match answer.status().as_u16() {
        200 => {}
        status @ (401 | 403) => {
            return Err(HistoryError::Denied {
                server: server(),
                status,
            });
        }
        404 => {
            let application = match &address.attempt {
                Some(attempt) => format!("{} with attempt {attempt}", address.application),
                None => address.application.clone(),
            };
            return Err(HistoryError::Unknown {
                server: server(),
                application,
            });
        }
        status => {
            return Err(HistoryError::Status {
                server: server(),
                status,
            });
        }
    }
    let body = answer.body_mut().with_config().limit(u64::MAX).reader();
    let application = || address.application.clone();
    match kept(body) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(HistoryError::TooLarge {
            application: application(),
        }),
        Err(Failed::Receiving(source)) => Err(HistoryError::Receiving {
            application: application(),
            source,
        }),
        Err(Failed::Keeping(source)) => Err(HistoryError::Temporary {
            folder: std::env::temp_dir(),
            source,
        }),
    }
}

/// The side that failed.
enum Failed {
    Receiving(io::Error),
    Keeping(io::Error),
}

/// Returns a file with the bytes, or none if there are too many.
fn kept(mut body: impl Read) -> Result<Option<File>, Failed> {
    let mut file = tempfile::tempfile().map_err(Failed::Keeping)?;
    let (mut part, mut bytes) = (vec![0; PART_BYTES], 0);
    loop {
        let count = body.read(&mut part).map_err(Failed::Receiving)?;
        bytes += count as u64;
        if count == 0 || bytes > MAX_ARCHIVE_BYTES {
            break;
        }
        let received = part.get(..count).unwrap_or_default();
        file.write_all(received).map_err(Failed::Keeping)?;
    }
    file.rewind().map_err(Failed::Keeping)?;
    Ok(Some(file).filter(|_| bytes <= MAX_ARCHIVE_BYTES))
}

fn url(address: &HistoryAddress) -> String {
    let attempt = address.attempt.as_ref();
    let attempt = attempt.map_or_else(String::new, |attempt| format!("/{attempt}"));
    let HistoryAddress {
        server,
        application,
        ..
    } = address;
    format!("{server}/api/v1/applications/{application}{attempt}/logs")
}

/// Trusts the authorities that this host trusts.
fn agent() -> Agent {
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted = trusted
        .iter()
        .map(|one| Certificate::from_der(one).to_owned());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(trusted.collect())))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        // A History Server is near. Variables for the proxy of a host are meant for the internet.
        .proxy(None)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .timeout_recv_body(Some(BODY_TIMEOUT))
        .build();
    config.new_agent()
}

#[cfg(test)]
mod tests;
