// SPDX-License-Identifier: Apache-2.0
//! Each rule on a snippet that keeps it and one that breaks it.

use super::*;

fn repository(files: &[(&str, &str)]) -> Repository {
    Repository::of(
        files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))),
    )
}

/// Breaches of one rule as `path:line`.
fn broken(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let position = |breach: Breach| format!("{}:{}", breach.path, breach.line);
    rule(&repository(files)).into_iter().map(position).collect()
}

fn keeps(rule: Rule, path: &str, text: &str) {
    assert_eq!(
        broken(rule, &[(path, text)]),
        Vec::<String>::new(),
        "{text}"
    );
}

fn breaks(rule: Rule, path: &str, text: &str, line: usize) {
    assert_eq!(
        broken(rule, &[(path, text)]),
        [format!("{path}:{line}")],
        "{text}"
    );
}

const PRODUCTION: &str = "daemon/store/src/push.rs";
const TEST: &str = "daemon/store/tests/push.rs";
const PLUGIN: &str = "client/spark/src/main/scala/org/apache/spark/shuffle/lodestone/push/A.scala";
const SUITE: &str = "client/spark/src/test/scala/ASuite.scala";

#[test]
fn a_production_file_may_have_400_lines_and_a_test_file_900() {
    keeps(size::files, PRODUCTION, &"\n".repeat(400));
    breaks(size::files, PRODUCTION, &"\n".repeat(401), 0);
    keeps(size::files, TEST, &"\n".repeat(900));
    breaks(size::files, TEST, &"\n".repeat(901), 0);
}

#[test]
fn a_function_may_have_70_lines() {
    let function = |lines: usize| format!("\ndef a() = {{\n{}}}\n", "    b()\n".repeat(lines - 2));
    keeps(size::functions, PLUGIN, &function(70));
    breaks(size::functions, PLUGIN, &function(71), 2);
}

#[test]
fn code_and_comments_may_have_100_columns_and_texts_and_pages_140() {
    let code = |columns: usize| format!("let a = {};", "1".repeat(columns - 9));
    keeps(size::lines, PRODUCTION, &code(100));
    breaks(size::lines, PRODUCTION, &code(101), 1);
    let comment = |columns: usize| format!("// {}", "a".repeat(columns - 3));
    keeps(size::lines, PRODUCTION, &comment(100));
    breaks(size::lines, PRODUCTION, &comment(101), 1);
    keeps(size::lines, "e2e/A.java", &comment(100));
    breaks(size::lines, "e2e/A.java", &comment(101), 1);
    keeps(size::lines, PLUGIN, &comment(100));
    breaks(size::lines, PLUGIN, &comment(101), 1);
    let text = |columns: usize| format!("const A: &str = \"\n{}\n\";", "a".repeat(columns));
    keeps(size::lines, PRODUCTION, &text(140));
    breaks(size::lines, PRODUCTION, &text(141), 2);
    let docstring = |columns: usize| format!("\"\"\"{}\n\"\"\"", "a".repeat(columns - 3));
    keeps(size::lines, "e2e/a.py", &docstring(100));
    breaks(size::lines, "e2e/a.py", &docstring(101), 1);
    let row = format!("| {} |", "a".repeat(200));
    keeps(size::lines, "docs/a.md", &row);
    breaks(size::lines, "docs/a.md", &"a".repeat(141), 1);
}

#[test]
fn a_newcomer_reads_80_and_100_lines_and_the_map_of_the_code_fits_on_a_screen() {
    keeps(size::first_pages, "README.md", &"a\n".repeat(80));
    breaks(size::first_pages, "README.md", &"a\n".repeat(81), 0);
    keeps(size::first_pages, MAP, &"a\n".repeat(100));
    breaks(size::first_pages, MAP, &"a\n".repeat(101), 0);
    let row = |columns: usize| format!("a\n| {} |", "a".repeat(columns - 4));
    keeps(size::lines, MAP, &row(140));
    breaks(size::lines, MAP, &row(141), 2);
}

#[test]
fn words_with_several_meanings_are_found_in_prose_and_names() {
    keeps(words::plain, PRODUCTION, "// The toldest anewt: nothing.\n");
    breaks(words::plain, PRODUCTION, "\n// The driver is told.\n", 2);
    breaks(words::plain, "Makefile", "# unless told otherwise\n", 1);
    keeps(words::plain, PRODUCTION, "/// The bytes of a row.\n");
    breaks(words::plain, PRODUCTION, "    /// Of a row.\n", 1);
    breaks(words::plain, TEST, "fn a_reader_is_told() {}\n", 1);
    breaks(
        words::plain,
        "docs/a.md",
        "Services go on all the same.\n",
        1,
    );
    keeps(words::plain, "STYLE.md", "Do not use \"told\".\n");
}

#[test]
fn a_source_root_may_have_twelve_entries() {
    let paths = |count: usize| (0..count).map(|n| format!("daemon/wire/src/m{n}.rs"));
    let crowded = |count| Repository::of(paths(count).map(|path| (path, Some(String::new()))));
    assert_eq!(size::roots(&crowded(12)), []);
    assert_eq!(size::roots(&crowded(13)).len(), 1);
}

#[test]
fn names_that_say_nothing_are_found_in_files_and_types() {
    breaks(names::files, "daemon/wire/src/byte_utils.rs", "", 0);
    breaks(names::files, "client/common/A.java", "", 0);
    keeps(
        names::files,
        "daemon/wire/src/commons_of_the_people_utility.toml",
        "",
    );
    breaks(names::types, PLUGIN, "\nfinal class PushManager(a: Int)", 2);
    breaks(names::types, PRODUCTION, "mod helpers {", 1);
    keeps(
        names::types,
        PLUGIN,
        "class LodestoneShuffleManager(conf: SparkConf)",
    );
    let stub = "client/stubs/engine/src/main/java/MemoryUtil.java";
    keeps(names::types, stub, "public class MemoryUtil {");
    keeps(names::files, stub, "");
    keeps(
        names::types,
        PRODUCTION,
        "// struct Util;\nstruct Utilisation;",
    );
}

#[test]
fn marks_of_unfinished_work_are_found_in_comments_only() {
    breaks(
        leftovers::comments,
        PRODUCTION,
        "let a = 1; // TODO: more",
        1,
    );
    breaks(leftovers::comments, "e2e/a.py", "# FIXME", 1);
    keeps(
        leftovers::comments,
        PRODUCTION,
        "let a = \"TODO\"; // a TODOs",
    );
}

#[test]
fn code_in_a_comment_is_dead() {
    breaks(leftovers::comments, PRODUCTION, "    // let a = b();", 1);
    keeps(
        leftovers::comments,
        PRODUCTION,
        "/// let a = b();\n// Ends with a semicolon;\na(); // b();",
    );
}

#[test]
fn output_of_the_plugin_and_allow_attributes_of_files_are_found() {
    breaks(leftovers::code, TEST, "\n#![allow(dead_code)]", 2);
    keeps(
        leftovers::code,
        PRODUCTION,
        "#![expect(dead_code, reason = \"#![allow(\")]",
    );
    breaks(leftovers::code, PLUGIN, "println(a)", 1);
    keeps(leftovers::code, SUITE, "println(a)");
}

#[test]
fn a_log_line_has_fields_and_a_constant_sentence() {
    breaks(
        leftovers::log_lines,
        PRODUCTION,
        "info!(\"took {}\", a);",
        1,
    );
    breaks(
        leftovers::log_lines,
        PRODUCTION,
        "warn!(\n    \"took {:?}\",\n    a\n);",
        1,
    );
    keeps(
        leftovers::log_lines,
        PRODUCTION,
        "info!(took = a, \"done\");\nlet b = format!(\"{}\", a);",
    );
}

#[test]
fn the_disk_and_the_clock_are_confined_to_their_modules() {
    breaks(confined::calls, PRODUCTION, "use std::fs;", 1);
    keeps(confined::calls, "daemon/store/src/fs/os.rs", "use std::fs;");
    breaks(confined::calls, PRODUCTION, "let a = Instant::now();", 1);
    keeps(
        confined::calls,
        "daemon/store/src/resource/clock.rs",
        "let a = Instant::now();",
    );
    keeps(confined::calls, TEST, "let a = Instant::now();");
}

#[test]
fn handlers_make_no_message_of_bytes_themselves() {
    let line = "let message = EndApplication::from_bytes(body)?;";
    let handlers = "daemon/server/src/handler";
    breaks(confined::calls, &format!("{handlers}/remove.rs"), line, 1);
    keeps(confined::calls, &format!("{handlers}/mod.rs"), line);
    keeps(confined::calls, TEST, line);
}

#[test]
fn unsafe_code_is_found_outside_of_its_module() {
    breaks(confined::calls, PRODUCTION, "unsafe { a() }", 1);
    keeps(
        confined::calls,
        "daemon/store/src/resource/allocator.rs",
        "unsafe { a() }",
    );
    keeps(confined::calls, PRODUCTION, "let s = \"unsafe \";");
    keeps(
        confined::calls,
        PRODUCTION,
        "#[cfg(test)]\nmod tests {\n    unsafe { a() }\n}\n",
    );
    breaks(
        confined::calls,
        PRODUCTION,
        "#[cfg(test)]\nmod tests {\n}\nfn a() { unsafe { b() } }\n",
        4,
    );
}

#[test]
fn a_catch_all_needs_its_reason_beside_it() {
    breaks(confined::catch_alls, PLUGIN, "\n  case NonFatal(e) =>", 2);
    breaks(confined::catch_alls, PLUGIN, "case e: Throwable => f(e)", 1);
    breaks(confined::catch_alls, PLUGIN, "} catch (Exception e) {", 1);
    keeps(
        confined::catch_alls,
        PLUGIN,
        "// best effort: the task goes on\ncase NonFatal(e) =>",
    );
    keeps(
        confined::catch_alls,
        PLUGIN,
        "import scala.util.control.NonFatal\ncase e: IOException =>",
    );
    keeps(confined::catch_alls, SUITE, "case NonFatal(e) =>");
}

#[test]
fn more_than_twelve_catch_alls_are_too_many() {
    let handlers = |count: usize| "case NonFatal(e) => // why\n".repeat(count);
    keeps(confined::catch_alls, PLUGIN, &handlers(12));
    assert_eq!(
        broken(confined::catch_alls, &[(PLUGIN, &handlers(13))]),
        ["client:0"]
    );
}

#[test]
fn wire_and_store_know_the_model_and_not_each_other() {
    let (wire, store) = ("daemon/wire/Cargo.toml", "daemon/store/Cargo.toml");
    let model = "daemon/model/Cargo.toml";
    breaks(
        confined::dependencies,
        wire,
        "[dependencies]\ntokio = \"1\"",
        2,
    );
    breaks(
        confined::dependencies,
        store,
        "lodestone-wire.workspace = true",
        1,
    );
    breaks(
        confined::dependencies,
        store,
        "lodestone-wire = { path = \"../wire\" }",
        1,
    );
    breaks(
        confined::dependencies,
        model,
        "lodestone-wire.workspace = true",
        1,
    );
    keeps(
        confined::dependencies,
        wire,
        "lodestone-model.workspace = true",
    );
    keeps(
        confined::dependencies,
        store,
        "lodestone-store = { path = \".\" }\nlodestone-model.workspace = true",
    );
    keeps(
        confined::dependencies,
        "daemon/server/Cargo.toml",
        "tokio = \"1\"",
    );
}

#[test]
fn modules_that_use_each_other_in_a_circle_are_found() {
    let low = ("daemon/store/src/low.rs", "use super::fs::Fs;");
    let middle = ("daemon/store/src/middle/a.rs", "use crate::low::B;");
    let high = (
        "daemon/store/src/high/mod.rs",
        "use crate::{middle::A, low};",
    );
    let root = ("daemon/store/src/lib.rs", "mod high;\npub use high::A;");
    let with = |file| broken(modules::cycles, &[low, middle, high, root, file]);
    for kept in [
        "use lodestone_model::crate_of;\nuse super::low_too;",
        "// use crate::high::C;",
        "#[cfg(test)]\nuse crate::high::C;\n",
    ] {
        assert_eq!(with(("daemon/store/src/low/b.rs", kept)), [""; 0], "{kept}");
    }
    let all = [
        "daemon/store/src/high/mod.rs:1",
        "daemon/store/src/low/b.rs:2",
        "daemon/store/src/middle/a.rs:1",
    ];
    for cycle in [
        "\nuse crate::high::{\n    C, D,\n};",
        "\nuse crate::{fs::{E, F}, high::G};",
        "\nfn a() { crate::high::c() }",
        "\nuse super::super::high;",
    ] {
        let mut lines = with(("daemon/store/src/low/b.rs", cycle));
        lines.sort();
        lines.dedup();
        assert_eq!(lines, all, "{cycle}");
    }
    let other_crate = ("daemon/bench/src/low.rs", "use crate::low::A;");
    assert_eq!(with(other_crate), [""; 0]);
    let hidden = ("daemon/store/src/low/b.rs", "use crate::Store;");
    assert_eq!(with(hidden), ["daemon/store/src/low/b.rs:1"]);
}

#[test]
fn sleeps_are_found_in_tests_of_every_language() {
    breaks(test_quality::sleeps, TEST, "std::thread::sleep(a);", 1);
    breaks(test_quality::sleeps, SUITE, "Thread.sleep(100)", 1);
    breaks(
        test_quality::sleeps,
        "e2e/tests/test_a.py",
        "time.sleep(1)",
        1,
    );
    keeps(
        test_quality::sleeps,
        TEST,
        "// thread::sleep(a)\nlet oversleep = asleep(1);",
    );
    breaks(
        test_quality::sleeps,
        PRODUCTION,
        "#[cfg(test)]\nmod tests {\n    sleep(a);\n}\n",
        3,
    );
}

#[test]
fn a_matches_without_an_assertion_is_found() {
    breaks(test_quality::bare_matches, TEST, "a();\nmatches!(b, C);", 2);
    keeps(
        test_quality::bare_matches,
        TEST,
        "assert!(\nmatches!(b, C));\nassert!(matches!(b, C));",
    );
}

#[test]
fn the_name_of_a_test_is_a_sentence() {
    breaks(test_quality::names, TEST, "#[test]\nfn works() {}", 2);
    keeps(
        test_quality::names,
        TEST,
        "#[test]\nfn a_block_is_served_once() {}\nfn short() {}",
    );
    breaks(
        test_quality::names,
        SUITE,
        "@Test\ndef testPush(): Unit = {",
        2,
    );
    keeps(
        test_quality::names,
        SUITE,
        "@Test def aBlockIsServedOnce(): Unit = {",
    );
    keeps(
        test_quality::names,
        SUITE,
        "@Test\ndef `a block is served once`(): Unit = {",
    );
    breaks(
        test_quality::names,
        "e2e/tests/test_a.py",
        "def test_push():",
        1,
    );
}

#[test]
fn a_source_file_starts_with_its_licence() {
    keeps(
        spdx::first_line,
        PRODUCTION,
        "// SPDX-License-Identifier: Apache-2.0\n",
    );
    keeps(
        spdx::first_line,
        ".ci/run",
        "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
    );
    breaks(spdx::first_line, PRODUCTION, "//! A crate.\n", 1);
    keeps(spdx::first_line, "docs/a.md", "# A\n");
}

#[test]
fn a_rust_file_that_no_mod_declares_is_dead() {
    let alive = [
        ("d/a/src/lib.rs", "mod b;"),
        ("d/a/src/b.rs", "pub(crate) mod c;"),
    ];
    assert_eq!(
        broken(
            dead::rust_files,
            &[alive[0], alive[1], ("d/a/src/b/c.rs", "")]
        ),
        [""; 0]
    );
    assert_eq!(
        broken(dead::rust_files, &[alive[0], ("d/a/src/b/mod.rs", "")]),
        [""; 0]
    );
    let forgotten = ("d/a/src/c.rs", "");
    assert_eq!(
        broken(dead::rust_files, &[alive[0], alive[1], forgotten]),
        ["d/a/src/c.rs:0"]
    );
    keeps(dead::rust_files, "d/a/tests/push.rs", "");
    let commented = ("d/a/src/lib.rs", "// mod b;");
    assert_eq!(
        broken(dead::rust_files, &[commented, ("d/a/src/b.rs", "")]),
        ["d/a/src/b.rs:0"]
    );
}

#[test]
fn a_page_that_no_page_links_to_is_dead() {
    let page = ("docs/a.md", "[me](a.md)");
    assert_eq!(broken(dead::pages, &[page]), ["docs/a.md:0"]);
    assert_eq!(
        broken(dead::pages, &[page, ("README.md", "[a](docs/a.md#b)")]),
        [""; 0]
    );
    assert_eq!(
        broken(dead::pages, &[page, ("README.md", "[a](docs/)")]),
        [""; 0]
    );
}

#[test]
fn a_page_has_one_title_and_its_links_lead_somewhere() {
    keeps(documents::titles, "a.md", "# A\n```\n# no title\n```\n");
    breaks(documents::titles, "a.md", "# A\n# B\n", 0);
    breaks(documents::titles, "a.md", "text\n", 0);
    breaks(documents::links, "docs/a.md", "# A\n[b](../b.md)\n", 2);
    keeps(
        documents::links,
        "docs/a.md",
        "[a](./a.md#x) [b](../docs/) [c](https://c) [d](#d)",
    );
}

#[test]
fn every_test_that_a_page_names_exists() {
    let page = "# A\n| what | tests |\n|---|---|\n| a | `it_works`, `it does` |\n\n`not_a_test`\n";
    let page = ("docs/a.md", page);
    let python = ("e2e/tests/test_a.py", "def it_works():\n");
    let scala = ("client/src/test/A.scala", "@Test def `it does`(): Unit");
    assert_eq!(
        broken(documents::named_tests, &[page, python, scala]),
        [""; 0]
    );
    assert_eq!(
        broken(documents::named_tests, &[page, scala]),
        ["docs/a.md:4"]
    );
    let elsewhere = ("client/src/main/A.scala", "def it_works() = 1");
    assert_eq!(
        broken(documents::named_tests, &[page, scala, elsewhere]),
        ["docs/a.md:4"]
    );
}

#[test]
fn every_file_of_the_life_table_exists() {
    let table = "| stage | store `s/` | jvm |\n|---|---|---|\n| push | `push.rs` | - |\n";
    assert_eq!(
        broken(layout::life_table, &[(MAP, table)]),
        ["ARCHITECTURE.md:3"]
    );
    assert_eq!(
        broken(layout::life_table, &[(MAP, table), ("s/push.rs", "")]),
        [""; 0]
    );
    assert_eq!(
        broken(layout::life_table, &[(MAP, "no table")]),
        ["ARCHITECTURE.md:0"]
    );
    let paths = "see `daemon/wire/` and `daemon/none.rs`, not `spark.a/b`";
    let files = [(MAP, paths), ("daemon/wire/src/lib.rs", "")];
    assert_eq!(broken(layout::named_paths, &files), ["ARCHITECTURE.md:1"]);
}

const MAP: &str = "ARCHITECTURE.md";

#[test]
fn configuration_keys_are_counted_in_their_table() {
    let page = |keys: usize| {
        format!(
            "| key | default |\n|---|---|\n{}",
            "| a | b |\n".repeat(keys)
        )
    };
    let pages = |daemon: usize, plugin: usize| {
        let (daemon, plugin) = (page(daemon), page(plugin));
        broken(
            config::key_counts,
            &[
                ("docs/operations.md", &daemon),
                ("docs/configuration.md", &plugin),
            ],
        )
    };
    assert_eq!(pages(25, 15), [""; 0]);
    assert_eq!(
        pages(26, 16),
        ["docs/operations.md:0", "docs/configuration.md:0"]
    );
    assert_eq!(pages(0, 1), ["docs/operations.md:0"]);
}

#[test]
fn a_breach_reads_as_path_line_rule_and_advice() {
    let breach = Breach::at("a.rs", 3, "place", "go away");
    assert_eq!(breach.to_string(), "a.rs:3: place: go away");
}

#[test]
fn packages_of_the_plugin_use_each_other_in_one_direction() {
    let folder = "client/spark/src/main/scala/org/apache/spark/shuffle/lodestone";
    let (low, high) = (
        format!("{folder}/plan/A.scala"),
        format!("{folder}/driver/loss/B.scala"),
    );
    let root = format!("{folder}/Manager.scala");
    let import =
        |what: &str| format!("package a\nimport org.apache.spark.shuffle.lodestone.{what}\n");
    let with = |of_low: &str| {
        let files = [
            (low.as_str(), import(of_low)),
            (high.as_str(), import("plan.{A, C}")),
            (root.as_str(), import("driver.loss.B")),
        ];
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (*path, text.as_str()))
            .collect();
        broken(modules::packages, &files)
    };
    assert_eq!(with("plan.C"), [""; 0]);
    assert_eq!(with("wire._"), [""; 0]);
    let both = [format!("{high}:2"), format!("{low}:2")];
    assert_eq!(with("driver.loss.B"), both);
    assert_eq!(with("driver.loss.{"), both);
    let all = [format!("{high}:2"), format!("{root}:2"), format!("{low}:2")];
    let mut found = with("Manager");
    found.sort();
    let mut all = all.to_vec();
    all.sort();
    assert_eq!(found, all);
}

#[test]
fn driver_and_executor_and_push_and_fetch_stay_apart() {
    let root = "client/spark/src/main/scala/org/apache/spark/shuffle/lodestone";
    let using = |folder: &str, used: &str| {
        let path = format!("{root}/{folder}/A.scala");
        let text = format!("package a\nimport org.apache.spark.shuffle.lodestone.{used}.B\n");
        broken(modules::packages, &[(&path, &text)]).len()
    };
    assert_eq!(using("driver/plans", "executor.link"), 1);
    assert_eq!(using("executor/fetch", "driver"), 1);
    assert_eq!(using("executor/fetch/remote", "executor.push.records"), 1);
    assert_eq!(using("executor/push", "executor.fetch"), 1);
    assert_eq!(using("executor/push/remote", "executor.push.records"), 0);
    assert_eq!(using("driver/plans", "driver.services"), 0);
}
