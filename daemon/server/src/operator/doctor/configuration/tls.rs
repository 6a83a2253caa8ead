// SPDX-License-Identifier: Apache-2.0
//! Settings of TLS with which no JVM of Spark starts, as its `TransportConf` decides
//! (`sslRpcEnabledAndKeysAreValid`).

use super::checks::TLS_KEYS;
use crate::operator::doctor::finding::Finding;
use crate::operator::doctor::settings::Settings;

pub(super) fn all(settings: &Settings) -> Option<Finding> {
    if !settings.has_tls() {
        return None;
    }
    let has = |name| settings.of_tls(name).is_some();
    let has_pair = has("certChain") && has("privateKey");
    let is_open_ssl = settings
        .of_tls("openSslEnabled")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    match is_open_ssl {
        true if !has_pair => Some(TLS_KEYS.error(
            "spark.ssl.rpc.openSslEnabled is on, without both certChain and privateKey: Spark does \
             not start",
        )),
        false if !has("keyStore") => {
            let finding = TLS_KEYS.error(
                "spark.ssl.rpc.enabled is on, without keyStore, and without openSslEnabled: Spark \
                 does not start",
            );
            Some(match has_pair {
                true => finding.instead(
                    "Set spark.ssl.rpc.openSslEnabled=true: without it Spark asks for a key store.",
                ),
                false => finding,
            })
        }
        _ => None,
    }
}
