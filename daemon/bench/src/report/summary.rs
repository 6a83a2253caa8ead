// SPDX-License-Identifier: Apache-2.0
//! The rounds of one phase of one server in one line.

use serde::Serialize;

use super::{Measured, Phase};
use crate::measure::spread::Spread;

/// Medians over rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Size of the blocks.
    pub block: String,
    /// Which phase.
    pub phase: Phase,
    /// Name of the server.
    pub server: String,
    /// Rounds.
    pub rounds: usize,
    /// How long it took.
    pub seconds: Spread,
    /// Millions of bytes a second.
    pub megabytes_a_second: Spread,
    /// How many times the first server's seconds these are.
    pub ratio: f64,
    /// Requests a second.
    pub requests_a_second: f64,
    /// Milliseconds.
    pub p50_ms: f64,
    /// Milliseconds.
    pub p95_ms: f64,
    /// Milliseconds.
    pub p99_ms: f64,
    /// Milliseconds, in any round.
    pub max_ms: f64,
    /// The server's processor seconds.
    pub cpu_seconds: Option<f64>,
    /// The same for a billion bytes that went over the wire.
    pub cpu_seconds_per_gb: Option<f64>,
    /// Most memory of the server in any round.
    pub peak_rss_bytes: Option<u64>,
    /// Read from the disk.
    pub disk_read_bytes: Option<u64>,
    /// Written to the disk.
    pub disk_write_bytes: Option<u64>,
    /// The server's system calls that read or write.
    pub calls: Option<u64>,
    /// How often the server's threads slept until something woke them, for each request.
    pub wakes_per_request: Option<f64>,
    /// Processor seconds of the client.
    pub client_cpu_seconds: f64,
    /// Blocks that were merged or came back, of those that should.
    pub complete: f64,
}

/// One for each block size, phase and server, in the order in which they first came.
pub fn summaries(rounds: &[Measured]) -> Vec<Summary> {
    let mut groups: Vec<Vec<&Measured>> = Vec::new();
    for one in rounds {
        let is_alike = |group: &&mut Vec<&Measured>| {
            let first = group.first();
            first.is_some_and(|first| key(first) == key(one))
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let mut summaries: Vec<Summary> = groups.iter().filter_map(|group| summary(group)).collect();
    let firsts = summaries.clone();
    for one in &mut summaries {
        let is_rival = |other: &&Summary| (&other.block, other.phase) == (&one.block, one.phase);
        let first = firsts.iter().find(is_rival);
        one.ratio = first.map_or(1.0, |first| one.seconds.median / first.seconds.median);
    }
    summaries
}

fn key(one: &Measured) -> (&str, Phase, &str) {
    (&one.block, one.phase, &one.server)
}

fn summary(group: &[&Measured]) -> Option<Summary> {
    let first = group.first()?;
    let median = |value: &dyn Fn(&Measured) -> f64| Spread::of(group.iter().map(|one| value(one)));
    let of_server = |value: &dyn Fn(&Measured) -> Option<f64>| {
        let values: Option<Vec<f64>> = group.iter().map(|one| value(one)).collect();
        values.map(|values| Spread::of(values).median)
    };
    let cpu = |one: &Measured| one.server_usage.map(|usage| usage.cpu_seconds);
    let used = |value: fn(&crate::measure::process::Usage) -> u64| {
        of_server(&|one| one.server_usage.as_ref().map(|usage| value(usage) as f64))
            .map(|median| median as u64)
    };
    let peaks = group
        .iter()
        .filter_map(|one| Some(one.server_usage?.peak_rss_bytes));
    Some(Summary {
        block: first.block.clone(),
        phase: first.phase,
        server: first.server.clone(),
        rounds: group.len(),
        seconds: median(&|one| one.seconds),
        megabytes_a_second: median(&|one| one.bytes as f64 / 1e6 / one.seconds),
        ratio: 1.0,
        requests_a_second: median(&|one| one.requests as f64 / one.seconds).median,
        p50_ms: median(&|one| one.latency.p50_ms).median,
        p95_ms: median(&|one| one.latency.p95_ms).median,
        p99_ms: median(&|one| one.latency.p99_ms).median,
        max_ms: median(&|one| one.latency.max_ms).most,
        cpu_seconds: of_server(&cpu),
        cpu_seconds_per_gb: of_server(&|one| {
            Some(cpu(one)? / (one.moved_bytes().max(1) as f64 / 1e9))
        }),
        peak_rss_bytes: peaks.max(),
        disk_read_bytes: used(|usage| usage.disk_read_bytes),
        disk_write_bytes: used(|usage| usage.disk_write_bytes),
        calls: used(|usage| usage.read_calls + usage.write_calls),
        wakes_per_request: of_server(&|one| {
            Some(one.server_usage?.sleeps as f64 / one.requests.max(1) as f64)
        }),
        client_cpu_seconds: median(&|one| one.client_usage.cpu_seconds).median,
        complete: median(&|one| one.blocks as f64 / one.planned_blocks.max(1) as f64).median,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::Percentiles;
    use crate::measure::process::Usage;

    fn round(server: &str, round: u32, seconds: f64) -> Measured {
        let usage = Usage {
            cpu_seconds: seconds / 2.0,
            peak_rss_bytes: 1000 * u64::from(round),
            sleeps: 250,
            ..Usage::default()
        };
        Measured {
            server: server.to_owned(),
            phase: Phase::Push,
            block: "10000b".to_owned(),
            round,
            planned_blocks: 10,
            planned_bytes: 1_000_000_000,
            blocks: 9,
            bytes: 500_000_000,
            seconds,
            complete_seconds: None,
            finalize_seconds: None,
            requests: 100,
            latency: Percentiles::default(),
            server_usage: (server != "far").then_some(usage),
            client_usage: Usage::default(),
            refused: Default::default(),
            slow_bytes: None,
            aftermath: None,
        }
    }

    #[test]
    fn rounds_become_medians_and_ratios_to_the_first_server() {
        let rounds = [
            round("a", 0, 1.0),
            round("b", 0, 4.0),
            round("a", 1, 2.0),
            round("b", 1, 5.0),
            round("a", 2, 9.0),
            round("b", 2, 3.0),
            round("far", 0, 1.0),
        ];
        let found = summaries(&rounds);
        let names: Vec<&str> = found.iter().map(|one| one.server.as_str()).collect();
        assert_eq!(names, ["a", "b", "far"]);
        let (a, b, far) = (&found[0], &found[1], &found[2]);
        assert_eq!(
            (a.seconds.median, a.seconds.least, a.seconds.most),
            (2.0, 1.0, 9.0)
        );
        assert_eq!((a.ratio, b.ratio), (1.0, 2.0));
        assert_eq!(a.megabytes_a_second.median, 250.0);
        assert_eq!(
            a.cpu_seconds_per_gb,
            Some(1.0),
            "a second of CPU for a GB, merged or not"
        );
        assert_eq!((a.peak_rss_bytes, a.complete), (Some(2000), 0.9));
        assert_eq!((far.cpu_seconds, far.peak_rss_bytes), (None, None));
        assert_eq!(
            (a.wakes_per_request, far.wakes_per_request),
            (Some(2.5), None)
        );
    }
}
