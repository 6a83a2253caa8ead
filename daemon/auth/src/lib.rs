// SPDX-License-Identifier: Apache-2.0
//! How both ends of a connection prove that they know the secret of an application, in the ways
//! that Spark has, and what encrypts the connection afterwards. No I/O and no clock; random bytes
//! are given.

mod digest;
pub mod exchange;
pub mod gcm;
mod handshake;
mod keystream;
mod secret;
#[cfg(test)]
mod vectors;

#[cfg(any(test, feature = "client"))]
pub use digest::response as digest_response;
pub use handshake::{Encryption, Handshake, Session, Step, asks};
pub use keystream::Keystream;
pub use secret::{BadSecret, SECRET_BYTES_MAX, Secret};

/// Random bytes for one end of one handshake. Nothing else may use them.
#[derive(Clone)]
pub struct Fresh {
    /// The private key of X25519.
    pub private: [u8; 32],
    /// The salt of a key.
    pub salt: [u8; 16],
    /// An initialisation vector.
    pub iv: [u8; 12],
    /// What makes a challenge of DIGEST-MD5 another one each time.
    pub nonce: [u8; 30],
}

/// Why a client is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The application is unknown, or the client has another secret. A client does not learn which.
    #[error(
        "authentication failed: this service has no secret for the application, or another one \
         (spark.authenticate.secret)"
    )]
    Secret,
    /// No message of the protocol.
    #[error("authentication failed: the client sent {0}")]
    Malformed(&'static str),
    /// The client did not authenticate.
    #[error(
        "this service asks for authentication: set spark.authenticate=true, and the secret that it \
         has for the application"
    )]
    Missing,
    /// The client would go on without encryption.
    #[error(
        "this service takes encrypted connections only: set spark.network.crypto.enabled=true, or, \
         if it has a certificate, spark.ssl.rpc.enabled=true"
    )]
    Unencrypted,
    /// The client wants to encrypt on a connection that has TLS.
    #[error(
        "this connection has TLS, which encrypts already: set spark.network.crypto.enabled=false \
         and spark.authenticate.enableSaslEncryption=false"
    )]
    EncryptedTwice,
    /// The client wants the encryption of SASL.
    #[error(
        "this service does not encrypt with SASL: set spark.network.crypto.enabled=true in place \
         of spark.authenticate.enableSaslEncryption"
    )]
    SaslEncryption,
}
