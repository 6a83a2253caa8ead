// SPDX-License-Identifier: Apache-2.0
//! The cluster knows that an application has ended whose executors said nothing.

use lodestone_model::AppId;
use lodestone_wire::spark::register::{
    GetLocalDirsForExecutors, LocalDirsForExecutors, RegisterExecutor,
};

use crate::support::client::{app, key};
use crate::support::daemon::run_any;
use crate::support::{Client, Daemon};

/// Exit code if the service holds nothing of the application.
const NOTHING_KNOWN: Option<i32> = Some(3);

fn other() -> AppId {
    AppId::new("app-2").unwrap()
}

fn register(client: &mut Client, app: AppId, dir: &str) {
    let register = RegisterExecutor {
        app,
        exec_id: "1".to_owned(),
        local_dirs: vec![dir.to_owned()],
        sub_dirs_per_local_dir: 64,
        shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
    };
    let id = client.send_rpc(&register);
    client.answer_to(id);
}

fn directories(app: AppId) -> GetLocalDirsForExecutors {
    GetLocalDirsForExecutors {
        app,
        exec_ids: vec!["1".to_owned()],
    }
}

#[test]
fn an_operator_ends_an_application_with_its_executors_and_shuffles_and_no_other_one() {
    let daemon = Daemon::start(&["--admin", "127.0.0.1:0"]);
    let mut client = Client::connect(&daemon);
    let local = tempfile::tempdir().unwrap();
    let dir = local.path().to_str().unwrap();
    register(&mut client, app(), dir);
    register(&mut client, other(), dir);
    client.register(&key(&daemon, 1), 2, 4);
    daemon.reaches("lodestone_merge_shuffles", 1.0);
    let app_id = app();
    let end = ["end", app_id.as_str(), "--service", daemon.address()];
    let (code, out, error) = run_any(&end);
    assert_eq!(code, Some(0), "{error}");
    let dropped = format!(
        "{} has dropped all that it held of app-1\n",
        daemon.address()
    );
    assert_eq!(out, dropped);
    let (code, out, error) = run_any(&end);
    assert_eq!((code, out.as_str()), (NOTHING_KNOWN, ""));
    assert!(error.contains("nothing of app-1"), "{error}");
    assert!(
        client
            .failure(&directories(app()))
            .contains("not registered")
    );
    assert!(
        daemon
            .get("/metrics")
            .contains("\nlodestone_merge_shuffles 0")
    );
    let answer: LocalDirsForExecutors = client.ask(&directories(other()));
    assert_eq!(answer.executors.len(), 1);
}

#[test]
fn an_id_with_the_number_of_a_driver_ends_what_this_driver_has_and_nothing_else() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let local = tempfile::tempdir().unwrap();
    let dir = local.path().to_str().unwrap();
    let drivers = ["app-1~0000000000000001", "app-1~0000000000000002"];
    let [first, second] = drivers.map(|id| AppId::new(id).unwrap());
    for driver in [&first, &second] {
        register(&mut client, driver.clone(), dir);
    }
    let end = ["end", first.as_str(), "--service", daemon.address()];
    let (code, _, error) = run_any(&end);
    assert_eq!(code, Some(0), "{error}");
    let failure = client.failure(&directories(first));
    assert!(failure.contains("not registered"), "{failure}");
    let answer: LocalDirsForExecutors = client.ask(&directories(second));
    assert_eq!(answer.executors.len(), 1);
}

#[test]
fn without_a_daemon_the_error_names_its_host_and_what_is_no_id_is_refused() {
    let (code, _, error) = run_any(&["end", "app-1", "--service", "127.0.0.1:1"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("on its own host"), "{error}");
    let (code, _, error) = run_any(&["end", "a/b"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("must not look like a path"), "{error}");
}
