// SPDX-License-Identifier: Apache-2.0
//! Hosts with one fault each: real directories and sockets, and files in place of the kernel's.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use clap::{Args, FromArgMatches};
use tempfile::TempDir;

use super::speed::Measured;
use super::*;
use crate::config::ServeArgs;

const TOTAL_KIB: u64 = 8 << 20;

/// A host whose files are in a folder. It has 8 GiB, and the right time.
struct Made {
    folder: TempDir,
    host: Host,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("proc/self")).unwrap();
        fs::create_dir_all(at("groups/unit")).unwrap();
        fs::create_dir(at("data")).unwrap();
        fs::set_permissions(at("data"), Permissions::from_mode(0o700)).unwrap();
        let host = Host {
            kernel: Kernel::at(at("proc"), at("groups")),
            clock: at("timedatectl"),
            local_dirs: None,
            executor_dirs: None,
            spark_home: None,
        };
        let made = Self { folder, host };
        made.write("proc/meminfo", &format!("MemTotal: {TOTAL_KIB} kB\n"));
        made.write("proc/self/cgroup", "0::/unit\n");
        made.say("yes");
        made
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.path().join(name), content).unwrap();
    }

    /// Has the program for the clock say this.
    fn say(&self, answer: &str) {
        self.write("timedatectl", &format!("#!/bin/sh\necho {answer}\n"));
        fs::set_permissions(&self.host.clock, Permissions::from_mode(0o700)).unwrap();
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// What is found with these flags beside a directory and a free port.
    fn with(&self, flags: &[&str]) -> Vec<(&'static str, &'static str, String)> {
        let data = self.data();
        let usual = [
            "serve",
            "--dir",
            &data,
            "--listen",
            "127.0.0.1:0",
            "--reserve",
            "1b",
        ];
        // A flag counts once.
        let given = |flag: &str| flags.contains(&flag);
        let usual: Vec<&str> = usual[1..]
            .chunks(2)
            .filter(|pair| !given(pair[0]))
            .flatten()
            .copied()
            .collect();
        let command = ServeArgs::augment_args(clap::Command::new("serve"));
        let matches = command.get_matches_from([&["serve"], &usual[..], flags].concat());
        let args = ServeArgs::from_arg_matches(&matches).unwrap();
        let found = of_daemon(&self.host, args.config(), None);
        let shown = found.iter().map(Finding::shown);
        // The limit of open files, the disk and its speed are those of the machine of the test.
        let of_machine = ["open-files", "speed", "file-system"];
        shown
            .filter(|(check, level, _)| *level != "ok" && !of_machine.contains(check))
            .collect()
    }

    fn expect(&self, flags: &[&str], check: &str, level: &str, words: &str) {
        let found = self.with(flags);
        let [(found_check, found_level, line)] = found.as_slice() else {
            panic!("{flags:?} gave {found:#?}");
        };
        assert_eq!((*found_check, *found_level), (check, level), "{line}");
        assert!(line.contains(words) && line.contains(" -> "), "{line}");
    }
}

#[test]
fn a_host_without_a_fault_is_as_it_should_be_and_nothing_is_left_on_its_disk() {
    let made = Made::new();
    assert_eq!(made.with(&[]), []);
    assert_eq!(fs::read_dir(made.data()).unwrap().count(), 0);
}

#[test]
fn directories_that_no_daemon_can_use_are_errors() {
    let made = Made::new();
    made.write("file", "");
    let file = made.folder.path().join("file").display().to_string();
    made.expect(
        &["--dir", "/does/not/exist"],
        "directory",
        "error",
        "No such file",
    );
    made.expect(&["--dir", &file], "directory", "error", "is no directory");
    // Nobody makes a file there, not even root.
    let found = made.with(&["--dir", "/proc/self"]);
    let is_it = |(check, level, line): &(&str, &str, String)| {
        (*check, *level) == ("directory", "error") && line.contains("takes no file")
    };
    assert!(found.iter().any(is_it), "{found:?}");
}

#[test]
fn a_directory_that_others_may_write_to_is_a_warning_unless_it_is_sticky() {
    let made = Made::new();
    fs::set_permissions(made.data(), Permissions::from_mode(0o777)).unwrap();
    made.expect(&[], "directory-access", "warning", "mode 777");
    fs::set_permissions(made.data(), Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(made.with(&[]), []);
}

#[test]
fn a_disk_without_room_beyond_the_reserve_is_an_error() {
    let made = Made::new();
    made.expect(
        &["--reserve", "8000t"],
        "room",
        "error",
        "what the daemon leaves free",
    );
}

#[test]
fn two_directories_on_one_disk_are_a_warning() {
    let made = Made::new();
    fs::create_dir(made.folder.path().join("other")).unwrap();
    let both = format!("{},{}/other", made.data(), made.folder.path().display());
    made.expect(&["--dir", &both], "same-disk", "warning", "are on one disk");
}

#[test]
fn a_directory_in_memory_is_a_warning() {
    let found = directories::file_system(Path::new("/dev/shm"))
        .unwrap()
        .shown();
    assert_eq!((found.0, found.1), ("file-system", "warning"));
    assert!(
        found.2.contains("/dev/shm is on tmpfs, which is memory"),
        "{found:?}"
    );
    assert!(directories::file_system(Path::new("/proc")).is_none());
}

#[test]
fn a_directory_in_memory_or_on_the_network_is_known_by_the_number_of_its_file_system() {
    // As statfs(2) lists them. SMB and CIFS begin their packets with 0xfe or 0xff, and "SMB".
    let with_smb = |first: u8| u32::from_be_bytes([first, b'S', b'M', b'B']);
    for (magic, words) in [
        (0x0102_1994, "is on tmpfs, which is memory"),
        (0x8584_58f6, "is on ramfs, which is memory"),
        (0x6969, "is on NFS, which is the network"),
        (with_smb(0xff), "is on CIFS, which is the network"),
        (with_smb(0xfe), "is on SMB, which is the network"),
        (0x00c3_6400, "is on CephFS, which is the network"),
        (0x0bd0_0bd0, "is on Lustre, which is the network"),
    ] {
        let found = directories::file_system_of(Path::new("/data"), magic);
        let (check, level, line) = found.unwrap().shown();
        assert_eq!((check, level), ("file-system", "warning"));
        assert!(
            line.contains(words) && line.contains("local disk"),
            "{line}"
        );
    }
    // ext, XFS, Btrfs and overlays of containers.
    for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x794c_7630] {
        let found = directories::file_system_of(Path::new("/data"), local);
        assert!(found.is_none(), "{found:?}");
    }
}

#[test]
fn a_slow_disk_is_a_warning_and_a_modest_one_a_note() {
    let level = |bytes, seconds| {
        let measured = Measured { bytes, seconds };
        directories::judged(Path::new("/data"), &measured).shown().1
    };
    assert_eq!(level(8 << 20, 2.0), "warning");
    assert_eq!(level(64 << 20, 1.0), "note");
    assert_eq!(level(64 << 20, 0.1), "ok");
}

#[test]
fn a_program_cannot_run_where_the_file_system_is_mounted_noexec() {
    // The end-to-end tests mount one.
    let (check, level, line) = directories::noexec_at(Path::new("/data"), true).shown();
    assert_eq!((check, level), ("noexec", "warning"));
    assert!(line.contains("spark.lodestone.embedded.binary"), "{line}");
}

#[test]
fn the_first_local_directory_is_looked_at_only_if_the_plugin_would_start_a_daemon_in_it() {
    let made = Made::new();
    let lines = |settings: &[&str], local_dirs: Option<&str>| {
        let settings: Vec<String> = settings.iter().map(|one| (*one).to_owned()).collect();
        let local_dirs = local_dirs.map(str::to_owned);
        let host = Host {
            local_dirs,
            ..Host::default()
        };
        let found = of_plugin(&host, &Settings::named(&settings).unwrap());
        found.iter().map(|one| one.shown().2).collect::<String>()
    };
    let (first, second) = (format!("{}/first", made.data()), made.data());
    let setting = format!("spark.local.dir={first},{second}");
    assert!(lines(&[&setting], None).contains(&format!("can run in {first}, ")));
    assert!(lines(&[&setting], Some(&second)).contains(&format!("can run in {second}, ")));
    assert!(lines(&[], None).contains("can run in /tmp, "));
    // What Spark's own worker says to its executors comes before all others.
    let host = Host {
        local_dirs: Some(first.clone()),
        executor_dirs: Some(format!("{second}:{first}")),
        ..Host::default()
    };
    let found = of_plugin(&host, &Settings::default());
    let line = found[0].shown().2;
    assert!(line.contains(&format!("can run in {second}, ")), "{line}");
    for elsewhere in ["spark.master=yarn", "spark.lodestone.services=host1:7337"] {
        assert_eq!(lines(&[&setting, elsewhere], None), "");
    }
}

#[test]
fn memory_that_does_not_fit_into_the_host_or_the_control_group_is_an_error() {
    let made = Made::new();
    made.expect(
        &["--memory", "8g"],
        "memory",
        "error",
        "the limit of this host is 8,589.9 MB",
    );
    made.write("groups/unit/memory.max", "1073741824\n");
    made.expect(
        &["--memory", "1g"],
        "memory",
        "error",
        "the limit of the control group is",
    );
    assert_eq!(made.with(&["--memory", "800MiB"]), []);
    // 256 MiB, and 192 MiB beside them.
    made.write("groups/unit/memory.max", "469762047\n");
    made.expect(
        &["--memory", "auto"],
        "memory",
        "error",
        "needs up to 469.7 MB",
    );
    // The first version of control groups has other files.
    let made = Made::new();
    made.write("proc/self/cgroup", "4:memory:/unit\n1:cpu:/\n");
    fs::create_dir_all(made.folder.path().join("groups/memory/unit")).unwrap();
    made.write("groups/memory/unit/memory.limit_in_bytes", "268435456\n");
    made.expect(
        &[],
        "memory",
        "error",
        "the limit of the control group is 268.4 MB",
    );
    let unknown = Made::new();
    fs::remove_file(unknown.folder.path().join("proc/meminfo")).unwrap();
    unknown.expect(&[], "memory", "note", "the kernel does not say");
}

#[test]
fn too_few_open_files_for_the_connections_are_a_warning() {
    let (check, level, line) = open_files(4096, Some(4096)).shown();
    assert_eq!((check, level), ("open-files", "warning"));
    assert!(
        line.contains("4096 files may be open, and 4096 connections need"),
        "{line}"
    );
    assert_eq!(open_files(4096, Some(1 << 20)).shown().1, "ok");
    assert_eq!(open_files(4096, None).shown().1, "ok");
}

#[test]
fn a_port_that_is_taken_or_an_address_of_another_host_is_an_error() {
    let made = Made::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    // It hangs up at once, as a server of another kind may.
    std::thread::spawn(move || drop(other.accept()));
    made.expect(
        &["--listen", &address],
        "port",
        "error",
        "taken by another process",
    );
    made.expect(
        &["--admin", "192.0.2.1:7338"],
        "port",
        "error",
        "Choose an address of this host",
    );
}

#[test]
fn a_clock_that_follows_no_time_service_is_a_note() {
    let made = Made::new();
    made.say("no");
    made.expect(&[], "clock", "note", "follows no time service");
    made.say("'what?'");
    made.expect(&[], "clock", "note", "does not say");
}

#[test]
fn a_program_for_the_clock_that_says_nothing_is_not_waited_for() {
    let made = Made::new();
    made.write("timedatectl", "#!/bin/sh\nexec sleep 1000\n");
    made.expect(&[], "clock", "note", "does not say");
}

#[test]
fn a_directory_that_is_given_twice_is_an_error() {
    let made = Made::new();
    let again = format!("{}/../data", made.data());
    let both = format!("{},{again}", made.data());
    made.expect(&["--dir", &both], "directory", "error", "are one directory");
}

#[test]
fn a_file_system_that_hangs_is_an_error_after_a_while() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let hangs = move || {
        let _ = held.recv();
        directories::Looked::default()
    };
    let time = std::time::Duration::from_millis(10);
    let looked = directories::within(Path::new("/nfs"), time, hangs);
    let (check, level, line) = looked.findings[0].shown();
    assert_eq!((check, level), ("directory", "error"));
    assert!(line.contains("/nfs gives no answer"), "{line}");
    drop(release);
}

#[test]
fn a_directory_of_another_user_is_a_note_with_both_users() {
    let made = Made::new();
    let this = rustix::process::geteuid().as_raw();
    let (dir, owner, user) = match this {
        0 => (made.data(), "12345", "0 (root)".to_owned()),
        // Only the superuser gives a directory away. This one is the superuser's.
        _ => ("/".to_owned(), "0 (root)", this.to_string()),
    };
    if this == 0 {
        chown(&dir, Some(12_345), None).unwrap();
    }
    let found = made.with(&["--dir", &dir]);
    let of_owner: Vec<_> = found
        .iter()
        .filter(|one| one.0 == "directory-owner")
        .collect();
    let [(check, level, line)] = of_owner.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((*check, *level), ("directory-owner", "note"));
    let words = format!("{dir} is of user {owner}, and this command runs as user {user}");
    assert!(line.contains(&words), "{line}");
}

#[test]
fn a_program_for_the_plugin_that_cannot_run_is_a_warning() {
    let made = Made::new();
    made.write("lodestone", "");
    let path = |name: &str| made.folder.path().join(name);
    for (program, words) in [
        (path("none"), "which is not on this host"),
        (path("data"), "which is no file"),
        (path("lodestone"), "which nobody may execute"),
        ("".into(), "is empty"),
    ] {
        let setting = format!("spark.lodestone.embedded.binary={}", program.display());
        let found = of_plugin(&made.host, &Settings::named(&[setting]).unwrap());
        let (check, level, line) = found[0].shown();
        assert_eq!((check, level), ("embedded-binary", "warning"));
        assert!(line.contains(words), "{line}");
    }
    made.say("yes");
    let found = directories::program(&path("timedatectl")).unwrap();
    assert_eq!(found.shown().1, "ok");
}

#[test]
fn connections_that_encrypt_need_memory_beside() {
    let made = Made::new();
    let secret = made.folder.path().join("secret").display().to_string();
    // 512 MiB, 192 MiB beside them, and 256 MiB for 4,096 connections.
    let limit = 960_u64 << 20;
    let flags = [
        "--memory",
        "512m",
        "--max-connections",
        "4096",
        "--secrets",
        &secret,
    ];
    made.write("groups/unit/memory.max", &format!("{limit}\n"));
    assert_eq!(made.with(&flags), []);
    made.write("groups/unit/memory.max", &format!("{}\n", limit - 1));
    made.expect(&flags, "memory", "error", "needs up to 1,006.6 MB");
}
