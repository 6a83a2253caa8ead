// SPDX-License-Identifier: Apache-2.0
//! Calls that are allowed only in some files, or only a number of times.

use super::leftovers::starts_word;
use crate::breach::Breach;
use crate::mask::Language;
use crate::repository::{File, Repository, Source};

/// A call that production code of the daemon may make only in some files. Clippy forbids the calls
/// that it may make nowhere.
struct Confined {
    call: &'static str,
    /// Path prefixes where it may stand.
    allowed_in: &'static [&'static str],
    advice: &'static str,
}

/// Reading the configuration once before the daemon serves, secrets, a certificate, the announce
/// file, and what commands read for a person, are no data path; `bench` and `sort` are programs of
/// their own, which no daemon runs.
const DISK: &[&str] = &[
    "daemon/store/src/fs/",
    "daemon/server/src/config",
    "daemon/server/src/operator/conf/",
    "daemon/server/src/operator/doctor/",
    "daemon/server/src/operator/event_log/",
    "daemon/server/src/process/announce",
    "daemon/server/src/process/memory",
    "daemon/server/src/service/certificate",
    "daemon/server/src/service/secrets",
    "daemon/auth/src/vectors.rs",
    "daemon/sort/",
    "daemon/bench/",
    "daemon/tidy/",
];
const UNSAFE: &[&str] = &["daemon/store/src/resource/allocator.rs"];
const CLOCK: &[&str] = &[
    "daemon/store/src/resource/clock.rs",
    "daemon/server/src/metrics/stopwatch.rs",
    "daemon/server/src/service/clock.rs",
    "daemon/sort/src/progress.rs",
    "daemon/bench/src/measure/clock.rs",
];
/// In handlers only `decode` makes a message of bytes: it looks at the application that the message
/// names. The handler of drains looks at a request again that has been carried out.
const MESSAGES: &[&str] = &[
    "daemon/auth/",
    "daemon/bench/",
    "daemon/fuzz/",
    "daemon/server/src/handler/drain.rs",
    "daemon/server/src/handler/mod.rs",
    "daemon/server/src/operator/ask.rs",
    "daemon/sim/",
    "daemon/store/",
    "daemon/wire/",
];
const CONFINED: [Confined; 6] = [
    Confined {
        call: "from_bytes(",
        allowed_in: MESSAGES,
        advice: "let `handler::decode` do it, which looks at the client's application",
    },
    Confined {
        call: "std::fs",
        allowed_in: DISK,
        advice: "go through the Fs trait of the store",
    },
    Confined {
        call: "File::open(",
        allowed_in: DISK,
        advice: "go through the Fs trait of the store",
    },
    Confined {
        call: "Instant::now(",
        allowed_in: CLOCK,
        advice: "ask the injected clock",
    },
    Confined {
        call: "SystemTime::now(",
        allowed_in: CLOCK,
        advice: "ask the injected clock",
    },
    Confined {
        call: "unsafe ",
        allowed_in: UNSAFE,
        advice: "write it without",
    },
];

pub(super) fn calls(repository: &Repository) -> Vec<Breach> {
    let rust = repository
        .sources()
        .filter(|(_, source)| source.language == Language::Rust);
    rust.flat_map(|(file, source)| misplaced(file, source))
        .collect()
}

fn misplaced(file: &File, source: &Source) -> Vec<Breach> {
    let mut found = Vec::new();
    for confined in CONFINED
        .iter()
        .filter(|p| !p.allowed_in.iter().any(|at| file.path.starts_with(at)))
    {
        let lines = source
            .code_lines()
            .filter(|(_, code, is_test)| !is_test && starts_word(code, confined.call));
        for (line, ..) in lines {
            let advice = format!(
                "`{}` is not allowed here: {}",
                confined.call.trim(),
                confined.advice
            );
            found.push(Breach::at(&file.path, line, "confined call", advice));
        }
    }
    found
}

const CATCH_ALLS: usize = 12;

/// Handlers that catch everything: few, and each with its reason.
pub(super) fn catch_alls(repository: &Repository) -> Vec<Breach> {
    let is_plugin = |file: &File| file.path.starts_with("client/") && !file.is_test();
    let (mut found, mut count) = (Vec::new(), 0);
    for (file, source) in repository.sources().filter(|(file, _)| is_plugin(file)) {
        let comments: Vec<&str> = source.comments.lines().collect();
        let has_comment = |at: usize| {
            comments
                .get(at)
                .is_some_and(|comment| !comment.trim().is_empty())
        };
        for (line, ..) in source
            .code_lines()
            .filter(|(_, code, _)| is_catch_all(code))
        {
            count += 1;
            let around = line.saturating_sub(2)..=line;
            if !around.into_iter().any(has_comment) {
                let advice = "say in a comment beside it why everything is caught here";
                found.push(Breach::at(&file.path, line, "catch-all", advice));
            }
        }
    }
    if count > CATCH_ALLS {
        let advice = format!("{count} handlers, {CATCH_ALLS} are allowed: catch what is expected");
        found.push(Breach::of("client", "catch-all", advice));
    }
    found
}

fn is_catch_all(code: &str) -> bool {
    let squeezed = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let catches = |kind: &str| {
        let scala = [format!(": {kind} =>"), format!(": {kind} if")];
        let java = [format!("catch ({kind} "), format!("catch (final {kind} ")];
        scala
            .iter()
            .chain(&java)
            .any(|pattern| squeezed.contains(pattern))
    };
    starts_word(&squeezed, "NonFatal(") || ["Throwable", "Exception"].into_iter().any(catches)
}

/// Crates that know nothing of sockets or of an executor, and of our crates only these.
const ALONE: [(&str, &[&str]); 3] = [
    ("model", &[]),
    ("wire", &["lodestone-model"]),
    ("store", &["lodestone-model", "lodestone-planted"]),
];

/// `wire` and `store` know the model and not each other.
pub(super) fn dependencies(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (name, known) in ALONE {
        let path = format!("daemon/{name}/Cargo.toml");
        let Some(file) = repository.file(&path) else {
            continue;
        };
        let itself = format!("lodestone-{name}");
        let is_dependency = |line: &str| {
            let dependency = line.split([' ', '.', '=']).next().unwrap_or_default();
            let is_ours = dependency.starts_with("lodestone-");
            line.starts_with("tokio")
                || (is_ours && dependency != itself && !known.contains(&dependency))
        };
        for (at, _) in file
            .text
            .lines()
            .enumerate()
            .filter(|(_, line)| is_dependency(line))
        {
            let advice =
                "wire and store know the model alone: only the server joins them and sockets";
            found.push(Breach::at(&path, at + 1, "dependency", advice));
        }
    }
    found
}
