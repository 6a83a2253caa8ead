// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::exchange::Challenge;
use crate::vectors::{app, fresh};

fn sasl(app: &AppId, token: &str) -> Bytes {
    let token = token.as_bytes().to_vec();
    let app = app.clone();
    SaslMessage { app, token }.to_bytes()
}

fn secret() -> Secret {
    Secret::new(b"s3cret").unwrap()
}

#[test]
fn an_exchange_is_one_message_and_one_answer() {
    let challenge = Challenge::new(&app(), &secret(), &fresh(1)).unwrap();
    let body = challenge.message().to_bytes();
    assert_eq!(asks(&body), Some(Ok(app())));
    let step = Handshake::default()
        .take(&body, Some(&secret()), &fresh(2))
        .unwrap();
    let session = step.session.unwrap();
    assert_eq!(session.app, app());
    assert!(session.keys.is_some());
    let response = AuthMessage::from_bytes(&step.answer).unwrap();
    assert!(challenge.accept(&response, &secret()).is_ok());
}

#[test]
fn an_application_without_a_secret_is_denied_as_one_with_another_secret() {
    let challenge = Challenge::new(&app(), &secret(), &fresh(1)).unwrap();
    let body = challenge.message().to_bytes();
    let denied = Handshake::default().take(&body, None, &fresh(2));
    assert_eq!(denied.err(), Some(Denied::Secret));
    let mut handshake = Handshake::default();
    let step = handshake.take(&sasl(&app(), ""), None, &fresh(2)).unwrap();
    assert!(step.session.is_none());
    let answer = sasl(&app(), "qop=auth");
    assert_eq!(
        handshake.take(&answer, None, &fresh(3)).err(),
        Some(Denied::Secret)
    );
}

#[test]
fn an_answer_for_another_application_than_the_challenge_is_denied() {
    let mut handshake = Handshake::default();
    let first = sasl(&app(), "");
    handshake.take(&first, Some(&secret()), &fresh(1)).unwrap();
    let other = AppId::new("application_2").unwrap();
    let denied = handshake.take(&sasl(&other, "qop=auth"), Some(&secret()), &fresh(2));
    assert!(matches!(denied.err(), Some(Denied::Malformed(_))));
}

#[test]
fn a_challenge_is_for_one_answer() {
    let mut handshake = Handshake::default();
    let first = sasl(&app(), "");
    handshake.take(&first, Some(&secret()), &fresh(1)).unwrap();
    let wrong = sasl(&app(), "qop=auth");
    let denied = handshake.take(&wrong, Some(&secret()), &fresh(2));
    assert!(denied.is_err());
    // The next message begins another exchange, with another challenge.
    let step = handshake.take(&first, Some(&secret()), &fresh(3)).unwrap();
    assert_ne!(
        step.answer,
        Bytes::from(DigestChallenge::new(&fresh(1)).token())
    );
}

#[test]
fn with_encryption_required_sasl_is_denied_at_its_first_message() {
    let mut handshake = Handshake::new(true);
    let denied = handshake.take(&sasl(&app(), ""), Some(&secret()), &fresh(1));
    assert_eq!(denied.err(), Some(Denied::Unencrypted));
}

#[test]
fn other_messages_are_no_part_of_a_handshake() {
    assert_eq!(asks(&[]), None);
    assert_eq!(asks(&[64, 0, 0]), None);
    let malformed = asks(&[SaslMessage::ID, 0]);
    assert!(matches!(malformed, Some(Err(Denied::Malformed(_)))));
    let denied = Handshake::default().take(&[64], Some(&secret()), &fresh(1));
    assert_eq!(denied.err(), Some(Denied::Missing));
    // One that began with SASL goes on with it.
    let mut handshake = Handshake::default();
    handshake
        .take(&sasl(&app(), ""), Some(&secret()), &fresh(1))
        .unwrap();
    let challenge = Challenge::new(&app(), &secret(), &fresh(1)).unwrap();
    let body = challenge.message().to_bytes();
    let denied = handshake.take(&body, Some(&secret()), &fresh(2));
    assert_eq!(denied.err(), Some(Denied::Missing));
}
