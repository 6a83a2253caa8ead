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
        .take(&body, &secret(), &fresh(2))
        .unwrap();
    let session = step.session.unwrap();
    assert_eq!(session.app, app());
    assert!(session.keys.is_some());
    let response = AuthMessage::from_bytes(&step.answer).unwrap();
    assert!(challenge.accept(&response, &secret()).is_ok());
}

/// The texts that a client gets for messages of both ways, right and wrong ones.
fn answers(secret: &Secret) -> Vec<String> {
    let right = Challenge::new(&app(), &self::secret(), &fresh(1)).unwrap();
    let mut short = right.message().clone();
    short.ciphertext.truncate(3);
    let mut salted = right.message().clone();
    salted.salt = vec![1; 200];
    let exchanges = [right.message(), &short, &salted].map(|message| {
        let denied = Handshake::default().take(&message.to_bytes(), secret, &fresh(2));
        format!("{:?}", denied.err())
    });
    let tokens = [
        "",
        "qop=auth",
        "qop=auth-conf",
        "no token",
        &response_of("other", 3),
    ];
    let answered = tokens.map(|token| {
        let mut handshake = Handshake::default();
        handshake
            .take(&sasl(&app(), ""), secret, &fresh(3))
            .unwrap();
        let denied = handshake.take(&sasl(&app(), token), secret, &fresh(4));
        format!("{:?}", denied.err())
    });
    exchanges.into_iter().chain(answered).collect()
}

/// What a client with this secret answers to the challenge that is made of `fresh(seed)`.
fn response_of(secret: &str, seed: u8) -> String {
    let secret = Secret::new(secret.as_bytes()).unwrap();
    let challenge = DigestChallenge::new(&fresh(seed)).token();
    crate::digest_response(&challenge, &secret, "cnonce").unwrap()
}

#[test]
fn a_client_does_not_learn_whether_an_application_has_a_secret() {
    let another = answers(&Secret::new(b"another").unwrap());
    assert_eq!(another, answers(&Secret::unknown(&[9; 32])));
    assert!(another.iter().all(|answer| answer != "None"), "{another:?}");
}

#[test]
fn the_right_answer_of_a_client_is_accepted() {
    let mut handshake = Handshake::default();
    let first = sasl(&app(), "");
    handshake.take(&first, &secret(), &fresh(1)).unwrap();
    let answer = sasl(&app(), &response_of("s3cret", 1));
    let step = handshake.take(&answer, &secret(), &fresh(2)).unwrap();
    let session = step.session.unwrap();
    assert_eq!(session.app, app());
    assert!(session.keys.is_none());
}

#[test]
fn who_knows_the_secret_of_one_application_does_not_become_another() {
    let mut handshake = Handshake::default();
    handshake
        .take(&sasl(&app(), ""), &secret(), &fresh(1))
        .unwrap();
    let other = AppId::new("application_2").unwrap();
    // The service looks up the secret of the application that this message names.
    let (theirs, answer) = (Secret::new(b"theirs").unwrap(), response_of("theirs", 1));
    let denied = handshake.take(&sasl(&other, &answer), &theirs, &fresh(2));
    let expected = Denied::Malformed("an answer for another application");
    assert_eq!(denied.err(), Some(expected));
}

#[test]
fn a_challenge_is_for_one_answer() {
    let mut handshake = Handshake::default();
    let first = sasl(&app(), "");
    handshake.take(&first, &secret(), &fresh(1)).unwrap();
    let wrong = sasl(&app(), "qop=auth");
    let denied = handshake.take(&wrong, &secret(), &fresh(2));
    assert!(denied.is_err());
    // The next message begins another exchange, with another challenge.
    let step = handshake.take(&first, &secret(), &fresh(3)).unwrap();
    assert_ne!(
        step.answer,
        Bytes::from(DigestChallenge::new(&fresh(1)).token())
    );
}

#[test]
fn with_encryption_required_sasl_is_denied_at_its_first_message() {
    let mut handshake = Handshake::new(Encryption::Required);
    let denied = handshake.take(&sasl(&app(), ""), &secret(), &fresh(1));
    assert_eq!(denied.err(), Some(Denied::Unencrypted));
}

#[test]
fn a_client_that_would_encrypt_twice_authenticates_with_sasl_after_it_was_denied() {
    let mut handshake = Handshake::new(Encryption::There);
    let challenge = Challenge::new(&app(), &secret(), &fresh(1)).unwrap();
    let body = challenge.message().to_bytes();
    let denied = handshake.take(&body, &secret(), &fresh(1));
    assert_eq!(denied.err(), Some(Denied::EncryptedTwice));
    let first = sasl(&app(), "");
    handshake.take(&first, &secret(), &fresh(2)).unwrap();
    let answer = sasl(&app(), &response_of("s3cret", 2));
    let step = handshake.take(&answer, &secret(), &fresh(3)).unwrap();
    assert!(step.session.unwrap().keys.is_none());
}

#[test]
fn other_messages_are_no_part_of_a_handshake() {
    assert_eq!(asks(&[]), None);
    assert_eq!(asks(&[64, 0, 0]), None);
    let malformed = asks(&[SaslMessage::ID, 0]);
    assert!(matches!(malformed, Some(Err(Denied::Malformed(_)))));
    let denied = Handshake::default().take(&[64], &secret(), &fresh(1));
    assert_eq!(denied.err(), Some(Denied::Missing));
    // One that began with SASL goes on with it.
    let mut handshake = Handshake::default();
    handshake
        .take(&sasl(&app(), ""), &secret(), &fresh(1))
        .unwrap();
    let challenge = Challenge::new(&app(), &secret(), &fresh(1)).unwrap();
    let body = challenge.message().to_bytes();
    let denied = handshake.take(&body, &secret(), &fresh(2));
    assert_eq!(denied.err(), Some(Denied::Missing));
}
