// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::vectors::{self, fresh};

fn nonce_in(token: &str) -> String {
    let directives = Directives::parse(token).unwrap();
    directives.get("nonce").unwrap().to_owned()
}

/// The challenge of Spark's service, as ours.
fn challenge(token: &str) -> DigestChallenge {
    DigestChallenge {
        nonce: nonce_in(token),
    }
}

#[test]
fn the_answers_of_sparks_client_are_accepted_as_by_sparks_service() {
    let vectors = vectors::read("sasl");
    assert!(vectors.len() >= 5, "secrets of several lengths");
    for vector in vectors {
        let proof = challenge(vector.text("challenge"))
            .accept(vector.text("response").as_bytes(), &vector.secret());
        let secret = vector.text("secret");
        assert_eq!(proof.as_deref(), Ok(vector.text("rspauth")), "{secret}");
    }
}

#[test]
fn a_client_with_another_secret_is_denied() {
    for vector in vectors::read("sasl") {
        let other = Secret::new(format!("{}x", vector.text("secret")).as_bytes()).unwrap();
        let denied =
            challenge(vector.text("challenge")).accept(vector.text("response").as_bytes(), &other);
        assert_eq!(denied, Err(Denied::Secret));
    }
}

#[test]
fn an_answer_is_for_one_challenge() {
    let vectors = vectors::read("sasl");
    let (first, second) = (&vectors[0], &vectors[1]);
    let denied = challenge(second.text("challenge"))
        .accept(first.text("response").as_bytes(), &first.secret());
    assert!(matches!(denied, Err(Denied::Malformed(_))), "{denied:?}");
    assert_ne!(
        DigestChallenge::new(&fresh(1)).token(),
        DigestChallenge::new(&fresh(2)).token()
    );
}

#[test]
fn a_client_that_wants_sasl_to_encrypt_learns_what_to_set() {
    let vector = &vectors::read("sasl_encryption")[0];
    let denied = challenge(vector.text("response"))
        .accept(vector.text("response").as_bytes(), &vector.secret());
    assert_eq!(denied, Err(Denied::SaslEncryption));
}

#[test]
fn an_answer_with_any_value_changed_or_missing_is_denied() {
    let vector = &vectors::read("sasl")[0];
    let response = vector.text("response");
    let parts: Vec<&str> = response.split(',').collect();
    for (place, part) in parts.iter().enumerate() {
        let (key, _) = part.split_once('=').unwrap();
        // These say how the rest is encoded and how long it may be.
        if matches!(key, "charset" | "maxbuf") {
            continue;
        }
        let mut changed = parts.clone();
        let other = format!("{key}=\"other\"");
        changed[place] = &other;
        let denied = challenge(vector.text("challenge"))
            .accept(changed.join(",").as_bytes(), &vector.secret());
        assert!(denied.is_err(), "{key} changed");
        changed.remove(place);
        // Without the quality of protection it is this one.
        if key != "qop" {
            let denied = challenge(vector.text("challenge"))
                .accept(changed.join(",").as_bytes(), &vector.secret());
            assert!(denied.is_err(), "{key} missing");
        }
    }
    let more = format!("{response},authzid=\"other\"");
    let denied = challenge(vector.text("challenge")).accept(more.as_bytes(), &vector.secret());
    assert!(denied.is_err(), "for another user");
}
