// SPDX-License-Identifier: Apache-2.0
//! The clients: how much each one sends and takes, and for which ones the daemon waits.
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
    app: OnceLock<Known>,
    received: AtomicU64,
    sent: AtomicU64,
}

/// The application of a client, and what the client had moved before it was known.
#[derive(Debug)]
struct Known {
    app: AppId,
    before: Moved,
}

/// Bytes of one or more connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) received: u64,
    pub(super) sent: u64,
}

impl Moved {
    pub(super) fn add(&mut self, other: Self) {
        self.received += other.received;
        self.sent += other.sent;
    }

    fn without(self, part: Self) -> Self {
        Self {
            received: self.received.saturating_sub(part.received),
            sent: self.sent.saturating_sub(part.sent),
        }
    }
}

impl Client {
    pub(in crate::connection) fn is_at(&self, peer: SocketAddr) {
        // It stays where it is.
        let _ = self.peer.set(peer);
    }

    pub(in crate::connection) fn is_of(&self, app: &AppId) {
        if self.app.get().is_none() {
            let _ = self.app.set(Known {
                app: app.clone(),
                before: self.moved(),
            });
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
            application: self.app.get().map(|known| known.app.to_string()),
            // A socket of IPv6 shows a client of IPv4 as ::ffff:10.0.0.1.
            host: self.peer.get().map(|peer| peer.ip().to_canonical()),
        }
    }

    fn moved(&self) -> Moved {
        Moved {
            received: self.received.load(Relaxed),
            sent: self.sent.load(Relaxed),
        }
    }

    /// Returns what it has moved, and for whom. Bytes stay with the name under which they were
    /// counted: otherwise one sum would fall, and another one would jump.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Whose, Moved)> {
        let (whose, all) = (self.whose(), self.moved());
        let before = self.app.get().map(|known| known.before);
        let unnamed = before.filter(|before| *before != Moved::default());
        let host = whose.host;
        let earlier = unnamed.map(|moved| {
            let application = None;
            (Whose { application, host }, moved)
        });
        let rest = all.without(before.unwrap_or_default());
        std::iter::once((whose, rest)).chain(earlier)
    }
}

impl ConnectionTable {
    /// Looks at all connections, open ones and those that have ended.
    pub fn clients(&self) -> Clients {
        // Under both locks a connection is in one of the two.
        let open = self.open();
        let entries: Vec<_> = open.values().cloned().collect();
        let gone = self.gone().all();
        drop(open);
        let mut traffic: BTreeMap<Whose, Traffic> = BTreeMap::new();
        for (whose, moved) in gone {
            traffic.entry(whose).or_default().add(moved);
        }
        let mut slow = Vec::new();
        for entry in entries {
            for (whose, moved) in entry.client.parts() {
                traffic.entry(whose).or_default().add(moved);
            }
            let whose = entry.client.whose();
            traffic.entry(whose.clone()).or_default().connections += 1;
            slow.extend(entry.slow_client(whose));
        }
        let mut traffic = Vec::from_iter(traffic);
        let (count, slow_count) = (traffic.len(), slow.len());
        let bytes = |sum: &Traffic| sum.received_bytes + sum.sent_bytes;
        traffic.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.connections > 0, bytes(sum))));
        traffic.truncate(LISTED);
        slow.sort_by_key(|client| std::cmp::Reverse(client.waited_ms));
        slow.truncate(LISTED);
        Clients {
            count,
            traffic,
            slow_count,
            slow,
        }
    }
}

impl Traffic {
    fn add(&mut self, moved: Moved) {
        self.received_bytes += moved.received;
        self.sent_bytes += moved.sent;
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
