// SPDX-License-Identifier: Apache-2.0
//! Whether a JVM accepts a chain, if it trusts listed certificates. Where this library and a JVM
//! differ, the rules of the JVM count (`PKIXValidator`, `EndEntityChecker`).

use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// What a JVM does with a chain.
pub(super) enum Accepted {
    /// It takes the certificate, because that one is listed.
    Itself,
    /// It takes the certificate, because of what has signed it.
    Yes,
    /// It refuses it.
    No(Refusal),
    /// This program cannot say.
    Unknown(Error),
}

/// Why a JVM refuses a chain.
#[derive(Clone, Copy)]
pub(super) enum Refusal {
    /// No listed certificate has signed it.
    Unsigned,
    /// It has expired or is not valid yet, or a certificate that was sent with it.
    Dates,
    /// It is for clients only.
    Purpose,
    /// It may not sign the agreement upon keys.
    KeyUsage,
    /// The listed certificate that has signed it may not do so.
    Anchor,
}

impl Refusal {
    /// Completes a sentence.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Unsigned => "no listed certificate has signed it",
            Self::Dates => "it, or one that has signed it, is not valid today",
            Self::Purpose => "its extended key usage leaves out servers (serverAuth)",
            Self::KeyUsage => "its key usage leaves out digitalSignature",
            Self::Anchor => "what has signed it is no authority (basicConstraints CA:TRUE)",
        }
    }
}

/// Compares the certificates that a service shows, its own first, with those that are listed.
pub(super) fn accepted(
    shown: &[CertificateDer<'_>],
    listed: &[CertificateDer<'static>],
    now_s: i64,
) -> Accepted {
    let Some((own, others)) = shown.split_first() else {
        return Accepted::Unknown(Error::NoCertificatesPresented);
    };
    if listed.iter().any(|one| is_the_same(one, own)) {
        return Accepted::Itself;
    }
    let by_all = signed(own, others, listed, now_s);
    if !matches!(by_all, Accepted::Yes) {
        return by_all;
    }
    if let Some(refusal) = refusal_of_own(own) {
        return Accepted::No(refusal);
    }
    let authorities: Vec<_> = listed.iter().filter(|one| may_sign(one)).cloned().collect();
    match signed(own, others, &authorities, now_s) {
        Accepted::No(Refusal::Unsigned) => Accepted::No(Refusal::Anchor),
        by_authorities => by_authorities,
    }
}

/// Compares names and public keys: a JVM takes a renewed certificate for the one before.
fn is_the_same(listed: &CertificateDer<'_>, own: &CertificateDer<'_>) -> bool {
    let parsed = [listed, own].map(|one| X509Certificate::from_der(one));
    match parsed {
        _ if listed == own => true,
        [Ok((_, one)), Ok((_, other))] => {
            one.subject().as_raw() == other.subject().as_raw()
                && one.public_key().raw == other.public_key().raw
        }
        _ => false,
    }
}

/// Looks for a use that TLS needs and the certificate leaves out.
fn refusal_of_own(own: &CertificateDer<'_>) -> Option<Refusal> {
    let (_, parsed) = X509Certificate::from_der(own).ok()?;
    let usage = parsed.key_usage().ok().flatten();
    let signs = usage.is_none_or(|usage| usage.value.digital_signature());
    (!signs).then_some(Refusal::KeyUsage)
}

/// Returns true if a JVM lets a listed certificate sign others. One of version 1 cannot say so, and
/// may.
fn may_sign(listed: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(listed) else {
        return true;
    };
    let usage = parsed.key_usage().ok().flatten();
    parsed.version.0 < 2
        || (parsed.is_ca() && usage.is_none_or(|usage| usage.value.key_cert_sign()))
}

fn signed(
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    listed: &[CertificateDer<'static>],
    now_s: i64,
) -> Accepted {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(listed.iter().cloned());
    let now = Duration::from_secs(u64::try_from(now_s).unwrap_or_default());
    let verified = ParsedCertificate::try_from(own).and_then(|parsed| {
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &roots,
            others,
            UnixTime::since_unix_epoch(now),
            default_provider().signature_verification_algorithms.all,
        )
    });
    match verified {
        Ok(()) => Accepted::Yes,
        Err(Error::InvalidCertificate(error)) => because(error, own, others, listed),
        Err(error) => Accepted::Unknown(error),
    }
}

fn because(
    error: CertificateError,
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    listed: &[CertificateDer<'static>],
) -> Accepted {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    match error {
        UnknownIssuer | BadSignature => Accepted::No(Refusal::Unsigned),
        Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
            Accepted::No(Refusal::Dates)
        }
        InvalidPurpose | InvalidPurposeContext { .. } => Accepted::No(Refusal::Purpose),
        // Some kinds are unknown to this library only, such as an authority that is a service too.
        _ if !has_issuer(own, others, listed) => Accepted::No(Refusal::Unsigned),
        error => Accepted::Unknown(error.into()),
    }
}

/// Looks whether the name of an issuer is that of a listed certificate. One that names itself has
/// signed itself, and others of its name have not.
fn has_issuer(
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    listed: &[CertificateDer<'static>],
) -> bool {
    let issuers = || std::iter::once(own).chain(others);
    listed.iter().any(|one| {
        let Ok((_, one)) = X509Certificate::from_der(one) else {
            return true;
        };
        issuers().any(|shown| match X509Certificate::from_der(shown) {
            Ok((_, shown)) => {
                let issuer = shown.issuer().as_raw();
                issuer == one.subject().as_raw() && issuer != shown.subject().as_raw()
            }
            Err(_) => true,
        })
    })
}

#[cfg(test)]
mod tests;
