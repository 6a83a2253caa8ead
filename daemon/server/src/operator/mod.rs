// SPDX-License-Identifier: Apache-2.0
//! The operator's commands to running daemons.

mod ask;
pub mod drain;
pub mod explain;
mod figures;
