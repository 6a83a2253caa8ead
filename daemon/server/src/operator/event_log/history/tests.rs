// SPDX-License-Identifier: Apache-2.0
//! What a History Server may answer. The real one is in `e2e/tests/test_ui.py`.

use super::*;
use crate::cli::address::LogAddress;
use crate::operator::event_log::{EventLogError, Outcome, read as read_log};
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::TcpListener;
use std::thread;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Keeps all events.
#[derive(Default)]
struct Kept(String);

impl Events for Kept {
    fn wants(&self, _: &[u8]) -> bool {
        true
    }

    fn take(&mut self, _: &[u8], line: &[u8]) {
        self.0 += &String::from_utf8_lossy(line);
    }
}

/// Answers one request, and returns its first line, what was read and what came of it.
fn answered(
    page: &str,
    status: &str,
    body: Vec<u8>,
) -> (String, String, Result<Outcome, EventLogError>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let serving = thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        lines.find(|line| line.as_ref().unwrap().is_empty());
        socket.write_all(head.as_bytes()).unwrap();
        // A client that does not like the status may be gone.
        let _ = socket.write_all(&body);
        first
    });
    let address: LogAddress = format!("{server}{page}").parse().unwrap();
    let mut kept = Kept::default();
    let outcome = read_log(&address, &mut kept);
    (serving.join().unwrap(), kept.0, outcome)
}

fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in entries {
        let options = SimpleFileOptions::default();
        writer.start_file(*name, options).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn event(name: &str) -> String {
    format!("{{\"Event\":\"{name}\"}}\n")
}

#[test]
fn the_page_of_an_application_names_its_log_and_a_rolling_log_is_read_in_order() {
    let parts = [event("second"), event("tenth"), event("others")];
    let sent = archive(&[
        ("eventlog_v2_app-1_1/events_1_app-1_1", &parts[2]),
        ("eventlog_v2_app-1_2/events_10_app-1_2", &parts[1]),
        ("eventlog_v2_app-1_2/appstatus_app-1_2", ""),
        ("eventlog_v2_app-1_2/events_2_app-1_2", &parts[0]),
    ]);
    let (request, read, outcome) = answered("/spark/history/app-1/2/jobs/?id=3", "200 OK", sent);
    assert!(
        request.starts_with("GET /spark/api/v1/applications/app-1/2/logs "),
        "{request}"
    );
    assert_eq!(read, parts[..2].concat());
    let notes = outcome.unwrap().notes;
    assert!(notes[0].starts_with("2 attempts are there"), "{notes:?}");
}

#[test]
fn a_log_in_one_file_is_read_and_the_pages_name_is_no_attempt() {
    let text = event("first");
    let sent = archive(&[("app-1.inprogress", &text)]);
    let (request, read, outcome) = answered("/history/app-1/jobs/", "200 OK", sent);
    assert!(
        request.contains("/api/v1/applications/app-1/logs "),
        "{request}"
    );
    assert_eq!(read, text);
    assert!(outcome.unwrap().notes.is_empty());
}

#[test]
fn what_is_no_log_says_what_to_do() {
    let said = |status: &str, body: &str| {
        let (_, _, outcome) = answered("/history/app-1/", status, body.into());
        outcome.unwrap_err().to_string()
    };
    assert!(said("401 Unauthorized", "").contains("wants a login"));
    assert!(said("403 Forbidden", "").contains("spark.history.fs.logDirectory"));
    assert!(said("404 Not Found", "no such app").contains("knows no app-1"));
    assert!(said("500 Server Error", "").contains("see the log of the History Server"));
    assert!(said("200 OK", "<html>").contains("is it a History Server?"));
    let cut = &archive(&[("app-1", &event("first"))])[..40];
    let (_, _, outcome) = answered("/history/app-1/", "200 OK", cut.to_vec());
    assert!(outcome.is_err());
    // Nobody listens there any more.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let address: LogAddress = format!("http://{port}/history/app-1").parse().unwrap();
    let refused = read_log(&address, &mut Kept::default()).unwrap_err();
    assert!(refused.to_string().contains("address of a History Server"));
}

#[test]
fn an_address_without_an_application_says_what_to_copy() {
    for text in [
        "http://host:18080",
        "https://host/history/",
        "HTTP://host:1/jobs/",
    ] {
        let refused = text.parse::<LogAddress>().unwrap_err();
        assert!(refused.to_string().contains("copy the address"), "{text}");
    }
    assert!(matches!("/logs/http".parse(), Ok(LogAddress::Path(_))));
}

#[test]
fn the_tenth_attempt_is_later_than_the_ninth_and_a_file_is_in_order_with_folders() {
    let parts = [event("earlier"), event("last")];
    for (earlier, last) in [
        (
            "eventlog_v2_a_9/events_1_a_9",
            "eventlog_v2_a_10/events_1_a_10",
        ),
        ("eventlog_v2_app_1/events_1_app_1", "app_2"),
    ] {
        let sent = archive(&[(earlier, &parts[0]), (last, &parts[1])]);
        let (_, read, _) = answered("/history/a/", "200 OK", sent);
        assert_eq!(read, parts[1]);
    }
}

#[test]
fn a_compacted_log_says_that_jobs_are_missing() {
    let text = event("first");
    let sent = archive(&[("eventlog_v2_a/events_1_a.compact", &text)]);
    let (_, _, outcome) = answered("/history/a/", "200 OK", sent);
    let notes = outcome.unwrap().notes;
    assert!(notes[0].contains("compacted"), "{notes:?}");
}

#[test]
fn addresses_name_files_and_servers_but_no_passwords_and_no_other_file_systems() {
    for text in [
        "file:/logs/a",
        "file:///logs/a",
        "file://localhost/logs/a",
        "/logs/a",
    ] {
        let address: LogAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), "/logs/a");
    }
    for text in [
        "http://user:secret@host/history/a",
        "s3a://user:secret@bucket/a",
    ] {
        let said = text.parse::<LogAddress>().unwrap_err().to_string();
        assert!(
            said.contains("password") && !said.contains("secret"),
            "{said}"
        );
    }
    let said = "hdfs://name/logs/a".parse::<LogAddress>().unwrap_err();
    assert!(said.to_string().contains("copy the log"), "{said}");
    let below: LogAddress = "https://host/history/of/history/app-1/".parse().unwrap();
    assert_eq!(below.to_string(), "https://host/history/of/history/app-1");
}

#[test]
fn the_command_line_takes_any_path_and_repeats_no_password() {
    use clap::Parser;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let asked = |log: &OsStr| {
        let words = ["lodestone", "plan", "--event-log"].map(OsStr::new);
        crate::cli::Command::try_parse_from(words.into_iter().chain([log]))
    };
    assert!(asked(OsStr::from_bytes(b"/logs/\xff")).is_ok());
    let refused = asked(OsStr::new("http://user:secret@host/history/a")).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("leave them out") && !said.contains("secret"),
        "{said}"
    );
}
