// SPDX-License-Identifier: Apache-2.0
//! What the disk said, and of which file.

use std::io;
use std::path::{Path, PathBuf};

/// Begins with the path, as everything that a disk says should.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct DiskError {
    path: PathBuf,
    source: io::Error,
}

/// For `map_err`.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_path_buf();
    move |source| DiskError { path, source }
}
