// SPDX-License-Identifier: Apache-2.0
//! TLS of the kernel: it makes the records of a socket and opens them, so that `sendfile` goes on.
//! Linux has it where its module `tls` is loaded. Only for TLS 1.3 with AES-GCM, which Java and
//! OpenSSL choose first where both ends are of today.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use nix::libc::{
    TLS_1_3_VERSION, TLS_CIPHER_AES_GCM_128, TLS_CIPHER_AES_GCM_256, tls_crypto_info,
    tls12_crypto_info_aes_gcm_128, tls12_crypto_info_aes_gcm_256,
};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpTlsRx, TcpTlsTx, TcpUlp, TlsCryptoInfo};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion, ServerConnection,
};

/// The keys of one direction, and how many records it has had.
type Direction = (u64, ConnectionTrafficSecrets);

/// Returns true if the kernel takes sockets over, with keys of either length. It is asked once: a
/// socket whose keys the TLS library has given away cannot go back to it.
pub(crate) fn is_there() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| {
        let asked = ask();
        match &asked {
            Ok(()) => tracing::info!("the kernel makes the records of TLS 1.3"),
            Err(error) => tracing::debug!(%error, "this process makes the records of TLS"),
        }
        asked.is_ok()
    })
}

/// Returns true for a connection, after its handshake, that the kernel can take over.
pub(crate) fn is_fit(connection: &ServerConnection) -> bool {
    let suite = connection.negotiated_cipher_suite();
    let suite = suite.map(|suite| suite.suite());
    is_there()
        && connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
        && matches!(
            suite,
            Some(CipherSuite::TLS13_AES_128_GCM_SHA256 | CipherSuite::TLS13_AES_256_GCM_SHA384)
        )
}

/// Gives the keys of a connection to its socket. The first bytes that the kernel opens must be the
/// beginning of a record.
pub(crate) fn give(socket: &impl AsFd, secrets: ExtractedSecrets) -> io::Result<()> {
    let ExtractedSecrets { tx, rx } = secrets;
    take_over(socket, &info(tx)?, &info(rx)?)
}

fn ask() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at = listener.local_addr()?;
    for info in [short([0; 16], [0; 12], 0), long([0; 32], [0; 12], 0)] {
        take_over(&TcpStream::connect(at)?, &info, &info)?;
    }
    Ok(())
}

fn take_over(socket: &impl AsFd, tx: &TlsCryptoInfo, rx: &TlsCryptoInfo) -> io::Result<()> {
    setsockopt(socket, TcpUlp::default(), b"tls")?;
    setsockopt(socket, TcpTlsTx, tx)?;
    Ok(setsockopt(socket, TcpTlsRx, rx)?)
}

/// Returns keys as the kernel takes them.
fn info((records, secrets): Direction) -> io::Result<TlsCryptoInfo> {
    let bad = |_| io::Error::other("keys of a length that this cipher does not have");
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            let key = key.as_ref().try_into().map_err(bad)?;
            Ok(short(key, iv.as_ref().try_into().map_err(bad)?, records))
        }
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
            let key = key.as_ref().try_into().map_err(bad)?;
            Ok(long(key, iv.as_ref().try_into().map_err(bad)?, records))
        }
        _ => Err(io::Error::other(
            "keys of a cipher that the kernel is not asked for",
        )),
    }
}

fn short(key: [u8; 16], iv: [u8; 12], records: u64) -> TlsCryptoInfo {
    let (salt, iv) = parts(iv);
    TlsCryptoInfo::Aes128Gcm(tls12_crypto_info_aes_gcm_128 {
        info: head(TLS_CIPHER_AES_GCM_128),
        iv,
        key,
        salt,
        rec_seq: records.to_be_bytes(),
    })
}

fn long(key: [u8; 32], iv: [u8; 12], records: u64) -> TlsCryptoInfo {
    let (salt, iv) = parts(iv);
    TlsCryptoInfo::Aes256Gcm(tls12_crypto_info_aes_gcm_256 {
        info: head(TLS_CIPHER_AES_GCM_256),
        iv,
        key,
        salt,
        rec_seq: records.to_be_bytes(),
    })
}

fn head(cipher_type: u16) -> tls_crypto_info {
    tls_crypto_info {
        version: TLS_1_3_VERSION,
        cipher_type,
    }
}

/// The kernel calls the first four bytes salt.
fn parts(iv: [u8; 12]) -> ([u8; 4], [u8; 8]) {
    let [a, b, c, d, rest @ ..] = iv;
    ([a, b, c, d], rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_used_if_it_has_tls() {
        let there = is_there();
        let kinds = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap();
        assert_eq!(there, kinds.split_whitespace().any(|kind| kind == "tls"));
    }
}
