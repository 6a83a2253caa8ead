// SPDX-License-Identifier: Apache-2.0

use super::{Kind, Language, kinds, only};

fn code(source: &str, language: Language) -> String {
    let chars: Vec<char> = source.chars().collect();
    only(&chars, &kinds(&chars, language), Kind::Code)
}

fn comments(source: &str, language: Language) -> String {
    let chars: Vec<char> = source.chars().collect();
    only(&chars, &kinds(&chars, language), Kind::Comment)
        .trim()
        .to_owned()
}

fn squeezed(source: &str, language: Language) -> String {
    code(source, language)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_content_of_a_text_is_not_code() {
    assert_eq!(squeezed("f(\"{ unsafe }\");", Language::Rust), "f( );");
    assert_eq!(squeezed(r#"f("a \" b", c)"#, Language::Java), "f( , c)");
    assert_eq!(squeezed("f('# no comment')", Language::Python), "f( )");
}

#[test]
fn raw_texts_end_where_their_hashes_say() {
    assert_eq!(squeezed("a(r#\"x \" y\"#, b)", Language::Rust), "a( , b)");
    assert_eq!(squeezed("bar(\"x\")", Language::Rust), "bar( )");
}

#[test]
fn triple_quotes_span_lines_and_keep_the_line_count() {
    let masked = code(
        "val s = \"\"\"{\n \"{\" \n\"\"\"\nval t = 1",
        Language::Scala,
    );
    assert_eq!(masked.lines().count(), 4);
    assert!(!masked.contains('{'));
    assert!(masked.ends_with("val t = 1"));
}

#[test]
fn lifetimes_are_code_and_characters_are_not() {
    assert_eq!(
        squeezed("fn f<'a>(x: &'a str) { '{' }", Language::Rust),
        "fn f<'a>(x: &'a str) { }"
    );
    assert_eq!(
        squeezed(r"g('\'', '\u{7b}', h)", Language::Rust),
        "g( , , h)"
    );
}

#[test]
fn block_comments_nest_in_rust_and_scala_but_not_in_java() {
    assert_eq!(squeezed("a /* b /* c */ d */ e", Language::Rust), "a e");
    assert_eq!(squeezed("a /* b /* c */ d", Language::Java), "a d");
}

#[test]
fn comments_can_be_read_alone() {
    assert_eq!(
        comments("let url = \"http://x\"; // why", Language::Rust),
        "// why"
    );
    assert_eq!(comments("x = 1  # why", Language::Python), "# why");
}

#[test]
fn an_unfinished_text_or_comment_ends_with_the_file() {
    assert_eq!(squeezed("a \"b", Language::Rust), "a");
    assert_eq!(squeezed("a /* b", Language::Rust), "a");
    assert_eq!(squeezed("a '", Language::Scala), "a '");
    assert_eq!(squeezed("a \"\"\"b\\", Language::Java), "a");
}
