// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::vectors::{self, app, fresh};

fn versions() -> [(Version, vectors::Vector); 2] {
    let found = vectors::read("exchange").into_iter().map(|vector| {
        let version = match vector.text("exchange") {
            "1" => Version::One,
            "2" => Version::Two,
            other => panic!("version {other}"),
        };
        (version, vector)
    });
    found.collect::<Vec<_>>().try_into().ok().unwrap()
}

fn message(bytes: &[u8]) -> AuthMessage {
    AuthMessage::from_bytes(bytes).unwrap()
}

/// What both ends encrypt nothing but zeros to.
fn zeros(agreed: &Agreed, version: Version) -> [Vec<u8>; 2] {
    let mut streams = agreed.keystreams(version);
    [&mut streams.of_client, &mut streams.of_service].map(|stream| {
        let mut bytes = vec![0; 64];
        stream.apply(&mut bytes);
        bytes
    })
}

#[test]
fn a_client_derives_the_keys_that_sparks_own_client_derives() {
    for (version, vector) in versions() {
        let challenge = Challenge {
            private: StaticSecret::from(vector.array("client_private")),
            message: message(&vector.bytes("challenge")),
        };
        let secret = vector.secret();
        let agreed = challenge
            .accept(&message(&vector.bytes("response")), &secret)
            .unwrap();
        let mut sent: Vec<u8> = (0..100).collect();
        agreed.keystreams(version).of_client.apply(&mut sent);
        assert_eq!(sent, vector.bytes("client_bytes"), "{version:?}");
        let iv = vector.array("client_reads");
        let mut expected = vec![0; 64];
        match version {
            Version::One => Keystream::of_256_bits(&vector.array("key"), &iv),
            Version::Two => Keystream::of_128_bits(&vector.array("key"), &iv),
        }
        .apply(&mut expected);
        assert_eq!(zeros(&agreed, version)[1], expected, "{version:?}");
    }
}

#[test]
fn the_service_reads_the_key_of_sparks_client() {
    for (_, vector) in versions() {
        let private = StaticSecret::from(vector.array::<32>("client_private"));
        let challenge = message(&vector.bytes("challenge"));
        let public = opened(&challenge, &vector.secret(), &[]).unwrap();
        assert_eq!(public, PublicKey::from(&private));
    }
}

#[test]
fn both_ends_have_the_same_keys_and_each_direction_its_own() {
    let secret = Secret::new(b"s3cret").unwrap();
    let challenge = Challenge::new(&app(), &secret, &fresh(1)).unwrap();
    let (response, service) = respond(challenge.message(), &secret, &fresh(2)).unwrap();
    let client = challenge.accept(&response, &secret).unwrap();
    for version in [Version::One, Version::Two] {
        let of_both = [&client, &service].map(|agreed| zeros(agreed, version));
        assert_eq!(of_both[0], of_both[1]);
        assert_ne!(of_both[0][0], of_both[0][1]);
    }
    assert_ne!(zeros(&client, Version::One), zeros(&client, Version::Two));
}

#[test]
fn another_exchange_has_other_keys() {
    let secret = Secret::new(b"s3cret").unwrap();
    let streams = [3, 4].map(|seed| {
        let challenge = Challenge::new(&app(), &secret, &fresh(1)).unwrap();
        let (_, service) = respond(challenge.message(), &secret, &fresh(seed)).unwrap();
        zeros(&service, Version::One)
    });
    assert_ne!(streams[0], streams[1]);
}

#[test]
fn who_has_another_secret_is_denied_by_either_end() {
    let [ours, theirs] = [&b"ours"[..], b"theirs"].map(|text| Secret::new(text).unwrap());
    let challenge = Challenge::new(&app(), &theirs, &fresh(1)).unwrap();
    let denied = respond(challenge.message(), &ours, &fresh(2)).err();
    assert_eq!(denied, Some(Denied::Secret));
    let (response, _) = respond(challenge.message(), &theirs, &fresh(2)).unwrap();
    assert_eq!(
        challenge.accept(&response, &ours).err(),
        Some(Denied::Secret)
    );
}

#[test]
fn no_byte_of_a_message_can_be_changed() {
    let secret = Secret::new(b"s3cret").unwrap();
    let challenge = Challenge::new(&app(), &secret, &fresh(1)).unwrap();
    let bytes = challenge.message().to_bytes();
    for place in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[place] ^= 1;
        let accepted = AuthMessage::from_bytes(&changed)
            .ok()
            .and_then(|message| respond(&message, &secret, &fresh(2)).ok());
        assert!(accepted.is_none(), "byte {place}");
    }
}

#[test]
fn an_answer_to_another_challenge_is_denied() {
    let secret = Secret::new(b"s3cret").unwrap();
    let [first, second] = [1, 2].map(|seed| Challenge::new(&app(), &secret, &fresh(seed)).unwrap());
    let (response, _) = respond(first.message(), &secret, &fresh(3)).unwrap();
    assert_eq!(
        second.accept(&response, &secret).err(),
        Some(Denied::Secret)
    );
}

#[test]
fn a_public_key_that_makes_the_shared_secret_known_is_denied() {
    let agreed = agreed(
        &StaticSecret::from([7; 32]),
        PublicKey::from([0; 32]),
        Vec::new(),
    );
    assert!(matches!(agreed.err(), Some(Denied::Malformed(_))));
}
