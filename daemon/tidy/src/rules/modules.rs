// SPDX-License-Identifier: Apache-2.0
//! Modules of a crate, or packages of the plugin, that use each other in a circle have no order in
//! which they can be read.

use std::collections::{BTreeMap, BTreeSet};

use crate::breach::Breach;
use crate::repository::{File, Repository, Source};

const RULE: &str = "module cycle";

/// Crates whose top-level modules form layers.
const LAYERED: [&str; 4] = [
    "daemon/model",
    "daemon/server",
    "daemon/store",
    "daemon/wire",
];

/// The uses of one top-level module by another, and the position of the first one.
type Uses = BTreeMap<(String, String), (String, usize)>;

/// No top-level module of a layered crate uses itself through others. Tests may use what they like,
/// and the crate's root uses all. A path that leaves out the module (`crate::Name`) hides which one
/// it uses: it is a breach as well.
pub(super) fn cycles(repository: &Repository) -> Vec<Breach> {
    LAYERED
        .iter()
        .flat_map(|folder| cycles_of(repository, &format!("{folder}/src/")))
        .collect()
}

fn cycles_of(repository: &Repository, root: &str) -> Vec<Breach> {
    let (mut uses, mut found) = (Uses::new(), Vec::new());
    for (file, source) in repository.sources() {
        let Some(module) = module_path(file, root) else {
            continue;
        };
        for (line, used) in used_modules(source, module.len()) {
            let position = (file.path.clone(), line);
            if used.starts_with(char::is_uppercase) {
                let advice = format!("`crate::{used}` hides its module: name the module");
                found.push(Breach::at(&file.path, line, RULE, advice));
            } else if used != module[0] {
                uses.entry((module[0].to_owned(), used)).or_insert(position);
            }
        }
    }
    found.extend(circles(&uses));
    found
}

/// Below it are the packages of the plugin, as folders.
const PLUGIN: &str = "client/spark/src/main/scala/org/apache/spark/shuffle/lodestone/";

/// The plugin's package, as it begins an import.
const IMPORT: &str = "import org.apache.spark.shuffle.lodestone.";

/// Pairs of packages that must not use each other.
const APART: [[&str; 2]; 2] = [["driver", "executor"], ["executor.push", "executor.fetch"]];

/// No package of the plugin imports itself through others, or one that must stay apart.
pub(super) fn packages(repository: &Repository) -> Vec<Breach> {
    let mut uses = Uses::new();
    for (file, source) in repository.sources() {
        let Some(path) = file.path.strip_prefix(PLUGIN) else {
            continue;
        };
        let own = path
            .rsplit_once('/')
            .map_or_else(|| ROOT.to_owned(), |(folder, _)| folder.replace('/', "."));
        for (line, code, _) in source.code_lines() {
            let Some(path) = code.trim_start().strip_prefix(IMPORT) else {
                continue;
            };
            let used = package_of(path);
            if used != own {
                let position = (file.path.clone(), line);
                uses.entry((own.clone(), used)).or_insert(position);
            }
        }
    }
    let mut found = circles(&uses);
    for ((from, to), (path, line)) in &uses {
        let is_in = |package: &str, outer: &str| {
            package == outer || package.starts_with(&format!("{outer}."))
        };
        for [one, other] in APART {
            let uses_it = |user, used| is_in(from, user) && is_in(to, used);
            if uses_it(one, other) || uses_it(other, one) {
                let advice = format!("`{from}` must not use `{to}`: move what both need below");
                found.push(Breach::at(path, *line, RULE, advice));
            }
        }
    }
    found
}

/// The name of the plugin's own package in breaches.
const ROOT: &str = "lodestone";

/// The packages at the beginning of a path: those have small letters.
fn package_of(path: &str) -> String {
    let is_package = |name: &&str| name.starts_with(char::is_lowercase);
    let names: Vec<&str> = path.split('.').take_while(is_package).collect();
    match names.as_slice() {
        [] => ROOT.to_owned(),
        names => names.join("."),
    }
}

fn circles(uses: &Uses) -> Vec<Breach> {
    let mut found = Vec::new();
    for ((from, to), (path, line)) in uses {
        if let Some(back) = way(uses, to, from) {
            let advice = format!(
                "`{from}` uses `{to}`, which uses it again ({from} -> {}): \
                 move what both need below them",
                back.join(" -> ")
            );
            found.push(Breach::at(path, *line, RULE, advice));
        }
    }
    found
}

/// The names of the modules from the crate's root down to a file; none for the root itself.
fn module_path<'a>(file: &'a File, root: &str) -> Option<Vec<&'a str>> {
    let path = file.path.strip_prefix(root)?.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    (!["lib", "main"].contains(&path)).then(|| path.split('/').collect())
}

/// The top-level modules (or names) that the code of a file uses, with their lines; `depth` is how
/// many modules below the crate's root the file is.
fn used_modules(source: &Source, depth: usize) -> Vec<(usize, String)> {
    let lines = source.code_lines();
    let code: Vec<&str> = lines
        .map(|(_, code, is_test)| if is_test { "" } else { code })
        .collect();
    let code = code.join("\n");
    let upwards = "super::".repeat(depth);
    let mut found = Vec::new();
    for start in ["crate::", &upwards] {
        for (at, _) in code.match_indices(start) {
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            if code[..at].ends_with(is_word) {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            let names = first_names(&code[at + start.len()..]);
            found.extend(names.into_iter().map(|name| (line, name)));
        }
    }
    found.retain(|(_, name)| !["super", "self"].contains(&name.as_str()));
    found
}

/// The first name of a path, or of each path of a group: `a` and `b` of `{a::{c, d}, b}`.
fn first_names(path: &str) -> BTreeSet<String> {
    let Some(group) = path.strip_prefix('{') else {
        return BTreeSet::from([identifier(path)]);
    };
    let (mut names, mut depth) = (BTreeSet::from([identifier(group)]), 1);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => drop(names.insert(identifier(&group[at + 1..]))),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.remove("");
    names
}

fn identifier(text: &str) -> String {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    text.trim_start().chars().take_while(is_word).collect()
}

/// The shortest chain of uses that leads from one module to another, both included.
fn way(uses: &Uses, from: &str, to: &str) -> Option<Vec<String>> {
    let mut open = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while !open.is_empty() {
        let mut longer = Vec::new();
        for chain in open {
            let last = chain.last()?;
            if last == to {
                return Some(chain);
            }
            for (_, next) in uses.keys().filter(|(user, _)| user == last) {
                if seen.insert(next.clone()) {
                    longer.push([chain.as_slice(), std::slice::from_ref(next)].concat());
                }
            }
        }
        open = longer;
    }
    None
}
