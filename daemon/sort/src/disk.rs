// SPDX-License-Identifier: Apache-2.0
//! The errors of the disk, with the file.

use std::io;
use std::path::{Path, PathBuf};

/// Begins with the path, as all errors of a disk should.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct DiskError {
    path: PathBuf,
    source: io::Error,
}

/// For `map_err`: adds the path.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_path_buf();
    move |source| DiskError { path, source }
}
