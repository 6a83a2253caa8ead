// SPDX-License-Identifier: Apache-2.0
//! The first messages of a connection, with which a client and a service prove to each other that
//! they know the secret of an application. The answers to these are bodies of `RpcResponse`.
//!
//! ```text
//! SaslMessage 0xEA appId, bytes token (DIGEST-MD5; the answer is the next token alone)
//! AuthMessage 0xFB appId, bytes salt, bytes ciphertext (the answer is another AuthMessage)
//! ```

use lodestone_model::AppId;

use crate::codec::message;

message! { lenient, 0xEA;
    /// A token of the mechanism DIGEST-MD5 of SASL (`SaslMessage` of Spark).
    pub struct SaslMessage {
        /// The application whose secret is meant.
        pub app: AppId,
        /// Empty in the first message of a client.
        pub token: Vec<u8>,
    }
}

message! { lenient, 0xFB;
    /// A public key that only who knows the secret can read (`AuthMessage` of Spark).
    pub struct AuthMessage {
        /// The application whose secret is meant.
        pub app: AppId,
        /// Random bytes, with which the key of the ciphertext is derived.
        pub salt: Vec<u8>,
        /// The key, and what shows that it was not changed.
        pub ciphertext: Vec<u8>,
    }
}
