// SPDX-License-Identifier: Apache-2.0
//! Checks of certificates in PEM and of their keys: those of the daemon, and those of Spark.

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
use crate::service::certificate::{Certificate, CertificateError, chain};

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_ENTER: u32 = 0o001;

/// Two files, and how a user names them.
struct Pair {
    names: [&'static str; 2],
    cert: PathBuf,
    key: PathBuf,
    /// Whether the key can be read without a password.
    is_open: bool,
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
        is_open: true,
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
        is_open: settings.of_tls("privateKeyPassword").is_none(),
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
        match Certificate::at(&self.cert, &self.key) {
            Err(CertificateError::File { path, source })
                if source.kind() == ErrorKind::NotFound =>
            {
                let text = format!("{cert_name}, {key_name}: {} is not here", path.display());
                found.extend((self.absent)(text));
            }
            Err(error) if self.is_open => {
                found.push(CERTIFICATE.error(format!("{cert_name}, {key_name}: {error}")));
            }
            _ => {}
        }
        if let Ok(chain) = chain(&self.cert) {
            let (level, text) = judged(&chain, now_s());
            let text = format!("{cert_name} {} {text}", self.cert.display());
            found.push(CERTIFICATE.at(level, text));
        }
        found.extend(key_file(key_name, &self.key));
        found
    }
}

/// Looks whether any user can read a key. It is safe in a directory that others cannot enter.
fn key_file(name: &str, path: &Path) -> Option<Finding> {
    let path = fs::canonicalize(path).ok()?;
    let mode = |path: &Path| fs::metadata(path).map(|found| found.mode());
    let own = mode(&path).ok()?;
    let mut above = path.ancestors().skip(1);
    let is_open = above.all(|dir| mode(dir).is_ok_and(|mode| mode & OTHERS_ENTER != 0));
    let is_bad = own & (OTHERS_READ | OTHERS_WRITE) != 0;
    let text = format!("{name} {} has mode {:o}", path.display(), own & 0o7777);
    (is_open && is_bad)
        .then(|| KEY_FILE.warning(format!("{text}: any user can read or replace it")))
}

#[cfg(test)]
mod tests;
