// SPDX-License-Identifier: Apache-2.0
//! Certificates of any dates, and what is said of them on one day.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};

use super::*;

/// A year, a month and a day.
pub(in crate::operator::doctor) type Day = (i32, u8, u8);

/// The day on which tests judge certificates, in its first second.
pub(in crate::operator::doctor) const TODAY: Day = (2030, 7, 1);

pub(in crate::operator::doctor) fn seconds((year, month, day): Day) -> i64 {
    date_time_ymd(year, month, day).unix_timestamp()
}

fn dated(name: &str, [begin, end]: [Day; 2]) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(begin.0, begin.1, begin.2);
    params.not_after = date_time_ymd(end.0, end.1, end.2);
    params
}

/// Makes a certificate that has signed itself, and its key.
pub(in crate::operator::doctor) fn own(days: [Day; 2]) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (dated("own", days).self_signed(&key).unwrap(), key)
}

/// Changes what a certificate says of itself.
pub(in crate::operator::doctor) type Change = fn(&mut CertificateParams);

/// Makes another certificate that has signed itself, of this key.
pub(in crate::operator::doctor) fn own_of(
    key: &KeyPair,
    days: [Day; 2],
    change: Change,
) -> Certificate {
    let mut params = dated("own", days);
    change(&mut params);
    params.self_signed(key).unwrap()
}

/// One that signs others.
pub(in crate::operator::doctor) struct Authority {
    pub(in crate::operator::doctor) cert: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(in crate::operator::doctor) fn new(days: [Day; 2]) -> Self {
        Self::with(days, |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        })
    }

    pub(in crate::operator::doctor) fn with(days: [Day; 2], change: Change) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = dated("authority", days);
        change(&mut params);
        let cert = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        Self { cert, issuer }
    }

    pub(in crate::operator::doctor) fn signs(&self, days: [Day; 2]) -> Certificate {
        self.signs_with(days, |_| {})
    }

    pub(in crate::operator::doctor) fn signs_with(
        &self,
        days: [Day; 2],
        change: Change,
    ) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let mut params = dated("signed", days);
        change(&mut params);
        params.signed_by(&key, &self.issuer).unwrap()
    }

    /// Signs another authority.
    pub(in crate::operator::doctor) fn below(&self, days: [Day; 2]) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = dated("below", days);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let issuer = Issuer::new(params, key);
        Self { cert, issuer }
    }
}

/// Far from today, in both directions.
pub(in crate::operator::doctor) const LONG: [Day; 2] = [(2030, 1, 1), (2031, 7, 1)];

/// Over on the day before.
pub(in crate::operator::doctor) const OVER: [Day; 2] = [(2030, 1, 1), (2030, 6, 30)];

#[test]
fn a_certificate_is_judged_by_the_days_that_it_has_left() {
    for (days, level, text) in [
        (LONG, Level::Ok, "is valid until 2031-07-01, for 365 days"),
        (OVER, Level::Error, "expired on 2030-06-30, 1 day ago"),
        (
            [(2030, 7, 3), (2031, 1, 1)],
            Level::Error,
            "is not valid before 2030-07-03, in 2 days",
        ),
        (
            [(2030, 1, 1), (2030, 7, 30)],
            Level::Warning,
            "expires on 2030-07-30, in 29 days",
        ),
        (
            [(2030, 1, 1), (2030, 7, 31)],
            Level::Ok,
            "is valid until 2030-07-31, for 30 days",
        ),
        // One of two weeks has a week left, and one of six days a day.
        (
            [(2030, 6, 24), (2030, 7, 8)],
            Level::Ok,
            "is valid until 2030-07-08, for 7 days",
        ),
        (
            [(2030, 6, 26), (2030, 7, 2)],
            Level::Warning,
            "expires on 2030-07-02, in 1 day",
        ),
    ] {
        let (cert, _) = own(days);
        let judged = judged(&[cert.der().clone()], seconds(TODAY));
        assert_eq!(judged, (level, text.to_owned()));
    }
}

#[test]
fn a_certificate_beside_it_that_expired_is_a_warning_with_its_name() {
    let authority = Authority::new(OVER);
    let chain = [authority.signs(LONG), authority.cert].map(|one| one.der().clone());
    let (level, text) = judged(&chain, seconds(TODAY));
    assert_eq!(level, Level::Warning);
    assert!(
        text.contains("CN=authority, beside it, expired on 2030-06-30"),
        "{text}"
    );
}

#[test]
fn a_certificate_beside_it_that_expires_soon_is_a_warning_with_its_name() {
    let authority = Authority::new([(2030, 1, 1), (2030, 7, 4)]);
    let chain = [authority.signs(LONG), authority.cert].map(|one| one.der().clone());
    let (level, text) = judged(&chain, seconds(TODAY));
    assert_eq!(level, Level::Warning);
    let words = "CN=authority, beside it, expires on 2030-07-04, in 3 days";
    assert!(text.contains(words), "{text}");
}

#[test]
fn the_last_hours_and_minutes_are_counted_as_such() {
    let (cert, _) = own(LONG);
    let end_s = seconds(LONG[1]);
    for (left_s, words) in [
        (7201, "in 2 hours"),
        (3599, "in 59 minutes"),
        (0, "in 0 minutes"),
    ] {
        let (level, text) = judged(&[cert.der().clone()], end_s - left_s);
        assert_eq!(level, Level::Warning);
        assert!(text.ends_with(words), "{text}");
    }
    assert_eq!(judged(&[cert.der().clone()], end_s + 1).0, Level::Error);
}
