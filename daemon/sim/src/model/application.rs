// SPDX-License-Identifier: Apache-2.0
//! Register, remove, and the lease: the requests of an application's driver.

use std::collections::BTreeMap;

use lodestone_model::{Code, GenerationId, ShuffleKey};
use lodestone_server::handler::Answer;
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::remove::RemoveShuffleMerge;

use super::refusal::{Judged, agree, refused_or};
use super::{Application, Model, Shuffle, attempt_of};
use crate::client::PUSHING_APP;

pub(super) const FIRST_LEASE_MS: u64 = 120_000;
const LEASE_MS: (i64, i64) = (10_000, 3_600_000);

impl Model {
    pub(super) fn register(
        &mut self,
        now_ms: u64,
        request: RegisterShuffle,
        answer: &Answer,
    ) -> Judged {
        let expected = self.registered(now_ms, request);
        let done: Option<Done> = refused_or(answer, self.incarnation, expected)?;
        done.map_or(Ok(()), |done| {
            agree("incarnation", &done.incarnation, &self.incarnation)
        })
    }

    fn registered(&mut self, now_ms: u64, request: RegisterShuffle) -> Result<(), Code> {
        let key = request.key;
        if key.incarnation != self.incarnation {
            return Err(Code::StaleIncarnation);
        }
        self.check_news(&key)?;
        let attempt = attempt_of(&key.shuffle);
        let ShuffleKey {
            app,
            shuffle: id,
            generation,
            ..
        } = key.shuffle;
        let name = app.as_str().to_owned();
        let fresh = Application {
            attempt,
            lease_until_ms: now_ms + FIRST_LEASE_MS,
            lease_ms: FIRST_LEASE_MS,
            shuffles: BTreeMap::new(),
            removed: BTreeMap::new(),
        };
        let application = self.applications.entry(name).or_insert(fresh);
        if attempt < application.attempt {
            return Err(Code::StaleAttempt);
        }
        if attempt > application.attempt {
            application.attempt = attempt;
            application.shuffles.clear();
            application.removed.clear();
        }
        if application.lease_until_ms <= now_ms {
            application.lease_until_ms = now_ms + FIRST_LEASE_MS;
        }
        let newest = application.newest(id);
        if newest.is_some_and(|newest| newest > generation) {
            return Err(Code::StaleGeneration);
        }
        if newest == Some(generation) {
            let Some(current) = application.shuffles.get(&id) else {
                return Err(Code::TooLate);
            };
            let same = current.mode == request.spec.mode
                && current.maps == request.spec.num_maps
                && current.partitions == request.spec.num_partitions
                && current.format == request.spec.format;
            return same.then_some(()).ok_or(Code::Malformed);
        }
        let shuffle = Shuffle {
            mode: request.spec.mode,
            generation,
            maps: request.spec.num_maps,
            partitions: request.spec.num_partitions,
            format: request.spec.format,
            laid: BTreeMap::new(),
            attempts: BTreeMap::new(),
        };
        application.removed.remove(&id);
        application.shuffles.insert(id, shuffle);
        Ok(())
    }

    /// Carries out Spark's one-way removal.
    pub fn remove(&mut self, request: &RemoveShuffleMerge) {
        let key = &request.key;
        if key.app.as_str() == PUSHING_APP {
            if self.pushing_may_be_known() {
                self.pushed.remove(key);
            }
            return;
        }
        let Ok(application) = self.application_of(key) else {
            return;
        };
        let newest = application.newest(key.shuffle);
        let named = (key.generation != GenerationId(-1)).then_some(key.generation);
        let Some(generation) = named.or(newest) else {
            return;
        };
        if newest.is_none_or(|newest| newest <= generation) {
            application.shuffles.remove(&key.shuffle);
            application.removed.insert(key.shuffle, generation);
        }
    }

    pub(super) fn end_application(&mut self, request: &EndApplication, answer: &Answer) -> Judged {
        let name = request.app.as_str();
        let known = self.applications.get(name).map(|known| known.attempt);
        let expected = match known {
            Some(known) if request.app_attempt < known => Err(Code::StaleAttempt),
            _ => Ok(()),
        };
        if expected.is_ok() {
            self.applications.remove(name);
        }
        refused_or::<Done>(answer, self.incarnation, expected).map(|_| ())
    }

    pub(super) fn renew(&mut self, now_ms: u64, request: &RenewLease, answer: &Answer) -> Judged {
        let incarnation = self.incarnation;
        if request.incarnation != 0 && request.incarnation != incarnation {
            let expected = Err(Code::StaleIncarnation);
            return refused_or::<LeaseReply>(answer, incarnation, expected).map(|_| ());
        }
        let found = self.application(request.app.as_str(), request.app_attempt);
        let expected = found.as_ref().map(|_| ()).map_err(|code| *code);
        let reply: Option<LeaseReply> = refused_or(answer, incarnation, expected)?;
        let (Some(reply), Ok(application)) = (reply, found) else {
            return Ok(());
        };
        let granted = request.ttl_ms.clamp(LEASE_MS.0, LEASE_MS.1);
        application.lease_ms = granted.unsigned_abs();
        application.lease_until_ms = now_ms + application.lease_ms;
        agree("granted lease", &reply.granted_ttl_ms, &granted)
    }

    /// Judges which applications ended because their lease ran out.
    pub fn expire(&mut self, now_ms: u64, ended: &[String]) -> Judged {
        let is_over = |application: &Application| application.lease_until_ms <= now_ms;
        let over = self.applications.iter().filter(|(_, app)| is_over(app));
        let over: Vec<String> = over.map(|(name, _)| name.clone()).collect();
        let (leased, others): (Vec<_>, Vec<_>) = ended
            .iter()
            .cloned()
            .partition(|name| self.applications.contains_key(name));
        agree("applications without a lease", &leased, &over)?;
        others.iter().try_for_each(|app| self.forget_gone(app))?;
        over.iter().for_each(|name| {
            self.applications.remove(name);
        });
        Ok(())
    }

    /// The daemon stood still, and heard no driver for this long.
    pub fn prolong(&mut self, by_ms: u64) {
        for application in self.applications.values_mut() {
            application.lease_until_ms += by_ms;
        }
    }
}
