// SPDX-License-Identifier: Apache-2.0
//! The operator's commands to daemons that run.

mod ask;
pub mod drain;
pub mod explain;
mod figures;
