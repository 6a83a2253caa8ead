// SPDX-License-Identifier: Apache-2.0
//! A plan, in a form for people who do not know Lodestone yet.

use super::cost;
use super::outcome::{Mode, Plan, Row};
use super::range::Range;
use super::rule;
use crate::operator::figures::number;
use crate::operator::tables::{indented, line};

/// Rows of a page; JSON has them all.
const MAX_ROWS: usize = 200;

const COLUMNS: [&str; 11] = [
    "stage",
    "maps",
    "partitions",
    "blocks",
    "mean block",
    "MB",
    "reads",
    "chunks",
    "auto",
    "merge",
    "why not",
];
const TEXT_COLUMNS: [usize; 3] = [8, 9, 10];

pub(super) fn text(plan: &Plan, from: &str) -> String {
    let mut text = String::new();
    line(
        &mut text,
        &format!(
            "{}, plain Spark {}: from {from}\n",
            plan.application, plan.spark_version
        ),
    );
    if plan.shuffles.is_empty() {
        line(
            &mut text,
            "It wrote no shuffle: Lodestone would change nothing.",
        );
        return text;
    }
    for sentence in verdict(plan) {
        line(&mut text, &sentence);
    }
    modes(&mut text, plan);
    reasons(&mut text, plan);
    shuffles(&mut text, plan);
    assumptions(&mut text, plan);
    text
}

/// The answer in a few sentences.
fn verdict(plan: &Plan) -> Vec<String> {
    let mut said = Vec::new();
    let (count, found) = (plan.shuffles.len() as u64, plan.modes.first());
    let Some(auto) = found else {
        return said;
    };
    let of = format!("Of {} mode auto, the default,", counted(count, "shuffle"));
    let merged = match how_many(auto) {
        none if none.is_empty() => format!("{of} would merge none."),
        some if auto.merged + auto.probably == 0 => format!("{of} would merge {some}."),
        some => format!("{of} would merge {some}: {}.", reads(auto)),
    };
    said.push(merged);
    said.push(seconds(auto.own_seconds_saved, plan.seconds));
    let files = auto.seconds_without_lodestone;
    if files.high >= 0.005 * plan.seconds && files.high > 0.0 {
        said.push(format!(
            "Its writer would also save {} s, as \
             spark.shuffle.sort.bypassMergeThreshold=1 does without Lodestone.",
            range(files)
        ));
    }
    said
}

/// Says how many shuffles are merged: for sure, probably and perhaps.
fn how_many(mode: &Mode) -> String {
    let counts = [
        ("", mode.merged),
        ("probably ", mode.probably),
        ("perhaps ", mode.perhaps),
    ];
    let said = counts.iter().filter(|(_, count)| *count > 0);
    let said: Vec<_> = said
        .map(|(how, count)| format!("{how}{}", number(*count)))
        .collect();
    match said.as_slice() {
        [first, more @ ..] if !more.is_empty() => {
            format!("{first}, and {} more", more.join(" and "))
        }
        _ => said.concat(),
    }
}

fn counted(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {what}{ending}", number(count))
}

fn reads(mode: &Mode) -> String {
    let (before, after) = (mode.reads_before, mode.reads_after);
    let become_fewer = format!("{} become {}", counted(before, "read"), number(after));
    match after.checked_sub(before) {
        None | Some(0) => become_fewer,
        Some(more) => format!("{become_fewer}, {} more", number(more)),
    }
}

fn seconds(saved: Range, all: f64) -> String {
    let Range { low, likely, high } = saved;
    let of = format!("of the {} s in which stages with shuffles ran", short(all));
    let longer = Range::between(-high, -likely, -low);
    if high < 0.005 * all && low > -0.005 * all {
        format!("It would take as long as now ({of}).")
    } else if low >= 0.0 {
        format!("It would save {} s {of}.", range(saved))
    } else if high <= 0.0 {
        format!("It would take {} s longer, {of}.", range(longer))
    } else if likely >= 0.0 {
        format!(
            "It would probably save {} s {of}: at most {} s, and at worst it would take {} s \
             longer.",
            short(likely),
            short(high),
            short(-low)
        )
    } else {
        format!(
            "It would probably take {} s longer, {of}: at most {} s, and at best it would save \
             {} s.",
            short(-likely),
            short(-low),
            short(high)
        )
    }
}

fn modes(text: &mut String, plan: &Plan) {
    let service = match plan.services {
        1 => "MB at the service".to_owned(),
        many => format!("MB at each of {many} services"),
    };
    let headings = [
        "mode",
        "merged",
        "reads now",
        "reads then",
        "MB pushed",
        "MB read merged",
        "seconds saved",
        "by fewer files",
        &service,
    ];
    line(text, "\nmodes");
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(plan.modes.iter().map(|mode| {
        let name = match mode.copies {
            1 => mode.mode.to_owned(),
            copies => format!("{}, {copies} replicas", mode.mode),
        };
        vec![
            name,
            match mode.probably + mode.perhaps {
                0 => number(mode.merged),
                more => format!("{} to {}", number(mode.merged), number(mode.merged + more)),
            },
            number(mode.reads_before),
            number(mode.reads_after),
            megabytes(mode.pushed_bytes),
            megabytes(mode.chunk_bytes),
            range(mode.seconds_saved),
            match mode.seconds_without_lodestone {
                files if files.high < 0.005 => "0".to_owned(),
                files => range(files),
            },
            megabytes(mode.bytes_at_a_service),
        ]
    }));
    indented(text, &rows, &[0]);
}

fn reasons(text: &mut String, plan: &Plan) {
    if plan.reasons.is_empty() {
        return;
    }
    line(text, "\nwhy mode auto would not merge more");
    let rows = plan.reasons.iter().map(|(code, count)| {
        let sentence = sentence(code).to_owned();
        vec![(*code).to_owned(), number(*count), sentence]
    });
    indented(text, &rows.collect::<Vec<_>>(), &[0, 2]);
}

/// What stands against merging, and what to do about it.
pub(super) const SENTENCES: [(&str, &str); 12] = [
    (
        "FEW_BLOCKS",
        "merging so few blocks saves no noticeable time",
    ),
    (
        "LARGE_BLOCKS",
        "the blocks are so large that merging costs more than it saves",
    ),
    ("SINGLE_MAP", "there is only one map task"),
    ("NO_PARTITIONS", "the shuffle has no partitions"),
    ("BARRIER_STAGE", "barrier stages are not merged"),
    (
        "BLOCK_TOO_LARGE",
        "blocks of more than spark.lodestone.push.maxBlockSize are not pushed",
    ),
    (
        "CODEC_NOT_CONCATENABLE",
        "the codec cannot be concatenated: use lz4, zstd, snappy or lzf",
    ),
    (
        "SPARK_PUSH",
        "Spark itself merges: turn spark.shuffle.push.enabled off",
    ),
    (
        "OLD_FETCH_PROTOCOL",
        "turn spark.shuffle.useOldFetchProtocol off",
    ),
    (
        "CUSTOM_SHUFFLE_IO",
        "another plugin keeps map outputs (spark.shuffle.sort.io.plugin.class)",
    ),
    (
        "CIPHER_UNKNOWN",
        "services do not know Spark's SASL encryption, or this cipher",
    ),
    (
        rule::SERIALIZER,
        "Java's serializer cannot be concatenated, and the log does not show whether Spark took it: \
         set spark.serializer to Kryo",
    ),
];

fn sentence(code: &str) -> &'static str {
    let mut known = SENTENCES.iter();
    known.find(|one| one.0 == code).map_or("", |one| one.1)
}

fn shuffles(text: &mut String, plan: &Plan) {
    let count = plan.shuffles.len();
    if count > MAX_ROWS {
        let heading = format!("\nthe first {MAX_ROWS} of {count} shuffles; --json has all");
        line(text, &heading);
    } else {
        line(text, "\nshuffles");
    }
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(plan.shuffles.iter().take(MAX_ROWS).map(row));
    indented(text, &rows, &TEXT_COLUMNS);
}

fn row(shuffle: &Row) -> Vec<String> {
    let about = |is_exact: bool, count: u64| {
        let mark = if is_exact { "" } else { "~" };
        format!("{mark}{}", number(count))
    };
    let is_exact = shuffle.blocks_are_exact;
    let blocks = if shuffle.least_blocks < shuffle.blocks {
        let least = number(shuffle.least_blocks);
        format!("{least} to ~{}", number(shuffle.blocks))
    } else {
        about(is_exact, shuffle.blocks)
    };
    let is_in_place = shuffle.read_in_place && shuffle.auto != "leave";
    let reason = shuffle.reason.filter(|_| !is_in_place);
    vec![
        shuffle.stage.to_string(),
        number(shuffle.maps.into()),
        about(shuffle.partitions_are_exact, shuffle.partitions.into()),
        blocks,
        about(is_exact, shuffle.mean_block),
        short(shuffle.bytes as f64 / 1e6),
        about(shuffle.reads_are_exact, shuffle.reads),
        about(
            is_exact && shuffle.least_chunks == shuffle.chunks,
            shuffle.chunks,
        ),
        shuffle.auto.to_owned(),
        shuffle.merge.to_owned(),
        reason
            .or(is_in_place.then_some("pushed, but read in place"))
            .unwrap_or_default()
            .to_owned(),
    ]
}

fn assumptions(text: &mut String, plan: &Plan) {
    line(text, "\nwhat this assumes (docs/plan.md)");
    let micros = cost::SECONDS_PER_READ.times(1e6);
    let merged = cost::SECONDS_PER_MERGED_GB;
    let mut said = vec![
        "Maps, reads and bytes are Spark's own counts; ~ is an estimate from records and partitions, \
         at most so many: data that is ordered by its key has fewer blocks."
            .to_owned(),
        format!(
            "Mode auto merges blocks of up to {} on average, or from {} blocks on and up to {} if \
             small reads of the executors' disks take 2 ms or more (--disk hdd). Here: {}.",
            number(rule::EVEN_BLOCK_BYTES),
            number(rule::MIN_BLOCKS_ON_SLOW_DISK),
            number(rule::MAX_BLOCK_BYTES),
            plan.disk
        ),
        format!(
            "A read costs {} to {} us of a core, merging {} to {} s of a core for each GB, as \
             measured (decision 5). {} ran at a time.",
            short(micros.low),
            short(micros.high),
            short(merged.low),
            short(merged.high),
            tasks(plan.tasks_at_a_time)
        ),
        "A service holds a shuffle from its first map task until Spark removes it: at best after its \
         last reader, likely when the driver collects garbage (spark.cleaner.periodicGC.interval), \
         at worst when the application ends. What its memory does not take goes to its disk."
            .to_owned(),
        "A new application starts more slowly with Lodestone: those of half a minute or less took \
         1.06 to 1.11 times as long where auto merged nothing (bench/results/cold.txt)."
            .to_owned(),
    ];
    if plan.shuffles.iter().any(|shuffle| shuffle.encoded) {
        said.push(format!(
            "Shuffles of SQL have {} to {} of these bytes with Lodestone, {} on average of TPC-H.",
            rule::ENCODED.0,
            rule::ENCODED.1,
            rule::ENCODED_MEAN
        ));
    }
    for one in said {
        line(text, &format!("  {one}"));
    }
}

fn tasks(at_a_time: f64) -> String {
    let count = short(at_a_time);
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} task{ending}")
}

fn megabytes(bytes: Range) -> String {
    range(bytes.times(1e-6))
}

/// The likely number, and the others in brackets.
fn range(of: Range) -> String {
    let (low, likely, high) = (short(of.low), short(of.likely), short(of.high));
    if low == high {
        likely
    } else {
        format!("{likely} ({low} to {high})")
    }
}

/// Three digits say enough.
fn short(value: f64) -> String {
    let size = value.abs();
    let text = if size >= 100.0 {
        let whole = number(size.round() as u64);
        return if value < 0.0 {
            format!("-{whole}")
        } else {
            whole
        };
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    let text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if text == "-0" { "0".to_owned() } else { text }
}
