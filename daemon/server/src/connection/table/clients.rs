// SPDX-License-Identifier: Apache-2.0
//! Who is connected, how much each one sends and takes, and which ones the daemon waits for.
//! Connections count their own bytes, so that nothing is shared on the way of data.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lodestone_model::AppId;

use super::{ConnectionTable, Entry};
use crate::service::clients::{Clients, SlowClient, Traffic, Whose};

/// A client for which the daemon waits for less than this is no news.
const SLOW: Duration = Duration::from_secs(1);

/// Applications on hosts, and slow clients, that are listed.
const LISTED: usize = 1000;

/// The client of a connection.
#[derive(Debug, Default)]
pub(in crate::connection) struct Client {
    peer: OnceLock<SocketAddr>,
    /// That of its first push or chunk: a client has one.
    app: OnceLock<AppId>,
    received: AtomicU64,
    sent: AtomicU64,
}

impl Client {
    pub(in crate::connection) fn is_at(&self, peer: SocketAddr) {
        // It stays where it is.
        let _ = self.peer.set(peer);
    }

    pub(in crate::connection) fn is_of(&self, app: &AppId) {
        if self.app.get().is_none() {
            let _ = self.app.set(app.clone());
        }
    }

    pub(super) fn took(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn gave(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    fn whose(&self) -> Whose {
        Whose {
            application: self.app.get().map(ToString::to_string),
            host: self.peer.get().map(SocketAddr::ip),
        }
    }
}

impl ConnectionTable {
    /// Looks at all open connections.
    pub fn clients(&self) -> Clients {
        let entries: Vec<_> = self.open().values().cloned().collect();
        let mut traffic: BTreeMap<Whose, Traffic> = BTreeMap::new();
        let mut slow = Vec::new();
        for entry in entries {
            let whose = entry.client.whose();
            let sum = traffic.entry(whose.clone()).or_default();
            sum.connections += 1;
            sum.received_bytes += entry.client.received.load(Relaxed);
            sum.sent_bytes += entry.client.sent.load(Relaxed);
            slow.extend(entry.slow_client(whose));
        }
        let mut traffic = Vec::from_iter(traffic);
        traffic.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.received_bytes + sum.sent_bytes));
        traffic.truncate(LISTED);
        slow.sort_by_key(|client| std::cmp::Reverse(client.waited_ms));
        slow.truncate(LISTED);
        Clients { traffic, slow }
    }
}

impl Entry {
    fn slow_client(&self, whose: Whose) -> Option<SlowClient> {
        let (taking, sending) = (self.taking.waits(), self.sending.waits());
        let waited = taking.max(sending).filter(|waited| *waited >= SLOW)?;
        Some(SlowClient {
            whose,
            is_taking: taking >= sending,
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        })
    }
}
