// SPDX-License-Identifier: Apache-2.0
//! What must be true of the machine after any requests: files, open files, memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_store::Store;

use crate::world::World;

/// Files that the daemon did not make, with their content.
pub type Foreign = BTreeMap<PathBuf, Vec<u8>>;

const MARKER: &[u8] = b"lodestone store 1\n";

/// Foreign files are as they were.
pub fn foreign(world: &World, foreign: &Foreign) -> Result<(), String> {
    for (path, content) in foreign {
        if world.disk.fake.content(path).as_ref() != Some(content) {
            return Err(format!("foreign file {} is not as it was", path.display()));
        }
    }
    Ok(())
}

/// Checks that nothing of earlier daemons is left: at most a directory without data, whose daemon
/// was killed before it wrote the marker or after it removed it. `own` is the directory name of the
/// running daemon.
pub fn leftovers(world: &World, own: Option<i64>, foreign: &Foreign) -> Result<(), String> {
    let own = own.map(root_name);
    for dir in &world.dirs {
        for path in world.disk.fake.below(dir) {
            let holds_foreign = foreign.keys().any(|foreign| foreign.starts_with(&path));
            let is_own = own
                .as_ref()
                .is_some_and(|own| path.starts_with(dir.join(own)));
            if !holds_foreign && !is_own && !is_crumb(world, dir, &path) {
                return Err(format!("{} is left of an earlier daemon", path.display()));
            }
        }
    }
    Ok(())
}

/// Returns true if a kill can leave this in a directory that has no marker (any more).
fn is_crumb(world: &World, dir: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(dir) else {
        return false;
    };
    let names: Vec<_> = below.iter().filter_map(|name| name.to_str()).collect();
    match names.as_slice() {
        [_root] => world.disk.fake.content(&path.join("LODESTONE")).as_deref() != Some(MARKER),
        [_root, "lock"] => true,
        [_root, "LODESTONE"] => world.disk.fake.content(path).as_deref() != Some(MARKER),
        _ => false,
    }
}

/// Returns the name of the directory of an incarnation on each disk.
pub fn root_name(incarnation: i64) -> String {
    format!("lodestone-{:016x}", incarnation.cast_unsigned())
}

/// A daemon that holds no shuffle, or none any more, has no data file.
pub fn no_data(world: &World, own: i64, foreign: &Foreign) -> Result<(), String> {
    for dir in &world.dirs {
        for path in world.disk.fake.below(&dir.join(root_name(own))) {
            let is_data = path.extension().is_some_and(|end| end == "data");
            if is_data && !foreign.contains_key(&path) {
                return Err(format!("{} is left of a removed shuffle", path.display()));
            }
        }
    }
    Ok(())
}

/// A daemon that holds no shuffle has its memory back.
pub fn no_memory(world: &World) -> Result<(), String> {
    let kept = |store: &Arc<Store>| store.load().memory_used - store.memory_of_names();
    match world.store().map(kept) {
        None | Some(0) => Ok(()),
        Some(bytes) => Err(format!("{bytes} bytes are kept of removed shuffles")),
    }
}

/// Checks that no file is open while no chunk is on its way.
pub fn no_open_files(world: &World) -> Result<(), String> {
    match world.disk.open_files().own {
        0 => Ok(()),
        count => Err(format!(
            "{count} files are open, and no chunk is on its way"
        )),
    }
}
