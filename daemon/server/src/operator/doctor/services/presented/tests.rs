// SPDX-License-Identifier: Apache-2.0
//! Services that show a certificate, and applications that trust it or not.

use std::fs;

use super::*;
use crate::operator::doctor::certificates::tests::{Authority, LONG, OVER, TODAY, own, seconds};

const TLS: &str = "spark.ssl.rpc.enabled=true";

fn found(shown: &[CertificateDer<'_>], trust: &Trust) -> (&'static str, String) {
    let (check, level, line) = judged("host1:7337", shown, trust, seconds(TODAY)).shown();
    assert_eq!(check, "tls-certificate");
    (level, line)
}

fn expect(shown: &[CertificateDer<'_>], trust: &Trust, level: &str, words: &str) {
    let (found, line) = found(shown, trust);
    assert_eq!(found, level, "{line}");
    assert!(line.contains(words), "{line}");
}

fn trust(given: &[&str]) -> Trust {
    let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
    Trust::of(&Settings::named(&given).unwrap())
}

#[test]
fn what_signed_the_certificate_must_be_in_the_chain_that_the_application_has() {
    let (ours, other) = (Authority::new(LONG), Authority::new(LONG));
    let shown = [ours.signs(LONG).der().clone()];
    let listed = |authority: &Authority| Trust::Listed(vec![authority.cert.der().clone()]);
    expect(&shown, &listed(&ours), "ok", "trusts what has signed it");
    expect(&shown, &listed(&other), "error", "Append what has signed");
    let expired = [ours.signs(OVER).der().clone()];
    expect(&expired, &listed(&ours), "error", "expired on 2030-06-30");
}

#[test]
fn a_certificate_that_is_trusted_itself_may_expire_and_is_a_warning_then() {
    let listed = |days| {
        let shown = [own(days).0.der().clone()];
        let trust = Trust::Listed(shown.to_vec());
        found(&shown, &trust)
    };
    assert_eq!(listed(LONG).0, "ok");
    let (level, line) = listed(OVER);
    assert_eq!(level, "warning");
    assert!(line.contains("trusts this very certificate"), "{line}");
}

#[test]
fn without_a_trust_store_any_certificate_is_taken_which_is_a_note() {
    let trust = trust(&[TLS]);
    expect(
        &[own(LONG).0.der().clone()],
        &trust,
        "note",
        "Set spark.ssl.rpc.trustStore",
    );
    expect(
        &[own(OVER).0.der().clone()],
        &trust,
        "warning",
        "takes any certificate",
    );
}

#[test]
fn a_store_that_only_a_jvm_reads_leaves_the_dates_to_be_judged() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("trust.p12");
    fs::write(&store, "").unwrap();
    let given = format!("spark.ssl.rpc.trustStore={}", store.display());
    let there = trust(&[TLS, &given]);
    expect(
        &[own(LONG).0.der().clone()],
        &there,
        "ok",
        "only a JVM reads",
    );
    expect(&[own(OVER).0.der().clone()], &there, "error", "expired on");
    let gone = trust(&[TLS, "spark.ssl.rpc.trustStore=/no/such/store"]);
    let words = "where it is missing Spark takes any certificate";
    expect(&[own(LONG).0.der().clone()], &gone, "note", words);
}

#[test]
fn a_chain_in_pem_takes_the_place_of_the_trust_store_as_in_spark() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(LONG);
    let chain = folder.path().join("chain.pem");
    let (own, _) = own(LONG);
    fs::write(&chain, format!("{}{}", own.pem(), authority.cert.pem())).unwrap();
    let chain = format!("certChain={}", chain.display());
    let shown = [authority.signs(LONG).der().clone()];
    for prefix in ["spark.ssl.rpc.", "spark.ssl."] {
        let trust = trust(&[
            TLS,
            "spark.ssl.enabled=true",
            &format!("{prefix}{chain}"),
            &format!("{prefix}privateKey=/k"),
            "spark.ssl.rpc.trustStore=/t",
        ]);
        expect(&shown, &trust, "ok", "trusts what has signed it");
    }
    let unknown = trust(&[
        TLS,
        "spark.ssl.rpc.certChain=${x}",
        "spark.ssl.rpc.privateKey=/k",
    ]);
    expect(&shown, &unknown, "note", "has a reference");
    let gone = trust(&[
        TLS,
        "spark.ssl.rpc.certChain=/no/such/chain",
        "spark.ssl.rpc.privateKey=/k",
    ]);
    expect(&shown, &gone, "note", "/no/such/chain");
}

#[test]
fn an_expired_certificate_is_to_be_replaced_whatever_the_application_trusts() {
    let shown = [own(OVER).0.der().clone()];
    for trust in [Trust::Everything, Trust::Absent("/t".to_owned())] {
        let (_, line) = found(&shown, &trust);
        assert!(line.contains("-> Give the daemon a certificate"), "{line}");
    }
}
