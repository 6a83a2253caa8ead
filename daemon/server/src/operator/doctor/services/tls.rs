// SPDX-License-Identifier: Apache-2.0
//! Whether a service speaks TLS, and which certificates it shows.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};

use super::ANSWER_TIMEOUT;
use super::checks::TLS;
use super::presented::{self, Trust};
use crate::metrics::stopwatch::Stopwatch;
use crate::operator::doctor::certificates::now_s;
use crate::operator::doctor::finding::Finding;

/// Returns what is wrong with TLS at a service, and with its certificate.
pub(super) fn check(name: &str, address: SocketAddr, trust: &Trust) -> Vec<Finding> {
    match handshake(address) {
        Ok(chain) => vec![
            TLS.ok(format!("{name} has a certificate and speaks TLS")),
            presented::judged(name, &chain, trust, now_s()),
        ],
        Err(error) => vec![TLS.error(format!(
            "spark.ssl.rpc.enabled is on, and {name} does not speak TLS ({error})"
        ))],
    }
}

/// Returns the certificates that the service shows, its own first.
fn handshake(address: SocketAddr) -> io::Result<Vec<CertificateDer<'static>>> {
    let provider = Arc::new(default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let name = ServerName::IpAddress(address.ip().into());
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let begun = Stopwatch::start();
    let socket = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    let socket = Hurried { socket, begun };
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    stream.flush()?;
    let shown = stream.conn.peer_certificates().unwrap_or_default();
    Ok(shown.iter().map(|one| one.clone().into_owned()).collect())
}

/// A socket whose bytes come within the time of one answer, or not at all.
struct Hurried {
    socket: TcpStream,
    begun: Stopwatch,
}

impl Hurried {
    fn left(&self) -> io::Result<Duration> {
        let spent = Duration::from_secs_f64(self.begun.seconds());
        let left = ANSWER_TIMEOUT.saturating_sub(spent);
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

impl Read for Hurried {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer)
    }
}

impl Write for Hurried {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Takes every certificate, and checks that the other end has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
