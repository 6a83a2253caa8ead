// SPDX-License-Identifier: Apache-2.0
//! What a client must do before it is served.

use std::sync::Arc;

use super::certificate::Certificate;
use super::secrets::Secrets;

/// Without secrets, without a certificate: every client is served as it comes.
#[derive(Debug, Default)]
pub struct Protection {
    /// The secrets of applications. With these, each client must authenticate.
    pub secrets: Option<Arc<Secrets>>,
    /// For clients that begin with TLS.
    pub certificate: Option<Arc<Certificate>>,
    /// Clients must encrypt, with TLS or AES.
    pub encrypted_only: bool,
}
