// SPDX-License-Identifier: Apache-2.0
//! What operators see of clients: who sends and takes how much, and which ones are slow.

use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;

use serde::Serialize;

/// Whose connection it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Whose {
    /// The application, if the client has pushed, or asked for a chunk.
    pub application: Option<String>,
    /// The address of the client's host.
    pub host: Option<IpAddr>,
}

/// The connections of an application from one host, also those that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Those that are open.
    pub connections: u64,
    /// Bytes that came on them.
    pub received_bytes: u64,
    /// Bytes that were sent on them.
    pub sent_bytes: u64,
}

/// A client for which the daemon waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlowClient {
    /// Whose it is.
    #[serde(flatten)]
    pub whose: Whose,
    /// True if it takes its answers slowly, false if it sends the rest of a request slowly.
    pub is_taking: bool,
    /// How long the daemon has waited since the client last moved much.
    pub waited_ms: u64,
}

/// All clients, at one moment.
#[derive(Debug, Default)]
pub struct Clients {
    /// Applications on hosts.
    pub count: usize,
    /// By application and host: those with open connections first, and of them those with most
    /// bytes. A sum of bytes does not fall.
    pub traffic: Vec<(Whose, Traffic)>,
    /// Slow clients.
    pub slow_count: usize,
    /// Those for which the daemon has waited longest.
    pub slow: Vec<SlowClient>,
}

/// A look at the connections, which this module does not know.
type Look = Box<dyn Fn() -> Clients + Send + Sync>;

/// The clients of the daemon, once it serves.
#[derive(Default)]
pub struct AllClients(OnceLock<Look>);

impl AllClients {
    /// They are seen by this look from now on.
    pub fn seen_by(&self, look: impl Fn() -> Clients + Send + Sync + 'static) {
        // A service serves once.
        let _ = self.0.set(Box::new(look));
    }

    /// Returns them as they are now.
    pub fn now(&self) -> Clients {
        self.0.get().map_or_else(Clients::default, |look| look())
    }
}

impl fmt::Debug for AllClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AllClients")
    }
}
