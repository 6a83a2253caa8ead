// SPDX-License-Identifier: Apache-2.0
//! Settings with which the plugin leaves every shuffle to plain Spark. The rules are those of
//! `ShuffleEligibility.scala`.

use std::collections::BTreeSet;

use super::checks::{
    CIPHER_UNKNOWN, CODEC, CUSTOM_SHUFFLE_IO, OLD_FETCH_PROTOCOL, RPC_ENCRYPTION,
    SECRET_NOT_SHARED, SERIALIZER, SHUFFLE_MANAGER, SPARK_PUSH,
};
use super::services::{addresses, host_and_port};
use crate::operator::doctor::finding::{Finding, Level};
use crate::operator::doctor::settings::Settings;

/// The manager, and those for engines.
pub(super) const MANAGERS: [&str; 4] = [
    "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager",
    "org.apache.spark.shuffle.lodestone.comet.LodestoneCometShuffleManager",
    "org.apache.spark.shuffle.lodestone.gluten.LodestoneGlutenShuffleManager",
    "org.apache.spark.shuffle.lodestone.auron.LodestoneAuronShuffleManager",
];

/// Other managers, by a part of their name.
const OTHERS: [(&str, &str); 6] = [
    (".celeborn.", "Celeborn"),
    (".RssShuffleManager", "Uniffle"),
    ("com.nvidia.spark.rapids.", "RAPIDS"),
    ("CometShuffleManager", "Comet"),
    ("ColumnarShuffleManager", "Gluten"),
    ("AuronShuffleManager", "Auron"),
];

pub(super) const LOCAL_DISK_IO: &str = "org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO";
pub(super) const OUR_IO: &str = "org.apache.spark.shuffle.lodestone.plan.RemoteShuffleDataIO";
const KRYO: &str = "org.apache.spark.serializer.KryoSerializer";
const COUNTER_MODE: &str = "AES/CTR/NoPadding";
const GALOIS_MODE: &str = "AES/GCM/NoPadding";
const SPARK_PORT: u16 = 7337;

/// Returns the manager that the settings name.
pub(super) fn manager(settings: &Settings) -> &str {
    settings.get_or("spark.shuffle.manager", "")
}

type Check = fn(&Settings) -> Option<Finding>;

/// Each of these leaves all shuffles to Spark, if it is an error.
const OBSTACLES: [Check; 6] = [
    spark_push,
    custom_shuffle_io,
    old_fetch_protocol,
    cipher,
    secret,
    certificate,
];

pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let checks: [&[Check]; 3] = [&[shuffle_manager], &OBSTACLES, &[serializer, codec]];
    checks
        .into_iter()
        .flatten()
        .filter_map(|check| settings.known(check))
        .collect()
}

/// Whether shuffles are remote: the mode is, and nothing leaves all of them to Spark.
pub(super) fn are_remote(settings: &Settings) -> bool {
    let is_obstacle = |found: Finding| found.level == Level::Error;
    settings.is_remote_mode()
        && MANAGERS.contains(&manager(settings))
        && !OBSTACLES
            .iter()
            .any(|check| check(settings).is_some_and(is_obstacle))
}

fn shuffle_manager(settings: &Settings) -> Option<Finding> {
    let manager = manager(settings);
    if MANAGERS.contains(&manager) {
        return Some(SHUFFLE_MANAGER.ok(format!("spark.shuffle.manager is {manager}")));
    }
    let other = OTHERS.iter().find(|(part, _)| manager.contains(part));
    Some(SHUFFLE_MANAGER.error(match (manager, other) {
        ("", _) => "spark.shuffle.manager is not set: no shuffle is merged".to_owned(),
        (_, Some((_, name))) => format!(
            "spark.shuffle.manager is {manager}, of {name}, and an application has one manager: no \
             shuffle is merged"
        ),
        _ => format!("spark.shuffle.manager is {manager}: no shuffle is merged"),
    }))
}

fn spark_push(settings: &Settings) -> Option<Finding> {
    let key = "spark.shuffle.push.enabled";
    let text = format!("{key} is true: Spark itself merges, and Lodestone nothing (SPARK_PUSH)");
    settings.is_true(key, false).then(|| SPARK_PUSH.error(text))
}

fn custom_shuffle_io(settings: &Settings) -> Option<Finding> {
    let key = "spark.shuffle.sort.io.plugin.class";
    let io = settings.get(key)?;
    let text = format!("{key} is {io}: all shuffles are left to plain Spark (CUSTOM_SHUFFLE_IO)");
    let is_ours = [LOCAL_DISK_IO, OUR_IO].contains(&io);
    let remedy = format!("Remove {key}, unless map outputs must be elsewhere.");
    (!is_ours).then(|| CUSTOM_SHUFFLE_IO.error(text).instead(remedy))
}

fn old_fetch_protocol(settings: &Settings) -> Option<Finding> {
    let key = "spark.shuffle.useOldFetchProtocol";
    let text = format!("{key} is true: all shuffles are left to plain Spark (OLD_FETCH_PROTOCOL)");
    settings
        .is_true(key, false)
        .then(|| OLD_FETCH_PROTOCOL.error(text))
}

fn cipher(settings: &Settings) -> Option<Finding> {
    if !settings.is_true("spark.authenticate", false) || settings.has_tls() {
        return None;
    }
    if !settings.is_true("spark.network.crypto.enabled", false) {
        let key = "spark.authenticate.enableSaslEncryption";
        let text = format!(
            "{key} is true without spark.network.crypto.enabled: all shuffles are left to plain \
             Spark (CIPHER_UNKNOWN)"
        );
        return settings
            .is_true(key, false)
            .then(|| CIPHER_UNKNOWN.error(text));
    }
    let cipher = settings.get_or("spark.network.crypto.cipher", COUNTER_MODE);
    let is_galois = cipher.eq_ignore_ascii_case(GALOIS_MODE) && !settings.is_spark_3();
    (!is_galois && !cipher.eq_ignore_ascii_case(COUNTER_MODE)).then(|| {
        CIPHER_UNKNOWN.error(format!(
            "spark.network.crypto.cipher is {cipher}: all shuffles are left to plain Spark \
             (CIPHER_UNKNOWN)"
        ))
    })
}

fn secret(settings: &Settings) -> Option<Finding> {
    if !settings.is_true("spark.authenticate", false) || settings.is_embedded() {
        return None;
    }
    let master = settings.master();
    if settings.is_yarn() {
        match port_of_node_managers(settings) {
            Port::Theirs => return None,
            Port::MayBeTheirs(port) => return Some(port_of_yarn(port)),
            Port::Other => {}
        }
    }
    settings.makes_a_secret().then(|| {
        SECRET_NOT_SHARED.error(format!(
            "spark.authenticate is true, and with spark.master={master} Spark makes a secret that \
             the named services do not have: all shuffles are left to plain Spark \
             (SECRET_NOT_SHARED)"
        ))
    })
}

/// Whether the services are where Spark looks for the shuffle services of NodeManagers.
enum Port {
    Theirs,
    MayBeTheirs(u16),
    Other,
}

fn port_of_node_managers(settings: &Settings) -> Port {
    let listed = addresses(settings.get_or("spark.lodestone.services", "")).unwrap_or_default();
    let ports = listed.iter().filter_map(|one| Some(host_and_port(one)?.1));
    let ports: BTreeSet<u16> = ports.collect();
    let only = ports.first().copied().filter(|_| ports.len() == 1);
    let (true, Some(named)) = (
        settings.is_true("spark.shuffle.service.enabled", false),
        only,
    ) else {
        return Port::Other;
    };
    match settings.get("spark.shuffle.service.port") {
        Some(port) if port.parse() == Ok(named) => Port::Theirs,
        Some(_) => Port::Other,
        None if named == SPARK_PORT => Port::Theirs,
        None => Port::MayBeTheirs(named),
    }
}

fn port_of_yarn(port: u16) -> Finding {
    SECRET_NOT_SHARED
        .note(format!(
            "the services have the port {port}. They get Spark's secret if they are those of the \
             NodeManagers, and if yarn-site.xml has this port as spark.shuffle.service.port"
        ))
        .instead(format!(
            "Set spark.shuffle.service.port={port}, or look into yarn-site.xml."
        ))
}

/// The daemon that the plugin starts reads no key store of Java.
fn certificate(settings: &Settings) -> Option<Finding> {
    if !settings.has_tls() || !settings.is_embedded() {
        return None;
    }
    let is_absolute = |name| {
        settings
            .of_tls(name)
            .is_some_and(|path| path.starts_with('/'))
    };
    let is_pem = is_absolute("certChain")
        && is_absolute("privateKey")
        && settings.of_tls("privateKeyPassword").is_none();
    (!is_pem).then(|| {
        RPC_ENCRYPTION.error(
            "spark.ssl.rpc.enabled is on, no services are named, and the certificate is not in two \
             PEM files with absolute paths, of which the key has no password: all shuffles are \
             left to plain Spark (RPC_ENCRYPTION)",
        )
    })
}

fn serializer(settings: &Settings) -> Option<Finding> {
    // In mode remote all of them are remote.
    if settings.is_remote_mode() {
        return None;
    }
    // Spark itself takes Kryo for the others, and PySpark's records are bytes.
    let left = "shuffles of RDDs with other keys or values than numbers, texts and arrays of \
                numbers are left to plain Spark (SERIALIZER_NOT_RELOCATABLE)";
    Some(match settings.get("spark.serializer") {
        Some(KRYO) => SERIALIZER.ok(format!("spark.serializer is {KRYO}")),
        None => SERIALIZER.note(format!(
            "spark.serializer is not set, and is Java's: {left}"
        )),
        Some(java) if java.ends_with(".JavaSerializer") => {
            SERIALIZER.warning(format!("spark.serializer is {java}: {left}"))
        }
        Some(other) => SERIALIZER.note(format!(
            "spark.serializer is {other}: if it does not support relocation, {left}"
        )),
    })
}

/// The codecs whose compressed streams can be concatenated.
const CODECS: [&str; 8] = [
    "lz4",
    "zstd",
    "snappy",
    "lzf",
    "org.apache.spark.io.LZ4CompressionCodec",
    "org.apache.spark.io.ZStdCompressionCodec",
    "org.apache.spark.io.SnappyCompressionCodec",
    "org.apache.spark.io.LZFCompressionCodec",
];

fn codec(settings: &Settings) -> Option<Finding> {
    let codec = settings.get("spark.io.compression.codec")?;
    let is_used = settings.is_true("spark.shuffle.compress", true) && !settings.is_remote_mode();
    let is_known = CODECS.iter().any(|known| known.eq_ignore_ascii_case(codec));
    (is_used && !is_known).then(|| {
        CODEC.warning(format!(
            "spark.io.compression.codec is {codec}: shuffles are left to plain Spark \
             (CODEC_NOT_CONCATENABLE)"
        ))
    })
}
