// SPDX-License-Identifier: Apache-2.0
//! Each check has a test that plants its fault. This list names one for each, and a test reads its
//! source: it is there, it runs, and one of its statements wants the check at its worst level.

use std::collections::BTreeSet;

use crate::operator::doctor::{configuration, host, job, services};

const JOBS: &str = include_str!("../../../../../../e2e/tests/test_doctor.py");
const DAEMONS: &str = include_str!("../../../../tests/server/doctor.rs");
const SETTINGS: &str = include_str!("../configuration/tests.rs");
const CLUSTERS: &str = include_str!("../configuration/tests/clusters.rs");
const SERVICES: &str = include_str!("../services/tests.rs");
const HOST: &str = include_str!("../host/tests.rs");
const CERTIFICATES: &str = include_str!("../host/certificates/tests.rs");
const LOGS: &str = include_str!("../job/tests.rs");
const ALL: &str = include_str!("../tests.rs");

/// Where a test is, its name, and the checks whose faults it plants.
type Planted = (&'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const PLANTED: &[Planted] = &[
    (SETTINGS, "each_setting_that_leaves_all_shuffles_to_spark_is_an_error_with_its_reason",
        &["shuffle-manager", "spark-push", "custom-shuffle-io", "old-fetch-protocol"]),
    (SETTINGS, "keys_that_stop_an_application_at_its_start_name_the_right_key_or_value",
        &["key", "value", "limits"]),
    (SETTINGS, "a_value_with_a_reference_is_a_note_and_no_check_takes_its_text_for_the_value",
        &["reference"]),
    (SETTINGS, "settings_without_a_master_say_which_checks_are_left_out",
        &["master"]),
    (SETTINGS, "each_setting_of_security_that_services_do_not_have_is_an_error_with_its_reason",
        &["cipher-unknown", "secret-not-shared", "rpc-encryption"]),
    (SETTINGS, "tls_without_the_keys_that_spark_looks_for_stops_it_at_its_start",
        &["tls-keys"]),
    (SETTINGS,
        "a_serializer_and_a_codec_that_leave_shuffles_to_spark_are_warnings_except_in_mode_remote",
        &["serializer-not-relocatable", "codec-not-concatenable"]),
    (SETTINGS, "an_engine_without_its_manager_names_the_manager",
        &["engine", "other-service"]),
    (SETTINGS, "an_engine_with_its_manager_still_needs_mode_remote_and_does_not_encrypt",
        &["engine-shuffle", "engine-not-encrypted"]),
    (SETTINGS, "a_jar_of_another_spark_or_one_that_is_not_here_is_found",
        &["jar"]),
    (CLUSTERS, "traps_of_dynamic_allocation_and_of_mode_remote_are_found",
        &["dynamic-allocation", "remote-defaults"]),
    (CLUSTERS, "traps_of_yarn_and_kubernetes_are_found",
        &["remote-embedded", "host-name-cache", "memory-overhead", "local-dirs-tmpfs"]),
    (CLUSTERS, "a_service_that_each_executor_would_look_for_on_its_own_host_is_found",
        &["loopback"]),
    (SERVICES, "an_address_that_is_none_or_leads_nowhere_is_an_error",
        &["address"]),
    (JOBS, "test_a_drained_service_and_one_that_is_down_are_errors",
        &["reach"]),
    (SERVICES, "a_port_where_nobody_listens_and_one_of_another_program_are_errors",
        &["protocol"]),
    (SERVICES, "services_of_other_versions_are_a_note",
        &["version"]),
    (JOBS, "test_a_service_whose_only_disk_failed_is_an_error",
        &["state"]),
    (DAEMONS, "two_addresses_of_one_daemon_are_an_error",
        &["same-service"]),
    (DAEMONS, "a_service_with_secrets_needs_an_application_with_the_same_one",
        &["secret"]),
    (DAEMONS,
        "a_service_that_takes_only_encrypted_connections_needs_an_application_that_encrypts",
        &["encryption"]),
    (DAEMONS, "a_service_without_a_certificate_does_not_fit_an_application_with_tls",
        &["tls"]),
    (JOBS,
        "test_a_service_that_shows_an_expired_certificate_or_one_that_nobody_signed_is_an_error",
        &["tls-certificate"]),
    (JOBS, "test_a_service_whose_clock_differs_is_a_warning_with_the_seconds",
        &["service-clock"]),
    (ALL, "flags_of_serve_that_serve_refuses_are_a_finding",
        &["flags"]),
    (JOBS, "test_a_disk_that_fails_is_an_error_and_is_to_be_replaced",
        &["directory"]),
    (HOST, "a_directory_that_others_may_write_to_is_a_warning_unless_it_is_sticky",
        &["directory-access"]),
    (HOST, "a_directory_of_another_user_is_a_note_with_both_users",
        &["directory-owner"]),
    (JOBS, "test_a_small_disk_in_memory_has_no_room_for_a_daemon_and_stays_empty",
        &["room", "file-system"]),
    (HOST, "two_directories_on_one_disk_are_a_warning",
        &["same-disk"]),
    (JOBS, "test_a_disk_that_is_slow_is_a_warning_with_its_speed_and_keeps_nothing",
        &["speed"]),
    (JOBS, "test_a_local_directory_where_no_program_may_run_is_a_warning",
        &["noexec"]),
    (HOST, "a_program_for_the_plugin_that_cannot_run_is_a_warning",
        &["embedded-binary"]),
    (HOST, "memory_that_does_not_fit_into_the_host_or_the_control_group_is_an_error",
        &["memory"]),
    (JOBS, "test_a_limit_of_open_files_that_is_too_low_is_a_warning",
        &["open-files"]),
    (CERTIFICATES, "a_certificate_that_expired_or_is_not_valid_yet_is_an_error",
        &["certificate"]),
    (CERTIFICATES, "a_key_that_any_user_can_read_is_a_warning_unless_nobody_can_come_to_it",
        &["key-file"]),
    (HOST, "a_port_that_is_taken_or_an_address_of_another_host_is_an_error",
        &["port"]),
    (HOST, "a_clock_that_follows_no_time_service_is_a_note",
        &["clock"]),
    (LOGS, "the_settings_of_the_application_are_checked_even_without_a_report",
        &["report"]),
    (LOGS, "an_application_in_which_nothing_was_merged_gets_the_remedy_with_the_sums",
        &["sums"]),
    (LOGS, "what_cost_most_comes_first_with_its_remedy",
        &["rerun", "left-to-spark", "originals", "waited"]),
    (LOGS, "a_reason_beside_these_is_named_and_an_unknown_one_leads_to_its_page",
        &["trouble"]),
    (LOGS, "a_service_that_the_driver_gave_up_is_a_warning",
        &["service-at-end"]),
];

/// The indentation of the statements of a test.
const FIRST: usize = 4;

/// Returns the statements of a test. Each begins at the first indentation, where also the brackets
/// are that close it. An assertion in the body of a loop or of a block is a statement of its own:
/// one assertion with the check and another with a level want nothing together.
fn statements(body: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    // What is further in belongs to the statement.
    let mut depth = FIRST;
    for line in body.lines() {
        let text = line.trim_start();
        let at = line.len() - text.len();
        let is_assertion = text.starts_with("assert");
        let goes_on = text.is_empty() || text.starts_with([')', ']', '}', '.']);
        if !goes_on && (is_assertion || (FIRST..=depth).contains(&at)) {
            found.push(String::new());
            depth = if is_assertion { at } else { FIRST };
        }
        found.last_mut().unwrap().push_str(line);
    }
    found
}

/// Returns the source of a test, up to the next item, with what is before its name.
fn source(file: &'static str, test: &str) -> Option<(&'static str, &'static str)> {
    let names = [format!("\nfn {test}()"), format!("\ndef {test}(")];
    let at = names.iter().find_map(|name| file.find(name.as_str()))?;
    let (before, rest) = file.split_at(at);
    // What follows begins at the margin, and so do the ends of signatures and of functions.
    let is_next = |(at, _): &(usize, &str)| {
        let next = rest.get(at + 1..).unwrap_or_default();
        *at > 0 && next.starts_with(|begin: char| begin.is_alphabetic() || "@#/".contains(begin))
    };
    let end = rest.match_indices('\n').find(is_next);
    let body = &rest[..end.map_or(rest.len(), |(at, _)| at)];
    Some((before.lines().next_back().unwrap_or_default(), body))
}

#[test]
fn each_check_has_a_test_that_plants_its_fault_and_wants_its_worst_level() {
    let areas = [
        configuration::checks::ALL,
        services::checks::ALL,
        host::checks::ALL,
        job::checks::ALL,
    ];
    let all: Vec<_> = areas.into_iter().flatten().collect();
    let names: Vec<_> = all.iter().map(|check| check.name).collect();
    let mut planted: Vec<_> = PLANTED.iter().flat_map(|(.., checks)| *checks).collect();
    planted.sort();
    let mut expected: Vec<_> = names.iter().collect();
    expected.sort();
    assert_eq!(planted, expected, "each check once, and no others");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for (file, test, checks) in PLANTED {
        let Some((before, body)) = source(file, test) else {
            panic!("there is no test {test}");
        };
        let runs = before == "#[test]" || test.starts_with("test_");
        assert!(
            runs && !before.contains("seldom"),
            "{test} does not run: {before}"
        );
        for name in *checks {
            let worst = all.iter().find(|one| one.name == *name).unwrap().worst;
            let words = [name, worst.name()].map(|word| format!("\"{word}\""));
            let wants = |one: &String| words.iter().all(|word| one.contains(word));
            assert!(
                statements(body).iter().any(wants),
                "no statement of {test} has both of {words:?}"
            );
        }
    }
}

#[test]
fn a_level_in_another_statement_than_its_check_does_not_count() {
    let lines = [
        "fn t() {",
        "    expect(",
        "        \"a\",",
        "    );",
        "    for x in [",
        "        1,",
        "    ] {",
        "        b();",
        "    }",
        "}",
    ];
    let found = statements(&lines.join("\n"));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[1].contains("\"a\"") && !found[1].contains("for"));
    assert!(found[2].contains("b();"));
}

#[test]
fn a_level_in_another_assertion_of_a_loop_than_its_check_does_not_count() {
    let lines = [
        "def test_t():",
        "    for x in seen:",
        "        assert \"a\" in x",
        "        assert (",
        "            x.level",
        "            == \"error\"",
        "        ), x",
        "        y = \"later\"",
        "        use(y)",
    ];
    let found = statements(&lines.join("\n"));
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found[2].contains("\"a\"") && !found[2].contains("\"error\""));
    assert!(found[3].contains("\"error\"") && !found[3].contains("\"later\""));
    assert!(found[4].contains("use(y)"));
}
