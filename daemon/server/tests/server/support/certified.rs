// SPDX-License-Identifier: Apache-2.0
//! Daemons with a certificate, and clients that trust it.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::generate_simple_self_signed;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tempfile::TempDir;

use super::cipher::Cipher;
use super::{Client, Daemon};

/// Files of a certificate and its key, and what trusts it.
pub(crate) struct Made {
    dir: TempDir,
    trusted: RootCertStore,
}

impl Made {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let mut trusted = RootCertStore::empty();
        trusted.add(made.cert.der().clone()).unwrap();
        Self { dir, trusted }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn start(&self, more: &[&str]) -> Daemon {
        let (cert, key) = (self.file("cert.pem"), self.file("key.pem"));
        let files = [cert.to_str().unwrap(), key.to_str().unwrap()];
        Daemon::start(&[&["--tls-cert", files[0], "--tls-key", files[1]], more].concat())
    }

    /// Returns a client whose frames are in TLS.
    pub(crate) fn connect(&self, daemon: &Daemon) -> Client {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.trusted.clone())
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut client = Client::over(TcpStream::connect(daemon.address()).unwrap());
        client.through(Cipher::Tls(Box::new(connection)));
        client
    }
}
