// SPDX-License-Identifier: Apache-2.0
//! What must be true of the machine whatever was asked: files, open files, memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

/// Of earlier lives nothing is left: at most a directory that was killed before it got its marker or
/// after it lost it, without data. `own` is the directory name of the daemon that lives.
pub fn leftovers(world: &World, own: Option<i64>, foreign: &Foreign) -> Result<(), String> {
    let own = own.map(root_name);
    for dir in &world.dirs {
        for path in world.disk.fake.below(dir) {
            let holds_foreign = foreign.keys().any(|foreign| foreign.starts_with(&path));
            let is_own = own
                .as_ref()
                .is_some_and(|own| path.starts_with(dir.join(own)));
            if !holds_foreign && !is_own && !is_crumb(world, dir, &path) {
                return Err(format!("{} is left of an earlier life", path.display()));
            }
        }
    }
    Ok(())
}

/// What a kill can leave of a directory that does not carry the marker (any more).
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

/// The directory of a daemon's life on each disk.
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
    match world.store().map(|store| store.load().memory_used) {
        None | Some(0) => Ok(()),
        Some(bytes) => Err(format!("{bytes} bytes are kept of removed shuffles")),
    }
}

/// Without a chunk on its way no file is open.
pub fn no_open_files(world: &World) -> Result<(), String> {
    match world.disk.fake.open_files().0 {
        0 => Ok(()),
        count => Err(format!(
            "{count} files are open, and no chunk is on its way"
        )),
    }
}
