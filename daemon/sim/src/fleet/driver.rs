// SPDX-License-Identifier: Apache-2.0
//! The driver: plans in versions, generations, and the accepted outputs (`Shuffle`, `Planner`,
//! `MapOutputTracker`).

use std::collections::{BTreeMap, BTreeSet};

use lodestone_model::{AppAttempt, Code, Mode, ShuffleSpec, State};
use lodestone_wire::Message;
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::remove::RemoveShuffleMerge;

use super::Bug;
use super::host::{Host, ServiceLocation, Trouble};
use super::plan::{Output, Plan, key};
use crate::dice::Dice;

/// A shuffle that was moved so often stays where it is.
const VERSIONS_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Driver {
    pub(super) plan: Plan,
    pub(super) outputs: Vec<Option<Output>>,
    maps: u32,
    /// Services that have accepted this generation.
    pub(super) registered: BTreeSet<ServiceLocation>,
    avoided: BTreeSet<ServiceLocation>,
    /// Services that were released, and when.
    released: BTreeMap<ServiceLocation, usize>,
}

impl Driver {
    pub(super) fn new(maps: u32, partitions: u32, replicas: usize) -> Self {
        Self {
            plan: Plan {
                partitions,
                replicas,
                ..Plan::default()
            },
            outputs: vec![None; maps as usize],
            maps,
            registered: BTreeSet::new(),
            avoided: BTreeSet::new(),
            released: BTreeMap::new(),
        }
    }

    /// Returns the plan for a map task; `trouble` is a service that takes no more data of it.
    pub(super) fn plan(
        &mut self,
        hosts: &mut [Host],
        dice: &mut Dice,
        trouble: Option<(i32, ServiceLocation)>,
        bug: Option<Bug>,
    ) -> Option<Plan> {
        if let Some((generation, service)) = trouble
            && generation == self.plan.generation
        {
            self.avoided.insert(service);
        }
        let newest = self.plan.versions.last();
        let is_good = newest.is_some_and(|services| {
            !services
                .iter()
                .any(|service| self.avoided.contains(service))
        });
        if !is_good && !self.assign(hosts, dice, bug) {
            return None;
        }
        Some(self.plan.clone())
    }

    /// Makes the next version, of the services that take it. A service that has accepted the
    /// generation before is not asked again: if it had lost its part, it would create the
    /// generation again, empty, and then truthfully answer "nothing here".
    fn assign(&mut self, hosts: &mut [Host], dice: &mut Dice, bug: Option<Bug>) -> bool {
        if self.plan.versions.len() >= VERSIONS_MAX {
            return false;
        }
        let mut accepted = Vec::new();
        for (host, at) in hosts.iter_mut().zip(0..) {
            let incarnation = host.incarnation;
            let service = ServiceLocation {
                host: at,
                incarnation,
            };
            if incarnation == 0 || host.draining || self.avoided.contains(&service) {
                continue;
            }
            let knows = self.registered.contains(&service) && bug != Some(Bug::RegisteredAgain);
            if knows || host.rpc::<Done>(dice, &self.registration(service)).is_ok() {
                self.registered.insert(service);
                accepted.push(service);
            }
        }
        if accepted.is_empty() {
            return false;
        }
        self.plan.versions.push(accepted);
        true
    }

    fn registration(&self, service: ServiceLocation) -> RegisterShuffle {
        RegisterShuffle {
            key: key(service, self.plan.generation),
            spec: ShuffleSpec {
                mode: Mode::Remote,
                num_maps: self.maps,
                num_partitions: self.plan.partitions,
                format: String::new(),
            },
        }
    }

    /// Outputs cannot be read: all maps run again, and earlier pushes do not count any more.
    pub(super) fn begin_generation(&mut self, hosts: &mut [Host], dice: &mut Dice) {
        for service in self.services() {
            self.remove(hosts, dice, service);
        }
        self.plan.generation += 1;
        self.plan.versions.clear();
        self.registered.clear();
        self.released.clear();
        self.outputs.fill(None);
    }

    /// Removes the whole shuffle, at the end.
    pub(super) fn remove_all(&mut self, hosts: &mut [Host]) {
        for service in self.services() {
            if let Some(host) = hosts.get_mut(service.host) {
                host.world
                    .one_way(0, &removal(service, self.plan.generation).to_bytes());
            }
        }
    }

    /// Renews leases; finds out in this way which services are drained, and releases them from
    /// shuffles that other services have.
    pub(super) fn look(
        &mut self,
        hosts: &mut [Host],
        dice: &mut Dice,
        now: usize,
        bug: Option<Bug>,
    ) {
        for service in self.services() {
            let Some(host) = hosts.get_mut(service.host) else {
                continue;
            };
            let renew = RenewLease {
                app: key(service, 0).shuffle.app,
                app_attempt: AppAttempt::NONE,
                incarnation: 0,
                ttl_ms: 60_000,
            };
            let reply: Result<LeaseReply, Trouble> = host.rpc(dice, &renew);
            let leaves = reply.is_ok_and(|reply| {
                reply.load.state == State::Draining && reply.incarnation == service.incarnation
            });
            if leaves && !self.released.contains_key(&service) {
                self.avoided.insert(service);
                let goes = match bug {
                    Some(Bug::ReleasedUnseen) => true,
                    Some(Bug::ReleasedUnasked) => self.is_whole_without(hosts, service, false),
                    _ => self.is_whole_without(hosts, service, true),
                };
                if goes {
                    self.released.insert(service, now);
                    self.remove(hosts, dice, service);
                }
            }
        }
    }

    /// Returns true if other services have all of it: services that are up, and show it when they
    /// are asked.
    fn is_whole_without(&self, hosts: &mut [Host], leaving: ServiceLocation, asks: bool) -> bool {
        let others = self.services().into_iter().filter(|service| {
            let Some(host) = hosts.get_mut(service.host) else {
                return false;
            };
            *service != leaving
                && !self.released.contains_key(service)
                && (host.world.is_up() && host.has(*service) && !host.draining)
                && (!asks || host.world.knows(&key(*service, self.plan.generation)))
        });
        let others: BTreeSet<ServiceLocation> = others.collect();
        let stays = |service: &ServiceLocation| others.contains(service);
        self.outputs.iter().all(|output| {
            output.as_ref().is_some_and(|output| {
                output.generation == self.plan.generation
                    && output.parts.iter().all(|part| {
                        (0..self.plan.groups(part.version)).all(|group| {
                            let replicas = part.replicas_of(&self.plan, group, false);
                            replicas.is_empty() || replicas.iter().any(stays)
                        })
                    })
            })
        })
    }

    fn services(&self) -> BTreeSet<ServiceLocation> {
        self.plan.versions.iter().flatten().copied().collect()
    }

    fn remove(&self, hosts: &mut [Host], dice: &mut Dice, service: ServiceLocation) {
        if let Some(host) = hosts.get_mut(service.host) {
            host.send_one_way(dice, &removal(service, self.plan.generation));
        }
    }

    /// Returns true if a reader may rightly report a loss: the last service with a replica was
    /// killed, or has forgotten its part of the generation, after the others were released.
    pub(super) fn has_lost(&self, lost: &BTreeMap<(ServiceLocation, i32), usize>) -> bool {
        let lost_at = |service: &ServiceLocation| lost.get(&(*service, self.plan.generation));
        let is_gone = |service: &ServiceLocation| {
            self.released.contains_key(service) || lost_at(service).is_some()
        };
        self.outputs.iter().flatten().any(|output| {
            output.generation != self.plan.generation
                || output.parts.iter().any(|part| {
                    output.reduces.iter().any(|reduce| {
                        let group = self.plan.group_of(part.version, *reduce);
                        let replicas = part.replicas_of(&self.plan, group, false);
                        let released = replicas
                            .iter()
                            .filter_map(|service| self.released.get(service));
                        let kept = replicas
                            .iter()
                            .filter(|service| !self.released.contains_key(service));
                        replicas.iter().all(is_gone)
                            && kept.filter_map(lost_at).max() > released.max()
                    })
                })
        })
    }
}

fn removal(service: ServiceLocation, generation: i32) -> RemoveShuffleMerge {
    RemoveShuffleMerge {
        key: key(service, generation).shuffle,
    }
}

/// Returns true if a service with this status takes no more data, and keeps what it has.
pub(super) fn is_full(status: Code) -> bool {
    matches!(
        status,
        Code::Draining | Code::DiskFull | Code::DiskFailed | Code::Overloaded | Code::Quota
    )
}
