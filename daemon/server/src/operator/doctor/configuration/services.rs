// SPDX-License-Identifier: Apache-2.0
//! The value of `spark.lodestone.services`.

use std::net::IpAddr;

use super::checks::LOOPBACK;
use crate::operator::doctor::finding::{Finding, Level};
use crate::operator::doctor::settings::Settings;

/// The plugin takes no longer list.
const ADDRESSES_MAX: usize = 1000;

/// Returns the addresses in a list as the plugin takes it. A name with `dns:` is one of them: it
/// stands for all addresses that it resolves to.
pub(in crate::operator::doctor) fn addresses(value: &str) -> Result<Vec<String>, String> {
    let parts: Vec<&str> = match value.strip_prefix("dns:") {
        Some(name) => vec![name],
        None => value.split(',').collect(),
    };
    let parts = parts.into_iter().map(str::trim);
    let mut found = Vec::new();
    for part in parts.filter(|part| !part.is_empty()) {
        if host_and_port(part).is_none() {
            return Err(format!("`{part}` is no HOST:PORT"));
        }
        if !found.iter().any(|known| known == part) {
            found.push(part.to_owned());
        }
    }
    match found.len() {
        0 => Err("no address is named".to_owned()),
        1..=ADDRESSES_MAX => Ok(found),
        count => Err(format!(
            "{count} addresses are more than {ADDRESSES_MAX}: name them with dns:"
        )),
    }
}

/// Splits at the last colon, so that `[::1]:7337` works.
pub(in crate::operator::doctor) fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let is_host = !host.is_empty() && (!host.contains(':') || is_bracketed);
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| *port > 0);
    port.filter(|_| is_host && is_number)
        .map(|port| (host, port))
}

/// Whether an address names the host that uses it.
fn is_loopback(address: &str) -> bool {
    let host = host_and_port(address).map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let value = settings.get_or("spark.lodestone.services", "");
    // Without a master the settings are for any cluster.
    if settings.is_local() || value.is_empty() {
        return Vec::new();
    }
    let listed = addresses(value).unwrap_or_default();
    let loopback: Vec<_> = listed.iter().filter(|one| is_loopback(one)).collect();
    // A cluster of one host is possible with another master.
    let level = if settings.is_yarn() || settings.is_kubernetes() {
        Level::Error
    } else {
        Level::Warning
    };
    let finding = |one: &String| {
        let text =
            "spark.lodestone.services has an address that each executor looks for on its own";
        LOOPBACK.at(level, format!("{text} host: {one}"))
    };
    loopback.into_iter().map(finding).collect()
}
