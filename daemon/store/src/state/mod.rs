// SPDX-License-Identifier: Apache-2.0
//! The state of the store, and the look-ups in it: applications, the generations of their shuffles,
//! map attempts, executors. The modules above say what requests do with it.

pub(crate) mod application;
pub(crate) mod attempt;
pub(crate) mod attempts;
pub(crate) mod deadline;
pub(crate) mod executors;
pub(crate) mod generation;
pub(crate) mod registration_files;
pub(crate) mod registration_log;
pub(crate) mod registrations;
pub(crate) mod removal;
pub(crate) mod store;
pub(crate) mod tombstones;
