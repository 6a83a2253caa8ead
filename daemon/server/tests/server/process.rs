// SPDX-License-Identifier: Apache-2.0
//! Starting, stopping, and agreeing on one daemon.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::client::{batch, key, read};
use crate::support::daemon::{TEST_TIMEOUT, run};
use crate::support::{Client, Daemon};
use lodestone_model::Code;
use lodestone_wire::Frame;
use lodestone_wire::extension::push::PushBatchReply;
use rustix::process::Signal;

/// Its process does not exist.
const LINE_OF_A_CRASHED_DAEMON: &str = "lodestone ready listen=127.0.0.1:1 pid=999999999\n";

#[test]
fn a_start_that_fails_says_in_two_lines_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let config = dir.path().join("daemon.toml");
    std::fs::write(&config, "memroy = '1g'").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (file, config) = (file.to_str().unwrap(), config.to_str().unwrap());
    // A disk may be mounted later, and a file be there. Wrong settings stay wrong.
    for (arguments, expected_code, expected) in [
        (
            &["--dir", "/does/not/exist"][..],
            1,
            "/does/not/exist does not exist: create it",
        ),
        (&["--dir", file], 1, "is not a directory"),
        (&["--dir", "/proc"], 1, "/proc"),
        (
            &["--listen", &taken],
            1,
            "the port is taken by another process",
        ),
        (
            &["--listen", "192.0.2.1:7337"],
            1,
            "choose an address of this host",
        ),
        (
            &["--config", config],
            2,
            "there is no key `memroy`; did you mean `memory`?",
        ),
        (
            &["--config", "/does/not/exist"],
            1,
            "--config /does/not/exist: ",
        ),
        (
            &["--announce", "/does/not/exist"],
            1,
            "--announce /does/not/exist: ",
        ),
        (
            &["--executor-root", "/a,file:///nm/local"],
            2,
            "`executor-root`: `file:///nm/local` is no absolute path, such as /data1/local",
        ),
    ] {
        let (code, out, error) = run(dir.path(), arguments);
        assert_eq!(code, Some(expected_code), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?} gave {error:?}");
        assert!(error.lines().count() <= 2, "{arguments:?} gave {error:?}");
        assert_eq!(out, "");
    }
    let (code, _, error) = run(dir.path(), &["--lisen", "x"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--listen"), "{error}");
    let (code, _, error) = run(dir.path(), &["--memory", "lots"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("--memory") && error.contains("write it as in 512MiB"),
        "{error}"
    );
}

#[test]
fn a_configuration_file_does_what_flags_do() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("daemon.toml");
    std::fs::write(
        &config,
        "admin = '127.0.0.1:0'\nlog-format = 'json'\nmemory = '20MiB'",
    )
    .unwrap();
    let daemon = Daemon::start(&["--config", config.to_str().unwrap()]);
    assert!(daemon.admin().starts_with("127.0.0.1:"));
    let line = daemon.logged("ready");
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["level"], "INFO");
}

/// A user that no file of the tests belongs to otherwise.
const STRANGER: u32 = 54_321;

/// Starts five daemons with this announce file. Returns the one that serves.
fn serving_of_five(file: &Path) -> Daemon {
    let announce = ["--announce", file.to_str().unwrap()];
    let mut daemons: Vec<Daemon> = (0..5)
        .map(|_| Daemon::launch(tempfile::tempdir().unwrap(), &announce))
        .collect();
    let lines: Vec<String> = daemons.iter_mut().map(Daemon::line).collect();
    let serving: Vec<&String> = lines
        .iter()
        .filter(|line| !line.contains("existing"))
        .collect();
    assert_eq!(serving.len(), 1, "{lines:?}");
    let passed_on = format!("{} existing=true", serving[0]);
    for (daemon, line) in daemons.iter_mut().zip(&lines) {
        if line != serving[0] {
            assert_eq!(*line, passed_on);
            assert_eq!(daemon.ended().code(), Some(0));
        } else {
            daemon.ready = line.clone();
        }
    }
    let mut found = daemons.into_iter();
    found.find(|daemon| !daemon.ready.is_empty()).unwrap()
}

#[test]
fn of_daemons_with_one_announce_file_one_serves_and_the_others_name_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("announce");
    std::fs::write(&file, LINE_OF_A_CRASHED_DAEMON).unwrap();
    let mut winner = serving_of_five(&file);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        format!("{}\n", winner.ready)
    );
    winner.signal(Signal::TERM);
    assert_eq!(winner.ended().code(), Some(0));
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "",
        "nobody serves any more"
    );
}

#[test]
fn a_daemon_that_is_to_stay_ends_with_the_process_that_started_it_and_others_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let start = |name: &str, more: &[&str]| {
        let file = dir.path().join(name);
        Daemon::start(&[&["--announce", file.to_str().unwrap()], more].concat())
    };
    let mut stays = start("stays", &["--stay"]);
    let mut leaves = start("leaves", &[]);
    assert!(stays.is_in_our_group());
    assert!(!leaves.is_in_our_group());
    stays.end_input();
    leaves.end_input();
    assert!(stays.ended().success());
    Client::connect(&leaves);
}

#[test]
fn a_daemon_that_is_to_stay_is_refused_an_input_that_nobody_holds_before_it_opens_anything() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("announce");
    let stay = ["--stay", "--announce", file.to_str().unwrap()];
    for input in [Stdio::null(), File::open(dir.path()).unwrap().into()] {
        let mut command = crate::support::daemon::command(dir.path(), &stay);
        let output = command.stdin(input).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("leave `stay` out"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = crate::support::daemon::command(dir.path(), &stay);
    let input = OwnedFd::from(theirs);
    let mut child = command.stdin(input).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop((command, ours));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_daemon_whose_starter_ends_before_it_is_ready_serves_the_next_one_that_looks_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("announce");
    let announce = ["--announce", file.to_str().unwrap()];
    let mut child = crate::support::daemon::command(dir.path(), &announce)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_ready = |line: std::io::Result<String>| line.unwrap().contains(" ready ");
    assert!(log.any(is_ready), "it ended");
    let mut next = Daemon::launch(tempfile::tempdir().unwrap(), &announce);
    let line = next.line();
    assert!(line.contains(&format!("pid={} ", child.id())), "{line}");
    assert!(line.ends_with("existing=true"), "{line}");
    next.ready = line;
    Client::connect(&next);
    let stopped = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(stopped, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_link_or_a_file_of_another_name_or_owner_in_place_of_the_announce_file_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("announce"), dir.path().join("other"));
    let plantings: [fn(&Path, &Path) -> std::io::Result<()>; 3] = [
        |other, file| symlink(other, file),
        |other, file| std::fs::hard_link(other, file),
        |other, file| {
            std::fs::copy(other, file)?;
            chown(file, Some(STRANGER), None)
        },
    ];
    for plant in plantings {
        std::fs::write(&other, LINE_OF_A_CRASHED_DAEMON).unwrap();
        plant(&other, &file).unwrap();
        let winner = serving_of_five(&file);
        assert_eq!(
            std::fs::read_to_string(&other).unwrap(),
            LINE_OF_A_CRASHED_DAEMON
        );
        let found = std::fs::symlink_metadata(&file).unwrap();
        assert!(found.is_file());
        assert_eq!(
            (found.uid(), found.nlink()),
            (0, 1),
            "run this test as root"
        );
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            format!("{}\n", winner.ready)
        );
        drop(winner);
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_daemon_whose_announce_file_gets_another_name_or_owner_stays_the_only_one() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("announce"), dir.path().join("other"));
    let announce = ["--announce", file.to_str().unwrap()];
    let mut first = Daemon::start(&announce);
    std::fs::hard_link(&file, &other).unwrap();
    let mut second = Daemon::launch(tempfile::tempdir().unwrap(), &announce);
    assert_eq!(second.line(), format!("{} existing=true", first.ready));
    assert_eq!(second.ended().code(), Some(0));
    std::fs::remove_file(&other).unwrap();
    // A line of another user may name any address: it is not passed on.
    chown(&file, Some(STRANGER), None).unwrap();
    let mut third = Daemon::launch(tempfile::tempdir().unwrap(), &announce);
    third.logged("a process holds this file, which another user owns; name another");
    assert_eq!(third.ended().code(), Some(1));
    first.signal(Signal::TERM);
    assert_eq!(first.ended().code(), Some(0));
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "",
        "it was its own"
    );
}

#[test]
fn an_announce_file_without_content_after_a_loss_of_power_does_not_stop_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("announce");
    for content in [&[0; 70][..], b"\0\0\n", b"  \n"] {
        std::fs::write(&file, content).unwrap();
        let daemon = Daemon::start(&["--announce", file.to_str().unwrap()]);
        let line = std::fs::read_to_string(&file).unwrap();
        assert_eq!(line, format!("{}\n", daemon.ready), "{content:?}");
    }
}

#[test]
fn a_file_that_no_daemon_wrote_is_not_emptied_as_an_announce_file() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["notes", "link", "device", "zeros"];
    let [notes, link, device, zeros] = names.map(|name| dir.path().join(name));
    std::fs::write(&notes, "buy milk").unwrap();
    std::fs::write(&zeros, "\0\0\0\0\0\0\0\0\0\0\0\0\0 a mark").unwrap();
    symlink("/dev/null", &device).unwrap();
    std::fs::hard_link(&notes, &link).unwrap();
    let null = Path::new("/dev/null");
    for (file, what) in [
        (&*notes, "this file has other content"),
        (&*link, "this file has other content"),
        (&*zeros, "this file has other content"),
        (&*device, "this is no file"),
        (null, "this is no file"),
    ] {
        let announce = ["--announce", file.to_str().unwrap()];
        let mut daemon = Daemon::launch(tempfile::tempdir().unwrap(), &announce);
        let expected = format!("--announce {}: {what}; name another", file.display());
        daemon.logged(&expected);
        assert_eq!(daemon.ended().code(), Some(1), "{}", file.display());
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "buy milk");
    assert!(std::fs::symlink_metadata(&device).unwrap().is_symlink());
}

#[test]
fn a_data_directory_that_other_users_may_change_is_named_in_the_log_with_its_mode() {
    for (mode, is_named) in [
        (0o2775, true),
        (0o777, true),
        (0o1777, false),
        (0o755, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        let name = dir.path().canonicalize().unwrap().display().to_string();
        let daemon = Daemon::launch(dir, &[]);
        let mut log = vec![daemon.logged("")];
        while !log.iter().any(|line| line.contains("lodestone ready")) {
            log.push(daemon.logged(""));
        }
        let warning = log.iter().find(|line| line.contains("chmod go-w"));
        assert_eq!(warning.is_some(), is_named, "{mode:o}: {log:?}");
        let names = |line: &String| line.contains(&name) && line.contains(&format!("{mode:o}"));
        assert!(warning.is_none_or(names), "{warning:?}");
    }
}

#[test]
fn a_killed_daemon_leaves_nothing_in_the_way_of_the_next() {
    let file_dir = tempfile::tempdir().unwrap();
    let file = file_dir.path().join("announce");
    let announce = ["--announce", file.to_str().unwrap()];
    let mut first = Daemon::start(&announce);
    let old = first.incarnation();
    first.signal(Signal::KILL);
    assert_eq!(first.ended().code(), None);
    let dir = first.dir.path().to_str().unwrap();
    let left = || std::fs::read_dir(first.dir.path()).unwrap().count();
    assert_eq!(left(), 1, "a killed daemon cleans nothing up");
    let next = Daemon::start(&["--announce", announce[1], "--dir", dir]);
    assert_ne!(next.incarnation(), old);
    assert_eq!(
        left(),
        1,
        "the next one removed what was left, and has its own"
    );
}

#[test]
fn without_connections_the_daemon_goes_after_a_while_and_not_before() {
    let mut daemon = Daemon::start(&["--idle-exit", "300ms"]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 4, 4);
    // Longer than the limit: nothing ends while this client is connected.
    let quiet = Duration::from_millis(900);
    client.socket.set_read_timeout(Some(quiet)).unwrap();
    let nothing = std::io::Read::read(&mut client.socket, &mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    client.socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    assert_eq!(client.push(&key, 0, 1, &[(0, b"still here")]), [Code::Ok]);
    drop(client);
    assert_eq!(daemon.ended().code(), Some(0));
    assert_eq!(
        std::fs::read_dir(daemon.dir.path()).unwrap().count(),
        0,
        "its files are gone"
    );
}

#[test]
fn a_daemon_that_is_asked_to_stop_answers_the_requests_it_took() {
    let mut daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 1000, 1);
    let mut ids = Vec::new();
    for map in 0..50 {
        let (meta, body) = batch(&key, map, 1, &[(0, &[map as u8; 50_000])]);
        ids.push(client.send_upload(&meta, &body));
    }
    // The first answer shows that the daemon is in the middle of it.
    let mut answered = 0;
    let mut check = |frame: Frame| match frame {
        Frame::RpcResponse { request_id, body } => {
            assert!(ids.contains(&request_id));
            assert_eq!(read::<PushBatchReply>(&body).codes, [Code::Ok]);
            answered += 1;
        }
        other => panic!("instead of an answer: {other:?}"),
    };
    check(client.receive().unwrap());
    daemon.signal(Signal::TERM);
    // Whole answers until the end, and no half one.
    while let Some(frame) = client.receive() {
        check(frame);
    }
    assert!(answered >= 1);
    assert_eq!(daemon.ended().code(), Some(0));
    assert!(
        std::net::TcpStream::connect(daemon.address()).is_err(),
        "it still listens"
    );
    assert_eq!(
        std::fs::read_dir(daemon.dir.path()).unwrap().count(),
        0,
        "its files are gone"
    );
}

#[test]
fn a_client_that_does_not_read_cannot_keep_the_daemon_from_stopping() {
    let mut daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 1, 1);
    let (meta, body) = batch(&key, 0, 1, &[(0, &[7; 1000])]);
    // A body that never ends.
    client.begin_upload(&meta, &body, 10);
    daemon.signal(Signal::INT);
    assert_eq!(daemon.ended().code(), Some(0));
    assert_eq!(client.receive(), None);
}

#[test]
fn a_daemon_that_is_asked_to_stop_again_after_a_while_ends_at_once() {
    let mut daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.ask_for_more_than_sockets_hold(&key);
    daemon.signal(Signal::TERM);
    daemon.logged("a signal asks the daemon to stop");
    // The signals of the first second are one wish; after it the next one is another.
    let since = Instant::now();
    while !daemon.logs_within("ending at once", Duration::from_millis(200)) {
        assert!(
            since.elapsed() < TEST_TIMEOUT,
            "the second wish is not heard"
        );
        daemon.signal(Signal::TERM);
    }
    assert_eq!(daemon.ended().code(), Some(1));
}

#[test]
fn the_help_explains_the_first_steps() {
    let dir = tempfile::tempdir().unwrap();
    let (code, help, _) = run(dir.path(), &["--help"]);
    assert_eq!(code, Some(0));
    for word in [
        "--dir",
        "Example: lodestone serve",
        "SIGTERM",
        "[default: 512MiB]",
    ] {
        assert!(help.contains(word), "no {word:?} in {help}");
    }
}

/// Starts a daemon, calls `handle` with it, makes it log this many lines, and stops it.
fn has_its_log(handle: impl FnOnce(&mut Child), lines: usize) {
    let dir = tempfile::tempdir().unwrap();
    let mut child = crate::support::daemon::command(dir.path(), &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    handle(&mut child);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .split(' ')
        .find_map(|word| word.strip_prefix("listen="))
        .unwrap();
    for _ in 0..lines {
        let mut client = Client::over(std::net::TcpStream::connect(address).unwrap());
        client.socket.write_all(&[0xff; 20]).unwrap();
        assert_eq!(
            client.receive(),
            None,
            "closed, with a line in the log that goes nowhere"
        );
    }
    let stopped = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(stopped, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_daemon_without_a_reader_of_its_log_continues() {
    has_its_log(|child| drop(child.stderr.take()), 3);
}

#[test]
fn a_daemon_whose_log_is_full_or_hangs_goes_on() {
    // More than a pipe holds.
    has_its_log(|_| (), 1500);
}
