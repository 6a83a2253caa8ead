// SPDX-License-Identifier: Apache-2.0
//! Checks of the PEM certificates and keys of the daemon and of Spark.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::checks::{CERTIFICATE, KEY_FILE};
use super::directories::in_time;
use crate::config::Config;
use crate::operator::doctor::certificates::{judged, now_s};
use crate::operator::doctor::finding::Finding;
use crate::operator::doctor::settings::Settings;
use crate::service::certificate::key_form::KeyForm;
use crate::service::certificate::{Certificate, CertificateError, chain};

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_ENTER: u32 = 0o001;
/// In such a directory nobody replaces the file of another user.
const STICKY: u32 = 0o1000;

const CONVERT: &str = "Write it as PKCS#8 (openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW), with \
                       the mode of the old file.";

/// What reads a pair: it takes other forms of keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Daemon,
    Spark,
}

/// Two files, and how a user names them.
struct Pair {
    names: [&'static str; 2],
    cert: PathBuf,
    key: PathBuf,
    /// Whether a password of the key is known, and who reads it.
    has_password: bool,
    reader: Reader,
    /// What it means if there is no such file.
    absent: fn(String) -> Option<Finding>,
}

pub(super) fn of_daemon(config: &Config) -> Vec<Finding> {
    let (Some(cert), Some(key)) = (config.tls_cert.clone(), config.tls_key.clone()) else {
        return Vec::new();
    };
    let pair = Pair {
        names: ["--tls-cert", "--tls-key"],
        cert,
        key,
        has_password: false,
        reader: Reader::Daemon,
        absent: |text| Some(CERTIFICATE.error(text)),
    };
    pair.look_in_time()
}

/// Looks at what the settings name, if it is on this host.
pub(super) fn of_spark(settings: &Settings) -> Vec<Finding> {
    let path = |name| settings.of_tls(name).map(PathBuf::from);
    let (true, Some(cert), Some(key)) = (settings.has_tls(), path("certChain"), path("privateKey"))
    else {
        return Vec::new();
    };
    let pair = Pair {
        names: ["spark.ssl.rpc.certChain", "spark.ssl.rpc.privateKey"],
        cert,
        key,
        has_password: settings.of_tls("privateKeyPassword").is_some(),
        reader: Reader::Spark,
        absent: match settings.is_past {
            true => |_| None,
            false => |text| {
                let remedy = "Nothing, if no JVM of Spark runs on this host or only in containers.";
                Some(CERTIFICATE.note(text).instead(remedy))
            },
        },
    };
    pair.look_in_time()
}

impl Pair {
    fn look_in_time(self) -> Vec<Finding> {
        let path = self.cert.clone();
        in_time(&path, move || self.look())
    }

    fn look(&self) -> Vec<Finding> {
        let [cert_name, key_name] = self.names;
        let mut found = Vec::new();
        let listed = chain(&self.cert);
        found.extend(match &listed {
            Ok(_) => self.key(),
            Err(error) => self.refused(error),
        });
        if let Ok(chain) = listed {
            let (level, text) = judged(&chain, now_s());
            let text = format!("{cert_name} {} {text}", self.cert.display());
            found.push(CERTIFICATE.at(level, text));
        }
        found.extend(key_file(key_name, &self.key));
        found
    }

    /// Judges the key of a certificate that is right.
    fn key(&self) -> Option<Finding> {
        let form = match (self.reader, KeyForm::at(&self.key)) {
            (_, Err(error)) => return self.refused(&error),
            (Reader::Daemon, Ok(_)) => KeyForm::Pkcs8,
            (Reader::Spark, Ok(form)) => form,
        };
        let key = format!("{} {}", self.names[1], self.key.display());
        match form {
            KeyForm::Encrypted => (!self.has_password).then(|| {
                CERTIFICATE
                    .note(format!("{key} has a password, and so cannot be judged"))
                    .instead(
                        "Nothing, if Spark gets it: spark.ssl.rpc.privateKeyPassword, or \
                         _SPARK_SSL_RPC_PRIVATE_KEY_PASSWORD in the environment.",
                    )
            }),
            KeyForm::Older => {
                let text = format!("{key} is no PKCS#8 (BEGIN PRIVATE KEY): Spark does not start");
                Some(CERTIFICATE.error(text).instead(CONVERT))
            }
            KeyForm::Ed25519 => {
                let text = format!("{key} is of Ed25519: Spark does not start");
                let remedy = "Make a pair of RSA or ECDSA.";
                Some(CERTIFICATE.error(text).instead(remedy))
            }
            KeyForm::Pkcs8 | KeyForm::Other => {
                let refused = Certificate::at(&self.cert, &self.key).err();
                refused.and_then(|error| self.refused(&error))
            }
        }
    }

    fn refused(&self, error: &CertificateError) -> Option<Finding> {
        let [cert_name, key_name] = self.names;
        let text = format!("{cert_name}, {key_name}: {error}");
        match (self.reader, error) {
            (_, CertificateError::File { path, source })
                if source.kind() == ErrorKind::NotFound =>
            {
                let path = path.display();
                (self.absent)(format!("{cert_name}, {key_name}: {path} is not here"))
            }
            (_, CertificateError::File { source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                let remedy = "Run this command as the user of the daemon, or of Spark: others need \
                              not be able to read it.";
                Some(CERTIFICATE.note(text).instead(remedy))
            }
            // The library of a JVM takes more kinds than that of the daemon.
            (Reader::Spark, CertificateError::Pair { source, .. })
                if !matches!(source, rustls::Error::InconsistentKeys(_)) =>
            {
                let remedy = "Nothing, if Spark starts with it: this program knows fewer kinds.";
                Some(CERTIFICATE.note(text).instead(remedy))
            }
            _ => Some(CERTIFICATE.error(text)),
        }
    }
}

/// Looks whether any user can read a key. It is safe in a directory that others cannot enter.
fn key_file(name: &str, path: &Path) -> Option<Finding> {
    let path = fs::canonicalize(path).ok()?;
    let mode = |path: &Path| fs::metadata(path).map(|found| found.mode());
    let own = mode(&path).ok()?;
    let mut above = path.ancestors().skip(1);
    let is_open = above.all(|dir| mode(dir).is_ok_and(|mode| mode & OTHERS_ENTER != 0));
    if !is_open {
        return None;
    }
    let key = path.display();
    if own & (OTHERS_READ | OTHERS_WRITE) != 0 {
        let text = format!("{name} {key} has mode {:o}", own & 0o7777);
        return Some(KEY_FILE.warning(format!("{text}: any user can read or replace it")));
    }
    let folder = path.parent()?;
    let its = mode(folder).ok()?;
    (its & OTHERS_WRITE != 0 && its & STICKY == 0).then(|| {
        let folder = folder.display();
        let text = format!("{name} {key}: any user can replace it, since {folder} has mode");
        let remedy = format!("Let only its user write to {folder} (chmod go-w).");
        KEY_FILE
            .warning(format!("{text} {:o}", its & 0o7777))
            .instead(remedy)
    })
}

#[cfg(test)]
mod tests;
