// SPDX-License-Identifier: Apache-2.0
//! The reports of drivers, and the output of `lodestone explain`.

use std::thread;

use crate::support::client::app;
use crate::support::daemon::run_any;
use crate::support::inside::Inside;
use crate::support::{Client, Daemon};
use lodestone_model::{AppAttempt, AppId, Code};
use lodestone_store::Environment;
use lodestone_wire::extension::explain::{ExplainApplication, Explanation, ReportApplication};
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::{Done, Refused};

const REPORT: &str = concat!(
    r#"{"totals":{"shuffles":1,"merged":1,"reasons":{"LOCAL_MAP_READ":7}},"#,
    r#""sentences":{"LOCAL_MAP_READ":"in place"}}"#
);

fn report(app: AppId, ended: bool, report: &str) -> ReportApplication {
    ReportApplication {
        app,
        app_attempt: AppAttempt::NONE,
        ended,
        report: report.to_owned(),
    }
}

#[test]
fn the_report_of_a_driver_is_available_after_the_end_of_its_application() {
    let daemon = Daemon::start(&[]);
    let mut driver = Client::connect(&daemon);
    let reply: Done = driver.ask(&report(app(), false, "{}"));
    assert_eq!(reply.incarnation, daemon.incarnation());
    let _: Done = driver.ask(&report(app(), true, REPORT));
    let (app, app_attempt) = (app(), AppAttempt::NONE);
    let _: Done = driver.ask(&EndApplication { app, app_attempt });

    let (code, out, error) = run_any(&["explain", "app-1", "--service", daemon.address()]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(out.starts_with("app-1: ended 0 s ago"), "{out}");
    assert!(
        out.contains("1 shuffles: 1 merged, 0 left to plain Spark"),
        "{out}"
    );
    assert!(out.contains("LOCAL_MAP_READ  7  in place"), "{out}");

    let (_, out, _) = run_any(&["explain", "app-1", "--json", "--service", daemon.address()]);
    assert_eq!(out, format!("{REPORT}\n"));
    let (_, out, _) = run_any(&["explain", "--service", daemon.address()]);
    assert!(out.starts_with("app-1: ended 0 s ago"), "{out}");
}

#[test]
fn a_client_that_takes_no_reports_has_a_share_of_the_memory_for_answers() {
    let daemon = Inside::with_memory(Environment::os(), 64 << 20);
    let text = format!("\"{}\"", "x".repeat(200_000));
    let _: Done = daemon.connect().ask(&report(app(), false, &text));
    let question = ExplainApplication {
        app: app().as_str().to_owned(),
    };
    let mut greedy = daemon.connect();
    for _ in 0..64 {
        greedy.send_rpc(&question);
    }
    let layouts = &daemon.service.layouts;
    let share = layouts.capacity_bytes() / 8;
    // Its sockets hold some answers.
    while layouts.used_bytes() < share / 2 {
        thread::yield_now();
    }
    // Before the other client asks, whose answer takes memory too.
    assert!(layouts.used_bytes() <= share);
    let answer: Explanation = daemon.connect().ask(&question);
    assert_eq!(answer.applications.len(), 1);
    drop(greedy);
    daemon.stop();
}

#[test]
fn of_several_services_the_one_with_the_last_report_is_believed() {
    let (old, new) = (Daemon::start(&[]), Daemon::start(&[]));
    let _: Done = Client::connect(&old).ask(&report(app(), false, r#"{"totals":{"shuffles":1}}"#));
    let _: Done = Client::connect(&new).ask(&report(app(), true, r#"{"totals":{"shuffles":22}}"#));
    let both = format!("{},{}", old.address(), new.address());
    let (code, out, _) = run_any(&["explain", "app-1", "--service", &both]);
    assert_eq!(code, Some(0));
    assert!(out.contains("22 shuffles"), "{out}");
    assert_eq!(out.matches("app-1").count(), 1, "{out}");
}

#[test]
fn a_failed_explain_says_why_and_what_to_do() {
    let daemon = Daemon::start(&[]);
    let address = daemon.address().to_owned();
    let (code, _, error) = run_any(&["explain", "app-9", "--service", &address]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no report of application app-9"), "{error}");
    let (code, out, _) = run_any(&["explain", "--service", &address]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "no application has reported yet\n")
    );

    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = unused.local_addr().unwrap().to_string();
    drop(unused);
    let (code, _, error) = run_any(&["explain", "app-9", "--service", &nobody]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("no service answered") && error.contains(&nobody),
        "{error}"
    );
    let (code, _, error) = run_any(&["explain", "app-9", "--service", "here"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("here: "), "{error}");
}

#[test]
fn a_report_that_is_too_large_is_refused_and_the_last_one_kept() {
    let daemon = Daemon::start(&["--memory", "16MiB"]);
    let mut driver = Client::connect(&daemon);
    let _: Done = driver.ask(&report(app(), false, REPORT));
    let refused: Refused = driver.ask(&report(app(), false, &"x".repeat(100_000)));
    assert_eq!(refused.code, Code::TooLarge, "{refused:?}");
    let (_, out, _) = run_any(&["explain", "app-1", "--json", "--service", daemon.address()]);
    assert_eq!(out, format!("{REPORT}\n"));
}

#[test]
fn reports_under_names_that_anybody_makes_up_do_not_drive_out_that_of_an_application() {
    let daemon = Inside::start(Environment::os());
    let (mut driver, mut other) = (daemon.connect(), daemon.connect());
    driver.register(&daemon.key(1), 1, 1);
    let _: Done = driver.ask(&report(app(), false, REPORT));
    for number in 0..1_100 {
        let made_up = AppId::new(&format!("made-up-{number}")).unwrap();
        let _: Done = other.ask(&report(made_up, false, "{}"));
    }
    let app = app().as_str().to_owned();
    let answer: Explanation = driver.ask(&ExplainApplication { app });
    assert_eq!(answer.applications.len(), 1);
    daemon.stop();
}
