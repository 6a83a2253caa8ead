// SPDX-License-Identifier: Apache-2.0
//! Whether clients take the certificate that a service shows. Spark's own client compares no names
//! of hosts with it, so neither does this.

use std::path::Path;
use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

use super::checks::TLS_CERTIFICATE;
use crate::operator::doctor::certificates;
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

/// The certificates that an application takes.
#[derive(Debug)]
pub(super) enum Trust {
    /// Without a trust store: any.
    Everything,
    /// With a chain and a key in PEM: these, and what they have signed.
    Listed(Vec<CertificateDer<'static>>),
    /// What is in a trust store that is on other hosts, if there is one.
    Absent(String),
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
        match (pair, settings.of_tls("trustStore")) {
            ([Some(path), Some(_)], _) => match chain(Path::new(path)) {
                Ok(listed) => Self::Listed(listed),
                Err(error) => Self::Unread(error.to_string()),
            },
            (_, Some(store)) if Path::new(store).exists() => {
                Self::Unread(format!("only a JVM reads {store}"))
            }
            (_, Some(store)) => Self::Absent(store.to_owned()),
            _ => Self::Everything,
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
    match trust {
        Trust::Everything => {
            let words = "without spark.ssl.rpc.trustStore Spark takes any certificate, also that \
                         of an attacker";
            at(level.clamp(Level::Note, Level::Warning), words)
                .instead("Set spark.ssl.rpc.trustStore to a store with what signs certificates.")
        }
        Trust::Absent(store) => at(
            level.max(Level::Note),
            &format!(
                "{store} is not on this host, and where it is missing Spark takes any certificate"
            ),
        )
        .instead("Look whether the trust store is on every host of the application."),
        // A JVM looks at no date of a certificate that it trusts itself.
        Trust::Listed(listed) if shown.first().is_some_and(|own| listed.contains(own)) => at(
            level.min(Level::Warning),
            "the application trusts this very certificate, whatever its dates",
        ),
        Trust::Listed(listed) => match signed(shown, listed, now_s) {
            Signed::Yes => at(level, "the application trusts what has signed it"),
            Signed::No => at(
                Level::Error,
                "nothing in the application's certChain has signed it",
            )
            .instead(
                "Append what has signed the certificates of services to the file of \
                 spark.ssl.rpc.certChain.",
            ),
            Signed::Unknown(why) => {
                let words = format!("whether the application trusts it is unknown ({why})");
                at(level.max(Level::Note), &words)
            }
        },
        Trust::Unread(why) => at(
            level,
            &format!("whether the application trusts it is unknown ({why})"),
        ),
    }
}

enum Signed {
    Yes,
    No,
    Unknown(Error),
}

fn signed(shown: &[CertificateDer<'_>], trusted: &[CertificateDer<'static>], now_s: i64) -> Signed {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let now = Duration::from_secs(u64::try_from(now_s).unwrap_or_default());
    let first = shown.split_first().ok_or(Error::NoCertificatesPresented);
    let verified = first.and_then(|(own, others)| {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(own)?,
            &roots,
            others,
            UnixTime::since_unix_epoch(now),
            default_provider().signature_verification_algorithms.all,
        )
    });
    match verified {
        Ok(()) => Signed::Yes,
        Err(Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => Signed::No,
        Err(error) => Signed::Unknown(error),
    }
}

#[cfg(test)]
mod tests;
