// SPDX-License-Identifier: Apache-2.0
//! Which services a remote shuffle is pushed to and read from: the rules of `ShufflePlan` and
//! `RemoteOutput`. One rule is simpler: all partitions of a group are neighbours (`Stripes` spreads
//! them).

use std::collections::BTreeSet;

use lodestone_model::{AppAttempt, AppId, GenerationId, ShuffleId, ShuffleKey};
use lodestone_wire::extension::ShuffleAddress;

use super::host::ServiceLocation;

/// Versions of services, each a ring: a group of partitions belongs to as many neighbours as there
/// are replicas.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) generation: i32,
    pub(super) partitions: u32,
    pub(super) replicas: usize,
    pub(super) versions: Vec<Vec<ServiceLocation>>,
}

impl Plan {
    pub(super) fn newest(&self) -> usize {
        self.versions.len().saturating_sub(1)
    }

    fn services(&self, version: usize) -> &[ServiceLocation] {
        self.versions.get(version).map_or(&[], Vec::as_slice)
    }

    pub(super) fn group_of(&self, version: usize, reduce: u32) -> usize {
        reduce as usize * self.services(version).len() / self.partitions as usize
    }

    pub(super) fn groups(&self, version: usize) -> usize {
        self.services(version).len()
    }

    /// Returns indexes into the version's services, with the services.
    fn ring(&self, version: usize, group: usize) -> impl Iterator<Item = (usize, ServiceLocation)> {
        let services = self.services(version);
        let count = services.len();
        (0..self.replicas.min(count)).filter_map(move |step| {
            let at = (group + step) % count;
            services.get(at).map(|service| (at, *service))
        })
    }

    pub(super) fn replicas_of(&self, version: usize, group: usize) -> Vec<ServiceLocation> {
        self.ring(version, group)
            .map(|(_, service)| service)
            .collect()
    }

    /// Returns the services of a version that are not `whole`.
    pub(super) fn without(
        &self,
        version: usize,
        whole: impl Fn(ServiceLocation) -> bool,
    ) -> Vec<usize> {
        let services = (0..).zip(self.services(version));
        let others = services.filter(|(_, service)| !whole(**service));
        others.map(|(at, _)| at).collect()
    }
}

/// The pushes by one version: each service of a group has all of it, except those in `without`.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) version: usize,
    pub(super) without: Vec<usize>,
}

impl Part {
    pub(super) fn replicas_of(
        &self,
        plan: &Plan,
        group: usize,
        ignores_without: bool,
    ) -> Vec<ServiceLocation> {
        plan.ring(self.version, group)
            .filter(|(at, _)| ignores_without || !self.without.contains(at))
            .map(|(_, service)| service)
            .collect()
    }
}

/// A map output that Spark accepted: the content of its `MapStatus`.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) map_id: i64,
    pub(super) generation: i32,
    pub(super) parts: Vec<Part>,
    /// Partitions for which it has something.
    pub(super) reduces: BTreeSet<u32>,
}

/// The address of the only shuffle of a run, in one generation, at one service.
pub(super) fn key(service: ServiceLocation, generation: i32) -> ShuffleAddress {
    let app = AppId::new("app-20261122-0001");
    let shuffle = ShuffleKey {
        app: app.unwrap_or_else(|_| unreachable!("a plain name")),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(7),
        generation: GenerationId(generation),
    };
    ShuffleAddress {
        shuffle,
        incarnation: service.incarnation,
    }
}
