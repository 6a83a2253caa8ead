// SPDX-License-Identifier: Apache-2.0
//! The key exchange of Spark's `AuthEngine`, with forward secrecy: each end sends an X25519 public
//! key, encrypted so that only who knows the secret can read it. Both derive the keys of the
//! connection from what only they can compute. One message and one answer.

use std::fmt;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Nonce};
use hkdf::Hkdf;
use lodestone_model::AppId;
use lodestone_wire::Message;
use lodestone_wire::spark::authenticate::AuthMessage;
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::gcm::{ConnectionKey, Opener, Sealer};
use crate::keystream::{IV_BYTES, Keystream};
use crate::{Denied, Fresh, Secret};

/// The initialisation vector in front of the ciphertext.
const GCM_IV_BYTES: usize = 12;

/// Spark derives keys of 128 bits, except that of version 1.
const KEY_BYTES: usize = 16;

/// What both ends know after the exchange, and nobody else.
pub struct Agreed {
    shared: Zeroizing<[u8; 32]>,
    /// Both messages. The keys depend on them: another exchange has other keys.
    transcript: Vec<u8>,
}

impl fmt::Debug for Agreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Agreed(..)")
    }
}

/// `spark.network.crypto.authEngineVersion`. Clients do not say which one they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The key is the shared secret of X25519 as it is: AES of 256 bits. Spark's default.
    One,
    /// The key is derived from it: AES of 128 bits.
    Two,
}

/// The key streams of a connection, one for each direction.
#[derive(Debug)]
pub struct Keystreams {
    /// Bytes of the client.
    pub of_client: Keystream,
    /// Bytes of the service.
    pub of_service: Keystream,
}

/// Answers the message of a client. An error if it does not know the secret.
pub fn respond(
    challenge: &AuthMessage,
    secret: &Secret,
    fresh: &Fresh,
) -> Result<(AuthMessage, Agreed), Denied> {
    let theirs = opened(challenge, secret, &[])?;
    let mut transcript = challenge.to_bytes().to_vec();
    let ours = StaticSecret::from(fresh.private);
    let response = sealed(&challenge.app, &ours, secret, fresh, &transcript)?;
    transcript.extend_from_slice(&response.to_bytes());
    let agreed = agreed(&ours, theirs, transcript)?;
    Ok((response, agreed))
}

/// A client's part of the exchange.
pub struct Challenge {
    private: StaticSecret,
    message: AuthMessage,
}

impl Challenge {
    /// Begins an exchange.
    pub fn new(app: &AppId, secret: &Secret, fresh: &Fresh) -> Result<Self, Denied> {
        let private = StaticSecret::from(fresh.private);
        let message = sealed(app, &private, secret, fresh, &[])?;
        Ok(Self { private, message })
    }

    /// Returns what is sent to the service.
    pub fn message(&self) -> &AuthMessage {
        &self.message
    }

    /// Takes the answer. An error if the service does not know the secret.
    pub fn accept(self, response: &AuthMessage, secret: &Secret) -> Result<Agreed, Denied> {
        let mut transcript = self.message.to_bytes().to_vec();
        if response.app != self.message.app {
            return Err(Denied::Malformed("the answer names another application"));
        }
        let theirs = opened(response, secret, &transcript)?;
        transcript.extend_from_slice(&response.to_bytes());
        agreed(&self.private, theirs, transcript)
    }
}

impl Agreed {
    /// Returns the key streams of AES in counter mode, at their beginnings.
    pub fn keystreams(&self, version: Version) -> Keystreams {
        // Named by what they are to the client.
        let (input, output) = (self.derived(b"inputIv"), self.derived(b"outputIv"));
        let stream = |iv: &[u8; IV_BYTES]| match version {
            Version::One => Keystream::of_256_bits(&self.shared, iv),
            Version::Two => Keystream::of_128_bits(&self.derived(b"derivedKey"), iv),
        };
        Keystreams {
            of_client: stream(&output),
            of_service: stream(&input),
        }
    }

    /// Returns what decrypts the messages of AES in Galois/counter mode of the other end, whichever
    /// version it has.
    pub fn opener(&self) -> Opener {
        let versions = [Version::One, Version::Two];
        Opener::new(versions.map(|version| (version, self.key(version))).into())
    }

    /// Returns what encrypts such messages of the service.
    pub fn sealer(&self, version: Version) -> Sealer {
        // Both directions have one key, and the client has random salts.
        let halves = [&b"saltsOfService"[..], b"saltsOfService2"].map(|what| self.derived(what));
        let mut random = [0; 32];
        for (byte, from) in random
            .iter_mut()
            .zip(halves.iter().flat_map(|half| half.iter()))
        {
            *byte = *from;
        }
        Sealer::new(self.key(version), random)
    }

    fn key(&self, version: Version) -> ConnectionKey {
        match version {
            Version::One => ConnectionKey::Bits256(self.shared.clone()),
            Version::Two => ConnectionKey::Bits128(self.derived(b"derivedKey")),
        }
    }

    fn derived(&self, what: &[u8]) -> Zeroizing<[u8; KEY_BYTES]> {
        derived(&*self.shared, &self.transcript, what)
    }
}

fn agreed(ours: &StaticSecret, theirs: PublicKey, transcript: Vec<u8>) -> Result<Agreed, Denied> {
    let shared = ours.diffie_hellman(&theirs);
    if !shared.was_contributory() {
        return Err(Denied::Malformed("a public key that is not random"));
    }
    let shared = Zeroizing::new(shared.to_bytes());
    Ok(Agreed { shared, transcript })
}

/// Encrypts the public key of an end. `transcript`: what was sent before.
fn sealed(
    app: &AppId,
    private: &StaticSecret,
    secret: &Secret,
    fresh: &Fresh,
    transcript: &[u8],
) -> Result<AuthMessage, Denied> {
    let bound = bound(app, &fresh.salt, transcript);
    let public = PublicKey::from(private);
    let payload = Payload {
        msg: public.as_bytes(),
        aad: &bound,
    };
    let nonce = Nonce::from(fresh.iv);
    let encrypted = cipher(secret, &fresh.salt, &bound)
        .encrypt(&nonce, payload)
        .map_err(|_| Denied::Malformed("a message that is too long"))?;
    Ok(AuthMessage {
        app: app.clone(),
        salt: fresh.salt.to_vec(),
        ciphertext: [&fresh.iv[..], &encrypted].concat(),
    })
}

/// Decrypts the public key of the other end.
fn opened(message: &AuthMessage, secret: &Secret, transcript: &[u8]) -> Result<PublicKey, Denied> {
    let Some((iv, encrypted)) = message.ciphertext.split_first_chunk::<GCM_IV_BYTES>() else {
        return Err(Denied::Malformed("a ciphertext that is too short"));
    };
    let bound = bound(&message.app, &message.salt, transcript);
    let payload = Payload {
        msg: encrypted,
        aad: &bound,
    };
    let public = cipher(secret, &message.salt, &bound)
        .decrypt(&Nonce::from(*iv), payload)
        .map_err(|_| Denied::Secret)?;
    let public: [u8; 32] = public
        .try_into()
        .map_err(|_| Denied::Malformed("a public key of another length"))?;
    Ok(PublicKey::from(public))
}

/// What the key of a message is derived from, beside the secret: nothing of it can be changed.
fn bound(app: &AppId, salt: &[u8], transcript: &[u8]) -> Vec<u8> {
    [app.as_str().as_bytes(), salt, transcript].concat()
}

fn cipher(secret: &Secret, salt: &[u8], bound: &[u8]) -> Aes128Gcm {
    let key = derived(secret.as_bytes(), salt, bound);
    Aes128Gcm::new((&*key).into())
}

fn derived(secret: &[u8], salt: &[u8], what: &[u8]) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    match Hkdf::<Sha256>::new(Some(salt), secret).expand(what, &mut *key) {
        Ok(()) => key,
        Err(_) => unreachable!("keys of {KEY_BYTES} bytes are shorter than the longest ones"),
    }
}

#[cfg(test)]
mod tests;
