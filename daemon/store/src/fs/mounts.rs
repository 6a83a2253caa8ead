// SPDX-License-Identifier: Apache-2.0
//! The disks behind paths, by the table of mounts. To look at a path itself would ask its disk,
//! which may hang.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The mounts of this process, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Mounts(Vec<Mount>);

#[derive(Clone, Debug)]
struct Mount {
    point: PathBuf,
    device: u64,
}

impl Mounts {
    /// Mounts of these devices at these points.
    pub fn new(mounts: impl IntoIterator<Item = (PathBuf, u64)>) -> Self {
        let mounts = mounts.into_iter();
        Self(
            mounts
                .map(|(point, device)| Mount { point, device })
                .collect(),
        )
    }

    /// Reads the text of `/proc/self/mountinfo`.
    pub(super) fn parse(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        Self(lines.filter_map(Mount::parse).collect())
    }

    /// True if a disk with this number of a device is mounted.
    pub(crate) fn has(&self, device: u64) -> bool {
        self.0.iter().any(|mount| mount.device == device)
    }

    /// Returns the number of the device that a path is on, or would be, as far as is known. The
    /// path has no links. Of all mounts above it, the one with the longest path counts, and of
    /// several with the same path the last one.
    pub fn device_of(&self, path: &Path) -> Option<u64> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        // The last one of several mounts at one point is seen.
        let longest = above.max_by_key(|mount| mount.point.components().count());
        longest.map(|mount| mount.device)
    }
}

impl Mount {
    /// `<id> <parent> <major>:<minor> <root> <mount point> ...`
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = str::from_utf8(fields.next()?).ok()?;
        let (major, minor) = device.split_once(':')?;
        let (major, minor): (u64, u64) = (major.parse().ok()?, minor.parse().ok()?);
        let point = fields.nth(1)?;
        Some(Self {
            point: OsString::from_vec(unescaped(point)).into(),
            device: major << 32 | minor,
        })
    }
}

/// The kernel writes spaces, tabs, line ends and backslashes as `\` and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let octal = digits.and_then(|digits| str::from_utf8(digits).ok());
        match octal.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
35 22 8:16 / /data0 rw - xfs /dev/sdb rw
36 22 0:52 / /data1 rw - nfs4 host:/x rw
37 36 0:52 /sub /data1/deep rw - nfs4 host:/x rw
38 22 8:32 / /with\\040space rw - xfs /dev/sdc rw
39 22 8:48 / /data0 rw - xfs /dev/sdd rw
nonsense
";

    #[test]
    fn a_path_is_on_the_device_of_the_mount_with_the_longest_path() {
        let mounts = Mounts::parse(TABLE);
        let device = |path: &str| {
            let device = mounts.device_of(Path::new(path)).unwrap();
            (device >> 32, device & 0xffff_ffff)
        };
        assert_eq!(device("/tmp/blockmgr-1"), (8, 1));
        assert_eq!(
            device("/data10"),
            (8, 1),
            "it only begins with the same letters"
        );
        assert_eq!(device("/data1/x/blockmgr-1"), (0, 52));
        assert_eq!(device("/data1/deep"), (0, 52));
        assert_eq!(device("/with space/x"), (8, 32));
        assert_eq!(device("/data0/x"), (8, 48), "mounted over another one");
        assert_eq!(Mounts::default().device_of(Path::new("/data0")), None);
    }

    #[test]
    fn the_root_of_this_machine_is_on_a_device() {
        use crate::fs::{Fs, OsFs};
        let mounts = OsFs.mounts();
        assert!(mounts.device_of(Path::new("/")).is_some());
        assert_eq!(
            mounts.device_of(Path::new("/")),
            mounts.device_of(Path::new("/no such directory"))
        );
    }
}
