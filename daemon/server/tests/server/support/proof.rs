// SPDX-License-Identifier: Apache-2.0
//! Clients that prove that they know a secret, in each of Spark's ways.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bytes::Bytes;
use lodestone_auth::exchange::{Agreed, Challenge, Version};
use lodestone_auth::{Fresh, Secret, digest_response};
use lodestone_model::AppId;
use lodestone_wire::spark::authenticate::{AuthMessage, SaslMessage};
use lodestone_wire::{Frame, Message};
use tempfile::TempDir;

use super::cipher::Cipher;
use super::{Client, Daemon, Random};

/// The secret of `app-1`.
pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) fn other() -> AppId {
    AppId::new("app-2").unwrap()
}

pub(crate) fn write_secret(path: &Path, secret: &str) {
    fs::write(path, secret).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// A directory of secrets: one of `app-1`, and one of `app-2`.
pub(crate) fn secrets() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_secret(&dir.path().join("app-1"), SECRET);
    write_secret(&dir.path().join("app-2"), "another");
    dir
}

pub(crate) fn start(secrets: &TempDir, more: &[&str]) -> Daemon {
    let path = secrets.path().to_str().unwrap();
    Daemon::start(&[&["--secrets", path], more].concat())
}

pub(crate) fn fresh(random: &mut Random) -> Fresh {
    Fresh {
        private: random.bytes(32).try_into().unwrap(),
        salt: random.bytes(16).try_into().unwrap(),
        iv: random.bytes(12).try_into().unwrap(),
        nonce: random.bytes(30).try_into().unwrap(),
    }
}

/// Sends a request, and returns the body of the answer, or why there is none.
pub(crate) fn answer(client: &mut Client, body: Bytes) -> Result<Bytes, String> {
    let request_id = 77;
    client.send(&Frame::RpcRequest { request_id, body });
    next(client)
}

/// The next answer.
pub(crate) fn next(client: &mut Client) -> Result<Bytes, String> {
    match client.receive() {
        Some(Frame::RpcResponse { body, .. } | Frame::MergedBlockMetaSuccess { body, .. }) => {
            Ok(body)
        }
        Some(Frame::RpcFailure(failure)) => Err(failure.error),
        other => panic!("instead of an answer: {other:?}"),
    }
}

/// With AES in counter mode.
pub(crate) fn authenticated(
    daemon: &Daemon,
    app: &AppId,
    secret: &str,
    version: Version,
) -> Result<Client, String> {
    let mut client = Client::connect(daemon);
    let keys = exchanged(&mut client, app, secret)?;
    client.through(Cipher::Counter(Box::new(keys.keystreams(version))));
    Ok(client)
}

/// With AES in Galois/counter mode.
pub(crate) fn authenticated_with_gcm(
    daemon: &Daemon,
    app: &AppId,
    secret: &str,
    version: Version,
) -> Result<Client, String> {
    let mut client = Client::connect(daemon);
    let keys = exchanged(&mut client, app, secret)?;
    // Both directions have the salts of a service, which is no loss here.
    let (sealer, opener) = (keys.sealer(version), Box::new(keys.opener()));
    client.through(Cipher::Messages(sealer, opener));
    Ok(client)
}

fn exchanged(client: &mut Client, app: &AppId, secret: &str) -> Result<Agreed, String> {
    let secret = Secret::new(secret.as_bytes()).unwrap();
    let challenge = Challenge::new(app, &secret, &fresh(&mut Random::any())).unwrap();
    let response = answer(client, challenge.message().to_bytes())?;
    let response = AuthMessage::from_bytes(&response).unwrap();
    Ok(challenge.accept(&response, &secret).unwrap())
}

/// With SASL, on a connection in the clear or in TLS.
pub(crate) fn with_sasl(mut client: Client, app: &AppId, secret: &str) -> Result<Client, String> {
    let message = |token| SaslMessage {
        app: app.clone(),
        token,
    };
    let challenge = answer(&mut client, message(Vec::new()).to_bytes())?;
    let challenge = std::str::from_utf8(&challenge).unwrap();
    let secret = Secret::new(secret.as_bytes()).unwrap();
    let response = digest_response(challenge, &secret, "cnonce").unwrap();
    let proof = answer(&mut client, message(response.into_bytes()).to_bytes())?;
    assert!(proof.starts_with(b"rspauth="), "{proof:?}");
    Ok(client)
}
