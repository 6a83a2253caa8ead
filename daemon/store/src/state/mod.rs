// SPDX-License-Identifier: Apache-2.0
//! The state of the store, and how it is found: applications, their shuffles' generations, the map
//! attempts of those, executors. What requests do with it is in the modules above.

pub(crate) mod application;
pub(crate) mod attempt;
pub(crate) mod attempts;
pub(crate) mod executors;
pub(crate) mod generation;
pub(crate) mod registrations;
pub(crate) mod store;
