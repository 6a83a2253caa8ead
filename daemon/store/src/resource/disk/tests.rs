// SPDX-License-Identifier: Apache-2.0
//! Which directories share a disk.

use super::*;
use crate::fs::OsFs;
use crate::fs::fake::FakeFs;

fn disks(fs: &FakeFs) -> Disks {
    let roots = ["/data0/lodestone", "/data1/lodestone"].map(PathBuf::from);
    Disks::new(roots.into(), fs, Reserve::Bytes(0), u64::MAX)
}

#[test]
fn a_data_directory_that_a_link_or_a_relative_path_names_is_on_the_disk_where_it_is() {
    let own = std::env::current_dir().unwrap();
    // A link of the kernel to the root.
    let names = [".", "/proc/self/root", "/proc/self/cwd"].map(PathBuf::from);
    let disks = Disks::new(names.into(), &OsFs, Reserve::Bytes(0), u64::MAX);
    let mounts = OsFs.mounts();
    let [own, root] = [own.as_path(), Path::new("/")].map(|path| mounts.device_of(path));
    assert!(own.is_some());
    let devices: Vec<_> = disks.disks.iter().map(|disk| disk.device).collect();
    assert_eq!(devices, [own, root, own]);
}

#[test]
fn executors_share_the_flow_of_a_data_directory_on_their_disk_and_of_no_other_one() {
    let fs = FakeFs::default();
    for dir in ["/data0", "/data1", "/data2"] {
        fs.add_dir(Path::new(dir));
    }
    let mounts = fs.mounts();
    let disks = disks(&fs);
    let place = |dir: &str| {
        let device = mounts.device_of(Path::new(dir)).unwrap();
        disks.len() + disks.foreign().take(device, true, &mounts).unwrap().number
    };
    let flow = |place| std::ptr::from_ref(disks.flow_at(place));
    let [first, second, third] = ["/data0/x", "/data1/x", "/data2/x"].map(place);
    assert_eq!([flow(first), flow(second)], [flow(0), flow(1)]);
    assert!(![flow(0), flow(1)].contains(&flow(third)));
}

#[test]
fn without_a_table_of_mounts_executors_share_no_flow_with_a_data_directory() {
    let disks = disks(&FakeFs::default());
    let flow = |place| std::ptr::from_ref(disks.flow_at(place));
    let place = disks.foreign_place(None);
    assert_eq!(place, 2, "all of them have one");
    assert!(![flow(0), flow(1)].contains(&flow(place)));
    assert_ne!(flow(0), flow(1));
}
