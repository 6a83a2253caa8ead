// SPDX-License-Identifier: Apache-2.0
//! TLS of the kernel: it makes the records of a socket and opens them, so that `sendfile` goes on.
//! Linux has it where its module `tls` is loaded. Only for TLS 1.3 with AES-GCM, which the daemon
//! takes first on processors of today.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use nix::libc::{
    TLS_1_3_VERSION, TLS_CIPHER_AES_GCM_128, TLS_CIPHER_AES_GCM_256, tls_crypto_info,
    tls12_crypto_info_aes_gcm_128, tls12_crypto_info_aes_gcm_256,
};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpTlsRx, TcpTlsTx, TcpUlp, TlsCryptoInfo};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion, ServerConnection,
};
use zeroize::Zeroize;

/// The keys of one direction, and how many records it has had.
type Direction = (u64, ConnectionTrafficSecrets);

/// An answer of this host's own sockets takes far less.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns true if the kernel makes records and opens them, with keys of either length. It is asked
/// once.
pub(crate) fn is_there() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| {
        let asked = ask(short([1; 16], [2; 12], 0)).and_then(|()| ask(long([1; 32], [2; 12], 0)));
        match &asked {
            Ok(()) => tracing::info!("the kernel makes the records of TLS 1.3"),
            Err(error) => tracing::debug!(%error, "this process makes the records of TLS"),
        }
        asked.is_ok()
    })
}

/// Returns true for a connection, after its handshake, whose socket the kernel has prepared: it
/// waits for keys. It refuses one whose client has gone, and all if its module was unloaded. Then
/// the keys are still in the library, which goes on.
pub(crate) fn takes(socket: &impl AsFd, connection: &ServerConnection) -> bool {
    let suite = connection.negotiated_cipher_suite();
    let suite = suite.map(|suite| suite.suite());
    let is_fit = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
        && matches!(
            suite,
            Some(CipherSuite::TLS13_AES_128_GCM_SHA256 | CipherSuite::TLS13_AES_256_GCM_SHA384)
        );
    is_fit && is_there() && prepare(socket).is_ok()
}

/// Gives the keys of a connection to its socket, which is prepared. The first bytes that the kernel
/// opens must be the beginning of a record.
pub(crate) fn give(socket: &impl AsFd, secrets: ExtractedSecrets) -> io::Result<()> {
    let ExtractedSecrets { tx, rx } = secrets;
    let (mut tx, mut rx) = (info(tx)?, info(rx)?);
    let given = set_keys(socket, &tx, &rx);
    wipe(&mut tx);
    wipe(&mut rx);
    given
}

/// Has the kernel make a record, and open it: a system that ignores options that it does not know
/// would send the byte as it is.
fn ask(keys: TlsCryptoInfo) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut kernels = TcpStream::connect_timeout(&listener.local_addr()?, ASK_TIMEOUT)?;
    let (mut other, _) = listener.accept()?;
    for socket in [&kernels, &other] {
        socket.set_read_timeout(Some(ASK_TIMEOUT))?;
    }
    prepare(&kernels)?;
    set_keys(&kernels, &keys, &keys)?;
    kernels.write_all(b"?")?;
    // Head, the byte, the kind of its content, and the tag.
    let mut record = [0; 5 + 1 + 1 + 16];
    other.read_exact(&mut record)?;
    other.write_all(&record)?;
    let mut opened = [0];
    kernels.read_exact(&mut opened)?;
    match (record, opened) {
        ([23, 3, 3, 0, 18, ..], [b'?']) => Ok(()),
        _ => Err(io::Error::other("the kernel's records are not TLS")),
    }
}

fn prepare(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, TcpUlp::default(), b"tls")?)
}

fn set_keys(socket: &impl AsFd, tx: &TlsCryptoInfo, rx: &TlsCryptoInfo) -> io::Result<()> {
    setsockopt(socket, TcpTlsTx, tx)?;
    Ok(setsockopt(socket, TcpTlsRx, rx)?)
}

fn wipe(keys: &mut TlsCryptoInfo) {
    match keys {
        TlsCryptoInfo::Aes128Gcm(info) => info.key.zeroize(),
        TlsCryptoInfo::Aes256Gcm(info) => info.key.zeroize(),
        TlsCryptoInfo::Chacha20Poly1305(info) => info.key.zeroize(),
    }
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
        // `e2e/machine` says so of its kernel.
        if std::env::var_os("KERNEL_HAS_TLS").is_some() {
            assert!(there);
        }
        let kinds = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp");
        let kinds = kinds.unwrap_or_default();
        let has_module = kinds.split_whitespace().any(|kind| kind == "tls");
        assert!(has_module || !there, "nobody makes the records");
    }
}
