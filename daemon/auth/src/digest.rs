// SPDX-License-Identifier: Apache-2.0
//! DIGEST-MD5 of SASL (RFC 2831), as the service has it for Spark's clients: it proves that both
//! ends know the secret. It does not encrypt: qop `auth`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use crate::{Denied, Fresh, Secret};
use directives::Directives;

mod directives;

/// Base64 of `sparkSaslUser`, the user of all applications.
const USER: &str = "c3BhcmtTYXNsVXNlcg==";

/// The realm of Spark.
const REALM: &str = "default";

/// Protocol and server: Spark names no protocol.
const URI: &str = "null/default";

/// The first answer to the challenge.
const COUNT: &str = "00000001";

/// The service's part of one exchange: a challenge, which is for one answer.
#[derive(Debug)]
pub(crate) struct DigestChallenge {
    nonce: String,
}

impl DigestChallenge {
    /// Begins an exchange.
    pub(crate) fn new(fresh: &Fresh) -> Self {
        Self {
            nonce: STANDARD.encode(fresh.nonce),
        }
    }

    /// Returns the token for the client.
    pub(crate) fn token(&self) -> String {
        let nonce = &self.nonce;
        format!("realm=\"{REALM}\",nonce=\"{nonce}\",qop=\"auth\",charset=utf-8,algorithm=md5-sess")
    }

    /// Takes the client's answer, and returns the token that shows it that the service knows the
    /// secret too. An error if the client does not know it.
    pub(crate) fn accept(self, token: &[u8], secret: &Secret) -> Result<String, Denied> {
        let text = std::str::from_utf8(token).map_err(|_| Denied::Malformed("not UTF-8"))?;
        let answer = Directives::parse(text)?;
        let qop = answer.get("qop").unwrap_or("auth");
        if qop != "auth" {
            return Err(Denied::SaslEncryption);
        }
        let expected = [
            ("username", USER),
            ("realm", REALM),
            ("nonce", &self.nonce),
            ("nc", COUNT),
            ("digest-uri", URI),
        ];
        if expected
            .iter()
            .any(|&(key, value)| answer.get(key) != Some(value))
        {
            return Err(Denied::Malformed("an answer to another challenge"));
        }
        // To act for another user is not for Spark.
        if answer.get("authzid").is_some() {
            return Err(Denied::Malformed("an answer for another user"));
        }
        let (Some(cnonce), Some(response)) = (answer.get("cnonce"), answer.get("response")) else {
            return Err(Denied::Malformed("an answer without cnonce or response"));
        };
        let session = session(secret, &self.nonce, cnonce);
        let proof = |what| proof(&session, &self.nonce, cnonce, what);
        let is_right = proof("AUTHENTICATE").as_bytes().ct_eq(response.as_bytes());
        match bool::from(is_right) {
            true => Ok(format!("rspauth={}", proof(""))),
            false => Err(Denied::Secret),
        }
    }
}

/// The key of the session: `HEX(H(A1))` of the RFC.
fn session(secret: &Secret, nonce: &str, cnonce: &str) -> String {
    let password = secret.password();
    let user = Md5::new()
        .chain_update(format!("{USER}:{REALM}:"))
        .chain_update(password.as_bytes())
        .finalize();
    let session = Md5::new()
        .chain_update(user)
        .chain_update(format!(":{nonce}:{cnonce}"))
        .finalize();
    hex(&session)
}

/// What only who knows the session's key can compute.
fn proof(session: &str, nonce: &str, cnonce: &str, what: &str) -> String {
    let request = hex(&Md5::digest(format!("{what}:{URI}")));
    let all = format!("{session}:{nonce}:{COUNT}:{cnonce}:auth:{request}");
    hex(&Md5::digest(all))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns what a client answers to a challenge that knows the secret.
#[cfg(any(test, feature = "client"))]
pub fn response(challenge: &str, secret: &Secret, cnonce: &str) -> Result<String, Denied> {
    let challenge = Directives::parse(challenge)?;
    let nonce = challenge.get("nonce");
    let nonce = nonce.ok_or(Denied::Malformed("a challenge without nonce"))?;
    let session = session(secret, nonce, cnonce);
    let response = proof(&session, nonce, cnonce, "AUTHENTICATE");
    Ok(format!(
        "username=\"{USER}\",realm=\"{REALM}\",nonce=\"{nonce}\",nc={COUNT},\
         cnonce=\"{cnonce}\",digest-uri=\"{URI}\",response={response},qop=auth"
    ))
}

#[cfg(test)]
mod tests;
