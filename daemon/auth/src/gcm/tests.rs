// SPDX-License-Identifier: Apache-2.0
//! Messages in pieces of any size, and messages that were changed.

use super::*;
use crate::exchange::Version;

fn keys() -> [(Version, ConnectionKey); 2] {
    [
        (Version::One, ConnectionKey::Bits256([1; 32].into())),
        (Version::Two, ConnectionKey::Bits128([2; 16].into())),
    ]
}

fn message(sealer: &mut Sealer, plain: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; PLAIN_BYTES + AROUND_BYTES];
    buffer[sealer.begin()..][..plain.len()].copy_from_slice(plain);
    let length = sealer.seal(&mut buffer, plain.len()).unwrap();
    buffer.truncate(length);
    buffer
}

/// Returns what comes of bytes that come in pieces of at most this many.
fn opened(opener: &mut Opener, mut bytes: &[u8], most: usize) -> Result<Vec<u8>, BadMessage> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        let count = opener.fill(|free| {
            let count = free.len().min(most).min(bytes.len());
            free[..count].copy_from_slice(&bytes[..count]);
            Ok::<_, BadMessage>(count)
        })?;
        bytes = &bytes[count..];
        while opener.has_plain() {
            opener.take(&mut (&mut plain).limit(most));
        }
    }
    Ok(plain)
}

#[test]
fn messages_of_both_versions_are_read_in_pieces_of_any_size() {
    for (version, key) in keys() {
        for most in [1, 7, 100, SEGMENT_BYTES] {
            let (mut sealer, mut opener) = (
                Sealer::new(key.clone(), [9; 32]),
                Opener::new(keys().into()),
            );
            assert_eq!(opener.version(), None);
            for length in [1, 0, 15, 1000, PLAIN_BYTES] {
                let plain: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
                let sealed = message(&mut sealer, &plain);
                assert_eq!(opened(&mut opener, &sealed, most), Ok(plain));
                assert_eq!(opener.version(), Some(version));
            }
        }
    }
}

#[test]
fn no_byte_of_a_message_can_be_changed_and_no_message_cut_short() {
    for (_, key) in keys() {
        let sealed = message(&mut Sealer::new(key, [9; 32]), b"what was sent");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            let found = opened(&mut Opener::new(keys().into()), &changed, 1000);
            // A greater length: the rest is awaited.
            let awaits = at < 8 && found == Ok(Vec::new());
            assert!(found.is_err() || awaits, "byte {at}: {found:?}");
        }
        let mut shorter = sealed[..sealed.len() - 1].to_vec();
        let length = shorter.len() as u64;
        shorter[..8].copy_from_slice(&length.to_be_bytes());
        let found = opened(&mut Opener::new(keys().into()), &shorter, 1000);
        assert_eq!(found, Err(BadMessage::Changed));
    }
}

#[test]
fn the_same_bytes_never_look_the_same() {
    let [(_, key), _] = keys();
    let mut sealer = Sealer::new(key, [9; 32]);
    let sealed: Vec<_> = (0..300)
        .map(|_| message(&mut sealer, b"the same"))
        .collect();
    let salts: std::collections::BTreeSet<_> = sealed.iter().map(|one| &one[9..41]).collect();
    assert_eq!(salts.len(), 300);
}

#[test]
fn a_client_cannot_go_on_with_the_key_of_the_other_version() {
    let [(_, first), (_, second)] = keys();
    let mut opener = Opener::new(keys().into());
    let sealed = message(&mut Sealer::new(first, [9; 32]), b"a");
    assert!(opened(&mut opener, &sealed, 100).is_ok());
    let sealed = message(&mut Sealer::new(second, [9; 32]), b"b");
    assert_eq!(
        opened(&mut opener, &sealed, 100),
        Err(BadMessage::Malformed)
    );
}
