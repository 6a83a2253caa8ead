// SPDX-License-Identifier: Apache-2.0
//! The figures of each disk, as an operator sees them.

use super::*;
use lodestone_store::fs::fake::{Errno, FakeFs};

fn write(fs: &MeasuredFs, path: &str) -> io::Result<usize> {
    let file = fs.open(Path::new(path), Open::Create)?;
    file.write_at(&[IoSlice::new(b"seven b")], 0)
}

#[test]
fn writes_below_a_directory_that_is_a_link_count_by_either_name() {
    let temporary = tempfile::tempdir().unwrap();
    let (real, link) = (temporary.path().join("real"), temporary.path().join("link"));
    let real_fs = Arc::new(lodestone_store::fs::OsFs);
    real_fs.create_dir(&real, Access::Private).unwrap();
    rustix::fs::symlink(&real, &link).unwrap();
    let fs = MeasuredFs::new(real_fs, std::slice::from_ref(&link));
    write(&fs, link.join("one").to_str().unwrap()).unwrap();
    write(&fs, real.join("two").to_str().unwrap()).unwrap();
    let line = format!(
        "lodestone_merge_write_bytes_total{{dir=\"{}\"}} 14",
        link.display()
    );
    assert!(text(&fs).lines().any(|found| found == line), "no {line}");
}

fn text(fs: &MeasuredFs) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, fs.registry()).unwrap();
    text
}

#[test]
fn an_operator_sees_which_disk_is_written_to_and_which_one_fails() {
    let fake = FakeFs::with_dirs(["/a", "/b", "/elsewhere"]);
    fake.set_capacity(Path::new("/a"), 1000);
    let fs = MeasuredFs::new(Arc::new(fake.clone()), &["/a".into(), "/b".into()]);
    write(&fs, "/a/one").unwrap();
    write(&fs, "/a/two").unwrap();
    write(&fs, "/elsewhere/three").unwrap();
    let torn = lodestone_store::fs::fake::Fault::Torn(0, Errno::IO);
    fake.fault_at(0, torn);
    assert!(write(&fs, "/b/four").is_err());
    fs.space(Path::new("/a")).unwrap();
    let read = fs.open(Path::new("/a/one"), Open::Read).unwrap();
    assert_eq!(read.read_at(&mut [0; 5], 0).unwrap(), 5);
    // As `sendfile` says it.
    read.count_read(Some(2));
    read.count_read(None);
    let text = text(&fs);
    for line in [
        "lodestone_merge_write_bytes_total{dir=\"/a\"} 14",
        "lodestone_merge_write_seconds_count{dir=\"/a\"} 2",
        "lodestone_merge_write_failures_total{dir=\"/a\"} 0",
        "lodestone_merge_read_bytes_total{dir=\"/a\"} 7",
        "lodestone_merge_read_failures_total{dir=\"/a\"} 1",
        "lodestone_merge_read_bytes_total{dir=\"/b\"} 0",
        "lodestone_merge_disk_free_bytes{dir=\"/a\"} 986",
        "lodestone_merge_disk_size_bytes{dir=\"/a\"} 1000",
        "lodestone_merge_write_bytes_total{dir=\"/b\"} 0",
        "lodestone_merge_write_seconds_count{dir=\"/b\"} 0",
        "lodestone_merge_write_failures_total{dir=\"/b\"} 1",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in {text}"
        );
    }
}
