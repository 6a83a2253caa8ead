// SPDX-License-Identifier: Apache-2.0
//! The results, for people (a table) and for programs (JSON).

pub mod summary;
pub mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::{BenchError, at};
use crate::measure::latency::Percentiles;
use crate::measure::machine::Machine;
use crate::measure::process::Usage;
use crate::run::trouble::Aftermath;
use summary::Summary;

/// The phases of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// All blocks, from many connections.
    Push,
    /// Merged chunks, partition by partition.
    FetchMerged,
    /// The same blocks one by one, from the files of map tasks.
    FetchOriginals,
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Push => "push",
            Self::FetchMerged => "fetch merged",
            Self::FetchOriginals => "fetch originals",
        })
    }
}

/// One phase of one round.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Name of the server.
    pub server: String,
    /// Which phase.
    pub phase: Phase,
    /// Size of the blocks.
    pub block: String,
    /// Which round, from 0.
    pub round: u32,
    /// Blocks of the shuffle.
    pub planned_blocks: u64,
    /// Bytes of those.
    pub planned_bytes: u64,
    /// Blocks that were merged, or that came back.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Seconds for pushing the rest afterwards, one block after the other: the blocks that collided
    /// in Spark.
    pub complete_seconds: Option<f64>,
    /// Seconds for finalizing after that; with Lodestone's protocol the commits of all maps.
    pub finalize_seconds: Option<f64>,
    /// Pushes that were answered, or chunks that were received.
    pub requests: u64,
    /// Their latencies, from sending to the complete answer.
    pub latency: Percentiles,
    /// The resources that the server used, if its process is known.
    pub server_usage: Option<Usage>,
    /// The resources that the measuring client used.
    pub client_usage: Usage,
    /// Blocks that were not merged, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Bytes that slow connections sent or read meanwhile, if there were any such connections.
    pub slow_bytes: Option<u64>,
    /// The consequences of the trouble.
    pub aftermath: Option<Aftermath>,
}

impl Measured {
    /// Returns the bytes that went over the wire, merged or not: the measure of the server's work.
    pub fn moved_bytes(&self) -> u64 {
        match self.phase {
            Phase::Push if !self.was_killed() => self.planned_bytes,
            _ => self.bytes,
        }
    }

    /// Returns true if the server was killed in it.
    pub fn was_killed(&self) -> bool {
        let aftermath = self.aftermath.as_ref();
        aftermath.is_some_and(|after| after.paused_seconds.is_none())
    }
}

/// Everything about a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The command line.
    pub command: Vec<String>,
    /// Version of this program.
    pub version: &'static str,
    /// Seconds since 1970.
    pub finished_unix_seconds: u64,
    /// The machine.
    pub machine: Machine,
    /// Connections.
    pub connections: u32,
    /// Shuffles at once.
    pub shuffles: u32,
    /// True if reads of the disk were limited.
    pub hdd: bool,
    /// Requests that could not be fulfilled.
    pub remarks: Vec<String>,
    /// Medians and ratios.
    pub summary: Vec<Summary>,
    /// Each round.
    pub rounds: Vec<Measured>,
}

impl Report {
    /// Into a file.
    pub fn write_json(&self, path: &Path) -> Result<(), BenchError> {
        let text = serde_json::to_string_pretty(self).map_err(|error| BenchError::System {
            what: "making JSON",
            source: error.into(),
        })?;
        fs::write(path, text + "\n").map_err(at(path))
    }
}
