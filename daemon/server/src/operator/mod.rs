// SPDX-License-Identifier: Apache-2.0
//! For operators: commands to running daemons, and the HTTP endpoint of each daemon.

pub mod admin;
mod ask;
pub mod conf;
pub mod doctor;
pub mod drain;
pub mod end;
mod event_log;
pub mod explain;
mod figures;
pub mod local;
mod media;
pub mod plan;
mod report;
mod tables;
