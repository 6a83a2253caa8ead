// SPDX-License-Identifier: Apache-2.0
//! Which ciphers of TLS are taken first.

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::{CipherSuite, SupportedCipherSuite};

/// Returns the ciphers with AES first, and with its short keys before the long ones, which take a
/// third more of the time.
pub(super) fn preferring_aes() -> CryptoProvider {
    let mut provider = default_provider();
    let rank = |suite: &SupportedCipherSuite| match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => 0,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => 2,
        _ => 1,
    };
    provider.cipher_suites.sort_by_key(rank);
    provider
}

/// Returns true if the processor has instructions for AES. Spark's client names ChaCha20 first,
/// which is slower there, and much slower in Java 17. Without them it is right.
pub(super) fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::generate_simple_self_signed;
    use rustls::crypto::ring::cipher_suite;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

    use super::*;
    use crate::service::certificate::Certificate;

    /// Returns what a client gets that names the suites in this order.
    fn taken(suites: &[SupportedCipherSuite]) -> Option<CipherSuite> {
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let dir = tempfile::TempDir::new().unwrap();
        let at = |name| dir.path().join(name);
        std::fs::write(at("cert"), made.cert.pem()).unwrap();
        std::fs::write(at("key"), made.signing_key.serialize_pem()).unwrap();
        let certificate = Certificate::at(&at("cert"), &at("key")).unwrap();
        let provider = CryptoProvider {
            cipher_suites: suites.to_vec(),
            ..default_provider()
        };
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server = ServerConnection::new(certificate.config()).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        server.read_tls(&mut &hello[..]).unwrap();
        server.process_new_packets().unwrap();
        server.negotiated_cipher_suite().map(|suite| suite.suite())
    }

    #[test]
    fn a_client_that_names_chacha20_first_gets_what_is_fast_here() {
        // Spark's order.
        let order = [
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
        ];
        let fast = match has_aes() {
            true => CipherSuite::TLS13_AES_128_GCM_SHA256,
            false => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        };
        assert_eq!(taken(&order), Some(fast));
        let [chacha20, _, long] = order;
        let fast = [long, chacha20][usize::from(!has_aes())].suite();
        assert_eq!(taken(&[chacha20, long]), Some(fast));
        assert_eq!(taken(&[chacha20]), Some(chacha20.suite()));
    }
}
