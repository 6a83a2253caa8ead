// SPDX-License-Identifier: Apache-2.0
//! What Lodestone would decide about a shuffle: the plugin's rules, as far as a log shows what they
//! need. A test compares the numbers with the plugin's source.

use std::collections::BTreeMap;

use super::range::Range;
use super::shuffles::Shuffle;
use crate::cli::Disk;

/// `MergeChoice.MinBlocks`.
pub(super) const MIN_BLOCKS: u64 = 10_000;
/// `MergeChoice.MinBlocksOnSlowDisk`.
pub(super) const MIN_BLOCKS_ON_SLOW_DISK: u64 = 200;
/// `MergeChoice.EvenBlockBytes`.
pub(super) const EVEN_BLOCK_BYTES: u64 = 8 * 1024;
/// `spark.lodestone.push.maxBlockSize`.
pub(super) const MAX_BLOCK_BYTES: u64 = 1 << 20;

/// `RecordCollector.EnoughBytes`: a map task of mode remote pushes its records when it has so many
/// bytes of them, and each partition gets a segment.
pub(super) const ROUND_BYTES: u64 = 16 << 20;
/// `RecordCollector.EnoughBytesPerPartition`.
pub(super) const ROUND_BYTES_PER_PARTITION: u64 = 64 << 10;
/// A quarter of `spark.lodestone.push.batchSize`.
pub(super) const SEGMENT_BYTES: u64 = 1 << 20;

/// Encoded rows in parts of the bytes of Spark's format: least and most of the queries of TPC-DS
/// and of random numbers, and about half in all (docs/encoded-rows.md).
pub(super) const ENCODED: (f64, f64) = (0.25, 1.0);
pub(super) const ENCODED_MEAN: f64 = 0.46;

/// What ends the stream of each block in Spark's LZ4 files. Lodestone's writer leaves it out: a
/// reader needs it nowhere.
const LZ4_END_BYTES: u64 = 21;

/// Returns how many segments the blocks of a shuffle have in mode remote. Services get what Spark
/// has after its compression; rounds count what is before it, so that there may be more.
pub(super) fn segments(shuffle: &Shuffle) -> u64 {
    // What combines has other rounds: its records are pushed when their memory is full.
    if shuffle.combines {
        return shuffle.blocks;
    }
    let partitions = u64::from(shuffle.partitions);
    let enough = ROUND_BYTES.max(partitions * ROUND_BYTES_PER_PARTITION);
    let (mut maps, mut rounds) = (0_u128, 0_u128);
    for bytes in shuffle.map_bytes() {
        maps += 1;
        rounds += u128::from(bytes.div_ceil(enough).max(1));
    }
    let segments = u128::from(shuffle.blocks) * rounds / maps.max(1);
    let segments = u64::try_from(segments).unwrap_or(u64::MAX);
    let least = shuffle.bytes.div_ceil(SEGMENT_BYTES).max(shuffle.blocks);
    segments.min(shuffle.records).max(least)
}

/// Codecs whose streams may stand one after another.
const CONCATENABLE: [&str; 4] = ["lz4", "zstd", "snappy", "lzf"];
const ENCODING: [&str; 2] = ["lz4", "zstd"];
const KNOWN_CIPHERS: [&str; 2] = ["AES/CTR/NoPadding", "AES/GCM/NoPadding"];
const LOCAL_DISK_IO: &str = "org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO";

/// The settings of the application.
pub(super) struct Settings<'a>(pub(super) &'a BTreeMap<String, String>);

impl Settings<'_> {
    pub(super) fn of(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn is_on(&self, key: &str) -> bool {
        self.of(key)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn compresses(&self) -> bool {
        self.of("spark.shuffle.compress")
            .is_none_or(|value| !value.eq_ignore_ascii_case("false"))
    }

    fn has_codec(&self, codecs: &[&str]) -> bool {
        let codec = self.of("spark.io.compression.codec").unwrap_or("lz4");
        let short = codec.rsplit('.').next().unwrap_or(codec).to_lowercase();
        let short = short
            .trim_end_matches("compressioncodec")
            .trim_end_matches('2');
        codecs.contains(&short)
    }

    /// Returns how many partitions an exchange has whose number no metric shows.
    pub(super) fn sql_partitions(&self) -> u32 {
        let keys = [
            "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
            "spark.sql.shuffle.partitions",
        ];
        let mut set = keys.iter().filter_map(|key| self.of(key)?.parse().ok());
        set.next().unwrap_or(200)
    }

    /// Returns how long Spark keeps what nobody uses, if the driver collects no garbage.
    pub(super) fn latest_removal_ms(&self) -> u64 {
        let value = self.of("spark.cleaner.periodicGC.interval");
        value.and_then(millis).unwrap_or(30 * 60 * 1000)
    }

    /// Up to so many partitions Spark writes a file for each in each map task.
    pub(super) fn bypass_threshold(&self) -> u32 {
        let value = self.of("spark.shuffle.sort.bypassMergeThreshold");
        value.and_then(|value| value.parse().ok()).unwrap_or(200)
    }

    /// Returns the reason why no shuffle of the application can be merged or remote.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        if self.has_unknown_cipher() {
            Some("CIPHER_UNKNOWN")
        } else if self.is_on("spark.shuffle.push.enabled") {
            Some("SPARK_PUSH")
        } else if self
            .of("spark.shuffle.sort.io.plugin.class")
            .is_some_and(|class| class != LOCAL_DISK_IO)
        {
            Some("CUSTOM_SHUFFLE_IO")
        } else if self.is_on("spark.shuffle.useOldFetchProtocol") {
            Some("OLD_FETCH_PROTOCOL")
        } else {
            None
        }
    }

    fn has_unknown_cipher(&self) -> bool {
        self.is_on("spark.authenticate") && !self.is_on("spark.ssl.rpc.enabled") && {
            if self.is_on("spark.network.crypto.enabled") {
                let cipher = self
                    .of("spark.network.crypto.cipher")
                    .unwrap_or("AES/CTR/NoPadding");
                !KNOWN_CIPHERS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(cipher))
            } else {
                self.is_on("spark.authenticate.enableSaslEncryption")
            }
        }
    }
}

/// Reads a time as Spark does, in seconds unless it has a unit.
fn millis(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let factor = match unit {
        "us" => return Some(count / 1000),
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    count.checked_mul(factor)
}

/// A rule's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Merge,
    /// A log does not show all that the answer depends on. The likely values are in favour, and
    /// this reason stands against it with others.
    Probably(&'static str),
    /// The likely values are against it, or nobody knows what is likely.
    Maybe(&'static str),
    Leave(&'static str),
}

impl Answer {
    /// Returns true if the shuffle is merged with all that is likely.
    pub(super) fn is_likely(self) -> bool {
        matches!(self, Self::Merge | Self::Probably(_))
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Probably(_) | Self::Maybe(_))
    }

    /// Returns what stands against merging.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Merge => None,
            Self::Probably(reason) | Self::Maybe(reason) | Self::Leave(reason) => Some(reason),
        }
    }
}

/// The serializer of an RDD that is not Python's may be Java's, which cannot be concatenated.
pub(super) const SERIALIZER: &str = "SERIALIZER_NOT_RELOCATABLE";

/// Returns true if the rows of the shuffle would be encoded.
pub(super) fn is_encoded(shuffle: &Shuffle, settings: &Settings<'_>) -> bool {
    shuffle.is_sql
        && settings.compresses()
        && settings.has_codec(&ENCODING)
        && shuffle.partitions < 1 << 24
}

/// Returns the bytes of the map outputs as Lodestone would write them.
pub(super) fn written(shuffle: &Shuffle, settings: &Settings<'_>) -> Range {
    let bytes = shuffle.bytes as f64;
    if is_encoded(shuffle, settings) {
        return Range::between(ENCODED.0, ENCODED_MEAN, ENCODED.1).times(bytes);
    }
    let is_ours = !shuffle.combines && settings.compresses() && settings.has_codec(&["lz4"]);
    let without = |blocks: u64| {
        let ends = if is_ours { LZ4_END_BYTES * blocks } else { 0 };
        (bytes - ends as f64).max(0.0)
    };
    let least = without(shuffle.blocks);
    Range::between(least, least, without(shuffle.least_blocks))
}

/// Joins the answers of a rule for what is likely, and at the two ends of what is known.
fn joined(likely: Answer, ends: [Answer; 2]) -> Answer {
    let is_left = |answer: &Answer| matches!(answer, Answer::Leave(_));
    let is_same = ends.iter().all(|end| *end == likely);
    if is_same || (is_left(&likely) && ends.iter().all(is_left)) {
        return likely;
    }
    let reason = likely
        .reason()
        .or_else(|| ends.into_iter().find_map(Answer::reason));
    match reason {
        Some(reason) if likely == Answer::Merge => Answer::Probably(reason),
        Some(reason) => Answer::Maybe(reason),
        None => likely,
    }
}

/// Returns the answer of a rule that looks at the bytes and the number of the blocks. A hash gives
/// a shuffle nearly as many blocks as there can be, so this number is the likely one.
fn by_blocks(
    shuffle: &Shuffle,
    settings: &Settings<'_>,
    rule: impl Fn(f64, u64) -> Answer,
) -> Answer {
    let Range { low, likely, high } = written(shuffle, settings);
    let ends = [rule(low, shuffle.blocks), rule(high, shuffle.least_blocks)];
    joined(rule(likely, shuffle.blocks), ends)
}

/// Returns the answer of mode merge: blocks that are large are not pushed.
pub(super) fn merge(shuffle: &Shuffle, settings: &Settings<'_>) -> Answer {
    let eligible = eligible(shuffle, settings);
    if let Answer::Leave(_) = eligible {
        return eligible;
    }
    by_blocks(shuffle, settings, |bytes, blocks| {
        if blocks > 0 && bytes > MAX_BLOCK_BYTES as f64 * blocks as f64 {
            Answer::Leave("BLOCK_TOO_LARGE")
        } else {
            eligible
        }
    })
}

/// Returns what stands against merging the shuffle at all (`ShuffleEligibility`).
pub(super) fn eligible(shuffle: &Shuffle, settings: &Settings<'_>) -> Answer {
    if let Some(reason) = settings.obstacle() {
        return Answer::Leave(reason);
    }
    if settings.compresses() && !settings.has_codec(&CONCATENABLE) {
        return Answer::Leave("CODEC_NOT_CONCATENABLE");
    }
    if shuffle.is_barrier {
        return Answer::Leave("BARRIER_STAGE");
    }
    if shuffle.maps <= 1 {
        return Answer::Leave("SINGLE_MAP");
    }
    if shuffle.partitions == 0 {
        return Answer::Leave("NO_PARTITIONS");
    }
    let serializer = settings.of("spark.serializer").unwrap_or("JavaSerializer");
    if shuffle.is_sql || shuffle.is_python || !serializer.ends_with("JavaSerializer") {
        Answer::Merge
    } else {
        Answer::Maybe(SERIALIZER)
    }
}

/// Returns the answer of mode auto (`MergeChoice`).
pub(super) fn auto(shuffle: &Shuffle, settings: &Settings<'_>, disk: Disk) -> Answer {
    let eligible = eligible(shuffle, settings);
    if let Answer::Leave(_) = eligible {
        return eligible;
    }
    let (least, largest) = match disk {
        Disk::Hdd => (MIN_BLOCKS_ON_SLOW_DISK, MAX_BLOCK_BYTES),
        Disk::Ssd => (MIN_BLOCKS, EVEN_BLOCK_BYTES),
    };
    // The plugin decides by the bytes that it writes.
    by_blocks(shuffle, settings, |bytes, blocks| {
        if blocks < least {
            Answer::Leave("FEW_BLOCKS")
        } else if bytes > (largest * blocks) as f64 {
            Answer::Leave("LARGE_BLOCKS")
        } else {
            eligible
        }
    })
}
