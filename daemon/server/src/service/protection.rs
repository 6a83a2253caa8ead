// SPDX-License-Identifier: Apache-2.0
//! What a client must do before it is served.

use std::sync::Arc;

use super::secrets::Secrets;

/// Without secrets every client is served as it comes.
#[derive(Debug, Default)]
pub struct Protection {
    /// The secrets of applications. With these, each client must authenticate.
    pub secrets: Option<Arc<Secrets>>,
    /// With secrets: clients must also encrypt.
    pub encrypted_only: bool,
}
