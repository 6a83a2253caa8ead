// SPDX-License-Identifier: Apache-2.0
//! Registrations are written down, and taken over from earlier daemons.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use lodestone_model::{AppId, Code};
use lodestone_planted::{self as planted, Bug};

use crate::resource::locked;
use crate::resource::timed_mutex::TimedGuard;
use crate::state::registration_files::Registration;
use crate::state::store::Store;

impl Store {
    /// Best effort: without this record the executor is only unknown after a restart.
    pub(crate) fn write_down(
        &self,
        turn: Option<TimedGuard<'_, ()>>,
        is_news: bool,
        registration: &Registration,
    ) {
        if self.registrations.is_held.load(SeqCst) {
            return;
        }
        let written = match turn {
            Some(_turn) => {
                let environment = &self.resources.environment;
                let news = is_news.then_some(registration);
                let known = || self.known_registrations();
                self.registrations.add(environment, news, &known)
            }
            None => {
                self.registrations.fall_behind();
                Err(io::Error::other("others have waited for the disk in vain"))
            }
        };
        if let Err(error) = written {
            let Registration { app, executor, .. } = registration;
            tracing::warn!(app, executor, %error, "a restart would forget this executor");
        }
    }

    /// Writes down on this disk what is not there, if anything.
    pub(crate) fn repair_registrations(&self, place: usize) {
        let known = || self.known_registrations();
        let (fs, now_ms) = (self.resources.fs(), self.now_ms());
        self.registrations.repair(place, fs, &known, now_ms);
    }

    /// Registers the executors of an earlier daemon again, if their directories still exist and are
    /// allowed. Returns their number, with those for which there is no room.
    pub(crate) fn take_over(&self, registrations: Vec<Registration>) -> usize {
        let mut without_room = Vec::new();
        let taken = |registration: Registration| {
            if !self.is_present(&registration) {
                return false;
            }
            let registered = self.register_again(registration.clone());
            if let Err(refusal) = &registered {
                let Registration { app, executor, .. } = &registration;
                tracing::warn!(app, executor, %refusal, "an executor is not taken over");
                if refusal.code == Code::Overloaded {
                    without_room.push(registration);
                }
            }
            registered.is_ok()
        };
        self.registrations.is_held.store(true, SeqCst);
        let count = registrations
            .into_iter()
            .filter(|_| !planted::is(Bug::RegistrationsForgotten))
            .map(taken)
            .filter(|taken| *taken)
            .count();
        self.registrations.is_held.store(false, SeqCst);
        if count > 0 {
            tracing::info!(
                executors = count,
                "executors of an earlier daemon are taken over"
            );
        }
        let lost = without_room.len();
        if lost > 0 {
            tracing::error!(
                executors = lost,
                "the blocks of these executors are not served: there is no room for the names of \
                 their directories. Start the daemon again with more --memory"
            );
        }
        if count + lost > 0 {
            let known = || self.known_registrations();
            let fs = self.resources.fs();
            let written = self.registrations.start(fs, &without_room, &known);
            if let Err(error) = written {
                tracing::warn!(%error, "a restart would forget executors");
            }
        }
        count + lost
    }

    /// Returns the number of executors that still have a directory, as far as the looks at the
    /// places have shown, with those that a later daemon with more memory serves. Asks no disk but
    /// for these.
    pub(crate) fn present_executors(&self) -> usize {
        let applications = self.all_applications();
        let present = applications
            .iter()
            .map(|application| locked(&application.state).executors.present());
        present.sum::<usize>() + self.present_without_room()
    }

    fn present_without_room(&self) -> usize {
        let without_room = match self.registrations.without_room(self.resources.fs()) {
            Ok(without_room) => without_room,
            Err(error) => {
                let executors = self.registrations.without_room_count();
                tracing::warn!(%error, executors, "these executors may be gone");
                return executors;
            }
        };
        let is_known = |one: &Registration| {
            AppId::new(&one.app).is_ok_and(|app| self.executor_dirs(&app, &one.executor).is_ok())
        };
        let present = without_room.iter().filter(|one| self.is_present(one));
        present.filter(|one| !is_known(one)).count()
    }

    /// Returns true if the executor still has a directory.
    fn is_present(&self, registration: &Registration) -> bool {
        let mut dirs = registration.info.local_dirs.iter();
        dirs.any(|dir| !self.resources.is_gone(Path::new(dir)))
    }
}
