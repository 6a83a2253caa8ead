// SPDX-License-Identifier: Apache-2.0
//! Whether certificates are valid, and how much longer.

use lodestone_store::Environment;
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::finding::Level;

const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 60 * MINUTE_S;
const DAY_S: i64 = 24 * HOUR_S;

/// A certificate that expires so soon should have been replaced.
const SOON_S: i64 = 30 * DAY_S;

/// One that is valid for weeks or hours is replaced before the last third of its time.
const LAST_PART: i64 = 3;

/// The clock of this host, in seconds since 1970.
pub(super) fn now_s() -> i64 {
    let ms = Environment::os().clock.unix_ms();
    i64::try_from(ms / 1000).unwrap_or(i64::MAX)
}

/// Judges a certificate, and those that follow it because they have signed it. The text continues
/// a sentence that begins with its name.
pub(super) fn judged(chain: &[CertificateDer<'_>], now_s: i64) -> (Level, String) {
    let Some((first, others)) = chain.split_first() else {
        return (Level::Error, "is no certificate".to_owned());
    };
    let (level, text) = one(first, now_s);
    let outdated = others.iter().find_map(|other| outdated(other, now_s));
    match outdated {
        Some(problem) => (level.max(Level::Warning), format!("{text}; {problem}")),
        None => (level, text),
    }
}

fn one(certificate: &CertificateDer<'_>, now_s: i64) -> (Level, String) {
    let parsed = match X509Certificate::from_der(certificate) {
        Ok((_, parsed)) => parsed,
        Err(error) => return (Level::Note, format!("cannot be judged: {error}")),
    };
    let validity = parsed.validity();
    let (begin_s, end_s) = (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    );
    let end = date(&validity.not_after);
    let left_s = end_s - now_s;
    let is_soon = left_s < SOON_S.min((end_s - begin_s) / LAST_PART);
    match () {
        () if now_s < begin_s => {
            let (begin, left) = (date(&validity.not_before), span(begin_s - now_s));
            let text = format!("is not valid before {begin}, in {left}");
            (Level::Error, text)
        }
        () if left_s < 0 => {
            let text = format!("expired on {end}, {} ago", span(-left_s));
            (Level::Error, text)
        }
        () if is_soon => {
            let text = format!("expires on {end}, in {}", span(left_s));
            (Level::Warning, text)
        }
        () => (
            Level::Ok,
            format!("is valid until {end}, for {}", span(left_s)),
        ),
    }
}

/// Says what is wrong with a certificate that has signed another one.
fn outdated(certificate: &CertificateDer<'_>, now_s: i64) -> Option<String> {
    let (level, text) = one(certificate, now_s);
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    (level >= Level::Warning).then(|| format!("that of {}, beside it, {text}", parsed.subject()))
}

fn date(time: &ASN1Time) -> String {
    time.to_datetime().date().to_string()
}

fn span(seconds: i64) -> String {
    let (count, unit) = match seconds {
        0..HOUR_S => (seconds / MINUTE_S, "minute"),
        HOUR_S..DAY_S => (seconds / HOUR_S, "hour"),
        _ => (seconds / DAY_S, "day"),
    };
    match count {
        1 => format!("1 {unit}"),
        _ => format!("{count} {unit}s"),
    }
}

#[cfg(test)]
pub(super) mod tests;
