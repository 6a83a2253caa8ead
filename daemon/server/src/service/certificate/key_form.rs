// SPDX-License-Identifier: Apache-2.0
//! The form of a private key in PEM. Nothing of the key itself leaves this file.

use std::path::Path;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::{CertificateError, content};

/// The number of Ed25519, which is near the begin of a key.
const ED25519: [u8; 3] = [0x2b, 0x65, 0x70];
const NUMBER_BYTES_MAX: usize = 20;

/// How a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// PKCS#8, of RSA or ECDSA.
    Pkcs8,
    /// PKCS#8, of Ed25519.
    Ed25519,
    /// PKCS#8 with a password.
    Encrypted,
    /// PKCS#1, which is of RSA, or SEC1, which is of ECDSA.
    Older,
    /// No private key.
    Other,
}

impl KeyForm {
    /// Reads a file as far as its form.
    pub fn at(path: &Path) -> Result<Self, CertificateError> {
        let (_, bytes) = content(path)?;
        let has = |label: &str| {
            let begin = format!("-----BEGIN {label}-----");
            let mut windows = bytes.windows(begin.len());
            windows.any(|window| window == begin.as_bytes())
        };
        if has("ENCRYPTED PRIVATE KEY") {
            return Ok(Self::Encrypted);
        }
        if has("RSA PRIVATE KEY") || has("EC PRIVATE KEY") {
            return Ok(Self::Older);
        }
        Ok(match PrivateKeyDer::from_pem_slice(&bytes) {
            Ok(key) => {
                let der = key.secret_der();
                let head = der.get(..NUMBER_BYTES_MAX).unwrap_or(der);
                match head.windows(ED25519.len()).any(|window| window == ED25519) {
                    true => Self::Ed25519,
                    false => Self::Pkcs8,
                }
            }
            Err(_) => Self::Other,
        })
    }
}
