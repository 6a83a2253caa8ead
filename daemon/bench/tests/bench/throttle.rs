// SPDX-License-Identifier: Apache-2.0
//! The slow disk: the files that limit a control group, and the message without control groups.

use std::fs;
use std::path::Path;

use lodestone_bench::server::throttle::Throttle;

/// The directory of this repository: on a disk, unlike some folders for temporary files.
fn on_a_disk() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn without_control_groups_it_is_said_that_there_is_no_slow_disk() {
    let nowhere = Path::new("/proc/self/no-control-groups");
    let error = Throttle::of(nowhere, "bench", on_a_disk(), 150).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("no slow disk: "), "{text}");
    let memory = Path::new("/proc");
    let text = Throttle::of(nowhere, "bench", memory, 150)
        .unwrap_err()
        .to_string();
    assert!(text.contains("is on no disk"), "{text}");
}

#[test]
fn both_versions_of_control_groups_get_the_disk_and_its_limit() {
    let group = |root: &Path, file: &str| fs::read_to_string(root.join(file)).unwrap();
    let version_1 = tempfile::tempdir().unwrap();
    fs::create_dir(version_1.path().join("blkio")).unwrap();
    let Ok(throttle) = Throttle::of(version_1.path(), "bench", on_a_disk(), 150) else {
        eprintln!("skipped: this folder is on no disk");
        return;
    };
    throttle.hold(4711).unwrap();
    let limit = group(
        version_1.path(),
        "blkio/bench/blkio.throttle.read_iops_device",
    );
    let (device, reads) = limit.split_once(' ').unwrap();
    assert!(device.contains(':'), "{limit}");
    assert_eq!(reads, "150");
    assert_eq!(group(version_1.path(), "blkio/bench/cgroup.procs"), "4711");

    let version_2 = tempfile::tempdir().unwrap();
    let throttle = Throttle::of(version_2.path(), "bench", on_a_disk(), 150).unwrap();
    throttle.hold(4711).unwrap();
    assert_eq!(group(version_2.path(), "cgroup.subtree_control"), "+io");
    let limit = group(version_2.path(), "bench/io.max");
    assert_eq!(limit, format!("{device} riops=150"));
}
