// SPDX-License-Identifier: Apache-2.0
//! The plugin jars of this installation.

use std::path::{Path, PathBuf};

use super::ConfError;
use super::release::Release;

/// Where the packages of Debian and Fedora have them.
const SYSTEM: &str = "/usr/share/lodestone/jars";

/// The beginning of the name of each plugin jar, but not of the jars for engines.
pub(in crate::operator) const PREFIX: &str = "lodestone-spark-";

/// The folders in which the jars may be, the nearest to the program first.
pub(super) struct Jars(pub(super) Vec<PathBuf>);

impl Jars {
    /// Returns `jars` beside the program's file, as in `dist/`, or beside its folder, as in the
    /// Python package, and the folder of system packages.
    pub(super) fn of_program(program: Option<&Path>) -> Self {
        let folders = program.map(Path::ancestors).into_iter().flatten();
        let beside = folders.skip(1).take(2).map(|folder| folder.join("jars"));
        Self(beside.chain([PathBuf::from(SYSTEM)]).collect())
    }

    pub(super) fn find(&self, release: &Release) -> Result<String, ConfError> {
        let name = release.jar();
        let mut paths = self.0.iter().map(|folder| folder.join(&name));
        match paths.find(|path| path.is_file()) {
            Some(path) => Ok(path.display().to_string()),
            None => {
                let folders: Vec<_> = self.0.iter().map(|at| at.display().to_string()).collect();
                let folders = folders.join(" or ");
                Err(ConfError::NoJar { name, folders })
            }
        }
    }
}

/// Returns the path of a jar if its name does not belong to another release. A name may have a
/// version at its end, as in a repository of Maven.
pub(super) fn checked(jar: &str, release: &Release) -> Result<String, ConfError> {
    let file = jar.rsplit('/').next().unwrap_or(jar);
    let name = release.jar();
    let stem = name.trim_end_matches(".jar");
    if file.starts_with(PREFIX) && !file.starts_with(stem) {
        return Err(ConfError::OtherJar {
            jar: jar.to_owned(),
            release: release.to_string(),
            name,
        });
    }
    Ok(jar.to_owned())
}
