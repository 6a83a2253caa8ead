// SPDX-License-Identifier: Apache-2.0
//! Files that nothing leads to.

use std::collections::BTreeSet;

use super::documents;
use crate::breach::Breach;
use crate::mask::Language;
use crate::repository::{File, Repository, Source};

const RULE: &str = "dead file";

/// Rust files that no `mod` declaration reaches: the compiler never sees them.
pub(super) fn rust_files(repository: &Repository) -> Vec<Breach> {
    let mut reached = BTreeSet::new();
    let rust = |source: &Source| source.language == Language::Rust;
    let mut open: Vec<(&File, &Source)> = repository
        .sources()
        .filter(|(file, source)| rust(source) && is_crate_root(&file.path))
        .collect();
    while let Some((file, source)) = open.pop() {
        if !reached.insert(file.path.as_str()) {
            continue;
        }
        let modules = module_paths(file, source);
        open.extend(
            repository
                .sources()
                .filter(|(file, _)| modules.contains(&file.path)),
        );
    }
    let all = repository.sources().filter(|(_, source)| rust(source));
    let dead = all.filter(|(file, _)| !reached.contains(file.path.as_str()));
    let advice = "no `mod` leads here: declare it or delete it";
    dead.map(|(file, _)| Breach::of(&file.path, RULE, advice))
        .collect()
}

/// Files that cargo compiles on its own.
fn is_crate_root(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let (name, folder) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let above = parts.next().unwrap_or_default();
    let is_target_folder = |folder: &str| ["tests", "benches", "examples", "bin"].contains(&folder);
    (folder == "src" && ["lib.rs", "main.rs"].contains(&name))
        || name == "build.rs"
        || (is_target_folder(folder) && !path.contains(&format!("/src/{folder}/{name}")))
        || (folder == "bin" && above == "src")
        || (name == "main.rs" && is_target_folder(above))
}

/// Where the modules that a file declares may be.
fn module_paths(file: &File, source: &Source) -> BTreeSet<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let owns_folder = is_crate_root(&file.path) || name == "mod.rs";
    let below = match name.strip_suffix(".rs") {
        Some(stem) if !owns_folder => format!("{folder}/{stem}"),
        _ => folder.to_owned(),
    };
    let mut paths = BTreeSet::new();
    let texts: Vec<&str> = file.text.lines().collect();
    for (line, code, _) in source.code_lines() {
        let Some(module) = declared_module(code) else {
            continue;
        };
        paths.insert(format!("{below}/{module}.rs"));
        paths.insert(format!("{below}/{module}/mod.rs"));
        let above = line.checked_sub(2).and_then(|at| texts.get(at));
        if let Some(path) = above.and_then(|above| path_attribute(above)) {
            paths.insert(format!("{folder}/{path}"));
        }
    }
    paths
}

/// `pub(crate) mod name;`
fn declared_module(code: &str) -> Option<&str> {
    let declaration = code.trim().strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once("mod ")?;
    let is_item = before.is_empty() || before.starts_with("pub") || before.starts_with("#[");
    (is_item && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

/// `#[path = "name.rs"]`
fn path_attribute(line: &str) -> Option<&str> {
    line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]")
}

/// Pages below `docs/` that no other page links to, directly or by their folder.
pub(super) fn pages(repository: &Repository) -> Vec<Breach> {
    let mut targets = BTreeSet::new();
    for page in documents::pages(repository) {
        let links = documents::links_of(page)
            .into_iter()
            .map(|link| link.target);
        targets.extend(links.filter(|target| *target != page.path));
    }
    let is_linked = |path: &str| {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        targets.contains(path) || targets.contains(folder)
    };
    documents::pages(repository)
        .filter(|page| page.path.starts_with("docs/") && !is_linked(&page.path))
        .map(|page| Breach::of(&page.path, RULE, "no page links here: link it or delete it"))
        .collect()
}
