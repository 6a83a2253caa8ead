// SPDX-License-Identifier: Apache-2.0
//! `lodestone-bench`: drives a shuffle service with pushes and fetches, checks every byte, and
//! measures.
//!
//! ```text
//! cli        flags
//! run        rounds of phases, server by server
//! workload   which blocks, and their bytes
//! dialect    the requests, in the protocol of Spark, of Lodestone, or of the bare loop
//! net        connections
//! server     servers that the bench starts; slow disks; the bare loop
//! measure    time, latencies, the resources that processes use
//! report     tables, JSON
//! ```

pub mod cli;
pub mod dialect;
pub mod error;
pub mod measure;
pub mod net;
pub mod report;
pub mod run;
pub mod server;
pub mod workload;
