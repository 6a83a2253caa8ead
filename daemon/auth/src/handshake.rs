// SPDX-License-Identifier: Apache-2.0
//! The service's side of a handshake, in either way, from the first message of a client to the
//! application that it has proved to be of.

use bytes::Bytes;
use lodestone_model::AppId;
use lodestone_wire::Message;
use lodestone_wire::spark::authenticate::{AuthMessage, SaslMessage};

use crate::digest::DigestChallenge;
use crate::exchange::{self, Agreed};
use crate::{Denied, Fresh, Secret};

/// What the bytes behind a handshake need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encryption {
    /// The client decides.
    #[default]
    Optional,
    /// The client must encrypt.
    Required,
    /// They go through TLS, as the handshake does. Spark would encrypt the bytes of TLS once more.
    There,
}

/// One handshake.
#[derive(Debug, Default)]
pub struct Handshake {
    encryption: Encryption,
    /// What the client of an application has to answer.
    challenged: Option<(AppId, DigestChallenge)>,
}

/// What comes next.
pub struct Step {
    /// The body of the answer.
    pub answer: Bytes,
    /// If the handshake is done with this answer.
    pub session: Option<Session>,
}

/// What a handshake agreed upon.
pub struct Session {
    /// The application that the client is of.
    pub app: AppId,
    /// What all later bytes are encrypted with. `None`: nothing.
    pub keys: Option<Agreed>,
}

/// Returns the application whose secret a message asks for. `None` if it is no message of a
/// handshake.
pub fn asks(body: &[u8]) -> Option<Result<AppId, Denied>> {
    let app = match *body.first()? {
        SaslMessage::ID => SaslMessage::from_bytes(body).map(|message| message.app),
        AuthMessage::ID => AuthMessage::from_bytes(body).map(|message| message.app),
        _ => return None,
    };
    Some(app.map_err(|_| Denied::Malformed("a message that cannot be decoded")))
}

impl Handshake {
    /// Begins.
    pub fn new(encryption: Encryption) -> Self {
        Self {
            encryption,
            challenged: None,
        }
    }

    /// Takes a message. `secret`: that of the application that it [`asks`] for. If there is none,
    /// any that nobody knows: the client must not learn whether the application exists.
    pub fn take(&mut self, body: &[u8], secret: &Secret, fresh: &Fresh) -> Result<Step, Denied> {
        match (body.first(), self.encryption) {
            (Some(&AuthMessage::ID), Encryption::There) => Err(Denied::EncryptedTwice),
            (Some(&AuthMessage::ID), _) if self.challenged.is_none() => {
                exchanged(body, secret, fresh)
            }
            (Some(&SaslMessage::ID), Encryption::Required) => Err(Denied::Unencrypted),
            (Some(&SaslMessage::ID), _) => self.digested(body, secret, fresh),
            _ => Err(Denied::Missing),
        }
    }

    fn digested(&mut self, body: &[u8], secret: &Secret, fresh: &Fresh) -> Result<Step, Denied> {
        let message = decoded::<SaslMessage>(body)?;
        let Some((app, challenge)) = self.challenged.take() else {
            let challenge = DigestChallenge::new(fresh);
            let answer = Bytes::from(challenge.token());
            self.challenged = Some((message.app, challenge));
            return Ok(Step {
                answer,
                session: None,
            });
        };
        if message.app != app {
            return Err(Denied::Malformed("an answer for another application"));
        }
        let proof = challenge.accept(&message.token, secret);
        let proof = proof.map_err(|denied| match (denied, self.encryption) {
            (Denied::SaslEncryption, Encryption::There) => Denied::EncryptedTwice,
            _ => denied,
        })?;
        Ok(Step {
            answer: Bytes::from(proof),
            session: Some(Session { app, keys: None }),
        })
    }
}

fn exchanged(body: &[u8], secret: &Secret, fresh: &Fresh) -> Result<Step, Denied> {
    let challenge = decoded::<AuthMessage>(body)?;
    let (response, agreed) = exchange::respond(&challenge, secret, fresh)?;
    Ok(Step {
        answer: response.to_bytes(),
        session: Some(Session {
            app: challenge.app,
            keys: Some(agreed),
        }),
    })
}

fn decoded<M: Message>(body: &[u8]) -> Result<M, Denied> {
    M::from_bytes(body).map_err(|_| Denied::Malformed("a message that cannot be decoded"))
}

#[cfg(test)]
mod tests;
