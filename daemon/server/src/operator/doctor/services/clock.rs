// SPDX-License-Identifier: Apache-2.0
//! How far the clock of a service is from that of this host. The head of its status, at the admin
//! endpoint, has the time there, in whole seconds.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, UNIX_EPOCH};

use lodestone_store::Environment;
use serde_json::Value;
use ureq::Agent;

use super::Answered;
use super::checks::SERVICE_CLOCK;
use crate::operator::doctor::finding::Finding;

/// The endpoint answers from memory; a port that a firewall closes says nothing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A request of the plugin has 5 s: with more between two clocks, one log may have the answer
/// before the other one has the question. A clock with a time service is off by far less, and what
/// the round trip and whole seconds leave open is about half a second.
const FAR_MS: u64 = 5000;

/// The answer is far smaller.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Difference {
    /// How far the clock there is ahead of the clock here; negative if it is behind.
    ahead_ms: i64,
    /// How far this may be from the truth, in both directions.
    within_ms: u64,
}

impl Difference {
    /// The answer was made in this second there, and between these moments here.
    pub(super) fn of(second_there: u64, [before_ms, after_ms]: [u64; 2]) -> Self {
        let there = second_there.saturating_mul(1000).cast_signed();
        let least = there.saturating_sub_unsigned(after_ms);
        let most = there
            .saturating_add(1000)
            .saturating_sub_unsigned(before_ms);
        Self {
            ahead_ms: least.midpoint(most),
            within_ms: least.abs_diff(most).div_ceil(2),
        }
    }
}

/// Asks the admin endpoint of the service with this incarnation. An error says why its time is not
/// known.
pub(super) fn difference(
    ip: IpAddr,
    port: u16,
    incarnation: i64,
) -> Result<Difference, &'static str> {
    const SILENT: &str = "no admin endpoint answers there";
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // Services are near. Variables for the proxy of a host are meant for the internet.
        .proxy(None)
        .max_redirects(0)
        .timeout_global(Some(ANSWER_TIMEOUT));
    let agent = config.build().new_agent();
    let clock = Environment::os().clock;
    let before_ms = clock.unix_ms();
    let url = format!("http://{}/status", SocketAddr::new(ip, port));
    let mut answer = agent.get(&url).call().map_err(|_| SILENT)?;
    let after_ms = clock.unix_ms();
    let date = answer.headers().get("date").cloned();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    let body = body.read_to_string().map_err(|_| SILENT)?;
    let status: Value = serde_json::from_str(&body).map_err(|_| "it is another program's")?;
    if status.get("incarnation") != Some(&format!("{incarnation:016x}").into()) {
        return Err("it is another daemon's");
    }
    let date = date.as_ref().and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let since = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    let second = since.ok_or("its answer has no time")?.as_secs();
    Ok(Difference::of(second, [before_ms, after_ms]))
}

/// Returns a finding for each clock that is known, and one for all others.
pub(super) fn all(answered: &[Answered], port: u16) -> Vec<Finding> {
    let (mut found, mut unknown) = (Vec::new(), BTreeMap::<&str, Vec<&str>>::new());
    for one in answered {
        match one.clock {
            Ok(difference) => found.push(judged(&one.address, difference)),
            Err(why) => unknown.entry(why).or_default().push(&one.address),
        }
    }
    if !unknown.is_empty() {
        let each = unknown
            .iter()
            .map(|(why, of)| format!("{} (port {port}: {why})", of.join(", ")));
        let each = each.collect::<Vec<_>>().join("; ");
        found.push(SERVICE_CLOCK.note(format!("unknown: the clock of {each}")).instead(
            "Name the port of --admin of the services with --admin-port, or compare `date` on \
             their hosts.",
        ));
    }
    found
}

fn judged(name: &str, difference: Difference) -> Finding {
    let Difference {
        ahead_ms,
        within_ms,
    } = difference;
    let direction = match ahead_ms < 0 {
        true => "behind",
        false => "ahead of",
    };
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let text = format!(
        "the clock of {name} is {:.1} s {direction} that of this host (within {:.1} s)",
        seconds(ahead_ms.unsigned_abs()),
        seconds(within_ms)
    );
    match ahead_ms.unsigned_abs().saturating_sub(within_ms) > FAR_MS {
        true => SERVICE_CLOCK.warning(text),
        false => SERVICE_CLOCK.ok(text),
    }
}

#[cfg(test)]
mod tests;
