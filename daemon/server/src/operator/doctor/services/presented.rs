// SPDX-License-Identifier: Apache-2.0
//! Whether clients take the certificate that a service shows. Spark's own client compares no names
//! of hosts with it, so neither does this.

use std::path::Path;

use rustls::pki_types::CertificateDer;

use super::accepted::{Accepted, Refusal, accepted};
use super::checks::TLS_CERTIFICATE;
use crate::operator::doctor::certificates;
use crate::operator::doctor::disk_time::{self, DISK_TIMEOUT};
use crate::operator::doctor::finding::{Finding, Level};
use crate::operator::doctor::settings::Settings;
use crate::service::certificate::chain;

/// What says whom an application trusts.
const TRUST_KEYS: [&str; 7] = [
    "spark.ssl.enabled",
    "spark.ssl.certChain",
    "spark.ssl.privateKey",
    "spark.ssl.trustStore",
    "spark.ssl.rpc.certChain",
    "spark.ssl.rpc.privateKey",
    "spark.ssl.rpc.trustStore",
];

const UNSIGNED: &str = "nothing in the application's certChain has signed it";

const APPEND: &str = "Append what has signed the certificates of services to the file of \
                      spark.ssl.rpc.certChain.";

/// The certificates that an application takes.
#[derive(Debug)]
pub(super) enum Trust {
    /// Without a trust store: any.
    Everything,
    /// With a chain and a key in PEM: these, and what they have signed.
    Listed(Vec<CertificateDer<'static>>),
    /// What is in a trust store that is on other hosts, if there is one.
    Absent(String),
    /// What is in a trust store that is here, and which only a JVM reads.
    Stored(String),
    /// What a file says that this program cannot read.
    Unread(String),
}

impl Trust {
    /// Decides as Spark does (`SSLFactory`).
    pub(super) fn of(settings: &Settings) -> Self {
        if settings.has_references(&TRUST_KEYS) {
            return Self::Unread("a key of spark.ssl has a reference".to_owned());
        }
        let pair = [settings.of_tls("certChain"), settings.of_tls("privateKey")];
        let (path, read) = match (pair, settings.of_tls("trustStore")) {
            ([Some(path), Some(_)], _) => (path, Self::in_chain as fn(&str) -> Self),
            (_, Some(store)) => (store, Self::in_store as fn(&str) -> Self),
            _ => return Self::Everything,
        };
        let name = path.to_owned();
        disk_time::within(DISK_TIMEOUT, move || read(&name))
            .unwrap_or_else(|| Self::Unread(format!("the file system of {path} hangs")))
    }

    fn in_chain(path: &str) -> Self {
        match chain(Path::new(path)) {
            Ok(listed) => Self::Listed(listed),
            Err(error) => Self::Unread(error.to_string()),
        }
    }

    fn in_store(path: &str) -> Self {
        match Path::new(path).exists() {
            true => Self::Stored(path.to_owned()),
            false => Self::Absent(path.to_owned()),
        }
    }
}

/// Judges the certificates that a service shows, its own first.
pub(super) fn judged(
    name: &str,
    shown: &[CertificateDer<'_>],
    trust: &Trust,
    now_s: i64,
) -> Finding {
    let (level, text) = certificates::judged(shown, now_s);
    let text = format!("the certificate of {name} {text}");
    let at = |level, words: &str| TLS_CERTIFICATE.at(level, format!("{text}; {words}"));
    // What to do about a certificate that expires comes first.
    let is_valid = level == Level::Ok;
    match trust {
        Trust::Everything => {
            let words = "without spark.ssl.rpc.trustStore Spark takes any certificate, also that \
                         of an attacker";
            let finding = at(level.clamp(Level::Note, Level::Warning), words);
            match is_valid {
                true => finding.instead(
                    "Set spark.ssl.rpc.trustStore to a store with what signs certificates.",
                ),
                false => finding,
            }
        }
        Trust::Absent(store) => {
            let words = format!(
                "{store} is not on this host, and where it is missing Spark takes any certificate"
            );
            let finding = at(level.max(Level::Note), &words);
            match is_valid {
                true => finding
                    .instead("Look whether the trust store is on every host of the application."),
                false => finding,
            }
        }
        Trust::Listed(listed) => {
            let (range, words) = by_list(shown, listed, now_s);
            match words {
                Some(words) => at(level.clamp(range[0], range[1]), &words),
                None => at(Level::Error, UNSIGNED).instead(APPEND),
            }
        }
        Trust::Stored(store) => {
            let words = format!("only a JVM reads {store}, which says whom the application trusts");
            at(level, &words)
        }
        Trust::Unread(why) => at(
            level.max(Level::Note),
            &format!("whether the application trusts it is unknown ({why})"),
        ),
    }
}

/// Returns the best and the worst level that a chain can have, and why. Without words nothing that
/// is listed has signed it.
fn by_list(
    shown: &[CertificateDer<'_>],
    listed: &[CertificateDer<'static>],
    now_s: i64,
) -> ([Level; 2], Option<String>) {
    let (least, worst, words) = match accepted(shown, listed, now_s) {
        Accepted::Itself => (
            Level::Ok,
            Level::Warning,
            "the application trusts this very certificate, whatever its dates".to_owned(),
        ),
        Accepted::Yes => {
            let words = "the application trusts what has signed it";
            (Level::Ok, Level::Error, words.to_owned())
        }
        Accepted::No(Refusal::Unsigned) => return ([Level::Error; 2], None),
        Accepted::No(refusal) => {
            let words = format!("JVMs refuse it: {}", refusal.why());
            (Level::Error, Level::Error, words)
        }
        Accepted::Unknown(why) => {
            let words = format!("whether the application trusts it is unknown ({why})");
            (Level::Warning, Level::Error, words)
        }
    };
    ([least, worst], Some(words))
}

#[cfg(test)]
mod tests;
