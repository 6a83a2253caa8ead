// SPDX-License-Identifier: Apache-2.0
//! Chains that a JVM refuses, and some that it takes although this library does not.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use super::*;
use crate::operator::doctor::certificates::tests::{Authority, LONG, OVER, TODAY, own_of, seconds};

fn of(shown: &[&Certificate], listed: &[&Certificate]) -> &'static str {
    let der = |all: &[&Certificate]| all.iter().map(|one| one.der().clone()).collect::<Vec<_>>();
    match accepted(&der(shown), &der(listed), seconds(TODAY)) {
        Accepted::Itself => "itself",
        Accepted::Yes => "yes",
        Accepted::No(refusal) => refusal.why(),
        Accepted::Unknown(_) => "unknown",
    }
}

fn is_ca(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

#[test]
fn a_service_that_is_an_authority_itself_must_be_listed_itself() {
    let keys = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
    let [one, other] = keys.each_ref().map(|key| own_of(key, LONG, is_ca));
    assert_eq!(of(&[&one], &[&one]), "itself");
    assert_eq!(of(&[&one], &[&other]), Refusal::Unsigned.why());
    let authority = Authority::new(LONG);
    assert_eq!(of(&[&one], &[&authority.cert]), Refusal::Unsigned.why());
    let signed = authority.signs_with(LONG, is_ca);
    assert_eq!(of(&[&signed], &[&authority.cert]), "unknown");
}

#[test]
fn a_certificate_with_the_name_and_the_key_of_a_listed_one_is_taken_whatever_its_dates() {
    let key = KeyPair::generate().unwrap();
    let [renewed, before] = [LONG, OVER].map(|days| own_of(&key, days, is_ca));
    assert_eq!(of(&[&renewed], &[&before]), "itself");
    assert_eq!(of(&[&before], &[&renewed]), "itself");
}

#[test]
fn a_certificate_whose_uses_leave_out_servers_of_tls_is_refused() {
    let authority = Authority::new(LONG);
    let with = |change| of(&[&authority.signs_with(LONG, change)], &[&authority.cert]);
    let for_clients: fn(&mut CertificateParams) =
        |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    assert_eq!(with(for_clients), Refusal::Purpose.why());
    let for_keys: fn(&mut CertificateParams) =
        |params| params.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
    assert_eq!(with(for_keys), Refusal::KeyUsage.why());
    let both: fn(&mut CertificateParams) = |params| {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    assert_eq!(with(both), "yes");
}

#[test]
fn what_has_signed_a_certificate_must_be_an_authority() {
    let changes: [fn(&mut CertificateParams); 3] = [
        |params| params.is_ca = IsCa::ExplicitNoCa,
        |params| params.is_ca = IsCa::NoCa,
        |params| {
            is_ca(params);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        },
    ];
    for change in changes {
        let authority = Authority::with(LONG, change);
        let signed = authority.signs(LONG);
        assert_eq!(of(&[&signed], &[&authority.cert]), Refusal::Anchor.why());
    }
}

#[test]
fn an_authority_between_that_expired_makes_a_jvm_refuse_the_chain() {
    let root = Authority::new(LONG);
    for (days, expected) in [(LONG, "yes"), (OVER, Refusal::Dates.why())] {
        let between = root.below(days);
        let signed = between.signs(LONG);
        assert_eq!(of(&[&signed, &between.cert], &[&root.cert]), expected);
    }
    let over = root.signs(OVER);
    assert_eq!(of(&[&over], &[&root.cert]), Refusal::Dates.why());
}
