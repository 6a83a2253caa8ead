// SPDX-License-Identifier: Apache-2.0
//! Files of map tasks, as Spark's writers leave them, and how to drop them from the page cache.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use lodestone_sort::progress::Progress;
use rustix::fs::{Advice, fadvise};

use crate::dialect::spark::{LOCAL_DIR, SUB_DIRS};
use crate::error::{BenchError, at};
use crate::workload::payload::Payload;
use crate::workload::{Block, Workload};

const WRITE_BYTES: usize = 1 << 20;

/// Writes data and index file of every map task below an executor's folder.
pub fn write_originals(
    home: &Path,
    workload: Workload,
    payload: &Payload,
    progress: &Progress,
) -> Result<(), BenchError> {
    for map in 0..workload.maps {
        let name = format!("shuffle_{}_{map}_0", workload.shuffle);
        let data = path(home, &format!("{name}.data"));
        let index = path(home, &format!("{name}.index"));
        make_room_for(&data)?;
        make_room_for(&index)?;
        let offsets = write_map(&data, map, workload, payload).map_err(at(&data))?;
        progress.add(offsets.last().copied().unwrap_or_default());
        let bytes: Vec<u8> = offsets.iter().flat_map(|end| end.to_be_bytes()).collect();
        fs::write(&index, bytes).map_err(at(&index))?;
    }
    Ok(())
}

/// Returns where each block begins, and the end.
fn write_map(path: &Path, map: u32, workload: Workload, payload: &Payload) -> io::Result<Vec<u64>> {
    let mut out = BufWriter::with_capacity(WRITE_BYTES, File::create(path)?);
    let (mut offsets, mut end) = (vec![0], 0);
    for reduce in 0..workload.partitions {
        let block = Block { map, reduce };
        payload.write(workload, block, &mut out)?;
        end += u64::from(workload.block_bytes(block));
        offsets.push(end);
    }
    out.flush()?;
    Ok(offsets)
}

fn make_room_for(path: &Path) -> Result<(), BenchError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(at(folder))
}

/// Where Spark keeps a file: by the hash of its name, as Java computes it.
fn path(home: &Path, name: &str) -> PathBuf {
    let hash = name.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    let sub_dir = hash.unsigned_abs() % SUB_DIRS;
    let dir = home.join(LOCAL_DIR).join(format!("{sub_dir:02x}"));
    dir.join(name)
}

/// Writes all files below a folder to the disk, and drops them from the page cache. Returns their
/// bytes.
pub fn forget(folder: &Path) -> Result<u64, BenchError> {
    let mut bytes = 0;
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    for entry in listed.map_err(at(folder))? {
        let path = entry.path();
        let kind = entry.file_type().map_err(at(&path))?;
        if kind.is_dir() {
            bytes += forget(&path)?;
        } else if kind.is_file() {
            match forget_file(&path) {
                Ok(length) => bytes += length,
                // Servers delete files that they do not need any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(at(&path)(error)),
            }
        }
    }
    Ok(bytes)
}

fn forget_file(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    file.sync_data()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(file.metadata()?.len())
}

/// Deletes a folder of the bench, whatever is in it.
pub fn delete(folder: &Path) -> Result<(), BenchError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}
